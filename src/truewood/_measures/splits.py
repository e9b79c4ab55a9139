"""What formulas share: node values near zero, splits that count, and sums by feature.

Notation of all formulas: omega is a node's share of the training weight, v its training mean, v' and q' mean and mean
square of the unseen rows there, n' their weight, m a split and c its children l, r; W is the training weight of the
root. Equation names are those of Zhou & Hooker, "Unbiased Measurement of Feature Importance in Tree-Based Methods".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from truewood._trees.ensemble import TreeEnsemble
from truewood._trees.node_sums import NodeSums
from truewood._trees.row_terms import ClassTerms, NumberTerms, RowTerms

Floats = NDArray[np.float64]


def centre(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Node values less the sums' origin, which is zero for classes."""
    if trees.kind.is_classification:
        return trees.value
    # A scalar for a single output: numpy is slow to broadcast along a short axis.
    return trees.value - (sums.origin[0] if trees.kind.n_outputs == 1 else sums.origin)


def find_steps(trees: TreeEnsemble, at_nodes: Floats) -> Floats:
    """Numbers at the children minus their weighted mean at the split, shape (n_nodes, n_columns); zero at roots.

    Computed from the difference of the children, so that a constant added to all nodes of a tree cancels exactly
    instead of leaving rounding errors of its size.
    """
    left, right = trees.split_children
    difference, share = at_nodes[left] - at_nodes[right], _find_left_share(trees)
    steps = np.zeros_like(at_nodes)
    steps[left], steps[right] = (1.0 - share) * difference, -share * difference
    return steps


def multiply_steps(trees: TreeEnsemble, a: Floats, b: Floats) -> Floats:
    """Sum over the children of each split of omega_c times the products of steps of `a` and `b`.

    Shape (n_splits, n_outputs). With the two children's difference in both factors, no weighted mean is needed.
    """
    left, right = trees.split_children
    products = trees.kind.sum_columns((a[left] - a[right]) * (b[left] - b[right]))
    return (trees.omega[left] * (1.0 - _find_left_share(trees)[:, 0]))[:, np.newaxis] * products


def _find_left_share(trees: TreeEnsemble) -> Floats:
    """Training weight of the left child as a share of both children's, shape (n_splits, 1)."""
    left, right = trees.split_children
    both = trees.omega[left] + trees.omega[right]
    return np.divide(trees.omega[left], both, out=np.zeros(len(both)), where=both > 0)[:, np.newaxis]


def find_magnitude(trees: TreeEnsemble, sums: NodeSums, largest: Floats) -> Floats:
    """Size of what is added up to the score of each split, shape (n_splits,): rounding errors are in proportion to it.

    Values meet targets; of trees whose values are estimates of the target, both are also taken around each other, and
    around the origin, whose digits values have lost.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees.
    sums : NodeSums
        Sums of the evaluation rows.
    largest : ndarray of shape (n_columns,)
        Largest absolute value of each column of the target minus its origin.
    """
    size = np.abs(centre(trees, sums))
    if not trees.is_additive:
        # Of numbers, how large they are at the node; of classes, and of residuals whose squares are not known, at most.
        has_squares = not trees.kind.is_classification and not np.isnan(sums.square).any()
        size = size + (np.sqrt(sums.mean_square) if has_squares else largest)
    share = trees.omega + sums.weight / trees.repeat_for_nodes(sums.divisor[trees.offset[:-1]])
    size_at_splits = size[trees.splits]
    magnitude = np.zeros(len(trees.splits))
    for child in trees.split_children:
        both = size[child] + size_at_splits
        other = largest[np.newaxis] if trees.is_additive else both + np.abs(sums.origin)
        magnitude += share[child] * multiply(both, other)
    return magnitude


def children_less_parent(trees: TreeEnsemble, node: Floats) -> Floats:
    """For each split, the numbers at its children less the number at the split itself, shape (n_splits, ...)."""
    left, right = trees.split_children
    return np.take(node, left, axis=0) + np.take(node, right, axis=0) - np.take(node, trees.splits, axis=0)


def keep_column(trees: TreeEnsemble, at_nodes: Floats, column: int | None) -> Floats:
    """Numbers of one column of the target, and zero for all others, shape (n_nodes, n_columns); all where that is None.

    Of trees that speak of one column each, numbers of trees of other columns are zero.
    """
    if column is None:
        return at_nodes
    if trees.column is None:
        is_kept = np.arange(at_nodes.shape[1]) == column
    else:
        is_kept = trees.repeat_for_nodes(trees.column == column)[:, np.newaxis]
    kept: Floats = at_nodes * is_kept
    return kept


