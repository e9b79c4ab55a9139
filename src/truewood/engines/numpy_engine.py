"""The readable reference engine, and the one in use where no compiler was found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood.data.tables import FeatureMatrix
from truewood.data.target import ClassTarget, NumberTarget, Target
from truewood.engines.row_lists import RowLists
from truewood.trees.ensemble import TreeEnsemble
from truewood.trees.node_sums import NodeSums, add_up
from truewood.trees.row_terms import ClassTerms, NumberTerms, RowTerms

_BLOCK_VALUES = 4_000_000


def list_unseen(bag: NDArray[Any], n_rows: int) -> NDArray[np.int64]:
    """Rows that are not in a bag, ascending."""
    is_unseen = np.ones(n_rows, dtype=np.bool_)
    is_unseen[bag] = False
    return np.flatnonzero(is_unseen)


def find_leaves(ensemble: TreeEnsemble, matrix: FeatureMatrix, rows: RowLists) -> NDArray[np.int32]:
    """Leaf of each listed row in the tree it is listed for, shape (n,), as positions in the ensemble's arrays."""
    leaves = np.empty(len(rows.index), dtype=np.int32)
    block = max(1, _BLOCK_VALUES // ensemble.n_features)
    for tree in range(ensemble.n_trees):
        start, end = rows.offset[tree], rows.offset[tree + 1]
        for first in range(start, end, block):
            part = slice(first, min(first + block, end))
            leaves[part] = _walk(ensemble, tree, matrix.take(rows.index[part]))
    return leaves


def find_swapped_leaves(
    ensemble: TreeEnsemble, matrix: FeatureMatrix, rows: NDArray[np.int64], donors: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Leaves in an ensemble of one tree with one column at a time taken from the donor row, (n, n_features)."""
    values, swapped = matrix.take(rows), matrix.take(donors)
    leaves = np.repeat(_walk(ensemble, 0, values)[:, np.newaxis], ensemble.n_features, axis=1)
    for feature in np.unique(ensemble.split_features):
        changed = values.copy()
        changed[:, feature] = swapped[:, feature]
        leaves[:, feature] = _walk(ensemble, 0, changed)
    return leaves


def _walk(ensemble: TreeEnsemble, tree: int, values: NDArray[Any]) -> NDArray[np.int32]:
    """Leaves of rows in a tree."""
    leaves = np.full(len(values), ensemble.offset[tree], dtype=np.int32)
    for walking, _, node in _step(ensemble, tree, values):
        leaves[walking] = node
    return leaves


def _step(
    ensemble: TreeEnsemble, tree: int, values: NDArray[Any]
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.int32], NDArray[np.int32]]]:
    """Send rows down level by level: the rows that take a step, the nodes they leave and the nodes they come to."""
    walking = np.arange(len(values))
    node = np.full(len(values), ensemble.offset[tree], dtype=np.int32)
    while len(walking := walking[is_inner := ensemble.left[node] >= 0]):
        at = node[is_inner]
        x = values[walking, ensemble.feature[at]]
        # A float32 compared with a float64 threshold is compared as float64; half of a number that another thread
        # writes at this moment may be any NaN.
        with np.errstate(invalid="ignore"):
            is_left = x.astype(np.float64) <= ensemble.threshold[at]
        if ensemble.categories is not None:
            is_left = np.where(ensemble.categories.node_set[at] < 0, is_left, ensemble.categories.holds(at, x))
        goes_left = np.where(np.isnan(x), ensemble.missing_left[at], is_left)
        node = np.where(goes_left, ensemble.left[at], ensemble.right[at])
        yield walking, at, node


def sum_leaves(
    ensemble: TreeEnsemble,
    leaves: NDArray[np.int32],
    rows: RowLists,
    target: Target,
    row_weight: NDArray[np.float64] | None,
) -> NodeSums:
    """Sum rows at their leaves, in row order, and from there up to the roots."""
    w = np.ones(len(leaves)) if row_weight is None else row_weight[rows.index]
    n_nodes = len(ensemble.feature)
    weight = add_up(ensemble, np.bincount(leaves, weights=w, minlength=n_nodes).astype(np.float64, copy=False))
    if isinstance(target, ClassTarget):
        total = add_up(ensemble, _count_classes(leaves, rows, target, w, n_nodes))
        square = np.broadcast_to(weight[:, np.newaxis], (n_nodes, target.kind.n_outputs))
        return NodeSums(weight, total, square, target.origin)
    total, square = _sum_numbers(ensemble, leaves, rows, target, w)
    return NodeSums(weight, add_up(ensemble, total), add_up(ensemble, square), target.origin)


def _count_classes(
    leaves: NDArray[np.int32], rows: RowLists, target: ClassTarget, w: NDArray[np.float64], n_nodes: int
) -> NDArray[np.float64]:
    """Weight of each class at the leaves, shape (n_nodes, n_columns)."""
    total = np.empty((n_nodes, target.kind.n_columns))
    for o, (first, labels) in enumerate(zip(target.kind.first_column, target.kind.classes, strict=True)):
        cell = leaves.astype(np.int64) * len(labels) + target.codes[rows.index, o]
        sums = np.bincount(cell, weights=w, minlength=n_nodes * len(labels))
        total[:, first : first + len(labels)] = sums.reshape(n_nodes, len(labels))
    return total


def _sum_numbers(
    ensemble: TreeEnsemble, leaves: NDArray[np.int32], rows: RowLists, target: NumberTarget, w: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weighted sums of numbers and of their squares at the leaves, shape (n_nodes, n_columns)."""
    n_nodes, n_columns = len(ensemble.feature), ensemble.kind.n_columns
    total, square = np.empty((n_nodes, n_columns)), np.empty((n_nodes, n_columns))
    for o in range(n_columns):
        column = o if ensemble.column is None else np.repeat(ensemble.column, np.diff(rows.offset))
        numbers = target.numbers[rows.index, column]
        weighted = w * numbers
        total[:, o] = np.bincount(leaves, weights=weighted, minlength=n_nodes)
        square[:, o] = np.bincount(leaves, weights=weighted * numbers, minlength=n_nodes)
    return total, square


def add_terms(
    ensemble: TreeEnsemble,
    matrix: FeatureMatrix,
    rows: RowLists,
    weight: NDArray[np.float64],
    target: Target,
    terms: RowTerms,
    out: NDArray[np.float64],
) -> None:
    """Add to `out` what listed rows contribute to each feature, shape (n_rows, n_features)."""
    block = max(1, _BLOCK_VALUES // ensemble.n_features)
    for tree in range(ensemble.n_trees):
        column = None if ensemble.column is None else int(ensemble.column[tree])
        start, end = rows.offset[tree], rows.offset[tree + 1]
        for first in range(start, end, block):
            part = slice(first, min(first + block, end))
            index = rows.index[part]
            for walking, above, node in _step(ensemble, tree, matrix.take(index)):
                added = weight[part][walking] * add_row(node, index[walking], target, column, terms)
                out[index[walking], ensemble.feature[above]] += added


def add_row(
    node: NDArray[Any], rows: NDArray[Any], target: Target, column: int | None, terms: RowTerms
) -> NDArray[np.float64]:
    """What rows of weight one add at their nodes."""
    if isinstance(target, ClassTarget) and isinstance(terms, ClassTerms):
        parts = [terms.by_class[node, k + target.codes[rows, o]] for o, k in enumerate(target.kind.first_column)]
        summed: NDArray[np.float64] = np.add.reduce(parts)
        return summed
    if isinstance(target, NumberTarget) and isinstance(terms, NumberTerms):
        total, square = np.zeros(len(rows)), np.zeros(len(rows))
        for o in range(terms.linear.shape[1]):
            y = target.numbers[rows, o if column is None else column]
            total += terms.linear[node, o] * y
            square += y * y
        added: NDArray[np.float64] = (total + terms.square[node] * square) + terms.constant[node]
        return added
    raise TypeError(f"{type(terms).__name__} cannot be added for a {type(target).__name__}.")
