"""Training-data check: do given rows reproduce the counts and values stored in the trees?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._engines.records import RowLists
from truewood._engines.selection import get_engine
from truewood._inputs.tables import RowData
from truewood._inputs.target import NumberTarget, Target
from truewood._trees.ensemble import TreeEnsemble
from truewood._trees.node_sums import NodeSums
from truewood.adapters import InBagRows, TrainingRecord, TreeModel

# Relative difference up to which two sums of the same numbers, added in another order, count as equal.
_SAME_SUM = 1e-6
# The same for sums that a library stores as float32.
_SAME_HESSIAN = 1e-5
# Number of leaves with equal weights that identify the training data, and of trees to look at.
_ENOUGH_LEAVES = 6
_MOST_COUNTED = 20
# Maximum number of rows in a small leaf, and number of small leaves that identify the training data: 0.9^200 is 1e-9.
_SMALL_LEAF = 5
_ENOUGH_SMALL = 200


def is_training_data(tree_model: TreeModel, tree: int, data: RowData, n_threads: int = 1) -> bool:
    """Whether the tree's training rows, routed again, reproduce its stored counts, weights and values."""
    training, trees = tree_model.training, range(tree, tree + 1)
    if training is None or not training.fits(data.n_rows):
        return False
    ensemble, engine = tree_model.read(trees), get_engine()
    counts = training.count_at_nodes(tree, len(ensemble.feature))
    rows = training.list_training_rows(tree, data.target, data.weight)
    if len(rows.counted) != counts[0]:
        return False
    lists = RowLists.join([rows.counted])
    leaves = tree_model.find_leaves(trees, ensemble, data.matrix, lists, n_threads)
    if not np.array_equal(engine.sum_leaves(ensemble, leaves, lists, data.target, None).weight, counts):
        return False
    if not training.has_weights:
        return True
    weight = rows.weight
    if not (np.diff(rows.counted) > 0).all():
        # A row that is counted twice has its weight once in `rows.weight`.
        weight = weight / np.maximum(engine.count_rows(rows.counted, data.n_rows), 1.0)
    sums = engine.sum_leaves(ensemble, leaves, lists, data.target, weight)
    return have_same_weights(ensemble, sums) and _have_same_values(ensemble, sums, data.target, rows)


def have_same_weights(ensemble: TreeEnsemble, sums: NodeSums) -> bool:
    """Whether rows reproduce the stored weights of the nodes."""
    return bool(np.allclose(sums.weight, ensemble.weight, rtol=_SAME_SUM, atol=0.0))


def _have_same_values(ensemble: TreeEnsemble, sums: NodeSums, target: Target, rows: InBagRows) -> bool:
    """Whether rows reproduce the values of the nodes: means at all nodes, or mean or median at the root."""
    if ensemble.statistic == "leaf":
        return True
    if ensemble.statistic == "median" and isinstance(target, NumberTarget):
        return _is_median(ensemble.value[0] - target.origin, target, rows.weight)
    nodes: Any = slice(None) if ensemble.statistic == "mean" else slice(1)
    value = ensemble.value[nodes] - sums.origin
    # The library's means carry the rounding errors of sums of uncentered numbers, however close to zero they are.
    size = np.abs(target.numbers).max(axis=0) + np.abs(target.origin) if isinstance(target, NumberTarget) else 1.0
    rounding = len(rows.counted) * np.finfo(np.float64).eps * size
    tolerance = _SAME_SUM * np.abs(value).max(axis=0) + rounding
    return bool((np.abs(sums.mean[nodes] - value) <= tolerance).all())


def _is_median(value: NDArray[np.float64], target: NumberTarget, weight: NDArray[np.float64]) -> bool:
    """Whether at most half of the weight lies on either side of the value, for each output."""
    numbers = target.numbers
    # Centering moved the numbers by a rounding error at most.
    near = 4 * np.finfo(np.float64).eps * (np.abs(numbers).max() + np.abs(target.origin).max())
    half = (0.5 + _SAME_SUM) * weight.sum()
    for outside in (numbers < value - near, numbers > value + near):
        if (np.where(outside, weight[:, np.newaxis], 0.0).sum(axis=0) > half).any():
            return False
    return True


