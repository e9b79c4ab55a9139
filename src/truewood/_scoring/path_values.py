"""Changes of the prediction along the path of each row, by feature, over the trees that the row evaluates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truewood._engines.records import RowLists
from truewood._engines.selection import get_engine
from truewood._inputs.tables import FeatureMatrix
from truewood._inputs.target import NumberTarget
from truewood._rows.evaluation_rows import EvaluationRows
from truewood._scoring.node_means import average_leaves
from truewood._scoring.results import weigh_trees
from truewood._trees.ensemble import TreeEnsemble
from truewood._trees.node_sums import NumberTerms
from truewood.adapters import TreeModel

Floats = NDArray[np.float64]

# Nodes, and rows times trees, of a batch; a single tree may be larger.
_BATCH_NODES = 1 << 16
_BATCH_ROWS = 1 << 21


@dataclass(frozen=True, eq=False)
class PathValues:
    """Means over the trees that a row evaluates, or sums for additive trees.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_features, n_columns)
        Sum of v_c - v_m over the splits m on the feature along the row's path, with c the child on the path.
    roots : ndarray of shape (n_rows, n_columns)
        Values of the roots.
    is_explained : ndarray of bool, shape (n_rows,)
        Whether the row evaluates any tree; values and roots of the others are NaN.
    """

    values: Floats
    roots: Floats
    is_explained: NDArray[np.bool_]


def sum_paths(
    tree_model: TreeModel, matrix: FeatureMatrix, evaluation_rows: EvaluationRows, n_threads: int
) -> PathValues:
    """Sum the changes along the paths of all trees, one batch of trees at a time."""
    n_rows, n_columns = matrix.n_rows, count_columns(tree_model)
    values, roots = np.zeros((n_columns, n_rows, tree_model.n_features)), np.zeros((n_columns, n_rows))
    tree_weight, weight = weigh_trees(tree_model), np.zeros(n_rows)
    most_trees = max(1, _BATCH_ROWS // n_rows)
    for trees in tree_model.split_trees(most_nodes=_BATCH_NODES, most_trees=most_trees):
        ensemble = tree_model.read(trees)
        if ensemble.statistic == "leaf":
            ensemble = average_leaves(ensemble)
        rows = evaluation_rows.of_trees(trees)
        leaves = tree_model.find_leaves(trees, ensemble, matrix, rows, n_threads)
        own = tree_weight[trees.start : trees.stop]
        weight += np.bincount(rows.index, weights=np.repeat(own, np.diff(rows.offset)), minlength=n_rows)
        _add_batch(ensemble, rows, leaves, own, values, roots)
    is_explained = weight > 0
    if not tree_model.is_additive:
        divisor = np.where(is_explained, weight, 1.0)
        values /= divisor[:, np.newaxis]
        roots /= divisor
    values[:, ~is_explained], roots[:, ~is_explained] = np.nan, np.nan
    return PathValues(np.ascontiguousarray(np.moveaxis(values, 0, 2)), np.ascontiguousarray(roots.T), is_explained)


def count_columns(tree_model: TreeModel) -> int:
    """Number of values that the model predicts: classes, outputs, raw scores or risks."""
    target = tree_model.target
    return target.kind.n_columns if target.is_y and not tree_model.is_additive else target.n_scores


def _add_batch(
    ensemble: TreeEnsemble,
    rows: RowLists,
    leaves: NDArray[np.int32],
    tree_weight: Floats,
    values: Floats,
    roots: Floats,
) -> None:
    """Add the changes in some trees, by column of the prediction."""
    n_columns, n_rows = roots.shape
    step, at_root = ensemble.value - ensemble.value[ensemble.parent], ensemble.value[ensemble.offset[:-1]]
    target = NumberTarget.of_numbers(np.zeros((n_rows, n_columns)))  # terms are constant
    nothing = np.zeros(len(ensemble.left))
    for column in range(n_columns):
        # If each tree predicts a single column, the trees of this one.
        place = column if ensemble.column is None else 0
        is_own = np.ones(ensemble.n_trees, dtype=np.bool_) if ensemble.column is None else ensemble.column == column
        if not is_own.any():
            continue
        n_listed = np.diff(rows.offset)
        is_listed = np.repeat(is_own, n_listed)
        listed = RowLists(rows.index[is_listed], np.append(0, np.cumsum(n_listed * is_own)))
        weight = np.repeat(tree_weight, n_listed * is_own)
        terms = NumberTerms(nothing[:, np.newaxis], nothing, np.ascontiguousarray(step[:, place]))
        get_engine().add_path_influence(ensemble, leaves[is_listed], listed, weight, target, terms, values[column])
        before = weight * np.repeat(at_root[:, place], n_listed * is_own)
        roots[column] += np.bincount(listed.index, weights=before, minlength=n_rows)
