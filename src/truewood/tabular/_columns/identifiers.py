"""Find columns that identify rows, or groups of rows, rather than describe them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._formatting import count
from truewood._message import Message
from truewood.tabular._messages import Messages

# Columns without a name in a text file, and names that R, pandas and polars give to row numbers.
_UNNAMED = re.compile(
    r"unnamed 1|Unnamed: 0|rownames|row\.names|row_?(names?|nr|number|index|id)|index|", re.IGNORECASE
)
_NAMES_ROWS = re.compile(r"(^|[^A-Za-z])(?i:id|key|uuid|guid|index)$|[a-z](Id|ID|Key)$")
_NAMES_GROUPS = re.compile(
    r"(^|[^A-Za-z])(?i:id|ids|uuid|guid|subject|subj|patient|person|participant|respondent|customer|client|user|nr|"
    r"household|family|individual|animal)s?$|[a-z](Id|ID)$"
)
_NAMES_TIME = re.compile(
    r"(^|[^A-Za-z])(?i:time|date|day|year|yr|month|week|quarter|period|season)$|[a-z](Time|Date|Day|Year)$"
)
# Minimum of rows per group, on average, and of groups.
_ROWS_PER_GROUP, _FEWEST_GROUPS = 1.2, 5
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
    if np.isnan(values).any() or (values != np.floor(values)).any() or len(np.unique(values)) < len(values):
        return False
    if _UNNAMED.fullmatch(name) or _NAMES_ROWS.search(name):
        return True
    extent = values.max() - values.min()
    is_dense = extent < 1.05 * len(values) or extent < _RANGE_OF_NAMES * len(values) ** 2
    return bool(is_dense) and not is_time_name(name)


def find_group_identifiers(X: pd.DataFrame) -> list[str]:
    """List the columns that identify groups of rows, such as patients."""
    return [str(name) for name in X if _is_group_identifier(str(name), X[name])]


def warn_of_group_identifiers(X: pd.DataFrame, messages: Messages) -> None:
    """Warn about rows that appear to be grouped."""
    for name in find_group_identifiers(X):
        messages.warn(
            Message(
                f"{name} looks like a group identifier ({count(X[name].nunique(), 'value')} in "
                f"{count(len(X), 'row')}). If rows of the same {name} are similar, scores and p-values are too "
                "optimistic.",
                "To keep groups together, pass {groups}",
                groups=name,
            )
        )


def _is_group_identifier(name: str, values: pd.Series[Any]) -> bool:
    """Whether the name is typical, and the values are repeated integers or levels."""
    if not _NAMES_GROUPS.search(name):
        return False
    if pd.api.types.is_numeric_dtype(values.dtype) and (values.dropna() % 1 != 0).any():
        return False
    return bool(_FEWEST_GROUPS <= values.nunique() <= len(values) / _ROWS_PER_GROUP)
