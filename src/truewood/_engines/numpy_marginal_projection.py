"""Marginal projection: predictions of trees in which splits on a group of columns send a row both ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._engines.numpy_walk import goes_left
from truewood._inputs.tables import FeatureMatrix
from truewood._trees.ensemble import TreeEnsemble

Floats = NDArray[np.float64]


def average_over_splits(
    ensemble: TreeEnsemble, tree: int, matrix: FeatureMatrix, rows: NDArray[np.int64], group_of: NDArray[np.int32]
) -> Iterator[tuple[Any, NDArray[np.intp], Floats]]:
    """Iterate over predictions of a tree with each group averaged out: the group, positions of rows, predictions.

    Splits on the group are averaged with the training weights of their children. Rows that reach no such split are left
    out.
    """
    values, root = matrix.take(rows), int(ensemble.offset[tree])
    groups = np.unique(group_of[ensemble[tree : tree + 1].split_features])
    for group in groups[groups >= 0]:
        prediction = np.zeros((len(rows), ensemble.value.shape[1]))
        reaches = np.zeros(len(rows), dtype=np.bool_)
        _descend(ensemble, root, values, np.arange(len(rows)), group_of, group, prediction, reaches)
        yield group, np.flatnonzero(reaches), prediction[reaches]


def _descend(
    ensemble: TreeEnsemble,
    node: int,
    values: NDArray[Any],
    places: NDArray[np.intp],
    group_of: NDArray[np.int32],
    group: Any,
    prediction: Floats,
    reaches: NDArray[np.bool_],
) -> None:
    """Write the predictions below a node for the rows at `places`, and mark those that reach a split on the group."""
    if not len(places):
        return
    left, right = int(ensemble.left[node]), int(ensemble.right[node])
    if left < 0:
        prediction[places] = ensemble.value[node]
        return
    if group_of[ensemble.feature[node]] == group:
        reaches[places] = True
        _descend(ensemble, left, values, places, group_of, group, prediction, reaches)
        at_left = prediction[places]
        _descend(ensemble, right, values, places, group_of, group, prediction, reaches)
        both = ensemble.weight[left] + ensemble.weight[right]
        share = ensemble.weight[right] / both if both > 0 else 0.0
        prediction[places] = at_left + share * (prediction[places] - at_left)
        return
    x = values[places, ensemble.feature[node]]
    is_left = goes_left(ensemble, np.full(len(places), node), x)
    _descend(ensemble, left, values, places[is_left], group_of, group, prediction, reaches)
    _descend(ensemble, right, values, places[~is_left], group_of, group, prediction, reaches)
