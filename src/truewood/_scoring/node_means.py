"""Training means at the nodes, for trees that store something else there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from truewood._engines.row_lists import RowLists
from truewood._engines.selection import get_engine
from truewood._measures.hazards import make_room
from truewood._rows.training_check import RowData, have_same_weights
from truewood._scoring.inputs import ScoringInputs
from truewood._trees.ensemble import TreeEnsemble
from truewood._trees.node_sums import NodeSums, aggregate_to_root
from truewood.adapters import TreeModel


def read_with_means(inputs: ScoringInputs, trees: range) -> TreeEnsemble:
    """The trees of a range with training means at their nodes."""
    training = inputs.tree_model.training if inputs.evaluation_rows.are_training else None
    if training is None:
        return read_fitted_means(inputs.tree_model, trees)
    ensemble = inputs.tree_model.read(trees)
    if ensemble.statistic == "mean" and not training.is_honest:
        return ensemble
    return recompute_means(
        make_room(ensemble) if inputs.compares_hazards else ensemble, trees, inputs.tree_model, inputs.data
    )


def read_fitted_means(tree_model: TreeModel, trees: range) -> TreeEnsemble:
    """The trees of a range with means at their nodes, as the fitted model alone tells them."""
    ensemble = tree_model.read(trees)
    return ensemble if ensemble.statistic == "mean" else average_leaves(ensemble)


def recompute_means(ensemble: TreeEnsemble, trees: range, tree_model: TreeModel, data: RowData) -> TreeEnsemble:
    """Replace node values by training means, and weights of honest trees too, from the training rows themselves."""
    training = tree_model.training
    if training is None:
        raise ValueError(
            f"{tree_model.name} does not remember its training rows, which its node means have to come from."
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
                "the training means of this model have to be recomputed, and its rows do not have the weights it was "
                "fit with; pass the sample_weight of the fit."
            )
        means.append(sums.mean)
        weights.append(sums.weight if training.is_honest else one.weight)
        impurity.append(root_impurity(one, sums))
    value = np.concatenate(means) + data.target.origin
    return ensemble.with_means(value, np.concatenate(impurity), np.concatenate(weights))


def average_leaves(ensemble: TreeEnsemble) -> TreeEnsemble:
    """Replace values of inner nodes by the weighted means of their leaves' values, and weights by the leaves' sums.

    Libraries round the weights of inner nodes, and a score is free of the target's mean only where they add up.
    """
    weight = aggregate_to_root(ensemble, np.where(ensemble.left < 0, ensemble.weight, 0.0))
    value = ensemble.value.copy()
    for level in reversed(ensemble.levels):
        # By the difference of the children: the mean of equal values is that value, to the last bit.
        left, right = ensemble.left[level], ensemble.right[level]
        share = np.divide(weight[right], weight[level], out=np.zeros(len(level)), where=weight[level] > 0)
        value[level] = value[left] + share[:, np.newaxis] * (value[right] - value[left])
    return ensemble.with_means(value, ensemble.root_impurity, weight)


def root_impurity(ensemble: TreeEnsemble, sums: NodeSums) -> NDArray[np.float64]:
    """Impurity of the rows at each root around their own mean, (n_trees,): Gini or variance, mean over outputs."""
    at_roots = sums.take(ensemble.offset[:-1])
    mean = at_roots.mean
    impurity: NDArray[np.float64] = (at_roots.mean_square - ensemble.kind.sum_columns(mean * mean)).mean(axis=1)
    return impurity
