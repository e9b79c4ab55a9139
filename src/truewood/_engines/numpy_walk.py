"""Walks: rows go down a tree level by level."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._trees.ensemble import TreeEnsemble


def walk(
    ensemble: TreeEnsemble, tree: int, values: NDArray[Any], is_end: NDArray[np.bool_] | None = None
) -> NDArray[np.int32]:
    """Return the leaf of each row in a tree, or the first node on its path with `is_end`, shape (n_rows,)."""
    nodes = np.full(len(values), ensemble.offset[tree], dtype=np.int32)
    walking = np.arange(len(values))
    is_end = ensemble.left < 0 if is_end is None else is_end | (ensemble.left < 0)
    while len(walking := walking[~is_end[nodes[walking]]]):
        at = nodes[walking]
        is_left = goes_left(ensemble, at, values[walking, ensemble.feature[at]])
        nodes[walking] = np.where(is_left, ensemble.left[at], ensemble.right[at])
    return nodes


def goes_left(ensemble: TreeEnsemble, nodes: NDArray[Any], x: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether values go left at splits, shape (n,)."""
    # A float32 is compared with a float64 threshold as float64. Another thread may write to x meanwhile, so that a
    # partly written number may be a signaling NaN.
    with np.errstate(invalid="ignore"):
        is_left = x.astype(np.float64) <= ensemble.threshold[nodes]
    if ensemble.categories is not None:
        is_left = np.where(ensemble.categories.node_set[nodes] < 0, is_left, ensemble.categories.holds(nodes, x))
    chosen: NDArray[np.bool_] = np.where(np.isnan(x), ensemble.missing_left[nodes], is_left)
    return chosen
