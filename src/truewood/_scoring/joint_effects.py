"""Predictions, main effects and joint effects of pairs of features, over the trees that each row evaluates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._engines.joint_effects import JointEffects, PairedFeatures
from truewood._engines.records import RowLists
from truewood._engines.selection import get_engine
from truewood._inputs.groups import Grouping
from truewood._scoring.inputs import ScoringInputs
from truewood._scoring.node_means import read_fitted_means, read_with_means
from truewood._scoring.path_values import count_columns
from truewood._scoring.results import weigh_trees
from truewood._trees.ensemble import TreeEnsemble

Floats = NDArray[np.float64]

# Nodes, and rows times trees, of a batch; a single tree may be larger.
_BATCH_NODES = 1 << 20
_BATCH_ROWS = 1 << 23


@dataclass(frozen=True, eq=False)
class RowEffects:
    """Effects of features on the predictions for rows: means over trees, or sums for additive trees.

    Parameters
    ----------
    prediction, main : ndarray
        As in `JointEffects`, over the trees that a row evaluates; zero for rows that evaluate none.
    joint_sums : list of ndarray of shape (n_rows, n_pairs, n_columns)
        Sums of joint effects over parts of the trees: both halves, or all trees.
    weights : list of ndarray of shape (n_rows,)
        Weights of the trees of each part that a row evaluates.
    has_halves : bool
        Whether rows are in bag for other trees, so that joint effects from halves of the trees matter.
    is_additive : bool
        Whether joint effects are sums over trees instead of means.
    """

    prediction: Floats
    main: Floats
    joint_sums: list[Floats]
    weights: list[Floats]
    has_halves: bool
    is_additive: bool

    @property
    def tree_weight(self) -> Floats:
        """Weight of the trees that each row evaluates, shape (n_rows,)."""
        total: Floats = np.sum(self.weights, axis=0)
        return total

    def take_joint(self, rows: NDArray[np.bool_], pairs: Any, column: int) -> Floats:
        """Joint effects of some pairs in a column and, if there are halves, the noise of the trees.

        The noise is half the difference between the effects from the two halves of the trees; it is zero for rows that
        evaluate no tree of a half, which is conservative. Shape (1 or 2, n_pairs, n_rows).
        """
        is_all = bool(rows.all())
        sums = [of_part[:, pairs, column] for of_part in self.joint_sums]
        parts = [np.ascontiguousarray((own if is_all else own[rows]).T) for own in sums]
        weights = [own[rows] for own in self.weights]
        total, weight = (parts[0], weights[0]) if len(parts) == 1 else (parts[0] + parts[1], weights[0] + weights[1])
        effects = np.zeros((2 if self.has_halves else 1, *total.shape))
        np.divide(total, 1.0 if self.is_additive else np.where(weight > 0, weight, 1.0), out=effects[0])
        if len(parts) == 2:
            first, second = (np.where(weight > 0, weight, 1.0) for weight in weights)
            is_half = 0.5 * ((weights[0] > 0) & (weights[1] > 0))
            np.subtract(parts[0] * (is_half / first), parts[1] * (is_half / second), out=effects[1])
        return effects


def find_effects(inputs: ScoringInputs, features: PairedFeatures, n_threads: int) -> RowEffects:
    """Compute the effects of features and pairs for all rows."""
    n_trees, has_halves = inputs.tree_model.n_trees, inputs.evaluation_rows.are_training
    parts = [range(n_trees // 2), range(n_trees // 2, n_trees)] if has_halves and n_trees > 1 else [range(n_trees)]
    found = [_sum_trees(inputs, features, len(features.pair_of), trees, n_threads) for trees in parts]
    weight = np.sum([own for _, own in found], axis=0)
    divisor = np.ones_like(weight) if inputs.tree_model.is_additive else np.where(weight > 0, weight, 1.0)
    total = found[0][0]
    for effects, _ in found[1:]:
        np.add(total.prediction, effects.prediction, out=total.prediction)
        np.add(total.main, effects.main, out=total.main)
    return RowEffects(
        prediction=total.prediction / divisor[:, np.newaxis],
        main=total.main / divisor[:, np.newaxis, np.newaxis],
        joint_sums=[effects.joint for effects, _ in found],
        weights=[own for _, own in found],
        has_halves=has_halves,
        is_additive=inputs.tree_model.is_additive,
    )


def find_main_effects(
    inputs: ScoringInputs, grouping: Grouping, n_threads: int
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Compute predictions f and main effects f - P_j f of all rows, as in `RowEffects`, and `is_evaluated`.

    Predictions are training means, even for trees that store other values.
    """
    features = PairedFeatures(grouping.group_of, np.zeros((0, 0), dtype=np.int32), 0)
    trees = range(inputs.tree_model.n_trees)
    total, weight = _sum_trees(inputs, features, len(grouping.names), trees, n_threads, with_training_means=True)
    is_evaluated = weight > 0
    if inputs.tree_model.is_additive:
        return total.prediction, total.main, is_evaluated
    divisor = np.where(is_evaluated, weight, 1.0)[:, np.newaxis]
    total.prediction[:] /= divisor
    total.main[:] /= divisor[:, np.newaxis]
    return total.prediction, total.main, is_evaluated


def _sum_trees(
    inputs: ScoringInputs,
    features: PairedFeatures,
    n_features: int,
    trees: range,
    n_threads: int,
    *,
    with_training_means: bool = False,
) -> tuple[JointEffects, Floats]:
    """Sums over some trees, and the weight of the trees that each row evaluates."""
    tree_model, evaluation_rows, n_rows = inputs.tree_model, inputs.evaluation_rows, inputs.data.n_rows
    out = JointEffects.zeros(n_rows, n_features, features.n_pairs, count_columns(tree_model))
    weight, tree_weight = np.zeros(n_rows), weigh_trees(tree_model)
    most_trees = max(1, _BATCH_ROWS // n_rows)
    for batch in tree_model.split_trees(most_nodes=_BATCH_NODES, most_trees=most_trees, trees=trees):
        ensemble = read_with_means(inputs, batch) if with_training_means else read_fitted_means(tree_model, batch)
        own = tree_weight[batch.start : batch.stop]
        lists = [evaluation_rows.of_tree(tree) for tree in batch]
        rows = RowLists.join([np.unique(own) for own in lists] if evaluation_rows.name == "lists" else lists)
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
