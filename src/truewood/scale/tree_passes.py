"""The two things that rows are sent down all trees for: sums at the leaves, and what each row contributes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from truewood.data.tables import FeatureMatrix
from truewood.data.target import Target
from truewood.engines.engine import get_engine
from truewood.engines.row_lists import RowLists
from truewood.scale.opened_model import OpenedModel
from truewood.scoring.averaging import weigh_trees
from truewood.trees.row_terms import RowTerms

Floats = NDArray[np.float64]

# Rows that are worked on at a time.
_BLOCK_ROWS = 1 << 16


def sum_at_leaves(
    opened: OpenedModel, matrix: FeatureMatrix, target: Target, weight: Floats | None, n_threads: int
) -> Floats:
    """Weight, sums and, where y is numbers, sums of squares of some rows at the leaves, (n_leaves, n_sums)."""
    engine, parts = get_engine(), []
    for run, (trees, ensemble) in enumerate(opened.runs):
        summed = None
        for start, stop in _split_rows(opened, matrix):
            part, said = matrix.take_range(start, stop), target.take_range(start, stop)
            own = None if weight is None else weight[start:stop]
            if opened.view.finds_leaves:
                rows = RowLists.of_every_row(stop - start, len(trees))
                sums = engine.sum_leaves(
                    ensemble, opened.view.find_leaves(trees, ensemble, part, rows), rows, said, own
                )
            else:
                sums = engine.sum_nodes(ensemble, part, said, own, n_threads)
            summed = sums if summed is None else summed + sums
        if summed is None:
            raise ValueError("sums at leaves take at least one row.")
        at_leaves = summed.take(opened.leaves[run])
        squares = [] if opened.counts_classes or opened.is_additive else [at_leaves.square]
        parts.append(np.column_stack([at_leaves.weight, at_leaves.total, *squares]))
    return np.concatenate(parts)


def add_contributions(
    opened: OpenedModel,
    terms: Sequence[RowTerms],
    matrix: FeatureMatrix,
    target: Target,
    weight: Floats | None,
    n_threads: int,
) -> Floats:
    """What some rows contribute to each feature over all trees, (n_rows, n_features), given terms of each run."""
    engine, view, phi = get_engine(), opened.view, np.zeros((matrix.n_rows, opened.view.n_features))
    weight = np.ones(matrix.n_rows) if weight is None else weight
    tree_weight = weigh_trees(view)
    for start, stop in _split_rows(opened, matrix):
        part, said, own, out = (
            matrix.take_range(start, stop),
            target.take_range(start, stop),
            weight[start:stop],
            phi[start:stop],
        )
        for (trees, ensemble), of_run in zip(opened.runs, terms, strict=True):
            of_trees = tree_weight[trees.start : trees.stop]
            if view.finds_leaves:
                rows = RowLists.of_every_row(stop - start, len(trees))
                leaves, scaled = view.find_leaves(trees, ensemble, part, rows), np.outer(of_trees, own).ravel()
                engine.add_terms(ensemble, leaves, rows, scaled, said, of_run, out)
            else:
                engine.contribute(ensemble, part, said, own, of_run, of_trees, out, n_threads)
    return phi


def _split_rows(opened: OpenedModel, matrix: FeatureMatrix) -> Iterator[tuple[int, int]]:
    """Blocks of rows; only one where a library finds leaves of rows in a form of its own."""
    size = matrix.n_rows if opened.view.finds_leaves else _BLOCK_ROWS
    for start in range(0, matrix.n_rows, size):
        yield start, min(start + size, matrix.n_rows)
