"""Differences between the scores of a result's own features, with standard errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from truewood._inference.differences import correlate_contributions, measure_paired_variance
from truewood._inference.moments import drop_rounding, find_forest_noise
from truewood._inference.p_values import find_limits, find_z_score

if TYPE_CHECKING:
    from truewood._results.importance_result import ImportanceResult

Floats = NDArray[np.float64]

# The largest critical value to search for, and the number of bisections between it and zero.
_MOST_ERRORS, _N_BISECTIONS = 40.0, 50


def measure_feature_differences(result: ImportanceResult) -> Floats:
    """Differences between the scores of any two features in standard errors, shape (n_features, n_features).

    Held-out rows evaluate a fixed model, and their contributions give the variance of a difference. The scores of a
    forest, however, vary more if their expectation is larger. The limits of both intervals then give the limit of a
    difference (Zou & Donner, 2008): the distance from score a to its lower limit and from score b to its upper limit
    are combined as standard errors are. Contributions show how scores vary together through evaluation rows but not
    through in-bag rows, so that only a negative correlation counts; without contributions it is taken to be -1. The
    scores by tree show the forest noise of a difference.
    """
    if result.contributions is not None and result.rows == "heldout":
        contributions = result.contributions
        variance = np.stack(
            [measure_paired_variance(own[:, np.newaxis], contributions, result.groups) for own in contributions.T]
        )
        difference = result.values[:, np.newaxis] - result.values
        return find_z_score(difference, np.sqrt(drop_rounding(variance, _add_all_pairs(result.std_error))))
    return _compare_limits(result)


def _compare_limits(result: ImportanceResult) -> Floats:
    """Critical values at which the limits of the differences are zero, negative for negative differences."""
    values, std_error, n_features = result.values, result.std_error, len(result.values)
    correlation, noise = np.full((n_features, n_features), -1.0), np.zeros((n_features, n_features))
    own_noise = np.zeros(n_features)
    if result.contributions is not None:
        for k in range(n_features):
            correlation[k] = np.minimum(correlate_contributions(result.contributions, k, result.groups), 0.0)
    if result.rows != "heldout":
        own_noise = get_forest_noise(result)
        for k in range(n_features):
            noise[k] = _find_noise(result, values[k] - values, result.per_tree[:, [k]] - result.per_tree)
    # Forest noise of a difference takes the place of that of the two scores.
    of_rows = np.sqrt(np.maximum(std_error**2 - own_noise, 0.0))
    share = np.divide(of_rows, std_error, out=np.zeros(n_features), where=std_error > 0)

    def combine(a: Floats, b: Floats, z: Floats | float) -> Floats:
        """Variance of the differences, from the distances of the scores to their limits, times z squared."""
        a, b = share[:, np.newaxis] * a, share * b
        combined: Floats = a**2 + b**2 - 2.0 * correlation * a * b + noise * z**2
        return combined

    variance = combine(std_error[:, np.newaxis], std_error, 1.0)
    is_larger = (values[:, np.newaxis] > values) & (drop_rounding(variance, _add_all_pairs(std_error)) > 0)
    lowest, highest = np.zeros(variance.shape), np.full(variance.shape, _MOST_ERRORS)
    # The scores of a fixed model vary equally, whatever their expectation.
    null = std_error if result.rows == "heldout" else result.null_std_error
    for _ in range(_N_BISECTIONS):
        z = (lowest + highest) / 2
        low, _ = find_limits(values[:, np.newaxis], null[:, np.newaxis], std_error[:, np.newaxis], z)
        _, high = find_limits(values, null, std_error, z)
        is_less = combine(values[:, np.newaxis] - low, high - values, z) < (values[:, np.newaxis] - values) ** 2
        lowest, highest = np.where(is_less, z, lowest), np.where(is_less, highest, z)
    z_score = np.where(is_larger, lowest, 0.0)
    return z_score - z_score.T


def _add_all_pairs(std_error: Floats) -> Floats:
    return std_error[:, np.newaxis] + std_error


def get_forest_noise(result: ImportanceResult) -> Floats:
    """Variance of the scores over forests that could be fit to the same data, shape (n_features,).

    For folds it is already part of the rows' contributions; boosted trees are not independent draws and have none.
    """
    return _find_noise(result, result.values, result.per_tree)


def _find_noise(result: ImportanceResult, values: Floats, per_tree: Floats) -> Floats:
    is_scored = ~np.isnan(per_tree).any(axis=1)
    if result.is_additive or result.per_fold is not None or not is_scored.any():
        return np.zeros(len(values))
    weight = np.ones(result.n_trees) if result.tree_weight is None else result.tree_weight
    return find_forest_noise(values, per_tree, weight * is_scored)[0]
