"""`CopySample`: a bounded sample of rows, which shows how many of all rows are copies of each other.

Like `RowSample`, it holds the rows with the lowest hashes, each once with a count, and depends neither on how rows are
split into parts nor on their order. But whether rows are equal depends on X alone, as for a table in memory. The sample
has all copies of a row or none, but rarely both of two different rows that agree in some columns. So it cannot show
that rows agree more often than by chance, and copies are recognized by continuous columns only. One of them is enough
in a sample of all rows. In a smaller one, its values may repeat unseen; that two columns agree by chance is unlikely.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from truewood._inputs.tables import FeatureMatrix
from truewood._rows.copies import find_identified_copies, hash_rows
from truewood._streaming.model import Rows, StreamingModel
from truewood._streaming.row_sample import normalize

# Distinct rows that are kept, and columns: those that trees split on most often, which include continuous ones.
N_DISTINCT = 1 << 12
N_COLUMNS = 16
# Inflation with which normal tests at 5% reject in 7% of data sets, as do those in experiments/calibration:
# streamed_copies.csv has 6.4% at 1.2, and 7.0% at 1.3.
MOST_INFLATION = 1.24


class Copied(NamedTuple):
    """What copies do to the rows.

    Parameters
    ----------
    share : float
        Share of rows that repeat another row.
    inflation : float
        Variance of a sum over all rows, relative to that of as many independent rows.
    """

    share: float
    inflation: float


@dataclass(frozen=True, eq=False)
class CopySample:
    """Distinct rows, sorted by their hashes.

    Parameters
    ----------
    size : int
        Maximum number of distinct rows to keep.
    key : ndarray of uint64, shape (n_kept,)
        Hashes of rows.
    values : ndarray of float32 or float64, shape (n_kept, n_columns)
        Their values in some columns.
    count : ndarray of int64, shape (n_kept,)
        Number of rows with these values.
    """

    size: int
    key: NDArray[np.uint64]
    values: NDArray[np.floating]
    count: NDArray[np.int64]

    @classmethod
    def draw(cls, model: StreamingModel, rows: Rows) -> CopySample:
        """Sample some rows, at least one of positive weight."""
        return cls.take(rows.matrix, np.flatnonzero(rows.is_scoring), model.most_split_columns[:N_COLUMNS], N_DISTINCT)

    @classmethod
    def take(cls, matrix: FeatureMatrix, rows: NDArray[np.int64], columns: NDArray[np.int64], size: int) -> CopySample:
        """Sample some rows of a matrix, with the values of some columns."""
        key = hash_rows(matrix)[rows]
        ordered = np.sort(key)  # much faster than unique values
        is_kept = key <= ordered[np.append(True, ordered[1:] != ordered[:-1])][:size][-1]
        key, first, count = np.unique(key[is_kept], return_index=True, return_counts=True)
        values = normalize(matrix.take(rows[is_kept][first], columns))
        return cls(size, key, values, count.astype(np.int64))

    def __add__(self, other: CopySample) -> CopySample:
        joined = np.concatenate([self.key, other.key])
        key, first, place = np.unique(joined, return_index=True, return_inverse=True)
        count = np.bincount(place, weights=np.concatenate([self.count, other.count])).astype(np.int64)
        kept = slice(self.size)
        values = np.concatenate([self.values, other.values])[first[kept]]
        return replace(self, key=key[kept], values=values, count=count[kept])

    def is_valid(self) -> bool:
        """Whether the fields fit each other."""
        own = [self.__dict__.get(name) for name in ("key", "values", "count")]
        if type(self.__dict__.get("size")) is not int or not all(isinstance(array, np.ndarray) for array in own):
            return False
        n_kept = len(self.key)
        shapes = [self.key.shape, self.values.shape[:1], self.count.shape]
        if shapes != [(n_kept,)] * 3 or self.values.ndim != 2 or not 0 < n_kept <= self.size:
            return False
        if [self.key.dtype.kind, self.values.dtype.kind, self.count.dtype.kind] != ["u", "f", "i"]:
            return False
        return bool((self.key[1:] > self.key[:-1]).all() and (self.count > 0).all())

    def fits(self, n_features: int, n_rows: int) -> bool:
        """Whether this can be a sample of a table with so many columns and rows."""
        n_counted, n_columns = int(self.count.sum()), self.values.shape[1]
        has_rows = n_counted == n_rows if self.has_all_rows else n_counted <= n_rows
        return has_rows and n_columns == min(n_features, N_COLUMNS)

    @property
    def has_all_rows(self) -> bool:
        """Whether every row is in the sample."""
        return len(self.key) < self.size

    def measure(self) -> Copied:
        """Estimate how many rows are copies."""
        matrix = FeatureMatrix(self.values, np.empty(0, np.str_), bool(np.isnan(self.values).any()))
        n_columns = 1 if self.has_all_rows else 2
        is_copied = find_identified_copies(
            matrix, np.arange(len(self.key)), self.count, times=self.count, n_columns=n_columns
        )
        size, n_rows = self.count[is_copied].astype(np.float64), float(self.count.sum())
        return Copied(float((size - 1.0).sum()) / n_rows, 1.0 + float((size * (size - 1.0)).sum()) / n_rows)

    def find_problem(self) -> str | None:
        """Why standard errors are withheld; None if copies hardly change them."""
        share, inflation = self.measure()
        if inflation <= MOST_INFLATION:
            return None
        about = "" if self.has_all_rows else "about "
        return (
            f"{about}{share:.0%} of the rows are copies of other rows, which count as independent rows if X is read in "
            "parts; remove duplicate rows, or pass a table in memory, in which copies count as one row"
        )
