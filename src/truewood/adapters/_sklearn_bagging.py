"""scikit-learn's Bagging over trees, with its bags of rows and of columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import BaseDecisionTree
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from truewood._inputs.target import ClassTarget, Target
from truewood._sklearn_compat import WEIGHTS_ARE_DRAWN, count_training_rows, draw_bagging_bag, has_all_bagging_bags
from truewood.adapters._sklearn_bags import describe_draws
from truewood.adapters._sklearn_trees import view_trees
from truewood.adapters._training_record import InBagRows, TrainingRecord
from truewood.adapters._tree_model import TreeModel


def open_model(model: Any) -> TreeModel:
    """Read a fitted Bagging ensemble."""
    check_is_fitted(model)
    other = next((tree for tree in model.estimators_ if not isinstance(tree, BaseDecisionTree)), None)
    if other is not None:
        raise TypeError(
            f"{type(model).__name__} must consist of decision trees, got {type(other).__name__}; fit it with a "
            "decision tree as its base estimator."
        )
    training = TrainingRecord(
        n_rows=count_training_rows(model),
        node_counts=lambda tree: model.estimators_[tree].tree_.n_node_samples,
        training_rows=lambda tree, target, weight: _list_training_rows(model, tree, target, weight),
        bag=lambda tree: draw_bagging_bag(model, tree),
        draws=describe_draws(model),
    )
    return view_trees(
        model,
        model.estimators_,
        training=training if has_all_bagging_bags(model) else None,
        why_no_bags="was fit with warm_start=True, which forgets the bootstrap samples of the first trees",
        features=model.estimators_features_,
    )


def _list_training_rows(
    bagging: Any, tree: int, target: Target, sample_weight: NDArray[np.float64] | None
) -> InBagRows:
    bag, fitted = draw_bagging_bag(bagging, tree), bagging.estimators_[tree]
    weight = np.bincount(bag, minlength=target.n_rows).astype(np.float64)
    # Draws are given to the tree as weights of distinct rows, or as copied rows where it may not be given weights.
    are_copied = fitted.tree_.n_node_samples[0] == len(bag)
    if getattr(fitted, "class_weight", None) is not None and isinstance(target, ClassTarget):
        # The tree was fit on class codes instead of labels and, if rows were copied, only on those in the bag.
        indices = bag if are_copied else None
        weight *= compute_sample_weight(fitted.class_weight, target.codes[:, 0], indices=indices)
    if sample_weight is not None and not WEIGHTS_ARE_DRAWN:
        weight *= sample_weight
    return InBagRows(bag if are_copied else np.flatnonzero(weight), weight)
