"""Copies of rows: a tree that was trained on a copy of a row has seen the row.

Only X decides what a copy is. Leaving out rows that agree in X and y would select rows by y: the remaining rows would
disagree with the bags, and scores of useless features would be negative. And only rows that would be unique if they
were not copied are copies: in tables of few levels, rows agree by chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from truewood._engines import numpy_row_hashes
from truewood._engines.selection import get_engine
from truewood._formatting import count
from truewood._inputs.table_types import bring_to_host
from truewood._inputs.tables import FeatureMatrix

Codes = NDArray[np.int64]

# Chance leaves groups of equal rows of all sizes; copies leave most rows unique, or all groups of about the same size.
_MOSTLY_UNIQUE = 0.5
_SAME_SIZE = 0.2
# In continuous columns, too, values that repeat more often than this on average are levels.
_MOST_OFTEN = 3.0
# A row that makes up more than this share of the table, and more than this number, is a typical one, not a copy.
_TYPICAL_SHARE = 0.05
_TYPICAL = 10
# Rounded numbers agree by chance: a continuous column has room for more values than this, and than n^2 / 20.
_FINEST = 300
_PER_PAIR = 20.0
# Rows with the same value in a continuous column are copies if nearly all of them agree in all columns.
_NEARLY_ALL = 0.95
# Columns of a sparse matrix to search.
_MOST_SPARSE = 100
# Copies agree this many times as often as they would if one half of the columns did not depend on the other.
_FAR_MORE = 50.0


@dataclass(frozen=True, eq=False)
class Copies:
    """Rows that are copies of each other.

    Parameters
    ----------
    groups : ndarray of int64, shape (n_rows,)
        The same number for copies of the same row; rows without a copy have a number of their own.
    """

    groups: Codes

    @property
    def n_copies(self) -> int:
        """Number of rows that repeat an earlier row."""
        return len(self.groups) - int(self.groups.max()) - 1

    @property
    def is_first(self) -> NDArray[np.bool_]:
        """Which rows are not copies of an earlier row, shape (n_rows,)."""
        is_first = np.zeros(len(self.groups), dtype=np.bool_)
        is_first[np.unique(self.groups, return_index=True)[1]] = True
        return is_first

    def drop_copies(self, rows: Codes, training: NDArray[np.integer[Any]]) -> Codes:
        """Drop rows with a copy among the training rows; the others keep their order."""
        is_copied = np.zeros(int(self.groups.max()) + 1, dtype=np.bool_)
        is_copied[self.groups[training]] = True
        return rows[~is_copied[self.groups[rows]]]

    def describe(self, *, are_training: bool) -> str:
        """Describe what is done about copies, in one sentence, given whether rows are the training data."""
        are_copies = "is a copy of another row" if self.n_copies == 1 else "are copies of other rows"
        left_out = "trees are not evaluated on copies of rows they were trained on, and " * are_training
        return (
            f"{self.n_copies:,} of {count(len(self.groups), 'row')} {are_copies}; {left_out}copies count as one row "
            "in standard errors."
        )


def find_copies(matrix: FeatureMatrix, n_threads: int = 1) -> Copies | None:
    """Find rows that are copies of others; None if there are none, or if rows agree by chance.

    Rows are copies if they agree in all columns, and if either the columns include a continuous one, or rows agree far
    more often than if one half of the columns were independent of the other. In tables with few levels per column, rows
    that agree satisfy neither condition.
    """
    if matrix.n_rows < 2 or not (
        isinstance(matrix.values, np.ndarray) or sparse.issparse(matrix.values) or matrix.is_on_device
    ):
        return None
    hashes = get_engine().hash_rows(matrix, _draw_factors(matrix), n_threads)
    if hashes is None:
        return None
    groups, size = _number(hashes)
    if _look_copied(size) and _agree_beyond_chance(matrix, size, n_threads):
        is_copied = _may_be_copied(size)
    else:
        is_copied = find_identified_copies(matrix, groups, size)
    if not is_copied.any():
        return None
    # All other rows are on their own.
    own = np.where(is_copied[groups], groups, len(size) + np.arange(matrix.n_rows))
    return Copies(_number(own)[0])


def hash_rows(matrix: FeatureMatrix) -> NDArray[np.uint64]:
    """Hashes of rows, the same for rows that agree in all columns, shape (n_rows,)."""
    return numpy_row_hashes.hash_rows(matrix, _draw_factors(matrix))


def find_identified_copies(
    matrix: FeatureMatrix, groups: Codes, size: Codes, *, times: Codes | None = None, n_columns: int = 1
) -> NDArray[np.bool_]:
    """Find the groups of equal rows that are copies because continuous columns show it, shape (n_groups,).

    Parameters
    ----------
    matrix : FeatureMatrix
        Rows, with all columns or some of them.
    groups : ndarray of int64, shape (n_rows,)
        The group of each row.
    size : ndarray of int64, shape (n_groups,)
        Number of rows of each group.
    times : ndarray of int64, shape (n_rows,), or None
        How often each row occurs; None if once.
    n_columns : int
        Number of continuous columns that must show it.
    """
    is_copied = _may_be_copied(size)
    if _look_copied(size) or _MOST_OFTEN * len(size) >= size.sum():
        return is_copied & (_count_identifying(matrix, groups, size, times, n_columns) >= n_columns)
    return np.zeros_like(is_copied)


def encode_table(X: Any) -> FeatureMatrix:
    """A table of any kind of columns as numbers that are equal if the values of a column are."""
    return FeatureMatrix(_encode_columns(X), np.empty(0, dtype=np.str_), has_missing=True)


def _encode_columns(X: Any) -> Any:
    if sparse.issparse(X):
        matrix = sparse.csr_array(X, dtype=np.float64)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()  # its arrays may be the caller's
            matrix.sum_duplicates()
        return matrix
    frame = X if isinstance(X, pd.DataFrame) else None
    if frame is None and hasattr(X, "to_pandas"):
        frame = X.to_pandas()
    if frame is None:
        array = np.asarray(X)
        if array.ndim == 2 and array.dtype.kind in "biuf":
            return np.ascontiguousarray(array, dtype=np.float64)
        frame = pd.DataFrame(array.reshape(len(array), -1))
    values = np.empty(frame.shape)
    for j in range(frame.shape[1]):
        column = frame.iloc[:, j]
        if column.dtype.kind in "biuf":
            values[:, j] = column.to_numpy(dtype=np.float64, na_value=np.nan)
            continue
        try:
            values[:, j] = pd.factorize(column)[0]
        except TypeError:  # lists and dictionaries are not hashable
            values[:, j] = pd.factorize(column.astype(str))[0]
    return values


def _draw_factors(matrix: FeatureMatrix) -> NDArray[np.uint64]:
    """Random odd factors of the columns, shape (n_columns, 2)."""
    rng = np.random.default_rng(0)
    return rng.integers(0, 1 << 64, (matrix.values.shape[1], 2), dtype=np.uint64, endpoint=False) | np.uint64(1)


def _number(labels: NDArray[Any]) -> tuple[Codes, Codes]:
    """Number labels in the order in which they appear; also the size of each group."""
    codes = pd.factorize(labels, use_na_sentinel=False)[0].astype(np.int64)
    return codes, np.bincount(codes)


def _may_be_copied(size: Codes) -> NDArray[np.bool_]:
    """Whether groups have several rows, but not so many that the row is a typical one."""
    may_be: NDArray[np.bool_] = (size > 1) & (size <= max(_TYPICAL, _TYPICAL_SHARE * size.sum()))
    return may_be


def _count_pairs(size: NDArray[Any]) -> float:
    """Number of pairs of rows of the same group."""
    return float((size.astype(np.float64) * (size - 1.0) / 2.0).sum())


def _look_copied(size: Codes) -> bool:
    """Whether most distinct rows are unique, or all are repeated about equally often."""
    return bool(np.mean(size == 1) >= _MOSTLY_UNIQUE or size.var() <= _SAME_SIZE * size.mean())


def _agree_beyond_chance(matrix: FeatureMatrix, size: Codes, n_threads: int) -> bool:
    """Whether rows agree far more often than if one half of the columns were independent of the other."""
    n_rows, n_columns = matrix.n_rows, matrix.values.shape[1]
    if n_columns < 2:
        return False
    n_pairs = n_rows * (n_rows - 1) / 2.0
    expected = n_pairs
    for half in (slice(n_columns // 2), slice(n_columns // 2, None)):
        factors = np.zeros((n_columns, 2), dtype=np.uint64)
        factors[half] = _draw_factors(matrix)[half]
        hashes = get_engine().hash_rows(matrix, factors, n_threads)
        expected *= 0.0 if hashes is None else _count_pairs(_number(hashes)[1]) / n_pairs
    return _count_pairs(size) >= _FAR_MORE * expected


def _count_identifying(matrix: FeatureMatrix, groups: Codes, size: Codes, times: Codes | None, n_columns: int) -> Codes:
    """Count the continuous columns in which equal rows have a value that hardly any other row has, shape (n_groups,).

    Stops counting if every group has `n_columns` of them.
    """
    n_identifying = np.zeros(len(size), dtype=np.int64)
    most = max(_TYPICAL, _TYPICAL_SHARE * size.sum())
    for column in _list_columns(matrix):
        if not is_continuous(column, len(size)):
            continue
        own = _number(column)[0]
        is_rare = (np.bincount(own, weights=times)[own] <= most) & ~np.isnan(column)
        weights = None if times is None else times[is_rare]
        of_values, of_rows = (np.bincount(labels[is_rare], weights=weights) for labels in (own, groups))
        if _count_pairs(of_rows) >= _NEARLY_ALL * _count_pairs(of_values):
            is_identified = np.zeros(len(size), dtype=np.bool_)
            is_identified[groups[is_rare]] = True
            n_identifying += is_identified
        if (n_identifying[size > 1] >= n_columns).all():
            break
    return n_identifying


def _list_columns(matrix: FeatureMatrix) -> Iterator[NDArray[np.float64]]:
    """Columns in the host's memory; of a sparse matrix, those with the most stored values."""
    if not sparse.issparse(matrix.values):
        for column in bring_to_host(matrix.values).T:
            yield column.astype(np.float64) + 0.0
        return
    stored = matrix.values.tocsc()
    for j in np.argsort(-np.diff(stored.indptr), kind="stable")[:_MOST_SPARSE]:
        column = np.full(matrix.n_rows, matrix.fill)
        held = slice(stored.indptr[j], stored.indptr[j + 1])
        column[stored.indices[held]] = stored.data[held]
        yield column + 0.0


def is_continuous(column: NDArray[np.float64], n_distinct: int) -> bool:
    """Whether a column holds fractions, which are finer than rounding leaves them."""
    values = np.unique(column[np.isfinite(column)])
    if len(values) < 4 or (values == np.floor(values)).all():
        return False
    low, high = np.quantile(values, [0.25, 0.75])
    return bool(2.0 * (high - low) / np.diff(values).min() >= max(_FINEST, n_distinct**2 / _PER_PAIR))
