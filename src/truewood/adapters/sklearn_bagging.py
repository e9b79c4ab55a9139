"""scikit-learn's Bagging over trees, with its bags of rows and of columns."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import BaseDecisionTree
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from truewood.adapters.sklearn_forest import WEIGHTS_ARE_DRAWN
from truewood.adapters.sklearn_tree import view_trees
from truewood.adapters.view import Bags, ModelView
from truewood.target import Target


def open_model(model: Any) -> ModelView:
    """Read a fitted Bagging ensemble."""
    check_is_fitted(model)
    other = next((tree for tree in model.estimators_ if not isinstance(tree, BaseDecisionTree)), None)
    if other is not None:
        raise TypeError(f"{type(model).__name__} must be fit over decision trees, got {type(other).__name__}.")
    bags = None
    # A warm start keeps the seeds of its last trees only.
    if len(model._seeds) == len(model.estimators_):
        bags = Bags(
            n_rows=model._n_samples,
            draw=lambda tree: _draw_bag(model, tree),
            enter=lambda tree: _enter_bag(model, tree),
            weigh=lambda tree, target, weight: _weigh_bag(model, tree, target, weight),
        )
    return view_trees(
        model,
        model.estimators_,
        features=model.estimators_features_,
        bags=bags,
        no_bags="was fit with warm_start=True, which forgets the bags of the first trees",
    )


def _draw_bag(bagging: Any, tree: int) -> NDArray[Any]:
    alone = copy.copy(bagging)
    alone._seeds = bagging._seeds[tree : tree + 1]
    bag: NDArray[Any] = alone.estimators_samples_[0]
    return bag


def _enter_bag(bagging: Any, tree: int) -> NDArray[Any]:
    bag = _draw_bag(bagging, tree)
    # Draws are given to the tree as weights of distinct rows, or as copied rows where it may not be given weights.
    are_copied = bagging.estimators_[tree].tree_.n_node_samples[0] == len(bag)
    return bag if are_copied else np.flatnonzero(np.bincount(bag))


def _weigh_bag(
    bagging: Any, tree: int, target: Target, sample_weight: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    weight = np.bincount(_draw_bag(bagging, tree), minlength=target.n_rows).astype(np.float64)
    class_weight = getattr(bagging.estimators_[tree], "class_weight", None)
    if class_weight is not None and target.codes is not None:
        # The tree met the codes of the classes, not their labels.
        weight *= compute_sample_weight(class_weight, target.codes[:, 0])
    return weight if sample_weight is None or WEIGHTS_ARE_DRAWN else weight * sample_weight
