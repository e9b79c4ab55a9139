"""How often do tests of useless features reject if held-out rows that are read in parts are copies of each other?

Run: python experiments/calibration/streamed_copies.py [--repetitions 50] [--n-jobs N]

No feature carries information. 1,000 rows are scored, some of them copies of others, by forests fit on 300 other rows.
What matters is by how much copies inflate the variance of a sum over rows: if a row occurs k times, k^2 instead of k
times. The table, streamed_copies.csv beside this script, has the share of tests that reject at 5%, without the rule
that withholds p-values, and the share of data sets in which that rule applies.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import NormalDist
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from threadpoolctl import threadpool_limits

import truewood as tw
from truewood._streaming import copy_sample

FORESTS = {"classification": RandomForestClassifier, "regression": RandomForestRegressor}
INFLATION = (1.0, 1.1, 1.2, 1.25, 1.3, 1.4, 1.5, 2.0)
TIMES = (2, 5, 10)
N_ROWS, N_FIT, N_SETS, N_FEATURES = 1000, 300, 20, 6


def draw(rng: np.random.Generator, n_rows: int, task: str) -> tuple[np.ndarray, np.ndarray]:
    """Continuous columns and a column of two levels; a target that depends on none of them."""
    X = rng.standard_normal((n_rows, N_FEATURES))
    X[:, -1] = X[:, -1] > 0
    y = rng.standard_normal(n_rows)
    return X, (y > 0).astype(int) if task == "classification" else y


def copy_rows(rng: np.random.Generator, inflation: float, times: int) -> np.ndarray:
    """Numbers of rows, some of which occur so many times that the variance of a sum over rows is inflated so much."""
    n_repeated = round((inflation - 1.0) * N_ROWS / (times * (times - 1)))
    rows = np.arange(N_ROWS - n_repeated * (times - 1))
    return rng.permutation(np.append(rows, np.repeat(rows[:n_repeated], times - 1)))


def run_one(task: str, number: int) -> list[dict[str, Any]]:
    """Tests of one forest on several data sets of each design."""
    rng, entries = np.random.default_rng([number, len(task)]), []
    forest = FORESTS[task](30, random_state=number).fit(*draw(rng, N_FIT, task))
    for times in TIMES:
        for inflation in INFLATION:
            for _ in range(N_SETS):
                X, y = draw(rng, N_ROWS, task)
                rows = copy_rows(rng, inflation, times)
                accumulator = tw.ImportanceAccumulator(forest).update(X[rows], y[rows])
                problem = accumulator._sums.copies.find_problem()
                with threadpool_limits(1), patch.object(copy_sample, "MOST_INFLATION", np.inf):
                    result = accumulator.finish()
                entries.append(
                    {
                        "task": task,
                        "times": times,
                        "inflation": inflation,
                        "rejected": float(np.mean(result.p_value[result.null_std_error > 0] <= 0.05)),
                        "rejected_total": float(result.total_p_value <= 0.05),
                        "withheld": float(problem is not None),
                    }
                )
    return entries


def predict(inflation: float) -> float:
    """Share of normal tests at 5% that reject if the variance is larger than the estimate by this factor."""
    normal = NormalDist()
    return 1.0 - normal.cdf(normal.inv_cdf(0.95) / inflation**0.5)


def tabulate(entries: list[dict[str, Any]]) -> pd.DataFrame:
    """Share of tests that reject, by design, and over all tasks and numbers of copies."""
    table = pd.DataFrame(entries)
    over_all = table.assign(task="all", times=0)
    lines = []
    for (task, times, inflation), found in pd.concat([over_all, table]).groupby(["task", "times", "inflation"]):
        error = found[["rejected", "rejected_total"]].std(ddof=0) / np.sqrt(len(found))
        lines.append(
            {
                "task": task,
                "times": times or "any",
                "inflation": inflation,
                "share_of_copies": (inflation - 1.0) / times if times else np.nan,
                "data_sets": len(found),
                "rejected_5": found["rejected"].mean(),
                "error": error["rejected"],
                "rejected_total_5": found["rejected_total"].mean(),
                "error_total": error["rejected_total"],
                "normal": predict(inflation),
                "withheld": found["withheld"].mean(),
            }
        )
    return pd.DataFrame(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=50, help="forests per task")
    parser.add_argument("--n-jobs", type=int, default=-1, help="processes; all cores by default")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".csv"))
    options = parser.parse_args()
    work = [(task, number) for number in range(options.repetitions) for task in FORESTS]
    found = Parallel(n_jobs=options.n_jobs)(delayed(run_one)(*step) for step in work)
    table = tabulate([entry for entries in found for entry in entries])
    table.to_csv(options.output, index=False, float_format="%.4g")
    print(table.to_string(index=False, float_format=lambda number: f"{number:.3g}"))


if __name__ == "__main__":
    main()
