"""`TargetCounts`: the distinct values of y, from which some losses compute their best constant in a first pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._inputs.target import read_sample_weight
from truewood._pipelines.final_estimator import extract_target
from truewood._streaming.model import Part, StreamingModel
from truewood._streaming.row_sample import hash_rows

Floats = NDArray[np.float64]

# Number of pieces that Spark merges separately.
_N_PIECES = 16


@dataclass(frozen=True, eq=False)
class TargetCounts:
    """Distinct targets of some rows, and the weight of each; the counts of disjoint rows add up by ``+``.

    Parameters
    ----------
    y : ndarray of shape (n_distinct, n_outputs)
        The targets, encoded as a loss takes them.
    weight : ndarray of shape (n_distinct,)
        Sum of the weights of the rows with this target. A target may occur more than once, with parts of its weight.
    n_sorted : int
        Number of targets when they were last sorted.
    """

    y: Floats
    weight: Floats
    n_sorted: int = 0

    @classmethod
    def of_part(cls, model: StreamingModel, part: Part) -> TargetCounts:
        """Count the targets of one part of the rows, which may be empty."""
        if len(part.y) == 0:
            return cls(np.empty((0, model.tree_model.target.kind.n_outputs)), np.empty(0))
        y = model.encode_y(extract_target(model.fitted, part.y)).encoded
        weight = read_sample_weight(part.sample_weight, len(y), may_be_zero=True)
        return _merge_equal(y, np.ones(len(y)) if weight is None else weight)

    def __add__(self, other: TargetCounts) -> TargetCounts:
        y, weight = np.concatenate([self.y, other.y]), np.concatenate([self.weight, other.weight])
        n_sorted = max(self.n_sorted, other.n_sorted)
        # Only when the number has doubled, so that many small parts do not sort all targets each time.
        return _merge_equal(y, weight) if len(y) > 2 * n_sorted else TargetCounts(y, weight, n_sorted)

    def __radd__(self, other: Any) -> TargetCounts:
        return self if isinstance(other, int) and other == 0 else NotImplemented  # `sum` starts from 0

    def split(self) -> list[TargetCounts]:
        """The same counts in pieces by target; add a piece to the same piece of other rows."""
        place = hash_rows([column + 0.0 for column in self.y.T]) % np.uint64(_N_PIECES)
        return [TargetCounts(self.y[place == k], self.weight[place == k]) for k in range(_N_PIECES)]

    @staticmethod
    def join(pieces: Sequence[TargetCounts]) -> TargetCounts:
        """Join all pieces."""
        return sum(pieces[1:], start=pieces[0])

    def find_constant(self, model: StreamingModel) -> Floats:
        """The best constant of the model's loss, given the targets of all rows."""
        loss = model.tree_model.target.loss
        if loss is None or loss.of_constant is None:
            raise ValueError(f"{model.tree_model.name} has no loss that needs a constant.")
        if not len(self.y):
            raise ValueError("X must have at least one row, got none.")
        if not self.weight.any():
            raise ValueError("sample_weight must be positive in at least one row, got only zeros.")
        return loss.of_constant.find(self.y, self.weight)


def _merge_equal(y: Floats, weight: Floats) -> TargetCounts:
    if y.shape[1] == 1:  # much faster than unique rows
        distinct, place = np.unique(y[:, 0], return_inverse=True)
        distinct = distinct[:, np.newaxis]
    else:
        distinct, place = np.unique(y, axis=0, return_inverse=True)
    summed: Floats = np.bincount(place.ravel(), weights=weight, minlength=len(distinct)).astype(np.float64)
    return TargetCounts(distinct, summed, len(distinct))
