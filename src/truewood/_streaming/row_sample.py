"""`RowSample`: a bounded sample of rows that does not depend on how rows are split into parts, nor on their order.

It holds the rows whose content has the lowest hashes. Rows of the same content are one row with a count: whichever part
they are in, all of them are in the sample or none.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._inputs.tables import FeatureMatrix
from truewood._streaming.model import Rows, StreamingModel

Floats = NDArray[np.float64]

# Odd, with bits all over: 2^64 divided by the golden ratio.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class RowSample:
    """Different rows, ascending by the hash of their content.

    Parameters
    ----------
    size : int
        Number of different rows that are kept.
    key : ndarray of uint64, shape (n_kept,)
        Hashes.
    values : ndarray of float32 or float64, shape (n_kept, n_used)
        Values of the columns that trees split on.
    said : ndarray of shape (n_kept, n_outputs) or (n_kept, n_scores)
        What is summed of their y.
    weight : ndarray of float64, shape (n_kept,)
        Weights, all above zero.
    count : ndarray of int64, shape (n_kept,)
        How many rows have this content.
    """

    size: int
    key: NDArray[np.uint64]
    values: NDArray[np.floating]
    said: NDArray[np.generic]
    weight: Floats
    count: NDArray[np.int64]

    @classmethod
    def draw(cls, opened: StreamingModel, rows: Rows, size: int) -> RowSample:
        """Sample some rows."""
        scoring = np.flatnonzero(rows.is_scoring)
        weight = np.ones(len(scoring)) if rows.weight is None else rows.weight[scoring]
        values = _make_one(rows.matrix.take(scoring, opened.used_columns))
        said = rows.said[scoring]
        said = _make_one(said) if said.dtype.kind == "f" else said
        key = hash_rows([*values.T, *said.T, weight])
        return cls(size, key, values, said, weight, np.ones(len(key), dtype=np.int64))._cut()

    def __add__(self, other: RowSample) -> RowSample:
        arrays = [part.name for part in fields(self) if part.name != "size"]
        joined = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in arrays}
        return RowSample(self.size, **joined)._cut()

    def _cut(self) -> RowSample:
        """One row of each content, as many as are kept."""
        key, first, place = np.unique(self.key, return_index=True, return_inverse=True)
        count = np.bincount(place, weights=self.count, minlength=len(key)).astype(np.int64)
        kept = slice(self.size)
        first = first[kept]
        return RowSample(self.size, key[kept], self.values[first], self.said[first], self.weight[first], count[kept])

    def is_whole(self) -> bool:
        """Whether the sample is as it was drawn: its hashes are those of its rows."""
        arrays = [getattr(self, part.name, None) for part in fields(self) if part.name != "size"]
        if type(self.size) is not int or not all(isinstance(array, np.ndarray) for array in arrays):
            return False
        n_rows, values, said = len(self.key), self.values, self.said
        shapes = [array.shape for array in (self.key, self.weight, self.count)]
        if shapes != [(n_rows,)] * 3 or values.ndim != 2 or said.ndim != 2 or not 0 < n_rows <= self.size:
            return False
        if len(values) != n_rows or len(said) != n_rows or not {values.dtype.kind, said.dtype.kind} <= set("fiu"):
            return False
        if self.count.dtype.kind != "i" or self.weight.dtype != np.float64 or (self.count < 1).any():
            return False
        return np.array_equal(self.key, hash_rows([*values.T, *said.T, self.weight]))

    def make_matrix(self, opened: StreamingModel, names: NDArray[np.str_], start: int, stop: int) -> FeatureMatrix:
        """Features of some of the rows; columns that no tree splits on are zero."""
        part = self.values[start:stop]
        values = np.zeros((len(part), opened.tree_model.n_features), dtype=part.dtype)
        values[:, opened.used_columns] = part
        return FeatureMatrix(values, names, bool(np.isnan(part).any()))


def hash_rows(columns: list[NDArray[np.generic]]) -> NDArray[np.uint64]:
    """Hash the content of rows, given by columns of numbers without negative zeros, shape (n_rows,)."""
    key = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        key ^= pd.util.hash_array(np.ascontiguousarray(column, dtype=np.float64), categorize=False)
        key *= _MULTIPLIER
        key ^= key >> np.uint64(32)
    return key


def _make_one(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """Numbers with one zero and one NaN, of which there are several by their bits."""
    return np.where(np.isnan(values), values.dtype.type(np.nan), values + values.dtype.type(0))
