"""What single rows contribute to the scores, collected from batches of trees.

A score is a sum of contributions of rows (see `row_terms`), once over the rows that scored the trees, and once over
those that grew them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from threading import Condition

import numpy as np
from numpy.typing import NDArray

from truewood.engines.engine import RowLists, find_leaves, get_engine
from truewood.engines.numpy_engine import add_terms_upwards
from truewood.formulas.row_terms import BothTerms
from truewood.rows.choice import Job
from truewood.trees.ensemble import TreeEnsemble

Floats = NDArray[np.float64]

# Rows whose contributions are measured. Of more rows a sample of this size tells the spread to one or two percent; with
# very many features it is smaller, to hold no more than so many contributions.
_MOST_ROWS = 20_000
_MOST_VALUES = 1 << 24
_FEWEST_SAMPLED = 2_000
# Weights in bags that are kept, for the rows that are measured.
_MOST_WEIGHTS = 1 << 23


@dataclass(frozen=True, eq=False)
class Response:
    """What the scores of trees owe to their bags, if rows change means at the nodes and nothing else.

    Parameters
    ----------
    by_tree : ndarray of shape (n_first, n_features)
        For the first trees, times the number of all trees: the sum over the measured rows of what they contribute where
        they grow trees, less its mean, times how much more weight they have in this tree than on average, as a share
        of that.
    bag_variance : float
        Variance of that share over trees, on average over rows: 1 for bootstrap samples of all rows.
    """

    by_tree: Floats
    bag_variance: float


class Contributions:
    """What rows contribute to the scores: batches of trees add to it, in their order, from any thread.

    Parameters
    ----------
    job : Job
        Model and rows.
    n_features : int
        Number of columns that splits are on.
    keep_rows : bool
        Whether to keep the contributions; then all rows are measured, however many they are.

    Attributes
    ----------
    has_all_rows : bool
        Whether all rows are measured because they are kept.
    rows : ndarray of int
        The measured rows.
    unseen : ndarray of shape (len(rows), n_features)
        What they add where they score trees, times the number of trees (the sum of the trees' weights).
    training : ndarray of shape (len(rows), n_features) or None
        What they add where they grew trees; out of bag only.
    n_scoring : int
        Number of rows that score trees, measured or not.
    is_scoring : ndarray of bool, shape (len(rows),)
        Which of the measured rows do.
    """

    def __init__(self, job: Job, n_features: int, *, keep_rows: bool) -> None:
        self._job, self.has_all_rows = job, keep_rows
        is_scoring = _find_scoring(job)
        self.rows = np.arange(job.matrix.n_rows) if keep_rows else _sample(is_scoring, n_features)
        self.n_scoring, self.is_scoring = int(np.count_nonzero(is_scoring)), is_scoring[self.rows]
        self._matrix, self._target = job.matrix.pick(self.rows), job.target.pick(self.rows)
        shape = (len(self.rows), n_features)
        self.unseen = np.zeros(shape)
        self.training = np.zeros(shape) if job.choice.name == "oob" else None
        self._grown: list[NDArray[np.float32]] = []
        self._turn, self._is_broken, self._changed = 0, False, Condition()

    def add(self, turn: int, trees: range, ensemble: TreeEnsemble, unseen: RowLists, terms: BothTerms) -> None:
        """Add a batch of trees, with their unseen rows. Batches wait for their turn: sums do not depend on threads."""
        scoring = [_weigh_unseen(self._job, unseen.of_tree(k))[self.rows] for k in range(len(trees))]
        listed = [(terms.unseen, self.unseen, self._list_rows(trees, scoring))]
        grown: list[Floats] = []
        if self.training is not None:
            grown = [_weigh_training(self._job, tree)[self.rows] for tree in trees]
            listed.append((terms.training, self.training, self._list_rows(trees, grown)))
        with self._changed:
            self._changed.wait_for(lambda: self._turn == turn or self._is_broken)
        n_kept = max(1, _MOST_WEIGHTS // max(1, len(self.rows))) - len(self._grown)
        self._grown.extend(weight.astype(np.float32) for weight in grown[: max(0, n_kept)])
        for role, out, (rows, weight) in listed:
            if self._job.view.find_leaves is None:
                get_engine().add_terms(ensemble, self._matrix, rows, weight, self._target, role, out)
            else:
                leaves = find_leaves(self._job.view, trees, ensemble, self._matrix, rows)
                add_terms_upwards(ensemble, leaves, rows, weight, self._target, role, out)
        with self._changed:
            self._turn += 1
            self._changed.notify_all()

    def give_up(self) -> None:
        """Let nobody wait for a batch that failed."""
        with self._changed:
            self._is_broken = True
            self._changed.notify_all()

    @cached_property
    def response(self) -> Response:
        """What the scores of the first trees owe to their bags."""
        n_trees, mean, variance = len(self._grown), np.zeros(len(self.rows)), np.zeros(len(self.rows))
        for weight in self._grown:
            mean += weight / n_trees
        for weight in self._grown:
            variance += (weight - mean) ** 2 / n_trees  # exactly 0 for a single tree
        is_grown = mean > 0
        rate = np.divide(1.0, mean, out=np.zeros_like(mean), where=is_grown)
        bag_variance = float((variance * rate**2)[is_grown].mean())
        psi = np.zeros_like(self.unseen) if self.training is None else self.training
        centred = np.ascontiguousarray((psi - psi.mean(axis=0)).T)
        by_tree = np.empty((n_trees, len(centred)))
        for weight, out in zip(self._grown, by_tree, strict=True):
            np.einsum("ji,i->j", centred, weight * rate - is_grown, out=out)  # a matrix product depends on the machine
        return Response(by_tree, bag_variance)

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
    is_scoring = np.ones(job.matrix.n_rows, dtype=np.bool_) if job.row_weight is None else job.row_weight > 0
    if job.choice.name == "lists":
        is_listed = np.zeros(job.matrix.n_rows, dtype=np.bool_)
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
    weight = None if job.row_weight is None else job.row_weight[rows]
    return np.bincount(rows, weights=weight, minlength=job.matrix.n_rows).astype(np.float64, copy=False)


def _weigh_training(job: Job, tree: int) -> Floats:
    """Weight of each row where it grew the tree, 0 where it did not."""
    training = job.view.training
    if training is None:
        return np.zeros(job.matrix.n_rows)
    recall = training.recall_growth or training.recall
    return recall(tree, job.target, job.row_weight).weight
