"""From scores of trees and what rows contribute to `ImportanceResult`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._formatting import quote
from truewood._inference.influence import Moments, TreeScores
from truewood._inference.rounding import find_mismatch, find_unresolved
from truewood._inference.standard_errors import measure_errors
from truewood._inputs.feature_groups import Grouping, add_groups, read_feature_groups
from truewood._measures.measure import Measure
from truewood._measures.registry import MEASURES, choose_measure, measures
from truewood._pipelines.encoding import Encoding, group_columns
from truewood._results.importance_result import ImportanceResult
from truewood._scoring.trees import Scores
from truewood.adapters import TreeModel

Floats = NDArray[np.float64]

_BUG = "these numbers cannot be trusted; please report this as a bug, with the class of the model."


@dataclass(frozen=True, eq=False)
class Metadata:
    """What there is to know of a model and of the rows that score it, besides sums.

    Parameters
    ----------
    view : TreeModel
        The model.
    rows : {"oob", "heldout", "lists"}
        Which rows score.
    n_rows : int
        Number of rows that were passed.
    is_weighted : bool
        Whether rows that count do not all count the same.
    target_variance : float
        Variance of the target of additive trees, summed over raw scores; not read for others.
    has_own_target : bool
        Whether the caller gave the numbers that trees are scored by.
    compares_hazards : bool
        Whether splits are scored by the hazards of their nodes.
    groups : ndarray of int64, shape (n_rows,), or None
        The group of each row, where rows belong together.
    """

    tree_model: TreeModel
    rows: str
    n_rows: int
    is_weighted: bool
    target_variance: float
    has_own_target: bool = False
    compares_hazards: bool = False
    groups: NDArray[np.int64] | None = None


def check_measure(measure: Any) -> None:
    """Refuse what is no name of a measure."""
    if not isinstance(measure, str) or measure not in measures():
        raise ValueError(f"measure must be one of {', '.join(measures())}, got {quote(measure)}.")


def find_measure(asked: str, metadata: Metadata) -> Measure:
    """The measure that fits the model and the rows."""
    tree_model = metadata.tree_model
    scores_classes = tree_model.target.is_y and tree_model.target.kind.is_classification and not tree_model.is_additive
    needs_linear = tree_model.is_additive or metadata.compares_hazards
    chosen = choose_measure(
        asked, scores_classes=scores_classes, needs_linear=needs_linear, is_weighted=metadata.is_weighted
    )
    if chosen is None:
        fitting = ", ".join(repr(name) for name, measure in MEASURES.items() if measure.linear)
        what = "add up" if tree_model.is_additive else "compare hazards"
        raise ValueError(
            f"measure={quote(asked)} is not defined for trees that {what}, as in {tree_model.name}; use {fitting}."
        )
    return chosen


def find_inference_problem(measure: Measure, inference: bool | str, *, contributions: bool = False) -> str | None:
    """Why there are no standard errors and p-values; None where there are."""
    if not inference:
        return "importance() was called with inference=False"
    if measure.why_no_inference is None:
        return None
    problem = f"measure={measure.name!r} {measure.why_no_inference}"
    if isinstance(inference, str) or contributions:
        asked = "contributions=True" if contributions else f"inference={quote(inference)}"
        raise ValueError(f"{asked} has nothing to give: {problem}.")
    return problem


def find_groupings(
    feature_groups: Any, columns: NDArray[np.str_], encoding: Encoding | None, tree_model: TreeModel
) -> tuple[list[Grouping], tuple[str, ...]]:
    """Groups of what trees split on, then the single columns where these are other ones; and what to say about them.

    Parameters
    ----------
    feature_groups : None, dict or sequence
        The argument of `importance`.
    columns : ndarray of str, shape (n_columns,)
        Names of the columns of the table that the model takes.
    encoding : Encoding or None
        How these came about; None where they are the caller's.
    view : TreeModel
        The model, which may make features of several columns itself.
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
    metadata: Metadata, measure: Measure, scores: Scores, groupings: Sequence[Grouping], *, stacklevel: int
) -> list[ImportanceResult]:
    """Results of each grouping, without errors; a warning where no row can score some trees."""
    if scores.is_left_out.all():
        raise ValueError("no tree has a row it never saw; pass such rows with rows='heldout'.")
    if scores.is_left_out.any():
        warnings.warn(
            f"{np.count_nonzero(scores.is_left_out)} of {len(scores.is_left_out)} trees have no unseen row and were "
            "left out of the mean.",
            UserWarning,
            stacklevel=stacklevel + 1,
        )
    return [_average(metadata, measure, scores, grouping) for grouping in groupings]


