"""Find duplicate rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood.tabular._messages import Messages

# A smaller share of repeated rows does little harm.
_FEW = 0.05
# Numbers and dates with more distinct values than this rarely agree by chance.
_FEW_VALUES = 20
# For low-cardinality columns: largest share of repeats explained by chance, and largest relative count of one row.
_RARE = 0.1
_OFTEN = 5
# If numbers and dates agree, nearly everything else agrees in true duplicates.
_NEARLY_ALL = 0.9


def warn_of_duplicates(X: pd.DataFrame, y: NDArray[Any], messages: Messages) -> None:
    """Warn about rows that look like duplicates; arguments as in `count_duplicates`."""
    n_duplicates = count_duplicates(X, y)
    if n_duplicates:
        messages.warn(
            f"{n_duplicates:,} of {len(X):,} rows are exact duplicates. If they repeat the same observations, scores "
            "and p-values are far too optimistic: remove the duplicates"
        )


def count_duplicates(X: pd.DataFrame, y: NDArray[Any]) -> int:
    """Count rows that repeat an earlier row in all columns and the target; 0 if that looks natural.

    Rows of low-cardinality columns repeat by nature, unless there are many such columns. If rows agree in all numbers
    and dates, and then in everything else, they are duplicates, unless the numbers agree as often when each column is
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
    except TypeError:  # lists and dictionaries are not hashable
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
    """Count repeated rows when each column is shuffled."""
    rng = np.random.default_rng(0)
    shuffled = pd.DataFrame({name: rng.permutation(table[name].to_numpy()) for name in table})
    return int(shuffled.duplicated().sum())


def _are_copies(table: pd.DataFrame) -> bool:
    """Whether repeated rows of low-cardinality columns look like copies.

    Chance would repeat few rows, and none of them often. Dependent columns also repeat rows, but the most typical row
    most often. Copies have the same target, whereas rows that merely look alike may differ in it.
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
