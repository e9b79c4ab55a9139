"""`CudaEngine`: leaves, sums over all rows and fused scoring on a GPU; everything else by the native engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from truewood._engines import _kernel
from truewood._engines.cuda_device import (
    MOST_GRID_Y,
    THREADS,
    Struct,
    copy_rows,
    empty_pinned,
    fetch,
    find_memory,
    find_rows,
    keep_device,
    make_zeros,
    put,
    run_kernel,
)
from truewood._engines.cuda_sums import make_amounts, read_sums
from truewood._engines.cuda_trees import (
    DeviceTerms,
    DeviceTrees,
    Roles,
    add_influence,
    draw_bags,
    group_trees,
    sum_rows,
)
from truewood._engines.engine import MOST_INFLUENCE_VALUES
from truewood._engines.native_engine import NativeEngine, wrap_criterion, wrap_target, wrap_trees
from truewood._engines.records import (
    Bags,
    BrokenTreeError,
    EveryRow,
    FusedScores,
    InfluenceBuffers,
    RowLists,
    RowProducts,
    SeededBags,
    SplitCriterion,
    TreeRows,
)
from truewood._inputs.table_types import is_on_device
from truewood._inputs.tables import FeatureMatrix
from truewood._inputs.target import ClassTarget, Target, TargetKind
from truewood._trees.ensemble import TreeArrays, TreeEnsemble
from truewood._trees.node_sums import ClassTerms, NodeSums, RowTerms, aggregate_to_root

Floats = NDArray[np.float64]

# Rows per block of threads in sums of products, and maximum number of values to multiply by bags at a time.
_PRODUCT_ROWS = 256
_BLOCK_VALUES = 1 << 25
_MOST_BLOCKS = 1 << 15
# The GPU holds the nodes, sums, terms and bags of a batch of trees; the host holds a copy of sums and terms.
_MOST_NODES = 1 << 22
_MOST_BAG_WEIGHTS = 1 << 28
# Draws of the generator on the GPU that are compared with those of the kernel: several times its state.
_MOST_CHECKED_DRAWS = 10_000
# An influence value takes 8 bytes in each of two roles, and three times as much is left for everything else. The limit
# is a share of all memory, not of the free memory, so that repeated calls agree bit for bit.
_BYTES_PER_INFLUENCE = 64


class CudaEngine(NativeEngine):
    """A GPU, used through CuPy. Sums are exact integers, so they do not depend on the order of additions."""

    name = "cuda"
    reads_device_rows = True
    make_zeros = staticmethod(make_zeros)

    def __init__(self) -> None:
        self._trees: WeakKeyDictionary[TreeEnsemble, DeviceTrees] = WeakKeyDictionary()

    @property
    def most_influence_values(self) -> int:
        """Maximum number of influence values on the GPU at a time."""
        return max(MOST_INFLUENCE_VALUES, find_memory() // _BYTES_PER_INFLUENCE)

    def place_rows(self, X: Any, reason: str = "") -> Any:  # noqa: ARG002
        """Return X itself: the GPU reads rows of the host block by block."""
        return X

    def keep_device(self) -> Callable[[], Any]:
        """Return a context manager that makes another thread use the current GPU."""
        return keep_device()

    def hash_rows(
        self, matrix: FeatureMatrix, factors: NDArray[np.uint64], n_threads: int = 1
    ) -> NDArray[np.uint64] | None:
        """Return hashes of the rows, shape (n_rows,), or None if all differ; on the GPU if the rows are there."""
        import cupy

        values = None if sparse.issparse(matrix.values) else find_rows(matrix)
        if values is None:
            return super().hash_rows(matrix, factors, n_threads)
        hashes = cupy.empty(matrix.n_rows, dtype=np.uint64)
        arguments = [values, np.int64(matrix.n_rows), np.int32(len(factors)), put(factors), hashes]
        run_kernel("hash_rows", values.dtype, (min(-(-matrix.n_rows // THREADS), _MOST_BLOCKS), 1), arguments)
        in_order = cupy.sort(hashes)
        return fetch(hashes) if bool((in_order[1:] == in_order[:-1]).any()) else None

    def find_leaves(
        self, ensemble: TreeEnsemble, matrix: FeatureMatrix, rows: RowLists, n_threads: int = 1
    ) -> NDArray[np.int32]:
        """Return the leaf of each listed row, shape (n,), as a position in the ensemble's arrays."""
        import cupy

        values = copy_rows(matrix)
        if values is None:
            return super().find_leaves(ensemble, matrix, rows, n_threads)
        trees = self._lay_out(ensemble, n_threads)
        leaves = cupy.empty(len(rows.index), dtype=np.int32)
        n_blocks = min(max(1, -(-int(np.diff(rows.offset).max(initial=1)) // THREADS)), _MOST_BLOCKS)
        arguments = [trees.as_struct(), values, np.int32(ensemble.n_features)]
        arguments += [put(rows.index), put(rows.offset), leaves]
        run_kernel("find_leaves", values.dtype, (n_blocks, min(trees.n_trees, MOST_GRID_Y)), arguments)
        return fetch(leaves)

    def find_swapped_leaves(
        self, ensemble: TreeEnsemble, matrix: FeatureMatrix, rows: NDArray[np.int64], donors: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        """Return the leaves in a single tree when one column at a time is taken from the donor, (n, n_features)."""
        import cupy

        values = copy_rows(matrix)
        if values is None:
            return super().find_swapped_leaves(ensemble, matrix, rows, donors)
        trees = self._lay_out(ensemble, 1)
        leaves = cupy.empty((len(rows), ensemble.n_features), dtype=np.int32)
        n_blocks = min(max(1, -(-leaves.size // THREADS)), _MOST_BLOCKS)
        arguments = [trees.as_struct(), values, np.int32(ensemble.n_features)]
        arguments += [put(rows), put(donors), np.int64(len(rows)), leaves]
        run_kernel("find_swapped_leaves", values.dtype, (n_blocks, 1), arguments)
        return fetch(leaves)

    def sum_nodes(
        self,
        ensemble: TreeEnsemble,
        matrix: FeatureMatrix,
        target: Target,
        row_weight: Floats | None,
        n_threads: int = 1,
    ) -> NodeSums:
        """Sum all rows at the nodes of all trees; for additive trees, sums of squares stay zero."""
        kind, with_squares = ensemble.kind, not ensemble.is_additive
        amounts = make_amounts(kind, target, row_weight, with_squares=with_squares)
        cells = sum_rows(self._lay_out(ensemble, n_threads), matrix, amounts, Roles())
        sums = aggregate_to_root(ensemble, fetch(read_sums(kind, amounts, cells)))
        return NodeSums.unpack(sums, kind, target.origin, counts_classes=isinstance(target, ClassTarget))

    def add_influence(
        self,
        ensemble: TreeEnsemble,
        matrix: FeatureMatrix,
        target: Target,
        row_weight: Floats | None,
        terms: RowTerms,
        tree_weight: Floats,
        out: Floats,
        n_threads: int = 1,
    ) -> None:
        """Add the influence of all rows on each feature, over all trees, to `out`, shape (n_rows, n_features)."""
        import cupy

        trees = self._lay_out(ensemble, n_threads)
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
        device_terms = DeviceTerms.join(trees, by_place, ensemble.kind, target)
        buffers = InfluenceBuffers(cupy.zeros(out.shape), None, None, first=0)
        add_influence(trees, matrix, device_terms, Roles(), buffers, row_weight, tree_weight)
        out += fetch(buffers.eval_influence)

    def sum_row_products(
        self,
        eval_influence: Any,
        inbag_influence: Any,
        is_scoring: NDArray[np.bool_],
        total_weight: float,
        mean: Floats,
        bags: Any,
        n_threads: int = 1,
    ) -> RowProducts:
        """Sum products of influence over rows; influence is first divided by `total_weight` and centered by `mean`."""
        if not is_on_device(eval_influence):
            return super().sum_row_products(
                eval_influence, inbag_influence, is_scoring, total_weight, mean, bags, n_threads
            )
        import cupy

        n_rows, n_columns = eval_influence.shape
        means, counts = put(mean), put(is_scoring)
        blocks = cupy.empty((-(-n_rows // _PRODUCT_ROWS), 4, n_columns))
        totals = cupy.empty((2, n_rows))
        sizes = (np.float64(total_weight), np.int64(n_rows), np.int32(n_columns))
        influence = Struct(eval_influence, inbag_influence, counts, means, *sizes)
        arguments, threads = [influence, np.int32(_PRODUCT_ROWS), blocks], min(1024, -(-n_columns // 32) * 32)
        run_kernel("sum_products", np.float64, (len(blocks), 1), arguments, threads=threads)
        run_kernel("multiply_totals", np.float64, (-(-n_rows // THREADS), 1), [influence, totals])
        products, total = fetch(blocks.sum(axis=0)), fetch(totals.sum(axis=1))
        K, L, d_d, n_inbag = _project_on_bags(eval_influence, inbag_influence, counts, total_weight, means, bags)
        return RowProducts(
            eval_eval=products[0],
            eval_inbag=products[1],
            inbag_inbag=products[2],
            eval_sum=products[3],
            total_eval_eval=float(total[0]),
            total_eval_inbag=float(total[1]),
            K=K,
            L=L,
            d_d=d_d,
            n_inbag=n_inbag,
        )

    def score_fused(
        self,
        trees: TreeEnsemble | list[TreeArrays],
        kind: TargetKind,
        matrix: FeatureMatrix,
        target: Target,
        *,
        rows: TreeRows,
        row_weight: Floats | None,
        criterion: SplitCriterion,
        tree_weight: Floats | None = None,
        influence: InfluenceBuffers | None = None,
        n_threads: int = 1,
    ) -> FusedScores:
        """Fused scoring: leaves, sums and influence on the GPU, formulas by the kernel; batch by batch of trees."""
        sizes = np.diff(trees.offset) if isinstance(trees, TreeEnsemble) else np.array([len(t.feature) for t in trees])
        most_nodes = _MOST_NODES // max(1, kind.n_columns // 2)
        most_trees = None if isinstance(rows, EveryRow) else max(1, _MOST_BAG_WEIGHTS // matrix.n_rows)
        starts = group_trees(sizes, most_nodes, most_trees)
        if len(starts) > 2:
            return FusedScores.join(
                [
                    self.score_fused(
                        trees[batch],
                        kind,
                        matrix,
                        target,
                        rows=rows.take(batch),
                        row_weight=row_weight,
                        criterion=criterion,
                        tree_weight=None if tree_weight is None else tree_weight[batch],
                        influence=None if influence is None else influence.take(batch),
                        n_threads=n_threads,
                    )
                    for batch in map(slice, starts[:-1], starts[1:])
                ]
            )
        n_features = matrix.values.shape[1]
        ensemble = trees if isinstance(trees, TreeEnsemble) else None
        scores = FusedScores.zeros(len(sizes), n_features, kind.n_outputs)
        n_roles = 0 if influence is None else 1 if influence.inbag_influence is None else 2
        n_terms = kind.n_columns if isinstance(target, ClassTarget) else kind.n_columns + 2
        try:
            forest = wrap_trees(trees)
            laid_out = DeviceTrees.lay_out(forest, sizes, n_features, n_threads, ensemble)
            roles, most_times = self._find_roles(rows, matrix.n_rows, with_weights=influence is not None)
            amounts = make_amounts(
                kind, target, row_weight, with_squares=not criterion.is_additive, most_times=most_times
            )
            leaf_sums = fetch(read_sums(kind, amounts, sum_rows(laid_out, matrix, amounts, roles)))
            terms = empty_pinned((len(leaf_sums), n_roles * n_terms)) if n_roles else np.empty((len(leaf_sums), 0))
            _kernel.score_sums(
                forest,
                n_features,
                wrap_target(kind, target, row_weight, with_largest=True),
                wrap_criterion(criterion),
                n_threads,
                leaf_sums,
                _kernel.Scores(**vars(scores)),
                terms,
            )
        except _kernel.BrokenTreeError as error:
            raise BrokenTreeError(str(error)) from error
        if influence is None:
            return scores
        device_terms = DeviceTerms.join(laid_out, terms, kind, target)
        names = ("eval_influence", "inbag_influence", "bags")
        buffers = replace(influence, **{name: _get_buffer(getattr(influence, name)) for name in names})
        add_influence(laid_out, matrix, device_terms, roles, buffers, row_weight, tree_weight)
        for name in names:
            array = getattr(influence, name)
            if array is not None and not is_on_device(array):
                array += fetch(getattr(buffers, name))
        return scores

    def _find_roles(self, rows: TreeRows, n_rows: int, *, with_weights: bool) -> tuple[Roles, int]:
        """Return the roles of rows in each tree, and the maximum number of times that a row evaluates a tree."""
        import cupy

        if isinstance(rows, EveryRow):
            return Roles(), 1
        if isinstance(rows, SeededBags):
            self._check_draws(rows, n_rows)
            return Roles("bags", draw_bags(rows.seeds, rows.n_draws, n_rows)), 1
        if isinstance(rows, Bags):
            counts = cupy.zeros((len(rows.bags), n_rows), dtype=np.uint32)
            for tree, bag in enumerate(rows.bags):
                counts[tree] = cupy.bincount(put(np.asarray(bag)), minlength=n_rows)
            return Roles("bags", counts), 1
        counts, most_times = cupy.zeros((len(rows.rows), n_rows), dtype=np.uint32), 1
        for tree, listed in enumerate(rows.rows):
            if len(listed):
                counts[tree] = cupy.bincount(put(listed), minlength=n_rows)
                most_times = max(most_times, int(counts[tree].max()))
        if not with_weights or rows.inbag_weight is None:
            return Roles("lists", counts), most_times
        in_bag = cupy.empty((len(rows.rows), n_rows))
        for tree, weight in enumerate(rows.inbag_weight):
            in_bag[tree] = put(weight)
        return Roles("lists", counts, in_bag), most_times

    def _check_draws(self, rows: SeededBags, n_rows: int) -> None:
        """Compare the first draws on the GPU with those of the kernel, which are compared with the library's."""
        n_draws = min(rows.n_draws, _MOST_CHECKED_DRAWS)
        drawn = fetch(draw_bags(rows.seeds[:1], n_draws, n_rows)[0])
        if not np.array_equal(drawn, np.bincount(self.draw_bag(int(rows.seeds[0]), n_draws, n_rows), minlength=n_rows)):
            raise RuntimeError(
                "bags drawn on the GPU differ from scikit-learn's; use engine='native', and please report this."
            )

    def _lay_out(self, ensemble: TreeEnsemble, n_threads: int) -> DeviceTrees:
        """Return the trees on the GPU; they stay there as long as the ensemble exists, for rows that come in parts."""
        found = self._trees.get(ensemble)
        if found is None:
            sizes = np.diff(ensemble.offset)
            found = DeviceTrees.lay_out(wrap_trees(ensemble), sizes, ensemble.n_features, n_threads, ensemble)
            self._trees[ensemble] = found
        return found


def _project_on_bags(
    eval_influence: Any, inbag_influence: Any, counts: Any, total_weight: float, mean: Any, bags: Any
) -> tuple[Floats, Floats, Floats, int]:
    """Return K, L and d_d of the bags, and the number of rows in at least one bag."""
    import cupy

    n_columns, n_bags, n_inbag = eval_influence.shape[1], 0 if bags is None else len(bags), 0
    K, L, d_d = cupy.zeros((n_bags, n_columns)), cupy.zeros((n_bags, n_columns)), cupy.zeros(n_bags)
    n_rows = max(1, _BLOCK_VALUES // max(n_columns, n_bags))
    for start in range(0, len(eval_influence) if n_bags else 0, n_rows):
        part = slice(start, start + n_rows)
        weights = bags[:, part].astype(np.float64)
        bag_mean = weights.mean(axis=0)
        is_inbag = counts[part] & (bag_mean > 0)
        n_inbag += int(is_inbag.sum())
        more = (weights - bag_mean) * cupy.where(is_inbag, 1.0 / cupy.where(is_inbag, bag_mean, 1.0), 0.0)
        K += more @ (eval_influence[part] / total_weight - mean)
        L += more @ (inbag_influence[part] / total_weight - mean)
        d_d += (more * more).sum(axis=1)
    return fetch(K), fetch(L), fetch(d_d), n_inbag


def _get_buffer(part: Any) -> Any:
    """Return the array itself if it is on the GPU, or else zeros there."""
    import cupy

    return part if part is None or is_on_device(part) else cupy.zeros(part.shape, dtype=part.dtype)
