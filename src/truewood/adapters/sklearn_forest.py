"""scikit-learn's RandomForest and ExtraTrees and their subclasses, with their bootstrap bags."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from truewood.adapters.sklearn_tree import SKLEARN_VERSION, view_trees
from truewood.adapters.view import Bags, ModelView
from truewood.target import Target

# Since then weights set the probability to be drawn; before, they multiplied the number of times a row was drawn.
WEIGHTS_ARE_DRAWN = SKLEARN_VERSION >= (1, 9)


def open_model(model: Any) -> ModelView:
    """Read a fitted forest."""
    check_is_fitted(model)
    bags = None
    if model.bootstrap:
        bags = Bags(
            n_rows=model._n_samples,
            draw=lambda tree: draw_bag(model, tree),
            enter=lambda tree: np.flatnonzero(np.bincount(draw_bag(model, tree))),
            weigh=lambda tree, target, weight: weigh_bag(model, draw_bag(model, tree), target, weight),
        )
    return view_trees(
        model,
        model.estimators_,
        features=None,
        bags=bags,
        no_bags="was fit with bootstrap=False, so every tree saw every row",
    )


def draw_bag(forest: Any, tree: int) -> NDArray[Any]:
    """Training rows of one tree: the public `estimators_samples_` of a forest that has only this tree."""
    alone = copy.copy(forest)
    alone.estimators_ = [forest.estimators_[tree]]
    bag: NDArray[Any] = alone.estimators_samples_[0]
    return bag


def weigh_bag(
    forest: Any, bag: NDArray[Any], target: Target, sample_weight: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Weight of every row in the fit of the tree with this bag."""
    weight = np.bincount(bag, minlength=target.n_rows).astype(np.float64)
    class_weight = getattr(forest, "class_weight", None)
    if class_weight == "balanced_subsample" and forest.bootstrap:
        weight *= compute_sample_weight("balanced", target.labels(), indices=bag)
        class_weight = None
    if forest.bootstrap and WEIGHTS_ARE_DRAWN:
        return weight
    if class_weight is not None:
        named = "balanced" if class_weight == "balanced_subsample" else class_weight
        weight *= compute_sample_weight(named, target.labels())
    return weight if sample_weight is None else weight * sample_weight
