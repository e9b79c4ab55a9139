"""The engine on a GPU: leaves, sums of all rows and their contributions there, all else by the kernel."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from truewood.data.device_arrays import is_on_device
from truewood.data.tables import FeatureMatrix
from truewood.data.target import ClassTarget, Target
from truewood.engines import native_engine
from truewood.engines.cuda_device import MOST_GRID_Y, THREADS, bring_rows, fetch, put, run_kernel
from truewood.engines.cuda_sums import make_amounts, read_sums
from truewood.engines.cuda_trees import DeviceTerms, DeviceTrees, Roles, sum_rows
from truewood.engines.cuda_trees import contribute as add_contributions
from truewood.engines.native_engine import add_terms as add_terms
from truewood.engines.native_engine import list_unseen as list_unseen
from truewood.engines.native_engine import project_out as project_out
from truewood.engines.native_engine import sum_leaves as sum_leaves
from truewood.engines.native_engine import wrap_trees
from truewood.engines.row_lists import RowLists
from truewood.engines.row_products import RowProducts
from truewood.trees.ensemble import TreeEnsemble
from truewood.trees.node_sums import NodeSums, add_up
from truewood.trees.row_terms import ClassTerms, RowTerms

Floats = NDArray[np.float64]

# Rows whose products a block of threads adds up, and values of rows that meet bags at a time.
_PRODUCT_ROWS = 256
_BLOCK_VALUES = 1 << 25
_MOST_BLOCKS = 1 << 15

_laid_out: WeakKeyDictionary[TreeEnsemble, DeviceTrees] = WeakKeyDictionary()


def find_leaves(ensemble: TreeEnsemble, matrix: FeatureMatrix, rows: RowLists, n_threads: int = 1) -> NDArray[np.int32]:
    """Leaf of each listed row in the tree it is listed for, shape (n,), as positions in the ensemble's arrays."""
    import cupy

    values = bring_rows(matrix)
    if values is None:
        return native_engine.find_leaves(ensemble, matrix, rows, n_threads)
    trees = _lay_out(ensemble, n_threads)
    leaves = cupy.empty(len(rows.index), dtype=np.int32)
    n_blocks = min(max(1, -(-int(np.diff(rows.offset).max(initial=1)) // THREADS)), _MOST_BLOCKS)
    arguments = [trees.nodes, trees.roots, np.int32(trees.n_trees), *trees.sets, values, np.int32(ensemble.n_features)]
    arguments += [put(rows.index), put(rows.offset), leaves]
    run_kernel("find_leaves", values.dtype, (n_blocks, min(trees.n_trees, MOST_GRID_Y)), arguments)
    return fetch(leaves)


def find_swapped_leaves(
    ensemble: TreeEnsemble, matrix: FeatureMatrix, rows: NDArray[np.int64], donors: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Leaves in an ensemble of one tree with one column at a time taken from the donor row, (n, n_features)."""
    import cupy

    values = bring_rows(matrix)
    if values is None:
        return native_engine.find_swapped_leaves(ensemble, matrix, rows, donors)
    trees = _lay_out(ensemble, 1)
    leaves = cupy.empty((len(rows), ensemble.n_features), dtype=np.int32)
    n_blocks = min(max(1, -(-leaves.size // THREADS)), _MOST_BLOCKS)
    arguments = [trees.nodes, *trees.sets, values, np.int32(ensemble.n_features)]
    arguments += [put(rows), put(donors), np.int64(len(rows)), leaves]
    run_kernel("find_swapped_leaves", values.dtype, (n_blocks, 1), arguments)
    return fetch(leaves)


def _lay_out(ensemble: TreeEnsemble, n_threads: int) -> DeviceTrees:
    """The trees on the GPU, for as long as they are used: rows that come in parts ask for them again and again."""
    found = _laid_out.get(ensemble)
    if found is None:
        sizes = np.diff(ensemble.offset)
        found = DeviceTrees.lay_out(wrap_trees(ensemble), sizes, ensemble.n_features, n_threads, ensemble)
        _laid_out[ensemble] = found
    return found


def sum_nodes(
    ensemble: TreeEnsemble, matrix: FeatureMatrix, target: Target, row_weight: Floats | None, n_threads: int = 1
) -> NodeSums:
    """Sums of every row at the nodes of all trees; squares are not summed for additive trees."""
    kind, with_squares = ensemble.kind, not ensemble.is_additive
    amounts = make_amounts(kind, target, row_weight, with_squares=with_squares)
    cells = sum_rows(_lay_out(ensemble, n_threads), matrix, amounts, Roles())
    return native_engine.split_sums(add_up(ensemble, fetch(read_sums(kind, amounts, cells))), kind, target)


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
    import cupy

    trees = _lay_out(ensemble, n_threads)
    if isinstance(terms, ClassTerms) != isinstance(target, ClassTarget):
        raise TypeError(f"{type(terms).__name__} cannot be added for a {type(target).__name__}.")
    parts = (
        [terms.by_class]
        if isinstance(terms, ClassTerms)
        else [terms.linear, terms.square[:, np.newaxis], terms.constant[:, np.newaxis]]
    )
    in_order = np.hstack(parts)
    by_place = np.empty_like(in_order)
    by_place[trees.place] = in_order
    of_nodes = DeviceTerms.join(trees, by_place, by_place.shape[1])
    phi = cupy.zeros(out.shape)
    kind = ensemble.kind
    add_contributions(trees, matrix, kind, target, row_weight, tree_weight, Roles(), of_nodes, 0, phi, None, None)
    out += fetch(phi)


def sum_row_products(
    phi: Any,
    psi: Any,
    is_scoring: NDArray[np.bool_],
    total_weight: float,
    mean: Floats,
    bags: Any,
    n_threads: int = 1,
) -> RowProducts:
    """Sums over rows of products of what they contribute, each divided by `total_weight` and less `mean`."""
    if not is_on_device(phi):
        return native_engine.sum_row_products(phi, psi, is_scoring, total_weight, mean, bags, n_threads)
    import cupy

    n_rows, n_columns = phi.shape
    less, counts = put(mean), put(is_scoring)
    blocks = cupy.empty((-(-n_rows // _PRODUCT_ROWS), 4, n_columns))
    totals = cupy.empty((2, n_rows))
    what = [phi, psi, counts, np.float64(total_weight), less, np.int32(n_columns), np.int64(n_rows)]
    threads = min(1024, -(-n_columns // 32) * 32)
    run_kernel("sum_products", np.float64, (len(blocks), 1), [*what, np.int32(_PRODUCT_ROWS), blocks], threads=threads)
    run_kernel("multiply_totals", np.float64, (-(-n_rows // THREADS), 1), [*what, totals])
    products, total = fetch(blocks.sum(axis=0)), fetch(totals.sum(axis=1))
    K, L, d_d, n_grown = _project_on_bags(phi, psi, counts, total_weight, less, bags)
    return RowProducts(
        phi_phi=products[0],
        phi_psi=products[1],
        psi_psi=products[2],
        phi_sum=products[3],
        total_phi_phi=float(total[0]),
        total_phi_psi=float(total[1]),
        K=K,
        L=L,
        d_d=d_d,
        n_grown=n_grown,
    )


def _project_on_bags(
    phi: Any, psi: Any, counts: Any, total_weight: float, mean: Any, bags: Any
) -> tuple[Floats, Floats, Floats, int]:
    """K, L and d_d of the bags, and the number of rows that are in any."""
    import cupy

    n_columns, n_bags, n_grown = phi.shape[1], 0 if bags is None else len(bags), 0
    K, L, d_d = cupy.zeros((n_bags, n_columns)), cupy.zeros((n_bags, n_columns)), cupy.zeros(n_bags)
    n_rows = max(1, _BLOCK_VALUES // max(n_columns, n_bags))
    for start in range(0, len(phi) if n_bags else 0, n_rows):
        part = slice(start, start + n_rows)
        weights = bags[:, part].astype(np.float64)
        bag_mean = weights.mean(axis=0)
        is_grown = counts[part] & (bag_mean > 0)
        n_grown += int(is_grown.sum())
        more = (weights - bag_mean) * cupy.where(is_grown, 1.0 / cupy.where(is_grown, bag_mean, 1.0), 0.0)
        K += more @ (phi[part] / total_weight - mean)
        L += more @ (psi[part] / total_weight - mean)
        d_d += (more * more).sum(axis=1)
    return fetch(K), fetch(L), fetch(d_d), n_grown
