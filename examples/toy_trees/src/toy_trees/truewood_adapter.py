"""How truewood reads a `StumpForest`; the entry point makes truewood import this module for the first such model."""

from __future__ import annotations

from typing import Any

import numpy as np

import toy_trees
from truewood.adapters import (
    InBagRows,
    InputSpec,
    ReferencePredictor,
    TargetKind,
    TargetSpec,
    TrainingRecord,
    TreeEnsemble,
    TreeModel,
    TreeReader,
)


def open_model(model: toy_trees.StumpForest) -> TreeModel:
    """Describe the forest's input, target, trees and training rows."""
    if not hasattr(model, "mean_"):
        raise ValueError(f"{type(model).__name__} is not fitted; call fit first.")
    n_rows, n_columns = model.shape_

    def list_training_rows(tree: int, _target: Any, _sample_weight: Any) -> InBagRows:
        bag = model.bags_[tree]
        return InBagRows(bag, np.bincount(bag, minlength=n_rows).astype(np.float64))

    return TreeModel(
        table=InputSpec("StumpForest", n_columns, dtype="float64"),
        target=TargetSpec(TargetKind()),  # one number
        reader=TreeReader.of_ensemble(read_trees(model), library=make_reference(model)),
        training=TrainingRecord(  # allows scores on out-of-bag rows
            n_rows=n_rows,
            node_counts=lambda tree: model.count_[tree],
            training_rows=list_training_rows,
            bag=lambda tree: model.bags_[tree],
        ),
    )


def read_trees(model: toy_trees.StumpForest) -> TreeEnsemble:
    """Lay out all trees one after the other: the root, its left leaf, its right leaf."""
    n_trees = len(model.threshold_)
    root = 3 * np.arange(n_trees)
    feature, left, right = (np.full(3 * n_trees, -1) for _ in range(3))
    feature[root], left[root], right[root] = model.column_, root + 1, root + 2
    threshold = np.zeros(3 * n_trees)
    threshold[root] = model.threshold_
    return TreeEnsemble(
        feature=feature,
        threshold=threshold,
        left=left,
        right=right,
        missing_left=np.zeros(3 * n_trees, dtype=bool),
        weight=model.count_.ravel(),
        value=model.mean_.reshape(-1, 1),
        offset=3 * np.arange(n_trees + 1),
        root_impurity=np.full(n_trees, np.nan),  # not stored
        n_features=model.shape_[1],
        kind=TargetKind(),
        x_dtype="float64",
    )


def make_reference(model: toy_trees.StumpForest) -> ReferencePredictor:
    """The library's own leaves and predictions, which every call compares with those of the trees above."""

    def find_leaves(trees: range, X: np.ndarray) -> np.ndarray:
        return model.apply(X)[:, trees.start : trees.stop]

    return ReferencePredictor(
        "toy_trees",
        toy_trees.__version__,
        add_values=lambda trees, X: model.mean_[np.array(trees), find_leaves(trees, X)].sum(axis=1),
        find_leaves=find_leaves,
    )
