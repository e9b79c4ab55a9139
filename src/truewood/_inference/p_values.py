"""Tests of single features and of many at once, and confidence intervals that agree with them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from truewood._arguments import is_choice
from truewood._formatting import quote

Floats = NDArray[np.float64]


# Fewer scores that are not positive than this say little about their distribution.
_FEWEST_MIRRORED = 20


def adjust(p_value: Floats, correction: str | None) -> Floats:
    """Adjust p-values for testing many features at once.

    Parameters
    ----------
    p_value : ndarray of shape (n_features,)
        P-values of single tests.
    correction : {"bh", "by", "holm"} or None
        Benjamini & Hochberg (false discovery rate), Benjamini & Yekutieli (the same under any dependence), Holm
        (probability of any false discovery), or none.
    """
    if correction is None:
        return p_value.copy()
    if is_choice(correction, ("bh", "by")):
        adjusted: Floats = stats.false_discovery_control(p_value, method=correction)
        return adjusted
    if not is_choice(correction, ("holm",)):
        raise ValueError(f"correction must be 'bh', 'by', 'holm' or None, got {quote(correction)}.")
    order = np.argsort(p_value, kind="stable")
    stepped = np.maximum.accumulate(p_value[order] * np.arange(len(p_value), 0, -1))
    holm = np.empty_like(p_value)
    holm[order] = np.minimum(stepped, 1.0)
    return holm


def janitza(values: Floats) -> Floats:
    """P-values from all scores together (Janitza et al. 2018): the null distribution is that of the non-positive ones.

    Parameters
    ----------
    values : ndarray of shape (n_features,)
        Scores of one spread, such as z-scores.
    """
    negative, zero = values[values < 0], values[values == 0]
    if len(negative) + len(zero) < _FEWEST_MIRRORED:
        raise ValueError(
            f"mirrored p-values need at least {_FEWEST_MIRRORED} features whose score is not positive, got "
            f"{len(negative) + len(zero)}; use p_value, or permutation_test."
        )
    null = np.sort(np.concatenate([negative, zero, -negative]))
    n_above = len(null) - np.searchsorted(null, values, side="left")
    # A feature is one of those that could have been so large by chance: no p-value is zero.
    shares = (1.0 + n_above) / (1.0 + len(null))
    return np.asarray(shares, dtype=np.float64)


def find_interval(values: Floats, null_std_error: Floats, std_error: Floats, level: float) -> tuple[Floats, Floats]:
    """Ends of the expected scores that agree with the scores found, shape (n_features,).

    An expected score agrees if the score is no further from it than z standard deviations (Wilson's way): of
    `null_std_error` at an expected score of zero, of `std_error` at the score that was found, and of variances in
    between on the line through these two. So the interval is above zero just where a test at this level says so. Where
    it does not, there is less and less to draw the line by.

    Parameters
    ----------
    values : ndarray of shape (n_features,)
        Scores.
    null_std_error, std_error : ndarray of shape (n_features,)
        How far they may be off, see `Errors`.
    level : float
        Share of data sets whose interval holds the expected score.
    """
    z = stats.norm.ppf(0.5 + level / 2)
    low, high = values - z * null_std_error, values + z * null_std_error
    least = np.maximum(values, z * null_std_error)
    in_bag = np.maximum(std_error**2 - null_std_error**2, 0.0) * np.maximum(values, 0.0)
    shift = z**2 / 2 * np.divide(in_bag, least**2, out=np.zeros_like(values), where=least > 0)
    half = np.sqrt((z * null_std_error) ** 2 + 2 * shift * values + shift**2)
    return np.where(low > 0, values + shift - half, low), np.where(high > 0, values + shift + half, high)
