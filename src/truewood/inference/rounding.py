"""What double precision can tell apart, given the size of the numbers that were added up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Rounding errors as a share of the magnitude of what was added up: a few units in the last place.
ROUNDING = 2.0**-49


def drop_rounding(variance: Floats, magnitude: Floats) -> Floats:
    """Variances, with zero where the spread is no larger than rounding errors of what was added up."""
    return np.where(variance > (ROUNDING * magnitude) ** 2, variance, 0.0)


def find_unresolved(values: Floats, variance: Floats, magnitude: Floats) -> int | None:
    """The first feature whose score is larger than rounding errors while its spread is not; None where there is none.

    Parameters
    ----------
    values, variance : ndarray of shape (n_features,)
        Scores, and sums over rows of squared contributions, each minus its mean.
    magnitude : ndarray of shape (n_features,)
        Size of what was added up to the scores.
    """
    is_lost = (variance > 0) & (drop_rounding(variance, magnitude) == 0) & (np.abs(values) > ROUNDING * magnitude)
    return int(np.argmax(is_lost)) if is_lost.any() else None


def find_mismatch(residual: Floats, magnitude: Floats, n_rows: int) -> int | None:
    """The first feature whose contributions of rows do not sum to its score; None where all do.

    Parameters
    ----------
    residual : ndarray of shape (n_features,)
        Sums of contributions over all rows minus the scores.
    magnitude : ndarray of shape (n_features,)
        Size of what was added up to the scores.
    n_rows : int
        Number of rows: errors of that many additions grow with its square root.
    """
    is_off = ~(np.abs(residual) <= ROUNDING * np.sqrt(max(n_rows, 1)) * magnitude)
    return int(np.argmax(is_off)) if is_off.any() else None
