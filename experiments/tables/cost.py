"""Expected run time of the command, from which it chooses the number of rows, and measured run time.

Writes cost.csv beside this file, in about five minutes of one core: processor seconds of `score_table` with one thread,
which is what `truewood importance` does. Run it from the root of the repository: python experiments/tables/cost.py
"""

from __future__ import annotations

import csv
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from truewood.tabular import FitSettings, _score_table, score_table
from truewood.tabular._checks import cost

FOLDER = Path(__file__).parent
# Rows, columns of numbers, columns of categories of six levels, classes (1: numbers, 0: survival times), and settings.
CASES = {
    "numbers": (54_000, 6, 3, 1, {"n_trees": 40}),
    "numbers, few rows": (2_000, 20, 0, 1, {"n_trees": 200}),
    "numbers, extra-trees": (20_000, 20, 0, 1, {"n_trees": 100, "model": "extra-trees"}),
    "2 classes": (30_000, 10, 2, 2, {"n_trees": 100}),
    "40 classes": (20_000, 10, 0, 40, {"n_trees": 40}),
    "survival times": (1_000, 10, 0, 0, {"n_trees": 50}),
    "numbers, lightgbm": (20_000, 20, 0, 1, {"model": "lightgbm"}),
    "numbers, xgboost": (20_000, 20, 0, 1, {"model": "xgboost"}),
    "numbers, catboost": (20_000, 20, 0, 1, {"model": "catboost"}),
    "numbers, hist-gradient-boosting": (20_000, 20, 0, 1, {"model": "hist-gradient-boosting"}),
    "10 classes, lightgbm": (10_000, 10, 0, 10, {"model": "lightgbm"}),
}


def draw(n_rows: int, n_numbers: int, n_categories: int, n_classes: int) -> pd.DataFrame:
    """A table whose first columns explain about half of the target."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((n_rows, n_numbers)), columns=[f"x{j}" for j in range(n_numbers)])
    for j in range(n_categories):
        X[f"c{j}"] = rng.choice(list("abcdef"), n_rows)
    signal = X["x0"] + X["x1"] ** 2 + X["x2"] * X["x3"] + rng.standard_normal(n_rows)
    if n_classes == 0:
        return X.assign(y=np.exp(-signal / 2), event=rng.integers(0, 2, n_rows))
    if n_classes == 1:
        return X.assign(y=signal)
    return X.assign(y=pd.qcut(signal, n_classes, labels=[f"class {k}" for k in range(n_classes)]).astype(str))


def measure(table: pd.DataFrame, **options: object) -> tuple[float, float]:
    """Expected and measured seconds on one core."""
    expected = []

    def choose_sample(of_fit: cost.Cost, y: np.ndarray, *_others: object) -> None:
        expected.append(of_fit.find_seconds(len(y)))

    _score_table.choose_sample = choose_sample
    event = "event" if "event" in table else None
    begin = time.process_time()
    score_table(table, "y", event=event, settings=FitSettings(n_jobs=1, **options))
    return expected[0], time.process_time() - begin


def start(wanted: list[str]) -> None:
    lines = []
    for name, (n_rows, n_numbers, n_categories, n_classes, options) in CASES.items():
        if wanted and name not in wanted:
            continue
        expected, took = measure(draw(n_rows, n_numbers, n_categories, n_classes), **options)
        line = [name, n_rows, n_numbers, n_categories, options.get("n_trees", ""), round(expected, 1), round(took, 1)]
        lines.append([*line, round(took / expected, 2)])
        print(*lines[-1], flush=True)
    if not wanted:
        with (FOLDER / "cost.csv").open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["case", "rows", "numbers", "categories", "trees", "expected", "took", "ratio"])
            writer.writerows(lines)


if __name__ == "__main__":
    start(sys.argv[1:])
