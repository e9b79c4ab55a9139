"""Adds up what rows contribute where leaves are known but not the way down: rows go up from their leaves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from truewood.data.target import Target
from truewood.engines.numpy_engine import add_row
from truewood.engines.row_lists import RowLists
from truewood.trees.ensemble import TreeEnsemble
from truewood.trees.row_terms import RowTerms


def add_terms_upwards(
    ensemble: TreeEnsemble,
    leaves: NDArray[np.int32],
    rows: RowLists,
    weight: NDArray[np.float64],
    target: Target,
    terms: RowTerms,
    out: NDArray[np.float64],
) -> None:
    """Do what `Engine.add_terms` does for rows whose leaves are known."""
    parent = ensemble.parent
    for tree in range(ensemble.n_trees):
        column = None if ensemble.column is None else int(ensemble.column[tree])
        listed = np.arange(rows.offset[tree], rows.offset[tree + 1])
        node = leaves[listed]
        while len(listed := listed[is_below := parent[node] != node]):
            node = node[is_below]
            row, above = rows.index[listed], parent[node]
            added = weight[listed] * add_row(node, row, target, column, terms)
            out[row, ensemble.feature[above]] += added
            node = above
