"""What kind each column is, and the table with every column read as its kind."""

from __future__ import annotations

import datetime
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood.tabular.errors import TableError
from truewood.tabular.identifiers import numbers_rows
from truewood.tabular.text_values import is_missing, parse_dates, parse_numbers, parse_truth
from truewood.words import count, list_names

NUMBER, BOOLEAN, CATEGORY, MANY_LEVELS, DATE = "number", "boolean", "category", "category of many levels", "date"
TEXT, IDENTIFIER, CONSTANT, EMPTY, NESTED = "free text", "identifier", "constant", "empty", "nested values"
USED = (NUMBER, BOOLEAN, CATEGORY, MANY_LEVELS, DATE)

# Level of the rows in which a category is missing.
MISSING_LEVEL = "(missing)"
# A category of up to so many levels gets a column for each of them.
FEW_LEVELS = 12
# A column is one of numbers or dates if so many of its values are; the others are then missing.
_MOST = 0.95
# Strings that differ in so many rows name the rows.
_NEARLY_ALL = 0.95
# Strings of so many words that mostly differ are written by people for people.
_WORDS_OF_TEXT = 4.0
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class Column:
    """One column: its name, its kind, and what the user should know of how it was read.

    Parameters
    ----------
    name : str
        The name.
    kind : str
        One of the kinds of this module.
    values : Series
        The values: floats of numbers and booleans (NaN where missing), strings of categories, datetime64 of dates.
    note : str or None
        What was assumed.
    """

    name: str
    kind: str
    values: pd.Series[Any]
    note: str | None = None

    @property
    def is_used(self) -> bool:
        """Whether columns of this kind can be features."""
        return self.kind in USED


def read_columns(table: pd.DataFrame, kept: Collection[str] = ()) -> list[Column]:
    """Find the kind of each column and read its values as such.

    Parameters
    ----------
    table : DataFrame
        The table, with columns of text or of types of their own.
    kept : collection of str
        Names of columns to use even if they look like identifiers or free text.
    """
    return [read_column(str(name), table[name], is_kept=name in kept) for name in table]


def check_finite(columns: list[Column]) -> None:
    """Refuse columns of numbers that trees do not take."""
    for column in columns:
        if column.is_used and (n_infinite := count_infinite(column)):
            raise TableError(
                f"column {column.name!r} holds {count(n_infinite, 'infinite or far too large number')}; replace such "
                f"numbers, or leave the column out with drop=[{column.name!r}].",
                "table",
            )


def take_rows(columns: list[Column], is_taken: NDArray[np.bool_]) -> list[Column]:
    """The columns in some of the rows; kinds stay, unless a column is the same, or missing, in all of them."""
    if is_taken.all():
        return columns
    return [_take_rows(column, is_taken) for column in columns]


def _take_rows(column: Column, is_taken: NDArray[np.bool_]) -> Column:
    values = column.values[is_taken].reset_index(drop=True)
    kind = column.kind
    if column.is_used and not values.notna().any():
        kind = EMPTY
    elif column.is_used and values.notna().all() and (values == values.iloc[0]).all():
        kind = CONSTANT
    return Column(column.name, kind, values, column.note)


def read_column(name: str, given: pd.Series[Any], *, is_kept: bool = False) -> Column:
    """Find the kind of a column and read its values as such."""
    column = _read_typed(name, given)
    if column.kind == NESTED:
        return column
    is_there = column.values.notna()
    if not is_there.any():
        return Column(name, EMPTY, column.values)
    n_distinct = column.values.nunique()
    if n_distinct == 1 and is_there.all():
        return Column(name, CONSTANT, column.values)
    if column.kind == NUMBER:
        is_name = not is_kept and numbers_rows(name, column.values.to_numpy())
        return Column(name, IDENTIFIER, column.values) if is_name else column
    if column.kind != CATEGORY:
        return column
    kind = (MANY_LEVELS, CATEGORY)[n_distinct <= FEW_LEVELS]
    if not is_kept:
        kind = _find_unusable(column.values[is_there], n_distinct) or kind
    return Column(name, kind, column.values.fillna(MISSING_LEVEL), column.note)


def _read_typed(name: str, given: pd.Series[Any]) -> Column:
    """Read by the type of the column, or by what its strings say."""
    if pd.api.types.is_bool_dtype(given.dtype):
        return Column(name, BOOLEAN, given.astype("Float64").astype(np.float64))
    if pd.api.types.is_numeric_dtype(given.dtype) and given.dtype.kind != "c":
        return Column(name, NUMBER, given.astype(np.float64))
    if pd.api.types.is_datetime64_any_dtype(given.dtype):
        return Column(name, DATE, pd.Series(pd.DatetimeIndex(given).tz_localize(None)))
    if pd.api.types.is_timedelta64_dtype(given.dtype):
        return Column(name, NUMBER, given.dt.total_seconds() / 86_400, "durations read as days")
    return _read_objects(name, given)


