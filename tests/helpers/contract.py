"""What every adapter of additive trees has to keep: leaves, sums and weights are the library's own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import truewood as tw
from truewood._engines.records import RowLists
from truewood._inputs.tables import read_features
from truewood.adapters import open_model


def draw_odd_rows(
    ensemble: tw.TreeEnsemble,
    n_features: int,
    seed: int,
    *,
    categorical: tuple[int, ...] = (),
    missing: bool = True,
    infinite: bool = True,
) -> np.ndarray:
    """Random rows, rows on thresholds and one float32 or float64 beside them, extremes, new categories, NaN, inf."""
    rng = np.random.default_rng(seed)

    def draw(n_rows: int) -> np.ndarray:
        rows = rng.standard_normal((n_rows, n_features)) * rng.choice([1.0, 10.0], (n_rows, 1))
        rows[rng.random(rows.shape) < 0.1] = 0.0
        for j in categorical:
            rows[:, j] = rng.integers(0, 12, n_rows)
        return rows

    parts = [draw(300)]
    for m in ensemble.splits:
        threshold, j = ensemble.threshold[m], ensemble.feature[m]
        if j in categorical:
            continue
        beside = [threshold]
        for kind in (np.float32, np.float64):
            with np.errstate(over="ignore"):
                beside += [np.nextafter(kind(threshold), kind(sign * np.inf)) for sign in (1, -1)]
        chosen = np.repeat(draw(1), len(beside), axis=0)
        chosen[:, j] = beside
        parts.append(chosen)
    rows = np.vstack(parts)
    numeric = [j for j in range(n_features) if j not in categorical]
    extremes = [np.finfo(np.float32).max, np.finfo(np.float32).min, 1e-40, -1e-40, -0.0]
    extremes += [np.inf, -np.inf] if infinite else []
    rows = rows[np.abs(rows).max(axis=1) <= np.finfo(np.float32).max] if not infinite else rows
    for value in extremes if numeric else []:
        rows[rng.integers(len(rows), size=10), rng.choice(numeric, size=10)] = value
    for j in categorical:
        rows[rng.integers(len(rows), size=10), j] = rng.choice([57.0, 1000.0, 3.0], size=10)
    if missing:
        rows[rng.random(rows.shape) < 0.1] = np.nan
    return rows


def route(model: Any, X: Any) -> np.ndarray:
    """Node that each row ends at in each tree, as truewood finds it, shape (n_rows, n_trees); numbered within trees."""
    view = open_model(model)
    trees = range(view.n_trees)
    ensemble, matrix = view.read(trees), read_features(X, view.table)
    every_row = np.arange(matrix.n_rows)
    leaves = view.find_leaves(trees, ensemble, matrix, RowLists.join([every_row] * len(trees)))
    return leaves.reshape(len(trees), -1).T - ensemble.offset[:-1]


def count_calls(work: Callable[[], object]) -> int:
    """Number of calls of functions, of Python and of C, that are made from Python."""
    n_calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal n_calls
        n_calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return n_calls


def add_leaf_values(model: Any, X: Any) -> np.ndarray:
    """Sum of the leaf values of each row, shape (n_rows, n_scores): the raw prediction minus its constant."""
    view = open_model(model)
    ensemble = view.read(range(view.n_trees))
    values = ensemble.value[route(model, X) + ensemble.offset[:-1]]
    if ensemble.column is None:
        return values.sum(axis=1)
    raw = np.zeros((len(values), view.target.n_scores))
    for t, column in enumerate(ensemble.column):
        raw[:, column] += values[:, t, 0]
    return raw
