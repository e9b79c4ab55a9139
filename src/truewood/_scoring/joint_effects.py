"""Predictions, main effects and joint effects of pairs of features, over the trees that each row evaluates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truewood._engines.joint_effects import JointEffects, PairedFeatures
from truewood._engines.row_lists import RowLists
from truewood._engines.selection import get_engine
from truewood._scoring.inputs import ScoringInputs
from truewood._scoring.node_means import read_fitted_means
from truewood._scoring.path_values import count_columns
from truewood._scoring.results import weigh_trees
from truewood._scoring.trees import split_trees
from truewood._trees.ensemble import TreeEnsemble

Floats = NDArray[np.float64]

# Nodes, and rows times trees, of a batch; a single tree may be larger.
_BATCH_NODES = 1 << 20
_BATCH_ROWS = 1 << 23
# Engines descend recursively.
_MOST_LEVELS = 500


@dataclass(frozen=True, eq=False)
class RowEffects:
    """Effects of features on the predictions for rows: means over trees, or sums for additive trees.

    Parameters
    ----------
    prediction, main, joint : ndarray
        As in `JointEffects`, over the trees that a row evaluates; zero for rows that evaluate none.
    halves : tuple of two ndarrays of shape (n_rows, n_pairs, n_columns), or None
        `joint` from the first and from the second half of the trees; NaN for rows that evaluate no tree of a half. None
        if rows are not in bag for other trees.
    is_evaluated : ndarray of bool, shape (n_rows,)
        Whether a row evaluates any tree.
    """

    prediction: Floats
    main: Floats
    joint: Floats
    halves: tuple[Floats, Floats] | None
    is_evaluated: NDArray[np.bool_]


def find_effects(inputs: ScoringInputs, features: PairedFeatures, n_threads: int) -> RowEffects:
    """Compute the effects of features and pairs for all rows."""
    n_trees, has_halves = inputs.tree_model.n_trees, inputs.evaluation_rows.are_training
    parts = [range(n_trees // 2), range(n_trees // 2, n_trees)] if has_halves and n_trees > 1 else [range(n_trees)]
    found = [_sum_trees(inputs, features, trees, n_threads) for trees in parts]
    weight = np.sum([own for _, own in found], axis=0)
    is_evaluated = weight > 0
    halves = None
    if has_halves:
        joints = [_divide(effects.joint, own) for effects, own in found]
        halves = joints[0], joints[-1]
    divisor = np.ones_like(weight) if inputs.tree_model.is_additive else np.where(is_evaluated, weight, 1.0)
    total = found[0][0]
    for effects, _ in found[1:]:
        np.add(total.prediction, effects.prediction, out=total.prediction)
        np.add(total.main, effects.main, out=total.main)
        np.add(total.joint, effects.joint, out=total.joint)
    prediction = total.prediction / divisor[:, np.newaxis]
    main, joint = (values / divisor[:, np.newaxis, np.newaxis] for values in (total.main, total.joint))
    return RowEffects(prediction, main, joint, halves, is_evaluated)


def _divide(joint: Floats, weight: Floats) -> Floats:
    quotient: Floats = joint / np.where(weight > 0, weight, np.nan)[:, np.newaxis, np.newaxis]
    return quotient


def _sum_trees(
    inputs: ScoringInputs, features: PairedFeatures, trees: range, n_threads: int
) -> tuple[JointEffects, Floats]:
    """Sums over some trees, and the weight of the trees that each row evaluates."""
    tree_model, n_rows = inputs.tree_model, inputs.data.n_rows
    out = JointEffects.zeros(n_rows, len(features.pair_of), features.n_pairs, count_columns(tree_model))
    weight, tree_weight = np.zeros(n_rows), weigh_trees(tree_model)
    for part in split_trees(
        tree_model.n_nodes[trees.start : trees.stop], most_nodes=_BATCH_NODES, most_trees=max(1, _BATCH_ROWS // n_rows)
    ):
        batch = range(trees.start + part.start, trees.start + part.stop)
        ensemble, own = read_fitted_means(tree_model, batch), tree_weight[batch.start : batch.stop]
        if len(ensemble.levels) > _MOST_LEVELS:
            raise ValueError(
                f"interactions need trees of at most {_MOST_LEVELS} levels, got {len(ensemble.levels)}; fit with a "
                "smaller max_depth."
            )
        rows = RowLists.join([np.unique(inputs.evaluation_rows.of_tree(tree)) for tree in batch])
        weight += np.bincount(rows.index, weights=np.repeat(own, np.diff(rows.offset)), minlength=n_rows)
        value = ensemble.value if tree_model.is_additive else ensemble.value - inputs.data.target.origin
        value = value * np.reshape(ensemble.repeat_for_nodes(own), (-1, 1))
        get_engine().add_joint_effects(
            ensemble, inputs.data.matrix, rows, share_weight(ensemble), value, features, out, n_threads
        )
    return out, weight


def share_weight(ensemble: TreeEnsemble) -> Floats:
    """Share of each node in the training weight of its parent's children, shape (n_nodes,); 1/2 if that is zero."""
    share = np.ones(len(ensemble.left))
    left, right = ensemble.split_children
    total = ensemble.weight[left] + ensemble.weight[right]
    share[left] = np.divide(ensemble.weight[left], total, out=np.full(len(left), 0.5), where=total > 0)
    share[right] = np.divide(ensemble.weight[right], total, out=np.full(len(left), 0.5), where=total > 0)
    return share
