"""What the training rows said: whether given data is the data of the fit, and the means at the nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood.adapters import ModelView, Training, TrainingRows
from truewood.data.tables import FeatureMatrix
from truewood.data.target import Target
from truewood.engines.engine import RowLists, find_leaves, get_engine
from truewood.trees.ensemble import TreeEnsemble
from truewood.trees.node_sums import NodeSums, add_up

# Relative difference up to which two sums of the same numbers, taken in another order, are called the same.
_SAME_SUM = 1e-6
# The same for sums that a library keeps as float32.
_SAME_HESSIAN = 1e-5
# Leaves, and trees at most, whose weights tell that rows are those of the fit.
_ENOUGH_LEAVES = 6
_MOST_COUNTED = 20


def is_training_data(
    view: ModelView,
    tree: int,
    matrix: FeatureMatrix,
    target: Target,
    sample_weight: NDArray[np.float64] | None,
) -> bool:
    """Whether the tree's training rows, routed again, give the counts, weights and values that it has stored."""
    training = view.training
    if training is None or not training.fits(matrix.n_rows):
        return False
    counts = training.node_counts(tree)
    rows = training.recall(tree, target, sample_weight)
    if len(rows.counted) != counts[0]:
        return False
    ensemble, lists, engine = view.read(range(tree, tree + 1)), RowLists.join([rows.counted]), get_engine()
    leaves = engine.find_leaves(ensemble, matrix, lists)
    if not np.array_equal(engine.sum_leaves(ensemble, leaves, lists, target, None).weight, counts):
        return False
    if not training.has_weights:
        return True
    # A row that is counted twice has its weight once in `rows.weight`.
    weight = rows.weight / np.maximum(np.bincount(rows.counted, minlength=matrix.n_rows), 1)
    sums = engine.sum_leaves(ensemble, leaves, lists, target, weight)
    return _same_weights(ensemble, sums) and _same_values(ensemble, sums, target, rows)


def _same_weights(ensemble: TreeEnsemble, sums: NodeSums) -> bool:
    return bool(np.allclose(sums.weight, ensemble.weight, rtol=_SAME_SUM, atol=0.0))


def _same_values(ensemble: TreeEnsemble, sums: NodeSums, target: Target, rows: TrainingRows) -> bool:
    """Whether the rows have the values of the nodes: means at all nodes, or mean or median at the root."""
    if ensemble.statistic == "leaf":
        return True
    if ensemble.statistic == "median":
        return _is_median(ensemble.value[0] - target.origin, target, rows.weight)
    nodes: Any = slice(None) if ensemble.statistic == "mean" else slice(1)
    value = ensemble.value[nodes] - sums.origin
    # The library's means carry the rounding of sums of numbers that were not centred.
    rounding = len(rows.counted) * np.finfo(np.float64).eps * float(np.abs(ensemble.value).max())
    tolerance = _SAME_SUM * float(np.abs(value).max()) + rounding
    return bool(np.abs(sums.mean[nodes] - value).max() <= tolerance)


def _is_median(value: NDArray[np.float64], target: Target, weight: NDArray[np.float64]) -> bool:
    """Whether at most half of the weight lies on either side of the value, for each output."""
    numbers = np.empty((0, 0)) if target.numbers is None else target.numbers
    # Centring moved the numbers by a rounding error at most.
    near = 4 * np.finfo(np.float64).eps * (np.abs(numbers).max() + np.abs(target.origin).max())
    half = (0.5 + _SAME_SUM) * weight.sum()
    for outside in (numbers < value - near, numbers > value + near):
        if (np.where(outside, weight[:, np.newaxis], 0.0).sum(axis=0) > half).any():
            return False
    return True


def recompute_means(
    ensemble: TreeEnsemble,
    trees: range,
    training: Training,
    matrix: FeatureMatrix,
    target: Target,
    sample_weight: NDArray[np.float64] | None,
) -> TreeEnsemble:
    """Replace node values by training means, and weights of honest trees too, from the training rows themselves."""
    recall = training.recall_growth or training.recall
    means, weights, impurity = [], [], []
    for k, tree in enumerate(trees):
        one = ensemble[k : k + 1]
        weight = recall(tree, target, sample_weight).weight
        rows, engine = RowLists.join([np.flatnonzero(weight)]), get_engine()
        sums = engine.sum_leaves(one, engine.find_leaves(one, matrix, rows), rows, target, weight)
        if training.recall_growth is None and not _same_weights(one, sums):
            raise ValueError(
                "the training means of this model have to be recomputed, and its rows do not have the weights it was "
                "fit with; pass the sample_weight of the fit."
            )
        means.append(sums.mean)
        weights.append(one.weight if training.recall_growth is None else sums.weight)
        impurity.append(root_impurity(one, sums))
    return ensemble.with_means(np.concatenate(means) + target.origin, np.concatenate(impurity), np.concatenate(weights))


def average_leaves(ensemble: TreeEnsemble) -> TreeEnsemble:
    """Replace values of inner nodes by the weighted means of their leaves' values, and weights by the leaves' sums.

    Libraries round the weights of inner nodes, and a score is free of the target's mean only where they add up.
    """
    is_leaf = ensemble.left < 0
    weight = add_up(ensemble, np.where(is_leaf, ensemble.weight, 0.0))
    is_leaf, divisor = is_leaf[:, np.newaxis], np.where(weight > 0, weight, 1.0)[:, np.newaxis]
    weighted = add_up(ensemble, np.where(is_leaf, ensemble.value * weight[:, np.newaxis], 0.0))
    means = np.where(is_leaf, ensemble.value, weighted / divisor)
    return ensemble.with_means(means, ensemble.root_impurity, weight)


def is_counted(view: ModelView, matrix: FeatureMatrix, sample_weight: NDArray[np.float64] | None) -> bool:
    """Whether rows give the weights of the leaves of additive trees: then they grew them.

    The first tree is grown at a constant score, so that weights of its leaves are proportional to those of the training
    rows even where they are sums of hessians. Later ones are looked at where the first has too few leaves to tell.
    """
    every_row, n_leaves = np.arange(matrix.n_rows), 0
    for tree in range(min(view.n_trees, _MOST_COUNTED)):
        ensemble = view.read(range(tree, tree + 1))
        leaves = find_leaves(view, range(tree, tree + 1), ensemble, matrix, RowLists.join([every_row]))
        is_leaf = ensemble.left < 0
        stored = ensemble.weight[is_leaf]
        counted = [
            np.bincount(leaves, weights=weight, minlength=len(is_leaf))[is_leaf] for weight in (None, sample_weight)
        ]
        if not any(_are_proportional(weight, stored) for weight in counted):
            return False
        n_leaves += len(stored)
        if n_leaves >= _ENOUGH_LEAVES:
            return True
        if not any(np.allclose(weight, stored, rtol=_SAME_SUM, atol=0.0) for weight in counted):
            return False  # hessians, which are not constant after the first tree
    return n_leaves > view.n_trees


def _are_proportional(a: NDArray[Any], b: NDArray[np.float64]) -> bool:
    return bool(np.allclose(a * b.sum(), b * a.sum(), rtol=_SAME_HESSIAN, atol=0.0))


def root_impurity(ensemble: TreeEnsemble, sums: NodeSums) -> NDArray[np.float64]:
    """Impurity of the rows at each root around their own mean, (n_trees,): Gini or variance, mean over outputs."""
    at_roots = sums.take(ensemble.offset[:-1])
    mean = at_roots.mean
    impurity: NDArray[np.float64] = (at_roots.mean_square - ensemble.kind.sum_columns(mean * mean)).mean(axis=1)
    return impurity
