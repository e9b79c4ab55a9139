"""The two passes of rows through all trees: sums at the leaves, and the influence of each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from truewood._engines.row_lists import RowLists
from truewood._engines.selection import get_engine
from truewood._inputs.tables import FeatureMatrix
from truewood._inputs.target import Target
from truewood._scoring.results import weigh_trees
from truewood._streaming.model import StreamingModel
from truewood._trees.row_terms import RowTerms

Floats = NDArray[np.float64]

# Rows per pass.
_BLOCK_ROWS = 1 << 16


def sum_at_leaves(
    opened: StreamingModel, matrix: FeatureMatrix, target: Target, weight: Floats | None, n_threads: int
) -> Floats:
    """Weight, sums and, where y is numbers, sums of squares of some rows at the leaves, (n_leaves, n_sums)."""
    engine, parts = get_engine(), []
    for run, (trees, ensemble) in enumerate(opened.runs):
        summed = None
        for start, stop in _split_rows(opened, matrix):
            part, said = matrix.take_range(start, stop), target.take_range(start, stop)
            own = None if weight is None else weight[start:stop]
            if opened.tree_model.finds_leaves:
                rows = RowLists.of_every_row(stop - start, len(trees))
                sums = engine.sum_leaves(
                    ensemble, opened.tree_model.find_leaves(trees, ensemble, part, rows), rows, said, own
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


def find_influence(
    opened: StreamingModel,
    terms: Sequence[RowTerms],
    matrix: FeatureMatrix,
    target: Target,
    weight: Floats | None,
    n_threads: int,
) -> Floats:
    """Influence of some rows on each feature over all trees, (n_rows, n_features), given terms of each run."""
    engine, tree_model = get_engine(), opened.tree_model
    influence = np.zeros((matrix.n_rows, tree_model.n_features))
    weight = np.ones(matrix.n_rows) if weight is None else weight
    tree_weight = weigh_trees(tree_model)
    for start, stop in _split_rows(opened, matrix):
        part, said, own, out = (
            matrix.take_range(start, stop),
            target.take_range(start, stop),
            weight[start:stop],
            influence[start:stop],
        )
        for (trees, ensemble), of_run in zip(opened.runs, terms, strict=True):
            of_trees = tree_weight[trees.start : trees.stop]
            if tree_model.finds_leaves:
                rows = RowLists.of_every_row(stop - start, len(trees))
                leaves, scaled = tree_model.find_leaves(trees, ensemble, part, rows), np.outer(of_trees, own).ravel()
                engine.add_path_influence(ensemble, leaves, rows, scaled, said, of_run, out)
            else:
                engine.add_influence(ensemble, part, said, own, of_run, of_trees, out, n_threads)
    return influence


def _split_rows(opened: StreamingModel, matrix: FeatureMatrix) -> Iterator[tuple[int, int]]:
    """Blocks of rows; a single one where the library finds leaves, as it takes rows in a form of its own."""
    size = matrix.n_rows if opened.tree_model.finds_leaves else _BLOCK_ROWS
    for start in range(0, matrix.n_rows, size):
        yield start, min(start + size, matrix.n_rows)
