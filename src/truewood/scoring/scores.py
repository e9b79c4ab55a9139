"""`Scores`: what a run of trees gives, and the runs that trees are scored in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scores:
    """What a run of trees gives; the first axis is the tree."""

    scores: Floats  # (n_trees, n_features, n_outputs)
    mdi: Floats  # (n_trees, n_features, n_outputs)
    counted_mdi: Floats  # the same of splits that count, on the scale of the scores
    magnitude: Floats  # (n_trees, n_features): size of what scores add up, which rounding errors are in proportion to
    impurity: Floats
    split_weight: Floats
    skipped_weight: Floats
    is_left_out: NDArray[np.bool_]

    @classmethod
    def join(cls, parts: list[Scores]) -> Scores:
        """Put the scores of several runs behind each other."""
        names = cls.__dataclass_fields__
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def split_trees(n_nodes: NDArray[np.int64], *, most_nodes: float, most_trees: int) -> Iterator[range]:
    """Runs of trees that are small enough together, given the sizes of all; a single tree may be larger."""
    start, size = 0, 0
    for tree, own in enumerate(n_nodes):
        if tree > start and (size + own > most_nodes or tree - start == most_trees):
            yield range(start, tree)
            start, size = tree, 0
        size += int(own)
    yield range(start, len(n_nodes))


def place_outputs(column: NDArray[np.int32] | None, scores: Floats, n_scores: int) -> Floats:
    """Scores by all outputs, of trees that speak of one of them."""
    if column is None or n_scores == 1:
        return scores
    placed = np.zeros((*scores.shape[:2], n_scores))
    placed[np.arange(len(column)), :, column] = scores[:, :, 0]
    return placed
