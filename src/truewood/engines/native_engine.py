"""The C++ engine: allocates the output, the kernel fills it with the GIL released."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood.data.tables import FeatureMatrix
from truewood.data.target import ClassTarget, NumberTarget, Target
from truewood.engines import _kernel
from truewood.engines.row_lists import RowLists
from truewood.trees.ensemble import TreeEnsemble
from truewood.trees.node_sums import NodeSums
from truewood.trees.row_terms import ClassTerms, NumberTerms, RowTerms


def list_unseen(bag: NDArray[Any], n_rows: int) -> NDArray[np.int64]:
    """Rows that are not in a bag, ascending."""
    unseen = np.empty(n_rows, dtype=np.int64)
    return unseen[: _kernel.list_unseen(bag, unseen)]


def find_leaves(ensemble: TreeEnsemble, matrix: FeatureMatrix, rows: RowLists) -> NDArray[np.int32]:
    """Leaf of each listed row in the tree it is listed for, shape (n,), as positions in the ensemble's arrays."""
    leaves = np.empty(len(rows.index), dtype=np.int32)
    _kernel.find_leaves(_trees(ensemble), matrix.parts, matrix.has_missing, rows.index, rows.offset, leaves)
    return leaves


def find_swapped_leaves(
    ensemble: TreeEnsemble, matrix: FeatureMatrix, rows: NDArray[np.int64], donors: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Leaves in an ensemble of one tree with one column at a time taken from the donor row, (n, n_features)."""
    leaves = np.empty((len(rows), ensemble.n_features), dtype=np.int32)
    _kernel.find_swapped_leaves(_trees(ensemble), matrix.parts, matrix.has_missing, rows, donors, leaves)
    return leaves


def sum_leaves(
    ensemble: TreeEnsemble,
    leaves: NDArray[np.int32],
    rows: RowLists,
    target: Target,
    row_weight: NDArray[np.float64] | None,
) -> NodeSums:
    """Sum rows at their leaves, in row order, and from there up to the roots."""
    trees, n_nodes, kind = _trees(ensemble), len(ensemble.feature), ensemble.kind
    weight, total = np.zeros(n_nodes), np.zeros((n_nodes, kind.n_columns))
    if isinstance(target, ClassTarget):
        _kernel.sum_codes(trees, leaves, rows.index, target.codes, kind.first_column, row_weight, weight, total)
        square = np.broadcast_to(weight[:, np.newaxis], (n_nodes, kind.n_outputs))
        return NodeSums(weight, total, square, target.origin)
    square = np.zeros((n_nodes, kind.n_outputs))
    _kernel.sum_numbers(
        trees, leaves, rows.index, rows.offset, target.numbers, ensemble.column, row_weight, weight, total, square
    )
    return NodeSums(weight, total, square, target.origin)


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
    trees = _trees(ensemble)
    if isinstance(target, ClassTarget) and isinstance(terms, ClassTerms):
        _kernel.add_class_terms(
            trees,
            matrix.parts,
            rows.index,
            rows.offset,
            weight,
            target.codes,
            target.kind.first_column,
            terms.by_class,
            out,
        )
    elif isinstance(target, NumberTarget) and isinstance(terms, NumberTerms):
        _kernel.add_number_terms(
            trees,
            matrix.parts,
            rows.index,
            rows.offset,
            weight,
            target.numbers,
            ensemble.column,
            terms.linear,
            terms.square,
            terms.constant,
            out,
        )
    else:
        raise TypeError(f"{type(terms).__name__} cannot be added for a {type(target).__name__}.")


def _trees(ensemble: TreeEnsemble) -> _kernel.TreeArrays:
    categories = ensemble.categories
    return _kernel.TreeArrays(
        ensemble.feature,
        ensemble.threshold,
        ensemble.left,
        ensemble.right,
        ensemble.missing_left,
        ensemble.offset,
        None if categories is None else categories.node_set,
        None if categories is None else categories.offset,
        None if categories is None else categories.bits,
    )
