"""scikit-learn's trees and forests, and functions that adapters of other ensembles share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_regressor
from sklearn.tree import BaseDecisionTree
from sklearn.utils.validation import check_is_fitted

from truewood._inputs.tables import InputSpec
from truewood._inputs.target import TargetKind
from truewood._sklearn_compat import (
    MISSING_IS_TRUSTED,
)
from truewood._trees.ensemble import TreeArrays, TreeEnsemble
from truewood.adapters._sklearn_bags import list_every_row, record_forest
from truewood.adapters._sklearn_categories import check_nodes, find_encoder, read_categories
from truewood.adapters._training_record import TrainingRecord
from truewood.adapters._tree_model import ReferencePredictor, TargetSpec, TreeModel, TreeReader

WHY_NO_BAGS = "was fit with bootstrap=False, so every tree was fit on every row"


def open_model(model: Any) -> TreeModel:
    """Read a fitted tree or forest."""
    check_is_fitted(model)
    if not isinstance(model, BaseDecisionTree):
        return view_trees(model, model.estimators_, training=record_forest(model), why_no_bags=WHY_NO_BAGS)
    training = TrainingRecord(
        n_rows=int(model.tree_.n_node_samples[0]),
        node_counts=lambda _tree: model.tree_.n_node_samples,
        training_rows=lambda _tree, target, weight: list_every_row(model.class_weight, target, weight),
        is_exact=False,  # rows of weight 0 are not counted
    )
    return view_trees(model, [model], training=training, why_no_bags="is a single tree, which was fit on every row")


def view_trees(
    model: Any,
    trees: Sequence[Any],
    *,
    training: TrainingRecord | None,
    why_no_bags: str,
    features: Sequence[NDArray[Any]] | None = None,
    tree_weight: NDArray[np.float64] | None = None,
    takes_missing: bool = True,
) -> TreeModel:
    """View fitted trees as one model.

    Parameters
    ----------
    model : estimator
        The ensemble, or the tree itself.
    trees : sequence of BaseDecisionTree
        Its trees.
    training : TrainingRecord or None
        What is recorded about their training data.
    why_no_bags : str
        Why there are no bags, if so.
    features : sequence of ndarray or None
        For each tree, the column of X for each of its own columns.
    tree_weight : ndarray of shape (n_trees,), or None
        Weight of each tree; None if all are equal.
    takes_missing : bool
        Whether the ensemble supports missing values if its trees do.
    """
    kind = _find_target_kind(model)
    table = make_input_spec(model, trees, features, takes_missing=takes_missing)
    are_in_place = features is None and table.encode is None and _find_statistic(trees[0]) == "mean"
    return TreeModel(
        table=table,
        target=TargetSpec(kind),
        reader=TreeReader(
            count_nodes(trees),
            partial(_read_trees, trees, features, kind, model.n_features_in_),
            tree_weight=tree_weight,
            library=_make_reference(trees, features, kind),
            find_tree_arrays=partial(_find_tree_arrays, trees, kind) if are_in_place else None,
        ),
        training=training,
        why_no_bags=why_no_bags,
    )


def _make_reference(
    trees: Sequence[Any], features: Sequence[NDArray[Any]] | None, kind: TargetKind
) -> ReferencePredictor:
    """Leaves and predictions of the trees themselves."""

    def add_values(chosen: range, values: NDArray[Any]) -> NDArray[Any]:
        added: Any = 0.0
        for t in chosen:
            own = values if features is None else np.ascontiguousarray(values[:, features[t]])
            added = added + _predict(trees[t], own, kind)
        return np.asarray(added)

    def find_leaves(chosen: range, values: NDArray[Any]) -> NDArray[Any]:
        leaves = []
        for t in chosen:
            own = values if features is None else np.ascontiguousarray(values[:, features[t]])
            leaves.append(trees[t].tree_.apply(own))
        return np.column_stack(leaves)

    return ReferencePredictor("scikit-learn", sklearn.__version__, add_values=add_values, find_leaves=find_leaves)


def _predict(tree: Any, values: NDArray[Any], kind: TargetKind) -> NDArray[np.float64]:
    """Numbers or probabilities of classes, shape (n_rows, n_columns), as a tree predicts them."""
    if getattr(tree, "is_categorical_", None) is not None:
        # `predict` would encode the values again.
        return _arrange(tree, tree.tree_.predict(values).reshape(len(values), tree.n_outputs_, -1), kind)
    if not kind.is_classification:
        numbers: NDArray[np.float64] = tree.predict(values, check_input=False).reshape(len(values), -1)
        return numbers
    probabilities = tree.predict_proba(values, check_input=False)
    if kind.n_outputs > 1:
        return np.hstack(probabilities)
    # A bagged tree that was fit on some of the classes stores their codes.
    placed = np.zeros((len(values), kind.n_columns))
    has_all = probabilities.shape[1] == kind.n_columns
    placed[:, slice(None) if has_all else tree.classes_.astype(np.intp)] = probabilities
    return placed


def count_nodes(trees: Sequence[Any]) -> NDArray[np.int64]:
    """Number of nodes of each fitted tree, shape (n_trees,); trees whose nodes truewood does not know are refused."""
    check_nodes(trees[0].tree_)
    return np.array([tree.tree_.node_count for tree in trees], dtype=np.int64)


def make_input_spec(
    model: Any, trees: Sequence[Any], features: Sequence[NDArray[Any]] | None = None, *, takes_missing: bool = True
) -> InputSpec:
    """The table that an ensemble of trees expects."""
    return InputSpec(
        type(model).__name__,
        model.n_features_in_,
        getattr(model, "feature_names_in_", None),
        why_no_missing=find_missing_problem(model, trees[0], takes_missing),
        takes_sparse_missing=False,
        encode=find_encoder(model, trees, features),
    )


def _find_target_kind(model: Any) -> TargetKind:
    if is_classifier(model):
        classes = model.classes_ if isinstance(model.classes_, list) else [model.classes_]
        return TargetKind(tuple(np.asarray(labels) for labels in classes), len(classes))
    if is_regressor(model):
        tree = model.estimators_[0] if hasattr(model, "estimators_") else model
        return TargetKind((), tree.n_outputs_)
    raise TypeError(
        f"model must be a classifier or regressor, got {type(model).__name__}, which has no target to score "
        "its splits against."
    )


def find_missing_problem(model: Any, tree: Any, takes_missing: bool = True) -> str | None:
    """Why X may not contain NaN."""
    if not MISSING_IS_TRUSTED:
        return (
            "trees of scikit-learn before 1.8, unlike later ones, route missing values differently in prediction and "
            "training (scikit-learn/scikit-learn#32351)"
        )
    accepts = takes_missing and tree.__sklearn_tags__().input_tags.allow_nan
    return None if accepts else f"{type(model).__name__} does not support missing values"


def _read_trees(
    trees: Sequence[Any], features: Sequence[NDArray[Any]] | None, kind: TargetKind, n_features: int, chosen: range
) -> TreeEnsemble:
    trees = trees[chosen.start : chosen.stop]
    features = None if features is None else features[chosen.start : chosen.stop]
    values = [_arrange(tree, tree.tree_.value, kind) for tree in trees]
    return TreeEnsemble(
        **join_structure([tree.tree_ for tree in trees], features),
        value=_join(values),
        root_impurity=np.array(
            [_root_impurity(tree, value[0], kind) for tree, value in zip(trees, values, strict=True)]
        ),
        n_features=n_features,
        kind=kind,
        statistic=_find_statistic(trees[0]),
    )


def _find_tree_arrays(trees: Sequence[Any], kind: TargetKind) -> list[TreeArrays] | None:
    """Views of the trees' arrays; None if values are not in the order of the model's columns."""
    if kind.is_classification and kind.n_outputs > 1:
        return None
    arrays = []
    for tree in trees:
        inner = tree.tree_
        value = inner.value[:, 0, :] if kind.is_classification else inner.value[:, :, 0]
        if value.shape[1] != kind.n_columns:
            return None
        arrays.append(
            TreeArrays(
                feature=inner.feature,
                threshold=inner.threshold,
                left=inner.children_left,
                right=inner.children_right,
                missing_left=inner.missing_go_to_left,
                weight=inner.weighted_n_node_samples,
                value=value,
                root_impurity=_root_impurity(tree, value[0], kind),
            )
        )
    return arrays


def join_structure(inner: Sequence[Any], features: Sequence[NDArray[Any]] | None = None) -> dict[str, Any]:
    """Concatenate the splits and weights of scikit-learn's inner trees, as arguments of `TreeEnsemble`."""
    offset = np.cumsum([0, *(tree.node_count for tree in inner)])
    columns = [tree.feature for tree in inner]
    if features is not None:
        # At leaves the feature is negative and not read.
        columns = [chosen[np.maximum(column, 0)] for column, chosen in zip(columns, features, strict=True)]
    return {
        "feature": _join([column.astype(np.int32) for column in columns]),
        "threshold": _join([tree.threshold for tree in inner]),
        "left": _join([_shift(tree.children_left, start) for tree, start in zip(inner, offset, strict=False)]),
        "right": _join([_shift(tree.children_right, start) for tree, start in zip(inner, offset, strict=False)]),
        "missing_left": _join([tree.missing_go_to_left.astype(np.bool_) for tree in inner]),
        "weight": _join([tree.weighted_n_node_samples for tree in inner]),
        "offset": offset,
        "categories": read_categories(inner),
    }


