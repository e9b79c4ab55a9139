"""Sobol-MDA: the increase in the loss of the forest when columns of a feature group are projected out of its trees.

A score compares a row's loss over all trees that it is out of bag for, with and without the group. Therefore there are
no scores by tree, and the score of a group is not the sum over its columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from truewood._engines.records import RowLists
from truewood._engines.selection import get_engine
from truewood._exceptions import warn
from truewood._formatting import quote
from truewood._inference.loss_scores import LossScores, score_losses
from truewood._inference.standard_errors import find_row_shortage
from truewood._inputs.groups import Grouping, sum_feature_groups
from truewood._inputs.target import ClassTarget
from truewood._measures.registry import MDI, ForestLoss, Measure
from truewood._results.importance_result import ImportanceResult
from truewood._rows.bag_weights import match_classes
from truewood._scoring.inputs import ScoringInputs, weigh_in_bag
from truewood._scoring.node_means import read_with_means
from truewood._scoring.results import average_mdi, weigh_trees
from truewood._scoring.scores_by_tree import ScoresByTree, score_sums
from truewood._trees.ensemble import TreeEnsemble

Floats = NDArray[np.float64]

# Size of one step; a single tree, or a single group, may be larger.
_BATCH_NODES = 1 << 18
_BATCH_VALUES = 1 << 22
_MOST_VALUES = 1 << 25


def score_projected(
    inputs: ScoringInputs,
    measure: Measure,
    groupings: list[Grouping],
    inference: bool | str,
    inference_unavailable: str | None,
    contributions: bool,
    n_threads: int,
) -> list[ImportanceResult]:
    """Results of each grouping, for a measure with a `forest_loss`."""
    if measure.forest_loss is None:
        raise ValueError(f"measure {measure.name!r} has no formula for the forest's predictions.")
    if isinstance(inference, str):
        raise ValueError(
            f"inference={quote(inference)} needs scores by tree, which {measure.name!r} lacks; use inference=True."
        )
    forest = _predict(inputs, n_threads)
    problem = inference_unavailable or find_row_shortage(int(np.count_nonzero(forest.row_weight)))
    results = []
    for grouping in groupings:
        found = _score_groups(inputs, forest, measure.forest_loss, grouping, n_threads, with_rows=contributions)
        result = ImportanceResult(
            values=found.values,
            share=found.values,
            per_tree=np.full((inputs.tree_model.n_trees, len(found.values)), np.nan),
            per_output=found.per_output,
            mdi=average_mdi(sum_feature_groups(forest.mdi, grouping), inputs.tree_model),
            impurity=float(np.average(forest.deviation, axis=0, weights=forest.row_weight).mean()),
            feature_names=grouping.names,
            measure=measure.name,
            task=inputs.tree_model.target.kind.task,
            rows=inputs.evaluation_rows.name,
            n_rows=inputs.data.n_rows,
            skipped_weight=0.0,
            contributions=found.contributions,
            inference_unavailable=problem,
        )
        if problem is None:
            result = replace(result, std_error=found.error, null_std_error=found.error)
        results.append(result)
    return results


@dataclass(frozen=True, eq=False)
class _Batch:
    """Some trees with their in-bag rows, their evaluation rows, and predictions for the latter."""

    ensemble: TreeEnsemble
    tree_weight: Floats
    in_bag: RowLists
    in_bag_weight: Floats
    evaluation: RowLists
    leaves: NDArray[np.int32]
    prediction: Floats


def _read_batches(inputs: ScoringInputs, n_threads: int) -> Iterator[_Batch]:
    """Read all trees, one batch at a time."""
    tree_model, data = inputs.tree_model, inputs.data
    tree_weight = weigh_trees(tree_model)
    most_trees = max(1, _BATCH_VALUES // (data.n_rows * tree_model.target.kind.n_columns))
    for trees in tree_model.split_trees(most_nodes=_BATCH_NODES, most_trees=most_trees):
        ensemble = read_with_means(inputs, trees)
        weights = [weigh_in_bag(inputs, tree) for tree in trees]
        in_bag = [np.flatnonzero(weight) for weight in weights]
        # Lists may repeat rows.
        evaluation = RowLists.join([np.unique(inputs.evaluation_rows.of_tree(tree)) for tree in trees])
        leaves = tree_model.find_leaves(trees, ensemble, data.matrix, evaluation, n_threads)
        yield _Batch(
            ensemble=ensemble,
            tree_weight=np.ascontiguousarray(tree_weight[trees.start : trees.stop]),
            in_bag=RowLists.join(in_bag),
            in_bag_weight=np.concatenate([weight[rows] for weight, rows in zip(weights, in_bag, strict=True)]),
            evaluation=evaluation,
            leaves=leaves,
            prediction=ensemble.value[leaves] - data.target.origin,
        )


@dataclass(frozen=True, eq=False)
class _Forest:
    """The forest's out-of-bag predictions.

    Parameters
    ----------
    n_trees : ndarray of shape (n_rows,)
        Weight of the trees that a row is out of bag for; 1 for rows that are in every bag.
    residual : ndarray of shape (n_rows, n_columns)
        y minus the mean prediction of these trees.
    deviation : ndarray of shape (n_rows, n_outputs)
        Squared distance of y from its mean.
    row_weight : ndarray of shape (n_rows,)
        Weight of each row, 0 for rows that are in every bag.
    mdi : ndarray of shape (n_trees, n_features, n_outputs)
        Biased scores.
    """

    n_trees: Floats
    residual: Floats
    deviation: Floats
    row_weight: Floats
    mdi: Floats


def _predict(inputs: ScoringInputs, n_threads: int) -> _Forest:
    """Average the out-of-bag predictions of the trees."""
    data, kind = inputs.data, inputs.tree_model.target.kind
    n_trees, total, parts = np.zeros(data.n_rows), np.zeros((data.n_rows, kind.n_columns)), []
    in_bags, square = np.zeros(data.n_rows), 0.0
    for batch in _read_batches(inputs, n_threads):
        rows, weight = batch.evaluation.index, np.repeat(batch.tree_weight, np.diff(batch.evaluation.offset))
        n_trees += np.bincount(rows, weights=weight, minlength=data.n_rows)
        for c in range(kind.n_columns):
            total[:, c] += np.bincount(rows, weights=weight * batch.prediction[:, c], minlength=data.n_rows)
        in_bags += np.bincount(batch.in_bag.index, weights=batch.in_bag_weight, minlength=data.n_rows)
        square += float((batch.in_bag_weight**2).sum())
        sums = get_engine().sum_leaves(batch.ensemble, batch.leaves, batch.evaluation, data.target, data.weight)
        parts.append(score_sums(inputs.tree_model, MDI, batch.ensemble, sums, data.target.find_largest(kind.n_columns)))
    row_weight = _weigh_rows(n_trees > 0, data.weight)
    if isinstance(data.target, ClassTarget):
        row_weight = match_classes(data.target, row_weight, in_bags, square)
        if not row_weight.any():
            raise ValueError(
                "measure='sobol_mda' needs out-of-bag rows of classes that the trees were trained on, but every "
                "out-of-bag row is of a class that no bootstrap sample contains; fit with bootstrap samples that "
                "contain some, but not all, rows of every class."
            )
    y, n_trees = data.target.vectors, np.where(n_trees > 0, n_trees, 1.0)
    deviation = kind.sum_columns((y - np.average(y, axis=0, weights=row_weight)) ** 2)
    if not (np.average(deviation, axis=0, weights=row_weight) > 0).all():
        raise ValueError("measure='sobol_mda' needs a y that varies, got the same value in all evaluation rows.")
    return _Forest(n_trees, y - total / n_trees[:, np.newaxis], deviation, row_weight, ScoresByTree.join(parts).mdi)


def _weigh_rows(is_oob: NDArray[np.bool_], weight: Floats | None) -> Floats:
    """Weights of rows, 0 for rows that are in every bag."""
    weight = np.ones(len(is_oob)) if weight is None else weight
    n_lost = int(np.count_nonzero(~is_oob & (weight > 0)))
    row_weight = np.where(is_oob, weight, 0.0)
    if not row_weight.any():
        raise ValueError("no tree has out-of-bag rows; fit with bootstrap=True and more trees.")
    if n_lost:
        them = "it" if n_lost == 1 else "them"
        warn(
            f"left out {n_lost} of {len(is_oob)} rows because every tree was trained on {them} or on copies of {them}; "
            f"fit more trees to evaluate {them}."
        )
    return row_weight


def _score_groups(
    inputs: ScoringInputs,
    forest: _Forest,
    forest_loss: ForestLoss,
    grouping: Grouping,
    n_threads: int,
    *,
    with_rows: bool,
) -> LossScores:
    """Score the groups, as many at a time as fit into memory."""
    kind, n_rows, n_groups = inputs.tree_model.target.kind, inputs.data.n_rows, len(grouping.names)
    n_at_once = max(1, _MOST_VALUES // (n_rows * kind.n_columns))
    parts = []
    for first in range(0, n_groups, n_at_once):
        n_here = min(n_at_once, n_groups - first)
        group_of = grouping.group_of - np.int32(first)
        group_of = np.where(group_of < n_here, group_of, np.int32(-1))
        lost = np.zeros((n_rows, n_here, kind.n_columns))
        for batch in _read_batches(inputs, n_threads):
            get_engine().add_sobol_projection(
                batch.ensemble,
                inputs.data.matrix,
                inputs.data.target,
                in_bag=batch.in_bag,
                in_bag_weight=batch.in_bag_weight,
                evaluation=batch.evaluation,
                prediction=batch.prediction,
                tree_weight=batch.tree_weight,
                group_of=group_of,
                out=lost,
                n_threads=n_threads,
            )
        lost /= forest.n_trees[:, np.newaxis, np.newaxis]
        increase = forest_loss(kind, forest.residual, lost)
        parts.append(score_losses(increase, forest.deviation, forest.row_weight, with_rows=with_rows))
    return LossScores.join(parts)
