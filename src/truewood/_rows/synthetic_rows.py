"""Synthetic rows: points between two other rows, as SMOTE makes them, which are not unseen if these are in bag."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from truewood._inputs.tables import FeatureMatrix
from truewood._inputs.target import ClassTarget, Target
from truewood._rows.copies import is_continuous

Floats = NDArray[np.float64]

# Numbers of rows that are tested, of their neighbors, and of columns; and fewest tested rows that have to be synthetic.
_N_TESTED, _FEWEST_TESTED, _MOST_DISTANCES = 24, 8, 1_000_000
_N_NEIGHBORS = 30
_FEWEST_COLUMNS, _MOST_COLUMNS = 3, 6
_FEWEST_FOUND = 3
# Rounding errors of a row between two others, in units of the precision of its numbers.
_ROUNDING = 8.0
_LEAST_ROUNDING = 1e-7
# If lines are not straighter than this, or more pairs than this are in line, columns are functions of each other.
_STRAIGHT = 1e-5
_MOST_IN_LINE = 0.25

SYNTHETIC_ROWS = (
    "some rows lie exactly between two other rows of their class, as SMOTE and interpolation make them. Out-of-bag "
    "rows then depend on in-bag rows, and p-values are far too small: balance classes by class_weight="
    "'balanced_subsample' instead, or score original rows that were held out before resampling."
)


def has_synthetic_rows(matrix: FeatureMatrix, target: Target) -> bool:
    """Whether rows of a class lie exactly between others of their class, as far as a sample of rows shows."""
    if not isinstance(target, ClassTarget) or not isinstance(matrix.values, np.ndarray):
        return False
    n_rows, classes = matrix.n_rows, target.codes[:, 0]
    n_tested = int(np.clip(_MOST_DISTANCES // n_rows, _FEWEST_TESTED, _N_TESTED))
    tested = np.unique(np.linspace(0, n_rows - 1, n_tested).astype(np.int64))
    columns = _choose_columns(matrix)
    if len(columns) < _FEWEST_COLUMNS:
        return False
    n_found = 0
    for label in np.unique(classes[tested]):
        values = matrix.values[classes == label][:, columns].astype(np.float64)
        spread = values.std(axis=0)
        if not (spread > 0).all():
            continue
        values /= spread
        precision = max(_ROUNDING * float(np.finfo(matrix.values.dtype).eps) * np.abs(values).max(), _LEAST_ROUNDING)
        places = np.searchsorted(np.flatnonzero(classes == label), tested[classes[tested] == label])
        n_found += sum(_lies_between(values, int(place), precision) for place in places)
    return n_found >= _FEWEST_FOUND


def _choose_columns(matrix: FeatureMatrix) -> list[int]:
    """The first continuous columns without missing values; levels that are far apart are not continuous."""
    chosen: list[int] = []
    for j in range(matrix.values.shape[1]):
        column = matrix.values[:500, j].astype(np.float64)
        is_distinct = 2 * len(np.unique(column)) >= len(column)
        if is_distinct and np.isfinite(column).all() and is_continuous(column, len(column)):
            chosen.append(j)
        if len(chosen) == _MOST_COLUMNS:
            break
    return chosen


def _lies_between(values: Floats, place: int, precision: float) -> bool:
    """Whether a row lies on the line between two of its neighbors, but not in line with most of them."""
    away = values - values[place]
    square = np.einsum("ij,ij->i", away, away)
    near = np.argpartition(square, min(_N_NEIGHBORS, len(square) - 1))[: _N_NEIGHBORS + 1]
    near = near[square[near] > precision**2]
    one, other = np.triu_indices(len(near), 1)
    product, square = (away[near] @ away[near].T)[one, other], square[near]
    # Area of the triangle over its base: the distance of the row from the line through two neighbors.
    base = np.maximum(square[one] + square[other] - 2.0 * product, precision**2)
    off = np.sqrt(np.maximum(square[one] * square[other] - product**2, 0.0) / base)
    is_in_line = off <= np.minimum(precision, _STRAIGHT * np.sqrt(base))
    return bool((is_in_line & (product < 0)).any() and is_in_line.sum() <= max(1.0, _MOST_IN_LINE * len(one)))
