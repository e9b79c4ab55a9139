"""What kind a column is by its looks, and its values read as such."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._formatting import count, list_names, quote
from truewood.tabular._columns.identifiers import numbers_rows
from truewood.tabular._columns.text_values import (
    is_missing,
    parse_dates,
    parse_measures,
    parse_numbers,
    parse_truth,
    read_day_numbers,
)
from truewood.tabular._errors import TableError

NUMBER, BOOLEAN, CATEGORY, MANY_LEVELS, DATE = "number", "boolean", "category", "category of many levels", "date"
TEXT, IDENTIFIER, CONSTANT, EMPTY, NESTED = "free text", "identifier", "constant", "empty", "nested values"
USED = (NUMBER, BOOLEAN, CATEGORY, MANY_LEVELS, DATE)

# Level of the rows in which a category is missing.
MISSING_LEVEL = "(missing)"
# A category of up to so many levels gets a column for each of them.
FEW_LEVELS = 12
# A column is one of numbers or dates if so many of its values are; the others are then missing.
_MOST = 0.95
# With so many numbers, people are told that others hinder.
_MANY = 0.75
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
    dtype : str
        One of the kinds of this module.
    values : Series
        The values: floats of numbers and booleans (NaN where missing), strings of categories, datetime64 of dates.
    note : str or None
        What was assumed.
    """

    name: str
    dtype: str
    values: pd.Series[Any]
    note: str | None = None

    @property
    def is_used(self) -> bool:
        """Whether columns of this kind can be features."""
        return self.dtype in USED


def check_finite(columns: list[Column]) -> None:
    """Refuse columns of numbers that trees do not take."""
    for column in columns:
        if column.is_used and (n_infinite := count_infinite(column)):
            raise TableError(
                f"column {quote(column.name)} holds {count(n_infinite, 'infinite or far too large number')}; "
                f"replace such numbers, or leave the column out with drop=[{column.name!r}].",
                "table",
            )


def take_rows(columns: list[Column], is_taken: NDArray[np.bool_]) -> list[Column]:
    """The columns in some of the rows; kinds stay, unless a column is the same, or missing, in all of them."""
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


def read_column(name: str, given: pd.Series[Any], *, is_kept: bool = False) -> Column:
    """Find the kind of a column and read its values as such."""
    column = _read_typed(name, given)
    if column.dtype == NESTED:
        return column
    is_there = column.values.notna()
    if not is_there.any():
        return Column(name, EMPTY, column.values)
    n_distinct = column.values.nunique()
    if n_distinct == 1 and is_there.all():
        return Column(name, CONSTANT, column.values)
    if column.dtype == NUMBER:
        if (days := read_day_numbers(column.values.to_numpy())) is not None:
            return Column(name, DATE, pd.Series(pd.DatetimeIndex(days)), "read as year, month and day in eight digits")
        is_name = not is_kept and numbers_rows(name, column.values.to_numpy())
        return Column(name, IDENTIFIER, column.values) if is_name else column
    if column.dtype != CATEGORY:
        return column
    unusable = None if is_kept else _find_unusable(column.values[is_there], n_distinct)
    return Column(name, unusable or choose_category(n_distinct), column.values.fillna(MISSING_LEVEL), column.note)


def choose_category(n_levels: int) -> str:
    """The kind of a category, by its number of levels."""
    return CATEGORY if n_levels <= FEW_LEVELS else MANY_LEVELS


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
        return Column(name, DATE, pd.Series(pd.DatetimeIndex(take_levels(pd.to_datetime(levels).to_numpy(), codes))))
    if all(isinstance(level, bool) for level in levels):
        return Column(name, BOOLEAN, pd.Series(take_levels(np.array(levels, dtype=np.float64), codes)))
    if all(isinstance(level, int | float | Decimal) for level in levels):
        return Column(name, NUMBER, pd.Series(take_levels(np.array(levels, dtype=np.float64), codes)))
    if any(isinstance(level, bytes | tuple) for level in levels):
        return Column(name, NESTED, given)
    return _read_texts(name, *clean_levels(levels, codes))


def clean_levels(levels: Any, codes: NDArray[Any]) -> tuple[list[str], NDArray[Any]]:
    """The different strings, and which of them each row has: levels that differ in blanks only become one."""
    codes_of, texts = pd.factorize(np.array([_clean(str(level)) for level in levels], dtype=object))
    return list(texts), np.where(codes < 0, -1, np.append(codes_of, -1)[codes])