def take_column(trees: TreeEnsemble, sums: NodeSums, column: int) -> tuple[TreeEnsemble, NodeSums]:
    """Trees and sums whose scores are the parts that one column of the target, such as a class, has in the scores.

    Scores are sums over columns of products of the column's numbers, so that zero in all others leaves its part. A row
    of a class is the square of its own indicator.
    """
    total = keep_column(trees, sums.total, column)
    square = trees.kind.sum_columns(total) if trees.kind.is_classification else keep_column(trees, sums.square, column)
    value = keep_column(trees, trees.value, column)
    return replace(trees, value=value), NodeSums(sums.weight, total, square, sums.origin)


def multiply(a: Floats, b: Floats) -> Floats:
    """Sum over columns of products, one after the other, shape (n_nodes,)."""
    products: Floats = np.cumsum(a * b, axis=1)[:, -1]
    return products


def find_skipped(trees: TreeEnsemble, sums: NodeSums) -> NDArray[np.bool_]:
    """Which splits have a child without unseen rows, shape (n_splits,)."""
    left, right = trees.split_children
    is_empty = sums.weight <= 0
    return is_empty[left] | is_empty[right]


def find_counted(trees: TreeEnsemble, sums: NodeSums) -> NDArray[np.bool_]:
    """Nodes below a split that counts, shape (n_nodes,)."""
    is_counted = np.zeros(len(trees.feature), dtype=np.bool_)
    counted = ~find_skipped(trees, sums)
    for child in trees.split_children:
        is_counted[child] = counted
    return is_counted


def add_features(trees: TreeEnsemble, split_scores: Floats) -> Floats:
    """Sum contributions of splits by tree and feature, shape (n_trees, n_features, n_outputs)."""
    cell = trees.split_features.astype(np.int64)
    if trees.n_trees > 1:
        cell += np.repeat(np.arange(trees.n_trees) * trees.n_features, np.diff(trees.offset))[trees.splits]
    scores = [
        np.bincount(cell, weights=of_output, minlength=trees.n_trees * trees.n_features) for of_output in split_scores.T
    ]
    return np.stack(scores, axis=-1, dtype=np.float64).reshape(trees.n_trees, trees.n_features, -1)


def weigh_roots(trees: TreeEnsemble) -> Floats:
    """Training weight of each node's root, shape (n_nodes,)."""
    return np.broadcast_to(trees.repeat_for_nodes(trees.weight[trees.offset[:-1]]), trees.weight.shape)


def average_all_rows(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Mean of the target at each node, of all rows that reach it, shape (n_nodes, n_columns).

    It has to be a mean of what y is among the unseen rows. Values of additive trees are raw scores, not means of their
    target, so that the unseen rows stand alone; and where training rows had class weights or came from balanced bags,
    their classes count as they do among the unseen rows at the root.
    """
    if trees.is_additive:
        return sums.mean
    total = trees.weight[:, np.newaxis] * centre(trees, sums)
    n_rows = trees.weight[:, np.newaxis] + sums.weight[:, np.newaxis]
    if trees.kind.is_classification:
        total = total * _find_class_factor(trees, sums)
        by_output = trees.kind.sum_columns(total) + sums.weight[:, np.newaxis]
        n_rows = np.repeat(by_output, [len(labels) for labels in trees.kind.classes], axis=1)
    return (total + sums.total) / np.where(n_rows > 0, n_rows, 1.0)


def _find_class_factor(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Share of each class among the unseen rows of the root over its share in training, (n_nodes, n_columns)."""
    roots = trees.offset[:-1]
    trained, unseen = trees.value[roots], sums.mean[roots]
    factor = np.divide(unseen, trained, out=np.zeros_like(unseen), where=trained > 0)
    return np.broadcast_to(trees.repeat_for_nodes(factor), trees.value.shape)


def make_terms(
    trees: TreeEnsemble, linear: Floats, square: Floats, constant: Floats, is_counted: NDArray[np.bool_]
) -> RowTerms:
    """Terms with what does not count left out, averaged over outputs; of classes all in one.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees.
    linear : ndarray of shape (n_nodes, n_columns)
        Times the target less its origin.
    square, constant : ndarray of shape (n_nodes,)
        Times the squared target less its origin, and times one.
    is_counted : ndarray of bool, shape (n_nodes,)
        Nodes below a split that counts.
    """
    factor = is_counted / (1.0 if trees.is_additive else trees.kind.n_outputs)
    linear = linear * factor[:, np.newaxis]
    if not trees.kind.is_classification:
        return NumberTerms(linear, square * factor, constant * factor)
    n_first = len(trees.kind.classes[0])
    linear[:, :n_first] += (constant * factor)[:, np.newaxis]
    return ClassTerms(linear)
