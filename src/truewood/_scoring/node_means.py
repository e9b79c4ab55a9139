"""Training means at the nodes, for trees that store other values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from truewood._engines.records import RowLists
from truewood._engines.selection import get_engine
from truewood._inputs.tables import RowData
from truewood._measures.hazards import allocate_life_tables
from truewood._rows.training_check import have_same_weights
from truewood._scoring.inputs import ScoringInputs
from truewood._trees.ensemble import TreeEnsemble
from truewood._trees.node_sums import NodeSums, aggregate_to_root
from truewood.adapters import TreeModel


def read_with_means(inputs: ScoringInputs, trees: range) -> TreeEnsemble:
    """Read the trees of a range with training means at their nodes."""
    training = inputs.tree_model.training if inputs.evaluation_rows.are_training else None
    if training is None:
        return read_fitted_means(inputs.tree_model, trees)
    ensemble = inputs.tree_model.read(trees)
    if ensemble.statistic == "mean" and not training.is_honest:
        return ensemble
    if inputs.compares_hazards:
        ensemble = allocate_life_tables(ensemble)
    return recompute_means(ensemble, trees, inputs.tree_model, inputs.data)


def read_fitted_means(tree_model: TreeModel, trees: range) -> TreeEnsemble:
    """Read the trees of a range with means at their nodes, from the fitted model alone."""
    ensemble = tree_model.read(trees)
    return ensemble if ensemble.statistic == "mean" else average_leaves(ensemble)


def recompute_means(ensemble: TreeEnsemble, trees: range, tree_model: TreeModel, data: RowData) -> TreeEnsemble:
    """Compute node values from the training rows, and for honest trees the weights as well."""
    training = tree_model.training
    if training is None:
        raise ValueError(
            f"the node means of {tree_model.name} have to be computed from its training rows, which it does not record."
        )
    means, weights, impurity = [], [], []
    for k, tree in enumerate(trees):
        one = ensemble[k : k + 1]
        weight = training.list_splitting_rows(tree, data.target, data.weight).weight
        rows = RowLists.join([np.flatnonzero(weight)])
        leaves = tree_model.find_leaves(range(tree, tree + 1), one, data.matrix, rows)
        sums = get_engine().sum_leaves(one, leaves, rows, data.target, weight)
        if not training.is_honest and not have_same_weights(one, sums):
            raise ValueError(
                "sample_weight must be that of the fit, because the node means of this model have to be computed from "
                "its training rows; the given weights do not reproduce its node weights."
            )
        means.append(sums.mean)
        weights.append(sums.weight if training.is_honest else one.weight)
        impurity.append(find_root_impurity(one, sums))
    value = np.concatenate(means) + data.target.origin
    return ensemble.with_means(value, np.concatenate(impurity), np.concatenate(weights))


def average_leaves(ensemble: TreeEnsemble) -> TreeEnsemble:
    """Set inner nodes to the weighted means of their leaves' values, and their weights to the sums of the leaves'.

    Libraries round the weights of inner nodes, and a score is independent of the target's mean only if they add up.
    """
    weight = aggregate_to_root(ensemble, np.where(ensemble.left < 0, ensemble.weight, 0.0))
    value = ensemble.value.copy()
    for level in reversed(ensemble.levels):
        # From the difference of the children: the mean of equal values is that value, to the last bit.
        left, right = ensemble.left[level], ensemble.right[level]
        share = np.divide(weight[right], weight[level], out=np.zeros(len(level)), where=weight[level] > 0)
        value[level] = value[left] + share[:, np.newaxis] * (value[right] - value[left])
    return ensemble.with_means(value, ensemble.root_impurity, weight)


def find_root_impurity(ensemble: TreeEnsemble, sums: NodeSums) -> NDArray[np.float64]:
    """Impurity of the rows at each root around their own mean, (n_trees,): Gini or variance, mean over outputs."""
    at_roots = sums.take(ensemble.offset[:-1])
    mean = at_roots.mean
    impurity: NDArray[np.float64] = (at_roots.mean_square - ensemble.kind.sum_columns(mean * mean)).mean(axis=1)
    return impurity
