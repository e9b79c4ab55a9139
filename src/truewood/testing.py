"""Checks that every adapter must pass, for adapter authors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._engines.selection import use_engine
from truewood._exceptions import AdapterError
from truewood._inputs.tables import FeatureMatrix, read_features
from truewood._rows.training_check import is_training_data
from truewood._scoring.inputs import make_scoring_inputs
from truewood._trees.ensemble import TreeEnsemble
from truewood.adapters import TreeModel, open_model
from truewood.adapters._verification import verify_against_library

__all__ = ["check_adapter"]

# Number of splits that are tested with rows at their thresholds.
_MAX_SPLITS = 200


def check_adapter(model: Any, X: Any, y: Any = None, *, sample_weight: Any = None) -> None:
    """Check that truewood reads a fitted model exactly as the model's own library does.

    Leaves and sums of leaf values must equal those of the library for every tree and row, including rows at thresholds
    and next to them. Trees read one at a time must equal trees read together. If the model records its training rows,
    these must reproduce the counts, weights and values stored in every tree.

    Parameters
    ----------
    model : object
        A fitted model.
    X : array-like or data frame of shape (n_rows, n_features)
        Rows to check; the training data if `y` is given.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs), default=None
        The target the model was trained on; without it, training rows are not checked.
    sample_weight : array-like of shape (n_rows,), default=None
        The sample weights the model was trained with.

    Raises
    ------
    AdapterError
        If anything that the adapter declares or reads differs from the library.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from truewood.testing import check_adapter
    >>> X, y = load_iris(return_X_y=True)
    >>> check_adapter(RandomForestClassifier(10, random_state=0).fit(X, y), X, y)
    """
    tree_model = open_model(model)
    if tree_model.library is None:
        raise AdapterError(
            f"the adapter of {tree_model.name} must have a ReferencePredictor to compare its trees with."
        )
    ensemble = tree_model.read(range(tree_model.n_trees))
    _check_parts(tree_model, ensemble)
    matrix = read_features(X, tree_model.table)
    with use_engine("numpy"):  # the readable reference
        verify_against_library(tree_model, matrix, every_tree=True)
        on_thresholds = _place_on_thresholds(tree_model, ensemble, matrix)
        if on_thresholds is not None:
            verify_against_library(tree_model, on_thresholds, every_tree=True)
        if y is not None and tree_model.training is not None:
            _check_training_rows(tree_model, X, y, sample_weight)


def _check_parts(tree_model: TreeModel, ensemble: TreeEnsemble) -> None:
    """Compare trees read one at a time with trees read together."""
    for tree in range(tree_model.n_trees):
        alone, part = tree_model.read(range(tree, tree + 1)), ensemble[tree : tree + 1]
        for name in ("feature", "threshold", "left", "right", "missing_left", "weight", "value"):
            if not np.array_equal(getattr(alone, name), getattr(part, name), equal_nan=name in ("threshold", "value")):
                raise AdapterError(
                    f"the adapter of {tree_model.name} reads {name} of tree {tree} differently when it is read alone "
                    "than when it is read with others."
                )


def _place_on_thresholds(tree_model: TreeModel, ensemble: TreeEnsemble, matrix: FeatureMatrix) -> FeatureMatrix | None:
    """Make rows with values at thresholds and one step next to them; None unless values are plain numbers."""
    values = matrix.values
    if tree_model.table.dtype is None or not isinstance(values, np.ndarray):
        return None
    splits = ensemble.splits
    if ensemble.categories is not None:
        splits = splits[ensemble.categories.node_set[splits] < 0]
    splits = splits[np.isfinite(ensemble.threshold[splits])][:: max(1, len(splits) // _MAX_SPLITS)]
    if not len(splits):
        return None
    threshold = ensemble.threshold[splits]
    with np.errstate(over="ignore"):
        beside = [threshold, *(_step(threshold, kind, sign) for kind in (np.float32, np.float64) for sign in (1, -1))]
    rows = values[np.arange(len(splits) * len(beside)) % len(values)].copy()
    rows[np.arange(len(rows)), np.tile(ensemble.feature[splits], len(beside))] = np.concatenate(beside)
    rows = rows[np.isfinite(rows).all(axis=1) | np.isnan(rows).any(axis=1)]
    return read_features(rows, replace(tree_model.table, encode=None))  # they are encoded


def _step(threshold: NDArray[np.float64], kind: type[np.floating[Any]], sign: int) -> NDArray[np.float64]:
    return np.nextafter(threshold.astype(kind), kind(sign * np.inf)).astype(np.float64)


def _check_training_rows(tree_model: TreeModel, X: Any, y: Any, sample_weight: Any) -> None:
    """Check that training rows reproduce what each tree has stored."""
    lists = [np.empty(0, dtype=np.int64)] * tree_model.n_trees
    inputs = make_scoring_inputs(tree_model, X, y, rows=lists, sample_weight=sample_weight)
    for tree in range(tree_model.n_trees):
        if not is_training_data(tree_model, tree, inputs.data):
            raise AdapterError(
                f"the training rows that the adapter of {tree_model.name} lists for tree {tree} do not reproduce the "
                "counts, weights and values stored in the tree; pass the X and y of the fit, or correct the adapter."
            )


def __dir__() -> list[str]:
    return list(__all__)
