"""Are p-values correct for clustered rows? Simulated data sets of clusters without signal, with `groups=`.

Run: python experiments/calibration/clusters.py [--repetitions 100] [--n-jobs N] [--seconds S] [--add FILE ...]

Half of the target's variance is shared by the rows of a cluster. Three features are the same within a cluster (a
number, a binary one, 20 levels), two differ from row to row (a number, a binary one); none is informative. The table,
clusters.csv beside this script, has the share of tests that reject at 5%, with `groups=` and without. A checkpoint
keeps one line per data set, so an interrupted run resumes, and `--add` appends those of other machines. Remove it after
a change to the library.

Boosted models are evaluated on as many held-out clusters. Forests whose bags are drawn by cluster are evaluated on the
clusters that a tree's bag left out: truewood knows the bags from an adapter, or gets lists of rows. Forests whose bags
are drawn row by row, which `groups=` refuses, are evaluated out of bag.
"""

from __future__ import annotations

import argparse
import time
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from checkpoints import read_runs, write_table
from cluster_forest import ClusterForestClassifier, ClusterForestRegressor, grow
from joblib import Parallel, delayed
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from threadpoolctl import threadpool_limits

import truewood as tw
from truewood._checkpoint import append_to

SHARED = 0.5
# Sizes of the clusters.
CLUSTERS = {
    "150 clusters of 2": [2] * 150,
    "40 clusters of 10": [10] * 40,
    "30 clusters of 50": [50] * 30,
    "20 clusters of 10": [10] * 20,
    "60 clusters of 1 to 30": [1 + 29 * k**3 // 59**3 for k in range(60)],
}
FEATURES = {"same in a cluster": slice(3), "differs in a cluster": slice(3, 5), "all together": slice(5, 6)}


def draw(rng: np.random.Generator, sizes: list[int], task: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, target and cluster of each row."""
    n_clusters, labels = len(sizes), np.repeat(np.arange(len(sizes)), sizes)
    shared = rng.standard_normal((n_clusters, 3))
    shared[:, 1], shared[:, 2] = shared[:, 1] > 0, rng.integers(0, 20, n_clusters)
    own = rng.standard_normal((len(labels), 2))
    own[:, 1] = own[:, 1] > 0
    y = np.sqrt(SHARED) * rng.standard_normal(n_clusters)[labels]
    y += np.sqrt(1 - SHARED) * rng.standard_normal(len(labels))
    return np.column_stack([shared[labels], own]), y if task == "regression" else (y > 0).astype(int), labels


def fit_boosting(rng: np.random.Generator, sizes: list[int], task: str, seed: int) -> tuple[Any, ...]:
    """Boosted trees, and held-out clusters."""
    kind = HistGradientBoostingRegressor if task == "regression" else HistGradientBoostingClassifier
    X, y, _ = draw(rng, sizes, task)
    model = kind(max_iter=20, random_state=seed).fit(X, y)
    return model, *draw(rng, sizes, task), "heldout"


FORESTS = {
    "known": {"regression": ClusterForestRegressor, "classification": ClusterForestClassifier},
    "plain": {"regression": RandomForestRegressor, "classification": RandomForestClassifier},
}


def make_forest(kind: str, task: str, seed: int) -> Any:
    """A forest of 50 trees."""
    return FORESTS[kind][task](50, min_samples_leaf=5, random_state=seed)


def fit_by_cluster(rng: np.random.Generator, sizes: list[int], task: str, seed: int) -> tuple[Any, ...]:
    """A forest whose trees are trained on the rows of drawn clusters, and the other rows of each tree."""
    X, y, labels = draw(rng, sizes, task)
    forest = grow(make_forest("plain", task, seed), rng, X, y, labels)
    return forest, X, y, labels, [np.setdiff1d(np.arange(len(X)), bag) for bag in forest.bags_]


def fit_with_bags(rng: np.random.Generator, sizes: list[int], task: str, seed: int) -> tuple[Any, ...]:
    """The same, but truewood knows the bags."""
    X, y, labels = draw(rng, sizes, task)
    return grow(make_forest("known", task, seed), rng, X, y, labels), X, y, labels, "oob"


def fit_by_row(rng: np.random.Generator, sizes: list[int], task: str, seed: int) -> tuple[Any, ...]:
    """A forest with the usual bags, out of bag."""
    X, y, _ = draw(rng, sizes, task)
    return make_forest("plain", task, seed).fit(X, y), X, y, None, "oob"


MODELS = {
    "boosting, held-out clusters": fit_boosting,
    "forest, bags by cluster": fit_with_bags,
    "forest, lists by cluster": fit_by_cluster,
    "forest, bags by row": fit_by_row,
}
# Maximum number of data sets for designs where few suffice.
MOST = {"forest, bags by row": 10}


def run_one(model: str, clusters: str, task: str, number: int) -> dict[str, Any]:
    """P-values of one data set, with `groups=` and without: of the features, and of all of them together."""
    sizes = CLUSTERS[clusters]
    rng = np.random.default_rng([number, len(sizes), sum(sizes), task == "regression"])
    entry: dict[str, Any] = {"model": model, "clusters": clusters, "task": task, "number": number}
    with threadpool_limits(1):
        fitted, X, y, labels, rows = MODELS[model](rng, sizes, task, number)
        for name, given in {"with_groups": labels, "ignored": None}.items():
            if name == "with_groups" and labels is None:
                continue
            result = tw.importance(fitted, X, y, rows=rows, groups=given)
            if result.inference_unavailable is not None:
                raise ValueError(result.inference_unavailable)
            entry[name] = [float(f"{p:.4g}") for p in (*result.p_value, result.total_p_value)]
    return entry


def tabulate(entries: list[dict[str, Any]]) -> pd.DataFrame:
    """Share of tests that reject at 5%, by design and kind of feature."""
    table = pd.DataFrame(entries)
    lines = []
    for (model, clusters, task), found in table.groupby(["model", "clusters", "task"], sort=False):
        rates = {}
        for name in ("with_groups", "ignored"):
            p_value = found[name].dropna().tolist()
            for kind, columns in FEATURES.items():
                rates[name, kind] = np.mean(np.array(p_value)[:, columns] < 0.05) if p_value else np.nan
        for kind in FEATURES:
            lines.append(
                {
                    "model": model,
                    "clusters": clusters,
                    "task": task,
                    "feature": kind,
                    "data_sets": len(found),
                    "rejected_with_groups": rates["with_groups", kind],
                    "rejected_ignored": rates["ignored", kind],
                }
            )
    return pd.DataFrame(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=100, help="data sets a design")
    parser.add_argument("--n-jobs", type=int, default=-1, help="processes; all cores by default")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no data set after so long")
    parser.add_argument("--add", type=Path, nargs="*", default=[], metavar="FILE", help="checkpoints of other machines")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".csv"))
    options = parser.parse_args()
    end, checkpoint = time.monotonic() + options.seconds, options.output.with_suffix(".jsonl")
    keys = ("model", "clusters", "task", "number")
    done = read_runs(checkpoint, options.add, keys)
    is_done = {tuple(entry[key] for key in keys) for entry in done}
    designs = [(m, c, t) for m in MODELS for c in CLUSTERS for t in ("regression", "classification")]
    work = [
        (*design, number)
        for number in range(options.repetitions)
        for design in designs
        if number < MOST.get(design[0], options.repetitions)
    ]
    missing = takewhile(lambda _: time.monotonic() < end, (step for step in work if step not in is_done))
    steps = Parallel(n_jobs=options.n_jobs, return_as="generator")(delayed(run_one)(*step) for step in missing)
    with append_to(checkpoint) as append:
        for entry in steps:
            append(entry)
            done.append(entry)
    order = {design: place for place, design in enumerate(designs)}
    done.sort(key=lambda entry: order[entry["model"], entry["clusters"], entry["task"]])
    table = tabulate(done)
    write_table(table, options.output, keys[:3], designs)
    print(table.to_string(index=False, float_format=lambda number: f"{number:.3g}"))


if __name__ == "__main__":
    main()
