"""imbalanced-learn's BalancedRandomForestClassifier: each tree has a balanced sample of its own."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from truewood.adapters.sklearn_forest import draw_bag, weigh_bag
from truewood.adapters.sklearn_tree import view_trees
from truewood.adapters.view import Bags, ModelView


def open_model(model: Any) -> ModelView:
    """Read a fitted balanced forest."""
    check_is_fitted(model)
    bags = None
    if not model.bootstrap or model.class_weight in (None, "balanced_subsample"):
        bags = Bags(
            n_rows=None,
            draw=lambda tree: _sample(model, tree)[_draw_positions(model, tree)],
            enter=lambda tree: _sample(model, tree)[np.flatnonzero(np.bincount(_draw_positions(model, tree)))],
            weigh=lambda tree, target, weight: weigh_bag(
                model, _sample(model, tree)[_draw_positions(model, tree)], target, weight
            ),
        )
    return view_trees(
        model,
        model.estimators_,
        features=None,
        bags=bags,
        no_bags="was fit with both bootstrap and class_weight, and does not record the bags that gives",
    )


def _sample(forest: Any, tree: int) -> NDArray[Any]:
    sample: NDArray[Any] = forest.samplers_[tree].sample_indices_
    return sample


def _draw_positions(forest: Any, tree: int) -> NDArray[Any]:
    """Where in the tree's balanced sample its training rows stand."""
    n_balanced = len(_sample(forest, tree))
    if not forest.bootstrap:
        return np.arange(n_balanced)
    # The forest leaves out what scikit-learn's `estimators_samples_` reads. The root's weight is the number of draws.
    alone = copy.copy(forest)
    alone._n_samples = n_balanced
    alone._n_samples_bootstrap = round(forest.estimators_[tree].tree_.weighted_n_node_samples[0])
    alone._sample_weight = None
    return draw_bag(alone, tree)
