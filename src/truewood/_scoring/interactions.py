"""Scores of pairs of features of a fitted model on a table in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._engines.joint_effects import PairedFeatures
from truewood._exceptions import warn
from truewood._formatting import count, list_names, quote
from truewood._inference.pair_scores import MOST_DEPENDENT, EvaluatedRows, PairScorer, PairScores, make_basis
from truewood._inputs.feature_groups import Grouping
from truewood._inputs.losses import Loss
from truewood._inputs.target import encode_target
from truewood._pipelines.final_estimator import extract_final_estimator
from truewood._results.interactions import Interactions, JointSurfaces
from truewood._scoring.inputs import ScoringInputs, make_scoring_inputs
from truewood._scoring.joint_effects import RowEffects, find_effects
from truewood._scoring.path_values import count_columns
from truewood._scoring.results import find_groupings
from truewood._scoring.trees import split_trees
from truewood.adapters import TreeModel, open_model

Floats = NDArray[np.float64]
Pairs = NDArray[np.int64]

# Joint effects to hold at a time: rows times pairs times columns.
_MOST_VALUES = 1 << 25
_BATCH_NODES = 1 << 18
# Pairs with a surface, and cells of a feature in it.
_N_SURFACES = 60
_N_CELLS = 6
# Newton steps to the constant of a raw score, and the least curvature of a loss.
_N_STEPS = 50
_LEAST_CURVATURE = 1e-6
# Share of the dependence that was taken out of a score which may be left in it.
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
    _check_model(tree_model)
    inputs = make_scoring_inputs(
        tree_model, parts.X, parts.y, rows=rows, sample_weight=sample_weight, groups=groups, n_threads=n_threads
    )
    if inputs.evaluation_rows.are_training and tree_model.training is not None and tree_model.training.is_honest:
        raise ValueError(
            f"rows must be 'heldout' for {tree_model.name}, because out-of-bag rows determine its leaf values."
        )
    groupings, notes = find_groupings(feature_groups, inputs.data.matrix.names, parts.encoding, tree_model)
    if parts.warning is not None:
        warn(parts.warning)
        notes = (*notes, parts.warning)
    grouping = groupings[0]
    pairs, n_possible = choose_pairs(tree_model, grouping, features, max_pairs)
    if len(pairs) < n_possible and features is None and len(pairs) == max_pairs:
        note = (
            f"{count(len(pairs), 'pair')} of {n_possible:,} tested: those whose splits on the same paths reduce the "
            "training impurity most; pass max_pairs= or features= for others."
        )
        notes = (*notes, note)
    evaluated = evaluate_pairs(inputs, parts.y, grouping, pairs, n_threads)
    return make_interactions(inputs, grouping, pairs, n_possible, evaluated, notes)


def _check_model(tree_model: TreeModel) -> None:
    """Refuse models whose predictions cannot be computed without some features."""
    loss = tree_model.target.loss
    if tree_model.finds_leaves:
        raise TypeError(f"interactions needs trees whose splits are known, got {tree_model.name}.")
    if not tree_model.has_predictions or tree_model.why_no_heldout is not None:
        raise TypeError(f"interactions needs trees that store their predictions, got {tree_model.name}.")
    if (loss is not None and loss.is_life_table) or (not tree_model.is_additive and not tree_model.target.is_y):
        raise TypeError(f"interactions needs a model of numbers or classes, got {tree_model.name} of survival times.")
    if tree_model.is_additive and (loss is None or loss.at_score is None):
        why = tree_model.target.why_no_loss or "its loss has no smooth gradient"
        raise ValueError(f"interactions is unavailable for {tree_model.name}: {why}.")


def choose_pairs(
    tree_model: TreeModel, grouping: Grouping, features: Sequence[int | str] | None, max_pairs: int
) -> tuple[Pairs, int]:
    """The pairs to test, ascending, and the number of possible pairs.

    If there are too many, those with the largest training gain of splits that share a path are tested: the choice
    depends on the fitted trees only, never on the evaluation rows.
    """
    names = grouping.names.tolist()
    if features is not None:
        chosen = sorted({_find_feature(feature, names) for feature in features})
        if len(chosen) < 2:
            raise ValueError(f"features must name at least two features, got {list_names([names[j] for j in chosen])}.")
    else:
        chosen = list(range(len(names)))
        if len(chosen) < 2:
            raise ValueError(f"interactions needs at least two features, got {list_names(names)}.")
    n_possible = len(chosen) * (len(chosen) - 1) // 2
    if n_possible <= max_pairs:
        return np.array(list(combinations(chosen, 2)), dtype=np.int64), n_possible
    key, gain = _sum_shared_gain(tree_model, grouping)
    first, second = np.divmod(key, len(names))
    is_chosen = np.isin(first, chosen) & np.isin(second, chosen)
    key, gain = key[is_chosen], gain[is_chosen]
    best = np.sort(key[np.argsort(-gain, kind="stable")[:max_pairs]])
    if not len(best):
        raise ValueError("no two features share a path in the trees, so that there is no interaction to test.")
    return np.column_stack(np.divmod(best, len(names))), n_possible


def _find_feature(feature: Any, names: list[str]) -> int:
    if isinstance(feature, str) and names.count(feature) == 1:
        return names.index(feature)
    if isinstance(feature, int | np.integer) and not isinstance(feature, bool) and 0 <= feature < len(names):
        return int(feature)
    raise ValueError(
        f"features must list features by a name that occurs once or by a number from 0 to {len(names) - 1}, got "
        f"{quote(feature)}; the features are {list_names(names)}."
    )


def _sum_shared_gain(tree_model: TreeModel, grouping: Grouping) -> tuple[NDArray[np.int64], Floats]:
    """For each pair of features that share a path, as first * n + second: the training gain of the lower splits."""
    n_features, totals = len(grouping.names), dict[int, float]()
    for trees in split_trees(tree_model.n_nodes, most_nodes=_BATCH_NODES, most_trees=tree_model.n_trees):
        ensemble = tree_model.read(trees)
        splits, (left, right) = ensemble.splits, ensemble.split_children
        total = ensemble.weight[left] + ensemble.weight[right]
        product = np.divide(
            ensemble.weight[left] * ensemble.weight[right], total, out=np.zeros(len(splits)), where=total > 0
        )
        gain = product * ((ensemble.value[left] - ensemble.value[right]) ** 2).sum(axis=1)
        feature = grouping.group_of[ensemble.feature].astype(np.int64)
        above, at = ensemble.parent[splits], np.arange(len(splits))
        is_below = above != splits
        while is_below.any():
            above, at = above[is_below], at[is_below]
            own, other = feature[splits[at]], feature[above]
            key = np.minimum(own, other) * n_features + np.maximum(own, other)
            found, inverse = np.unique(key[own != other], return_inverse=True)
            summed = np.bincount(inverse, weights=gain[at][own != other], minlength=len(found))
            for pair, more in zip(found.tolist(), summed.tolist(), strict=True):
                totals[pair] = totals.get(pair, 0.0) + more
            is_below = ensemble.parent[above] != above
            above = ensemble.parent[above]
    keys = np.array(sorted(totals), dtype=np.int64)
    return keys, np.array([totals[pair] for pair in keys.tolist()])


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


def evaluate_pairs(inputs: ScoringInputs, y: Any, grouping: Grouping, pairs: Pairs, n_threads: int) -> EvaluatedPairs:
    """Score pairs, as many at a time as fit into memory."""
    used, local = np.unique(pairs, return_inverse=True)
    local = local.reshape(pairs.shape)
    n_columns, n_rows = count_columns(inputs.tree_model), inputs.data.n_rows
    n_at_once = max(1, _MOST_VALUES // (n_rows * n_columns))
    scorer, parts, is_kept = None, [], np.empty(0, dtype=np.bool_)
    for start in range(0, len(pairs), n_at_once):
        block = local[start : start + n_at_once]
        effects = find_effects(inputs, _number_pairs(grouping, used, block), n_threads)
        if scorer is None:
            is_kept = _find_kept(inputs, effects.is_evaluated)
            rows = _measure_residuals(inputs, y, effects, is_kept)
            numbers, are_categories = _read_columns(inputs, grouping, used, is_kept)
            bases = [make_basis(x, own) for x, own in zip(numbers, are_categories, strict=True)]
            scorer = PairScorer(rows, bases)
        halves = None if effects.halves is None else (effects.halves[0][is_kept], effects.halves[1][is_kept])
        parts.append(scorer.score(block, effects.joint[is_kept], halves))
    if scorer is None:
        raise ValueError("interactions needs at least one pair of features.")
    scores = PairScores.join(parts)
    top = np.sort(np.argsort(-scores.values, kind="stable")[:_N_SURFACES])
    if len(parts) > 1:
        effects = find_effects(inputs, _number_pairs(grouping, used, local[top]), n_threads)
        shown = effects.joint
    else:
        shown = effects.joint[:, top]
    surfaces = _make_surfaces(inputs, effects, shown, is_kept, numbers, top, local[top], used, len(grouping.names))
    return EvaluatedPairs(scores, scorer.problem, _measure_impurity(inputs, is_kept), surfaces)


def _number_pairs(grouping: Grouping, used: NDArray[np.int64], pairs: Pairs) -> PairedFeatures:
    """Pairs, by position in `used`, in the form that engines take."""
    place = np.full(len(grouping.names), -1, dtype=np.int32)
    place[used] = np.arange(len(used))
    pair_of = np.full((len(used), len(used)), -1, dtype=np.int32)
    pair_of[pairs[:, 0], pairs[:, 1]] = pair_of[pairs[:, 1], pairs[:, 0]] = np.arange(len(pairs))
    return PairedFeatures(np.ascontiguousarray(place[grouping.group_of]), pair_of, len(pairs))


def _find_kept(inputs: ScoringInputs, is_evaluated: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Rows that count: those that evaluate a tree and have weight."""
    is_weighted = np.ones(inputs.data.n_rows, dtype=np.bool_) if inputs.row_weight is None else inputs.row_weight > 0
    is_kept = is_evaluated & is_weighted
    n_lost = int(np.count_nonzero(~is_evaluated & is_weighted))
    if not is_kept.any():
        raise ValueError("no tree has evaluation rows; pass rows='heldout' and rows that the model never saw.")
    if n_lost:
        warn(
            f"{n_lost} of {len(is_kept)} rows are in every bag and are not evaluated; fit more trees to evaluate them."
        )
    return is_kept


