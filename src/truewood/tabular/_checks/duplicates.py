"""Rows of a table that look like duplicates of others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood.tabular._messages import Messages

# Fewer repeated rows than this part do little harm.
_FEW = 0.05
# Numbers and dates of more values than these seldom agree by chance.
_FEW_VALUES = 20
# Of flags and few levels: repeated rows that chance may make, and how often the most frequent one may be there.
_RARE = 0.1
_OFTEN = 5
# Where numbers and dates agree, nearly all else does in duplicates.
_NEARLY_ALL = 0.9


def warn_of_duplicates(X: pd.DataFrame, y: NDArray[Any], messages: Messages) -> None:
    """Warn of rows that look like duplicates of others; arguments as of `count_duplicates`."""
    n_duplicates = count_duplicates(X, y)
    if n_duplicates:
        messages.warn(
            f"{n_duplicates:,} of {len(X):,} rows are duplicates of other rows, in all columns and the target; if they "
            "are the same observations again, scores and p-values are far too good: remove duplicates"
        )


def count_duplicates(X: pd.DataFrame, y: NDArray[Any]) -> int:
    """Number of rows that repeat an earlier one in all columns and the target; 0 where that looks natural.

    Rows of few levels repeat each other anyway, unless there are many such columns. Rows whose numbers and dates agree,
    and then everything else does, are duplicates, unless these numbers come together as often when each column is
    shuffled.

    Parameters
    ----------
    X : DataFrame
        The columns.
    y : ndarray of shape (n_rows,)
        The target.
    """
    table = X.set_axis(range(X.shape[1]), axis=1).assign(target=y)
    try:
        is_repeated = table.duplicated()
    except TypeError:  # lists and dictionaries cannot be compared
        return 0
    if is_repeated.mean() <= _FEW:
        return 0
    wide = table[[name for name in table if _is_wide(table[name])]]
    if wide.empty:
        return int(is_repeated.sum()) if _are_copies(table) else 0
    if (~wide.duplicated()).sum() < _NEARLY_ALL * (~is_repeated).sum():
        return 0
    if wide.shape[1] > 1 and _count_by_chance(wide) > 0.5 * wide.duplicated().sum():
        return 0
    return int(is_repeated.sum())


def _count_by_chance(table: pd.DataFrame) -> int:
    """Number of repeated rows when each column is shuffled."""
    rng = np.random.default_rng(0)
    shuffled = pd.DataFrame({name: rng.permutation(table[name].to_numpy()) for name in table})
    return int(shuffled.duplicated().sum())


def _are_copies(table: pd.DataFrame) -> bool:
    """Whether repeated rows of flags and few levels look like copies: chance would make few, and none of them often.

    Columns that depend on each other repeat rows, too, but then the most typical row again and again. And copies have
    the same target, where rows that only look alike may differ.
    """
    n_repeated = int(table.duplicated().sum())
    if n_repeated < _NEARLY_ALL * table.drop(columns="target").duplicated().sum():
        return False
    times = table.value_counts(dropna=False)
    times = times[times > 1]
    return times.max() <= _OFTEN * times.median() and _count_by_chance(table) <= _RARE * n_repeated


def _is_wide(values: pd.Series[Any]) -> bool:
    is_measured = pd.api.types.is_numeric_dtype(values.dtype) or pd.api.types.is_datetime64_any_dtype(values.dtype)
    return is_measured and values.nunique() > _FEW_VALUES
