"""What the training rows said: is this the data the model was fit on, and what were the means at its nodes?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from truewood.adapters import Bags, ModelView
from truewood.ensemble import TreeEnsemble
from truewood.frames import FeatureMatrix
from truewood.node_sums import NodeSums
from truewood.routing import RowLists, get_engine, sum_rows
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
    """Whether the tree's training rows, routed again, give the counts and (where it stores them) the means it has.

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
    ensemble, rows, engine = view.read(range(tree, tree + 1)), RowLists.join([entered]), get_engine()
    leaves = engine.find_leaves(ensemble, matrix, rows)
    if not np.array_equal(engine.sum_leaves(ensemble, leaves, rows, target, None).weight, counts):
        return False
    if weight is not None:
        weight = weight / np.maximum(np.bincount(entered, minlength=matrix.n_rows), 1)
    sums = engine.sum_leaves(ensemble, leaves, rows, target, weight)
    has_means = view.holds_means and np.allclose(sums.weight, ensemble.weight, rtol=_SAME_SUM, atol=0.0)
    return not has_means or _same_means(ensemble, sums)


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
    means, impurity = [], []
    for k, tree in enumerate(trees):
        one = ensemble[k : k + 1]
        weight = bags.weigh(tree, target, sample_weight)
        sums = sum_rows(one, matrix, RowLists.join([np.flatnonzero(weight)]), target, weight)
        if not np.allclose(sums.weight, one.weight, rtol=_SAME_SUM, atol=0.0):
            raise ValueError(
                "the training means of this model have to be recomputed, and its rows do not have the weights it was "
                "fit with; pass the sample_weight of the fit."
            )
        means.append(sums.mean)
        impurity.append(root_impurity(one, sums))
    mean = np.concatenate(means)
    return ensemble.with_values(mean + target.origin, np.concatenate(impurity))


def root_impurity(ensemble: TreeEnsemble, sums: NodeSums) -> NDArray[np.float64]:
    """Impurity of the rows at each root around their own mean, (n_trees,): Gini or variance, mean over outputs."""
    at_roots = sums.take(ensemble.offset[:-1])
    mean = at_roots.mean
    impurity: NDArray[np.float64] = (at_roots.mean_square - ensemble.kind.sum_columns(mean * mean)).mean(axis=1)
    return impurity
