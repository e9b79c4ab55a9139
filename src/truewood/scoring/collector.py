"""Collects from batches of trees what single rows contribute to the scores."""

from __future__ import annotations

from threading import Condition

import numpy as np
from numpy.typing import NDArray

from truewood.engines.engine import get_engine
from truewood.engines.row_lists import RowLists
from truewood.engines.upwards import add_terms_upwards
from truewood.inference.contributions import BagEffect, Contributions
from truewood.scoring.job import Job
from truewood.trees.ensemble import TreeEnsemble
from truewood.trees.row_terms import BothTerms

Floats = NDArray[np.float64]

# Rows whose contributions are measured. Of more rows a sample of this size tells the spread to one or two percent; with
# very many features it is smaller, to hold no more than so many contributions.
_MOST_ROWS = 20_000
_MOST_VALUES = 1 << 24
_FEWEST_SAMPLED = 2_000
# Weights in bags that are kept, for the rows that are measured.
_MOST_WEIGHTS = 1 << 23


class Collector:
    """Collects what rows contribute to the scores: batches of trees add to it, in their order, from any thread.

    Parameters
    ----------
    job : Job
        Model and rows.
    n_features : int
        Number of columns that splits are on.
    keep_rows : bool
        Whether the contributions are kept; then all rows are measured, however many they are.
    """

    def __init__(self, job: Job, n_features: int, *, keep_rows: bool) -> None:
        self._job = job
        is_scoring = _find_scoring(job)
        self._rows = np.arange(job.data.n_rows) if keep_rows else _sample(is_scoring, n_features)
        self._n_scoring, self._is_scoring = int(np.count_nonzero(is_scoring)), is_scoring[self._rows]
        self._matrix, self._target = job.data.matrix.take_rows(self._rows), job.data.target.take(self._rows)
        shape = (len(self._rows), n_features)
        self._phi = np.zeros(shape)
        self._psi = np.zeros(shape) if job.is_oob else None
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
        n_kept = max(1, _MOST_WEIGHTS // max(1, len(self._rows))) - len(self._bag_weights)
        self._bag_weights.extend(weight.astype(np.float32) for weight in grown[: max(0, n_kept)])
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
        return Contributions(
            self._rows,
            self._phi,
            self._psi,
            self._is_scoring,
            self._n_scoring,
            None if self._psi is None else self._find_bag_effect(self._psi),
        )

    def _find_bag_effect(self, psi: Floats) -> BagEffect:
        """What the scores of the first trees owe to their bags."""
        n_trees, mean, variance = len(self._bag_weights), np.zeros(len(psi)), np.zeros(len(psi))
        for weight in self._bag_weights:
            mean += weight / n_trees
        for weight in self._bag_weights:
            variance += (weight - mean) ** 2 / n_trees  # exactly 0 for a single tree
        is_grown = mean > 0
        rate = np.divide(1.0, mean, out=np.zeros_like(mean), where=is_grown)
        r = float((variance * rate**2)[is_grown].mean())
        centred = np.ascontiguousarray((psi - psi.mean(axis=0)).T)
        L = np.empty((n_trees, len(centred)))
        for weight, out in zip(self._bag_weights, L, strict=True):
            np.einsum("ji,i->j", centred, weight * rate - is_grown, out=out)  # a matrix product depends on the machine
        return BagEffect(L, r)

    def _list_rows(self, trees: range, weights: list[Floats]) -> tuple[RowLists, Floats]:
        """The measured rows that have a role in each tree, and their weights in it, given all measured rows'."""
        tree_weight = self._job.view.tree_weight
        if tree_weight is not None:
            weights = [weight * tree_weight[tree] for weight, tree in zip(weights, trees, strict=True)]
        lists = [np.flatnonzero(weight != 0) for weight in weights]  # much faster than of the weights themselves
        own = [weight[listed] for weight, listed in zip(weights, lists, strict=True)]
        return RowLists.join(lists), np.concatenate(own)


def _find_scoring(job: Job) -> NDArray[np.bool_]:
    """Rows that score at least one tree, or may: of out-of-bag rows all that have weight."""
    n_rows, weight = job.data.n_rows, job.data.weight
    is_scoring = np.ones(n_rows, dtype=np.bool_) if weight is None else weight > 0
    if job.choice.name == "lists":
        is_listed = np.zeros(n_rows, dtype=np.bool_)
        for tree in range(job.view.n_trees):
            is_listed[job.choice.unseen(tree)] = True
        is_scoring = is_scoring & is_listed
    return is_scoring


def _sample(is_scoring: NDArray[np.bool_], n_features: int) -> NDArray[np.int64]:
    """The rows to measure: all, or the same sample each time."""
    rows = np.flatnonzero(is_scoring)
    n_measured = min(_MOST_ROWS, max(_FEWEST_SAMPLED, _MOST_VALUES // n_features))
    if len(rows) <= n_measured:
        return rows
    return np.sort(np.random.default_rng(0).choice(rows, n_measured, replace=False))


def _weigh_unseen(job: Job, rows: NDArray[np.int64]) -> Floats:
    """Weight of each row where it scores a tree, 0 where it does not, given the rows that do."""
    weight = None if job.data.weight is None else job.data.weight[rows]
    return np.bincount(rows, weights=weight, minlength=job.data.n_rows).astype(np.float64, copy=False)


def _weigh_training(job: Job, tree: int) -> Floats:
    """Weight of each row where it grew the tree, 0 where it did not."""
    training = job.view.training
    if training is None:
        return np.zeros(job.data.n_rows)
    return training.list_splitting_rows(tree, job.data.target, job.data.weight).weight