def _read_objects(name: str, given: pd.Series[Any]) -> Column:
    """Read strings, or what Parquet files hold beside: dates, times of day, decimal numbers."""
    try:
        codes, levels = pd.factorize(given.astype(object))
    except TypeError:  # lists and dictionaries cannot be compared
        return Column(name, NESTED, given)
    if all(isinstance(level, datetime.date) for level in levels) and len(levels):
        return Column(name, DATE, pd.Series(pd.DatetimeIndex(_take_levels(pd.to_datetime(levels).to_numpy(), codes))))
    if all(isinstance(level, bool) for level in levels):
        return Column(name, BOOLEAN, pd.Series(_take_levels(np.array(levels, dtype=np.float64), codes)))
    if all(isinstance(level, int | float | Decimal) for level in levels):
        return Column(name, NUMBER, pd.Series(_take_levels(np.array(levels, dtype=np.float64), codes)))
    if any(isinstance(level, bytes | tuple) for level in levels):
        return Column(name, NESTED, given)
    # Levels that differ in blanks only become one.
    codes_of, texts = pd.factorize(np.array([_clean(str(level)) for level in levels], dtype=object))
    codes = np.where(codes < 0, -1, np.append(codes_of, -1)[codes])
    return _read_texts(name, list(texts), codes)


def _clean(text: str) -> str | None:
    stripped = text.strip()
    return None if is_missing(stripped) else stripped


def _read_texts(name: str, texts: list[str], codes: NDArray[Any]) -> Column:
    """Read strings, given the different ones and which of them each row has (-1: missing)."""
    n_rows = max(int(np.count_nonzero(codes >= 0)), 1)
    if texts and (truth := parse_truth(texts)) is not None:
        return Column(name, BOOLEAN, pd.Series(_take_levels(truth, codes)))
    numbers, is_blank = parse_numbers(texts)
    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    is_other = np.isnan(numbers) & ~is_blank
    n_numbers = counts[~np.isnan(numbers)].sum()
    if n_numbers and counts[is_other].sum() <= (1 - _MOST) * n_rows:
        return Column(name, NUMBER, pd.Series(_take_levels(numbers, codes)), _tell_others(texts, is_other, counts))
    dates = parse_dates([text for text, blank in zip(texts, is_blank, strict=True) if not blank])
    if dates is not None:
        read = dates[0].to_numpy()
        found = np.full(len(texts), "NaT", dtype=read.dtype)
        found[~is_blank] = read
        return Column(name, DATE, pd.Series(pd.DatetimeIndex(_take_levels(found, codes))), f"read as {dates[1]}")
    return Column(name, CATEGORY, pd.Series(_take_levels(np.array(texts, dtype=object), codes), dtype=object))


def _tell_others(texts: list[str], is_other: NDArray[np.bool_], counts: NDArray[Any]) -> str | None:
    if not is_other.any():
        return None
    shown = ", ".join(repr(texts[k]) for k in np.flatnonzero(is_other)[:3])
    n_others = int(counts[is_other].sum())
    what = "1 value is no number and is" if n_others == 1 else f"{n_others:,} values are no numbers and are"
    return f"{what} taken as missing: {shown}"


def _take_levels(levels: NDArray[Any], codes: NDArray[Any]) -> NDArray[Any]:
    """The level of each row, missing where the code is -1."""
    absent = np.array(["NaT" if levels.dtype.kind == "M" else np.nan], dtype=levels.dtype)
    taken: NDArray[Any] = np.concatenate([levels, absent])[codes]
    return taken


def count_infinite(column: Column) -> int:
    """Number of values that are infinite, or too large for trees."""
    return int(np.count_nonzero(np.abs(column.values) > _LARGEST)) if column.kind == NUMBER else 0


def _find_unusable(values: pd.Series[Any], n_distinct: int) -> str | None:
    """The kind of strings that say nothing as levels, None for a category."""
    if n_distinct <= FEW_LEVELS or n_distinct < 0.5 * len(values):
        return None
    if np.mean([len(str(value).split()) for value in values]) >= _WORDS_OF_TEXT:
        return TEXT
    return IDENTIFIER if n_distinct >= _NEARLY_ALL * len(values) else None


def describe(columns: list[Column]) -> list[str]:
    """What was found, in words: the columns of each kind, what was assumed, and what is left out and why."""
    lines = []
    for kind in USED:
        names = [column.name for column in columns if column.kind == kind]
        if names:
            plural = {CATEGORY: "categories", MANY_LEVELS: "categories of many levels"}.get(kind, f"{kind}s")
            lines.append(f"{len(names)} {kind if len(names) == 1 else plural}: {list_names(names)}")
    lines += [f"{column.name}: {column.note}" for column in columns if column.note and column.is_used]
    for kind, reason in _WHY_LEFT_OUT.items():
        names = [column.name for column in columns if column.kind == kind]
        if names:
            lines.append(f"left out: {list_names(names)} ({reason})")
    return lines


_WHY_LEFT_OUT = {
    IDENTIFIER: "names the rows, and says nothing of new ones; keep=[...] uses it all the same",
    TEXT: "free text; keep=[...] uses it as a category",
    CONSTANT: "the same in every row",
    EMPTY: "no values",
    NESTED: "neither numbers nor text",
}
