"""`Folds`: training and test rows of each fold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
Floats = NDArray[np.float64]

# Folds differ if their means explain more than this share of the variance, and more than they would for random folds by
# more than this number of standard errors.
_MUCH_SEPARATION = 0.1
_MANY_ERRORS = 5.0


@dataclass(frozen=True, eq=False)
class Folds:
    """Training and test rows of each fold.

    Parameters
    ----------
    train, test : list of ndarray of int64
        Row numbers, one array for each fold.
    n_rows : int
        Number of rows of the table.
    """

    train: list[Rows]
    test: list[Rows]
    n_rows: int

    @property
    def is_held_out(self) -> NDArray[np.bool_]:
        """Rows that are held out in any fold, shape (n_rows,)."""
        is_held_out = np.zeros(self.n_rows, dtype=np.bool_)
        is_held_out[np.concatenate(self.test)] = True
        return is_held_out

    @property
    def are_blocks(self) -> bool:
        """Whether each fold holds out consecutive rows, and trains on later rows, too, unlike folds ordered in time."""
        are_runs = all(len(rows) == np.ptp(rows) + 1 for rows in self.test)
        return are_runs and any(train.max() > test.max() for train, test in zip(self.train, self.test, strict=True))

    def measure_separation(self, values: Floats) -> float:
        """Share of the variance of a value per row that lies between folds; 0 if it is that of random folds.

        Parameters
        ----------
        values : ndarray of shape (n_rows,)
            Such as the target; NaN is left out.
        """
        parts = [values[rows][~np.isnan(values[rows])] for rows in self.test]
        parts = [part for part in parts if len(part)]
        held_out = np.concatenate([*parts, np.empty(0)])
        total = float(len(held_out) * held_out.var()) if len(held_out) else 0.0
        if total <= 0:
            return 0.0
        between = sum(len(part) * float(part.mean() - held_out.mean()) ** 2 for part in parts) / total
        # For random folds, the share times the number of rows is about chi-squared.
        n_free = len(parts) - 1
        is_large = len(held_out) * between > n_free + _MANY_ERRORS * np.sqrt(2.0 * n_free)
        return between if is_large and between > _MUCH_SEPARATION else 0.0

    def weigh(self, sample_weight: Floats | None) -> Floats:
        """Weight of each fold, shape (n_folds,): its share of the test rows, or of their weight."""
        weight = np.array([len(rows) if sample_weight is None else sample_weight[rows].sum() for rows in self.test])
        share: Floats = weight / weight.sum()
        return share

    def measure_reciprocity(self, share: Floats) -> float:
        """Share of a test row's training rows that are themselves tested by a model trained on that row.

        Parameters
        ----------
        share : ndarray of shape (n_folds,)
            Weight of each fold.
        """
        train, test = _mark(self.train, self.n_rows), _mark(self.test, self.n_rows)
        grows = train.astype(np.float32) @ test.T.astype(np.float32) > 0  # [l, k]: rows of test k train model l
        answers = grows.T.astype(np.float32) @ test.astype(np.float32) > 0  # [k, j]: j tests such a model
        return float(share @ ((train & answers).sum(axis=1) / train.sum(axis=1)))

    @property
    def test_per_train(self) -> float:
        """Number of test rows over number of training rows, mean over folds."""
        return float(np.mean([len(test) / len(train) for train, test in zip(self.train, self.test, strict=True)]))


def read_folds(train: Sequence[Any], test: Sequence[Any], n_rows: int, groups: Rows | None, name: str) -> Folds:
    """Read and validate the rows of folds.

    Parameters
    ----------
    train, test : sequence of array-like
        Row numbers, for each fold.
    n_rows : int
        Number of rows of the table.
    groups : ndarray of int64, shape (n_rows,), or None
        The group of each row; None if rows are not grouped.
    name : str
        The argument that the folds come from.
    """
    if not len(train):
        raise ValueError(f"{name} must give at least one fold, got none.")
    read = [[_read_rows(name, k, rows, n_rows) for k, rows in enumerate(part, start=1)] for part in (train, test)]
    folds = Folds(read[0], read[1], n_rows)
    for k, (in_train, in_test) in enumerate(zip(folds.train, folds.test, strict=True), start=1):
        both = np.intersect1d(in_train, in_test)
        if len(both):
            raise ValueError(f"{name} must not test on training rows, but row {both[0]} is in both parts of fold {k}.")
        if groups is not None and len(split := np.intersect1d(groups[in_train], groups[in_test])):
            row = int(in_test[np.argmax(groups[in_test] == split[0])])
            raise ValueError(
                f"{name} must keep the rows of a group together, but fold {k} holds out row {row} and only some rows "
                "of its group; pass cv=GroupKFold(), or another splitter for groups."
            )
    return folds


def _read_rows(name: str, fold: int, given: Any, n_rows: int) -> Rows:
    rows = np.asarray(given)
    if rows.ndim != 1 or not len(rows) or not np.issubdtype(rows.dtype, np.integer):
        raise ValueError(
            f"{name} must give at least one row number each for training and testing, got an array of {rows.dtype}, "
            f"shape {rows.shape}, in fold {fold}."
        )
    if rows.min() < 0 or rows.max() >= n_rows:
        raise ValueError(
            f"{name} must give row numbers from 0 to {n_rows - 1}, got {rows.min()} to {rows.max()} in fold {fold}; "
            "pass the X and y that were split."
        )
    return rows.astype(np.int64)


def _mark(lists: list[Rows], n_rows: int) -> NDArray[np.bool_]:
    """Which rows are in each list, shape (n_lists, n_rows)."""
    marks = np.zeros((len(lists), n_rows), dtype=np.bool_)
    for mark, rows in zip(marks, lists, strict=True):
        mark[rows] = True
    return marks