def _clean(text: str) -> str | None:
    stripped = text.strip()
    return None if is_missing(stripped) else stripped


def _read_texts(name: str, texts: list[str], codes: NDArray[Any]) -> Column:
    """Read strings, given the different ones and which of them each row has (-1: missing)."""
    if texts and (truth := parse_truth(texts)) is not None:
        return Column(name, BOOLEAN, pd.Series(take_levels(truth, codes)))
    numbers, note, part = find_numbers(texts, codes)
    if part >= _MOST:
        return Column(name, NUMBER, pd.Series(take_levels(numbers, codes)), note)
    is_blank = parse_numbers(texts)[1]
    dates = parse_dates([text for text, blank in zip(texts, is_blank, strict=True) if not blank])
    if dates is not None:
        read = dates[0].to_numpy()
        found = np.full(len(texts), "NaT", dtype=read.dtype)
        found[~is_blank] = read
        return Column(name, DATE, pd.Series(pd.DatetimeIndex(take_levels(found, codes))), f"read as {dates[1]}")
    levels = pd.Series(take_levels(np.array(texts, dtype=object), codes), dtype=object)
    others = [
        text for text, number, blank in zip(texts, numbers, is_blank, strict=True) if np.isnan(number) and not blank
    ]
    return Column(name, CATEGORY, levels, _tell_nearly(name, others[0], part) if part >= _MANY else None)


def find_numbers(texts: list[str], codes: NDArray[Any]) -> tuple[NDArray[np.float64], str | None, float]:
    """Numbers of strings, also with a unit: what each string stands for, a note, and for how many of the rows it holds.

    Parameters
    ----------
    texts : list of str
        The different strings.
    codes : ndarray of shape (n_rows,)
        Which of them each row has; -1 where it is missing.
    """
    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    numbers, is_blank = parse_numbers(texts)
    read = None
    if len(texts) and counts[np.isnan(numbers) & ~is_blank].sum() > (1 - _MOST) * counts.sum():
        measures = parse_measures([text for text, blank in zip(texts, is_blank, strict=True) if not blank])
        if measures is not None and np.isnan(measures[0]).sum() < np.isnan(numbers[~is_blank]).sum():
            numbers[~is_blank], read = measures
    is_other = np.isnan(numbers) & ~is_blank
    part = 1.0 - counts[is_other].sum() / max(counts.sum(), 1) if not np.isnan(numbers).all() else 0.0
    notes = [note for note in (read, _tell_others(texts, is_other, counts)) if note is not None]
    return numbers, "; ".join(notes) or None, float(part)


def _tell_nearly(name: str, other: str, part: float) -> str:
    return (
        f"{part:.0%} numbers, the rest like {other}: read as text; dtypes={{{name!r}: 'number'}} takes the rest as "
        "missing"
    )


def _tell_others(texts: list[str], is_other: NDArray[np.bool_], counts: NDArray[Any]) -> str | None:
    if not is_other.any():
        return None
    shown = ", ".join(repr(texts[k]) for k in np.flatnonzero(is_other)[:3])
    n_others = int(counts[is_other].sum())
    what = "1 value is no number and is" if n_others == 1 else f"{n_others:,} values are no numbers and are"
    return f"{what} taken as missing: {shown}"


def take_levels(levels: NDArray[Any], codes: NDArray[Any]) -> NDArray[Any]:
    """The level of each row, missing where the code is -1."""
    absent = np.array(["NaT" if levels.dtype.kind == "M" else np.nan], dtype=levels.dtype)
    taken: NDArray[Any] = np.concatenate([levels, absent])[codes]
    return taken


def count_infinite(column: Column) -> int:
    """Number of values that are infinite, or too large for trees."""
    return int(np.count_nonzero(np.abs(column.values) > _LARGEST)) if column.dtype == NUMBER else 0


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
        names = [column.name for column in columns if column.dtype == kind]
        if names:
            plural = {CATEGORY: "categories", MANY_LEVELS: "categories of many levels"}.get(kind, f"{kind}s")
            lines.append(f"{len(names)} {kind if len(names) == 1 else plural}: {list_names(names)}")
    lines += [f"{column.name}: {column.note}" for column in columns if column.note]
    for kind, reason in _WHY_LEFT_OUT.items():
        names = [column.name for column in columns if column.dtype == kind]
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
