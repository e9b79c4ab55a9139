"""What splits did to the prediction of each row, feature by feature, along the paths of trees that never saw it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truewood.adapters import ModelView
from truewood.data.tables import FeatureMatrix
from truewood.data.target import NumberTarget
from truewood.engines.engine import get_engine
from truewood.engines.row_lists import RowLists
from truewood.rows.choice import RowChoice
from truewood.scoring.averaging import weigh_trees
from truewood.scoring.node_means import average_leaves
from truewood.scoring.scores import split_trees
from truewood.trees.ensemble import TreeEnsemble
from truewood.trees.row_terms import NumberTerms

Floats = NDArray[np.float64]

# What one step holds at a time; a single tree may be larger.
_BATCH_NODES = 1 << 16
_BATCH_ROWS = 1 << 21


@dataclass(frozen=True, eq=False)
class PathValues:
    """Means over the trees that never saw a row, or sums where trees add up.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_features, n_columns)
        Sum of v_c - v_m over the splits m on the feature that a row passes on its way to their children c.
    roots : ndarray of shape (n_rows, n_columns)
        Values of the roots.
    is_explained : ndarray of bool, shape (n_rows,)
        Whether any tree never saw the row; values and roots of the others are NaN.
    """

    values: Floats
    roots: Floats
    is_explained: NDArray[np.bool_]


def sum_paths(view: ModelView, matrix: FeatureMatrix, choice: RowChoice, n_threads: int) -> PathValues:
    """Sum what splits did along the paths of all trees, a run of trees after the other."""
    n_rows, n_columns = matrix.n_rows, count_columns(view)
    values, roots = np.zeros((n_columns, n_rows, view.n_features)), np.zeros((n_columns, n_rows))
    tree_weight, weight = weigh_trees(view), np.zeros(n_rows)
    most_trees = max(1, _BATCH_ROWS // n_rows)
    for trees in split_trees(view.n_nodes, most_nodes=_BATCH_NODES, most_trees=most_trees):
        ensemble = _read_predicting(view, trees)
        rows = RowLists.join([choice.unseen(tree) for tree in trees])
        leaves = view.find_leaves(trees, ensemble, matrix, rows, n_threads)
        own = tree_weight[trees.start : trees.stop]
        weight += np.bincount(rows.index, weights=np.repeat(own, np.diff(rows.offset)), minlength=n_rows)
        _add_run(ensemble, rows, leaves, own, values, roots)
    is_explained = weight > 0
    if not view.is_additive:
        divisor = np.where(is_explained, weight, 1.0)
        values /= divisor[:, np.newaxis]
        roots /= divisor
    values[:, ~is_explained], roots[:, ~is_explained] = np.nan, np.nan
    return PathValues(np.ascontiguousarray(np.moveaxis(values, 0, 2)), np.ascontiguousarray(roots.T), is_explained)


def count_columns(view: ModelView) -> int:
    """Number of values that trees predict together: classes, outputs, raw scores or risks."""
    target = view.target
    return target.kind.n_columns if target.is_y and not view.is_additive else target.n_scores


def _read_predicting(view: ModelView, trees: range) -> TreeEnsemble:
    """The trees of a range with the values they predict by; inner nodes without one have the mean of their leaves."""
    ensemble = view.read(trees)
    return average_leaves(ensemble) if ensemble.statistic == "leaf" else ensemble


def _add_run(
    ensemble: TreeEnsemble,
    rows: RowLists,
    leaves: NDArray[np.int32],
    tree_weight: Floats,
    values: Floats,
    roots: Floats,
) -> None:
    """Add what some trees did, column by column of what they predict."""
    n_columns, n_rows = roots.shape
    step, at_root = ensemble.value - ensemble.value[ensemble.parent], ensemble.value[ensemble.offset[:-1]]
    target = NumberTarget.of_numbers(np.zeros((n_rows, n_columns)))  # terms are constant
    nothing = np.zeros(len(ensemble.left))
    for column in range(n_columns):
        # Of trees that speak of one column each, those of this one.
        place = column if ensemble.column is None else 0
        is_own = np.ones(ensemble.n_trees, dtype=np.bool_) if ensemble.column is None else ensemble.column == column
        if not is_own.any():
            continue
        n_listed = np.diff(rows.offset)
        is_listed = np.repeat(is_own, n_listed)
        listed = RowLists(rows.index[is_listed], np.append(0, np.cumsum(n_listed * is_own)))
        weight = np.repeat(tree_weight, n_listed * is_own)
        terms = NumberTerms(nothing[:, np.newaxis], nothing, np.ascontiguousarray(step[:, place]))
        get_engine().add_terms(ensemble, leaves[is_listed], listed, weight, target, terms, values[column])
        before = weight * np.repeat(at_root[:, place], n_listed * is_own)
        roots[column] += np.bincount(listed.index, weights=before, minlength=n_rows)
