"""Many tests at once: adjusted p-values, and p-values from the scores of all features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from truewood.arguments import is_choice
from truewood.words import quote

Floats = NDArray[np.float64]


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


# Fewer scores that are not positive than this say little about their distribution.
_FEWEST_MIRRORED = 20


def mirror(values: Floats) -> Floats:
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
