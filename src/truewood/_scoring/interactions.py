"""Scores of pairs of features of a fitted model on a table in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._exceptions import warn
from truewood._formatting import count, enumerate_names
from truewood._inference.pair_scores import MOST_DEPENDENT, PairScores
from truewood._inputs.groups import Grouping
from truewood._message import Message
from truewood._pipelines.containers import take_inputs
from truewood._pipelines.final_estimator import extract_final_estimator
from truewood._results.interactions import Interactions
from truewood._results.pair_surfaces import JointSurfaces
from truewood._scoring.inputs import (
    ScoringInputs,
    describe_rows,
    find_invalid_rows,
    make_scoring_inputs,
)
from truewood._scoring.joint_effects import RowEffects, find_effects
from truewood._scoring.joint_surfaces import make_surfaces
from truewood._scoring.pair_choice import choose_pairs, find_used, list_pairs
from truewood._scoring.pair_rows import find_kept, has_units, number_pairs, read_rows
from truewood._scoring.path_values import count_columns
from truewood._scoring.results import find_groupings
from truewood.adapters import TreeModel, open_model

Floats = NDArray[np.float64]
Pairs = NDArray[np.int64]

# Number of joint effects in memory at a time: rows times pairs times columns.
_MOST_VALUES = 1 << 25
# Pairs with a surface.
_N_SURFACES = 60
# Bias that may remain in a score, as a share of the change by the regression.
_BIAS_LEFT = 0.1


def score_pairs(
    model: Any,
    X: Any,
    y: Any,
    *,
    rows: Any,
    features: Sequence[int | str] | None,
    max_pairs: int,
    sample_weight: Any,
    feature_groups: Any,
    groups: Any,
    n_threads: int,
) -> Interactions:
    """Score the pairs of features of a model; for the arguments see `interactions`."""
    parts = extract_final_estimator(model, X, y, rows)
    tree_model = open_model(parts.model)
    check_model(tree_model)
    inputs = make_scoring_inputs(
        tree_model, parts.X, parts.y, rows=rows, sample_weight=sample_weight, groups=groups, n_threads=n_threads
    )
    if inputs.evaluation_rows.are_training and tree_model.training is not None and tree_model.training.is_honest:
        raise ValueError(
            f"rows must be 'heldout' for {tree_model.name}, because out-of-bag rows determine its leaf values."
        )
    groupings, notes = find_groupings(feature_groups, inputs.data.matrix.names, parts.encoding, tree_model)
    for caveat in (parts.warning, inputs.caveat):
        if caveat is not None:
            warn(caveat)
            notes = (*notes, caveat)
    notes, invalid = (*notes, *describe_rows(inputs, may_have_stopped=True)), find_invalid_rows(inputs, n_threads)
    if invalid is not None:
        warn(f"standard errors and p-values are withheld: {invalid}.")
    grouping = groupings[0]
    possible = list_pairs(grouping.names.tolist(), features)
    pairs, n_possible = choose_pairs(tree_model, grouping, possible, max_pairs), len(possible)
    if len(pairs) < n_possible:
        note = (
            f"{len(pairs):,} of {count(n_possible, 'pair')} tested: those whose splits on the same paths reduce the "
            "training impurity most; to test others, pass max_pairs= or features=."
        )
        notes = (*notes, note)
    listed = inputs.data.matrix.names.tolist() if parts.encoding is None else parts.encoding.inputs
    data = take_inputs(X, listed, grouping.names[np.unique(pairs)].tolist(), inputs.data.n_rows)
    evaluated = evaluate_pairs(inputs, parts.y, grouping, pairs, data, n_threads)
    evaluated = replace(evaluated, problem=invalid or evaluated.problem)
    return make_interactions(
        tree_model,
        grouping,
        pairs,
        n_possible,
        evaluated,
        rows=inputs.evaluation_rows.name,
        n_rows=inputs.data.n_rows,
        n_trees=tree_model.n_trees,
        groups=inputs.groups,
        notes=notes,
    )


def check_model(tree_model: TreeModel) -> None:
    """Refuse models whose predictions cannot be computed without some features."""
    loss = tree_model.target.loss
    if tree_model.finds_leaves:
        raise TypeError(
            f"interactions need both branches of each split, but only {tree_model.name} itself can send rows down its "
            "trees; encode categories as numbers before the fit, or fit another tree model."
        )
    if not tree_model.has_predictions or tree_model.why_no_heldout is not None:
        raise TypeError(
            f"interactions need trees whose nodes store predictions of y, but those of {tree_model.name} do not; use "
            "another model."
        )
    if (loss is not None and loss.is_life_table) or (not tree_model.is_additive and not tree_model.target.is_y):
        raise TypeError(
            f"interactions need a classifier or a regressor, but {tree_model.name} predicts survival times; use "
            "another model."
        )
    if tree_model.is_additive and (loss is None or loss.at_score is None):
        why = tree_model.target.why_no_loss or "its loss has no smooth gradient"
        raise ValueError(f"{tree_model.name} cannot be tested for interactions: {why}; use a model with another loss.")


@dataclass(frozen=True, eq=False)
class EvaluatedPairs:
    """Scores of pairs, the reason why errors are unavailable, and surfaces.

    Parameters
    ----------
    scores : PairScores
        The scores.
    problem : str or None
        Why standard errors are unavailable; None if they are available.
    impurity : float
        Variance of the target, or Gini impurity.
    surfaces : JointSurfaces
        Joint effects of the pairs with the highest scores.
    """

    scores: PairScores
    problem: str | None
    impurity: float
    surfaces: JointSurfaces


def evaluate_pairs(
    inputs: ScoringInputs, y: Any, grouping: Grouping, pairs: Pairs, data: NDArray[Any], n_threads: int
) -> EvaluatedPairs:
    """Score pairs, as many at a time as fit into memory."""
    used, local = find_used(inputs.tree_model, grouping, pairs)
    n_at_once = max(1, _MOST_VALUES // (inputs.data.n_rows * count_columns(inputs.tree_model)))
    first, *others = (local[start : start + n_at_once] for start in range(0, len(pairs), n_at_once))
    effects = find_effects(inputs, number_pairs(grouping, used, first), n_threads)
    is_kept = find_kept(inputs, effects)
    rows = read_rows(inputs, y, grouping, used, effects, is_kept, data)
    scorer = rows.make_scorer()

    def score(block: Pairs, found: RowEffects) -> PairScores:
        return scorer.score(block, partial(found.take_joint, is_kept), n_threads)

    parts = [score(first, effects)]
    parts += [score(block, find_effects(inputs, number_pairs(grouping, used, block), n_threads)) for block in others]
    scores = PairScores.join(parts)
    top = find_top(scores)
    shown: Any = top
    if others:
        effects, shown = find_effects(inputs, number_pairs(grouping, used, local[top]), n_threads), slice(None)
    columns = [effects.take_joint(is_kept, shown, c)[0].T for c in range(rows.target.shape[1])]
    joint = np.stack(columns, axis=2)
    surfaces = make_surfaces(rows, joint, top, pairs[top], used, len(grouping.names), has_units(inputs.tree_model))
    return EvaluatedPairs(scores, scorer.problem, rows.impurity, surfaces)


def find_top(scores: PairScores) -> NDArray[np.int64]:
    """Pairs that get a surface, ascending."""
    return np.sort(np.argsort(-scores.values, kind="stable")[:_N_SURFACES])


def make_interactions(
    tree_model: TreeModel,
    grouping: Grouping,
    pairs: Pairs,
    n_possible: int,
    evaluated: EvaluatedPairs,
    *,
    rows: str,
    n_rows: int,
    n_trees: int,
    groups: NDArray[np.int64] | None,
    notes: tuple[str, ...],
) -> Interactions:
    """Build the result; errors of pairs whose features depend too strongly on each other are withheld."""
    scores, problem, kind = evaluated.scores, evaluated.problem, tree_model.target.kind
    has_share = evaluated.impurity > 0 and has_units(tree_model)
    is_withheld = (scores.dependence > MOST_DEPENDENT) & (scores.null_std_error > 0)
    null_std_error, std_error = (
        np.where(is_withheld | (problem is not None), np.nan, error)
        for error in (scores.null_std_error, scores.std_error)
    )
    if problem is None and is_withheld.any():
        n_withheld = int(np.count_nonzero(is_withheld))
        most = grouping.names[pairs[np.argmax(np.where(is_withheld, scores.dependence, 0.0))]]
        named = f"{'such as ' * (n_withheld > 1)}{enumerate_names(most.tolist())}"
        are_columns = len(grouping.names) == len(grouping.group_of)  # only columns can be grouped
        warn(
            Message(
                f"p-values of interactions are withheld for {count(n_withheld, 'pair')} of features that depend too "
                f"strongly on each other ({named}); score such features as one group.",
                "For example, pass {feature_groups}" if are_columns else "",
                feature_groups={" + ".join(most.tolist()): most.tolist()},
            )
        )
    n_columns = count_columns(tree_model)
    output_names = None
    if n_columns > 1:
        output_names = kind.column_names if kind.n_columns == n_columns else np.arange(n_columns).astype(np.str_)
    return Interactions(
        values=scores.values,
        share=scores.values / (evaluated.impurity if has_share else np.nan),
        std_error=std_error,
        null_std_error=null_std_error,
        bias_bound=_BIAS_LEFT * scores.taken_out,
        dependence=scores.dependence,
        pairs=pairs,
        feature_names=grouping.names,
        n_possible=n_possible,
        impurity=evaluated.impurity,
        scale="raw score" if tree_model.is_additive else "response",
        task=kind.task,
        rows=rows,
        n_rows=n_rows,
        n_trees=n_trees,
        output_names=output_names,
        n_groups=None if groups is None else int(groups.max()) + 1,
        surfaces=evaluated.surfaces,
        inference_unavailable=problem,
        notes=notes,
    )
