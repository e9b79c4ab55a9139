"""Typical calls, small enough to time in each pull request: `.ci/benchmarks` compares them between two versions.

Run by pytest-benchmark. scikit-learn's own `apply` and `predict` show how much of a difference is due to the machine.
"""

from __future__ import annotations

from typing import Any

import pytest
from cases import draw_forest_data, draw_numbers
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor

import truewood as tw

OPTIONS = {"scores": {"inference": False}, "inference": {}, "residual": {"inference": "residual"}}


@pytest.fixture(scope="module")
def forest() -> tuple[Any, Any, Any]:
    X, y = draw_forest_data(10_000, 20)
    return RandomForestClassifier(30, random_state=0).fit(X, y), X, y


@pytest.fixture(scope="module")
def boosted() -> tuple[Any, Any, Any]:
    model = HistGradientBoostingRegressor(max_iter=200, early_stopping=False).fit(*draw_numbers(5_000, 20, seed=0))
    return model, *draw_numbers(50_000, 20, seed=1)


def time_apply(benchmark: Any, forest: Any) -> None:
    model, X, _ = forest
    benchmark(model.apply, X)


@pytest.mark.parametrize("kind", OPTIONS)
def time_forest(benchmark: Any, forest: Any, kind: str) -> None:
    benchmark(tw.importance, *forest, n_jobs=1, **OPTIONS[kind])


def time_predict(benchmark: Any, boosted: Any) -> None:
    model, X, _ = boosted
    benchmark(model.predict, X)


@pytest.mark.parametrize("kind", ["scores", "inference"])
def time_boosted(benchmark: Any, boosted: Any, kind: str) -> None:
    benchmark(tw.importance, *boosted, rows="heldout", n_jobs=1, **OPTIONS[kind])


def time_interactions(benchmark: Any) -> None:
    X, y = draw_numbers(1_000, 8, seed=0)
    model = RandomForestRegressor(50, min_samples_leaf=5, random_state=0).fit(X, y)
    benchmark(tw.interactions, model, X, y, n_jobs=1)
