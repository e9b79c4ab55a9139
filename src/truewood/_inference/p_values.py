"""z-scores, p-values of single features and of many at once, and intervals and ranks that agree with them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from truewood._arguments import is_choice, is_fraction
from truewood._formatting import quote

Floats = NDArray[np.float64]
Ranks = NDArray[np.int64]

# Minimum number of non-positive scores for an estimate of their distribution.
_FEWEST_MIRRORED = 20


def find_z_score(values: Floats | float, std_error: Floats | float) -> Floats:
    """Values in units of their standard errors, of the same shape; 0 if the error is 0."""
    z_score: Floats = np.divide(values, std_error, out=np.zeros(np.shape(values)), where=np.not_equal(std_error, 0))
    return z_score


def find_p_value(values: Floats | float, std_error: Floats | float, *, two_sided: bool = False) -> Floats:
    """One-sided or two-sided p-values of values that are normal around zero; 1 if the error is 0."""
    z_score = find_z_score(values, std_error)
    if two_sided:
        p_value: Floats = 2.0 * stats.norm.sf(np.abs(z_score))
        return p_value
    return np.where(np.equal(std_error, 0), 1.0, stats.norm.sf(z_score))


def adjust(p_value: Floats, correction: str | None) -> Floats:
    """Adjust p-values for testing many features at once.

    Parameters
    ----------
    p_value : ndarray of shape (n_features,)
        P-values of single tests.
    correction : {"bh", "by", "holm"} or None
        Benjamini & Hochberg (false discovery rate), Benjamini & Yekutieli (the same under any dependence), Holm
        (family-wise error rate), or none.
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
    """P-values from all scores together (Janitza et al. 2018): non-positive scores give the null distribution.

    Parameters
    ----------
    values : ndarray of shape (n_features,)
        Scores with equal variances, such as z-scores.
    """
    negative, zero = values[values < 0], values[values == 0]
    if len(negative) + len(zero) < _FEWEST_MIRRORED:
        raise ValueError(
            f"Janitza's p-values need at least {_FEWEST_MIRRORED} features with a score that is not positive, got "
            f"{len(negative) + len(zero)}; use p_value, or permutation_test."
        )
    null = np.sort(np.concatenate([negative, zero, -negative]))
    n_above = len(null) - np.searchsorted(null, values, side="left")
    # The score itself counts as one of the null scores: no p-value is zero.
    shares = (1.0 + n_above) / (1.0 + len(null))
    return np.asarray(shares, dtype=np.float64)


def find_critical_value(level: Any) -> float:
    """Half the width of a two-sided interval of this level around a normal score, in standard errors."""
    if not is_fraction(level):
        raise ValueError(f"level must lie between 0 and 1, got {quote(level)}; pass 0.95 for 95% intervals.")
    return float(stats.norm.ppf(0.5 + level / 2))


def find_interval(values: Floats, null_std_error: Floats, std_error: Floats, level: float) -> tuple[Floats, Floats]:
    """Confidence limits of the expected scores at a level such as 0.95, shape (n_features,); see `find_limits`."""
    return find_limits(values, null_std_error, std_error, find_critical_value(level))


def find_limits(values: Floats, null_std_error: Floats, std_error: Floats, z: Floats | float) -> tuple[Floats, Floats]:
    """Confidence limits of the expected scores, of the shape that the arguments broadcast to.

    An expected score is in the interval if the score is at most z standard errors from it (Wilson's method):
    `null_std_error` at an expected score of zero, `std_error` at the observed score, and variances on the line
    through these two in between. Thus the interval is above zero exactly if a test at this level is significant.

    Parameters
    ----------
    values : ndarray of shape (n_features,)
        Scores.
    null_std_error, std_error : ndarray of shape (n_features,)
        Their standard errors, see `Errors`.
    z : float or ndarray
        Critical value, positive.
    """
    low, high = values - z * null_std_error, values + z * null_std_error
    least = np.maximum(values, z * null_std_error)
    in_bag = np.maximum(std_error**2 - null_std_error**2, 0.0) * np.maximum(values, 0.0)
    shift = z**2 / 2 * np.divide(in_bag, least**2, out=np.zeros_like(least), where=least > 0)
    half = np.sqrt((z * null_std_error) ** 2 + 2 * shift * values + shift**2)
    return np.where(low > 0, values + shift - half, low), np.where(high > 0, values + shift + half, high)


def find_rank_sets(z_score: Floats, alpha: float) -> tuple[Ranks, Ranks]:
    """Best and worst ranks that features may have, which hold for all features at once with confidence 1 - alpha.

    Each ordered pair of features is a one-sided hypothesis: the first one's expected score is not larger. Holm's
    procedure bounds the probability of rejecting any true one by alpha. A feature ranks behind those that are
    significantly larger, and before those that are significantly smaller.

    Parameters
    ----------
    z_score : ndarray of shape (n_features, n_features)
        Score of the first feature minus that of the second, in standard errors of this difference.
    alpha : float
        Probability that any set does not contain the rank of the feature's expected score.
    """
    n_features = len(z_score)
    n_pairs = n_features * (n_features - 1)
    n_rejected, is_larger = -1, np.zeros((n_features, n_features), dtype=bool)
    while int(np.count_nonzero(is_larger)) > n_rejected:
        n_rejected = int(np.count_nonzero(is_larger))
        is_larger = z_score > stats.norm.isf(alpha / max(n_pairs - n_rejected, 1))
    best: Ranks = 1 + is_larger.sum(axis=0)
    worst: Ranks = n_features - is_larger.sum(axis=1)
    return best, worst
