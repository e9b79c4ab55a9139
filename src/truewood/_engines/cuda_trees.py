"""`DeviceTrees`: trees on the GPU, and passes of all rows through them."""

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
    Struct,
    copy_target,
    empty_pinned,
    find_shared_memory,
    iterate_rows,
    put,
    run_kernel,
)
from truewood._engines.cuda_sums import Amounts
from truewood._engines.records import InfluenceBuffers
from truewood._inputs.tables import FeatureMatrix
from truewood._inputs.target import ClassTarget, Target, TargetKind
from truewood._trees.ensemble import TreeEnsemble

# Trees with at most _FEW_NODES nodes are first summed in shared memory. A block uses at most _SHARED_SUMS bytes of it,
# and at most _MOST_ROWS rows, because parts of amounts would overflow otherwise.
_FEW_NODES = 1024
_SHARED_SUMS = 32 << 10
_SMALL_THREADS = 512
_MOST_ROWS = 4096
# Shared memory for the rows of a block; several blocks should fit.
_SHARED_ROWS = 64 << 10
# Number of blocks of threads that keeps a GPU busy.
_MANY_BLOCKS = 4096

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DeviceTrees:
    """Trees in the layout of the kernels.

    Parameters
    ----------
    nodes : array of uint8, shape (n_nodes, 16)
        Structs `Node` of cuda_kernels.cuh.
    roots : array of int32, shape (n_trees + 1,)
        First node of each tree, and the end of the last one.
    sets : tuple
        Offsets and bits of sets of categories, or (None, None).
    column : array of int32, shape (n_trees,), or None
        Target column of each tree; None if trees predict all columns.
    place : ndarray of int32, shape (n_nodes,)
        New position of each node, in the order of the trees' arrays.
    sizes : ndarray of int64, shape (n_trees,)
        Number of nodes of each tree.
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
        """Lay out trees; `ensemble` is None if they are in the arrays of their library."""
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

    def as_struct(self) -> Struct:
        """Return the struct of the kernels."""
        return Struct(self.nodes, self.roots, self.column, Struct(*self.sets), np.int32(self.n_trees))


@dataclass(frozen=True, eq=False)
class Roles:
    """Roles of rows in several trees.

    Parameters
    ----------
    kind : {"every row", "bags", "lists"}
        Whether every row evaluates every tree once, rows outside its bag, or rows as often as they are listed.
    times : array of uint32, shape (n_trees, n_rows), or None
        How often each row is in the bag or in the list of each tree.
    in_bag : array of float64, shape (n_trees, n_rows), or None
        Weights of rows in the fit of each tree, for lists with in-bag rows.
    """

    kind: str = "every row"
    times: Any = None
    in_bag: Any = None

    def as_struct(self, n_rows: int) -> Struct:
        """Return the struct of the kernels."""
        number = ("every row", "bags", "lists").index(self.kind)
        return Struct(self.times, self.in_bag, np.int64(n_rows), np.int32(number))


def sum_rows(trees: DeviceTrees, matrix: FeatureMatrix, amounts: Amounts, roles: Roles) -> Any:
    """Sum amounts at leaves, shape (n_nodes, width, 2)."""
    import cupy

    cells = cupy.zeros((int(trees.sizes.sum()), amounts.width, 2), dtype=np.uint64)
    n_features, n_rows = matrix.values.shape[1], matrix.n_rows
    itemsize = np.dtype(matrix.values.dtype).itemsize
    staged_bytes = THREADS * n_features * itemsize
    groups = _group_small(trees, amounts.width) if roles.kind == "every row" else None
    n_staged = n_features if groups is None and staged_bytes <= min(_SHARED_ROWS, find_shared_memory()) else 0
    starts = None if groups is None else put(groups.astype(np.int32))
    most_nodes = 0 if groups is None else max(int(trees.sizes[a:b].sum()) for a, b in pairwise(groups))
    for first, x in iterate_rows(matrix, 0, n_rows):
        n, shared = len(x), THREADS * n_staged * itemsize
        arguments: list[Any] = [trees.as_struct(), _make_rows(x, first, n_staged), amounts.as_struct()]
        if groups is None:
            n_blocks = -(-n // THREADS)
            least = -(-trees.n_trees // MOST_GRID_Y)
            trees_per_block = int(np.clip(n_blocks * trees.n_trees // _MANY_BLOCKS, least, trees.n_trees))
            arguments += [roles.as_struct(n_rows), np.int32(trees_per_block), cells]
            grid = (n_blocks, -(-trees.n_trees // trees_per_block))
            run_kernel("sum_rows", matrix.values.dtype, grid, arguments, shared=shared)
        else:
            rows_per_block = int(np.clip(n * (len(groups) - 1) // _MANY_BLOCKS, _SMALL_THREADS, _MOST_ROWS))
            arguments += [starts, np.int32(rows_per_block), cells]
            grid = (-(-n // rows_per_block), len(groups) - 1)
            shared = most_nodes * amounts.width * 12
            run_kernel("sum_small_trees", matrix.values.dtype, grid, arguments, shared=shared, threads=_SMALL_THREADS)
    return cells


def _make_rows(x: Any, first: int, n_staged: int) -> Struct:
    """Make the struct of a block of rows."""
    return Struct(x, np.int64(len(x)), np.int64(first), np.int32(x.shape[1]), np.int32(n_staged))


def _group_small(trees: DeviceTrees, width: int) -> NDArray[np.int64] | None:
    """Return the bounds of groups of trees that fit into shared memory; None if a tree is too large."""
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
    """Nodes on the GPU, each followed by the terms of rows there, and the target that the terms multiply.

    Parameters
    ----------
    records : array of uint8, shape (n_nodes, size)
        The node and its terms, by place.
    n_terms : int
        Number of terms per role.
    codes : array of int32, shape (n_rows, n_outputs), or None
        Classes of the rows; None for numbers.
    first_column : array of int32, shape (n_outputs,)
        First column of each output.
    numbers : array of shape (n_rows, n_columns), or None
        Numbers of the rows; None for classes.
    """

    records: Any
    n_terms: int
    codes: Any
    first_column: Any
    numbers: Any

    @classmethod
    def join(cls, trees: DeviceTrees, terms: Floats, kind: TargetKind, target: Target) -> DeviceTerms:
        """Append terms of one or both roles, by place, to the nodes."""
        import cupy

        has_classes = isinstance(target, ClassTarget)
        n_terms = kind.n_columns if has_classes else kind.n_columns + 2
        own = copy_target(target)
        codes, numbers = (own, None) if has_classes else (None, own)
        n_bytes = terms.shape[1] * 8
        records = cupy.empty((len(terms), -(-(16 + n_bytes) // 16) * 16), dtype=np.uint8)
        records[:, :16] = trees.nodes
        records[:, 16 : 16 + n_bytes] = put(terms).view(np.uint8)
        return cls(records, n_terms, codes, put(kind.first_column.astype(np.int32)), numbers)

    def as_struct(self) -> Struct:
        """Return the struct of the kernels."""
        stride = 0 if self.numbers is None else self.numbers.shape[1]
        sizes = [self.records.shape[1], self.n_terms, len(self.first_column), stride]
        return Struct(self.records, self.codes, self.first_column, self.numbers, *map(np.int32, sizes))


def add_influence(
    trees: DeviceTrees,
    matrix: FeatureMatrix,
    terms: DeviceTerms,
    roles: Roles,
    buffers: InfluenceBuffers,
    row_weight: Any = None,
    tree_weight: Any = None,
) -> None:
    """Add the influence of rows to buffers on the GPU, which also receive row weights in the first bags."""
    n_features, itemsize = matrix.values.shape[1], np.dtype(matrix.values.dtype).itemsize
    first, n_rows, bags = buffers.first, len(buffers.eval_influence), buffers.bags
    n_kept, most = n_features * (1 if buffers.inbag_influence is None else 2), find_shared_memory()
    threads = next((n for n in (THREADS, THREADS // 2) if n * n_kept * 8 <= most), None)
    n_kept, threads = (0, THREADS) if threads is None else (n_kept, threads)
    n_staged = n_features if threads * (n_kept * 8 + n_features * itemsize) <= min(_SHARED_ROWS, most) else 0
    shared = threads * (n_kept * 8 + n_staged * itemsize)
    weights = Struct(put(row_weight), put(tree_weight))
    for start, x in iterate_rows(matrix, first, first + n_rows):
        part = slice(start - first, start - first + len(x))
        out = Struct(
            buffers.eval_influence[part],
            None if buffers.inbag_influence is None else buffers.inbag_influence[part],
            bags,
            np.int64(first),
            np.int64(n_rows),
            np.int32(0 if bags is None else len(bags)),
        )
        arguments: list[Any] = [trees.as_struct(), _make_rows(x, start, n_staged), terms.as_struct()]
        arguments += [roles.as_struct(matrix.n_rows), weights, out, np.int32(n_kept)]
        grid = (-(-len(x) // threads), 1)
        run_kernel("add_influence", matrix.values.dtype, grid, arguments, shared=shared, threads=threads)


def draw_bags(seeds: NDArray[np.uint32], n_draws: int, n_rows: int) -> Any:
    """Count how often each row is in the bag of each seed, shape (n_seeds, n_rows)."""
    import cupy

    counts = cupy.zeros((len(seeds), n_rows), dtype=np.uint32)
    mask = (1 << int(n_rows - 1).bit_length()) - 1
    arguments = [put(seeds), np.int64(n_draws), np.int64(n_rows), np.uint32(mask), counts]
    run_kernel("draw_bags", np.float32, (len(seeds), 1), arguments, shared=4 * (3 * 624 + 1), threads=256)
    return counts
