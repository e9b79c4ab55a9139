"""Infer the type of a column and read its values accordingly."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._formatting import count
from truewood._message import Message
from truewood.tabular._columns.columns import (
    BOOLEAN,
    CATEGORY,
    CONSTANT,
    DATE,
    EMPTY,
    GROUPS,
    IDENTIFIER,
    MANY_LEVELS,
    MISSING_LEVEL,
    NESTED,
    NUMBER,
    TEXT,
    Column,
)
from truewood.tabular._columns.identifiers import is_group_identifier, is_row_identifier
from truewood.tabular._columns.text_values import (
    is_missing,
    parse_dates,
    parse_day_numbers,
    parse_numbers,
    parse_quantities,
    parse_truth,
)
from truewood.tabular._columns.value_notes import note_values

# Categories with at most this many levels are one-hot encoded.
_FEW_LEVELS = 12
# A column is numeric, or a date, if at least this share of its values is; the rest become missing.
_MOST = 0.95
# From this share of numbers on, a note says why the column is not numeric.
_MANY = 0.75
# Strings identify rows if at least this share of them is unique.
_NEARLY_ALL = 0.95
# Mostly unique strings with at least this many words, on average, are free text.
_WORDS_OF_TEXT = 4.0


def infer_column(name: str, given: pd.Series[Any], *, is_kept: bool = False) -> Column:
    """Infer the type of a column, read its values accordingly, and note values that may not mean what they say."""
    return note_values(_infer_column(name, given, is_kept=is_kept))


def _infer_column(name: str, given: pd.Series[Any], *, is_kept: bool) -> Column:
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
        if (days := parse_day_numbers(column.values.to_numpy())) is not None:
            return Column(name, DATE, pd.Series(pd.DatetimeIndex(days)), "read as YYYYMMDD dates")
        return column if is_kept else _check_identifier(column)
    if column.dtype != CATEGORY:
        return column
    unusable = None if is_kept else _find_unusable(name, column.values[is_there], n_distinct)
    return Column(name, unusable or choose_category(n_distinct), column.values.fillna(MISSING_LEVEL), column.note)


def _check_identifier(column: Column) -> Column:
    """Change the type of numbers that identify rows or groups of rows."""
    if is_row_identifier(column.name, column.values.to_numpy()):
        return Column(column.name, IDENTIFIER, column.values)
    return Column(column.name, GROUPS, column.values) if is_group_identifier(column.name, column.values) else column


def choose_category(n_levels: int) -> str:
    """Choose the type of a category by its number of levels."""
    return CATEGORY if n_levels <= _FEW_LEVELS else MANY_LEVELS


def _read_typed(name: str, given: pd.Series[Any]) -> Column:
    """Read a column by its pandas dtype, or else by what its strings look like."""
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
    """Read strings, and the Python objects that Parquet files contain: dates, times, decimals."""
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
    """Strip the distinct strings, merge those that become equal, and map rows to them (-1: missing)."""
    codes_of, texts = pd.factorize(np.array([_clean(str(level)) for level in levels], dtype=object))
    return list(texts), np.where(codes < 0, -1, np.append(codes_of, -1)[codes])


def _clean(text: str) -> str | None:
    stripped = text.strip()
    return None if is_missing(stripped) else stripped


def _read_texts(name: str, texts: list[str], codes: NDArray[Any]) -> Column:
    """Read strings, given the distinct ones and a code for each row (-1: missing)."""
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
    return Column(name, CATEGORY, levels, _note_nearly_numeric(name, others[0], part) if part >= _MANY else None)


def find_numbers(texts: list[str], codes: NDArray[Any]) -> tuple[NDArray[np.float64], str | None, float]:
    """Parse strings as numbers, with or without a unit.

    Parameters
    ----------
    texts : list of str
        The distinct strings.
    codes : ndarray of shape (n_rows,)
        The string of each row; -1 if it is missing.

    Returns
    -------
    tuple of ndarray, str or None, float
        The number of each string (NaN if it has none), a note, and the share of rows with a number.
    """
    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    numbers, is_blank = parse_numbers(texts)
    read = None
    if len(texts) and counts[np.isnan(numbers) & ~is_blank].sum() > (1 - _MOST) * counts.sum():
        quantities = parse_quantities([text for text, blank in zip(texts, is_blank, strict=True) if not blank])
        if quantities is not None and np.isnan(quantities[0]).sum() < np.isnan(numbers[~is_blank]).sum():
            numbers[~is_blank], read = quantities
    is_other = np.isnan(numbers) & ~is_blank
    part = 1.0 - counts[is_other].sum() / max(counts.sum(), 1) if not np.isnan(numbers).all() else 0.0
    notes = [note for note in (read, _note_others(texts, is_other, counts)) if note is not None]
    return numbers, "; ".join(notes) or None, float(part)


def _note_nearly_numeric(name: str, other: str, part: float) -> Message:
    return Message(
        f"{part:.0%} of the values are numbers, but others, such as {other}, are not, so the column is not numeric.",
        "To read numbers, and treat the other values as missing, pass {dtypes}",
        dtypes={name: "number"},
    )


def _note_others(texts: list[str], is_other: NDArray[np.bool_], counts: NDArray[Any]) -> str | None:
    if not is_other.any():
        return None
    shown = ", ".join(repr(texts[k]) for k in np.flatnonzero(is_other)[:3])
    return f"{count(int(counts[is_other].sum()), 'non-numeric value')} treated as missing: {shown}"


def take_levels(levels: NDArray[Any], codes: NDArray[Any]) -> NDArray[Any]:
    """Look up the level of each row; code -1 is missing."""
    absent = np.array(["NaT" if levels.dtype.kind == "M" else np.nan], dtype=levels.dtype)
    taken: NDArray[Any] = np.concatenate([levels, absent])[codes]
    return taken


def _find_unusable(name: str, values: pd.Series[Any], n_distinct: int) -> str | None:
    """Choose the type of strings that are useless as levels; None for a category."""
    if is_group_identifier(name, values):
        return GROUPS
    if n_distinct <= _FEW_LEVELS or n_distinct < 0.5 * len(values):
        return None
    if np.mean([len(str(value).split()) for value in values]) >= _WORDS_OF_TEXT:
        return TEXT
    return IDENTIFIER if n_distinct >= _NEARLY_ALL * len(values) else None
