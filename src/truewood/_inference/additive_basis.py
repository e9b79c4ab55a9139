"""Additive bases of features: functions of a single feature, whose effect is removed from the scores of pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Evaluation rows per regressor.
ROWS_PER_REGRESSOR = 4
# Maximum number of levels with an indicator each, and of knots of a spline.
_MOST_LEVELS = 20
_MOST_KNOTS = 16
# Larger and infinite numbers are replaced by this.
_LARGEST = 1e100


def make_basis(columns: Floats, are_categories: NDArray[np.bool_]) -> Floats:
    """An additive basis of a feature, shape (n_rows, n): indicators of levels, or linear splines with quantile knots.

    Parameters
    ----------
    columns : ndarray of shape (n_rows, n_columns)
        The columns of the feature; NaN for missing values.
    are_categories : ndarray of bool, shape (n_columns,)
        Which columns contain codes of categories, whose order means nothing.
    """
    n_rows = len(columns)
    n_knots = int(np.clip(round(n_rows ** (1 / 3)), 3, _MOST_KNOTS))
    parts = [
        part
        for x, is_category in zip(columns.T, are_categories, strict=True)
        for part in _span(x, n_knots, is_category)
    ]
    basis = np.column_stack(parts) if parts else np.zeros((n_rows, 0))
    most = max(4, n_rows // (5 * ROWS_PER_REGRESSOR))
    if basis.shape[1] <= most:
        return basis
    left, values, _ = np.linalg.svd(basis - basis.mean(axis=0), full_matrices=False)
    largest: Floats = left[:, :most] * values[:most]
    return largest


def _span(x: Floats, n_knots: int, is_category: bool) -> list[Floats]:
    """The basis functions of one column."""
    is_missing = np.isnan(x)
    parts = [is_missing.astype(np.float64)] if is_missing.any() and not is_missing.all() else []
    levels, counts = np.unique(x[~is_missing], return_counts=True)
    if len(levels) <= 1:
        return parts
    if is_category or len(levels) <= max(n_knots + 1, 3):
        common = levels[np.argsort(-counts, kind="stable")[: _MOST_LEVELS + 1]]
        return parts + [(x == level).astype(np.float64) for level in common[1:]]
    filled = np.where(is_missing, np.median(x[~is_missing]), np.clip(x, -_LARGEST, _LARGEST))
    spread = float(filled.std()) or 1.0
    filled = (filled - filled.mean()) / spread
    knots = np.unique(np.quantile(filled[~is_missing], np.arange(1, n_knots) / n_knots))
    return [*parts, filled, *(np.maximum(filled - knot, 0.0) for knot in knots if knot < filled.max())]
