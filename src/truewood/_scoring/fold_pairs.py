"""Scores of pairs of features over folds: each row is evaluated by the model that did not see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._exceptions import warn
from truewood._formatting import count
from truewood._inference.pair_scores import EvaluatedRows
from truewood._inputs.groups import Grouping
from truewood._pipelines.containers import take_inputs
from truewood._pipelines.final_estimator import extract_final_estimator
from truewood._results.interactions import Interactions
from truewood._rows.copies import Copies
from truewood._rows.folds import Folds
from truewood._scoring.inputs import make_scoring_inputs
from truewood._scoring.interactions import EvaluatedPairs, check_model, find_top, make_interactions
from truewood._scoring.joint_effects import find_effects
from truewood._scoring.joint_surfaces import make_surfaces
from truewood._scoring.pair_choice import find_used, list_pairs
from truewood._scoring.pair_rows import PairRows, find_kept, has_units, number_pairs, read_rows
from truewood._scoring.results import find_groupings
from truewood.adapters import open_model

Floats = NDArray[np.float64]
Pairs = NDArray[np.int64]


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
    used : ndarray of int64, shape (n_used,)
        The features of pairs, then the others that scores control for.
    columns : list of list of str
        Names of the columns of each used feature; an encoder may create others in other folds.
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
    used: NDArray[np.int64]
    columns: list[list[str]]
    notes: tuple[str, ...]


def check_n_pairs(n_pairs: int, max_pairs: int) -> None:
    """Refuse to choose among pairs: trees of a fold were trained on rows that evaluate other folds."""
    if n_pairs > max_pairs:
        raise ValueError(
            f"max_pairs must be at least {n_pairs:,}, the number of pairs, because cross_interactions tests all pairs, "
            f"got {max_pairs:,}; pass max_pairs={n_pairs}, or choose features with features=."
        )


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
    check_model(tree_model)
    inputs = make_scoring_inputs(
        tree_model, parts.X, parts.y, rows="heldout", sample_weight=sample_weight, check_heldout=False, check_rows=False
    )
    groupings, notes = find_groupings(feature_groups, inputs.data.matrix.names, parts.encoding, tree_model)
    for caveat in (parts.warning, inputs.caveat):
        if caveat is not None:
            warn(caveat)
            notes = (*notes, caveat)
    pairs = list_pairs(groupings[0].names.tolist(), features)
    check_n_pairs(len(pairs), max_pairs)
    used, local = find_used(tree_model, groupings[0], pairs)
    effects = find_effects(inputs, number_pairs(groupings[0], used, local), 1)
    is_kept = find_kept(inputs, effects)
    listed = inputs.data.matrix.names.tolist() if parts.encoding is None else parts.encoding.inputs
    data = take_inputs(X, listed, groupings[0].names[np.unique(pairs)].tolist(), inputs.data.n_rows)
    rows = read_rows(inputs, parts.y, groupings[0], used, effects, is_kept, data)
    if not tree_model.is_additive:
        # The origin of the target differs between folds.
        origin = inputs.data.target.origin
        moved = replace(rows.rows, prediction=rows.rows.prediction + origin)
        rows = replace(rows, rows=moved, target=rows.target + origin)
    return FoldPairs(
        rows,
        np.stack([effects.take_joint(is_kept, slice(None), c)[0].T for c in range(rows.target.shape[1])], axis=2),
        is_kept,
        parts.model,
        tree_model.n_trees,
        groupings[0],
        pairs,
        used,
        [groupings[-1].names[np.flatnonzero(groupings[0].group_of == feature)].tolist() for feature in used],
        notes,
    )


def join_fold_pairs(
    parts: Sequence[FoldPairs],
    folds: Folds,
    sample_weight: Floats | None,
    groups: NDArray[np.int64] | None,
    copies: Copies | None,
    invalid: str | None,
    n_threads: int,
) -> Interactions:
    """Score pairs on the rows of all folds, each with the model that did not see it."""
    clusters = copies.groups if groups is None and copies is not None else groups
    first, tree_model = parts[0], open_model(parts[0].model)
    for part in parts[1:]:
        if part.grouping.names.tolist() != first.grouping.names.tolist():
            raise ValueError(
                "folds must have the same features, but a pipeline dropped some; pass feature_groups= so that "
                "every group has a column in every fold."
            )
        if part.joint.shape[2] != first.joint.shape[2]:
            raise ValueError("folds must have the same classes, but some lack a class; pass cv=StratifiedKFold().")
    # If folds chose different features to control for, those that all of them chose.
    used = first.used[[all(feature in part.used for part in parts) for feature in first.used]]
    places = [[part.used.tolist().index(feature) for feature in used] for part in parts]
    local = np.searchsorted(np.unique(first.pairs), first.pairs)
    kept = np.concatenate([test[part.is_kept] for test, part in zip(folds.test, parts, strict=True)])
    order = np.argsort(kept, kind="stable")

    def join(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate(arrays)[order]

    own_groups = None if clusters is None else np.unique(clusters[kept[order]], return_inverse=True)[1]
    evaluated = [part.rows.rows for part in parts]
    curvature = [rows.curvature for rows in evaluated if rows.curvature is not None]
    rows = EvaluatedRows(
        residual=join([rows.residual for rows in evaluated]),
        prediction=join([rows.prediction for rows in evaluated]),
        main=join([rows.main[:, own] for rows, own in zip(evaluated, places, strict=True)]),
        weight=join([rows.weight for rows in evaluated]),
        curvature=join(curvature) if curvature else None,
        n_averaged=evaluated[0].n_averaged,
        groups=own_groups,
    )
    names = [[part.columns[own[j]] for part, own in zip(parts, places, strict=True)] for j in range(len(used))]

    def join_feature(feature: int, arrays: Sequence[Sequence[NDArray[Any]]]) -> list[NDArray[Any]]:
        return _align([own[place[feature]] for own, place in zip(arrays, places, strict=True)], names[feature])

    numbers, are_categories = [part.rows.numbers for part in parts], [part.rows.are_categories for part in parts]
    joined = PairRows(
        rows,
        join([part.rows.target for part in parts]),
        join([part.rows.weight for part in parts]),
        [join(join_feature(j, numbers)) for j in range(len(used))],
        [np.any(join_feature(j, are_categories), axis=0) for j in range(len(used))],
        join([part.rows.data for part in parts]),
    )
    joint = join([part.joint for part in parts])
    scorer = joined.make_scorer(folds.measure_reciprocity(folds.weigh(sample_weight)))
    scores = scorer.score(local, lambda block, column: joint[np.newaxis, :, block, column].swapaxes(1, 2), n_threads)
    top, n_features = find_top(scores), len(first.grouping.names)
    surfaces = make_surfaces(joined, joint[:, top], top, first.pairs[top], used, n_features, has_units(tree_model))
    notes = [note for part in parts for note in part.notes]
    if copies is not None:
        notes.append(copies.describe(are_training=True))
    n_never = folds.n_rows - int(np.count_nonzero(folds.is_held_out))
    if n_never:
        notes.append(f"Never held out, and used for training only: {count(n_never, 'row')} of {folds.n_rows:,}.")
    return make_interactions(
        tree_model,
        first.grouping,
        first.pairs,
        len(first.pairs),
        EvaluatedPairs(scores, invalid or scorer.problem, joined.impurity, surfaces),
        rows="folds",
        n_rows=folds.n_rows,
        n_trees=sum(part.n_trees for part in parts),
        groups=groups,
        notes=tuple(dict.fromkeys(notes)),
    )


def _align(arrays: Sequence[NDArray[Any]], names: Sequence[list[str]]) -> list[NDArray[Any]]:
    """Extend the last axis of each array to the columns of all arrays, with zeros in columns that it lacks."""
    everywhere = list(dict.fromkeys(name for own in names for name in own))
    if all(own == everywhere for own in names):
        return list(arrays)
    aligned = []
    for array, own in zip(arrays, names, strict=True):
        wide = np.zeros((*array.shape[:-1], len(everywhere)), dtype=array.dtype)
        wide[..., [everywhere.index(name) for name in own]] = array
        aligned.append(wide)
    return aligned
