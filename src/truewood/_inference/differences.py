"""Variances of differences between two scores, without refitting."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from truewood._inference.standard_errors import find_cluster_correction
from truewood._inputs.groups import sum_row_groups

Floats = NDArray[np.float64]
RowGroups = NDArray[np.int64] | None


def measure_paired_variance(contributions_a: Floats, contributions_b: Floats, groups: RowGroups) -> Floats:
    """Variances of differences between the scores of two fixed models on the same held-out rows.

    Parameters
    ----------
    contributions_a, contributions_b : ndarray of shape (n_rows, n_features)
        Contributions of each row to the scores.
    groups : ndarray of int64, shape (n_rows,), or None
        The group of each row; None if rows are not grouped.
    """
    return _sum_squares(contributions_a - contributions_b, groups)


def measure_paired_oob_variance(
    contributions_a: Floats,
    contributions_b: Floats,
    std_error_a: Floats,
    std_error_b: Floats,
    noise_a: Floats,
    noise_b: Floats,
    groups: RowGroups,
) -> Floats:
    """Variances of differences between the out-of-bag scores of two forests trained on the same rows.

    The sum of squares of the differences of contributions includes roughly the forest noise of both: all of it is noise
    if the forests differ by their seeds only. The remainder comes from the rows, and is inflated by the influence of
    in-bag rows, in the same proportion as in the scores themselves.

    Parameters
    ----------
    contributions_a, contributions_b : ndarray of shape (n_rows, n_features)
        Contributions of each row to the scores.
    std_error_a, std_error_b : ndarray of shape (n_features,)
        Standard errors of the scores.
    noise_a, noise_b : ndarray of shape (n_features,)
        Forest noise of the scores, see `find_forest_noise`.
    groups : ndarray of int64, shape (n_rows,), or None
        The group of each row; None if rows are not grouped.
    """
    noise = noise_a + noise_b
    of_rows = np.maximum(_sum_squares(contributions_a - contributions_b, groups) - noise, 0.0)
    inflation = np.maximum(
        _find_inflation(contributions_a, std_error_a, noise_a, groups),
        _find_inflation(contributions_b, std_error_b, noise_b, groups),
    )
    variance: Floats = inflation * of_rows + noise
    return variance


def correlate_contributions(contributions: Floats, feature: int, groups: RowGroups) -> Floats:
    """Correlations over rows, or groups of rows, of one feature's contributions with those of all features.

    Parameters
    ----------
    contributions : ndarray of shape (n_rows, n_features)
        Contributions of each row to the scores.
    feature : int
        Position of the feature.
    groups : ndarray of int64, shape (n_rows,), or None
        The group of each row; None if rows are not grouped.
    """
    centered = contributions - contributions.mean(axis=0)
    if groups is not None:
        centered = sum_row_groups(centered, groups, int(groups.max()) + 1)
    products = (centered[:, [feature]] * centered).sum(axis=0)
    scale = np.sqrt((centered[:, feature] ** 2).sum() * (centered**2).sum(axis=0))
    correlation: Floats = np.divide(products, scale, out=np.zeros_like(products), where=scale > 0)
    return correlation


def _find_inflation(contributions: Floats, std_error: Floats, noise: Floats, groups: RowGroups) -> Floats:
    """Variance of scores over data sets as a multiple of the variance from evaluation rows, at least 1."""
    scoring = _sum_squares(contributions, groups)
    inflation: Floats = np.divide(std_error**2 - noise, scoring, out=np.ones_like(scoring), where=scoring > 0)
    return np.maximum(inflation, 1.0)


def _sum_squares(values: Floats, groups: RowGroups) -> Floats:
    centered, correction = values - values.mean(axis=0), 1.0
    if groups is not None:
        centered = sum_row_groups(centered, groups, int(groups.max()) + 1)
        correction = find_cluster_correction(np.bincount(groups).astype(np.float64))
    summed: Floats = correction * (centered**2).sum(axis=0)
    return summed
