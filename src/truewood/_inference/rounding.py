"""Bounds of rounding errors, given the size of the numbers that were added up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Relative difference up to which numbers that were computed in different ways count as the same.
SAME = 1e-12
# Rounding errors as a share of the magnitude of the summands: a few units in the last place.
ROUNDING = 2.0**-49
# Rounding errors below this share of the scores are harmless.
_SMALL = 2.0**-20
_FAR_BELOW = 2.0**-10


def drop_rounding(variance: Floats, magnitude: Floats, n_rows: int = 1) -> Floats:
    """Set variances to zero that are within the rounding errors of their summands.

    Parameters
    ----------
    variance : ndarray of shape (n_features,)
        Sums of squares over rows.
    magnitude : ndarray of shape (n_features,)
        Size of the summands over all rows.
    n_rows : int
        Number of rows, with independent rounding errors.
    """
    return np.where(variance > (ROUNDING * magnitude) ** 2 / max(n_rows, 1), variance, 0.0)


def find_unresolved(variance: Floats, magnitude: Floats, size: Floats, n_rows: int) -> int | None:
    """The first feature with a variance within rounding errors that are not small relative to its scores, or None.

    Parameters
    ----------
    variance : ndarray of shape (n_features,)
        Sums over rows of squared contributions, each minus its mean.
    magnitude : ndarray of shape (n_features,)
        Size of the summands of the scores.
    size : ndarray of shape (n_features,)
        Size of the largest possible scores of the feature's splits.
    n_rows : int
        Number of rows.
    """
    is_rounded = drop_rounding(variance, magnitude, n_rows) == 0
    # Far below the bound, rows contribute nothing.
    is_near = drop_rounding(variance, _FAR_BELOW * magnitude, n_rows) > 0
    is_lost = is_rounded & is_near & (ROUNDING * magnitude > _SMALL * size)
    return int(np.argmax(is_lost)) if is_lost.any() else None


def find_mismatch(residual: Floats, magnitude: Floats, n_rows: int) -> int | None:
    """The first feature with row contributions that do not sum to its score; None if all do.

    Parameters
    ----------
    residual : ndarray of shape (n_features,)
        Sums of contributions over all rows minus the scores.
    magnitude : ndarray of shape (n_features,)
        Size of the summands of the scores.
    n_rows : int
        Number of rows; rounding errors grow with its square root.
    """
    is_off = ~(np.abs(residual) <= ROUNDING * np.sqrt(max(n_rows, 1)) * magnitude)
    return int(np.argmax(is_off)) if is_off.any() else None
