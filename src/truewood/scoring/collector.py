"""Collects from batches of trees what single rows contribute to the scores."""

from __future__ import annotations

from functools import cached_property
from threading import Condition
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood.data.tables import FeatureMatrix
from truewood.data.target import Target
from truewood.engines.cuda_device import find_memory, make_zeros
from truewood.engines.engine import get_engine
from truewood.engines.row_lists import RowLists
from truewood.inference.contributions import Contributions
from truewood.scoring.job import Job
from truewood.trees.ensemble import TreeEnsemble
from truewood.trees.row_terms import BothTerms

Floats = NDArray[np.float64]

# Contributions that are held at a time, and weights in bags that are kept.
_MOST_VALUES = 1 << 25
_MOST_WEIGHTS = 1 << 25
# On the GPU a contribution takes 8 bytes in each of two roles; three times as much is left for all else. Of all of its
# memory, not of what is free now, so that sums have the same bits the next time.
_DEVICE_BYTES_A_VALUE = 64


def split_rows(job: Job, n_features: int, *, with_bags: bool, on_device: bool = False) -> list[NDArray[np.int64]]:
    """Blocks of rows whose contributions are collected one after the other, so that they fit into memory.

    With bags, the weights of all rows of a block in all bags have to fit, too. Contributions that are collected on the
    GPU have to fit there.
    """
    n_rows, n_bags = job.data.n_rows, job.view.n_trees if with_bags else 0
    most_values = max(_MOST_VALUES, find_memory() // _DEVICE_BYTES_A_VALUE) if on_device else _MOST_VALUES
    n_blocks = max(1, -(-n_rows * n_features // most_values), -(-n_rows * n_bags // _MOST_WEIGHTS))
    return np.array_split(np.arange(n_rows), min(n_blocks, n_rows))


def count_bags(job: Job, *, with_bags: bool) -> int:
    """Number of trees, the first ones, whose bags are kept: as many as fit, or all."""
    n_trees = job.view.n_trees
    return n_trees if with_bags else min(n_trees, max(1, _MOST_WEIGHTS // job.data.n_rows))


class Collector:
    """Collects what some rows contribute to the scores: batches of trees add to it, in their order, from any thread.

    Parameters
    ----------
    job : Job
        Model and rows.
    rows : ndarray of int
        The rows to collect from.
    n_features : int
        Number of columns that splits are on.
    n_first : int
        Number of trees, the first ones, whose bags are kept.
    on_device : bool
        Whether to collect on the GPU, which the engine "cuda" then does.
    """

    def __init__(
        self, job: Job, rows: NDArray[np.int64], n_features: int, n_first: int, *, on_device: bool = False
    ) -> None:
        self._job, self.rows, self.n_features = job, rows, n_features
        is_scoring = _find_scoring(job)
        self.n_scoring, self._is_scoring = int(np.count_nonzero(is_scoring)), is_scoring[rows]
        zeros = make_zeros if on_device else np.zeros
        self.phi: Any = zeros((len(rows), n_features))
        self.psi: Any = zeros((len(rows), n_features)) if job.choice.are_training else None
        self.bags: Any = zeros((n_first, len(rows)), dtype=np.float32) if job.choice.are_training else None
        self._turn, self._is_broken, self._changed = 0, False, Condition()

    def add(self, turn: int, trees: range, ensemble: TreeEnsemble, unseen: RowLists, terms: BothTerms) -> None:
        """Add a batch of trees, with their unseen rows. Batches wait for their turn: sums do not depend on threads."""
        scoring = [weigh_unseen(self._job, unseen.of_tree(k))[self.rows] for k in range(len(trees))]
        listed = [(terms.unseen, self.phi, self._list_rows(trees, scoring))]
        if self.psi is not None and self.bags is not None:
            grown = [weigh_training(self._job, tree)[self.rows] for tree in trees]
            listed.append((terms.training, self.psi, self._list_rows(trees, grown)))
            for tree, weight in zip(trees, grown, strict=True):
                if tree < len(self.bags):
                    self.bags[tree] = weight
        find_leaves = self._job.view.find_leaves
        found = [find_leaves(trees, ensemble, self._matrix, rows) for _, _, (rows, _) in listed]
        with self._changed:
            self._changed.wait_for(lambda: self._turn == turn or self._is_broken)
        for (role, out, (rows, weight)), leaves in zip(listed, found, strict=True):
            get_engine().add_terms(ensemble, leaves, rows, weight, self._target, role, out)
        with self._changed:
            self._turn += 1
            self._changed.notify_all()

    def give_up(self) -> None:
        """Let nobody wait for a batch that failed."""
        with self._changed:
            self._is_broken = True
            self._changed.notify_all()

    def finish(self) -> Contributions:
        """All contributions, when all batches have been added."""
        return Contributions(self.phi, self.psi, self._is_scoring, self.n_scoring, self.bags)

    @cached_property
    def _target(self) -> Target:
        whole = self._job.data.target
        return whole if len(self.rows) == self._job.data.n_rows else whole.take(self.rows)

    @cached_property
    def _matrix(self) -> FeatureMatrix:
        whole = self._job.data.matrix
        return whole if len(self.rows) == self._job.data.n_rows else whole.take_rows(self.rows)

    def _list_rows(self, trees: range, weights: list[Floats]) -> tuple[RowLists, Floats]:
        """Rows that have a role in each tree, and their weights in it, given the weights of all rows of the block."""
        tree_weight = self._job.view.tree_weight
        if tree_weight is not None:
            weights = [weight * tree_weight[tree] for weight, tree in zip(weights, trees, strict=True)]
        lists = [np.flatnonzero(weight != 0) for weight in weights]  # much faster than of the weights themselves
        own = [weight[listed] for weight, listed in zip(weights, lists, strict=True)]
        return RowLists.join(lists), np.concatenate(own)


def _find_scoring(job: Job) -> NDArray[np.bool_]:
    """Rows that score at least one tree, or may: of out-of-bag rows all that have weight."""
    n_rows, weight = job.data.n_rows, job.row_weight
    is_scoring = np.ones(n_rows, dtype=np.bool_) if weight is None else weight > 0
    if job.choice.name == "lists":
        is_listed = np.zeros(n_rows, dtype=np.bool_)
        for tree in range(job.view.n_trees):
            is_listed[job.choice.unseen(tree)] = True
        is_scoring = is_scoring & is_listed
    return is_scoring


def weigh_unseen(job: Job, rows: NDArray[np.int64]) -> Floats:
    """Weight of each row where it scores a tree, 0 where it does not, given the rows that do."""
    weight = None if job.row_weight is None else job.row_weight[rows]
    return np.bincount(rows, weights=weight, minlength=job.data.n_rows).astype(np.float64, copy=False)


def weigh_training(job: Job, tree: int) -> Floats:
    """Weight of each row where it grew the tree, 0 where it did not."""
    training = job.view.training
    if training is None:
        return np.zeros(job.data.n_rows)
    return training.list_splitting_rows(tree, job.data.target, job.data.weight).weight
