"""The C++ engine: allocates the output, the kernel fills it with the GIL released."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood.data.tables import FeatureMatrix
from truewood.data.target import ClassTarget, Target, TargetKind
from truewood.engines import _kernel
from truewood.engines.row_lists import RowLists
from truewood.engines.row_products import RowProducts
from truewood.trees.ensemble import TreeEnsemble
from truewood.trees.node_sums import NodeSums
from truewood.trees.row_terms import ClassTerms, RowTerms

Floats = NDArray[np.float64]


def list_unseen(bag: NDArray[Any], n_rows: int) -> NDArray[np.int64]:
    """Rows that are not in a bag, ascending."""
    unseen = np.empty(n_rows, dtype=np.int64)
    return unseen[: _kernel.list_unseen(bag, unseen)]


def find_leaves(ensemble: TreeEnsemble, matrix: FeatureMatrix, rows: RowLists, n_threads: int = 1) -> NDArray[np.int32]:
    """Leaf of each listed row in the tree it is listed for, shape (n,), as positions in the ensemble's arrays."""
    leaves = np.empty(len(rows.index), dtype=np.int32)
    _kernel.find_leaves(
        wrap_trees(ensemble),
        matrix.parts,
        matrix.has_missing,
        ensemble.n_features,
        rows.index,
        rows.offset,
        n_threads,
        leaves,
    )
    return leaves


