"""Trees on the GPU, and passes of all rows through them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._engines import _kernel
from truewood._engines.cuda_device import (
    MOST_GRID_Y,
    THREADS,
    empty_pinned,
    find_shared_memory,
    iterate_rows,
    put,
    run_kernel,
)
from truewood._engines.cuda_sums import Amounts
from truewood._inputs.tables import FeatureMatrix
from truewood._inputs.target import ClassTarget, Target, TargetKind
from truewood._trees.ensemble import TreeEnsemble

# Trees with at most _FEW_NODES nodes are summed in shared memory first. A block takes at most _SHARED_SUMS bytes of it,
# and at most _MOST_ROWS rows, beyond which parts of amounts would overflow.
_FEW_NODES = 1024
_SHARED_SUMS = 32 << 10
_SMALL_THREADS = 512
_MOST_ROWS = 4096
# Shared memory for the rows of a block, so that several blocks fit.
_SHARED_ROWS = 64 << 10
# Blocks of threads that keep a GPU busy.
_MANY_BLOCKS = 4096


@dataclass(frozen=True, eq=False)
class DeviceTrees:
    """Trees laid out on the GPU.

    Parameters
    ----------
    nodes : array of uint8, shape (n_nodes, 16)
        The nodes, as cuda_kernels.cuh has them.
    roots : array of int32, shape (n_trees + 1,)
        Where each tree begins, and where the last one ends.
    sets : tuple
        Offsets and bits of sets of categories, or None twice.
    column : array of int32, shape (n_trees,), or None
        The column of the target that each tree predicts.
    place : ndarray of int32, shape (n_nodes,)
        New position of each node, in the order of the trees' arrays.
    sizes : ndarray of int64, shape (n_trees,)
        Numbers of nodes.
    """

    nodes: Any
    roots: Any
    sets: tuple[Any, Any]
    column: Any
    place: NDArray[np.int32]
    sizes: NDArray[np.int64]

    @classmethod
    def lay_out(
        cls,
        forest: _kernel.Forest,
        sizes: NDArray[np.int64],
        n_features: int,
        n_threads: int,
        ensemble: TreeEnsemble | None = None,
    ) -> DeviceTrees:
        """Lay out the trees of the kernel; `ensemble` is what they were read from, None for trees in place."""
        offset = np.concatenate([[0], np.cumsum(sizes)])
        nodes, place = empty_pinned((int(offset[-1]), 16), np.uint8), np.empty(offset[-1], dtype=np.int32)
        _kernel.lay_out(forest, n_features, n_threads, nodes, place)
        categories = None if ensemble is None else ensemble.categories
        sets = (None, None) if categories is None else (put(categories.offset), put(categories.bits))
        column = None if ensemble is None else put(ensemble.column)
        return cls(put(nodes), put(offset.astype(np.int32)), sets, column, place, sizes)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.sizes)


@dataclass(frozen=True, eq=False)
class Roles:
    """The roles of rows in some trees.

    Parameters
    ----------
    times : array of uint32, shape (n_trees, n_rows), or None
        How often each row is in the tree's bag, or how often it evaluates the tree; None where every row does so once.
    are_bags : bool
        Whether `times` are bags: rows outside of a bag evaluate its tree.
    in_bag : array of float64, shape (n_trees, n_rows), or None
        Weights of rows in the trees' fits, where these do not follow from bags.
    """

    times: Any = None
    are_bags: bool = False
    in_bag: Any = None


def sum_rows(trees: DeviceTrees, matrix: FeatureMatrix, amounts: Amounts, roles: Roles) -> Any:
    """Sums at leaves, as integers, shape (n_nodes, width, 2)."""
    import cupy

    cells = cupy.zeros((int(trees.sizes.sum()), amounts.width, 2), dtype=np.uint64)
    n_features, n_rows = matrix.values.shape[1], matrix.n_rows
    itemsize = np.dtype(matrix.values.dtype).itemsize
    staged_bytes = THREADS * n_features * itemsize
    groups = _group_small(trees, amounts.width) if roles.times is None else None
    n_staged = n_features if groups is None and staged_bytes <= min(_SHARED_ROWS, find_shared_memory()) else 0
    what = [amounts.codes, np.int32(len(amounts.first_column)), amounts.first_column, amounts.amounts]
    what += [np.int32(amounts.n_amounts), np.int32(amounts.width), trees.column]
    starts = None if groups is None else put(groups.astype(np.int32))
    most_nodes = 0 if groups is None else max(int(trees.sizes[a:b].sum()) for a, b in pairwise(groups))
    for first, x in iterate_rows(matrix, 0, n_rows):
        n, shared = len(x), THREADS * n_staged * itemsize
        rows = [*trees.sets, x, np.int32(n_features)]
        if groups is None:
            n_blocks = -(-n // THREADS)
            least = -(-trees.n_trees // MOST_GRID_Y)
            trees_a_block = int(np.clip(n_blocks * trees.n_trees // _MANY_BLOCKS, least, trees.n_trees))
            arguments = [trees.nodes, trees.roots, np.int32(trees.n_trees), np.int32(trees_a_block), *rows]
            arguments += [np.int32(n_staged), np.int64(n), np.int64(first), *what]
            arguments += [roles.times, np.int32(roles.are_bags), np.int64(n_rows), cells]
            grid = (n_blocks, -(-trees.n_trees // trees_a_block))
            run_kernel("sum_rows", matrix.values.dtype, grid, arguments, shared=shared)
        else:
            rows_a_block = int(np.clip(n * (len(groups) - 1) // _MANY_BLOCKS, _SMALL_THREADS, _MOST_ROWS))
            arguments = [trees.nodes, trees.roots, starts, *rows, np.int64(n), np.int64(first), np.int32(rows_a_block)]
            arguments += [*what, cells]
            grid = (-(-n // rows_a_block), len(groups) - 1)
            shared = most_nodes * amounts.width * 12
            run_kernel("sum_small_trees", matrix.values.dtype, grid, arguments, shared=shared, threads=_SMALL_THREADS)
    return cells


def _group_small(trees: DeviceTrees, width: int) -> NDArray[np.int64] | None:
    """Return the bounds of groups of trees that shared memory has room for; None if a tree is too large."""
    most_nodes = _SHARED_SUMS // (12 * width)
    if int(trees.sizes.max()) > min(_FEW_NODES, most_nodes):
        return None
    return group_trees(trees.sizes, most_nodes)


def group_trees(sizes: NDArray[np.int64], most_nodes: int, most_trees: int | None = None) -> NDArray[np.int64]:
    """Return the bounds of groups of consecutive trees; a single tree may exceed `most_nodes`."""
    bounds, n_nodes = [0], 0
    for tree, size in enumerate(sizes.tolist()):
        if tree > bounds[-1] and (n_nodes + size > most_nodes or tree - bounds[-1] == most_trees):
            bounds.append(tree)
            n_nodes = 0
        n_nodes += size
    return np.array([*bounds, len(sizes)])


@dataclass(frozen=True, eq=False)
class DeviceTerms:
    """Nodes on the GPU, each with the terms of rows there: `n_terms` numbers in each role.

    Parameters
    ----------
    records : array of uint8, shape (n_nodes, size)
        By place, the node and its terms.
    n_terms : int
        Terms of a role.
    """

    records: Any
    n_terms: int

    @classmethod
    def join(cls, trees: DeviceTrees, terms: NDArray[np.float64], n_terms: int) -> DeviceTerms:
        """Append terms, by place, to the nodes."""
        import cupy

        n_bytes = terms.shape[1] * 8
        records = cupy.empty((len(terms), -(-(16 + n_bytes) // 16) * 16), dtype=np.uint8)
        records[:, :16] = trees.nodes
        records[:, 16 : 16 + n_bytes] = put(terms).view(np.uint8)
        return cls(records, n_terms)


def add_influence(
    trees: DeviceTrees,
    matrix: FeatureMatrix,
    kind: TargetKind,
    target: Target,
    row_weight: Any,
    tree_weight: Any,
    roles: Roles,
    terms: DeviceTerms,
    first: int,
    eval_influence: Any,
    inbag_influence: Any,
    bags: Any,
) -> None:
    """Add the influence of rows from `first` on to each feature, on trees they evaluate and trees they were in bag for.

    `bags`, shape (n_first, n_rows), is filled with weights of rows in the fits of the first trees.
    """
    n_features, itemsize = matrix.values.shape[1], np.dtype(matrix.values.dtype).itemsize
    n_kept, most = n_features * (1 if inbag_influence is None else 2), find_shared_memory()
    threads = next((n for n in (THREADS, THREADS // 2) if n * n_kept * 8 <= most), None)
    n_kept, threads = (0, THREADS) if threads is None else (n_kept, threads)
    n_staged = n_features if threads * (n_kept * 8 + n_features * itemsize) <= min(_SHARED_ROWS, most) else 0
    codes, numbers = (target.codes, None) if isinstance(target, ClassTarget) else (None, target.numbers)
    stride = 0 if numbers is None else numbers.shape[1]
    y = [put(codes), np.int32(kind.n_outputs), put(kind.first_column.astype(np.int32)), put(numbers), np.int32(stride)]
    weights = [put(row_weight), put(tree_weight), roles.times, np.int32(roles.are_bags), roles.in_bag]
    n_bags = 0 if bags is None else len(bags)
    shared = threads * (n_kept * 8 + n_staged * itemsize)
    for start, x in iterate_rows(matrix, first, first + len(eval_influence)):
        here = slice(start - first, start - first + len(x))
        arguments = [terms.records, np.int32(terms.records.shape[1]), np.int32(terms.n_terms), trees.roots]
        arguments += [np.int32(trees.n_trees), *trees.sets, x, np.int32(n_features), np.int32(n_staged)]
        arguments += [np.int32(n_kept), np.int64(len(x)), np.int64(start), *y, trees.column, *weights]
        arguments += [
            np.int64(matrix.n_rows),
            eval_influence[here],
            None if inbag_influence is None else inbag_influence[here],
            bags,
            np.int32(n_bags),
        ]
        arguments += [np.int64(first), np.int64(len(eval_influence))]
        grid = (-(-len(x) // threads), 1)
        run_kernel("add_influence", matrix.values.dtype, grid, arguments, shared=shared, threads=threads)


def draw_bags(seeds: NDArray[np.uint32], n_draws: int, n_rows: int) -> Any:
    """How often each row is in the bag of each seed, shape (n_seeds, n_rows)."""
    import cupy

    counts = cupy.zeros((len(seeds), n_rows), dtype=np.uint32)
    mask = (1 << int(n_rows - 1).bit_length()) - 1
    arguments = [put(seeds), np.int64(n_draws), np.int64(n_rows), np.uint32(mask), counts]
    run_kernel("draw_bags", np.float32, (len(seeds), 1), arguments, shared=4 * (3 * 624 + 1), threads=256)
    return counts
