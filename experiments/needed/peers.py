"""`sobol_mda` beside UFI, leaving columns out by refits (LOCO), and conditional permutation importance, with costs.

Run: python experiments/needed/peers.py [--repetitions 30] [--r-repetitions 10]

The data sets are those of the design "copy": 300 rows, y = x0 + 0.5 x2 + noise, x1 = x0 + 0.3 noise, x3 to x5 noise;
forests of 50 trees with leaves of 5 rows. Writes peers.csv beside this file. Conditional importance is that of R's
party (experiments/install_peers.sh); without it, its lines are left out.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from designs import DESIGNS
from scipy.stats import norm
from sklearn.base import clone

import truewood as tw

FOLDER = Path(__file__).parent
DESIGN, N_TREES = DESIGNS["copy"], 50
Line = dict[str, object]


def draw(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Data set k, that of study.py."""
    X, y, _ = DESIGN.draw(np.random.default_rng([number, *b"copy"]))
    return X, y


def predict_oob(forest: object, X: np.ndarray) -> np.ndarray:
    """Predictions of the trees that never saw a row."""
    total, n = np.zeros(len(X)), np.zeros(len(X))
    for tree, bag in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        rows = np.setdiff1d(np.arange(len(X)), bag)
        total[rows] += tree.predict(X[rows])
        n[rows] += 1
    return total / n


def leave_out(X: np.ndarray, y: np.ndarray, forest: object) -> tuple[np.ndarray, np.ndarray]:
    """Scores and p-values by refitting without each column: out-of-bag losses of rows less those with it."""
    before = (y - predict_oob(forest, X)) ** 2
    values, p_values = [], []
    for j in range(X.shape[1]):
        others = np.delete(X, j, axis=1)
        lost = (y - predict_oob(clone(forest).fit(others, y), others)) ** 2 - before
        values.append(lost.mean() / y.var())
        p_values.append(norm.sf(lost.mean() / lost.std() * np.sqrt(len(y))))
    return np.array(values), np.array(p_values)


def score_one(number: int) -> list[Line]:
    """Scores of a data set by the methods of Python."""
    X, y = draw(number)
    started = time.process_time()
    forest = DESIGN.fit(X, y, number)
    of_fit = time.process_time() - started
    lines = []
    for method in ("sobol_mda", "ufi", "LOCO, refits"):
        started = time.process_time()
        if method == "LOCO, refits":
            values, p_values = leave_out(X, y, forest)
        else:
            result = tw.importance(forest, X, y, measure="auto" if method == "ufi" else method, n_jobs=1)
            values, p_values = result.share, result.p_value
        seconds = time.process_time() - started
        columns = zip(values, p_values, strict=True)
        lines += [
            {
                "method": method,
                "column": f"x{j}",
                "score": value,
                "p_value": p,
                "seconds": seconds,
                "fits": seconds / of_fit,
            }
            for j, (value, p) in enumerate(columns)
        ]
    return lines


def run_party(n_sets: int) -> list[Line]:
    """Scores by party's conditional importance, as shares of the variance; costs in fits of its own forest."""
    if shutil.which("Rscript") is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(n_sets):
            X, y = draw(number)
            table = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(target=y)
            table.to_csv(Path(folder) / f"{number}.csv", index=False)
        script = str(FOLDER / "conditional.R")
        done = subprocess.run(["Rscript", script, folder, str(N_TREES)], capture_output=True, text=True, check=True)
    lines: list[Line] = []
    for printed in done.stdout.splitlines():
        number, of_fit, seconds, *values = map(float, printed.split(","))
        variance = draw(int(number))[1].var()
        lines += [
            {
                "method": "party, conditional",
                "column": f"x{j}",
                "score": value / variance,
                "p_value": np.nan,
                "seconds": seconds,
                "fits": seconds / of_fit,
            }
            for j, value in enumerate(values)
        ]
    return lines


def main() -> None:
    """Score the data sets, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=30)
    parser.add_argument("--r-repetitions", type=int, default=10)
    options = parser.parse_args()
    score_one(0)  # loads what is loaded once
    found = [line for number in range(options.repetitions) for line in score_one(number)]
    lines = pd.DataFrame(found + run_party(options.r_repetitions))
    lines["is_rejected"] = (lines["p_value"] <= 0.05).where(lines["p_value"].notna())
    by = lines.groupby(["method", "column"], sort=False)
    table = by["score"].agg(data_sets="size", mean="mean", spread="std")
    table["rejected at 5 %"] = by["is_rejected"].mean()
    table["CPU seconds, median"], table["fits, median"] = by["seconds"].median(), by["fits"].median()
    table.to_csv(FOLDER / "peers.csv", float_format="%.4g")
    print(table.to_string(float_format=lambda number: f"{number:.3g}"))


if __name__ == "__main__":
    main()
