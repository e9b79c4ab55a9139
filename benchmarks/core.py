"""What does `importance` cost beside the forest's own fit and apply? Prints ratios measured in one run.

Run: python benchmarks/core.py [--rows N] [--trees N] [--task regression]
"""

from __future__ import annotations

import argparse
import time
import tracemalloc

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.inspection import permutation_importance

import truewood as tw


def make_data(n_rows: int, n_features: int, task: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_features)).astype(np.float32)
    score = X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(n_rows)
    return X, score > 0 if task == "classification" else score


def measure_apply(forest: RandomForestClassifier, X: np.ndarray) -> float:
    """Seconds of scikit-learn's own routing of the same rows; taking the rows out of X is not counted."""
    seconds = 0.0
    everything = np.arange(len(X))
    for tree, bag in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        oob = X[np.setdiff1d(everything, bag)]
        start = time.perf_counter()
        tree.tree_.apply(oob)
        seconds += time.perf_counter() - start
    return seconds


def measure_importance(
    forest: RandomForestClassifier, X: np.ndarray, y: np.ndarray, *, inference: bool = False, **options: object
) -> float:
    start = time.perf_counter()
    tw.importance(forest, X, y, inference=inference, **options)
    return time.perf_counter() - start


def measure_memory(forest: RandomForestClassifier, X: np.ndarray, y: np.ndarray, *, inference: bool) -> float:
    """Peak extra memory in MB, as Python and numpy allocate it; the kernel adds 20 bytes per node of one tree."""
    tracemalloc.start()
    tw.importance(forest, X, y, inference=inference)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=30)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--task", choices=["classification", "regression"], default="classification")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--permutation", action="store_true", help="also compare permutation importance")
    options = parser.parse_args()
    X, y = make_data(options.rows, options.features, options.task)
    make = RandomForestClassifier if options.task == "classification" else RandomForestRegressor
    forest = make(options.trees, n_jobs=1, random_state=0)
    start = time.perf_counter()
    forest.fit(X, y)
    fit = time.perf_counter() - start

    apply, scored, threads, inferred, inferred_threads = [], [], [], [], []
    for _ in range(options.repeats):
        apply.append(measure_apply(forest, X))
        scored.append(measure_importance(forest, X, y))
        threads.append(measure_importance(forest, X, y, n_jobs=2))
        inferred.append(measure_importance(forest, X, y, inference=True))
        inferred_threads.append(measure_importance(forest, X, y, inference=True, n_jobs=2))
    table = Table(title=f"{options.task}: {options.trees} trees, {X.shape[0]} rows, {X.shape[1]} features")
    for heading in ("what", "measured"):
        table.add_column(heading)
    nodes = sum(tree.tree_.node_count for tree in forest.estimators_)
    table.add_row("nodes", f"{nodes}")
    table.add_row("fit, one thread", f"{fit:.2f} s")
    table.add_row(
        "tree.apply(X of oob rows) over the trees, best and median", f"{min(apply):.3f} s, {np.median(apply):.3f} s"
    )
    table.add_row("importance, one thread, best and median", f"{min(scored):.3f} s, {np.median(scored):.3f} s")
    table.add_row(
        "importance / apply, best and median",
        f"{min(scored) / min(apply):.2f}, {np.median(scored) / np.median(apply):.2f}",
    )
    table.add_row("importance / fit", f"{100 * np.median(scored) / fit:.2f} %")
    table.add_row("one thread / two threads", f"{np.median(scored) / np.median(threads):.2f}")
    table.add_row("with inference / without, medians", f"{np.median(inferred) / np.median(scored):.2f}")
    table.add_row("with inference / fit", f"{100 * np.median(inferred) / fit:.2f} %")
    table.add_row(
        "with inference, one thread / two threads", f"{np.median(inferred) / np.median(inferred_threads):.2f}"
    )
    for words, inference in (("", False), (", with inference", True)):
        peak = measure_memory(forest, X, y, inference=inference)
        table.add_row(f"peak extra memory{words}", f"{peak:.1f} MB (X is {X.nbytes / 1e6:.1f} MB)")
    if options.permutation:
        ours = measure_importance(forest, X, y, measure="permutation", random_state=0)
        start = time.perf_counter()
        permutation_importance(forest, X, y, n_repeats=1, random_state=0)
        peer = time.perf_counter() - start
        table.add_row(
            "permutation", f"{ours:.2f} s; scikit-learn's permutation_importance {peer:.2f} s, ratio {ours / peer:.2f}"
        )
    Console().print(table)


if __name__ == "__main__":
    main()
