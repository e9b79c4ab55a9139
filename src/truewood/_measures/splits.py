"""Building blocks of split formulas: centered node values, splits that count, and sums by feature.

Notation of all formulas: omega is a node's share of the training weight, v its training mean, v' and q' mean and mean
square of the evaluation rows there, n' their weight, m a split and c its children l, r; W is the training weight of the
root. Equation names are those of Zhou & Hooker, "Unbiased Measurement of Feature Importance in Tree-Based Methods".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from truewood._trees.ensemble import TreeEnsemble
from truewood._trees.node_sums import ClassTerms, NodeSums, NumberTerms, RowTerms

Floats = NDArray[np.float64]

# Weight of the line in `predict_evaluation_means`, as a share of the evaluation rows of the tree.
_LINE_WEIGHT = 0.25


def center(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Node values minus the origin of the sums, which is zero for classes."""
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
    """Size of the summands of each split's score, shape (n_splits,): rounding errors are proportional to it.

    Values are multiplied by targets. If values are estimates of the target, both are also centered at each other and
    at the origin, which costs the values digits.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees.
    sums : NodeSums
        Sums of the evaluation rows.
    largest : ndarray of shape (n_columns,)
        Largest absolute value of each column of the target minus its origin.
    """
    size = np.abs(center(trees, sums))
    if not trees.is_additive:
        # Numbers: their size at the node. Classes, and residuals without known squares: the largest possible size.
        has_squares = not trees.kind.is_classification and not np.isnan(sums.square).any()
        size = size + (np.sqrt(sums.mean_square) if has_squares else largest)
    share = trees.omega + sums.weight / trees.repeat_for_nodes(sums.divisor[trees.offset[:-1]])
    size_at_splits = size[trees.splits]
    magnitude = np.zeros(len(trees.splits))
    for child in trees.split_children:
        both = size[child] + size_at_splits
        other = largest[np.newaxis] if trees.is_additive else both + np.abs(sums.origin)
        magnitude += share[child] * dot_columns(both, other)
    return magnitude


def subtract_parent(trees: TreeEnsemble, node: Floats) -> Floats:
    """For each split, the numbers at its children minus the number at the split itself, shape (n_splits, ...)."""
    left, right = trees.split_children
    return np.take(node, left, axis=0) + np.take(node, right, axis=0) - np.take(node, trees.splits, axis=0)


def keep_column(trees: TreeEnsemble, at_nodes: Floats, column: int | None) -> Floats:
    """Numbers of one column of the target, and zeros for all others, shape (n_nodes, n_columns); all if it is None.

    If each tree predicts a single column, the numbers of trees for other columns are zero.
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
    """Trees and sums that score one column of the target, such as a class.

    Scores are sums over columns of products of the column's numbers, so zeros in all others leave its part. The
    indicator of a class is its own square.
    """
    total = keep_column(trees, sums.total, column)
    square = trees.kind.sum_columns(total) if trees.kind.is_classification else keep_column(trees, sums.square, column)
    value = keep_column(trees, trees.value, column)
    return replace(trees, value=value), NodeSums(sums.weight, total, square, sums.origin)


def dot_columns(a: Floats, b: Floats) -> Floats:
    """Sum over columns of products, in the order of the columns, shape (n_nodes,)."""
    products: Floats = np.cumsum(a * b, axis=1)[:, -1]
    return products


def find_skipped_splits(trees: TreeEnsemble, sums: NodeSums) -> NDArray[np.bool_]:
    """Which splits have a child without evaluation rows, shape (n_splits,)."""
    left, right = trees.split_children
    is_empty = sums.weight <= 0
    return is_empty[left] | is_empty[right]


def find_counted_nodes(trees: TreeEnsemble, sums: NodeSums) -> NDArray[np.bool_]:
    """Nodes below a split that counts, shape (n_nodes,)."""
    is_counted = np.zeros(len(trees.feature), dtype=np.bool_)
    counted = ~find_skipped_splits(trees, sums)
    for child in trees.split_children:
        is_counted[child] = counted
    return is_counted


def sum_by_feature(trees: TreeEnsemble, split_scores: Floats) -> Floats:
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


def predict_evaluation_means(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Expected target of evaluation rows at each node, shape (n_nodes, n_columns).

    In-bag means are biased: trees isolate in-bag rows of a rare class, so evaluation rows at the same nodes are of
    other classes. The means of evaluation rows are right on average, but at small nodes each row would be compared
    with itself. So these means are shrunk toward a line, their regression on node values at the children of splits,
    with one slope per tree. The slope is 0 for noise and near 1 for good estimates, and it converts values of classes
    with weights to the shares of the evaluation rows. Values of additive trees can be of any size, so the means of the
    evaluation rows are used as they are.
    """
    if trees.is_additive:
        return sums.mean
    value, roots = center(trees, sums), trees.offset[:-1]
    root_mean, root_value, root_weight = sums.mean[roots], value[roots], sums.weight[roots]
    slope = np.broadcast_to(trees.repeat_for_nodes(_fit_slopes(trees, sums)), trees.weight.shape)[:, np.newaxis]
    at_root = np.broadcast_to(trees.repeat_for_nodes(root_mean), value.shape)
    line = at_root + slope * (value - np.broadcast_to(trees.repeat_for_nodes(root_value), value.shape))
    line_weight = np.broadcast_to(trees.repeat_for_nodes(_LINE_WEIGHT * root_weight), trees.weight.shape)
    n_rows = sums.weight + line_weight
    expected: Floats = (sums.total + line_weight[:, np.newaxis] * line) / np.where(n_rows > 0, n_rows, 1.0)[
        :, np.newaxis
    ]
    return expected


def _fit_slopes(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Slope of the evaluation rows' means over node values, within splits, at least 0, shape (n_trees,)."""
    left, right = trees.split_children
    value, mean = center(trees, sums), sums.mean
    step = value[left] - value[right]
    weight = trees.omega[left] * (1.0 - _find_left_share(trees)[:, 0]) * ~find_skipped_splits(trees, sums)
    tree = np.repeat(np.arange(trees.n_trees), np.diff(trees.offset))[trees.splits]
    products, squares = (
        np.bincount(tree, weights=weight * dot_columns(step, other), minlength=trees.n_trees)
        for other in (mean[left] - mean[right], step)
    )
    slope: Floats = np.divide(products, squares, out=np.zeros(trees.n_trees), where=squares > 0)
    return np.maximum(slope, 0.0)


def make_terms(
    trees: TreeEnsemble, linear: Floats, square: Floats, constant: Floats, is_counted: NDArray[np.bool_]
) -> RowTerms:
    """Row terms without the splits that do not count, averaged over outputs; for classes, all in one array.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees.
    linear : ndarray of shape (n_nodes, n_columns)
        Multiplied by the target minus its origin.
    square, constant : ndarray of shape (n_nodes,)
        Multiplied by the squared target minus its origin, and by one.
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
