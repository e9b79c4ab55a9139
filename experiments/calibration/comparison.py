"""Are the p-values of `truewood.compare` correct? Simulated data sets with two results of equal expectation.

Run: python experiments/calibration/comparison.py [--repetitions 300] [--n-jobs N]

It writes comparison.csv beside this script: how often features with equal expectation differ significantly, and the
standard error as a share of the standard deviation of differences over data sets. For two given forests on held-out
rows, only noise has equal expectations, and the standard deviation is unknown; signals differ with the leaf size.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor

import truewood as tw

N_TRAIN, N_TEST, N_TREES = 200, 300, 60
KINDS = {"signal": [0], "weak signal": [1], "noise": [2, 3, 4]}


def draw(rng: np.random.Generator, n_rows: int, task: str) -> tuple[np.ndarray, np.ndarray]:
    """A strong and a weak feature, and noise that is continuous, binary and of three levels."""
    X = rng.standard_normal((n_rows, 5))
    X[:, 3], X[:, 4] = rng.integers(0, 2, n_rows), rng.integers(0, 3, n_rows)
    y = X[:, 0] + 0.4 * X[:, 1] + rng.standard_normal(n_rows)
    return X, y if task == "regression" else (y > 0).astype(int)


def make_forest(task: str, seed: int, **options: object) -> RandomForestClassifier | RandomForestRegressor:
    """A small forest."""
    kind = RandomForestRegressor if task == "regression" else RandomForestClassifier
    return kind(N_TREES, **{"min_samples_leaf": 5, "max_features": 2, "random_state": seed} | options)


def compare_halves(rng: np.random.Generator, seed: int, task: str) -> tw.Comparison:
    """One forest on two halves of held-out rows."""
    X, y = draw(rng, N_TRAIN + 2 * N_TEST, task)
    forest = make_forest(task, seed).fit(X[:N_TRAIN], y[:N_TRAIN])
    return compare_parts(forest, X[N_TRAIN:], y[N_TRAIN:])


def compare_boosted_halves(rng: np.random.Generator, seed: int, task: str) -> tw.Comparison:
    """One boosted model on two halves of held-out rows."""
    X, y = draw(rng, N_TRAIN + 2 * N_TEST, task)
    model = GradientBoostingRegressor(n_estimators=30, max_depth=3, random_state=seed).fit(X[:N_TRAIN], y[:N_TRAIN])
    return compare_parts(model, X[N_TRAIN:], y[N_TRAIN:])


def compare_parts(model: object, X: np.ndarray, y: np.ndarray) -> tw.Comparison:
    """Score a model on both halves of some rows."""
    halves = [tw.importance(model, X[k::2], y[k::2], rows="heldout") for k in (0, 1)]
    return tw.compare(*halves, same_rows=False)


def compare_models(rng: np.random.Generator, seed: int, task: str) -> tw.Comparison:
    """Two forests, each fit to its own data, on the same held-out rows."""
    X, y = draw(rng, 2 * N_TRAIN + N_TEST, task)
    halves = [slice(N_TRAIN), slice(N_TRAIN, 2 * N_TRAIN)]
    forests = [make_forest(task, seed + k).fit(X[half], y[half]) for k, half in enumerate(halves)]
    rows = X[2 * N_TRAIN :], y[2 * N_TRAIN :]
    return tw.compare(*(tw.importance(forest, *rows, rows="heldout", contributions=True) for forest in forests))


def compare_seeds(rng: np.random.Generator, seed: int, task: str, **other: object) -> tw.Comparison:
    """Two forests of the same data, out of bag."""
    X, y = draw(rng, N_TRAIN, task)
    forests = [make_forest(task, seed).fit(X, y), make_forest(task, seed + 1, **other).fit(X, y)]
    return tw.compare(*(tw.importance(forest, X, y, contributions=True) for forest in forests))


def compare_leaves(rng: np.random.Generator, seed: int, task: str) -> tw.Comparison:
    """Two forests of the same data, out of bag, one of them with far larger leaves."""
    return compare_seeds(rng, seed, task, min_samples_leaf=20, max_features=1)


TASKS = ["classification", "regression"]
# What is compared, tasks, kinds of features to report, and which of them differ.
DESIGNS: dict[str, tuple[Callable[..., tw.Comparison], list[str], list[str], list[str]]] = {
    "one forest, two halves of held-out rows": (compare_halves, TASKS, list(KINDS), []),
    "one boosted model, two halves of held-out rows": (compare_boosted_halves, ["regression"], list(KINDS), []),
    "two seeds of a forest, out of bag": (compare_seeds, TASKS, list(KINDS), []),
    "two forests, the same held-out rows": (compare_models, TASKS, ["noise"], []),
    "leaves of 5 and of 20, out of bag": (compare_leaves, TASKS, list(KINDS), ["signal", "weak signal"]),
}


def run_one(design: str, task: str, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Differences, errors and p-values of one data set."""
    comparison = DESIGNS[design][0](np.random.default_rng(number), 2 * number, task)
    return comparison.difference, comparison.std_error, comparison.p_value


def tabulate(design: str, task: str, found: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> list[dict[str, object]]:
    """A line for each kind of feature."""
    difference, error, p_value = (np.array(part) for part in zip(*found, strict=True))
    _, _, kinds, differing = DESIGNS[design]
    spread = np.sqrt((error**2).mean(axis=0)) / difference.std(axis=0)
    return [
        {
            "design": design,
            "task": task,
            "feature": kind,
            "data_sets": len(found),
            "rejected_at_5": np.nan if kind in differing else (p_value[:, KINDS[kind]] < 0.05).mean(),
            "error_over_spread": spread[KINDS[kind]].mean(),
        }
        for kind in kinds
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=300, help="data sets a design")
    parser.add_argument("--n-jobs", type=int, default=-1, help="processes; all cores by default")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".csv"))
    options = parser.parse_args()
    lines: list[dict[str, object]] = []
    for design, (_, tasks, _, _) in DESIGNS.items():
        for task in tasks:
            work = (delayed(run_one)(design, task, number) for number in range(options.repetitions))
            lines += tabulate(design, task, Parallel(n_jobs=options.n_jobs)(work))
            table = pd.DataFrame(lines)
            table.to_csv(options.output, index=False, float_format="%.4g")
    print(table.to_string(index=False, float_format=lambda number: f"{number:.3g}"))


if __name__ == "__main__":
    main()
