"""Tables in memory: data frames of any library as pandas data frames with unique column names."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import pandas as pd
from narwhals.exceptions import DuplicateError

from truewood.tabular._errors import TableError


def read_frame(table: Any) -> pd.DataFrame:
    """Convert an in-memory data frame that narwhals supports, or a polars LazyFrame; the input is not modified."""
    return name_columns(table if isinstance(table, pd.DataFrame) else _convert(table), "the table")


def _convert(table: Any) -> pd.DataFrame:
    if nw.dependencies.is_polars_lazyframe(table):
        table = table.collect()
    try:
        frame = nw.from_native(table, eager_only=True, pass_through=True)
    except DuplicateError as error:
        raise TableError("several columns have the same name; rename them.", "table") from error
    if not isinstance(frame, nw.DataFrame):
        raise TypeError(
            "table must be an in-memory data frame, such as pandas or polars, or the path of a file, got "
            f"{type(table).__name__}."
        )
    return frame.to_pandas()


def name_columns(table: pd.DataFrame, source: str) -> pd.DataFrame:
    """Convert column names to strings, and turn named index levels into columns."""
    named = [level for level, label in enumerate(table.index.names) if label is not None]
    table = table.reset_index(level=named, allow_duplicates=True) if named else table
    names = [str(column) for column in table]
    check_names(names, source)
    return table.set_axis(names, axis=1).reset_index(drop=True)


def check_names(names: list[str], source: str) -> None:
    """Refuse duplicate column names."""
    twice = sorted({column for column in names if names.count(column) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise TableError(f"{source} has several columns named {', '.join(map(repr, twice[:3]))}; rename them.", "table")
