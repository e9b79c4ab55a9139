"""Standard errors, tests and selection from what each row contributes to the scores, without refitting.

A score is a sum of contributions of rows (see `row_terms`). For rows that a fixed model never saw, the contributions
are independent, and their spread is the standard error. Out of bag, a row has two roles: it scores some trees (phi) and
helped to grow the others (psi).

How large is a score? Its spread over data sets is that of phi + psi. Is it zero? Then every phi has mean zero, given
the other rows, and the spread is that of phi, but two rows also vary together: each scores trees that the other grew.
That part is the sum of phi psi.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Condition

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from truewood.ensemble import TreeEnsemble
from truewood.frames import Grouping, add_groups
from truewood.routing import RowLists, find_leaves, get_engine
from truewood.routing.numpy_engine import add_terms_upwards
from truewood.row_terms import BothTerms
from truewood.rows import Job

Floats = NDArray[np.float64]

# Rows whose contributions are measured. Of more rows a sample of this size tells the spread to one or two percent; with
# very many features it is smaller, to hold no more than so many contributions.
_MOST_ROWS = 20_000
_MOST_VALUES = 1 << 24
_FEWEST_SAMPLED = 2_000
# Fewer rows than this say too little about their spread.
_FEWEST_ROWS = 20


@dataclass(frozen=True, eq=False)
class Errors:
    """How far scores may be off.

    Parameters
    ----------
    test_error : ndarray of shape (n_features,)
        Spread of a score around zero if the feature says nothing.
    std_error : ndarray of shape (n_features,)
        Spread of a score around its expectation.
    total_error : float
        Spread of the sum of all scores around zero if no feature says anything.
    """

    test_error: Floats
    std_error: Floats
    total_error: float


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
    """

    def __init__(self, job: Job, n_features: int, *, keep_rows: bool) -> None:
        self._job, self.has_all_rows = job, keep_rows
        self._is_scoring = _find_scoring(job)
        self.rows = np.arange(job.matrix.n_rows) if keep_rows else _sample(self._is_scoring, n_features)
        self._matrix, self._target = job.matrix.pick(self.rows), job.target.pick(self.rows)
        shape = (len(self.rows), n_features)
        self.unseen = np.zeros(shape)
        self.training = np.zeros(shape) if job.choice.name == "oob" else None
        self._turn, self._is_broken, self._changed = 0, False, Condition()

    def add(self, turn: int, trees: range, ensemble: TreeEnsemble, unseen: RowLists, terms: BothTerms) -> None:
        """Add a batch of trees, with their unseen rows. Batches wait for their turn: sums do not depend on threads."""
        scoring = [_weigh_unseen(self._job, unseen.of_tree(k)) for k in range(len(trees))]
        listed = [(terms.unseen, self.unseen, self._list_rows(trees, scoring))]
        if self.training is not None:
            grown = [_weigh_training(self._job, tree) for tree in trees]
            listed.append((terms.training, self.training, self._list_rows(trees, grown)))
        with self._changed:
            self._changed.wait_for(lambda: self._turn == turn or self._is_broken)
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

    def _list_rows(self, trees: range, weights: list[Floats]) -> tuple[RowLists, Floats]:
        """The measured rows that have a role in each tree, and their weights in it, given those of all rows."""
        tree_weight = self._job.view.tree_weight
        weights = [weight[self.rows] for weight in weights]
        if tree_weight is not None:
            weights = [weight * tree_weight[tree] for weight, tree in zip(weights, trees, strict=True)]
        lists = [np.flatnonzero(weight != 0) for weight in weights]  # much faster than of the weights themselves
        own = [weight[listed] for weight, listed in zip(weights, lists, strict=True)]
        return RowLists.join(lists), np.concatenate(own)

    def measure(self, values: Floats, grouping: Grouping, total_weight: float) -> Errors | str:
        """How far scores may be off, or why that cannot be said.

        Parameters
        ----------
        values : ndarray of shape (n_groups,)
            The scores: the sums of contributions over all rows.
        grouping : Grouping
            Columns that are scored together.
        total_weight : float
            Number of trees that have unseen rows, or the sum of their weights; 1 for trees that add up.
        """
        n_rows = int(np.count_nonzero(self._is_scoring))
        if n_rows < _FEWEST_ROWS:
            return f"it takes at least {_FEWEST_ROWS} rows that score the model, got {n_rows}"
        chosen = self._is_scoring[self.rows]
        mean = values / n_rows
        phi = add_groups(self.unseen[chosen], grouping) / total_weight - mean
        psi = np.zeros_like(phi)
        if self.training is not None:
            psi = add_groups(self.training[chosen], grouping) / total_weight - mean
        scale = n_rows / len(phi)
        both = phi + psi
        return Errors(
            test_error=np.sqrt(scale * _test_variance(phi, psi)),
            std_error=np.sqrt(scale * _sum_products(both, both)),
            total_error=float(np.sqrt(scale * _test_variance(phi.sum(axis=1), psi.sum(axis=1)))),
        )


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


def _test_variance(phi: Floats, psi: Floats) -> Floats:
    """Variance around zero: of what rows say where they are unseen, and of pairs that score each other's trees."""
    return _sum_products(phi, phi) + np.maximum(_sum_products(phi, psi), 0.0)


def _sum_products(a: Floats, b: Floats) -> Floats:
    """Sum over rows; not a matrix product, whose order of additions depends on the machine."""
    summed: Floats = (a * b).sum(axis=0)
    return summed


def adjust(p_value: Floats, correction: str | None) -> Floats:
    """Adjust p-values for testing many features at once.

    Parameters
    ----------
    p_value : ndarray of shape (n_features,)
        P-values of single tests.
    correction : {"bh", "by", "holm"} or None
        Benjamini & Hochberg (false discovery rate), Benjamini & Yekutieli (the same under any dependence), Holm
        (probability of any false discovery), or none.
    """
    if correction is None:
        return p_value.copy()
    if correction in ("bh", "by"):
        adjusted: Floats = stats.false_discovery_control(p_value, method=correction)
        return adjusted
    if correction != "holm":
        raise ValueError(f"correction must be 'bh', 'by', 'holm' or None, got {correction!r}.")
    order = np.argsort(p_value, kind="stable")
    stepped = np.maximum.accumulate(p_value[order] * np.arange(len(p_value), 0, -1))
    holm = np.empty_like(p_value)
    holm[order] = np.minimum(stepped, 1.0)
    return holm


# Fewer scores that are not positive than this say little about their distribution.
_FEWEST_MIRRORED = 20


def mirror(values: Floats) -> Floats:
    """P-values from the scores alone (Janitza et al. 2018): the null distribution is that of the non-positive ones.

    Parameters
    ----------
    values : ndarray of shape (n_features,)
        Scores.
    """
    negative, zero = values[values < 0], values[values == 0]
    if len(negative) + len(zero) < _FEWEST_MIRRORED:
        raise ValueError(
            f"mirrored p-values need at least {_FEWEST_MIRRORED} features whose score is not positive, got "
            f"{len(negative) + len(zero)}; use p_value, or permutation_test."
        )
    null = np.sort(np.concatenate([negative, zero, -negative]))
    n_below = np.searchsorted(null, values, side="left")
    shares: Floats = 1.0 - n_below / len(null)
    return shares
