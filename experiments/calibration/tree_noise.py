"""Is the number of trees right that `n_trees_needed` gives?

Run: python experiments/calibration/tree_noise.py [--repetitions 30] [--n-jobs N]

Per data set, three forests: one of 100 trees, one that differs in its seed only, and one of as many trees as the first
needs. The table, tree_noise.csv beside this script, has the share of the standard errors of useless features that more
trees would remove, with 100 trees and with as many as needed; and the squared differences of the scores of the first
two forests over their expectation, twice the forest noise. The standard errors of these means end in "_se".
"""

from __future__ import annotations

import argparse
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
from checkpoints import Record
from design import Design, draw
from designs_hard import CLASSES, OTHERS
from designs_null import BASIC
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

import truewood as tw
from truewood._inference.standard_errors import average_tree_noise

DESIGNS: dict[str, Design] = {
    "100 rows, 200 columns, regression": OTHERS["p > n, strong features, regression"],
    "100 rows, 200 columns, classification": OTHERS["p > n, strong features"],
    "500 rows, 9 useless columns, regression": BASIC["500 rows, regression"],
    "500 rows, 9 useless columns, classification": BASIC["500 rows"],
    "a class of 4%, 13 columns": CLASSES["a class of 4 %, four features"],
}
N_TREES = 100


def find_noise(result: tw.ImportanceResult) -> float:
    """Share of the standard errors that more trees would remove, on average over useless features."""
    return average_tree_noise(result.tree_noise, result.null_std_error, result.values)


def run_one(name: str, number: int) -> Record:
    """Figures of one data set."""
    design = DESIGNS[name]
    with threadpool_limits(1):
        X, y = draw(design, np.random.default_rng([number, zlib.crc32(name.encode())]), design.n_rows)

        def score(n_trees: int, seed: int) -> tw.ImportanceResult:
            return tw.importance(design.make_model(seed).set_params(n_estimators=n_trees).fit(X, y), X, y)

        first, second = score(N_TREES, 2 * number), score(N_TREES, 2 * number + 1)
        needed = first.n_trees_needed
        enough = score(needed, 2 * number)
    forest_noise = (first.per_tree.var(axis=0, ddof=1) + second.per_tree.var(axis=0, ddof=1)) / N_TREES
    return {
        "design": name,
        "tree_noise": find_noise(first),
        "n_trees_needed": needed,
        "tree_noise_then": find_noise(enough),
        "noise_ratio": ((first.values - second.values) ** 2).sum() / forest_noise.sum(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=30, help="data sets per design")
    parser.add_argument("--n-jobs", type=int, default=-1, help="processes; all cores by default")
    options = parser.parse_args()
    work = [(name, number) for name in DESIGNS for number in range(options.repetitions)]
    entries = pd.DataFrame(Parallel(n_jobs=options.n_jobs)(delayed(run_one)(*step) for step in work))
    groups = entries.groupby("design", sort=False)
    table, errors = groups.mean(), groups.sem()
    for column in table.columns:
        table[f"{column}_se"] = errors[column]
    table.insert(0, "data_sets", groups.size())
    table.to_csv(Path(__file__).with_suffix(".csv"), float_format="%.4g")
    print(table.T.to_string(float_format=lambda number: f"{number:.3g}"))


if __name__ == "__main__":
    main()
