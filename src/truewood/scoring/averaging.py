"""From scores by tree, column and output to those of the model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truewood.adapters import ModelView

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Averages:
    """Scores of a model, averaged in three ways.

    Parameters
    ----------
    values : ndarray of shape (n_features,)
        Over trees and outputs.
    per_tree : ndarray of shape (n_trees, n_features)
        Over outputs; NaN for trees that are left out.
    per_output : ndarray of shape (n_outputs, n_features)
        Over trees.
    """

    values: Floats
    per_tree: Floats
    per_output: Floats


def average(scores: Floats, view: ModelView, is_kept: NDArray[np.bool_]) -> Averages:
    """Average scores of shape (n_trees, n_features, n_outputs) over trees and outputs; of additive trees, sum them.

    Outputs are averaged where each is predicted by every tree, and added up where raw scores are.
    """
    scores = scores.copy()
    scores[~is_kept] = np.nan
    n_averaged = _count_outputs(scores, view)
    share = _share_trees(view, is_kept)
    per_output = (share[is_kept, np.newaxis, np.newaxis] * scores[is_kept]).sum(axis=0).T
    return Averages(per_output.sum(axis=0) / n_averaged, scores.sum(axis=2) / n_averaged, per_output)


def average_biased(scores: Floats, view: ModelView) -> Floats:
    """Scores of all trees, also of those that no unseen row scores, shape (n_features,)."""
    share = _share_trees(view, np.ones(view.n_trees, dtype=np.bool_))
    averaged: Floats = (share[:, np.newaxis] * scores.sum(axis=2)).sum(axis=0) / _count_outputs(scores, view)
    return averaged


def average_impurity(impurity: Floats, view: ModelView, is_kept: NDArray[np.bool_]) -> float:
    """Impurity of the target at the roots of the trees that are kept, each as much as its score counts."""
    return float(np.average(impurity[is_kept], weights=weigh_trees(view)[is_kept]))


def weigh_trees(view: ModelView) -> Floats:
    """How much each tree counts, shape (n_trees,)."""
    return np.ones(view.n_trees) if view.tree_weight is None else view.tree_weight


def _count_outputs(scores: Floats, view: ModelView) -> int:
    return 1 if view.is_additive else scores.shape[2]


def _share_trees(view: ModelView, is_kept: NDArray[np.bool_]) -> Floats:
    """What each tree counts for in the model's score, shape (n_trees,): the same, or its own weight, or all of it."""
    if view.is_additive:
        return np.ones(view.n_trees)
    weight = weigh_trees(view)
    share: Floats = np.where(is_kept, weight, 0.0) / weight.sum(where=is_kept)
    return share
