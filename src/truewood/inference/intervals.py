"""Confidence intervals that agree with the tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]


def find_interval(values: Floats, test_error: Floats, std_error: Floats, level: float) -> tuple[Floats, Floats]:
    """Ends of the expected scores that agree with the scores found, shape (n_features,).

    An expected score agrees if the score is no further from it than z standard deviations (Wilson's way): of
    `test_error` at an expected score of zero, of `std_error` at the score that was found, and of variances in between
    on the line through these two. So the interval is above zero just where a test at this level says so. Where it
    does not, there is less and less to draw the line by.

    Parameters
    ----------
    values : ndarray of shape (n_features,)
        Scores.
    test_error, std_error : ndarray of shape (n_features,)
        How far they may be off, see `Errors`.
    level : float
        Share of data sets whose interval holds the expected score.
    """
    z = stats.norm.ppf(0.5 + level / 2)
    low, high = values - z * test_error, values + z * test_error
    least = np.maximum(values, z * test_error)
    grown = np.maximum(std_error**2 - test_error**2, 0.0) * np.maximum(values, 0.0)
    shift = z**2 / 2 * np.divide(grown, least**2, out=np.zeros_like(values), where=least > 0)
    half = np.sqrt((z * test_error) ** 2 + 2 * shift * values + shift**2)
    return np.where(low > 0, values + shift - half, low), np.where(high > 0, values + shift + half, high)
