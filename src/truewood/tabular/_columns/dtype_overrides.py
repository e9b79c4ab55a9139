"""Read columns with the types that the user requests, and infer all other types (`type_inference.py`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd

from truewood._arguments import check_type
from truewood._formatting import count, quote
from truewood.tabular._columns.columns import (
    BOOLEAN,
    CONSTANT,
    DATE,
    EMPTY,
    MISSING_LEVEL,
    NESTED,
    NUMBER,
    TEXT,
    Column,
)
from truewood.tabular._columns.roles import check_name
from truewood.tabular._columns.text_values import parse_dates
from truewood.tabular._columns.type_inference import (
    choose_category,
    clean_levels,
    find_numbers,
    infer_column,
    take_levels,
)
from truewood.tabular._errors import TableError

_WANTED = ("number", "category", "date", "text", "drop")


def read_dtypes(dtypes: Mapping[str, str] | None, names: list[str], target: str | None) -> Mapping[str, str]:
    """Read the argument `dtypes`; refuse unknown types and columns."""
    if dtypes is None:
        return {}
    check_type(dtypes, Mapping, "dtypes", "a dict of column names to types")
    dtypes = {str(name): str(wanted) for name, wanted in dtypes.items()}
    for name, wanted in dtypes.items():
        check_name(name, names, "dtypes")
        kind, _, form = wanted.partition(":")
        if kind not in _WANTED or (form and kind != "date"):
            raise TableError(
                f"the type of column {quote(name)} must be one of {', '.join(_WANTED)} or date:FORMAT, got "
                f"{quote(wanted)}.",
                "dtypes",
            )
        if name == target and kind not in ("number", "category"):
            raise TableError(f"the target {quote(name)} must be number or category, got {quote(wanted)}.", "dtypes")
    return dtypes


def list_dropped(dtypes: Mapping[str, str]) -> tuple[str, ...]:
    """List the columns to drop."""
    return tuple(name for name, wanted in dtypes.items() if wanted == "drop")


def choose_task(dtypes: Mapping[str, str], target: str) -> str | None:
    """Choose the task from the requested type of the target; None if no type is requested."""
    return {"number": "regression", "category": "classification"}.get(dtypes.get(target, ""))


def read_columns(
    table: pd.DataFrame, kept: Collection[str] = (), dtypes: Mapping[str, str] | None = None
) -> list[Column]:
    """Read all columns, with inferred or requested types.

    Parameters
    ----------
    table : DataFrame
        The table, with columns of text or of any pandas dtype.
    kept : collection of str
        Columns to use even if they look like identifiers or free text.
    dtypes : mapping of str to str
        Requested types; see `score_table`.
    """
    wanted = dtypes or {}
    return [
        read_column_as(str(name), table[name], wanted[str(name)])
        if str(name) in wanted
        else infer_column(str(name), table[name], is_kept=name in kept)
        for name in table
    ]


def read_column_as(name: str, given: pd.Series[Any], wanted: str) -> Column:
    """Read a column as the requested type; values that do not fit become missing."""
    kind, _, form = wanted.partition(":")
    looked = infer_column(name, given, is_kept=True)
    if looked.dtype in (NESTED, EMPTY, CONSTANT) or kind == "text":
        return Column(name, TEXT, looked.values) if kind == "text" else looked
    if kind == looked.dtype and not form:
        return looked
    if kind == "number" and looked.dtype == BOOLEAN:
        return Column(name, NUMBER, looked.values)
    if kind == "number" and pd.api.types.is_numeric_dtype(given.dtype):
        return Column(name, NUMBER, given.astype("Float64").astype(np.float64))
    codes, levels = pd.factorize(given.astype(object))
    texts, codes = clean_levels([_write(level) for level in levels], codes)
    if kind == "category":
        values = pd.Series(take_levels(np.array(texts, dtype=object), codes), dtype=object)
        return Column(name, choose_category(len(texts)), values.fillna(MISSING_LEVEL))
    if kind == "number":
        numbers, note, part = find_numbers(texts, codes)
        if part == 0.0:
            raise TableError(
                f"no value of column {quote(name)} is a number: it contains {quote(texts[0])}; choose another type.",
                "dtypes",
            )
        return Column(name, NUMBER, pd.Series(take_levels(numbers, codes)), note)
    return _read_dates(name, texts, codes, form)


def _write(level: Any) -> str:
    """Write a level as text; integers have no decimal point."""
    return f"{level:.15g}" if isinstance(level, float | np.floating) else str(level)


def _read_dates(name: str, texts: list[str], codes: Any, form: str) -> Column:
    """Read dates in the given format, others as missing; or in a format that fits all of them."""
    if not form:
        found = parse_dates(texts)
        if found is None:
            raise TableError(
                f"column {quote(name)} has dates in an unknown format, such as {quote(texts[0])}; specify it, for "
                "example date:%d.%m.%Y.",
                "dtypes",
            )
        dates, note = found[0], f"read as {found[1]}"
    else:
        dates = _parse(texts, form, name)
        n_others = int(np.isin(codes, np.flatnonzero(dates.isna())).sum())
        note = f"read as {form}" + (
            f"; {count(n_others, 'value')} in another format treated as missing" * (n_others > 0)
        )
    return Column(name, DATE, pd.Series(pd.DatetimeIndex(take_levels(dates.to_numpy(), codes))), note)


def _parse(texts: list[str], form: str, name: str) -> pd.DatetimeIndex:
    try:
        dates = pd.to_datetime(np.array(texts, dtype=object), format=form, errors="coerce", utc=True)
    except ValueError as error:
        raise TableError(
            f"{quote(form)} is not a date format: {error}; use codes such as %d.%m.%Y.", "dtypes"
        ) from error
    if dates.isna().all():
        raise TableError(
            f"no value of column {quote(name)} has the format {quote(form)}: it contains {quote(texts[0])}; correct "
            "the format.",
            "dtypes",
        )
    return pd.DatetimeIndex(dates).tz_localize(None)
