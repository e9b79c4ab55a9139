"""What the training rows said: is this the data the model was fit on, and what were the means at its nodes?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from truewood.adapters import Bags, ModelView
from truewood.ensemble import TreeEnsemble
from truewood.frames import FeatureMatrix
from truewood.node_sums import NodeSums
from truewood.routing import RowLists, sum_rows
from truewood.target import Target

# Relative difference up to which two sums of the same numbers, taken in another order, are called the same.
_SAME_SUM = 1e-6


def is_training_data(
    view: ModelView,
    tree: int,
    matrix: FeatureMatrix,
    target: Target,
    sample_weight: NDArray[np.float64] | None,
) -> bool:
    """Whether the tree's training rows, routed again, give the counts it has stored, and the means where it stores them.

    A model without bags is taken to have trained each tree on all rows.
    """
    if view.training_counts is None:
        return False
    counts = view.training_counts(tree)
    if view.bags is None:
        entered, weight = np.arange(matrix.n_rows), sample_weight
    else:
        entered = view.bags.enter(tree)
        if len(entered) and entered.max() >= matrix.n_rows:
            return False
        weight = view.bags.weigh(tree, target, sample_weight)
        entered = entered[weight[entered] > 0]
    if len(entered) != counts[0]:
        return False
    ensemble = view.read(range(tree, tree + 1))
    if not np.array_equal(_sum_training_rows(ensemble, matrix, target, entered, None).weight, counts):
        return False
    sums = _sum_training_rows(ensemble, matrix, target, np.arange(matrix.n_rows), weight)
    comparable = view.holds_means and np.allclose(sums.weight, ensemble.weight, rtol=_SAME_SUM, atol=0.0)
    return not comparable or _same_means(ensemble, sums)


def _same_means(ensemble: TreeEnsemble, sums: NodeSums) -> bool:
    value = ensemble.value - sums.origin
    spread = float(np.abs(value).max())
    return bool(np.abs(sums.mean - value).max() <= _SAME_SUM * max(spread, 1e-300))


def recompute_means(
    ensemble: TreeEnsemble,
    trees: range,
    bags: Bags,
    matrix: FeatureMatrix,
    target: Target,
    sample_weight: NDArray[np.float64] | None,
) -> TreeEnsemble:
    """Replace node values by training means, from the training rows themselves."""
    parts = []
    for k, tree in enumerate(trees):
        one = ensemble[k : k + 1]
        weight = bags.weigh(tree, target, sample_weight)
        sums = _sum_training_rows(one, matrix, target, np.flatnonzero(weight), weight)
        if not np.allclose(sums.weight, one.weight, rtol=_SAME_SUM, atol=0.0):
            raise ValueError(
                "the training means of this model have to be recomputed, and its rows do not have the weights it was "
                "fit with; pass the sample_weight of the fit."
            )
        parts.append(sums)
    mean = np.concatenate([sums.mean for sums in parts])
    return ensemble.with_values(mean + target.origin, np.array([root_impurity(ensemble, sums) for sums in parts]))


def root_impurity(ensemble: TreeEnsemble, sums: NodeSums, root: int = 0) -> float:
    """Impurity of the rows at a root, around their own mean: Gini or variance, mean over outputs."""
    mean = sums.mean[root : root + 1]
    return float((sums.mean_square[root] - ensemble.kind.sum_columns(mean * mean)[0]).mean())


def _sum_training_rows(
    ensemble: TreeEnsemble,
    matrix: FeatureMatrix,
    target: Target,
    rows: NDArray[np.int64],
    weight: NDArray[np.float64] | None,
) -> NodeSums:
    return sum_rows(ensemble, matrix, RowLists.join([rows]), target, weight)
