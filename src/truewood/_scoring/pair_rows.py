"""The rows that evaluate pairs of features: residuals of their target, and the columns of the features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._engines.joint_effects import PairedFeatures
from truewood._exceptions import warn
from truewood._inference.additive_basis import make_basis
from truewood._inference.pair_scores import EvaluatedRows, PairScorer
from truewood._inputs.groups import Grouping
from truewood._inputs.losses import Loss
from truewood._inputs.target import encode_target
from truewood._scoring.inputs import ScoringInputs
from truewood._scoring.joint_effects import RowEffects
from truewood.adapters import TreeModel

Floats = NDArray[np.float64]
Pairs = NDArray[np.int64]

_BATCH_NODES = 1 << 18
# Newton steps to the slope and constant of a raw score, limits of the slope, and the minimum curvature of a loss.
_N_STEPS = 50
_SLOPES = (0.1, 10.0)
_LEAST_CURVATURE = 1e-6


@dataclass(frozen=True, eq=False)
class PairRows:
    """The rows that evaluate pairs of features.

    Parameters
    ----------
    rows : EvaluatedRows
        Residuals, predictions and main effects of the rows.
    target : ndarray of shape (n_rows, n_columns)
        The target.
    weight : ndarray of shape (n_rows,)
        Weights of rows in the data.
    numbers : list of ndarray of shape (n_rows, n)
        The columns of each feature.
    are_categories : list of ndarray of bool, shape (n,)
        Whether they contain codes of categories.
    data : ndarray of shape (n_rows, n)
        The features of pairs as columns of the caller's table; missing for those that combine several columns.
    """

    rows: EvaluatedRows
    target: Floats
    weight: Floats
    numbers: list[Floats]
    are_categories: list[NDArray[np.bool_]]
    data: NDArray[Any]

    def make_scorer(self, reciprocity: float = 0.0) -> PairScorer:
        """The scorer of pairs on these rows."""
        bases = [make_basis(x, own) for x, own in zip(self.numbers, self.are_categories, strict=True)]
        return PairScorer(self.rows, bases, reciprocity)

    @property
    def impurity(self) -> float:
        """Variance of the target, or Gini impurity; mean over outputs, or sum over raw scores."""
        mean = np.average(self.target, axis=0, weights=self.weight)
        variance = np.average((self.target - mean) ** 2, axis=0, weights=self.weight).sum()
        return float(variance) / self.rows.n_averaged


def has_units(tree_model: TreeModel) -> bool:
    """Whether predictions are in units of the target."""
    loss = tree_model.target.loss
    return not tree_model.is_additive or (loss is not None and loss.in_target_units)


def number_pairs(grouping: Grouping, used: NDArray[np.int64], pairs: Pairs) -> PairedFeatures:
    """Pairs, by position in `used`, in the form that engines take."""
    place = np.full(len(grouping.names), -1, dtype=np.int32)
    place[used] = np.arange(len(used))
    pair_of = np.full((len(used), len(used)), -1, dtype=np.int32)
    pair_of[pairs[:, 0], pairs[:, 1]] = pair_of[pairs[:, 1], pairs[:, 0]] = np.arange(len(pairs))
    return PairedFeatures(np.ascontiguousarray(place[grouping.group_of]), pair_of, len(pairs))


def find_kept(inputs: ScoringInputs, effects: RowEffects) -> NDArray[np.bool_]:
    """Rows that count: those that evaluate a tree and have weight."""
    is_weighted = np.ones(inputs.data.n_rows, dtype=np.bool_) if inputs.row_weight is None else inputs.row_weight > 0
    is_evaluated = effects.tree_weight > 0
    is_kept = is_evaluated & is_weighted
    n_lost = int(np.count_nonzero(~is_evaluated & is_weighted))
    if not is_kept.any():
        raise ValueError("no tree has evaluation rows; pass rows='heldout' and rows that the model never saw.")
    if n_lost:
        them = "it" if n_lost == 1 else "them"
        warn(
            f"left out {n_lost} of {len(is_kept)} rows because every bag contains {them}; fit more trees to evaluate "
            f"{them}."
        )
    return is_kept


def read_rows(
    inputs: ScoringInputs,
    y: Any,
    grouping: Grouping,
    used: NDArray[np.int64],
    effects: RowEffects,
    is_kept: NDArray[np.bool_],
    data: NDArray[Any],
) -> PairRows:
    """Compute residuals of the target, and read the columns of the features, also as in the caller's table, `data`."""
    tree_model, target = inputs.tree_model, inputs.data.target.vectors[is_kept]
    weight = np.ones(len(is_kept)) if inputs.row_weight is None else inputs.row_weight
    weight, prediction, curvature = weight[is_kept], effects.prediction[is_kept], None
    if tree_model.is_additive:
        spec = tree_model.target
        read = y if spec.read_y is None else spec.read_y(y)
        encoded = encode_target(read, spec.kind, np.zeros(spec.kind.n_columns)).encoded[is_kept]
        residual, curvature = _differentiate(spec.loss, encoded, prediction, weight)
    else:
        residual = target - prediction
    groups = None if inputs.clusters is None else np.unique(inputs.clusters[is_kept], return_inverse=True)[1]
    n_averaged = 1 if tree_model.is_additive else tree_model.target.kind.n_outputs
    # As in scores of single features, a row counts once per tree: the means of few trees are noisy.
    counted = weight * (effects.tree_weight / effects.tree_weight.max())[is_kept]
    rows = EvaluatedRows(residual, prediction, effects.main[is_kept], counted, curvature, n_averaged, groups)
    return PairRows(rows, target, weight, *_read_columns(inputs, grouping, used, is_kept), data[is_kept])


