"""Columns that name rows, or what several rows belong to, rather than describe them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._formatting import count
from truewood.tabular._messages import Messages

# Of a column that has no name in a text file, and what R, pandas and polars call the numbers of rows.
_UNNAMED = re.compile(
    r"unnamed 1|Unnamed: 0|rownames|row\.names|row_?(names?|nr|number|index|id)|index|", re.IGNORECASE
)
_NAMES_ROWS = re.compile(r"(^|[^A-Za-z])(?i:id|key|uuid|guid|index)$|[a-z](Id|ID|Key)$")
_NAMES_UNITS = re.compile(
    r"(^|[^A-Za-z])(?i:id|ids|uuid|guid|subject|subj|patient|person|participant|respondent|customer|client|user|nr|"
    r"household|family|individual|animal)s?$|[a-z](Id|ID)$"
)
_NAMES_TIME = re.compile(
    r"(^|[^A-Za-z])(?i:time|date|day|year|yr|month|week|quarter|period|season)$|[a-z](Time|Date|Day|Year)$"
)
# So many rows for each unit, on average, and at least so many units.
_ROWS_OF_UNIT, _FEWEST_UNITS = 1.2, 5
# Whole numbers drawn at random from a range of n ** 2 / 10 repeat each other but once in 150 times (exp(-5)).
_RANGE_OF_NAMES = 0.1


def is_time_name(name: str) -> bool:
    """Whether a name says that numbers are points in time."""
    return _NAMES_TIME.search(name) is not None


def numbers_rows(name: str, values: NDArray[np.float64]) -> bool:
    """Whether whole numbers are names of rows.

    Each occurs once, in every row. Beyond that the column has no name of its own, or one that says so, or its numbers
    lie so close together that measured ones would repeat each other; those of points in time need a reason of name.

    Parameters
    ----------
    name : str
        The name of the column.
    values : ndarray of shape (n_rows,)
        Its values.
    """
    if np.isnan(values).any() or (values != np.floor(values)).any() or len(np.unique(values)) < len(values):
        return False
    if _UNNAMED.fullmatch(name) or _NAMES_ROWS.search(name):
        return True
    extent = values.max() - values.min()
    is_dense = extent < 1.05 * len(values) or extent < _RANGE_OF_NAMES * len(values) ** 2
    return bool(is_dense) and not is_time_name(name)


def find_units(X: pd.DataFrame) -> list[str]:
    """Names of the columns that name what several rows belong to, such as patients."""
    return [str(name) for name in X if _names_units(str(name), X[name])]


def warn_of_units(X: pd.DataFrame, messages: Messages) -> None:
    """Warn of rows that belong together."""
    for name in find_units(X):
        n_units = X[name].nunique()
        messages.warn(
            f"rows seem to belong together: {name} has {count(n_units, 'value')} in {count(len(X), 'row')}; if rows of "
            f"one {name} are alike, scores and p-values are too good: keep them together with groups={name!r}"
        )


def _names_units(name: str, values: pd.Series[Any]) -> bool:
    """Whether the name says so, and the values are whole numbers or levels that repeat."""
    if not _NAMES_UNITS.search(name):
        return False
    if pd.api.types.is_numeric_dtype(values.dtype) and (values.dropna() % 1 != 0).any():
        return False
    return bool(_FEWEST_UNITS <= values.nunique() <= len(values) / _ROWS_OF_UNIT)
