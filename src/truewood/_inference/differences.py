"""How far the difference of two scores may be off, without refitting."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from truewood._inference.standard_errors import correct_for_clusters
from truewood._inputs.row_arrays import sum_groups

Floats = NDArray[np.float64]
RowGroups = NDArray[np.int64] | None


def pair_rows(phi_a: Floats, phi_b: Floats, groups: RowGroups) -> Floats:
    """Variances of differences of scores by the same unseen rows, for two models that are given.

    Parameters
    ----------
    phi_a, phi_b : ndarray of shape (n_rows, n_features)
        What each row adds to the scores.
    groups : ndarray of int64, shape (n_rows,), or None
        The group of each row, where rows belong together.
    """
    return _sum_squares(phi_a - phi_b, groups)


def pair_grown_rows(
    phi_a: Floats,
    phi_b: Floats,
    std_error_a: Floats,
    std_error_b: Floats,
    noise_a: Floats,
    noise_b: Floats,
    groups: RowGroups,
) -> Floats:
    """Variances of differences of scores by the same rows, where these grew both forests.

    The sum of squares of phi_a - phi_b has a part from the trees themselves, of about the forest noise of both: all
    of it where the forests differ by their seeds only. What is above that comes from the rows, and grows by what rows
    do by growing trees. That is taken to be in the proportion that it has in the scores themselves.

    Parameters
    ----------
    phi_a, phi_b : ndarray of shape (n_rows, n_features)
        What each row adds to the scores.
    std_error_a, std_error_b : ndarray of shape (n_features,)
        Standard errors of the scores.
    noise_a, noise_b : ndarray of shape (n_features,)
        Variances of the scores because a forest is one of many that could be grown on the same data.
    groups : ndarray of int64, shape (n_rows,), or None
        The group of each row, where rows belong together.
    """
    noise = noise_a + noise_b
    of_rows = np.maximum(_sum_squares(phi_a - phi_b, groups) - noise, 0.0)
    growth = np.maximum(
        _find_growth(phi_a, std_error_a, noise_a, groups), _find_growth(phi_b, std_error_b, noise_b, groups)
    )
    variance: Floats = growth * of_rows + noise
    return variance


def _find_growth(phi: Floats, std_error: Floats, noise: Floats, groups: RowGroups) -> Floats:
    """Variance of scores over data sets as a multiple of what rows do by scoring trees, at least 1."""
    scoring = _sum_squares(phi, groups)
    growth: Floats = np.divide(std_error**2 - noise, scoring, out=np.ones_like(scoring), where=scoring > 0)
    return np.maximum(growth, 1.0)


def _sum_squares(values: Floats, groups: RowGroups) -> Floats:
    centred, widening = values - values.mean(axis=0), 1.0
    if groups is not None:
        centred = sum_groups(centred, groups, int(groups.max()) + 1)
        widening = correct_for_clusters(np.bincount(groups).astype(np.float64))
    summed: Floats = widening * (centred**2).sum(axis=0)
    return summed