def make_tree_scores(
    results: Sequence[ImportanceResult], scores: Scores, groupings: Sequence[Grouping], tree_model: TreeModel
) -> list[TreeScores]:
    """What errors have to know of the scores of each grouping."""
    is_kept = ~scores.is_left_out
    tree_weight = np.ones(1) if tree_model.is_additive else weigh_trees(tree_model) * is_kept
    counted_mdi = [
        average(add_groups(scores.counted_mdi, columns), tree_model, is_kept).values for columns in groupings
    ]
    magnitude = average(scores.magnitude[:, :, np.newaxis], tree_model, is_kept).values
    return [
        TreeScores(result.values, result.per_tree, tree_weight, own, add_groups(magnitude[np.newaxis], columns)[0])
        for result, own, columns in zip(results, counted_mdi, groupings, strict=True)
    ]


def add_errors(
    results: Sequence[ImportanceResult],
    moments: Sequence[Moments],
    scores: Sequence[TreeScores],
    problem: str | None,
    *,
    with_bags: bool = False,
    widening: float = 1.0,
    cause: str | None = _BUG,
) -> list[ImportanceResult]:
    """Results with errors, given sums over all rows that score, for each grouping; or why there are none.

    `cause` says why contributions would not sum to the scores; None where the sums are of a sample of the rows only.
    """
    if cause is not None:
        for result, own, score in zip(results, moments, scores, strict=True):
            _check_contributions(result, own, score, cause)
    for result, own, score in zip(results, moments, scores, strict=True):
        size = np.sqrt(np.maximum(result.mdi * result.impurity, 0.0))
        j = find_unresolved(own.eval_eval, score.magnitude, size, result.n_rows)
        if j is not None and problem is None:
            problem = (
                f"what rows contribute to {str(result.feature_names[j])!r} differs by less than rounding errors of the "
                "model's values; center y, fit the model again and score it"
            )
    if problem is not None:
        return [replace(result, inference_unavailable=problem) for result in results]
    errors = [
        measure_errors(own, score, results[0].n_rows, with_bags=with_bags, widening=widening)
        for own, score in zip(moments, scores, strict=True)
    ]
    return [replace(result, **vars(own)) for result, own in zip(results, errors, strict=True)]


def _check_contributions(result: ImportanceResult, moments: Moments, scores: TreeScores, cause: str) -> None:
    """Refuse sums over all rows whose contributions are not the score, but for rounding.

    Both come from the same rows by different ways: one of them is wrong where they differ, and `cause` says why.
    """
    j = find_mismatch(moments.eval_sum, scores.magnitude, result.n_rows)
    if j is not None:
        value = float(result.values[j])
        raise ValueError(
            f"row contributions to {str(result.feature_names[j])!r} sum to {value + float(moments.eval_sum[j]):.9g}, "
            f"but its score is {value:.9g}; {cause}"
        )


def join_results(results: Sequence[ImportanceResult], notes: tuple[str, ...]) -> ImportanceResult:
    """The result of the groups, with what there is to say, and that of the single columns within it."""
    return replace(results[0], notes=notes, columns=results[1] if len(results) > 1 else None)


