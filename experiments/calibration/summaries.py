"""What a checkpoint keeps of a data set, and the tables computed from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from design import FOLLOWER, Design, Fitted, Record, draw
from peers import compare_tests, drop_residual_test
from scipy import stats

import truewood as tw
from truewood._inference.p_values import find_p_value, find_z_score, janitza

ALPHA = 0.05
TOGETHER = "all together"
RESIDUAL = "residual_p_value"
BY_CLASS = "class_p_value"  # of the last class
TESTS = ("p_value", RESIDUAL, BY_CLASS)
Entries = dict[str, list[Record]]


def describe_null(fitted: Fitted) -> Record:
    """Z-scores of all features by each test, and of all together; 0 if no split uses the feature."""
    result = fitted.result
    usual = drop_residual_test(result)
    record = {"p_value": usual.z_score, "total_p_value": float(find_z_score(result.values.sum(), result.total_error))}
    if fitted.design.has_residual_test:
        record[RESIDUAL] = result.z_score
    if result.classes is not None:
        record[BY_CLASS] = find_z_score(result.classes.values[-1], result.classes.null_std_error[-1])
    return record


def describe_coverage(fitted: Fitted) -> Record:
    """Score and interval of the first feature; on held-out rows also its score on many."""
    design, result = fitted.design, fitted.result
    truth = float("nan")
    if design.rows == "heldout":
        X, y = draw(design, fitted.rng, 50_000, is_heldout=True)
        truth = tw.importance(fitted.model, X, y, rows="heldout", measure=result.measure, inference=False).values[0]
    low, high = result.interval()
    first = {"value": result.values, "std_error": result.std_error, "low": low, "high": high}
    first |= {"p_value": drop_residual_test(result).p_value, RESIDUAL: result.p_value}
    return {**{name: array[0] for name, array in first.items()}, "truth": truth}


def describe_power(fitted: Fitted) -> Record:
    """P-value of the first feature by each test, and seconds."""
    return {"tests": compare_tests(fitted)}


def tabulate_null(designs: dict[str, Design], entries: Entries) -> pd.DataFrame:
    """Share of rejections by design, test and kind of feature.

    Columns: `share_used` is the share of tests in which any split uses the feature (the others have p = 1), z_mean and
    z_sd are over these; `false_discovery_bh_10` is the mean share of useless features among the discoveries after
    Benjamini & Hochberg at 10%, of all kinds together but followers of a signal.
    """
    rows = []
    for name, found in entries.items():
        design = designs[name]
        kinds = np.array(design.features)
        is_null = np.arange(len(kinds)) >= len(design.signal)
        for test, z, p in _list_tests(design, found):
            share = _share_false(p, is_null & ~np.char.startswith(kinds, FOLLOWER))
            for kind in dict.fromkeys(kinds[is_null]):
                of_kind = is_null & (kinds == kind)
                used = z[:, of_kind] != 0
                row = _count(name, test, str(kind), p[:, of_kind], z[:, of_kind][used], len(found))
                rows.append(row | {"false_discovery_bh_10": share, "share_used": used.mean()})
        if not design.signal:
            z = np.array([entry["total_p_value"] for entry in found])
            rows.append(_count(name, "total_p_value", TOGETHER, find_p(z), z, len(found)))
    return pd.DataFrame(rows)


def find_p(z: np.ndarray) -> np.ndarray:
    """P-values of z-scores; 1 if no split uses the feature."""
    return find_p_value(z, (z != 0).astype(float))


def _list_tests(design: Design, found: list[Record]) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, z-scores and p-values of each test."""
    for test in TESTS:
        if test in found[0] and (test != RESIDUAL or design.has_residual_test):
            z = np.array([entry[test] for entry in found])
            yield test, z, find_p(z)
    if design.has_mirror:
        z = np.array([entry["p_value"] for entry in found])
        yield "janitza_p_value", z, np.array([janitza(own) for own in z])


def _count(design: str, test: str, kind: str, p: np.ndarray, z: np.ndarray, n_data_sets: int) -> Record:
    return {
        "design": design,
        "test": test,
        "kind": kind,
        "data_sets": n_data_sets,
        "tests": p.size,
        "rejected_5": (p <= ALPHA).mean(),
        "rejected_1": (p <= 0.01).mean(),
        "false_discovery_bh_10": np.nan,
        "z_mean": z.mean() if z.size else np.nan,
        "z_sd": z.std(ddof=1) if z.size > 1 else np.nan,
        "share_used": np.nan,
    }


def _share_false(p: np.ndarray, is_null: np.ndarray) -> float:
    is_found = stats.false_discovery_control(p, axis=1) <= 0.10
    return float((is_found[:, is_null].sum(axis=1) / np.maximum(is_found.sum(axis=1), 1)).mean())


def collect_p_values(designs: dict[str, Design], entries: Entries) -> dict[str, dict[str, np.ndarray]]:
    """All p-values of useless features, by design and kind."""
    collected: dict[str, dict[str, np.ndarray]] = {}
    for name, found in entries.items():
        kinds, n_signal = np.array(designs[name].features), len(designs[name].signal)
        p = find_p(np.array([entry["p_value"] for entry in found])[:, n_signal:])
        collected[name] = {
            str(kind): p[:, kinds[n_signal:] == kind].ravel() for kind in dict.fromkeys(kinds[n_signal:])
        }
    return collected


def tabulate_coverage(designs: dict[str, Design], entries: Entries) -> pd.DataFrame:
    """Share of data sets whose interval contains the expected score, by design."""
    rows = []
    for name, found in entries.items():
        table = pd.DataFrame(found)
        # Held-out rows: the score of that fixed model; out of bag: the expected score over data sets.
        truth = table["truth"] if designs[name].rows == "heldout" else table["value"].mean()
        kind = designs[name].signal[0][0]
        rows.append(
            {
                "design": name.removesuffix(f", {kind}"),
                "signal": kind,
                "coverage_95": ((table["low"] <= truth) & (truth <= table["high"])).mean(),
                "too_low": (table["high"] < truth).mean(),
                "too_high": (table["low"] > truth).mean(),
                "std_error_over_spread": table["std_error"].mean() / (table["value"] - truth).std(ddof=1),
                "mean_score": table["value"].mean(),
                "rejected_5": (table["p_value"] <= ALPHA).mean(),
                "rejected_5_residual": (table[RESIDUAL] <= ALPHA).mean() if designs[name].has_residual_test else np.nan,
                "data_sets": len(table),
            }
        )
    return pd.DataFrame(rows)


def tabulate_power(designs: dict[str, Design], entries: Entries) -> pd.DataFrame:
    """Share of data sets in which a test rejects, by design, test and strength; and seconds it takes beside the fit."""
    rows: list[dict[str, Any]] = []
    for name, found in entries.items():
        kind, strength = designs[name].signal[0]
        for test in found[0]["tests"]:
            p, seconds = np.array([entry["tests"].get(test, (np.nan, np.nan)) for entry in found]).T
            rows.append(
                {
                    "design": name.removesuffix(f", {kind}, {strength}"),
                    "test": test,
                    "signal": kind,
                    "strength": strength,
                    "rejected_5": np.nan if np.isnan(p).all() else (p <= ALPHA).mean(),
                    "seconds": np.nanmean(seconds),
                    "data_sets": len(found),
                }
            )
    return pd.DataFrame(rows)
