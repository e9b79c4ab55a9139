"""A forest whose bags are drawn by group, and its adapter: the bags of scikit-learn's forests are drawn row by row."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import truewood as tw
from truewood.adapters._sklearn_trees import view_trees
from truewood.adapters._training_record import InBagRows, TrainingRecord


class GroupForestRegressor(RandomForestRegressor):
    """Every tree grows on the rows of groups that are drawn with replacement."""

    def fit_groups(self, X, y, labels):
        return _grow(self, X, y, labels)


class GroupForestClassifier(RandomForestClassifier):
    """The same for classes."""

    def fit_groups(self, X, y, labels):
        return _grow(self, X, y, labels)


def _grow(forest, X, y, labels):
    n_trees, rng = forest.n_estimators, np.random.default_rng(forest.random_state)
    names, forest.bags_ = np.unique(labels), []
    forest.set_params(bootstrap=False, warm_start=True)
    for number in range(n_trees):
        drawn = rng.choice(names, len(names))
        bag = np.concatenate([np.flatnonzero(labels == name) for name in drawn])
        forest.bags_.append(bag)
        forest.set_params(n_estimators=number + 1).fit(X[bag], y[bag])
    forest.n_rows_ = len(X)
    return forest


def list_oob_rows(forest):
    """The rows that each tree did not see."""
    return [np.setdiff1d(np.arange(forest.n_rows_), bag) for bag in forest.bags_]


def open_model(model):
    """The adapter, which knows the bags."""

    def list_rows(tree, _target, _weight):
        bag = model.bags_[tree]
        return InBagRows(bag, np.bincount(bag, minlength=model.n_rows_).astype(float))

    training = TrainingRecord(
        n_rows=model.n_rows_,
        node_counts=lambda tree: model.estimators_[tree].tree_.n_node_samples,
        training_rows=list_rows,
        bag=lambda tree: model.bags_[tree],
    )
    return view_trees(model, model.estimators_, training=training, why_no_bags="")


for _kind in ("Classifier", "Regressor"):
    tw.register_adapter(f"helpers.grouped_forest.GroupForest{_kind}", "helpers.grouped_forest")