def _differentiate(loss: Loss | None, y: Floats, raw: Floats, weight: Floats) -> tuple[Floats, Floats | None]:
    """Negative gradient of the loss over its curvature, and the curvature, at calibrated raw scores.

    Calibrated scores are a slope times the raw score plus a constant, whose loss on these rows is least. A small
    learning rate shrinks raw scores, so that the loss is evaluated far from what is expected; the square of this
    difference contains products of effects, and would look like a joint effect. Losses in units of the target are
    quadratic, so they have no such term, and the slope is 1.
    """
    if loss is None or loss.at_score is None:
        raise ValueError("the loss of the model has no gradient at raw scores.")
    if loss.in_target_units:
        gradient, _ = loss.at_score(y, raw)
        return gradient - np.average(gradient, axis=0, weights=weight), None
    constant, slope = np.zeros(raw.shape[1]), np.ones(raw.shape[1])
    centered = raw - np.average(raw, axis=0, weights=weight)
    reach = np.abs(centered).max(axis=0)
    reach[reach == 0] = 1.0
    # The scores of all classes move together: moving two classes apart needs half a step of each.
    share = 1.0 if raw.shape[1] == 1 else 1.0 - 1.0 / raw.shape[1]
    for _ in range(_N_STEPS):
        gradient, curvature = loss.at_score(y, raw + (slope - 1.0) * centered + constant)
        total = np.maximum(weight @ curvature, _LEAST_CURVATURE * weight.sum())
        middle = weight @ (curvature * centered) / total
        square = np.maximum(weight @ (curvature * (centered - middle) ** 2), _LEAST_CURVATURE * total * reach**2)
        more = np.clip(share * (weight @ (gradient * (centered - middle))) / square, -1.0 / reach, 1.0 / reach)
        more = np.clip(slope + more, *_SLOPES) - slope
        step = np.clip(share * (weight @ gradient) / total - more * middle, -1.0, 1.0)
        constant, slope = constant + step, slope + more
        if max(np.abs(step).max(), (np.abs(more) * reach).max()) < 1e-12:
            break
    gradient, curvature = loss.at_score(y, raw + (slope - 1.0) * centered + constant)
    curvature = np.maximum(curvature, _LEAST_CURVATURE)
    return gradient / (slope * curvature), slope**2 * curvature


def _read_columns(
    inputs: ScoringInputs, grouping: Grouping, used: NDArray[np.int64], is_kept: NDArray[np.bool_]
) -> tuple[list[Floats], list[NDArray[np.bool_]]]:
    """The columns of each feature as numbers, and whether they are categories."""
    tree_model, rows = inputs.tree_model, np.flatnonzero(is_kept)
    is_category = np.zeros(tree_model.n_features, dtype=np.bool_)
    for trees in tree_model.split_trees(most_nodes=_BATCH_NODES):
        ensemble = tree_model.read(trees)
        if ensemble.categories is not None:
            is_category[ensemble.feature[ensemble.categories.node_set >= 0]] = True
    columns = [np.flatnonzero(grouping.group_of == feature) for feature in used]
    numbers = [inputs.data.matrix.take(rows, own).astype(np.float64) for own in columns]
    return numbers, [is_category[own] for own in columns]
