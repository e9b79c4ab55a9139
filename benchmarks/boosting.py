"""What does reading a boosted model cost beside scoring with it? Prints seconds and ratios measured in one run.

Run: python benchmarks/boosting.py [--rows N] [--trees N]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from catboost import CatBoostRegressor
from lightgbm import LGBMRegressor
from rich.console import Console
from rich.table import Table
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from xgboost import DMatrix, XGBRegressor

import truewood as tw


def make_models(n_trees: int) -> dict[str, tuple[Any, Callable[[Any, np.ndarray], Any] | None]]:
    """Models of about 31 leaves a tree, and how the library itself finds leaves, where it does."""
    return {
        "GradientBoosting": (
            GradientBoostingRegressor(n_estimators=n_trees, max_depth=5),
            lambda model, X: model.apply(X),
        ),
        "HistGradientBoosting": (HistGradientBoostingRegressor(max_iter=n_trees), None),
        "XGBoost": (
            XGBRegressor(n_estimators=n_trees, max_depth=5, n_jobs=1),
            lambda model, X: model.get_booster().predict(DMatrix(X, nthread=1), pred_leaf=True),
        ),
        "LightGBM": (
            LGBMRegressor(n_estimators=n_trees, n_jobs=1, verbose=-1),
            lambda model, X: model.predict(X, pred_leaf=True, num_threads=1),
        ),
        "CatBoost": (
            CatBoostRegressor(iterations=n_trees, depth=5, thread_count=1, verbose=False, allow_writing_files=False),
            lambda model, X: model.calc_leaf_indexes(X, thread_count=1),
        ),
    }


def measure(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--trees", type=int, default=1_000)
    parser.add_argument("--features", type=int, default=20)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    X, X_new = (rng.standard_normal((n, options.features)) for n in (5_000, options.rows))
    y, y_new = (Z[:, 0] + Z[:, 1] * Z[:, 2] + rng.standard_normal(len(Z)) for Z in (X, X_new))
    table = Table(title=f"{options.trees} trees, {options.rows} held-out rows, {options.features} features, one thread")
    for heading in ("model", "read", "importance", "with inference", "read / importance", "importance / own leaves"):
        table.add_column(heading)
    for name, (model, find_leaves) in make_models(options.trees).items():
        model.fit(X, y)
        read = measure(lambda model=model: tw.to_ensemble(model))
        scored = measure(lambda model=model: tw.importance(model, X_new, y_new, rows="heldout", inference=False))
        inferred = measure(lambda model=model: tw.importance(model, X_new, y_new, rows="heldout"))
        own = measure(lambda: find_leaves(model, X_new)) if find_leaves else None  # noqa: B023
        table.add_row(
            name,
            f"{read:.2f} s",
            f"{scored:.2f} s",
            f"{inferred:.2f} s",
            f"{read / scored:.2f}",
            "no such call" if own is None else f"{scored / own:.2f}",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
