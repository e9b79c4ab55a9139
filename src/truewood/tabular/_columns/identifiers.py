"""Find columns that identify rows, or groups of rows, rather than describe them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._formatting import count
from truewood._message import Message
from truewood.tabular._columns.columns import GROUPS, Column
from truewood.tabular._messages import Messages

# Columns without a name in a text file, and names that R, pandas and polars give to row numbers.
_UNNAMED = re.compile(
    r"unnamed 1|Unnamed: 0|rownames|row\.names|row_?(names?|nr|number|index|id)|index|", re.IGNORECASE
)
_NAMES_ROWS = re.compile(r"(^|[^A-Za-z])(?i:id|key|uuid|guid|index)$|[a-z](Id|ID|Key)$")
_NAMES_KEYS = re.compile(r"(^|[^A-Za-z])(?i:ids?|uuid|guid|nr)$|[a-z](Id|ID)$")
# Not in the plural: customers and persons are counts.
_NAMES_GROUPS = re.compile(
    r"(^|[^A-Za-z])(?i:subject|subj|patient|person|participant|respondent|customer|client|user|household|family|"
    r"individual|animal)$"
)
_NAMES_TIME = re.compile(
    r"(^|[^A-Za-z])(?i:time|date|day|year|yr|month|week|quarter|period|season)$|[a-z](Time|Date|Day|Year)$"
)
# Minimum of rows per group, on average, and of groups.
_ROWS_PER_GROUP, _FEWEST_GROUPS = 1.2, 5
# Words such as family also name categories, which have few levels.
_FEW_LEVELS = 12
# n random integers from a range of n ** 2 / 10 are all distinct only once in 150 times (exp(-5)).
_RANGE_OF_NAMES = 0.1


def is_time_name(name: str) -> bool:
    """Whether a column name denotes a point in time."""
    return _NAMES_TIME.search(name) is not None


def is_row_identifier(name: str, values: NDArray[np.float64]) -> bool:
    """Whether integers identify rows.

    All values are distinct and none is missing. In addition, the column has no name or a typical name, or its values
    are so close together that measurements would repeat; points in time need a typical name.

    Parameters
    ----------
    name : str
        The name of the column.
    values : ndarray of shape (n_rows,)
        The values.
    """
    if not _are_distinct_integers(values):
        return False
    if _UNNAMED.fullmatch(name) or _NAMES_ROWS.search(name):
        return True
    n_rows = len(values)
    is_dense = values.max() - values.min() < max(1.05 * n_rows, _RANGE_OF_NAMES * n_rows**2)
    return is_dense and not is_time_name(name)


def _are_distinct_integers(values: NDArray[np.float64]) -> bool:
    if np.isnan(values).any() or (values != np.floor(values)).any():
        return False
    return len(np.unique(values)) == len(values)


def is_group_identifier(name: str, values: pd.Series[Any]) -> bool:
    """Whether a column identifies groups of rows, such as patients.

    The name is typical, and the values are repeated integers or strings.

    Parameters
    ----------
    name : str
        The name of the column.
    values : Series
        The values, numbers or strings.
    """
    n_groups, is_number = values.nunique(), pd.api.types.is_numeric_dtype(values.dtype)
    if not _FEWEST_GROUPS <= n_groups <= len(values) / _ROWS_PER_GROUP:
        return False
    if is_number and (values.dropna() % 1 != 0).any():
        return False
    if _NAMES_KEYS.search(name):
        return True
    return _NAMES_GROUPS.search(name) is not None and (is_number or n_groups > _FEW_LEVELS)


def warn_of_groups(columns: list[Column], task: str | None, messages: Messages) -> None:
    """Warn that rows appear to be grouped; columns that identify groups are left out.

    Parameters
    ----------
    columns : list of Column
        The columns.
    task : str or None
        The task, if it is known; survival forests cannot keep groups together.
    messages : Messages
        Receives the warnings.
    """
    for column in columns:
        if column.dtype != GROUPS:
            continue
        text = (
            f"column {column.name} looks like a group identifier ({count(column.values.nunique(), 'value')} in "
            f"{count(len(column.values), 'row')}) and is left out. If rows of the same {column.name} are similar, "
            "scores and p-values are too optimistic."
        )
        if task == "survival":
            messages.warn(Message(text, f"Survival forests cannot keep groups together: use one row per {column.name}"))
        else:
            messages.warn(Message(text, "To keep groups together, pass {groups}", groups=column.name))
