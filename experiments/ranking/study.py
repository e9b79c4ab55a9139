"""Which measure ranks the signals above the noise? Data sets with known signals, see designs.py.

Run: python experiments/ranking/study.py [--n-jobs 1] [--datasets 4] [--most-rows 1000] [--seconds 500]
[--results FILE]

Appends lines to results.csv, one for each data set and method, so that a run that was stopped continues where it was.
Writes two tables beside it: auroc.csv has means by task, response, rows and columns, and differences from mdi_plus_oob
on the same data sets with their standard errors; tests.csv has rejections at 5%. With --seconds, no data set is started
after that time. Data set k of a design always has the same seed. Each job is a process of its own on one core.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from designs import DESIGNS, Design
from joblib import Parallel, delayed
from peers import score_mdi_plus
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import roc_auc_score

import truewood as tw

FIELDS = [
    *(
        "task",
        "columns",
        "response",
        "n_rows",
        "heritability",
        "dataset",
        "method",
        "auroc",
        "auroc_z",
        "auroc_clipped",
    ),
    *("noise", "rejected_noise", "signals", "rejected_signals", "mean_z", "seconds"),
]
KEY = FIELDS[:6]
OURS = ["auto", "mdi_oob", "mdi_plus_oob"]
PEER = "MDI+"
METHODS = [*OURS, "mdi", PEER]
LEVEL = 0.05
# Columns that are independent of the signals, so that noise is a true null.
INDEPENDENT = ("independent", "mixed")


def name_design(design: Design) -> tuple[object, ...]:
    """The design's place in the results."""
    task = "classification" if design.has_classes else "regression"
    return task, design.columns, design.response, design.n_rows, design.heritability


def fit_forest(X: np.ndarray, y: np.ndarray, *, has_classes: bool, seed: int) -> object:
    """The forests of the paper's simulations."""
    if has_classes:
        return RandomForestClassifier(100, random_state=seed).fit(X, y)
    return RandomForestRegressor(100, min_samples_leaf=5, max_features=0.33, random_state=seed).fit(X, y)


def rank(is_signal: np.ndarray, scores: np.ndarray) -> object:
    """Area under the ROC curve; nothing without signals."""
    return f"{roc_auc_score(is_signal, scores):.5g}" if is_signal.any() else ""


def run_one(place: int, number: int, stop: float) -> list[dict[str, object]]:
    """Score one data set with all methods."""
    if time.time() > stop:
        return []
    design, lines = DESIGNS[place], []
    X, y, is_signal = design.draw(np.random.default_rng([20261118, place, number]))
    forest = fit_forest(X, y, has_classes=design.has_classes, seed=number)
    head = dict(zip(KEY, (*name_design(design), number), strict=True))
    for method in METHODS:
        started = time.process_time()
        line: dict[str, object] = head | {"method": method}
        if method == PEER:
            scores = score_mdi_plus(forest, X, y)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = tw.importance(forest, X, y, measure=method)
            scores = result.values
        line |= {"seconds": f"{time.process_time() - started:.4g}", "auroc": rank(is_signal, scores)}
        line["auroc_clipped"] = rank(is_signal, np.maximum(scores, 0.0))
        if method in OURS:
            rejected, noise = result.p_value < LEVEL, ~is_signal
            line |= {"noise": int(noise.sum()), "rejected_noise": int(rejected[noise].sum())}
            line |= {"signals": int(is_signal.sum()), "rejected_signals": int(rejected[is_signal].sum())}
            line |= {"auroc_z": rank(is_signal, result.z_score), "mean_z": f"{result.z_score[noise].mean():.4g}"}
        lines.append(line)
    return lines


def list_missing(results: Path, n_sets: int, most_rows: int) -> Iterator[tuple[int, int]]:
    """Designs of at most so many rows, and data sets, that the results do not hold."""
    known = pd.read_csv(results) if results.exists() else pd.DataFrame(columns=FIELDS)
    done = set(known[KEY].itertuples(index=False, name=None))
    for number in range(n_sets):
        for place, design in enumerate(DESIGNS):
            if design.n_rows <= most_rows and (*name_design(design), number) not in done:
                yield place, number


