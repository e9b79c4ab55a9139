"""`ScoresByTree`: the scores of trees, computed from the sums of evaluation rows at their nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truewood._measures.registry import Measure
from truewood._measures.split_measures import score_mdi
from truewood._measures.splits import find_magnitude, find_skipped_splits, sum_by_feature
from truewood._scoring.node_means import find_root_impurity
from truewood._trees.ensemble import TreeEnsemble
from truewood._trees.node_sums import NodeSums
from truewood.adapters import TreeModel

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ScoresByTree:
    """Scores of a batch of trees; the first axis is the tree."""

    scores: Floats  # (n_trees, n_features, n_outputs)
    mdi: Floats  # (n_trees, n_features, n_outputs)
    counted_mdi: Floats  # the same of the splits that count, on the scale of the scores
    magnitude: Floats  # (n_trees, n_features): size of the summands of scores, which bounds rounding errors
    impurity: Floats  # (n_trees,): of the root
    split_weight: Floats  # (n_trees,): sum over splits of their share of the training weight
    skipped_weight: Floats  # (n_trees,): the same of splits that do not count
    is_left_out: NDArray[np.bool_]  # (n_trees,): whether no row evaluates the tree

    @classmethod
    def join(cls, parts: list[ScoresByTree]) -> ScoresByTree:
        """Concatenate the scores of several batches."""
        if len(parts) == 1:
            return parts[0]
        names = cls.__dataclass_fields__
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def place_outputs(column: NDArray[np.int32] | None, scores: Floats, n_scores: int) -> Floats:
    """Scores of all outputs, for trees that predict one of them."""
    if column is None or n_scores == 1:
        return scores
    placed = np.zeros((*scores.shape[:2], n_scores))
    placed[np.arange(len(column)), :, column] = scores[:, :, 0]
    return placed


def score_sums(
    tree_model: TreeModel,
    measure: Measure,
    ensemble: TreeEnsemble,
    sums: NodeSums,
    largest: Floats,
    permuted: Floats | None = None,
) -> ScoresByTree:
    """Apply a measure to some trees.

    Parameters
    ----------
    tree_model : TreeModel
        The model of the trees.
    measure : Measure
        How to score.
    ensemble : TreeEnsemble
        The trees, with training means at their nodes.
    sums : NodeSums
        Sums of the evaluation rows there.
    largest : ndarray of shape (n_columns,)
        Largest absolute target by column.
    permuted : ndarray of shape (n_trees, n_features, n_outputs), or None
        The scores of a measure that sums at nodes do not determine.
    """
    split_mdi = score_mdi(ensemble, sums)
    counted_mdi = mdi = sum_by_feature(ensemble, split_mdi)
    omega = ensemble.omega[ensemble.splits]
    is_counted, magnitude = np.ones(len(omega), dtype=np.bool_), np.zeros(mdi.shape[:2])
    if measure.split_score is None:
        if permuted is None:
            raise ValueError(
                f"measure={measure.name!r} needs all rows at once, but X is read in parts; use another measure, or "
                "load X into memory."
            )
        scores = permuted
    elif not measure.uses_evaluation_rows:
        scores = mdi
    else:
        if measure.skips:
            is_counted = ~find_skipped_splits(ensemble, sums)
        scores = sum_by_feature(ensemble, measure.split_score(ensemble, sums) * is_counted[:, np.newaxis])
        counted_mdi = sum_by_feature(ensemble, split_mdi * is_counted[:, np.newaxis]) * measure.find_scale(
            ensemble.kind
        )
        sizes = find_magnitude(ensemble, sums, largest) * is_counted
        magnitude = sum_by_feature(ensemble, sizes[:, np.newaxis])[:, :, 0]
    impurity = ensemble.root_impurity
    if np.isnan(impurity).any() and not tree_model.is_additive:
        impurity = np.where(np.isnan(impurity), find_root_impurity(ensemble, sums), impurity)
    n_scores = tree_model.target.n_scores
    return ScoresByTree(
        scores=place_outputs(ensemble.column, scores, n_scores),
        mdi=place_outputs(ensemble.column, mdi, n_scores),
        counted_mdi=place_outputs(ensemble.column, counted_mdi, n_scores),
        magnitude=magnitude,
        impurity=impurity,
        split_weight=_add_by_tree(ensemble, omega),
        skipped_weight=_add_by_tree(ensemble, np.where(is_counted, 0.0, omega)),
        is_left_out=(sums.weight[ensemble.offset[:-1]] <= 0) & measure.uses_evaluation_rows,
    )


def _add_by_tree(ensemble: TreeEnsemble, of_splits: Floats) -> Floats:
    """Sum over the splits of each tree, shape (n_trees,)."""
    tree = np.searchsorted(ensemble.offset, ensemble.splits, side="right") - 1
    return np.bincount(tree, weights=of_splits, minlength=ensemble.n_trees).astype(np.float64, copy=False)
