"""Confidence sets of ranks, from tests of all differences between the scores of two features (Goldwasser & Hooker)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]
Ranks = NDArray[np.int64]


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
