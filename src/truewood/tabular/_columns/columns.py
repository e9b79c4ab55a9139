"""`Column`: a column with its type, and what is reported about columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._formatting import count, list_names, quote
from truewood._message import Message, as_message
from truewood.tabular._errors import TableError

NUMBER, BOOLEAN, CATEGORY, MANY_LEVELS, DATE = "number", "boolean", "category", "high-cardinality category", "date"
TEXT, IDENTIFIER, CONSTANT, EMPTY, NESTED = "free text", "identifier", "constant", "empty", "nested values"
GROUPS, LEAK = "group identifier", "possible leak"
# What messages call columns of a type, if not by its name.
_ADJECTIVES = {NUMBER: "numeric", CATEGORY: "categorical", MANY_LEVELS: "high-cardinality categorical"}
USED = (NUMBER, BOOLEAN, CATEGORY, MANY_LEVELS, DATE)

# Level of a category that stands for missing values.
MISSING_LEVEL = "(missing)"
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class Column:
    """A column with its type, inferred or requested.

    Parameters
    ----------
    name : str
        The name.
    dtype : str
        One of the types defined in this module.
    values : Series
        The values: float for numbers and booleans (NaN if missing), str for categories, datetime64 for dates.
    note : str or None
        What was assumed when the column was read.
    """

    name: str
    dtype: str
    values: pd.Series[Any]
    note: str | None = None

    @property
    def is_used(self) -> bool:
        """Whether columns of this type can be features."""
        return self.dtype in USED


def check_finite(columns: list[Column]) -> None:
    """Refuse numbers that trees cannot handle."""
    for column in columns:
        if column.is_used and (n_infinite := count_infinite(column)):
            raise TableError(
                Message(
                    f"column {quote(column.name)} contains infinite numbers, or numbers too large for float32, in "
                    f"{count(n_infinite, 'row')}.",
                    "Replace them, or drop the column with {drop}.",
                    drop=[column.name],
                ),
                "table",
            )


def count_infinite(column: Column) -> int:
    """Count values that are infinite or too large for float32."""
    return int(np.count_nonzero(np.abs(column.values) > _LARGEST)) if column.dtype == NUMBER else 0


def take_rows(columns: list[Column], is_taken: NDArray[np.bool_]) -> list[Column]:
    """Select rows; types stay the same, unless a column becomes constant or empty."""
    if is_taken.all():
        return columns
    return [_take_rows(column, is_taken) for column in columns]


def _take_rows(column: Column, is_taken: NDArray[np.bool_]) -> Column:
    values = column.values[is_taken].reset_index(drop=True)
    kind = column.dtype
    if column.is_used and not values.notna().any():
        kind = EMPTY
    elif column.is_used and values.notna().all() and (values == values.iloc[0]).all():
        kind = CONSTANT
    return Column(column.name, kind, values, column.note)


def join_used(columns: list[Column]) -> pd.DataFrame:
    """Build the table of the used columns."""
    return pd.DataFrame({column.name: column.values for column in columns if column.is_used})


def describe_columns(columns: list[Column]) -> list[Message]:
    """List the columns of each type, what was assumed, and which columns are left out and why."""
    lines = []
    for dtype in USED:
        names = [column.name for column in columns if column.dtype == dtype]
        if names:
            lines.append(
                Message(f"{count(len(names), f'{_ADJECTIVES.get(dtype, dtype)} column')}: {list_names(names)}")
            )
    lines += [as_message(column.note).prefix(f"{column.name}: ") for column in columns if column.note]
    for dtype, (reason, use) in _WHY_LEFT_OUT.items():
        names = [column.name for column in columns if column.dtype == dtype]
        if names:
            text = f"left out: {list_names(names)} ({reason[len(names) > 1]})"
            hint = f"To use {'it' if len(names) == 1 else 'one of them'} {use}, pass {{keep}}"
            lines.append(Message(text, hint if use else "", keep=names[:1]))
    return lines


# The reason for one and for several columns, and how they can be used.
_WHY_LEFT_OUT = {
    IDENTIFIER: (("looks like a row identifier", "look like row identifiers"), "anyway"),
    GROUPS: (("looks like a group identifier", "look like group identifiers"), "anyway"),
    TEXT: (("free text", "free text"), "as a category"),
    CONSTANT: (("same value in every row", "same value in every row"), ""),
    EMPTY: (("no values", "no values"), ""),
    NESTED: (("neither numbers nor text", "neither numbers nor text"), ""),
}
