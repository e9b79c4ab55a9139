"""scikit-learn's AdaBoost over trees, and imbalanced-learn's RUSBoostClassifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.tree import BaseDecisionTree
from sklearn.utils.validation import check_is_fitted

from truewood._inputs.target import Target
from truewood.adapters._sklearn_trees import view_trees
from truewood.adapters._training_record import InBagRows, TrainingRecord
from truewood.adapters._tree_model import TreeModel


def open_model(model: Any) -> TreeModel:
    """Read a fitted AdaBoost ensemble."""
    check_is_fitted(model)
    trees = model.estimators_
    other = next((tree for tree in trees if not isinstance(tree, BaseDecisionTree)), None)
    name = type(model).__name__
    if other is not None:
        raise TypeError(
            f"{name} must consist of decision trees, got {type(other).__name__}; fit it with a decision tree as its "
            "base estimator."
        )
    if hasattr(model, "samplers_"):  # RUSBoostClassifier of imbalanced-learn
        why_no_bags, training = (
            "fits each tree to a sample of the rows, weighted by the errors of the trees before it",
            None,
        )
    elif is_classifier(model):
        why_no_bags = "fits every tree to all rows, with weights"
        training = TrainingRecord(
            n_rows=int(trees[0].tree_.n_node_samples[0]),
            node_counts=lambda tree: trees[tree].tree_.n_node_samples,
            training_rows=lambda _tree, target, weight: _list_training_rows(target, weight),
            is_exact=False,  # rows of weight 0 are not counted
            has_weights=False,
        )
    else:
        why_no_bags, training = "does not record the bootstrap samples its trees were fit on", None
    # If boosting stopped early, the last weights belong to no tree; a single bad tree has no weight.
    weight = np.asarray(model.estimator_weights_[: len(trees)], dtype=np.float64)
    return view_trees(
        model,
        trees,
        training=training,
        why_no_bags=why_no_bags,
        tree_weight=weight if weight.any() else None,
        takes_missing=False,
    )


def _list_training_rows(target: Target, sample_weight: NDArray[np.float64] | None) -> InBagRows:
    weight = np.ones(target.n_rows) if sample_weight is None else sample_weight
    return InBagRows(np.flatnonzero(weight), weight)
