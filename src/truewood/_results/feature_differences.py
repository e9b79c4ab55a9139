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


# The largest critical value that is looked for, and the number of bisections between it and zero.
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
    values, contributions, is_fixed = result.values, result.contributions, result.rows == "heldout"
    noise = np.zeros(len(values)) if is_fixed else get_forest_noise(result)
    of_rows = np.sqrt(np.maximum(result.std_error**2 - noise, 0.0))
    z_score = np.zeros((len(values), len(values)))
    for k, value in enumerate(values):
        difference, added = value - values, np.zeros(len(values))
        if contributions is not None and is_fixed:
            variance = measure_paired_variance(contributions[:, [k]], contributions, result.groups)
        else:
            correlation = np.full(len(values), -1.0)
            if contributions is not None:
                correlation = np.minimum(correlate_contributions(contributions, k, result.groups), 0.0)
            variance = of_rows[k] ** 2 + of_rows**2 - 2.0 * correlation * of_rows[k] * of_rows
        if not is_fixed:
            added = _find_noise(result, difference, result.per_tree[:, [k]] - result.per_tree)
            variance = variance + added
        error = np.sqrt(drop_rounding(variance, result.std_error[k] + result.std_error))
        z_score[k] = find_z_score(difference, error)
        if not is_fixed:
            is_larger = z_score[k] > 0
            z_score[k, is_larger] = _invert_limits(
                result, k, np.flatnonzero(is_larger), correlation[is_larger], added[is_larger]
            )
    return z_score


def _invert_limits(
    result: ImportanceResult, first: int, others: NDArray[np.intp], correlation: Floats, noise: Floats
) -> Floats:
    """The critical values at which the lower limits of one score minus smaller ones are zero, shape (n_others,).

    `noise` is the forest noise of the differences, which takes the place of that of the two scores.
    """
    values, null, std_error = result.values, result.null_std_error, result.std_error
    share = find_z_score(np.sqrt(np.maximum(std_error**2 - get_forest_noise(result), 0.0)), std_error)
    lowest, highest = np.zeros(len(others)), np.full(len(others), _MOST_ERRORS)
    for _ in range(_N_BISECTIONS):
        z = (lowest + highest) / 2
        below = share[first] * (values[first] - find_limits(values[first], null[first], std_error[first], z)[0])
        above = share[others] * (find_limits(values[others], null[others], std_error[others], z)[1] - values[others])
        distance = np.sqrt(below**2 + above**2 - 2.0 * correlation * below * above + noise * z**2)
        is_less = distance < values[first] - values[others]
        lowest, highest = np.where(is_less, z, lowest), np.where(is_less, highest, z)
    return lowest


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
