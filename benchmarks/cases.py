"""Data and models for the benchmarks; a boosting library is imported only when one of its models is requested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor, RandomForestClassifier
from timing import Timing, clock

N_TRAIN = 10_000  # training rows of boosted models
LEAVES = 31


def draw_forest_data(n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw normal float32 columns, and two classes that depend on three of them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    return X, X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(n_rows) > 0


def draw_numbers(n_rows: int, n_features: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw normal float64 columns, and a number that depends on three of them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features))
    return X, X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(n_rows)


def find_oob_rows(forest: RandomForestClassifier, n_rows: int) -> list[np.ndarray]:
    """Return the out-of-bag rows of each tree."""
    lists = []
    for bag in forest.estimators_samples_:
        is_oob = np.ones(n_rows, dtype=bool)
        is_oob[bag] = False
        lists.append(np.flatnonzero(is_oob))
    return lists


@dataclass(frozen=True)
class ForestCase:
    """A random forest with its training data, and the time of the fit."""

    forest: RandomForestClassifier
    X: np.ndarray
    y: np.ndarray
    oob: list[np.ndarray]
    fit: Timing

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.oob)

    @property
    def levels(self) -> float:
        """Mean number of splits on the path of a row."""
        return float(np.mean([_count_levels(tree.tree_) for tree in self.forest.estimators_]))

    @property
    def steps(self) -> float:
        """Out-of-bag rows x trees x levels."""
        return sum(map(len, self.oob)) * self.levels


def _count_levels(tree: Any) -> float:
    weight = tree.weighted_n_node_samples
    return float(weight[tree.children_left >= 0].sum() / weight[0])


def make_forest(
    n_rows: int, n_trees: int, n_features: int, max_depth: int | None = None, n_jobs: int = 1
) -> ForestCase:
    X, y = draw_forest_data(n_rows, n_features)
    forest = RandomForestClassifier(n_trees, max_depth=max_depth, n_jobs=n_jobs, random_state=0)
    seconds = clock(lambda: forest.fit(X, y))
    forest.set_params(n_jobs=1)
    return ForestCase(forest, X, y, find_oob_rows(forest, n_rows), Timing("fit of the forest", seconds, seconds, 1))


@dataclass(frozen=True)
class BoostedCase:
    """A boosted model of trees with at most `leaves` leaves, and held-out rows."""

    model: Any
    X: np.ndarray
    y: np.ndarray
    n_trees: int
    leaves: int


def make_boosted(
    library: str, n_rows: int, n_trees: int, n_features: int = 20, leaves: int = LEAVES, n_jobs: int = 1
) -> BoostedCase:
    """Fit a model to `N_TRAIN` rows; XGBoost gets float32 rows, the type that it computes with."""
    X, y = draw_numbers(N_TRAIN, n_features, seed=0)
    X_new, y_new = draw_numbers(n_rows, n_features, seed=1)
    if library == "XGBoost":
        from xgboost import XGBRegressor

        shape = {"grow_policy": "lossguide", "max_leaves": leaves, "max_depth": 0}
        model = XGBRegressor(n_estimators=n_trees, n_jobs=n_jobs, **shape)
        X_new = X_new.astype(np.float32)
    elif library == "LightGBM":
        from lightgbm import LGBMRegressor

        model = LGBMRegressor(n_estimators=n_trees, num_leaves=leaves, n_jobs=n_jobs, verbose=-1)
    elif library == "CatBoost":
        from catboost import CatBoostRegressor

        depth = int(np.log2(leaves + 1))
        leaves = 2**depth
        model = CatBoostRegressor(
            iterations=n_trees, depth=depth, thread_count=n_jobs, verbose=False, allow_writing_files=False
        )
    elif library == "GradientBoosting":
        model = GradientBoostingRegressor(
            n_estimators=n_trees, max_leaf_nodes=leaves, max_depth=None, max_features="sqrt", random_state=0
        )
    else:
        model = HistGradientBoostingRegressor(max_iter=n_trees, max_leaf_nodes=leaves, early_stopping=False)
    return BoostedCase(model.fit(X, y), X_new, y_new, n_trees, leaves)
