"""Arguments and results of engines: rows by tree, fused scoring, and sums of products of influence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._trees.ensemble import TreeEnsemble
from truewood._trees.node_sums import BothTerms, NodeSums

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class EveryRow:
    """Every row evaluates every tree."""

    def take(self, trees: slice) -> EveryRow:  # noqa: ARG002
        """Select trees."""
        return self


@dataclass(frozen=True, eq=False)
class SeededBags:
    """Out-of-bag rows evaluate each tree; the bags are drawn again from their seeds.

    Parameters
    ----------
    seeds : ndarray of uint32, shape (n_trees,)
        Seeds of the bags.
    n_draws : int
        Number of rows drawn for each bag.
    """

    seeds: NDArray[np.uint32]
    n_draws: int

    def take(self, trees: slice) -> SeededBags:
        """Select trees."""
        return SeededBags(self.seeds[trees], self.n_draws)


@dataclass(frozen=True, eq=False)
class Bags:
    """Out-of-bag rows evaluate each tree.

    Parameters
    ----------
    bags : list of ndarray of int64
        Rows drawn for each tree, repeated as often as they were drawn.
    """

    bags: list[NDArray[np.int64]]

    def take(self, trees: slice) -> Bags:
        """Select trees."""
        return Bags(self.bags[trees])


@dataclass(frozen=True, eq=False)
class ListedRows:
    """Listed rows evaluate each tree.

    Parameters
    ----------
    rows : list of ndarray of int64
        Evaluation rows of each tree.
    evaluation_weight : list of ndarray of shape (n_rows,), or None
        Weights of all rows in the evaluation of each tree; None if influence is not computed.
    inbag_weight : list of ndarray of shape (n_rows,), or None
        Weights of all rows in the fit of each tree; None if influence is not computed, or if no row is in bag.
    """

    rows: list[NDArray[np.int64]]
    evaluation_weight: list[Floats] | None = None
    inbag_weight: list[Floats] | None = None

    def take(self, trees: slice) -> ListedRows:
        """Select trees."""
        return ListedRows(
            self.rows[trees],
            None if self.evaluation_weight is None else self.evaluation_weight[trees],
            None if self.inbag_weight is None else self.inbag_weight[trees],
        )


# Which rows evaluate each tree.
TreeRows = EveryRow | SeededBags | Bags | ListedRows


@dataclass(frozen=True)
class SplitCriterion:
    """How splits are scored.

    Parameters
    ----------
    formula : {"ufi", "ufi_centered", "mdi_oob"}
        The formula, by the name of the measure in `truewood._measures`.
    skips : bool
        Whether a split counts only if evaluation rows reach both children.
    scale : float
        Score of a perfect split in units of the impurity it removes.
    is_additive : bool
        Whether node values add up to a raw score.
    row_terms : callable
        The formula in Python: ``row_terms(trees, sums, None)`` returns the terms of rows at the nodes.
    """

    formula: str
    skips: bool
    scale: float
    is_additive: bool
    row_terms: Callable[[TreeEnsemble, NodeSums, None], BothTerms]


@dataclass(frozen=True, eq=False)
class InfluenceBuffers:
    """Arrays to which fused scoring adds the influence of consecutive rows, starting with row `first`.

    Parameters
    ----------
    eval_influence : array of shape (n_rows, n_features)
        Influence on the trees that the rows evaluate; made by `Engine.make_zeros`, or in host memory.
    inbag_influence : array of shape (n_rows, n_features), or None
        Influence on the trees that the rows are in bag for; None if no row is in bag.
    bags : array of float32, shape (n_bags, n_rows), or None
        Row weights in the bags of the first `n_bags` trees.
    first : int
        The first row.
    """

    eval_influence: Any
    inbag_influence: Any
    bags: Any
    first: int

    def take(self, trees: slice) -> InfluenceBuffers:
        """Select trees; the arrays are views."""
        return replace(self, bags=None if self.bags is None else self.bags[trees])


@dataclass(frozen=True, eq=False)
class FusedScores:
    """Scores of shape (n_trees, n_features, n_outputs), magnitude (n_trees, n_features), and totals (n_trees,)."""

    scores: Floats
    mdi: Floats
    counted_mdi: Floats
    magnitude: Floats
    split_weight: Floats
    skipped_weight: Floats
    evaluation_weight: Floats
    evaluation_impurity: Floats

    @classmethod
    def zeros(cls, n_trees: int, n_features: int, n_outputs: int) -> FusedScores:
        """Allocate the scores of several trees."""
        by_tree, by_feature = (n_trees,), (n_trees, n_features)
        shapes = [(*by_feature, n_outputs)] * 3 + [by_feature] + [by_tree] * 4
        return cls(*map(np.zeros, shapes))

    @classmethod
    def join(cls, parts: list[FusedScores]) -> FusedScores:
        """Concatenate the scores of several batches of trees."""
        return cls(*(np.concatenate(arrays) for arrays in zip(*(vars(part).values() for part in parts), strict=True)))


class BrokenTreeError(ValueError):
    """A tree is inconsistent; reading it into a `TreeEnsemble` raises an error that explains the problem."""


@dataclass(frozen=True, eq=False)
class RowLists:
    """Row numbers for each of several trees.

    Parameters
    ----------
    index : ndarray of int64, shape (n,)
        Row numbers of all trees, concatenated. A row may occur several times.
    offset : ndarray of int64, shape (n_trees + 1,)
        The rows of tree t are ``index[offset[t]:offset[t + 1]]``.
    """

    index: NDArray[np.int64]
    offset: NDArray[np.int64]

    @classmethod
    def join(cls, lists: list[NDArray[np.int64]]) -> RowLists:
        """Concatenate one list per tree."""
        index = lists[0] if len(lists) == 1 else np.concatenate(lists)
        return cls(np.ascontiguousarray(index, dtype=np.int64), np.cumsum([0, *map(len, lists)], dtype=np.int64))

    @classmethod
    def of_every_row(cls, n_rows: int, n_trees: int) -> RowLists:
        """List all rows for each tree."""
        index = np.tile(np.arange(n_rows, dtype=np.int64), n_trees)
        return cls(index, np.arange(n_trees + 1, dtype=np.int64) * n_rows)

    def of_tree(self, tree: int) -> NDArray[np.int64]:
        """Return the rows of one tree."""
        return self.index[self.offset[tree] : self.offset[tree + 1]]


@dataclass(frozen=True, eq=False)
class RowProducts:
    """Sums over rows of products of their influence; see `Moments`.

    In the formulas, phi is a row's influence on the trees it evaluates and psi its influence on the trees it is in bag
    for.

    Parameters
    ----------
    eval_eval, eval_inbag, inbag_inbag : ndarray of shape (n_columns,)
        Sums of phi phi, phi psi and psi psi by column.
    eval_sum : ndarray of shape (n_columns,)
        Sums of phi minus its mean: zero up to rounding, over all rows of a score.
    total_eval_eval, total_eval_inbag : float
        Sums of phi phi and phi psi for the influence on the sum of all columns.
    K, L : ndarray of shape (n_bags, n_columns)
        Sums of d phi and of d psi, where d is the row's weight in the bag relative to its mean over bags, minus 1.
    d_d : ndarray of shape (n_bags,)
        Sums of d^2.
    n_inbag : int
        Number of rows that are in at least one bag.
    """

    eval_eval: Floats
    eval_inbag: Floats
    inbag_inbag: Floats
    eval_sum: Floats
    total_eval_eval: float
    total_eval_inbag: float
    K: Floats
    L: Floats
    d_d: Floats
    n_inbag: int


@dataclass(frozen=True, eq=False)
class RowNeighbors:
    """The rows nearest to some tested rows, among those with the same label.

    Parameters
    ----------
    nearest : ndarray of int64, shape (n_tested, n_nearest)
        Numbers of the nearest rows, by distance and then by number; the tested row is one of them.
    n_found : ndarray of int64, shape (n_tested,)
        How many there are; 0 if any column is constant among the rows with the label.
    spread : ndarray of shape (n_tested, n_columns)
        Standard deviations of the columns among the rows with the label, by which distances are scaled.
    largest : ndarray of shape (n_tested,)
        The largest absolute scaled value of these rows.
    """

    nearest: NDArray[np.int64]
    n_found: NDArray[np.int64]
    spread: Floats
    largest: Floats

    @classmethod
    def allocate(cls, n_tested: int, n_columns: int, n_nearest: int) -> RowNeighbors:
        """Allocate zeros."""
        return cls(
            np.zeros((n_tested, n_nearest), dtype=np.int64),
            np.zeros(n_tested, dtype=np.int64),
            np.zeros((n_tested, n_columns)),
            np.zeros(n_tested),
        )
