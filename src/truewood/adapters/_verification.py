"""Whether trees that were read say of a few rows what the library itself says: a changed file format is an error.

Leaves and the sum of values are compared. Weights of nodes are not: no library tells them but where they are read from.
Nothing is compared for a `TreeEnsemble`, which has no library.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._engines.row_lists import RowLists
from truewood._exceptions import AdapterError
from truewood._inputs.tables import FeatureMatrix
from truewood._trees.ensemble import TreeEnsemble
from truewood.adapters._tree_model import ReferencePredictor, TreeModel

# Rows, and trees of a forest, that are compared.
_N_ROWS = 8
_N_TREES = 3
# What libraries that add up in float32 may be off by, of the sum of all that is added, and of the raw score itself.
_ROUNDING_OF_SUMMANDS = 1e-4
_ROUNDING_OF_SCORE = 1e-5


def verify_against_library(
    tree_model: TreeModel, matrix: FeatureMatrix, *, every_tree: bool = False
) -> NDArray[np.float64] | None:
    """Refuse a model whose trees, as they were read, give a few of the rows other leaves or values than its library.

    Parameters
    ----------
    tree_model : TreeModel
        The model; one whose adapter knows of no library to ask is taken as it is.
    matrix : FeatureMatrix
        The rows to be scored, of which some are compared.
    every_tree : bool
        Whether to compare every tree and every row.

    Returns
    -------
    ndarray of shape (n_scores,), or None
        What the library adds to the values of additive trees; None for other trees, or where it cannot be asked.
    """
    library, constant = tree_model.library, None
    if library is None:
        return None
    few = matrix
    if not every_tree:
        few = matrix.take_rows(np.unique(np.linspace(0, matrix.n_rows - 1, _N_ROWS).astype(np.int64)))
    every_row = np.arange(few.n_rows)
    values = few.values if tree_model.table.dtype is None else few.take(every_row)
    for trees in _choose_trees(tree_model, every_tree=every_tree):
        ensemble = tree_model.read(trees)
        leaves = tree_model.find_leaves(trees, ensemble, few, RowLists.join([every_row] * len(trees)))
        leaves = leaves.reshape(len(trees), -1).T
        if library.find_leaves is not None:
            _compare_leaves(leaves, np.asarray(library.find_leaves(trees, values)), tree_model.name, library)
        if library.add_values is not None:
            added = np.asarray(library.add_values(trees, values))
            constant = _compare_values(ensemble, leaves, added, tree_model, library)
    return constant if tree_model.is_additive else None


def _choose_trees(tree_model: TreeModel, *, every_tree: bool) -> list[range]:
    """All trees where they add up, and else a few, as a forest may be large."""
    if tree_model.is_additive:
        return [range(tree_model.n_trees)]
    if every_tree:
        return [range(tree, tree + 1) for tree in range(tree_model.n_trees)]
    return [range(t, t + 1) for t in np.unique(np.linspace(0, tree_model.n_trees - 1, _N_TREES).astype(int)).tolist()]


def _compare_leaves(found: NDArray[Any], own: NDArray[Any], name: str, library: ReferencePredictor) -> None:
    """Whether the same rows share a leaf, whatever number a library gives it."""
    own = own.reshape(len(found), -1)
    if own.shape != found.shape:
        raise _disagree(name, library, f"{found.shape[1]} trees, where it has {own.shape[1]}")
    ours, theirs = (leaves[:, np.newaxis] == leaves[np.newaxis] for leaves in (found, own))
    if not np.array_equal(ours, theirs):
        n_trees = int((ours != theirs).any(axis=(0, 1)).sum())
        raise _disagree(name, library, f"rows of X reach other leaves in {n_trees} of {found.shape[1]} trees")


def _compare_values(
    ensemble: TreeEnsemble, leaves: NDArray[Any], own: NDArray[Any], tree_model: TreeModel, library: ReferencePredictor
) -> NDArray[np.float64]:
    """Whether values add up to the library's own sum, of additive trees but for a constant per raw score: give that."""
    own = own.reshape(len(leaves), -1).astype(np.float64)
    n_columns = tree_model.target.n_scores if tree_model.is_additive else ensemble.kind.n_columns
    if own.shape[1] != n_columns:
        raise _disagree(tree_model.name, library, f"{n_columns} raw scores, where it gives {own.shape[1]}")
    summed, size = (_add(ensemble, leaves, value, n_columns) for value in (ensemble.value, np.abs(ensemble.value)))
    difference = own - summed
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
