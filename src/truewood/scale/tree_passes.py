"""The two things that rows are sent down all trees for: sums at the leaves, and what each row contributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from truewood.data.tables import FeatureMatrix
from truewood.data.target import ClassTarget, Target
from truewood.engines.engine import get_engine
from truewood.engines.row_lists import RowLists
from truewood.scale.opened_model import OpenedModel
from truewood.scoring.averaging import weigh_trees
from truewood.trees.row_terms import RowTerms

Floats = NDArray[np.float64]
Step = TypeVar("Step")

# Rows that are summed at a time.
_BLOCK_ROWS = 1 << 16
# Contributions that trees are added to at a time, which should stay near the processor, and rows of these at least.
_BLOCK_VALUES = 1 << 16
_FEWEST_ROWS = 1 << 9


def sum_at_leaves(
    opened: OpenedModel, matrix: FeatureMatrix, target: Target, weight: Floats | None, n_threads: int
) -> Floats:
    """Weight, sums and, of numbers, sums of squares of some rows at the leaves of all trees, (n_leaves, n_sums)."""
    blocks = _split_rows(opened, matrix, _BLOCK_ROWS)

    def sum_run(run: int) -> Floats:
        trees, ensemble = opened.runs[run]
        summed = None
        for start, stop in blocks:
            part, rows = matrix.take_range(start, stop), _list_every_row(stop - start, len(trees))
            leaves = opened.view.find_leaves(trees, ensemble, part, rows)
            own = None if weight is None else weight[start:stop]
            sums = get_engine().sum_leaves(ensemble, leaves, rows, target.take_range(start, stop), own)
            summed = sums if summed is None else summed + sums
        if summed is None:
            raise ValueError("sums at leaves take at least one row.")
        at_leaves = summed.take(opened.leaves[run])
        squares = [] if isinstance(target, ClassTarget) else [at_leaves.square]
        return np.column_stack([at_leaves.weight, at_leaves.total, *squares])

    return np.concatenate(_run(sum_run, len(opened.runs), n_threads))


def add_contributions(
    opened: OpenedModel,
    terms: Sequence[RowTerms],
    matrix: FeatureMatrix,
    target: Target,
    weight: Floats | None,
    n_threads: int,
) -> Floats:
    """What some rows contribute to each feature over all trees, (n_rows, n_features), given terms of each run."""
    view, phi = opened.view, np.zeros((matrix.n_rows, opened.view.n_features))
    weight = np.ones(matrix.n_rows) if weight is None else weight
    tree_weight = weigh_trees(view)
    blocks = _split_rows(opened, matrix, max(_FEWEST_ROWS, _BLOCK_VALUES // view.n_features))

    def add_block(block: int) -> None:
        start, stop = blocks[block]
        part, own = matrix.take_range(start, stop), target.take_range(start, stop)
        for (trees, ensemble), of_run in zip(opened.runs, terms, strict=True):
            rows = _list_every_row(stop - start, len(trees))
            leaves = view.find_leaves(trees, ensemble, part, rows)
            scaled = np.outer(tree_weight[trees.start : trees.stop], weight[start:stop]).ravel()
            get_engine().add_terms(ensemble, leaves, rows, scaled, own, of_run, phi[start:stop])

    _run(add_block, len(blocks), n_threads)
    return phi


def _split_rows(opened: OpenedModel, matrix: FeatureMatrix, most: int) -> list[tuple[int, int]]:
    """Blocks of at most so many rows; only one where a library finds leaves of rows in a form of its own."""
    n_rows = matrix.n_rows
    n_blocks = 1 if opened.view.finds_leaves else -(-n_rows // most)
    bounds = np.linspace(0, n_rows, n_blocks + 1).astype(np.int64).tolist()
    return list(pairwise(bounds))


def _list_every_row(n_rows: int, n_trees: int) -> RowLists:
    index = np.tile(np.arange(n_rows, dtype=np.int64), n_trees)
    return RowLists(index, np.arange(n_trees + 1, dtype=np.int64) * n_rows)


def _run(step: Callable[[int], Step], n_steps: int, n_threads: int) -> list[Step]:
    """Results of all steps, in their order, on threads."""
    if n_threads == 1 or n_steps == 1:
        return [step(number) for number in range(n_steps)]
    done: list[Step] = Parallel(n_jobs=n_threads, require="sharedmem")(delayed(step)(k) for k in range(n_steps))
    return done
