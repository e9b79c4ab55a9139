"""Time `truewood.interactions` beside `truewood.importance` and shap's interaction values, in one run.

    python benchmarks/interactions.py [--n-rows 10000] [--n-shap-rows 2]

All pairs of 30 features, 100 trees. shap's time grows in proportion to the number of rows, so that it is measured on
few rows and multiplied. Times are processor seconds of this process on one thread, which other work on the machine
hardly affects; each is the least of three. Writes benchmarks/results/interactions.csv.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from machine import describe_machine
from sklearn.ensemble import RandomForestRegressor
from threadpoolctl import threadpool_limits

import truewood as tw

RESULTS = Path(__file__).parent / "results" / "interactions.csv"
N_FEATURES = 30


def measure(call: Callable[[], object], n_times: int = 3) -> float:
    """Least processor time of some calls."""
    times = []
    for _ in range(n_times):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n-rows", type=int, default=10_000)
    parser.add_argument("--n-shap-rows", type=int, default=2)
    given = parser.parse_args()
    import shap

    rng = np.random.default_rng(0)
    X = rng.normal(size=(given.n_rows, N_FEATURES))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + X[:, 0] * X[:, 1] + rng.normal(size=given.n_rows)
    lines = []
    for name, options in (("grown to the end", {}), ("leaves of 5 rows", {"min_samples_leaf": 5})):
        forest = RandomForestRegressor(100, max_features=1 / 3, random_state=0, **options).fit(X, y)
        with threadpool_limits(1):
            importance = measure(lambda forest=forest: tw.importance(forest, X, y))
            interactions = measure(lambda forest=forest: tw.interactions(forest, X, y))
            explainer = shap.TreeExplainer(forest)
            few = X[: given.n_shap_rows]
            by_shap = measure(lambda explainer=explainer, few=few: explainer.shap_interaction_values(few), 1)
        by_shap *= given.n_rows / given.n_shap_rows
        lines.append(
            {
                "trees": name,
                "n_rows": given.n_rows,
                "importance_s": round(importance, 3),
                "interactions_s": round(interactions, 3),
                "shap_s": round(by_shap, 1),
                "times_importance": round(interactions / importance, 1),
                "times_faster_than_shap": round(by_shap / interactions),
            }
        )
        print(lines[-1], flush=True)
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    print(describe_machine())


if __name__ == "__main__":
    main()