def _average(metadata: Metadata, measure: Measure, scores: Scores, grouping: Grouping) -> ImportanceResult:
    """Sum within groups, average over trees and outputs, and add what a reader needs to know."""
    tree_model, is_kept = metadata.tree_model, ~scores.is_left_out
    averages = average(add_groups(scores.scores, grouping), tree_model, is_kept)
    has_impurity = metadata.compares_hazards or not tree_model.is_additive
    impurity = average_impurity(scores.impurity, tree_model, is_kept) if has_impurity else metadata.target_variance
    split_weight = scores.split_weight.sum()
    return ImportanceResult(
        values=averages.values,
        share=_find_share(averages.values, impurity, metadata, measure),
        per_tree=averages.per_tree,
        tree_weight=None if tree_model.is_additive or tree_model.tree_weight is None else tree_model.tree_weight.copy(),
        per_output=averages.per_output,
        mdi=average_biased(add_groups(scores.mdi, grouping), tree_model),
        impurity=impurity,
        feature_names=grouping.names,
        measure=measure.name,
        task="survival" if metadata.compares_hazards else tree_model.target.kind.task,
        rows=metadata.rows,
        n_rows=metadata.n_rows,
        n_groups=None if metadata.groups is None else int(metadata.groups.max()) + 1,
        skipped_weight=float(scores.skipped_weight.sum() / split_weight) if split_weight > 0 else 0.0,
        is_additive=tree_model.is_additive,
    )


def _find_share(values: Floats, impurity: float, metadata: Metadata, measure: Measure) -> Floats:
    """Scores as parts of the target's impurity; NaN where they are none."""
    form = metadata.tree_model.target
    if metadata.tree_model.is_additive:
        has_share = not metadata.has_own_target and form.loss is not None and form.loss.in_target_units
    else:
        has_share = form.kind.task in measure.tasks_with_share
    scale = measure.find_scale(form.kind)
    return values / (scale * impurity) if has_share and impurity > 0 else np.full(len(values), np.nan)


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
    """Average scores of shape (n_trees, n_features, n_outputs) over trees and outputs; of additive trees, sum them.

    Outputs are averaged where each is predicted by every tree, and added up where raw scores are.
    """
    scores = scores.copy()
    scores[~is_kept] = np.nan
    n_averaged = _count_outputs(scores, tree_model)
    share = _share_trees(tree_model, is_kept)
    per_output = (share[is_kept, np.newaxis, np.newaxis] * scores[is_kept]).sum(axis=0).T
    return Averages(per_output.sum(axis=0) / n_averaged, scores.sum(axis=2) / n_averaged, per_output)


def average_biased(scores: Floats, tree_model: TreeModel) -> Floats:
    """Scores of all trees, also of those that no unseen row scores, shape (n_features,)."""
    share = _share_trees(tree_model, np.ones(tree_model.n_trees, dtype=np.bool_))
    averaged: Floats = (share[:, np.newaxis] * scores.sum(axis=2)).sum(axis=0) / _count_outputs(scores, tree_model)
    return averaged


def average_impurity(impurity: Floats, tree_model: TreeModel, is_kept: NDArray[np.bool_]) -> float:
    """Impurity of the target at the roots of the trees that are kept, each as much as its score counts."""
    return float(np.average(impurity[is_kept], weights=weigh_trees(tree_model)[is_kept]))


def weigh_trees(tree_model: TreeModel) -> Floats:
    """How much each tree counts, shape (n_trees,)."""
    return np.ones(tree_model.n_trees) if tree_model.tree_weight is None else tree_model.tree_weight


def _count_outputs(scores: Floats, tree_model: TreeModel) -> int:
    return 1 if tree_model.is_additive else scores.shape[2]


def _share_trees(tree_model: TreeModel, is_kept: NDArray[np.bool_]) -> Floats:
    """What each tree counts for in the model's score, shape (n_trees,): the same, or its own weight, or all of it."""
    if tree_model.is_additive:
        return np.ones(tree_model.n_trees)
    weight = weigh_trees(tree_model)
    share: Floats = np.where(is_kept, weight, 0.0) / weight.sum(where=is_kept)
    return share
