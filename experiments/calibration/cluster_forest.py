"""Forests with bags drawn by cluster, and an adapter that reports these bags to truewood."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import truewood as tw
from truewood.adapters import InBagRows, TrainingRecord, TreeModel
from truewood.adapters._sklearn_trees import view_trees


class ClusterForestClassifier(RandomForestClassifier):
    """A forest that remembers its bags."""


class ClusterForestRegressor(RandomForestRegressor):
    """A forest that remembers its bags."""


def grow(forest: Any, rng: np.random.Generator, X: np.ndarray, y: np.ndarray, labels: np.ndarray) -> Any:
    """Grow each tree on the rows of clusters drawn with replacement."""
    n_trees, n_clusters = forest.n_estimators, labels.max() + 1
    forest.set_params(bootstrap=False, warm_start=True)
    forest.bags_, forest.n_rows_ = [], len(X)
    for number in range(n_trees):
        drawn = rng.integers(0, n_clusters, n_clusters)
        bag = np.concatenate([np.flatnonzero(labels == cluster) for cluster in drawn])
        forest.set_params(n_estimators=number + 1).fit(X[bag], y[bag])
        forest.bags_.append(bag)
    return forest


def open_model(model: Any) -> TreeModel:
    """Read a forest with its bags."""
    training = TrainingRecord(
        n_rows=model.n_rows_,
        node_counts=lambda tree: model.estimators_[tree].tree_.n_node_samples,
        training_rows=lambda tree, _target, _weight: InBagRows(
            model.bags_[tree], np.bincount(model.bags_[tree], minlength=model.n_rows_).astype(float)
        ),
        bag=lambda tree: model.bags_[tree],
    )
    return view_trees(model, model.estimators_, training=training, why_no_bags="")


for _task in ("Classifier", "Regressor"):
    tw.register_adapter(f"cluster_forest.ClusterForest{_task}", "cluster_forest")
