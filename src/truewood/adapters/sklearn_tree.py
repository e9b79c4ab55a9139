"""scikit-learn's DecisionTree and ExtraTree, and what every ensemble of them shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted

from truewood.adapters.view import Bags, ModelView
from truewood.ensemble import TreeEnsemble
from truewood.node_sums import add_up
from truewood.target import TargetKind

SKLEARN_VERSION = tuple(map(int, sklearn.__version__.split(".")[:2]))

# Criteria under which a tree stores what the measures need: training means, and Gini or variance at the root.
_MEAN_CRITERIA = ("gini", "entropy", "log_loss", "squared_error", "friedman_mse")


def open_model(model: Any) -> ModelView:
    """Read a fitted DecisionTree or ExtraTree."""
    check_is_fitted(model)
    return view_trees(
        model,
        [model],
        features=None,
        bags=None,
        no_bags="is a single tree, which saw every row it was fit on",
    )


def view_trees(
    model: Any, trees: Sequence[Any], *, features: Sequence[NDArray[Any]] | None, bags: Bags | None, no_bags: str
) -> ModelView:
    """View fitted trees as one model.

    Parameters
    ----------
    model : estimator
        The ensemble, or the tree itself.
    trees : sequence of BaseDecisionTree
        Its trees.
    features : sequence of ndarray or None
        For each tree, the column of X behind each column the tree knows.
    bags : Bags or None
        Training rows of the trees.
    no_bags : str
        Why there are none.
    """
    kind = _target_kind(model)
    stores_means = all(tree.criterion in _MEAN_CRITERIA and tree.monotonic_cst is None for tree in trees)

    def read(chosen: range) -> TreeEnsemble:
        ensemble = _read_trees(
            [trees[t] for t in chosen],
            None if features is None else [features[t] for t in chosen],
            kind,
            model.n_features_in_,
        )
        return ensemble if stores_means else _average_leaves(ensemble)

    return ModelView(
        name=type(model).__name__,
        kind=kind,
        n_features=model.n_features_in_,
        feature_names=getattr(model, "feature_names_in_", None),
        n_nodes=np.array([tree.tree_.node_count for tree in trees], dtype=np.int64),
        read=read,
        no_missing=_find_missing_problem(model, trees[0]),
        holds_means=stores_means,
        training_counts=lambda t: trees[t].tree_.n_node_samples,
        bags=bags,
        no_bags=no_bags,
    )


def _target_kind(model: Any) -> TargetKind:
    if is_classifier(model):
        classes = model.classes_ if isinstance(model.classes_, list) else [model.classes_]
        return TargetKind(tuple(np.asarray(labels) for labels in classes), len(classes))
    if is_regressor(model):
        tree = model.estimators_[0] if hasattr(model, "estimators_") else model
        return TargetKind((), tree.n_outputs_)
    raise TypeError(f"{type(model).__name__} has no target, so its splits cannot be scored by one.")


def _find_missing_problem(model: Any, tree: Any) -> str | None:
    """Why a model's trees may not be given NaN."""
    if SKLEARN_VERSION < (1, 8):
        return (
            f"trees of scikit-learn {sklearn.__version__} send missing values elsewhere in prediction than in training "
            "(scikit-learn/scikit-learn#32351); fit the model with 1.8 or later"
        )
    accepts = tree.__sklearn_tags__().input_tags.allow_nan
    return None if accepts else f"{type(model).__name__} does not take missing values"


def _read_trees(
    trees: Sequence[Any], features: Sequence[NDArray[Any]] | None, kind: TargetKind, n_features: int
) -> TreeEnsemble:
    inner = [tree.tree_ for tree in trees]
    offset = np.cumsum([0, *(tree.node_count for tree in inner)])
    columns = [tree.feature for tree in inner]
    if features is not None:
        # At leaves the feature is negative and stays unread.
        columns = [chosen[np.maximum(column, 0)] for column, chosen in zip(columns, features, strict=True)]
    values = [_read_values(tree, kind) for tree in trees]
    return TreeEnsemble(
        feature=_join([column.astype(np.int32) for column in columns]),
        threshold=_join([tree.threshold for tree in inner]),
        left=_join([_shift(tree.children_left, start) for tree, start in zip(inner, offset, strict=False)]),
        right=_join([_shift(tree.children_right, start) for tree, start in zip(inner, offset, strict=False)]),
        missing_left=_join([tree.missing_go_to_left.astype(np.bool_) for tree in inner]),
        weight=_join([tree.weighted_n_node_samples for tree in inner]),
        value=_join(values),
        offset=offset,
        root_impurity=np.array(
            [_root_impurity(tree, value[0], kind) for tree, value in zip(trees, values, strict=True)]
        ),
        n_features=n_features,
        kind=kind,
    )


def _join(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _shift(children: NDArray[Any], start: int) -> NDArray[np.int32]:
    own = children.astype(np.int32)
    return np.where(own < 0, own, own + np.int32(start)) if start else own


def _read_values(tree: Any, kind: TargetKind) -> NDArray[np.float64]:
    value: NDArray[np.float64] = tree.tree_.value
    if not kind.is_classification:
        return value[:, :, 0]
    if kind.n_outputs > 1:
        return np.concatenate([value[:, o, : len(labels)] for o, labels in enumerate(kind.classes)], axis=1)
    if value.shape[2] == kind.n_columns:
        return value[:, 0, :]
    # A bagged tree that met only some classes knows them by their codes.
    placed = np.zeros((len(value), kind.n_columns))
    placed[:, tree.classes_.astype(np.intp)] = value[:, 0, : len(tree.classes_)]
    return placed


def _root_impurity(tree: Any, root: NDArray[np.float64], kind: TargetKind) -> float:
    if kind.is_classification:
        return float(1.0 - (root @ root) / kind.n_outputs)
    return float(tree.tree_.impurity[0]) if tree.criterion in _MEAN_CRITERIA else float("nan")


def _average_leaves(ensemble: TreeEnsemble) -> TreeEnsemble:
    """Give each inner node the weighted mean of its leaves' values."""
    is_leaf = (ensemble.left < 0)[:, np.newaxis]
    weighted = add_up(ensemble, np.where(is_leaf, ensemble.value * ensemble.weight[:, np.newaxis], 0.0))
    return ensemble.with_values(np.where(is_leaf, ensemble.value, weighted / ensemble.weight[:, np.newaxis]))
