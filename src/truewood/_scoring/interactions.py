"""Scores of pairs of features of a fitted model on a table in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from truewood._rows.copies import Copies
from truewood._rows.folds import Folds
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
    if inputs.copies is not None:
        notes = (*notes, inputs.copies.describe(are_training=inputs.evaluation_rows.are_training))
    grouping = groupings[0]
    pairs, n_possible = choose_pairs(tree_model, grouping, features, max_pairs)
    if len(pairs) < n_possible and features is None and len(pairs) == max_pairs:
        note = (
            f"{count(len(pairs), 'pair')} of {n_possible:,} tested: those whose splits on the same paths reduce the "
            "training impurity most; pass max_pairs= or features= for others."
        )
        notes = (*notes, note)
    evaluated = evaluate_pairs(inputs, parts.y, grouping, pairs, n_threads)
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


def _check_model(tree_model: TreeModel) -> None:
    """Refuse models whose predictions cannot be computed without some features."""
    loss = tree_model.target.loss
    if tree_model.finds_leaves:
        raise TypeError(
            f"the splits of {tree_model.name} are unknown, but interactions need them; fit another tree model."
        )
    if not tree_model.has_predictions or tree_model.why_no_heldout is not None:
        raise TypeError(
            f"the trees of {tree_model.name} do not store predictions, which interactions need; survival and causal "
            "forests cannot be tested for interactions."
        )
    if (loss is not None and loss.is_life_table) or (not tree_model.is_additive and not tree_model.target.is_y):
        raise TypeError(
            f"interactions need a model of numbers or classes, but {tree_model.name} predicts survival times; survival "
            "models cannot be tested for interactions."
        )
    if tree_model.is_additive and (loss is None or loss.at_score is None):
        why = tree_model.target.why_no_loss or "its loss has no smooth gradient"
        raise ValueError(f"{tree_model.name} cannot be tested for interactions: {why}.")


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
class PairRows:
    """The rows that evaluate pairs of features.

    Parameters
    ----------
    rows : EvaluatedRows
        Residuals, predictions and main effects of the rows.
    target : ndarray of shape (n_rows, n_columns)
        The target.
    numbers : list of ndarray of shape (n_rows, n)
        The columns of each feature.
    are_categories : list of ndarray of bool, shape (n,)
        Whether they contain codes of categories.
    """

    rows: EvaluatedRows
    target: Floats
    numbers: list[Floats]
    are_categories: list[NDArray[np.bool_]]

    def make_scorer(self, reciprocity: float = 0.0) -> PairScorer:
        """The scorer of pairs on these rows."""
        bases = [make_basis(x, own) for x, own in zip(self.numbers, self.are_categories, strict=True)]
        return PairScorer(self.rows, bases, reciprocity)

    @property
    def impurity(self) -> float:
        """Variance of the target, or Gini impurity; mean over outputs, or sum over raw scores."""
        weight, mean = self.rows.weight, np.average(self.target, axis=0, weights=self.rows.weight)
        variance = np.average((self.target - mean) ** 2, axis=0, weights=weight).sum()
        return float(variance) / self.rows.n_averaged


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
    used, local = _find_used(pairs)
    n_at_once = max(1, _MOST_VALUES // (inputs.data.n_rows * count_columns(inputs.tree_model)))
    first, *others = (local[start : start + n_at_once] for start in range(0, len(pairs), n_at_once))
    effects = find_effects(inputs, _number_pairs(grouping, used, first), n_threads)
    is_kept = _find_kept(inputs, effects.is_evaluated)
    rows = _read_rows(inputs, y, grouping, used, effects, is_kept)
    scorer = rows.make_scorer()

    def score(block: Pairs, found: RowEffects) -> PairScores:
        halves = None if found.halves is None else (found.halves[0][is_kept], found.halves[1][is_kept])
        return scorer.score(block, found.joint[is_kept], halves)

    parts = [score(first, effects)]
    parts += [score(block, find_effects(inputs, _number_pairs(grouping, used, block), n_threads)) for block in others]
    scores = PairScores.join(parts)
    top = _find_top(scores)
    if others:
        joint = find_effects(inputs, _number_pairs(grouping, used, local[top]), n_threads).joint[is_kept]
    else:
        joint = effects.joint[:, top][is_kept]
    surfaces = _make_surfaces(rows, joint, top, pairs[top], used, len(grouping.names), _has_units(inputs.tree_model))
    return EvaluatedPairs(scores, scorer.problem, rows.impurity, surfaces)


def _find_used(pairs: Pairs) -> tuple[NDArray[np.int64], Pairs]:
    """The features of pairs, ascending, and the pairs by position among these."""
    used, local = np.unique(pairs, return_inverse=True)
    return used, local.reshape(pairs.shape)


def _find_top(scores: PairScores) -> NDArray[np.int64]:
    """Pairs that get a surface, ascending."""
    return np.sort(np.argsort(-scores.values, kind="stable")[:_N_SURFACES])


def _has_units(tree_model: TreeModel) -> bool:
    """Whether predictions are in units of the target."""
    loss = tree_model.target.loss
    return not tree_model.is_additive or (loss is not None and loss.in_target_units)


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


def _read_rows(
    inputs: ScoringInputs,
    y: Any,
    grouping: Grouping,
    used: NDArray[np.int64],
    effects: RowEffects,
    is_kept: NDArray[np.bool_],
) -> PairRows:
    """What predictions leave of the target, and the columns of the features."""
    tree_model, target = inputs.tree_model, inputs.data.target.vectors[is_kept]
    weight = np.ones(len(is_kept)) if inputs.row_weight is None else inputs.row_weight
    weight, prediction, curvature = weight[is_kept], effects.prediction[is_kept], None
    if tree_model.is_additive:
        spec = tree_model.target
        read = y if spec.read_y is None else spec.read_y(y)
        encoded = encode_target(read, spec.kind, np.zeros(spec.kind.n_columns)).encoded[is_kept]
        residual, curvature = _differentiate(spec.loss, encoded, prediction, weight)
    else:
        residual = target - prediction
    groups = None if inputs.clusters is None else np.unique(inputs.clusters[is_kept], return_inverse=True)[1]
    n_averaged = 1 if tree_model.is_additive else tree_model.target.kind.n_outputs
    rows = EvaluatedRows(residual, prediction, effects.main[is_kept], weight, curvature, n_averaged, groups)
    return PairRows(rows, target, *_read_columns(inputs, grouping, used, is_kept))


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


def _make_surfaces(
    rows: PairRows,
    joint: Floats,
    top: NDArray[np.int64],
    pairs: Pairs,
    used: NDArray[np.int64],
    n_features: int,
    has_units: bool,
) -> JointSurfaces:
    """Means over cells of pairs of features."""
    cells, levels = dict[int, NDArray[np.int64]](), np.full((n_features, _N_CELLS), np.nan)
    for feature, columns in zip(used.tolist(), rows.numbers, strict=True):
        own = np.full(len(columns), -1), np.empty(0)
        cells[feature], means = _cut(columns[:, 0]) if columns.shape[1] == 1 else own
        levels[feature, : len(means)] = means
    n_columns, place_of = joint.shape[2], {feature: place for place, feature in enumerate(used.tolist())}
    found = np.full((3, len(pairs), n_columns, _N_CELLS, _N_CELLS), np.nan)
    n_rows = np.zeros((len(pairs), _N_CELLS, _N_CELLS), dtype=np.int64)
    main, prediction = rows.rows.main, rows.rows.prediction
    for k, (first, second) in enumerate(pairs.tolist()):
        is_placed = (cells[first] >= 0) & (cells[second] >= 0)
        cell = (cells[first] * _N_CELLS + cells[second])[is_placed]
        n_rows[k] = np.bincount(cell, minlength=_N_CELLS**2).reshape(_N_CELLS, _N_CELLS)
        combined = main[:, place_of[first]] + main[:, place_of[second]] - joint[:, k]
        shown = [joint[:, k], combined, rows.target - prediction + combined][: 3 if has_units else 2]
        for kind, values in enumerate(shown):
            for c in range(n_columns):
                total = np.bincount(cell, weights=values[is_placed, c], minlength=_N_CELLS**2)
                np.divide(total.reshape(n_rows[k].shape), n_rows[k], where=n_rows[k] > 0, out=found[kind, k, c])
    return JointSurfaces(top, levels, found[0], found[1], found[2], n_rows)


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
    """Build the result; errors of pairs whose features depend too much on each other are withheld."""
    scores, problem, kind = evaluated.scores, evaluated.problem, tree_model.target.kind
    has_share = evaluated.impurity > 0 and _has_units(tree_model)
    is_withheld = (scores.dependence > MOST_DEPENDENT) & (scores.null_std_error > 0)
    null_std_error, std_error = (
        np.where(is_withheld | (problem is not None), np.nan, error)
        for error in (scores.null_std_error, scores.std_error)
    )
    if problem is None and is_withheld.any():
        most = grouping.names[pairs[np.argmax(np.where(is_withheld, scores.dependence, 0.0))]]
        warn(
            f"{count(int(np.count_nonzero(is_withheld)), 'pair')} of features without a p-value, because the two "
            f"features depend too much on each other (such as {list_names(most.tolist())}); score them together with "
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
        rows=rows,
        n_rows=n_rows,
        n_trees=n_trees,
        output_names=output_names,
        n_groups=None if groups is None else int(groups.max()) + 1,
        surfaces=evaluated.surfaces,
        inference_unavailable=problem,
        notes=notes,
    )


@dataclass(frozen=True, eq=False)
class FoldPairs:
    """The held-out rows of a fold, with the joint effects of its model.

    Parameters
    ----------
    rows : PairRows
        The rows.
    joint : ndarray of shape (n_rows, n_pairs, n_columns)
        Joint effects of all pairs.
    is_kept : ndarray of bool, shape (n_test,)
        Which of the fold's rows these are: those with weight.
    model : object
        The fitted trees of the fold; unlike a `TreeModel`, they can be sent between processes.
    n_trees : int
        Their number.
    grouping : Grouping
        Which columns form which feature.
    pairs : ndarray of int64, shape (n_pairs, 2)
        The pairs.
    notes : tuple of str
        Caveats.
    """

    rows: PairRows
    joint: Floats
    is_kept: NDArray[np.bool_]
    model: Any
    n_trees: int
    grouping: Grouping
    pairs: Pairs
    notes: tuple[str, ...]


def find_fold_pairs(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Floats | None,
    *,
    features: Sequence[int | str] | None,
    max_pairs: int,
    feature_groups: Any,
) -> FoldPairs:
    """Joint effects of the model of a fold on its held-out rows."""
    parts = extract_final_estimator(model, X, y, "heldout")
    tree_model = open_model(parts.model)
    _check_model(tree_model)
    inputs = make_scoring_inputs(
        tree_model, parts.X, parts.y, rows="heldout", sample_weight=sample_weight, check_heldout=False, check_rows=False
    )
    groupings, notes = find_groupings(feature_groups, inputs.data.matrix.names, parts.encoding, tree_model)
    pairs, n_possible = choose_pairs(tree_model, groupings[0], features, max_pairs)
    if len(pairs) < n_possible:
        raise ValueError(
            f"cross_interactions needs features= or max_pairs= to choose among {n_possible:,} pairs, got "
            f"max_pairs={max_pairs}; the trees must not choose, because they were trained on rows that evaluate other "
            "folds."
        )
    used, local = _find_used(pairs)
    effects = find_effects(inputs, _number_pairs(groupings[0], used, local), 1)
    is_kept = _find_kept(inputs, effects.is_evaluated)
    rows = _read_rows(inputs, parts.y, groupings[0], used, effects, is_kept)
    if not tree_model.is_additive:
        # The origin of the target differs between folds.
        origin = inputs.data.target.origin
        moved = replace(rows.rows, prediction=rows.rows.prediction + origin)
        rows = replace(rows, rows=moved, target=rows.target + origin)
    return FoldPairs(rows, effects.joint[is_kept], is_kept, parts.model, tree_model.n_trees, groupings[0], pairs, notes)


def join_fold_pairs(
    parts: Sequence[FoldPairs],
    folds: Folds,
    sample_weight: Floats | None,
    groups: NDArray[np.int64] | None,
    copies: Copies | None,
) -> Interactions:
    """Score pairs on the rows of all folds, each with the model that did not see it."""
    clusters = copies.groups if groups is None and copies is not None else groups
    first, tree_model = parts[0], open_model(parts[0].model)
    for part in parts[1:]:
        if part.grouping.names.tolist() != first.grouping.names.tolist():
            raise ValueError("folds must have the same features, but a pipeline dropped some; pass feature_groups=.")
        if part.joint.shape[2] != first.joint.shape[2]:
            raise ValueError("folds must have the same classes, but some lack a class; pass cv=StratifiedKFold().")
    numbers = np.concatenate([test[part.is_kept] for test, part in zip(folds.test, parts, strict=True)])
    order = np.argsort(numbers, kind="stable")

    def join(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate(arrays)[order]

    own_groups = None if clusters is None else np.unique(clusters[numbers[order]], return_inverse=True)[1]
    evaluated = [part.rows.rows for part in parts]
    curvature = [rows.curvature for rows in evaluated if rows.curvature is not None]
    rows = EvaluatedRows(
        residual=join([rows.residual for rows in evaluated]),
        prediction=join([rows.prediction for rows in evaluated]),
        main=join([rows.main for rows in evaluated]),
        weight=join([rows.weight for rows in evaluated]),
        curvature=join(curvature) if curvature else None,
        n_averaged=evaluated[0].n_averaged,
        groups=own_groups,
    )
    n_used = len(first.rows.numbers)
    joined = PairRows(
        rows,
        join([part.rows.target for part in parts]),
        [join([part.rows.numbers[j] for part in parts]) for j in range(n_used)],
        [np.any([part.rows.are_categories[j] for part in parts], axis=0) for j in range(n_used)],
    )
    used, local = _find_used(first.pairs)
    joint = join([part.joint for part in parts])
    scorer = joined.make_scorer(folds.measure_reciprocity(folds.weigh(sample_weight)))
    scores = scorer.score(local, joint, None)
    top, n_features = _find_top(scores), len(first.grouping.names)
    surfaces = _make_surfaces(joined, joint[:, top], top, first.pairs[top], used, n_features, _has_units(tree_model))
    notes = [note for part in parts for note in part.notes]
    if copies is not None:
        notes.append(copies.describe(are_training=True))
    n_never = folds.n_rows - int(np.count_nonzero(folds.is_held_out))
    if n_never:
        notes.append(f"{count(n_never, 'row')} of {folds.n_rows:,} never held out and used for training only.")
    return make_interactions(
        tree_model,
        first.grouping,
        first.pairs,
        len(first.pairs),
        EvaluatedPairs(scores, scorer.problem, joined.impurity, surfaces),
        rows="folds",
        n_rows=folds.n_rows,
        n_trees=sum(part.n_trees for part in parts),
        groups=groups,
        notes=tuple(dict.fromkeys(notes)),
    )
