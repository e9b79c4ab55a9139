"""Scores by projecting columns out of trees: what the forest loses when its trees cannot ask for a group of columns.

A score is that of the forest: a row's loss with all trees that never saw it, and the same without the group. So there
are no scores by tree, and a group's score is not the sum of those of its columns.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from truewood.data.groups import Grouping, add_groups
from truewood.data.target import ClassTarget
from truewood.engines.engine import get_engine
from truewood.engines.row_lists import RowLists
from truewood.formulas.mdi import MDI
from truewood.formulas.measure import ForestLoss, Measure
from truewood.inference.errors import find_problem
from truewood.inference.losses import LossScores, score_losses
from truewood.result.importance_result import ImportanceResult
from truewood.rows.bag_weights import match_classes
from truewood.scoring.averaging import average_biased, weigh_trees
from truewood.scoring.collector import weigh_training
from truewood.scoring.job import Job
from truewood.scoring.node_means import read_with_means
from truewood.scoring.scores import Scores, split_trees
from truewood.scoring.sums import score_sums
from truewood.trees.ensemble import TreeEnsemble
from truewood.words import quote

Floats = NDArray[np.float64]

# What one step holds at a time; a single tree, or a single group, may be larger.
_BATCH_NODES = 1 << 18
_BATCH_VALUES = 1 << 22
_MOST_VALUES = 1 << 25


def score_projected(
    job: Job,
    measure: Measure,
    groupings: list[Grouping],
    inference: bool | str,
    no_inference: str | None,
    n_threads: int,
) -> list[ImportanceResult]:
    """Results of each grouping, by a measure that has a `forest_loss`."""
    if measure.forest_loss is None:
        raise ValueError(f"measure {measure.name!r} has no formula of the forest's predictions.")
    _check_job(job, measure, inference)
    forest = _predict(job, n_threads)
    problem = no_inference or find_problem(int(np.count_nonzero(forest.row_weight)))
    results = []
    for grouping in groupings:
        found = _score_groups(job, forest, measure.forest_loss, grouping, n_threads, with_rows=inference == "rows")
        result = ImportanceResult(
            values=found.values,
            share=found.values,
            per_tree=np.full((job.view.n_trees, len(found.values)), np.nan),
            per_output=found.per_output,
            mdi=average_biased(add_groups(forest.mdi, grouping), job.view),
            impurity=float(np.average(forest.deviation, axis=0, weights=forest.row_weight).mean()),
            feature_names=grouping.names,
            measure=measure.name,
            task=job.view.target.kind.task,
            rows=job.choice.name,
            n_rows=job.data.n_rows,
            skipped_weight=0.0,
            contributions=found.phi,
            no_inference=problem,
        )
        if problem is None:
            result = replace(result, std_error=found.error, test_error=found.error)
        results.append(result)
    return results


def _check_job(job: Job, measure: Measure, inference: bool | str) -> None:
    """Refuse models whose trees cannot be walked without a column, or whose training rows are not at hand."""
    view, needs = job.view, f"measure={measure.name!r} needs"
    if view.finds_leaves or not view.target.is_y:
        raise ValueError(f"{needs} trees of y whose splits are known, and those of {view.name} are not.")
    if not job.choice.are_training or view.training is None:
        raise ValueError(
            f"{needs} the rows that grew the trees, which give their means without a column: pass X and y of the fit "
            f"and rows='oob', got other rows with rows={quote(job.choice.name)}."
        )
    if not view.training.has_weights:
        raise ValueError(f"{needs} the weights that rows had in the fit, and {view.name} does not tell them.")
    if job.row_groups is not None:
        raise ValueError(
            f"row_groups needs a measure of splits, got {measure.name!r}, whose rows are taken one by one."
        )
    if inference == "bags":
        raise ValueError(f"inference='bags' needs scores by tree, and {measure.name!r} has none; use inference=True.")


@dataclass(frozen=True, eq=False)
class _Batch:
    """Some trees, the rows that grew them, the rows that score them, and what they say of the latter."""

    ensemble: TreeEnsemble
    tree_weight: Floats
    grown: RowLists
    grown_weight: Floats
    unseen: RowLists
    leaves: NDArray[np.int32]
    own: Floats


def _read_batches(job: Job, n_threads: int) -> Iterator[_Batch]:
    """All trees, a run of them after the other."""
    view, data = job.view, job.data
    tree_weight = weigh_trees(view)
    most_trees = max(1, _BATCH_VALUES // (data.n_rows * view.target.kind.n_columns))
    for trees in split_trees(view.n_nodes, most_nodes=_BATCH_NODES, most_trees=most_trees):
        ensemble = read_with_means(job, trees)
        weights = [weigh_training(job, tree) for tree in trees]
        grown = [np.flatnonzero(weight) for weight in weights]
        unseen = RowLists.join([np.unique(job.choice.unseen(tree)) for tree in trees])  # lists may repeat rows
        leaves = view.find_leaves(trees, ensemble, data.matrix, unseen, n_threads)
        yield _Batch(
            ensemble=ensemble,
            tree_weight=np.ascontiguousarray(tree_weight[trees.start : trees.stop]),
            grown=RowLists.join(grown),
            grown_weight=np.concatenate([weight[rows] for weight, rows in zip(weights, grown, strict=True)]),
            unseen=unseen,
            leaves=leaves,
            own=ensemble.value[leaves] - data.target.origin,
        )


@dataclass(frozen=True, eq=False)
class _Forest:
    """What the trees that never saw a row say of it together.

    Parameters
    ----------
    n_trees : ndarray of shape (n_rows,)
        Number of these trees, by their weights; 1 for rows that every tree saw.
    residual : ndarray of shape (n_rows, n_columns)
        y less the trees' mean.
    deviation : ndarray of shape (n_rows, n_outputs)
        Squared distance of y to its mean.
    row_weight : ndarray of shape (n_rows,)
        How much each row counts, 0 for rows that every tree saw.
    mdi : ndarray of shape (n_trees, n_features, n_outputs)
        The biased score.
    """

    n_trees: Floats
    residual: Floats
    deviation: Floats
    row_weight: Floats
    mdi: Floats


def _predict(job: Job, n_threads: int) -> _Forest:
    """Average what trees say of the rows they never saw."""
    data, kind = job.data, job.view.target.kind
    n_trees, total, parts = np.zeros(data.n_rows), np.zeros((data.n_rows, kind.n_columns)), []
    in_bags, square = np.zeros(data.n_rows), 0.0
    for batch in _read_batches(job, n_threads):
        rows, weight = batch.unseen.index, np.repeat(batch.tree_weight, np.diff(batch.unseen.offset))
        n_trees += np.bincount(rows, weights=weight, minlength=data.n_rows)
        for c in range(kind.n_columns):
            total[:, c] += np.bincount(rows, weights=weight * batch.own[:, c], minlength=data.n_rows)
        in_bags += np.bincount(batch.grown.index, weights=batch.grown_weight, minlength=data.n_rows)
        square += float((batch.grown_weight**2).sum())
        sums = get_engine().sum_leaves(batch.ensemble, batch.leaves, batch.unseen, data.target, data.weight)
        parts.append(score_sums(job.view, MDI, batch.ensemble, sums, data.target.find_largest(kind.n_columns)))
    row_weight = _weigh_rows(n_trees > 0, data.weight)
    if isinstance(data.target, ClassTarget):
        row_weight = match_classes(data.target, row_weight, in_bags, square)
        if not row_weight.any():
            raise ValueError(
                "measure='sobol_mda' needs out-of-bag rows of classes that the trees were trained on, got only rows of "
                "classes without weight in any bag; fit with bags that contain, and leave out, rows of every class."
            )
    y, n_trees = data.target.vectors, np.where(n_trees > 0, n_trees, 1.0)
    deviation = kind.sum_columns((y - np.average(y, axis=0, weights=row_weight)) ** 2)
    if not (np.average(deviation, axis=0, weights=row_weight) > 0).all():
        raise ValueError("measure='sobol_mda' needs a y that varies, got the same in all rows that score.")
    return _Forest(n_trees, y - total / n_trees[:, np.newaxis], deviation, row_weight, Scores.join(parts).mdi)


def _weigh_rows(is_unseen: NDArray[np.bool_], weight: Floats | None) -> Floats:
    """How much rows count: those that every tree saw do not."""
    weight = np.ones(len(is_unseen)) if weight is None else weight
    n_lost = int(np.count_nonzero(~is_unseen & (weight > 0)))
    row_weight = np.where(is_unseen, weight, 0.0)
    if not row_weight.any():
        raise ValueError("no tree has a row it never saw; fit with bootstrap=True and more trees.")
    if n_lost:
        warnings.warn(
            f"{n_lost} of {len(is_unseen)} rows do not score, as every tree saw them; with more trees, some did not.",
            UserWarning,
            stacklevel=6,
        )
    return row_weight


def _score_groups(
    job: Job, forest: _Forest, forest_loss: ForestLoss, grouping: Grouping, n_threads: int, *, with_rows: bool
) -> LossScores:
    """Score the groups, as many at a time as memory holds."""
    kind, n_rows, n_groups = job.view.target.kind, job.data.n_rows, len(grouping.names)
    n_at_once = max(1, _MOST_VALUES // (n_rows * kind.n_columns))
    parts = []
    for first in range(0, n_groups, n_at_once):
        n_here = min(n_at_once, n_groups - first)
        group_of = grouping.group_of - np.int32(first)
        group_of = np.where(group_of < n_here, group_of, np.int32(-1))
        lost = np.zeros((n_rows, n_here, kind.n_columns))
        for batch in _read_batches(job, n_threads):
            get_engine().project_out(
                batch.ensemble,
                job.data.matrix,
                batch.grown,
                batch.grown_weight,
                batch.unseen,
                batch.own,
                batch.tree_weight,
                job.data.target,
                group_of,
                lost,
                n_threads,
            )
        lost /= forest.n_trees[:, np.newaxis, np.newaxis]
        increase = forest_loss(kind, forest.residual, lost)
        parts.append(score_losses(increase, forest.deviation, forest.row_weight, with_rows=with_rows))
    return LossScores.join(parts)
