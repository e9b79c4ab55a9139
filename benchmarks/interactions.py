"""Time what sends rows both ways at splits, beside `truewood.importance`, in one run.

    python benchmarks/interactions.py [--n-rows 10000] [--n-shap-rows 2]    # `interactions`, next to shap
    python benchmarks/interactions.py --residual                            # the residual test

`interactions`: all pairs of 30 features, 100 trees. shap's time grows in proportion to the number of rows, so that it
is measured on few rows and multiplied. The residual test: forests of several sizes, and their fit. Times are processor
seconds of this process on one thread; each is the least of three. Writes benchmarks/results/interactions.csv or
benchmarks/results/residual.csv.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from machine import describe_machine
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from threadpoolctl import threadpool_limits

import truewood as tw

RESULTS = Path(__file__).parent / "results"
N_FEATURES = 30


def measure(call: Callable[[], object], n_times: int = 3) -> float:
    """Least processor time of some calls."""
    times = []
    for _ in range(n_times):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def time_interactions(n_rows: int, n_shap_rows: int) -> list[dict[str, object]]:
    """Time all pairs; shap is left out if it is not given rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, N_FEATURES))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + X[:, 0] * X[:, 1] + rng.normal(size=n_rows)
    lines = []
    for name, options in (("grown to the end", {}), ("leaves of 5 rows", {"min_samples_leaf": 5})):
        forest = RandomForestRegressor(100, max_features=1 / 3, random_state=0, **options).fit(X, y)
        importance = measure(lambda forest=forest: tw.importance(forest, X, y))
        interactions = measure(lambda forest=forest: tw.interactions(forest, X, y))
        line = {
            "trees": name,
            "n_rows": n_rows,
            "importance_s": round(importance, 3),
            "interactions_s": round(interactions, 3),
            "times_importance": round(interactions / importance, 1),
        }
        if n_shap_rows:
            import shap

            explainer = shap.TreeExplainer(forest)
            few = X[:n_shap_rows]
            by_shap = measure(lambda explainer=explainer, few=few: explainer.shap_interaction_values(few), 1)
            by_shap *= n_rows / n_shap_rows
            line |= {"shap_s": round(by_shap, 1), "times_faster_than_shap": round(by_shap / interactions)}
        lines.append(line)
        print(line, flush=True)
    return lines


def time_residual_test() -> list[dict[str, object]]:
    """Time the residual test on forests of several sizes."""
    lines = []
    for make, n_trees, n_rows, n_features in (
        (RandomForestRegressor, 100, 20_000, 30),
        (RandomForestClassifier, 100, 20_000, 30),
        (RandomForestRegressor, 500, 100, 200),
        (RandomForestRegressor, 100, 300, 20),
    ):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n_rows, n_features))
        y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=n_rows)
        forest = make(n_trees, max_features=1 / 3, random_state=0)
        y = y > 0 if make is RandomForestClassifier else y
        fit = measure(lambda forest=forest, X=X, y=y: forest.fit(X, y), 1)
        importance = measure(lambda forest=forest, X=X, y=y: tw.importance(forest, X, y))
        residual = measure(lambda forest=forest, X=X, y=y: tw.importance(forest, X, y, inference="residual"))
        lines.append(
            {
                "model": make.__name__,
                "n_trees": n_trees,
                "n_rows": n_rows,
                "n_features": n_features,
                "fit_s": round(fit, 3),
                "importance_s": round(importance, 4),
                "residual_s": round(residual, 4),
                "times_importance": round(residual / importance, 1),
                "share_of_fit": round(residual / fit, 3),
            }
        )
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n-rows", type=int, default=10_000)
    parser.add_argument("--n-shap-rows", type=int, default=2, help="0 to leave shap out")
    parser.add_argument("--residual", action="store_true", help="time the residual test instead")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder to write tables to")
    given = parser.parse_args()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lines = time_residual_test() if given.residual else time_interactions(given.n_rows, given.n_shap_rows)
    with (given.results / ("residual.csv" if given.residual else "interactions.csv")).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    print(describe_machine())


if __name__ == "__main__":
    main()
