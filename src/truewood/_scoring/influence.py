"""Accumulates the influence of single rows on the scores from batches of trees."""

from __future__ import annotations

from functools import cached_property
from threading import Condition
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._engines.engine import MOST_INFLUENCE_VALUES
from truewood._engines.row_lists import RowLists
from truewood._engines.selection import get_engine
from truewood._inference.influence import Contributions
from truewood._inputs.tables import FeatureMatrix
from truewood._inputs.target import Target
from truewood._scoring.inputs import ScoringInputs
from truewood._trees.ensemble import TreeEnsemble
from truewood._trees.row_terms import BothTerms

Floats = NDArray[np.float64]

# Weights in bags that are kept.
_MOST_WEIGHTS = 1 << 25


def split_rows(
    inputs: ScoringInputs, n_features: int, *, with_bags: bool, is_fused: bool = False
) -> list[NDArray[np.int64]]:
    """Split rows into blocks whose influence fits into memory; that of fused scoring stays with the engine.

    With bags, the weights of all rows of a block in all bags have to fit, too.
    """
    n_rows, n_bags = inputs.data.n_rows, inputs.tree_model.n_trees if with_bags else 0
    most_values = get_engine().most_influence_values if is_fused else MOST_INFLUENCE_VALUES
    n_blocks = max(1, -(-n_rows * n_features // most_values), -(-n_rows * n_bags // _MOST_WEIGHTS))
    return np.array_split(np.arange(n_rows), min(n_blocks, n_rows))


def count_bags(inputs: ScoringInputs, *, with_bags: bool) -> int:
    """Number of trees, the first ones, whose bags are kept: as many as fit, or all."""
    n_trees = inputs.tree_model.n_trees
    return n_trees if with_bags else min(n_trees, max(1, _MOST_WEIGHTS // inputs.data.n_rows))


class InfluenceAccumulator:
    """Influence of some rows on the scores: batches of trees add to it, in their order, from any thread.

    Parameters
    ----------
    inputs : ScoringInputs
        Model and rows.
    rows : ndarray of int
        The rows whose influence is accumulated.
    n_features : int
        Number of columns that splits are on.
    n_first : int
        Number of trees, the first ones, whose bags are kept.
    is_fused : bool
        Whether fused scoring adds all of it, so that the arrays may be where the engine adds fastest.
    """

    def __init__(
        self, inputs: ScoringInputs, rows: NDArray[np.int64], n_features: int, n_first: int, *, is_fused: bool = False
    ) -> None:
        self._inputs, self.rows, self.n_features = inputs, rows, n_features
        is_scoring = _find_scoring(inputs)
        self.n_scoring, self._is_scoring = int(np.count_nonzero(is_scoring)), is_scoring[rows]
        zeros = get_engine().make_zeros if is_fused else np.zeros
        has_inbag = inputs.evaluation_rows.are_training
        self.eval_influence: Any = zeros((len(rows), n_features))
        self.inbag_influence: Any = zeros((len(rows), n_features)) if has_inbag else None
        self.bags: Any = zeros((n_first, len(rows)), dtype=np.float32) if has_inbag else None
        self._turn, self._is_broken, self._changed = 0, False, Condition()

    def add(self, turn: int, trees: range, ensemble: TreeEnsemble, evaluation: RowLists, terms: BothTerms) -> None:
        """Add a batch of trees, given their evaluation rows.

        Batches wait for their turn, so that sums do not depend on threads.
        """
        scoring = [weigh_evaluation(self._inputs, evaluation.of_tree(k))[self.rows] for k in range(len(trees))]
        listed = [(terms.evaluation, self.eval_influence, self._list_rows(trees, scoring))]
        if self.inbag_influence is not None and self.bags is not None:
            in_bag = [weigh_in_bag(self._inputs, tree)[self.rows] for tree in trees]
            listed.append((terms.in_bag, self.inbag_influence, self._list_rows(trees, in_bag)))
            for tree, weight in zip(trees, in_bag, strict=True):
                if tree < len(self.bags):
                    self.bags[tree] = weight
        find_leaves = self._inputs.tree_model.find_leaves
        found = [find_leaves(trees, ensemble, self._matrix, rows) for _, _, (rows, _) in listed]
        with self._changed:
            self._changed.wait_for(lambda: self._turn == turn or self._is_broken)
        for (role, out, (rows, weight)), leaves in zip(listed, found, strict=True):
            get_engine().add_path_influence(ensemble, leaves, rows, weight, self._target, role, out)
        with self._changed:
            self._turn += 1
            self._changed.notify_all()

    def give_up(self) -> None:
        """Release batches that wait for one that failed."""
        with self._changed:
            self._is_broken = True
            self._changed.notify_all()

    def finish(self) -> Contributions:
        """Return the influence of all rows, once all batches have been added."""
        return Contributions(self.eval_influence, self.inbag_influence, self._is_scoring, self.n_scoring, self.bags)

    @cached_property
    def _target(self) -> Target:
        whole = self._inputs.data.target
        return whole if len(self.rows) == self._inputs.data.n_rows else whole.take(self.rows)

    @cached_property
    def _matrix(self) -> FeatureMatrix:
        whole = self._inputs.data.matrix
        return whole if len(self.rows) == self._inputs.data.n_rows else whole.take_rows(self.rows)

    def _list_rows(self, trees: range, weights: list[Floats]) -> tuple[RowLists, Floats]:
        """Rows with weight in each tree, and these weights, given the weights of all rows of the block."""
        tree_weight = self._inputs.tree_model.tree_weight
        if tree_weight is not None:
            weights = [weight * tree_weight[tree] for weight, tree in zip(weights, trees, strict=True)]
        lists = [np.flatnonzero(weight != 0) for weight in weights]  # much faster than np.flatnonzero(weight)
        own = [weight[listed] for weight, listed in zip(weights, lists, strict=True)]
        return RowLists.join(lists), np.concatenate(own)


def _find_scoring(inputs: ScoringInputs) -> NDArray[np.bool_]:
    """Rows that evaluate at least one tree, or may: with out-of-bag rows, all that have weight."""
    n_rows, weight = inputs.data.n_rows, inputs.row_weight
    is_scoring = np.ones(n_rows, dtype=np.bool_) if weight is None else weight > 0
    if inputs.evaluation_rows.name == "lists":
        is_listed = np.zeros(n_rows, dtype=np.bool_)
        for tree in range(inputs.tree_model.n_trees):
            is_listed[inputs.evaluation_rows.unseen(tree)] = True
        is_scoring = is_scoring & is_listed
    return is_scoring


def weigh_evaluation(inputs: ScoringInputs, rows: NDArray[np.int64]) -> Floats:
    """Weight of each row in the evaluation of a tree, 0 where it has no part, given the evaluation rows."""
    weight = None if inputs.row_weight is None else inputs.row_weight[rows]
    return np.bincount(rows, weights=weight, minlength=inputs.data.n_rows).astype(np.float64, copy=False)


def weigh_in_bag(inputs: ScoringInputs, tree: int) -> Floats:
    """Weight of each row in the fit of a tree, 0 where it was not in bag."""
    training = inputs.tree_model.training
    if training is None:
        return np.zeros(inputs.data.n_rows)
    return training.list_splitting_rows(tree, inputs.data.target, inputs.data.weight).weight
