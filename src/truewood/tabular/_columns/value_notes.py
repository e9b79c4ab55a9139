"""Notes on values that may not mean what they say: codes for missing numbers, and levels spelled in several ways."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from truewood._formatting import count, enumerate_names
from truewood._message import as_message
from truewood.tabular._columns.columns import CATEGORY, MANY_LEVELS, NUMBER, Column

# Numbers that often stand for missing values, if they repeat and lie far from all others.
_CODES = {sign * int("9" * n_digits) for sign in (-1.0, 1.0) for n_digits in range(2, 8)}
_FEWEST_ROWS = 2


def note_values(column: Column) -> Column:
    """Add a note if a number may be a code for missing values, or if levels differ only in letter case."""
    note = None
    if column.dtype == NUMBER:
        note = _note_codes(column.values)
    elif column.dtype in (CATEGORY, MANY_LEVELS):
        note = _note_letter_case(column.values)
    if note is None:
        return column
    return replace(column, note=note if column.note is None else as_message(column.note).prefix(f"{note}; "))


def _note_codes(values: pd.Series[Any]) -> str | None:
    """Note the smallest or largest number if it is a code farther from the others than these are from each other."""
    numbers, counts = np.unique(values.dropna().to_numpy(), return_counts=True)
    if len(numbers) < 3:
        return None
    for code, n_rows, others, gap in (
        (numbers[0], counts[0], numbers[1:], numbers[1] - numbers[0]),
        (numbers[-1], counts[-1], numbers[:-1], numbers[-1] - numbers[-2]),
    ):
        if code in _CODES and n_rows >= _FEWEST_ROWS and gap > others[-1] - others[0]:
            return f"{code:.0f} in {count(int(n_rows), 'row')} may stand for missing values; if so, empty these cells"
    return None


def _note_letter_case(values: pd.Series[Any]) -> str | None:
    """Note the first levels that differ only in upper and lower case."""
    levels = sorted(map(str, values.unique()), key=lambda level: (level.casefold(), level))
    for _, group in groupby(levels, key=str.casefold):
        alike = list(group)
        if len(alike) > 1:
            return f"{enumerate_names(alike)} differ only in letter case and count as different levels"
    return None
