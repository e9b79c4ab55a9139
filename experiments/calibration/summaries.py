"""What a journal keeps of a data set, and the tables that come of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from design import Design, Fitted, Record, draw
from peers import compare_tests
from scipy import stats

import truewood as tw

ALPHA = 0.05
TOGETHER = "all together"
Entries = dict[str, list[Record]]


def describe_null(fitted: Fitted) -> Record:
    """P-values and z-scores of all features, and of all together."""
    result = fitted.result
    record = {"p_value": result.p_value, "z": result.z_score, "is_used": result.null_std_error > 0}
    record["total"] = [result.total_p_value, result.values.sum() / (result.total_error or 1.0)]
    if fitted.design.has_mirror:
        record["janitza_p_value"] = result.janitza_p_value()
    return record


def describe_coverage(fitted: Fitted) -> Record:
    """Score and interval of the first feature; on held-out rows also its score on many."""
    design, result = fitted.design, fitted.result
    truth = float("nan")
    if design.rows == "heldout":
        X, y = draw(design, fitted.rng, 50_000, is_heldout=True)
        truth = tw.importance(fitted.model, X, y, rows="heldout", measure=result.measure, inference=False).values[0]
    low, high = result.interval()
    first = {"value": result.values, "std_error": result.std_error, "p_value": result.p_value, "low": low, "high": high}
    return {**{name: array[0] for name, array in first.items()}, "truth": truth}


def describe_power(fitted: Fitted) -> Record:
    """P-value of the first feature by each test, and seconds."""
    return {"tests": compare_tests(fitted)}


def tabulate_null(designs: dict[str, Design], entries: Entries) -> pd.DataFrame:
    """Share of rejections by design, test and kind of feature.

    Columns: `share_used` is the share of tests in which any split uses the feature (the others have p = 1), z_mean and
    z_sd are over these; `false_discovery_bh_10` is the mean share of useless features among the discoveries after
    Benjamini & Hochberg at 10 %, of all kinds together.
    """
    rows = []
    for name, found in entries.items():
        design = designs[name]
        kinds = np.array(design.features)
        is_null = np.arange(len(kinds)) >= len(design.signal)
        z, is_used = (np.array([entry[part] for entry in found]) for part in ("z", "is_used"))
        for test in ("p_value", "janitza_p_value"):
            if test not in found[0]:
                continue
            p = np.array([entry[test] for entry in found])
            share = _share_false(p, is_null)
            for kind in dict.fromkeys(kinds[is_null]):
                of_kind = is_null & (kinds == kind)
                used = is_used[:, of_kind] > 0
                row = _count(name, test, str(kind), p[:, of_kind], z[:, of_kind][used], len(found))
                rows.append(row | {"false_discovery_bh_10": share, "share_used": used.mean()})
        if not design.signal:
            p, z_total = np.array([entry["total"] for entry in found]).T
            rows.append(_count(name, "total_p_value", TOGETHER, p, z_total, len(found)))
    return pd.DataFrame(rows)


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
        p = np.array([entry["p_value"] for entry in found])[:, n_signal:]
        collected[name] = {
            str(kind): p[:, kinds[n_signal:] == kind].ravel() for kind in dict.fromkeys(kinds[n_signal:])
        }
    return collected


def tabulate_coverage(designs: dict[str, Design], entries: Entries) -> pd.DataFrame:
    """Share of data sets whose interval holds the expected score, by design."""
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
