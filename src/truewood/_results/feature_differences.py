"""Differences between the scores of a result's own features, with standard errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from truewood._inference.differences import correlate_contributions, measure_paired_variance
from truewood._inference.moments import drop_rounding, find_forest_noise
from truewood._inference.p_values import find_z_score

if TYPE_CHECKING:
    from truewood._results.importance_result import ImportanceResult

Floats = NDArray[np.float64]


def measure_feature_differences(result: ImportanceResult) -> Floats:
    """Differences between the scores of any two features in standard errors, shape (n_features, n_features).

    Held-out rows evaluate a fixed model, and their contributions give the variance of a difference. Otherwise it is the
    variance from rows plus forest noise, which the scores by tree show. Contributions show how scores vary together
    through evaluation rows but not through in-bag rows, so that only a negative correlation counts. Without
    contributions, the variance from rows is the largest possible one, that of a correlation of -1.
    """
    values, contributions, is_fixed = result.values, result.contributions, result.rows == "heldout"
    noise = np.zeros(len(values)) if is_fixed else get_forest_noise(result)
    of_rows = np.sqrt(np.maximum(result.std_error**2 - noise, 0.0))
    z_score = np.zeros((len(values), len(values)))
    for k, value in enumerate(values):
        if contributions is not None and is_fixed:
            variance = measure_paired_variance(contributions[:, [k]], contributions, result.groups)
        else:
            correlation = (
                -1.0
                if contributions is None
                else np.minimum(correlate_contributions(contributions, k, result.groups), 0.0)
            )
            variance = of_rows[k] ** 2 + of_rows**2 - 2.0 * correlation * of_rows[k] * of_rows
        if not is_fixed:
            difference = values[k] - values, result.per_tree[:, [k]] - result.per_tree
            variance = variance + _find_noise(result, *difference)
        magnitude = result.std_error[k] + result.std_error
        z_score[k] = find_z_score(value - values, np.sqrt(drop_rounding(variance, magnitude)))
    return z_score


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