def _measure_residuals(inputs: ScoringInputs, y: Any, effects: RowEffects, is_kept: NDArray[np.bool_]) -> EvaluatedRows:
    """What predictions leave of the target."""
    tree_model, target = inputs.tree_model, inputs.data.target
    weight = np.ones(len(is_kept)) if inputs.row_weight is None else inputs.row_weight
    weight, prediction, curvature = weight[is_kept], effects.prediction[is_kept], None
    if tree_model.is_additive:
        loss = tree_model.target.loss
        read_y = tree_model.target.read_y
        kind = tree_model.target.kind
        encoded = encode_target(y if read_y is None else read_y(y), kind, np.zeros(kind.n_columns)).encoded[is_kept]
        residual, curvature = _differentiate(loss, encoded, prediction, weight)
    else:
        residual = target.vectors[is_kept] - prediction
    groups = None if inputs.groups is None else np.unique(inputs.groups[is_kept], return_inverse=True)[1]
    n_averaged = 1 if tree_model.is_additive else tree_model.target.kind.n_outputs
    return EvaluatedRows(residual, prediction, effects.main[is_kept], weight, curvature, n_averaged, groups)


def _differentiate(loss: Loss | None, y: Floats, raw: Floats, weight: Floats) -> tuple[Floats, Floats | None]:
    """Negative gradient of the loss over its curvature, and the curvature, at raw scores plus the best constant."""
    if loss is None or loss.at_score is None:
        raise ValueError("the loss of the model has no gradient at raw scores.")
    constant = np.zeros(raw.shape[1])
    for _ in range(_N_STEPS):
        gradient, curvature = loss.at_score(y, raw + constant)
        total = np.maximum(weight @ curvature, _LEAST_CURVATURE * weight.sum())
        step = np.clip(weight @ gradient / total, -1.0, 1.0) if not loss.in_target_units else weight @ gradient / total
        constant = constant + step
        if np.abs(step).max() < 1e-12:
            break
    gradient, curvature = loss.at_score(y, raw + constant)
    if loss.in_target_units:
        return gradient, None
    curvature = np.maximum(curvature, _LEAST_CURVATURE)
    return gradient / curvature, curvature


