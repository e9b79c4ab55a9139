"""The constant that some losses need of all rows before anything can be summed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._inputs.target import read_sample_weight
from truewood._streaming.model import StreamingModel
from truewood._streaming.row_sample import hash_rows

Floats = NDArray[np.float64]

# Pieces that targets are counted in, where an engine merges them.
_N_PIECES = 16


@dataclass(frozen=True, eq=False)
class TargetCounts:
    """Different targets of some rows and the weight of each; those of other rows merge by ``+``.

    Parameters
    ----------
    y : ndarray of shape (n_different, n_outputs)
        The targets, as a loss takes them.
    weight : ndarray of shape (n_different,)
        Sum of the weights of the rows that have it. A target may be there more than once, with parts of its weight.
    n_sorted : int
        Number of targets when they were last sorted.
    """

    y: Floats
    weight: Floats
    n_sorted: int = 0

    def __add__(self, other: TargetCounts) -> TargetCounts:
        y, weight = np.concatenate([self.y, other.y]), np.concatenate([self.weight, other.weight])
        n_sorted = max(self.n_sorted, other.n_sorted)
        # Sorted where there are twice as many, so that many small parts do not sort all of them each time.
        return _count(y, weight) if len(y) > 2 * n_sorted else TargetCounts(y, weight, n_sorted)

    def split(self) -> list[TargetCounts]:
        """The same in pieces, of which the targets decide, so that they merge with the same pieces of other rows."""
        place = hash_rows([column + 0.0 for column in self.y.T]) % np.uint64(_N_PIECES)
        return [TargetCounts(self.y[place == k], self.weight[place == k]) for k in range(_N_PIECES)]

    @staticmethod
    def join(pieces: Sequence[TargetCounts]) -> TargetCounts:
        """The targets of all pieces."""
        return sum(pieces[1:], start=pieces[0])

    def __radd__(self, other: Any) -> TargetCounts:
        return self if isinstance(other, int) and other == 0 else NotImplemented  # where `sum` starts


def needs_constant(opened: StreamingModel) -> bool:
    """Whether `count_targets` and `find_constant` have to come before `accumulate_rows`."""
    loss = opened.tree_model.target.loss
    return opened.own_target is None and loss is not None and loss.of_mean is None and loss.of_constant is not None


def count_targets(opened: StreamingModel, y: Any, sample_weight: Any) -> TargetCounts:
    """Count the targets of some rows; there may be none."""
    n_outputs = opened.tree_model.target.kind.n_outputs
    if len(y) == 0:
        return TargetCounts(np.empty((0, n_outputs)), np.empty(0))
    encoded = opened.read_encoded(opened.unwrap_y(y)).encoded
    weight = read_sample_weight(sample_weight, len(encoded), may_be_zero=True)
    return _count(encoded, np.ones(len(encoded)) if weight is None else weight)


def find_constant(opened: StreamingModel, counts: TargetCounts) -> Floats:
    """What `StreamingModel` takes as `constant`, given the targets of all rows."""
    loss = opened.tree_model.target.loss
    if loss is None or loss.of_constant is None:
        raise ValueError(f"{opened.tree_model.name} has no loss that needs a constant.")
    if not len(counts.y):
        raise ValueError("X must hold at least one row, got none.")
    if not counts.weight.any():
        raise ValueError("sample_weight must not be zero for every row.")
    return loss.of_constant.find(counts.y, counts.weight)


def _count(y: Floats, weight: Floats) -> TargetCounts:
    if y.shape[1] == 1:  # much faster than of rows
        different, place = np.unique(y[:, 0], return_inverse=True)
        different = different[:, np.newaxis]
    else:
        different, place = np.unique(y, axis=0, return_inverse=True)
    summed: Floats = np.bincount(place.ravel(), weights=weight, minlength=len(different)).astype(np.float64)
    return TargetCounts(different, summed, len(different))
