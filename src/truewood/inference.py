"""Standard errors, tests and selection from what each row contributes to the scores, without refitting.

A score is a sum of contributions of rows (see `row_terms`). For rows that a fixed model never saw, the contributions
are independent, and their spread is the standard error. Out of bag, a row has two roles: it scores some trees (phi) and
helped to grow the others (psi). Whether a score is zero is tested by phi alone, which is right where the feature says
nothing; how large it is also depends on psi.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import stats

from truewood.adapters import ModelView
from truewood.frames import FeatureMatrix
from truewood.routing import RowLists, find_leaves, get_engine
from truewood.routing.numpy_engine import add_terms_upwards
from truewood.row_terms import BothTerms
from truewood.rows import RowChoice
from truewood.target import Target

Floats = NDArray[np.float64]

# Contributions that one block of rows holds at a time.
_BLOCK_VALUES = 1 << 22
# Rows whose contributions are measured; of more rows a sample of this size tells their spread to one or two percent.
_MOST_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class Job:
    """What every batch of trees reads: the model, the rows with target and weight, and which rows score which tree."""

    view: ModelView
    matrix: FeatureMatrix
    target: Target
    row_weight: Floats | None
    choice: RowChoice


@dataclass(frozen=True, eq=False)
class Grouping:
    """How scores of columns are put together.

    Parameters
    ----------
    names : ndarray of str, shape (n_groups,)
        Names of the groups.
    group_of : ndarray of int32, shape (n_columns,)
        Group of each column.
    """

    names: NDArray[np.str_]
    group_of: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Errors:
    """How far scores may be off.

    Parameters
    ----------
    test_error : ndarray of shape (n_features,)
        Spread of a score around zero if the feature says nothing.
    std_error : ndarray of shape (n_features,)
        Spread of a score around its expectation.
    contributions : ndarray of shape (n_rows, n_features) or None
        What each row adds to the scores when it is unseen.
    """

    test_error: Floats
    std_error: Floats
    contributions: Floats | None


def measure_errors(
    job: Job,
    batches: Sequence[range],
    terms: Sequence[BothTerms],
    tree_share: Floats,
    grouping: Grouping,
    values: Floats,
    *,
    keep_rows: bool,
    n_jobs: int | None,
) -> Errors:
    """Measure the spread of the rows' contributions, block of rows by block of rows.

    Parameters
    ----------
    job : Job
        Model and rows.
    batches : sequence of range
        Runs of trees.
    terms : sequence of BothTerms
        What rows add in the trees of each run.
    tree_share : ndarray of shape (n_trees,)
        What each tree counts for in the score.
    grouping : Grouping
        Columns that are scored together.
    values : ndarray of shape (n_groups,)
        The scores: the sums of contributions over rows.
    keep_rows : bool
        Whether to keep the contributions; then all rows are measured, however many they are.
    n_jobs : int or None
        Number of threads.
    """
    n_rows = job.matrix.n_rows
    measured = np.arange(n_rows)
    if n_rows > _MOST_ROWS and not keep_rows:
        measured = np.sort(np.random.default_rng(0).choice(n_rows, _MOST_ROWS, replace=False))
    n_blocks = min(-(-len(measured) * len(values) // _BLOCK_VALUES), len(measured))
    mean = values / n_rows

    def measure(block: NDArray[np.int64]) -> tuple[Floats, Floats, Floats | None]:
        unseen, training = contribute(job, batches, terms, tree_share, grouping, block)
        both = unseen - mean if training is None else unseen + training - 2.0 * mean
        return _sum_squares(unseen - mean), _sum_squares(both), unseen if keep_rows else None

    parts = Parallel(n_jobs=n_jobs, require="sharedmem")(
        delayed(measure)(block) for block in np.array_split(measured, n_blocks)
    )
    tested, spread, kept = zip(*parts, strict=True)
    scale = n_rows / len(measured)
    return Errors(
        np.sqrt(scale * sum(tested)), np.sqrt(scale * sum(spread)), np.concatenate(kept) if keep_rows else None
    )


def contribute(
    job: Job,
    batches: Sequence[range],
    terms: Sequence[BothTerms],
    tree_share: Floats,
    grouping: Grouping,
    block: NDArray[np.int64],
) -> tuple[Floats, Floats | None]:
    """What some rows add to each score, (n, n_groups): where they are unseen, and out of bag where they are not."""
    matrix, target = job.matrix.pick(block), job.target.pick(block)
    shape = (len(block), len(grouping.names))
    unseen, training = np.zeros(shape), np.zeros(shape) if job.choice.name == "oob" else None
    for trees, both in zip(batches, terms, strict=True):
        ensemble = job.view.read(trees)
        roles = [(both.unseen, _weigh_unseen, unseen)]
        roles += [] if training is None else [(both.training, _weigh_training, training)]
        for role, weigh, out in roles:
            weights = [weigh(job, tree)[block] * tree_share[tree] for tree in trees]
            lists = [np.flatnonzero(weight != 0) for weight in weights]  # much faster than of the weights themselves
            rows = RowLists.join(lists)
            weight = np.concatenate([own[listed] for own, listed in zip(weights, lists, strict=True)])
            if job.view.find_leaves is None:
                get_engine().add_terms(ensemble, matrix, rows, weight, target, role, grouping.group_of, out)
            else:
                leaves = find_leaves(job.view, trees, ensemble, matrix, rows)
                add_terms_upwards(ensemble, leaves, rows, weight, target, role, grouping.group_of, out)
    return unseen, training


def _weigh_unseen(job: Job, tree: int) -> Floats:
    """Weight of each row where it scores the tree, 0 where it does not."""
    rows = job.choice.unseen(tree)
    weight = None if job.row_weight is None else job.row_weight[rows]
    return np.bincount(rows, weights=weight, minlength=job.matrix.n_rows).astype(np.float64, copy=False)


def _weigh_training(job: Job, tree: int) -> Floats:
    """Weight of each row where it grew the tree, 0 where it did not."""
    training = job.view.training
    if training is None:
        return np.zeros(job.matrix.n_rows)
    recall = training.recall_growth or training.recall
    return recall(tree, job.target, job.row_weight).weight


def _sum_squares(contributions: Floats) -> Floats:
    """Sum of squares over rows; not a matrix product, whose order of additions depends on the machine."""
    squares: Floats = (contributions * contributions).sum(axis=0)
    return squares


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