def find_swapped_leaves(
    ensemble: TreeEnsemble, matrix: FeatureMatrix, rows: NDArray[np.int64], donors: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Leaves in an ensemble of one tree with one column at a time taken from the donor row, (n, n_features)."""
    leaves = np.empty((len(rows), ensemble.n_features), dtype=np.int32)
    _kernel.find_swapped_leaves(
        wrap_trees(ensemble), matrix.parts, matrix.has_missing, ensemble.n_features, rows, donors, leaves
    )
    return leaves


def project_out(
    ensemble: TreeEnsemble,
    matrix: FeatureMatrix,
    grown: RowLists,
    grown_weight: Floats,
    unseen: RowLists,
    own: Floats,
    tree_weight: Floats,
    target: Target,
    group_of: NDArray[np.int32],
    out: Floats,
    n_threads: int = 1,
) -> None:
    """Add to `out` what unseen rows lose without each group of columns, shape (n_rows, n_groups, n_columns)."""
    _kernel.project_out(
        wrap_trees(ensemble),
        matrix.parts,
        matrix.has_missing,
        ensemble.n_features,
        grown.index,
        grown.offset,
        grown_weight,
        unseen.index,
        unseen.offset,
        own,
        tree_weight,
        wrap_target(ensemble.kind, target, None),
        group_of,
        n_threads,
        out,
    )


def sum_leaves(
    ensemble: TreeEnsemble, leaves: NDArray[np.int32], rows: RowLists, target: Target, row_weight: Floats | None
) -> NodeSums:
    """Sum rows at their leaves, chunk by chunk in row order, and from there up to the roots."""
    kind = ensemble.kind
    sums = _make_room(ensemble, target)
    wrapped = wrap_target(kind, target, row_weight)
    _kernel.sum_leaves(wrap_trees(ensemble), leaves, rows.index, rows.offset, wrapped, ensemble.column, sums)
    return split_sums(sums, kind, target)


def sum_nodes(
    ensemble: TreeEnsemble, matrix: FeatureMatrix, target: Target, row_weight: Floats | None, n_threads: int = 1
) -> NodeSums:
    """Sums of every row at the nodes of all trees; squares are not summed for additive trees."""
    kind = ensemble.kind
    sums = _make_room(ensemble, target, with_squares=not ensemble.is_additive)
    _kernel.sum_nodes(
        wrap_trees(ensemble),
        matrix.parts,
        matrix.has_missing,
        matrix.n_rows,
        ensemble.n_features,
        wrap_target(kind, target, row_weight),
        np.zeros(kind.n_columns),  # values of nodes are not asked for
        ensemble.column,
        n_threads,
        sums,
    )
    return split_sums(sums, kind, target)


def _make_room(ensemble: TreeEnsemble, target: Target, *, with_squares: bool = True) -> Floats:
    n_sums = 1 + (2 if with_squares and not isinstance(target, ClassTarget) else 1) * ensemble.kind.n_columns
    return np.zeros((len(ensemble.feature), n_sums))


def split_sums(sums: Floats, kind: TargetKind, target: Target) -> NodeSums:
    """Sums of nodes from a row for each node: weight, sums of columns, and of numbers perhaps sums of squares."""
    weight, total = sums[:, 0].copy(), np.ascontiguousarray(sums[:, 1 : 1 + kind.n_columns])
    if isinstance(target, ClassTarget):
        square = np.broadcast_to(weight[:, np.newaxis], (len(weight), kind.n_outputs))
    elif sums.shape[1] == 1 + kind.n_columns:
        square = np.zeros_like(total)
    else:
        square = np.ascontiguousarray(sums[:, 1 + kind.n_columns :])
    return NodeSums(weight, total, square, target.origin)


def contribute(
    ensemble: TreeEnsemble,
    matrix: FeatureMatrix,
    target: Target,
    row_weight: Floats | None,
    terms: RowTerms,
    tree_weight: Floats,
    out: Floats,
    n_threads: int = 1,
) -> None:
    """Add to `out` what every row contributes to each feature, over all trees, shape (n_rows, n_features)."""
    linear, square, constant = _split_terms(terms, target)
    _kernel.contribute(
        wrap_trees(ensemble),
        matrix.parts,
        matrix.has_missing,
        ensemble.n_features,
        wrap_target(ensemble.kind, target, row_weight),
        np.zeros(ensemble.kind.n_columns),
        ensemble.column,
        tree_weight,
        linear,
        square,
        constant,
        n_threads,
        out,
    )


def _split_terms(terms: RowTerms, target: Target) -> tuple[Floats, Floats | None, Floats | None]:
    """What y is multiplied with, its square, and what is added; of classes the first is all of it."""
    if isinstance(terms, ClassTerms) != isinstance(target, ClassTarget):
        raise TypeError(f"{type(terms).__name__} cannot be added for a {type(target).__name__}.")
    if isinstance(terms, ClassTerms):
        return terms.by_class, None, None
    return terms.linear, terms.square, terms.constant


def add_terms(
    ensemble: TreeEnsemble,
    leaves: NDArray[np.int32],
    rows: RowLists,
    weight: Floats,
    target: Target,
    terms: RowTerms,
    out: Floats,
) -> None:
    """Add to `out` what listed rows contribute to each feature, shape (n_rows, n_features), given their leaves."""
    linear, square, constant = _split_terms(terms, target)
    # Of life tables, terms have more columns than values.
    kind = ensemble.kind if isinstance(terms, ClassTerms) else TargetKind((), linear.shape[1])
    _kernel.climb(
        ensemble.parent,
        ensemble.feature,
        leaves,
        rows.index,
        rows.offset,
        weight,
        wrap_target(kind, target, None),
        ensemble.column,
        linear,
        square,
        constant,
        out,
    )


def sum_row_products(
    phi: Floats,
    psi: Floats | None,
    is_scoring: NDArray[np.bool_],
    total_weight: float,
    mean: Floats,
    bags: NDArray[np.float32] | None,
    n_threads: int = 1,
) -> RowProducts:
    """Sums over rows of products of what they contribute, each divided by `total_weight` and less `mean`."""
    n_columns, n_bags = phi.shape[1], 0 if bags is None else len(bags)
    products, totals = np.zeros((4, n_columns)), np.zeros(3)
    K, L, d_d = np.zeros((n_bags, n_columns)), np.zeros((n_bags, n_columns)), np.zeros(n_bags)
    _kernel.sum_row_products(phi, psi, is_scoring, total_weight, mean, bags, n_threads, products, totals, K, L, d_d)
    return RowProducts(
        phi_phi=products[0],
        phi_psi=products[1],
        psi_psi=products[2],
        phi_sum=products[3],
        total_phi_phi=float(totals[0]),
        total_phi_psi=float(totals[1]),
        K=K,
        L=L,
        d_d=d_d,
        n_grown=int(totals[2]),
    )


def wrap_trees(ensemble: TreeEnsemble) -> _kernel.Forest:
    """The trees as the kernel takes them."""
    categories = ensemble.categories
    return _kernel.Forest.of_ensemble(
        ensemble.feature,
        ensemble.threshold,
        ensemble.left,
        ensemble.right,
        ensemble.missing_left,
        ensemble.weight,
        ensemble.value,
        ensemble.offset,
        None if categories is None else categories.node_set,
        None if categories is None else categories.offset,
        None if categories is None else categories.bits,
    )


def wrap_target(kind: TargetKind, target: Target, row_weight: Floats | None) -> _kernel.Target:
    """The target as the kernel takes it, given what trees predict of it."""
    if isinstance(target, ClassTarget):
        return _kernel.Target(target.codes, None, kind.column_bounds, row_weight)
    return _kernel.Target(None, target.numbers, kind.column_bounds, row_weight)
