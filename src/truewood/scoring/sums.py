"""Scores of some trees from what unseen rows sum up to at their nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from truewood.adapters import ModelView
from truewood.formulas.mdi import score_splits as score_mdi
from truewood.formulas.measure import Measure
from truewood.formulas.splits import add_features, find_magnitude, find_skipped
from truewood.scoring.node_means import root_impurity
from truewood.scoring.scores import Scores, place_outputs
from truewood.trees.ensemble import TreeEnsemble
from truewood.trees.node_sums import NodeSums

Floats = NDArray[np.float64]


def score_sums(
    view: ModelView,
    measure: Measure,
    ensemble: TreeEnsemble,
    sums: NodeSums,
    largest: Floats,
    permuted: Floats | None = None,
) -> Scores:
    """Apply a measure to some trees.

    Parameters
    ----------
    view : ModelView
        The model that the trees are of.
    measure : Measure
        What to score by.
    ensemble : TreeEnsemble
        The trees, with training means at their nodes.
    sums : NodeSums
        What unseen rows sum up to there.
    largest : ndarray of shape (n_columns,)
        Largest absolute value of what they sum, a column.
    permuted : ndarray of shape (n_trees, n_features, n_outputs), or None
        The scores, for a measure that does not follow from sums.
    """
    biased_splits = score_mdi(ensemble, sums)
    counted = biased = add_features(ensemble, biased_splits)
    omega = ensemble.omega[ensemble.splits]
    is_counted, magnitude = np.ones(len(omega), dtype=np.bool_), np.zeros(biased.shape[:2])
    if measure.split_score is None:
        if permuted is None:
            raise ValueError(f"measure={measure.name!r} looks at single rows, and sums of rows do not give it.")
        scores = permuted
    elif not measure.uses_unseen:
        scores = biased
    else:
        if measure.skips:
            is_counted = ~find_skipped(ensemble, sums)
        scores = add_features(ensemble, measure.split_score(ensemble, sums) * is_counted[:, np.newaxis])
        counted = add_features(ensemble, biased_splits * is_counted[:, np.newaxis]) * measure.find_scale(ensemble.kind)
        sizes = find_magnitude(ensemble, sums, largest) * is_counted
        magnitude = add_features(ensemble, sizes[:, np.newaxis])[:, :, 0]
    impurity = ensemble.root_impurity
    if np.isnan(impurity).any() and not view.is_additive:
        impurity = np.where(np.isnan(impurity), root_impurity(ensemble, sums), impurity)
    n_scores = view.target.n_scores
    return Scores(
        scores=place_outputs(ensemble.column, scores, n_scores),
        mdi=place_outputs(ensemble.column, biased, n_scores),
        counted_mdi=place_outputs(ensemble.column, counted, n_scores),
        magnitude=magnitude,
        impurity=impurity,
        split_weight=_add_by_tree(ensemble, omega),
        skipped_weight=_add_by_tree(ensemble, np.where(is_counted, 0.0, omega)),
        is_left_out=(sums.weight[ensemble.offset[:-1]] <= 0) & measure.uses_unseen,
    )


def _add_by_tree(ensemble: TreeEnsemble, of_splits: Floats) -> Floats:
    """Sum over the splits of each tree, shape (n_trees,)."""
    tree = np.searchsorted(ensemble.offset, ensemble.splits, side="right") - 1
    return np.bincount(tree, weights=of_splits, minlength=ensemble.n_trees).astype(np.float64, copy=False)