def _join(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _shift(children: NDArray[Any], start: int) -> NDArray[np.int32]:
    own = children.astype(np.int32)
    return np.where(own < 0, own, own + np.int32(start)) if start else own


def _arrange(tree: Any, value: NDArray[np.float64], kind: TargetKind) -> NDArray[np.float64]:
    """Values of shape (n, n_outputs, n_classes), as the tree stores them, in the columns of the model."""
    if not kind.is_classification:
        return value[:, :, 0]
    if kind.n_outputs > 1:
        return np.concatenate([value[:, o, : len(labels)] for o, labels in enumerate(kind.classes)], axis=1)
    if value.shape[2] == kind.n_columns:
        return value[:, 0, :]
    # A bagged tree that was fit on some of the classes stores their codes.
    placed = np.zeros((len(value), kind.n_columns))
    placed[:, tree.classes_.astype(np.intp)] = value[:, 0, : len(tree.classes_)]
    return placed


def _find_statistic(tree: Any) -> str:
    if tree.criterion == "absolute_error":
        return "median"
    return "mean" if tree.monotonic_cst is None else "clipped mean"


def _root_impurity(tree: Any, root: NDArray[np.float64], kind: TargetKind) -> float:
    if kind.is_classification:
        return float(1.0 - (root @ root) / kind.n_outputs)
    return float(tree.tree_.impurity[0]) if tree.criterion in ("squared_error", "friedman_mse") else float("nan")