def _read_columns(
    inputs: ScoringInputs, grouping: Grouping, used: NDArray[np.int64], is_kept: NDArray[np.bool_]
) -> tuple[list[Floats], list[NDArray[np.bool_]]]:
    """The columns of each feature as numbers, and whether they are categories."""
    tree_model, rows = inputs.tree_model, np.flatnonzero(is_kept)
    is_category = np.zeros(tree_model.n_features, dtype=np.bool_)
    for trees in split_trees(tree_model.n_nodes, most_nodes=_BATCH_NODES, most_trees=tree_model.n_trees):
        ensemble = tree_model.read(trees)
        if ensemble.categories is not None:
            is_category[ensemble.feature[ensemble.categories.node_set >= 0]] = True
    columns = [np.flatnonzero(grouping.group_of == feature) for feature in used]
    numbers = [inputs.data.matrix.take(rows, own).astype(np.float64) for own in columns]
    return numbers, [is_category[own] for own in columns]


def _measure_impurity(inputs: ScoringInputs, is_kept: NDArray[np.bool_]) -> float:
    """Variance of the target in the rows that count, or Gini impurity; mean over outputs, or sum over raw scores."""
    y = inputs.data.target.vectors[is_kept]
    weight = None if inputs.row_weight is None else inputs.row_weight[is_kept]
    variance = np.average((y - np.average(y, axis=0, weights=weight)) ** 2, axis=0, weights=weight).sum()
    return float(variance) / (1 if inputs.tree_model.is_additive else inputs.tree_model.target.kind.n_outputs)


