"""`Engine`: the interface of the engines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from truewood._engines.joint_effects import JointEffects, PairedFeatures
from truewood._engines.records import (
    FusedScores,
    InfluenceBuffers,
    ListedRows,
    RowLists,
    RowNeighbors,
    RowProducts,
    SplitCriterion,
    TreeRows,
)
from truewood._inputs.table_types import take_from_device
from truewood._inputs.tables import FeatureMatrix
from truewood._inputs.target import Target, TargetKind
from truewood._trees.ensemble import TreeArrays, TreeEnsemble
from truewood._trees.node_sums import NodeSums, RowTerms

# Maximum number of influence values in host memory at a time.
MOST_INFLUENCE_VALUES = 1 << 25

Floats = NDArray[np.float64]


class ScoreFused(Protocol):
    """Fused scoring: evaluation rows, leaves, sums, scores and influence of several trees in one call."""

    def __call__(
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
        """Score trees, and add the influence of rows.

        Parameters
        ----------
        trees : TreeEnsemble or list of TreeArrays
            The trees; node values are training means.
        kind : TargetKind
            What the trees predict.
        matrix : FeatureMatrix
            All rows.
        target : ClassTarget or NumberTarget
            The target that scores the trees.
        rows : EveryRow, SeededBags, Bags or ListedRows
            Which rows evaluate each tree.
        row_weight : ndarray of shape (n_rows,), or None
            Weights of evaluation rows.
        criterion : SplitCriterion
            How splits are scored.
        tree_weight : ndarray of shape (n_trees,), or None
            Weights of the trees, used for influence only.
        influence : InfluenceBuffers or None
            Receives the influence of rows; None to skip it.
        n_threads : int
            Number of threads.
        """


class Engine(ABC):
    """Sends rows down trees: leaves, node sums, the influence of single rows, and all of these fused.

    All engines compute the same numbers; the native and the numpy engine agree bit for bit.
    """

    name: str
    # Whether X may be on a GPU.
    reads_device_rows = False
    # Allocates zeros in the memory where fused scoring adds influence fastest.
    make_zeros: Callable[..., Any] = staticmethod(np.zeros)

    @abstractmethod
    def draw_bag(self, seed: int, n_draws: int, n_rows: int) -> NDArray[np.int64]:
        """Draw the bag of a seed, as numpy's ``RandomState(seed).randint(0, n_rows, n_draws)`` does."""

    @abstractmethod
    def list_oob_rows(self, bag: NDArray[Any], n_rows: int) -> NDArray[np.int64]:
        """Return the rows outside a bag, ascending."""

    @abstractmethod
    def count_rows(self, listed: NDArray[Any], n_rows: int) -> Floats:
        """Return how often each row is listed, shape (n_rows,)."""

    @abstractmethod
    def hash_rows(
        self, matrix: FeatureMatrix, factors: NDArray[np.uint64], n_threads: int = 1
    ) -> NDArray[np.uint64] | None:
        """Return hashes of the rows, shape (n_rows,), or None if all of them differ.

        Rows agree in the columns whose factors are not 0 if and, up to a negligible probability, only if their hashes
        agree. `factors` has shape (n_features, 2).
        """

    @abstractmethod
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

    @abstractmethod
    def find_leaves(
        self, ensemble: TreeEnsemble, matrix: FeatureMatrix, rows: RowLists, n_threads: int = 1
    ) -> NDArray[np.int32]:
        """Return the leaf of each listed row, shape (n,), as a position in the ensemble's arrays."""

    @abstractmethod
    def find_swapped_leaves(
        self, ensemble: TreeEnsemble, matrix: FeatureMatrix, rows: NDArray[np.int64], donors: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        """Return the leaves in a single tree when one column at a time is taken from the donor, (n, n_features)."""

    @abstractmethod
    def sum_leaves(
        self,
        ensemble: TreeEnsemble,
        leaves: NDArray[np.int32],
        rows: RowLists,
        target: Target,
        row_weight: Floats | None,
    ) -> NodeSums:
        """Sum rows at their leaves, chunk by chunk in row order, and aggregate the sums to the roots."""

    @abstractmethod
    def sum_nodes(
        self,
        ensemble: TreeEnsemble,
        matrix: FeatureMatrix,
        target: Target,
        row_weight: Floats | None,
        n_threads: int = 1,
    ) -> NodeSums:
        """Sum all rows at the nodes of all trees; for additive trees, sums of squares stay zero."""

    @abstractmethod
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

    @abstractmethod
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
        """Add the influence of listed rows on each feature, given their leaves, to `out`, (n_rows, n_features).

        The influence is the row's weight times its terms at the nodes on its path, summed from the root down. `weight`
        is parallel to the lists; a row may be listed at most once per tree.
        """

    @abstractmethod
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
        """Add the change in predictions for evaluation rows without each group of columns to `out`.

        Parameters
        ----------
        ensemble, matrix, target
            The trees, the rows, and their target.
        in_bag : RowLists
            In-bag rows of each tree, ascending.
        in_bag_weight : ndarray of shape (n_in_bag,)
            Weights of the in-bag rows.
        evaluation : RowLists
            Evaluation rows of each tree.
        prediction : ndarray of shape (n_evaluation, n_columns)
            Predictions of the tree for its evaluation rows, minus the target's origin.
        tree_weight : ndarray of shape (n_trees,)
            Weights of the trees.
        group_of : ndarray of int32, shape (n_features,)
            The group of each column; negative if the column is not projected out.
        out : ndarray of shape (n_rows, n_groups, n_columns)
            Receives predictions without the group minus predictions with it.
        n_threads : int
            Number of threads.
        """

    @abstractmethod
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
        """Add predictions, main effects and joint effects of pairs of features to `out`, for listed rows.

        Parameters
        ----------
        ensemble, matrix
            The trees and the rows.
        rows : RowLists
            The rows of each tree, ascending and without repetition.
        share : ndarray of shape (n_nodes,)
            Share of the parent's training weight that each node holds; not read at roots.
        leaf_value : ndarray of shape (n_nodes, n_values)
            Value of each leaf, times the weight of its tree; not read at other nodes.
        features : PairedFeatures
            The pairs, if any.
        out : JointEffects
            Receives the sums over trees.
        n_threads : int
            Number of threads.
        """

    @abstractmethod
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
        """Add the influence of evaluation rows with residuals in place of the target, by row and by tree.

        Parameters
        ----------
        ensemble, matrix, target
            The trees with training means, all rows, and their target, which determines the sums at the nodes.
        rows : ListedRows
            Evaluation rows of each tree, with their weights.
        row_weight, criterion
            As in `ScoreFused`.
        tree_weight : ndarray of shape (n_trees,)
            Weights of the trees.
        residual : ndarray of shape (n_rows, n_columns, n_features)
            Residuals of all columns of the target, for the splits on each feature.
        by_row : ndarray of shape (n_rows, n_features)
            The influence of evaluation rows over all trees is added to it.
        by_tree : ndarray of shape (n_trees, n_features)
            Receives the influence on each tree, summed over rows, without the weight of the tree.
        n_threads : int
            Number of threads.
        """

    @abstractmethod
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
        """Sum products of influence over rows; influence is first divided by `total_weight` and centered by `mean`.

        Both influence arrays have shape (n_rows, n_columns), `is_scoring` selects the rows that count, and `bags`,
        shape (n_bags, n_rows), holds the row weights in the bags of some trees.
        """

    def find_fused_scoring(self, formula: str) -> ScoreFused | None:  # noqa: ARG002
        """Return how the engine scores splits by a formula in one call; None to score step by step."""
        return None

    def place_rows(self, X: Any, reason: str = "") -> Any:
        """Return X in memory that this engine reads; `reason` ends the warning that X was copied."""
        return take_from_device(X, f"the engine {self.name!r}{reason}")

    @property
    def most_influence_values(self) -> int:
        """Maximum number of influence values at a time in arrays made by `make_zeros`."""
        return MOST_INFLUENCE_VALUES

    def keep_device(self) -> Callable[[], AbstractContextManager[Any]]:
        """Return a context manager that makes another thread use the current device."""
        return nullcontext
