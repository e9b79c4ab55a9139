"""Means of joint effects over cells of two features, for plots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._results.pair_surfaces import JointSurfaces
from truewood._scoring.pair_rows import PairRows

Floats = NDArray[np.float64]
Pairs = NDArray[np.int64]

# Objects that are numbers, apart from missing values.
_NUMBERS = ("integer", "floating", "mixed-integer-float")
# Cells of a feature.
_N_CELLS = 6


def make_surfaces(
    rows: PairRows,
    joint: Floats,
    top: NDArray[np.int64],
    pairs: Pairs,
    used: NDArray[np.int64],
    n_features: int,
    has_units: bool,
) -> JointSurfaces:
    """Means over cells of pairs of features."""
    cells, levels = dict[int, NDArray[np.int64]](), np.full((n_features, _N_CELLS), np.nan)
    level_names = np.full((n_features, _N_CELLS), "", dtype=object)
    for place, feature in enumerate(used[: rows.data.shape[1]].tolist()):  # the others are in no pair
        cells[feature], means, names = _cut_column(pd.Series(rows.data[:, place]).infer_objects())
        levels[feature, : len(means)], level_names[feature, : len(names)] = means, names
    n_columns, place_of = joint.shape[2], {feature: place for place, feature in enumerate(used.tolist())}
    found = np.full((3, len(pairs), n_columns, _N_CELLS, _N_CELLS), np.nan)
    n_rows = np.zeros((len(pairs), _N_CELLS, _N_CELLS), dtype=np.int64)
    main, prediction = rows.rows.main, rows.rows.prediction
    for k, (first, second) in enumerate(pairs.tolist()):
        is_placed = (cells[first] >= 0) & (cells[second] >= 0)
        cell = (cells[first] * _N_CELLS + cells[second])[is_placed]
        n_rows[k] = np.bincount(cell, minlength=_N_CELLS**2).reshape(_N_CELLS, _N_CELLS)
        combined = main[:, place_of[first]] + main[:, place_of[second]] - joint[:, k]
        shown = [joint[:, k], combined, rows.target - prediction + combined][: 3 if has_units else 2]
        for kind, values in enumerate(shown):
            for c in range(n_columns):
                total = np.bincount(cell, weights=values[is_placed, c], minlength=_N_CELLS**2)
                np.divide(total.reshape(n_rows[k].shape), n_rows[k], where=n_rows[k] > 0, out=found[kind, k, c])
    return JointSurfaces(top, levels, level_names.astype(np.str_), found[0], found[1], found[2], n_rows)


def _cut_column(column: pd.Series[Any]) -> tuple[NDArray[np.int64], Floats, list[str]]:
    """Cell of each row, -1 if it is in none, the mean in each cell, and the names of cells that are not numbers."""
    if pd.api.types.is_datetime64_any_dtype(column):
        seconds = (column - pd.Timestamp(0, tz=column.dt.tz)) / pd.Timedelta(seconds=1)
        cells, means = _cut(np.asarray(seconds, dtype=np.float64))
        return cells, means, [f"{pd.Timestamp(mean, unit='s'):%Y-%m-%d}" for mean in means.tolist()]
    if pd.api.types.is_numeric_dtype(column) or pd.api.types.infer_dtype(column) in _NUMBERS:
        cells, means = _cut(pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64))
        return cells, means, []
    texts = column.dropna().astype(str)
    names = sorted(texts.value_counts().index[:_N_CELLS])
    cells = pd.Index(names).get_indexer(texts.reindex(column.index)).astype(np.int64)
    return cells, np.arange(len(names), dtype=np.float64), names


def _cut(x: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Cell of each row, -1 if x is missing, and the mean of x in each cell."""
    is_known = np.isfinite(x)
    if not is_known.any():
        return np.full(len(x), -1), np.empty(0)
    levels = np.unique(x[is_known])
    if len(levels) > _N_CELLS:
        edges = np.unique(np.quantile(x[is_known], np.arange(1, _N_CELLS) / _N_CELLS))
        cell = np.searchsorted(edges, x, side="left")
    else:
        cell = np.searchsorted(levels, x)
    cell = np.where(is_known, np.minimum(cell, _N_CELLS - 1), -1)
    size = np.bincount(cell[is_known])
    total = np.bincount(cell[is_known], weights=x[is_known])
    return cell.astype(np.int64), np.divide(total, size, out=np.full(len(size), np.nan), where=size > 0)