def run(results: Path, n_sets: int, most_rows: int, n_jobs: int, seconds: float) -> None:
    """Append what is missing."""
    if results.exists():  # ignore lines of an interrupted data set
        lines = results.read_text(encoding="utf-8").splitlines(keepends=True)
        n_whole = (sum(line.endswith("\n") for line in lines) - 1) // len(METHODS)
        os.truncate(results, len("".join(lines[: 1 + max(n_whole, 0) * len(METHODS)]).encode()))
    stop, missing = time.time() + seconds, list(list_missing(results, n_sets, most_rows))
    with results.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if file.tell() == 0:
            writer.writeheader()
        found = Parallel(n_jobs, return_as="generator_unordered")(delayed(run_one)(*place, stop) for place in missing)
        for lines in found:
            writer.writerows(lines)
            file.flush()


def compare(lines: pd.DataFrame) -> pd.DataFrame:
    """Mean AUROC by task, response and number of rows, and differences to mdi_plus_oob on the same data sets."""
    ranked = lines[lines["response"] != "none"]
    rows = []
    for by in (["task"], ["task", "response"], ["task", "response", "n_rows"], ["task", "columns"], ["n_rows"]):
        for group, own in ranked.groupby(by, sort=False):
            table = own.pivot_table(index=KEY, columns="method", values="auroc")
            row = dict(zip(by, group, strict=True)) | {"data sets": len(table)} | table.mean().to_dict()
            for other in (PEER, "auto", "mdi_oob"):
                difference = table["mdi_plus_oob"] - table[other]
                row |= {f"minus {other}": difference.mean(), f"error, {other}": difference.sem()}
            for method in ("auto", "mdi_plus_oob"):
                mean = own.loc[own["method"] == method, ["auroc_z", "auroc_clipped"]].mean()
                row |= {f"{method}, by z": mean["auroc_z"], f"{method}, clipped": mean["auroc_clipped"]}
            row |= own.groupby("method")["seconds"].mean().add_prefix("seconds, ").to_dict()
            rows.append(row)
    return pd.DataFrame(rows)


def count_rejections(lines: pd.DataFrame) -> pd.DataFrame:
    """Share of noise columns and of signals that tests at 5% reject, and mean z-scores of noise."""
    tested = lines[lines["method"].isin(OURS)]
    tested = tested[tested["columns"].isin(INDEPENDENT) | (tested["response"] == "none")]
    tested = tested.assign(null=np.where(tested["response"] == "none", "no signal", "beside signals"))
    rows = []
    for by in (["task", "null", "method"], ["task", "null", "n_rows", "method"], ["task", "response", "method"]):
        for group, own in tested.groupby(by, sort=False):
            row = dict(zip(by, group, strict=True)) | {"data sets": len(own)}
            noise, signals = own["noise"].sum(), own["signals"].sum()
            row |= {"noise": own["rejected_noise"].sum() / noise, "mean z": own["mean_z"].mean()}
            row["power"] = own["rejected_signals"].sum() / signals if signals else np.nan
            rows.append(row)
    return pd.DataFrame(rows)


def main() -> None:
    """Run what is missing, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--datasets", type=int, default=4)
    parser.add_argument("--most-rows", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results.csv")
    options = parser.parse_args()
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # of the processes that are started
    run(options.results, options.datasets, options.most_rows, options.n_jobs, options.seconds)
    lines, folder = pd.read_csv(options.results), options.results.parent
    compare(lines).to_csv(folder / "auroc.csv", index=False, float_format="%.4g")
    count_rejections(lines).to_csv(folder / "tests.csv", index=False, float_format="%.4g")
    print(compare(lines).to_string())
    print(count_rejections(lines).to_string())


if __name__ == "__main__":
    main()
