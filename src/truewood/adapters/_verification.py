"""Verify the trees that were read against the library itself on a few rows, to detect a changed file format.

Leaves and sums of values are compared. Node weights are not: libraries do not provide them elsewhere. A `TreeEnsemble`
has no library to compare with.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._engines.records import RowLists
from truewood._exceptions import AdapterError
from truewood._inputs.tables import FeatureMatrix
from truewood._trees.ensemble import TreeEnsemble
from truewood.adapters._tree_model import ReferencePredictor, TreeModel

# Numbers of rows, and of trees of a forest, that are compared.
_N_ROWS = 8
_N_TREES = 3
# Tolerance for libraries that sum in float32, relative to the sum of absolute summands and to the raw score.
_ROUNDING_OF_SUMMANDS = 1e-4
_ROUNDING_OF_SCORE = 1e-5


def verify_against_library(
    tree_model: TreeModel, matrix: FeatureMatrix, *, every_tree: bool = False
) -> NDArray[np.float64] | None:
    """Raise an error if the trees that were read give other leaves or values than the library.

    Parameters
    ----------
    tree_model : TreeModel
        The model; one without a `ReferencePredictor` is not verified.
    matrix : FeatureMatrix
        The rows to be scored; some of them are compared.
    every_tree : bool
        Whether to compare every tree and every row.

    Returns
    -------
    ndarray of shape (n_scores,), or None
        The constant that the library adds to the values of additive trees; None if there is none or it is unknown.
    """
    library, constant = tree_model.library, None
    if library is None:
        return None
    sample = matrix
    if not every_tree:
        sample = matrix.take_rows(np.unique(np.linspace(0, matrix.n_rows - 1, _N_ROWS).astype(np.int64)))
    every_row = np.arange(sample.n_rows)
    values = sample.values if tree_model.table.dtype is None else sample.take(every_row)
    for trees in _choose_trees(tree_model, every_tree=every_tree):
        ensemble = tree_model.read(trees)
        leaves = tree_model.find_leaves(trees, ensemble, sample, RowLists.join([every_row] * len(trees)))
        leaves = leaves.reshape(len(trees), -1).T
        if library.find_leaves is not None:
            _compare_leaves(leaves, np.asarray(library.find_leaves(trees, values)), tree_model.name, library)
        if library.add_values is not None:
            added = np.asarray(library.add_values(trees, values))
            constant = _compare_values(ensemble, leaves, added, tree_model, library)
    return constant if tree_model.is_additive else None


def _choose_trees(tree_model: TreeModel, *, every_tree: bool) -> list[range]:
    """All trees if they are additive; otherwise a few, because a forest may be large."""
    if tree_model.is_additive:
        return [range(tree_model.n_trees)]
    if every_tree:
        return [range(tree, tree + 1) for tree in range(tree_model.n_trees)]
    return [range(t, t + 1) for t in np.unique(np.linspace(0, tree_model.n_trees - 1, _N_TREES).astype(int)).tolist()]


def _compare_leaves(found: NDArray[Any], own: NDArray[Any], name: str, library: ReferencePredictor) -> None:
    """Check that the same rows share a leaf, whatever the library's leaf numbers are."""
    own = own.reshape(len(found), -1)
    if own.shape != found.shape:
        raise _disagree(name, library, f"{found.shape[1]} trees instead of {own.shape[1]}")
    ours, theirs = found[:, np.newaxis] == found[np.newaxis], own[:, np.newaxis] == own[np.newaxis]
    if not np.array_equal(ours, theirs):
        n_trees = int((ours != theirs).any(axis=(0, 1)).sum())
        raise _disagree(name, library, f"rows of X reach different leaves in {n_trees} of {found.shape[1]} trees")


def _compare_values(
    ensemble: TreeEnsemble, leaves: NDArray[Any], own: NDArray[Any], tree_model: TreeModel, library: ReferencePredictor
) -> NDArray[np.float64]:
    """Check values against the library's own sum; return the difference, a constant per raw score of additive trees."""
    own = own.reshape(len(leaves), -1).astype(np.float64)
    n_columns = tree_model.target.n_scores if tree_model.is_additive else ensemble.kind.n_columns
    if own.shape[1] != n_columns:
        raise _disagree(tree_model.name, library, f"{n_columns} raw scores instead of {own.shape[1]}")
    size = _add(ensemble, leaves, np.abs(ensemble.value), n_columns)
    difference = own - _add(ensemble, leaves, ensemble.value, n_columns)
    constant: NDArray[np.float64] = difference.mean(axis=0)
    if tree_model.is_additive:
        difference -= constant
    allowed = _ROUNDING_OF_SUMMANDS * size.max() + _ROUNDING_OF_SCORE * np.abs(own).max()
    if not np.abs(difference).max() <= allowed:
        raise _disagree(
            tree_model.name, library, f"raw predictions of rows of X differ by {np.abs(difference).max():.3g}"
        )
    return constant


def _add(ensemble: TreeEnsemble, leaves: NDArray[Any], value: NDArray[np.float64], n_columns: int) -> NDArray[Any]:
    """Sum of the values of each row's leaves, shape (n_rows, n_columns)."""
    if ensemble.column is None:
        summed: NDArray[np.float64] = value[leaves].sum(axis=1)
        return summed
    added = np.zeros((n_columns, len(leaves)))
    np.add.at(added, ensemble.column, value[leaves, 0].T)
    return added.T


def _disagree(name: str, library: ReferencePredictor, what: str) -> AdapterError:
    return AdapterError(
        f"truewood reads this {name} differently from {library.name} {library.version}: {what}; please report it, and "
        f"use another release of {library.name} until then."
    )
