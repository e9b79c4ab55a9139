"""`RowSample`: a bounded sample of rows that depends neither on how rows are split into parts nor on their order.

The sample holds the rows with the lowest hashes of their content. Equal rows are stored once with a count: either all
of them are in the sample or none, whichever parts they are in.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._inputs.tables import FeatureMatrix
from truewood._streaming.model import Rows, StreamingModel

Floats = NDArray[np.float64]

# Odd, with well-mixed bits: 2^64 divided by the golden ratio.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class RowSample:
    """Distinct rows, sorted by the hash of their content.

    Parameters
    ----------
    size : int
        Maximum number of distinct rows to keep.
    key : ndarray of uint64, shape (n_kept,)
        Hashes.
    values : ndarray of float32 or float64, shape (n_kept, n_used)
        Values of the columns that trees split on.
    y : ndarray of shape (n_kept, n_outputs) or (n_kept, n_scores)
        As in `Rows`.
    weight : ndarray of float64, shape (n_kept,)
        Weights, all positive.
    count : ndarray of int64, shape (n_kept,)
        Number of rows with this content.
    """

    size: int
    key: NDArray[np.uint64]
    values: NDArray[np.floating]
    y: NDArray[np.generic]
    weight: Floats
    count: NDArray[np.int64]

    @classmethod
    def draw(cls, model: StreamingModel, rows: Rows, size: int) -> RowSample:
        """Sample some rows."""
        scoring = np.flatnonzero(rows.is_scoring)
        weight = np.ones(len(scoring)) if rows.weight is None else rows.weight[scoring]
        values = normalize(rows.matrix.take(scoring, model.used_columns))
        y = rows.y[scoring]
        y = normalize(y) if y.dtype.kind == "f" else y
        key = hash_rows([*values.T, *y.T, weight])
        return cls(size, key, values, y, weight, np.ones(len(key), dtype=np.int64))._truncate()

    def __add__(self, other: RowSample) -> RowSample:
        arrays = [part.name for part in fields(self) if part.name != "size"]
        joined = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in arrays}
        return RowSample(self.size, **joined)._truncate()

    def _truncate(self) -> RowSample:
        """Merge equal rows, and keep those with the lowest hashes."""
        key, first, place = np.unique(self.key, return_index=True, return_inverse=True)
        count = np.bincount(place, weights=self.count, minlength=len(key)).astype(np.int64)
        kept = slice(self.size)
        first = first[kept]
        return RowSample(self.size, key[kept], self.values[first], self.y[first], self.weight[first], count[kept])

    def is_valid(self) -> bool:
        """Whether the sample is unmodified: the hashes match the rows."""
        arrays = [getattr(self, part.name, None) for part in fields(self) if part.name != "size"]
        if type(self.size) is not int or not all(isinstance(array, np.ndarray) for array in arrays):
            return False
        n_rows, values, y = len(self.key), self.values, self.y
        shapes = [array.shape for array in (self.key, self.weight, self.count)]
        if shapes != [(n_rows,)] * 3 or values.ndim != 2 or y.ndim != 2 or not 0 < n_rows <= self.size:
            return False
        if len(values) != n_rows or len(y) != n_rows or not {values.dtype.kind, y.dtype.kind} <= set("fiu"):
            return False
        if self.count.dtype.kind != "i" or self.weight.dtype != np.float64 or (self.count < 1).any():
            return False
        return np.array_equal(self.key, hash_rows([*values.T, *y.T, self.weight]))

    def make_matrix(self, model: StreamingModel, names: NDArray[np.str_], start: int, stop: int) -> FeatureMatrix:
        """Features of some of the rows; columns that no tree splits on are zero."""
        part = self.values[start:stop]
        values = np.zeros((len(part), model.tree_model.n_features), dtype=part.dtype)
        values[:, model.used_columns] = part
        return FeatureMatrix(values, names, bool(np.isnan(part).any()))


def hash_rows(columns: list[NDArray[np.generic]]) -> NDArray[np.uint64]:
    """Hash the content of rows, given as columns of numbers without negative zeros, shape (n_rows,)."""
    key = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        key ^= pd.util.hash_array(np.ascontiguousarray(column, dtype=np.float64), categorize=False)
        key *= _MULTIPLIER
        key ^= key >> np.uint64(32)
    return key


def normalize(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """Use one bit pattern for every zero and one for every NaN."""
    return np.where(np.isnan(values), values.dtype.type(np.nan), values + values.dtype.type(0))