def have_leaf_weights(tree_model: TreeModel, data: RowData, n_threads: int = 1) -> bool:
    """Whether rows reproduce the weights of the leaves of additive trees, as only the training data does."""
    weights = [None] if data.weight is None else [None, data.weight]

    def count_leaves(tree: int, ensemble: TreeEnsemble) -> list[NDArray[Any]]:
        if not tree_model.finds_leaves:
            engine, target = get_engine(), data.target
            return [engine.sum_nodes(ensemble, data.matrix, target, own, n_threads).weight for own in weights]
        every_row = RowLists.join([np.arange(data.n_rows)])
        leaves = tree_model.find_leaves(range(tree, tree + 1), ensemble, data.matrix, every_row, n_threads)
        return [np.bincount(leaves, weights=own, minlength=len(ensemble.left)) for own in weights]

    return _match_leaf_weights(tree_model, count_leaves)


def _match_leaf_weights(tree_model: TreeModel, count_leaves: Callable[[int, TreeEnsemble], list[NDArray[Any]]]) -> bool:
    """Whether any of the counts of rows at nodes equals the weights of the leaves of additive trees, tree by tree.

    The first tree is fit at a constant score, so the weights of its leaves are proportional to those of the training
    rows even if they are sums of hessians. Later trees are checked if the first has too few leaves.
    """
    n_leaves = 0
    for tree in range(min(tree_model.n_trees, _MOST_COUNTED)):
        ensemble = tree_model.read(range(tree, tree + 1))
        is_leaf = ensemble.left < 0
        stored = ensemble.weight[is_leaf]
        counted = [count[is_leaf] for count in count_leaves(tree, ensemble)]
        if not any(_are_proportional(weight, stored) for weight in counted):
            return False
        n_leaves += len(stored)
        if n_leaves >= _ENOUGH_LEAVES:
            return True
        if not any(np.allclose(weight, stored, rtol=_SAME_SUM, atol=0.0) for weight in counted):
            return False  # hessians, which are not constant after the first tree
    return n_leaves > tree_model.n_trees


def have_training_sums(
    tree_model: TreeModel, find_sums: Callable[[int], NodeSums], n_rows: int, *, are_counts: bool, has_y: bool = True
) -> bool:
    """Whether rows are the training data, as far as their sums at nodes show.

    Parameters
    ----------
    tree_model : TreeModel
        The model.
    find_sums : callable
        ``find_sums(tree)`` gives the sums over all rows at the nodes of a tree.
    n_rows : int
        Number of rows.
    are_counts : bool
        Whether weights in the sums are numbers of rows.
    has_y : bool
        Whether the sums are those of y, so that means can be compared as well.
    """
    if tree_model.is_additive:
        return _match_leaf_weights(tree_model, lambda tree, _ensemble: [find_sums(tree).weight])
    training = tree_model.training
    if training is None or not training.fits(n_rows):
        return False
    if training.has_bags:
        return are_counts and _hold_bags(tree_model, training, find_sums)
    largest = int(tree_model.n_nodes.argmax())
    ensemble, sums = tree_model.read(range(largest, largest + 1)), find_sums(largest)
    if len(ensemble.left) == 1 or not have_same_weights(ensemble, sums):
        return False
    is_compared = has_y and ensemble.statistic == "mean"
    return not is_compared or bool(np.allclose(sums.mean + sums.origin, ensemble.value, rtol=_SAME_SUM))


def _hold_bags(tree_model: TreeModel, training: TrainingRecord, find_sums: Callable[[int], NodeSums]) -> bool:
    """Whether every leaf has at least as many rows as in-bag rows: with other rows, many small leaves have fewer.

    A small leaf has enough of the other rows with a probability of at most 0.9, unless they outnumber the training
    rows.
    """
    n_small = 0
    for tree in range(tree_model.n_trees):
        is_leaf = tree_model.read(range(tree, tree + 1)).left < 0
        in_bag = training.count_at_nodes(tree, len(is_leaf))[is_leaf]
        if (find_sums(tree).weight[is_leaf] < in_bag).any():
            return False
        n_small += int(np.count_nonzero(in_bag <= _SMALL_LEAF))
    return n_small >= _ENOUGH_SMALL


def _are_proportional(a: NDArray[Any], b: NDArray[np.float64]) -> bool:
    return bool(np.allclose(a * b.sum(), b * a.sum(), rtol=_SAME_HESSIAN, atol=0.0))
