"""From the scores of trees and the contributions of rows to `ImportanceResult`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._exceptions import warn
from truewood._inference.moments import GroupingScores, Moments, find_mismatch, find_unresolved
from truewood._inference.standard_errors import measure_errors
from truewood._inputs.groups import Grouping, read_feature_groups, sum_feature_groups
from truewood._measures.registry import Measure
from truewood._pipelines.encoding import Encoding, group_columns
from truewood._results.importance_result import ImportanceResult
from truewood._scoring.scores_by_tree import ScoresByTree
from truewood.adapters import TreeModel

Floats = NDArray[np.float64]

_BUG = "these numbers cannot be trusted; please report this as a bug, with the class of the model."


@dataclass(frozen=True, eq=False)
class Metadata:
    """Facts about the model and the evaluation rows that results record.

    Parameters
    ----------
    tree_model : TreeModel
        The model.
    rows : {"oob", "heldout", "lists"}
        Which rows evaluate trees.
    n_rows : int
        Number of rows passed.
    target_variance : float
        For additive trees, the variance of the target, summed over raw scores; not read for others.
    has_own_target : bool
        Whether the caller passed the target of the trees.
    compares_hazards : bool
        Whether splits are scored by the hazards of their nodes.
    n_groups : int or None
        Number of groups of rows; None if rows are not grouped.
    """

    tree_model: TreeModel
    rows: str
    n_rows: int
    target_variance: float
    has_own_target: bool = False
    compares_hazards: bool = False
    n_groups: int | None = None


def find_groupings(
    feature_groups: Any, columns: NDArray[np.str_], encoding: Encoding | None, tree_model: TreeModel
) -> tuple[list[Grouping], tuple[str, ...]]:
    """The feature groups, then single columns if these differ from the groups; and notes about them.

    Parameters
    ----------
    feature_groups : None, dict or sequence
        The argument of `importance`.
    columns : ndarray of str, shape (n_columns,)
        Names of the model's input columns.
    encoding : Encoding or None
        How preprocessing made these columns; None if they are the caller's.
    tree_model : TreeModel
        The model, which may combine columns into features of its own.
    """
    if encoding is not None:
        columns = np.asarray(encoding.columns.names, dtype=np.str_)
    names = np.concatenate([columns, np.asarray(tree_model.combined, dtype=np.str_)])
    if encoding is None:
        grouping, notes = read_feature_groups(feature_groups, names), tuple[str, ...]()
    else:
        grouping, notes = group_columns(encoding, tree_model.combined, feature_groups)
    is_plain = feature_groups is None and encoding is None
    return [grouping] if is_plain else [grouping, read_feature_groups(None, names)], notes


def make_results(
    metadata: Metadata, measure: Measure, scores: ScoresByTree, groupings: Sequence[Grouping]
) -> list[ImportanceResult]:
    """Results for each grouping, without errors: sums within groups, means over trees and outputs."""
    tree_model, is_kept = metadata.tree_model, ~scores.is_left_out
    if not is_kept.any():
        raise ValueError("no tree has evaluation rows; pass rows='heldout' and rows that the model never saw.")
    if not is_kept.all():
        warn(f"left out {np.count_nonzero(~is_kept)} of {len(is_kept)} trees for lack of evaluation rows.")
    target, tree_weight = tree_model.target, tree_model.tree_weight
    if metadata.compares_hazards or not tree_model.is_additive:
        impurity = float(np.average(scores.impurity[is_kept], weights=weigh_trees(tree_model)[is_kept]))
    else:
        impurity = metadata.target_variance
    if tree_model.is_additive:
        has_share = not metadata.has_own_target and target.loss is not None and target.loss.in_target_units
    else:
        has_share = target.kind.task in measure.tasks_with_share
    scale = measure.find_scale(target.kind) * impurity if has_share and impurity > 0 else np.nan
    split_weight = scores.split_weight.sum()
    results = []
    for grouping in groupings:
        averages = average(sum_feature_groups(scores.scores, grouping), tree_model, is_kept)
        result = ImportanceResult(
            values=averages.values,
            share=averages.values / scale,
            per_tree=averages.per_tree,
            tree_weight=None if tree_model.is_additive or tree_weight is None else tree_weight.copy(),
            per_output=averages.per_output,
            mdi=average_mdi(sum_feature_groups(scores.mdi, grouping), tree_model),
            impurity=impurity,
            feature_names=grouping.names,
            measure=measure.name,
            task="survival" if metadata.compares_hazards else target.kind.task,
            rows=metadata.rows,
            n_rows=metadata.n_rows,
            n_groups=metadata.n_groups,
            skipped_weight=float(scores.skipped_weight.sum() / split_weight) if split_weight > 0 else 0.0,
            is_additive=tree_model.is_additive,
        )
        results.append(result)
    return results


def make_grouping_scores(
    results: Sequence[ImportanceResult], scores: ScoresByTree, groupings: Sequence[Grouping], tree_model: TreeModel
) -> list[GroupingScores]:
    """The scores of each grouping, as standard errors need them."""
    is_kept = ~scores.is_left_out
    tree_weight = np.ones(1) if tree_model.is_additive else weigh_trees(tree_model) * is_kept
    magnitude = average(scores.magnitude[:, :, np.newaxis], tree_model, is_kept).values[np.newaxis]
    grouping_scores = []
    for result, grouping in zip(results, groupings, strict=True):
        mdi = average(sum_feature_groups(scores.counted_mdi, grouping), tree_model, is_kept).values
        size = sum_feature_groups(magnitude, grouping)[0]
        grouping_scores.append(GroupingScores(result.values, result.per_tree, tree_weight, mdi, size))
    return grouping_scores


def add_errors(
    results: Sequence[ImportanceResult],
    moments: Sequence[Moments],
    scores: Sequence[GroupingScores],
    problem: str | None,
    *,
    with_bags: bool = False,
    correction: float = 1.0,
    has_few_informative: bool = False,
    cause: str | None = _BUG,
) -> list[ImportanceResult]:
    """Results with standard errors, or with the reason why these are unavailable.

    Parameters
    ----------
    results : sequence of ImportanceResult
        Results without errors, for each grouping.
    moments : sequence of Moments
        Sums over all evaluation rows, for each grouping.
    scores : sequence of GroupingScores
        Scores of the model and of its trees, for each grouping.
    problem : str or None
        Why errors are unavailable, if that is known already.
    with_bags : bool
        See `measure_errors`.
    correction : float
        Factor of the variances, see `find_cluster_correction`.
    has_few_informative : bool
        See `measure_errors`.
    cause : str or None
        Why contributions might not sum to the scores; None if the sums are over a sample of the rows only.
    """
    for result, own, score in zip(results, moments, scores, strict=True):
        # Contributions and scores come from the same rows in two ways: if they differ, one of them is wrong.
        j = None if cause is None else find_mismatch(own.eval_sum, score.magnitude, result.n_rows)
        if j is not None:
            value = float(result.values[j])
            raise ValueError(
                f"row contributions to {str(result.feature_names[j])!r} sum to {value + float(own.eval_sum[j]):.9g}, "
                f"but its score is {value:.9g}; {cause}"
            )
    for result, own, score in zip(results, moments, scores, strict=True):
        size = np.sqrt(np.maximum(result.mdi * result.impurity, 0.0))
        j = find_unresolved(own.eval_eval, score.magnitude, size, result.n_rows)
        if j is not None and problem is None:
            problem = (
                f"the contributions of rows to {str(result.feature_names[j])!r} differ by less than the rounding "
                "errors of the model's values; center y, fit the model again and score it"
            )
    if problem is not None:
        return [replace(result, inference_unavailable=problem) for result in results]
    with_errors = []
    for result, own, score in zip(results, moments, scores, strict=True):
        errors = measure_errors(
            own,
            score,
            result.n_rows,
            with_bags=with_bags,
            correction=correction,
            has_few_informative=has_few_informative,
        )
        with_errors.append(replace(result, **vars(errors)))
    return with_errors


def join_results(results: Sequence[ImportanceResult], notes: tuple[str, ...]) -> ImportanceResult:
    """The result of the feature groups, with notes, and with the result of the single columns in it."""
    return replace(results[0], notes=notes, columns=results[1] if len(results) > 1 else None)


@dataclass(frozen=True, eq=False)
class Averages:
    """Scores of a model, averaged in three ways.

    Parameters
    ----------
    values : ndarray of shape (n_features,)
        Over trees and outputs.
    per_tree : ndarray of shape (n_trees, n_features)
        Over outputs; NaN for trees that are left out.
    per_output : ndarray of shape (n_outputs, n_features)
        Over trees.
    """

    values: Floats
    per_tree: Floats
    per_output: Floats


def average(scores: Floats, tree_model: TreeModel, is_kept: NDArray[np.bool_]) -> Averages:
    """Average scores of shape (n_trees, n_features, n_outputs) over trees and outputs; sum those of additive trees.

    Outputs are averaged if every tree predicts each of them, and summed if they are raw scores.
    """
    scores = scores.copy()
    scores[~is_kept] = np.nan
    n_averaged = 1 if tree_model.is_additive else scores.shape[2]
    share = _share_trees(tree_model, is_kept)
    per_output = (share[is_kept, np.newaxis, np.newaxis] * scores[is_kept]).sum(axis=0).T
    return Averages(per_output.sum(axis=0) / n_averaged, scores.sum(axis=2) / n_averaged, per_output)


def average_mdi(scores: Floats, tree_model: TreeModel) -> Floats:
    """Average mdi over all trees, including those without evaluation rows, shape (n_features,)."""
    share = _share_trees(tree_model, np.ones(tree_model.n_trees, dtype=np.bool_))
    n_averaged = 1 if tree_model.is_additive else scores.shape[2]
    averaged: Floats = (share[:, np.newaxis] * scores.sum(axis=2)).sum(axis=0) / n_averaged
    return averaged


def weigh_trees(tree_model: TreeModel) -> Floats:
    """Weight of each tree, shape (n_trees,)."""
    return np.ones(tree_model.n_trees) if tree_model.tree_weight is None else tree_model.tree_weight


def _share_trees(tree_model: TreeModel, is_kept: NDArray[np.bool_]) -> Floats:
    """Factor of each tree in the model's score, shape (n_trees,): its share of the weights, or 1 for additive trees."""
    if tree_model.is_additive:
        return np.ones(tree_model.n_trees)
    weight = weigh_trees(tree_model)
    share: Floats = np.where(is_kept, weight, 0.0) / weight.sum(where=is_kept)
    return share
