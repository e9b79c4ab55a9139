"""`NativeEngine`: a thin wrapper of the compiled kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._engines import _kernel
from truewood._engines.engine import Engine, ScoreFused
from truewood._engines.joint_effects import JointEffects, PairedFeatures
from truewood._engines.records import (
    Bags,
    BrokenTreeError,
    EveryRow,
    FusedScores,
    InfluenceBuffers,
    ListedRows,
    RowLists,
    RowNeighbors,
    RowProducts,
    SeededBags,
    SplitCriterion,
    TreeRows,
)
from truewood._inputs.tables import FeatureMatrix
from truewood._inputs.target import ClassTarget, Target, TargetKind
from truewood._trees.ensemble import TreeArrays, TreeEnsemble
from truewood._trees.node_sums import ClassTerms, NodeSums, RowTerms

Floats = NDArray[np.float64]

# The formulas of the kernel; all of them are sums over rows.
FORMULAS = ("ufi", "ufi_centered", "mdi_oob")


class NativeEngine(Engine):
    """The compiled kernel. Python allocates the output, and C++ fills it without the GIL."""

    name = "native"

    def draw_bag(self, seed: int, n_draws: int, n_rows: int) -> NDArray[np.int64]:
        """Draw the bag of a seed, as numpy's ``RandomState(seed).randint(0, n_rows, n_draws)`` does."""
        bag: NDArray[np.int64] = _kernel.draw_bag(seed, n_draws, n_rows)
        return bag

    def list_oob_rows(self, bag: NDArray[Any], n_rows: int) -> NDArray[np.int64]:
        """Return the rows outside a bag, ascending."""
        oob_rows = np.empty(n_rows, dtype=np.int64)
        return oob_rows[: _kernel.list_oob_rows(bag, oob_rows)]

    def count_rows(self, listed: NDArray[Any], n_rows: int) -> Floats:
        """Return how often each row is listed, shape (n_rows,)."""
        counts = np.zeros(n_rows)
        _kernel.count_rows(listed, counts)
        return counts

    def hash_rows(
        self, matrix: FeatureMatrix, factors: NDArray[np.uint64], n_threads: int = 1
    ) -> NDArray[np.uint64] | None:
        """Return hashes of the rows, shape (n_rows,), or None if all of them differ."""
        hashes = np.empty(matrix.n_rows, dtype=np.uint64)
        table = _kernel.Table(matrix.parts, matrix.has_missing, len(factors))
        return hashes if _kernel.hash_rows(table, factors, n_threads, hashes) else None

    def find_neighbors(
        self,
        matrix: FeatureMatrix,
        columns: NDArray[np.int64],
        labels: Floats,
        tested: NDArray[np.int64],
        n_nearest: int,
        n_threads: int = 1,
    ) -> RowNeighbors:
        """Find the rows nearest to each tested row by some columns of a dense matrix, among those with its label."""
        found = RowNeighbors.allocate(len(tested), len(columns), n_nearest)
        table = _kernel.Table(matrix.parts, matrix.has_missing, matrix.values.shape[1])
        _kernel.find_neighbors(table, columns, labels, tested, n_threads, **vars(found))
        return found

    def find_leaves(
        self, ensemble: TreeEnsemble, matrix: FeatureMatrix, rows: RowLists, n_threads: int = 1
    ) -> NDArray[np.int32]:
        """Return the leaf of each listed row, shape (n,), as a position in the ensemble's arrays."""
        leaves = np.empty(len(rows.index), dtype=np.int32)
        _kernel.find_leaves(
            wrap_trees(ensemble),
            _kernel.Table(matrix.parts, matrix.has_missing, ensemble.n_features),
            _kernel.RowLists(rows.index, rows.offset),
            n_threads,
            leaves,
        )
        return leaves

    def find_swapped_leaves(
        self, ensemble: TreeEnsemble, matrix: FeatureMatrix, rows: NDArray[np.int64], donors: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        """Return the leaves in a single tree when one column at a time is taken from the donor, (n, n_features)."""
        leaves = np.empty((len(rows), ensemble.n_features), dtype=np.int32)
        _kernel.find_swapped_leaves(
            wrap_trees(ensemble),
            _kernel.Table(matrix.parts, matrix.has_missing, ensemble.n_features),
            rows,
            donors,
            leaves,
        )
        return leaves

    def add_sobol_projection(
        self,
        ensemble: TreeEnsemble,
        matrix: FeatureMatrix,
        target: Target,
        *,
        in_bag: RowLists,
        in_bag_weight: Floats,
        evaluation: RowLists,
        prediction: Floats,
        tree_weight: Floats,
        group_of: NDArray[np.int32],
        out: Floats,
        n_threads: int = 1,
    ) -> None:
        """Add the change in predictions for evaluation rows without each group of columns to `out`."""
        _kernel.add_sobol_projection(
            wrap_trees(ensemble),
            _kernel.Table(matrix.parts, matrix.has_missing, ensemble.n_features),
            wrap_target(ensemble.kind, target, None),
            _kernel.ProjectionRows(
                _kernel.RowLists(in_bag.index, in_bag.offset),
                in_bag_weight,
                _kernel.RowLists(evaluation.index, evaluation.offset),
                prediction,
            ),
            tree_weight,
            group_of,
            n_threads,
            out,
        )

    def add_joint_effects(
        self,
        ensemble: TreeEnsemble,
        matrix: FeatureMatrix,
        rows: RowLists,
        share: Floats,
        leaf_value: Floats,
        features: PairedFeatures,
        out: JointEffects,
        n_threads: int = 1,
    ) -> None:
        """Add predictions, main effects and joint effects of pairs of features to `out`, for listed rows."""
        _kernel.add_joint_effects(
            wrap_trees(ensemble),
            _kernel.Table(matrix.parts, matrix.has_missing, ensemble.n_features),
            _kernel.RowLists(rows.index, rows.offset),
            share,
            leaf_value,
            features.feature_of,
            features.pair_of,
            n_threads,
            out.prediction,
            out.main,
            out.joint,
        )

    def sum_leaves(
        self,
        ensemble: TreeEnsemble,
        leaves: NDArray[np.int32],
        rows: RowLists,
        target: Target,
        row_weight: Floats | None,
    ) -> NodeSums:
        """Sum rows at their leaves, chunk by chunk in row order, and aggregate the sums to the roots."""
        sums = _allocate_sums(ensemble, target)
        _kernel.sum_leaves(
            wrap_trees(ensemble),
            leaves,
            _kernel.RowLists(rows.index, rows.offset),
            wrap_target(ensemble.kind, target, row_weight),
            sums,
        )
        return NodeSums.unpack(sums, ensemble.kind, target.origin, counts_classes=isinstance(target, ClassTarget))

    def sum_nodes(
        self,
        ensemble: TreeEnsemble,
        matrix: FeatureMatrix,
        target: Target,
        row_weight: Floats | None,
        n_threads: int = 1,
    ) -> NodeSums:
        """Sum all rows at the nodes of all trees; for additive trees, sums of squares stay zero."""
        sums = _allocate_sums(ensemble, target, with_squares=not ensemble.is_additive)
        _kernel.sum_nodes(
            wrap_trees(ensemble),
            _kernel.Table(matrix.parts, matrix.has_missing, ensemble.n_features),
            wrap_target(ensemble.kind, target, row_weight),
            n_threads,
            sums,
        )
        return NodeSums.unpack(sums, ensemble.kind, target.origin, counts_classes=isinstance(target, ClassTarget))

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
        _kernel.add_influence(
            wrap_trees(ensemble),
            _kernel.Table(matrix.parts, matrix.has_missing, ensemble.n_features),
            wrap_target(ensemble.kind, target, row_weight),
            _wrap_terms(terms, target),
            tree_weight,
            n_threads,
            out,
        )

    def add_path_influence(
        self,
        ensemble: TreeEnsemble,
        leaves: NDArray[np.int32],
        rows: RowLists,
        weight: Floats,
        target: Target,
        terms: RowTerms,
        out: Floats,
    ) -> None:
        """Add the influence of listed rows on each feature, given their leaves, to `out`, (n_rows, n_features)."""
        # For life tables, terms have more columns than node values.
        kind = ensemble.kind if isinstance(terms, ClassTerms) else TargetKind((), terms.linear.shape[1])
        _kernel.add_path_influence(
            wrap_trees(ensemble),
            ensemble.parent,
            leaves,
            _kernel.RowLists(rows.index, rows.offset),
            weight,
            wrap_target(kind, target, None),
            _wrap_terms(terms, target),
            out,
        )

    def add_residuals(
        self,
        ensemble: TreeEnsemble,
        matrix: FeatureMatrix,
        target: Target,
        *,
        rows: ListedRows,
        row_weight: Floats | None,
        criterion: SplitCriterion,
        tree_weight: Floats,
        residual: Floats,
        by_row: Floats,
        by_tree: Floats,
        n_threads: int = 1,
    ) -> None:
        """Add the influence of evaluation rows with residuals in place of the target, by row and by tree."""
        _kernel.add_residuals(
            wrap_trees(ensemble),
            _kernel.Table(matrix.parts, matrix.has_missing, ensemble.n_features),
            wrap_target(ensemble.kind, target, row_weight, with_largest=True),
            _wrap_rows(rows),
            wrap_criterion(criterion),
            residual,
            tree_weight,
            n_threads,
            by_row,
            by_tree,
        )

    def sum_row_products(
        self,
        eval_influence: Floats,
        inbag_influence: Floats | None,
        is_scoring: NDArray[np.bool_],
        total_weight: float,
        mean: Floats,
        bags: NDArray[np.float32] | None,
        n_threads: int = 1,
    ) -> RowProducts:
        """Sum products of influence over rows; influence is first divided by `total_weight` and centered by `mean`."""
        n_columns, n_bags = eval_influence.shape[1], 0 if bags is None else len(bags)
        products, totals = np.zeros((4, n_columns)), np.zeros(3)
        K, L, d_d = np.zeros((n_bags, n_columns)), np.zeros((n_bags, n_columns)), np.zeros(n_bags)
        _kernel.sum_row_products(
            _kernel.InfluenceRows(eval_influence, inbag_influence, is_scoring, total_weight, mean, bags),
            n_threads,
            products,
            totals,
            K,
            L,
            d_d,
        )
        return RowProducts(
            eval_eval=products[0],
            eval_inbag=products[1],
            inbag_inbag=products[2],
            eval_sum=products[3],
            total_eval_eval=float(totals[0]),
            total_eval_inbag=float(totals[1]),
            K=K,
            L=L,
            d_d=d_d,
            n_inbag=int(totals[2]),
        )

    def find_fused_scoring(self, formula: str) -> ScoreFused | None:
        """Return how the engine scores splits by a formula in one call; None to score step by step."""
        return self.score_fused if formula in FORMULAS else None

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
        """Fused scoring: evaluation rows, leaves, sums, scores and influence of several trees in one call."""
        n_trees = trees.n_trees if isinstance(trees, TreeEnsemble) else len(trees)
        scores = FusedScores.zeros(n_trees, matrix.values.shape[1], kind.n_outputs)
        try:
            arguments = (
                wrap_trees(trees),
                _kernel.Table(matrix.parts, matrix.has_missing, matrix.values.shape[1]),
                wrap_target(kind, target, row_weight, with_largest=True),
                _wrap_rows(rows),
                wrap_criterion(criterion),
                n_threads,
                _kernel.Scores(**vars(scores)),
            )
            if influence is None:
                _kernel.score_trees(*arguments)
            else:
                buffers = _kernel.Influence(**vars(influence), tree_weight=tree_weight)
                _kernel.score_trees_with_influence(*arguments, buffers)
        except _kernel.BrokenTreeError as error:
            raise BrokenTreeError(str(error)) from error
        return scores


def _allocate_sums(ensemble: TreeEnsemble, target: Target, *, with_squares: bool = True) -> Floats:
    n_sums = 1 + (2 if with_squares and not isinstance(target, ClassTarget) else 1) * ensemble.kind.n_columns
    return np.zeros((len(ensemble.feature), n_sums))


def _wrap_rows(rows: TreeRows) -> _kernel.TreeRows:
    if isinstance(rows, EveryRow):
        return _kernel.TreeRows.every_row()
    if isinstance(rows, SeededBags):
        return _kernel.TreeRows.of_seeds(rows.seeds, rows.n_draws)
    if isinstance(rows, Bags):
        return _kernel.TreeRows.of_bags(rows.bags)
    return _kernel.TreeRows.of_lists(rows.rows, rows.evaluation_weight, rows.inbag_weight)


def _wrap_terms(terms: RowTerms, target: Target) -> _kernel.RowTerms:
    if isinstance(terms, ClassTerms) != isinstance(target, ClassTarget):
        raise TypeError(f"{type(terms).__name__} cannot be added for a {type(target).__name__}.")
    if isinstance(terms, ClassTerms):
        return _kernel.RowTerms(terms.by_class, None, None)
    return _kernel.RowTerms(terms.linear, terms.square, terms.constant)


def wrap_trees(trees: TreeEnsemble | list[TreeArrays]) -> _kernel.Forest:
    """Wrap trees for the kernel, which reads their arrays in place."""
    if not isinstance(trees, TreeEnsemble):
        return _kernel.Forest.of_trees([tree[:7] for tree in trees])
    nodes = _kernel.NodeArrays(
        trees.feature, trees.threshold, trees.left, trees.right, trees.missing_left, trees.weight, trees.value
    )
    sets = trees.categories
    categories = None if sets is None else _kernel.CategorySets(sets.node_set, sets.offset, sets.bits)
    return _kernel.Forest.of_ensemble(nodes, trees.offset, categories, trees.column)


def wrap_criterion(criterion: SplitCriterion) -> _kernel.SplitCriterion:
    """Wrap the split criterion for the kernel, which has the formulas itself."""
    return _kernel.SplitCriterion(criterion.formula, criterion.skips, criterion.scale, criterion.is_additive)


def wrap_target(
    kind: TargetKind, target: Target, row_weight: Floats | None, *, with_largest: bool = False
) -> _kernel.Target:
    """Wrap the target for the kernel; `kind` is what the trees predict, and scores need the largest values."""
    codes, numbers = (target.codes, None) if isinstance(target, ClassTarget) else (None, target.numbers)
    largest = target.find_largest(kind.n_columns) if with_largest else None
    return _kernel.Target(codes, numbers, kind.column_bounds, row_weight, target.origin, largest)