def _make_surfaces(
    inputs: ScoringInputs,
    effects: RowEffects,
    joint: Floats,
    is_kept: NDArray[np.bool_],
    numbers: list[Floats],
    top: NDArray[np.int64],
    pairs: Pairs,
    used: NDArray[np.int64],
    n_features: int,
) -> JointSurfaces:
    """Means over cells of pairs of features."""
    tree_model = inputs.tree_model
    cells, levels = [], np.full((n_features, _N_CELLS), np.nan)
    for feature, columns in zip(used, numbers, strict=True):
        cell, own = _cut(columns[:, 0]) if columns.shape[1] == 1 else (np.full(len(columns), -1), np.empty(0))
        cells.append(cell)
        levels[feature, : len(own)] = own
    loss = tree_model.target.loss
    has_units = not tree_model.is_additive or (loss is not None and loss.in_target_units)
    shape = (len(pairs), joint.shape[2], _N_CELLS, _N_CELLS)
    found = {name: np.full(shape, np.nan) for name in ("joint", "combined", "observed")}
    n_rows = np.zeros((len(pairs), _N_CELLS, _N_CELLS), dtype=np.int64)
    for k, (first, second) in enumerate(pairs):
        is_placed = (cells[first] >= 0) & (cells[second] >= 0)
        place = (cells[first] * _N_CELLS + cells[second])[is_placed]
        n_rows[k] = np.bincount(place, minlength=_N_CELLS**2).reshape(_N_CELLS, _N_CELLS)
        own = joint[is_kept, k]
        combined = effects.main[is_kept, first] + effects.main[is_kept, second] - own
        numbers_of = {"joint": own, "combined": combined}
        if has_units:
            without = effects.prediction[is_kept] - combined
            numbers_of["observed"] = inputs.data.target.vectors[is_kept] - without
        for name, values in numbers_of.items():
            for c in range(joint.shape[2]):
                total = np.bincount(place, weights=values[is_placed, c], minlength=_N_CELLS**2)
                mean = np.divide(total.reshape(n_rows[k].shape), n_rows[k], where=n_rows[k] > 0, out=found[name][k, c])
                found[name][k, c] = mean
    return JointSurfaces(top, levels, found["joint"], found["combined"], found["observed"], n_rows)


def _cut(x: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Cell of each row, -1 if x is missing, and the mean of x in each cell."""
    is_known = np.isfinite(x)
    if not is_known.any():
        return np.full(len(x), -1), np.empty(0)
    levels = np.unique(x[is_known])
    if len(levels) > _N_CELLS:
        edges = np.unique(np.quantile(x[is_known], np.arange(1, _N_CELLS) / _N_CELLS))
        cell = np.searchsorted(edges, x, side="left")
    else:
        cell = np.searchsorted(levels, x)
    cell = np.where(is_known, np.minimum(cell, _N_CELLS - 1), -1)
    size = np.bincount(cell[is_known])
    total = np.bincount(cell[is_known], weights=x[is_known])
    return cell.astype(np.int64), np.divide(total, size, out=np.full(len(size), np.nan), where=size > 0)


def make_interactions(
    inputs: ScoringInputs,
    grouping: Grouping,
    pairs: Pairs,
    n_possible: int,
    evaluated: EvaluatedPairs,
    notes: tuple[str, ...],
) -> Interactions:
    """Build the result; errors of pairs whose features depend too much on each other are withheld."""
    tree_model, scores, problem = inputs.tree_model, evaluated.scores, evaluated.problem
    loss, kind = tree_model.target.loss, tree_model.target.kind
    has_share = evaluated.impurity > 0 and (not tree_model.is_additive or (loss is not None and loss.in_target_units))
    is_withheld = (scores.dependence > MOST_DEPENDENT) & (scores.null_std_error > 0)
    null_std_error, std_error = (
        np.where(is_withheld | (problem is not None), np.nan, error)
        for error in (scores.null_std_error, scores.std_error)
    )
    if problem is None and is_withheld.any():
        first = grouping.names[pairs[np.argmax(np.where(is_withheld, scores.dependence, 0.0))]]
        warn(
            f"{count(int(np.count_nonzero(is_withheld)), 'pair')} of features without a p-value, because the two "
            f"features depend too much on each other (such as {list_names(first.tolist())}); score them together with "
            "feature_groups=."
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
        rows=inputs.evaluation_rows.name,
        n_rows=inputs.data.n_rows,
        n_trees=tree_model.n_trees,
        output_names=output_names,
        n_groups=None if inputs.groups is None else int(inputs.groups.max()) + 1,
        surfaces=evaluated.surfaces,
        inference_unavailable=problem,
        notes=notes,
    )
