"""Collects from batches of trees what single rows contribute to the scores."""

from __future__ import annotations

from threading import Condition

import numpy as np
from numpy.typing import NDArray

from truewood.engines.engine import get_engine
from truewood.engines.row_lists import RowLists
from truewood.engines.upwards import add_terms_upwards
from truewood.inference.contributions import Contributions
from truewood.scoring.job import Job
from truewood.trees.ensemble import TreeEnsemble
from truewood.trees.row_terms import BothTerms

Floats = NDArray[np.float64]

# Contributions that are held at a time, and weights in bags that are kept.
_MOST_VALUES = 1 << 25
_MOST_WEIGHTS = 1 << 25


def split_rows(job: Job, n_features: int, *, with_bags: bool) -> list[NDArray[np.int64]]:
    """Blocks of rows whose contributions are collected one after the other, so that they fit into memory.

    With bags, the weights of all rows of a block in all bags have to fit, too.
    """
    n_rows, n_bags = job.data.n_rows, job.view.n_trees if with_bags else 0
    n_blocks = max(1, -(-n_rows * n_features // _MOST_VALUES), -(-n_rows * n_bags // _MOST_WEIGHTS))
    return np.array_split(np.arange(n_rows), min(n_blocks, n_rows))


def count_bags(job: Job, *, with_bags: bool) -> int:
    """Number of trees, the first ones, whose bags are kept: as many as fit, or all."""
    return job.view.n_trees if with_bags else max(1, _MOST_WEIGHTS // job.data.n_rows)


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
    """

    def __init__(self, job: Job, rows: NDArray[np.int64], n_features: int, n_first: int) -> None:
        self._job, self._rows, self._n_first, self.n_features = job, rows, n_first, n_features
        is_scoring = _find_scoring(job)
        self.n_scoring, self._is_scoring = int(np.count_nonzero(is_scoring)), is_scoring[rows]
        self._matrix, self._target = job.data.matrix, job.data.target
        if len(rows) < job.data.n_rows:
            self._matrix, self._target = self._matrix.take_rows(rows), self._target.take(rows)
        self._phi = np.zeros((len(rows), n_features))
        self._psi = np.zeros_like(self._phi) if job.choice.are_training else None
        self._bag_weights: list[NDArray[np.float32]] = []
        self._turn, self._is_broken, self._changed = 0, False, Condition()

    def add(self, turn: int, trees: range, ensemble: TreeEnsemble, unseen: RowLists, terms: BothTerms) -> None:
        """Add a batch of trees, with their unseen rows. Batches wait for their turn: sums do not depend on threads."""
        scoring = [_weigh_unseen(self._job, unseen.of_tree(k))[self._rows] for k in range(len(trees))]
        listed = [(terms.unseen, self._phi, self._list_rows(trees, scoring))]
        grown: list[Floats] = []
        if self._psi is not None:
            grown = [_weigh_training(self._job, tree)[self._rows] for tree in trees]
            listed.append((terms.training, self._psi, self._list_rows(trees, grown)))
        with self._changed:
            self._changed.wait_for(lambda: self._turn == turn or self._is_broken)
        n_kept = max(0, self._n_first - len(self._bag_weights))
        self._bag_weights.extend(weight.astype(np.float32) for weight in grown[:n_kept])
        for role, out, (rows, weight) in listed:
            if self._job.view.finds_leaves:
                leaves = self._job.view.find_leaves(trees, ensemble, self._matrix, rows)
                add_terms_upwards(ensemble, leaves, rows, weight, self._target, role, out)
            else:
                get_engine().add_terms(ensemble, self._matrix, rows, weight, self._target, role, out)
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
        return Contributions(self._phi, self._psi, self._is_scoring, self.n_scoring, self._bag_weights)

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


def _weigh_unseen(job: Job, rows: NDArray[np.int64]) -> Floats:
    """Weight of each row where it scores a tree, 0 where it does not, given the rows that do."""
    weight = None if job.row_weight is None else job.row_weight[rows]
    return np.bincount(rows, weights=weight, minlength=job.data.n_rows).astype(np.float64, copy=False)


def _weigh_training(job: Job, tree: int) -> Floats:
    """Weight of each row where it grew the tree, 0 where it did not."""
    training = job.view.training
    if training is None:
        return np.zeros(job.data.n_rows)
    return training.list_splitting_rows(tree, job.data.target, job.data.weight).weight
