"""imbalanced-learn's BalancedRandomForestClassifier: each tree has a balanced sample of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from truewood._inputs.target import Target
from truewood._sklearn_compat import draw_unrecorded_bag
from truewood.adapters._sklearn_bags import weigh_bag
from truewood.adapters._sklearn_trees import view_trees
from truewood.adapters._training_record import InBagRows, TrainingRecord
from truewood.adapters._tree_model import TreeModel


def open_model(model: Any) -> TreeModel:
    """Read a fitted balanced forest."""
    check_is_fitted(model)

    def training_rows(tree: int, target: Target, sample_weight: NDArray[np.float64] | None) -> InBagRows:
        sample, positions = model.samplers_[tree].sample_indices_, _draw_positions(model, tree)
        weight = weigh_bag(model, sample[positions], target, sample_weight)
        counted = sample[np.flatnonzero(np.bincount(positions))]
        return InBagRows(counted[weight[counted] > 0], weight)

    training = TrainingRecord(
        n_rows=1 + max(int(sampler.sample_indices_.max()) for sampler in model.samplers_),
        node_counts=lambda tree: model.estimators_[tree].tree_.n_node_samples,
        training_rows=training_rows,
        bag=lambda tree: model.samplers_[tree].sample_indices_[_draw_positions(model, tree)],
        is_exact=False,
    )
    has_bags = not model.bootstrap or model.class_weight in (None, "balanced_subsample")
    return view_trees(
        model,
        model.estimators_,
        training=training if has_bags else None,
        why_no_bags="was fit with both bootstrap and class_weight, and does not record the resulting bootstrap samples",
    )


def _draw_positions(forest: Any, tree: int) -> NDArray[Any]:
    """Positions of the tree's training rows in its balanced sample."""
    n_balanced = len(forest.samplers_[tree].sample_indices_)
    if not forest.bootstrap:
        return np.arange(n_balanced)
    # The forest leaves out what scikit-learn's `estimators_samples_` reads. The root's weight is the number of draws.
    return draw_unrecorded_bag(
        forest, tree, n_balanced, round(forest.estimators_[tree].tree_.weighted_n_node_samples[0])
    )
