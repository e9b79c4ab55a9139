"""From a file or a data frame to a table that has the columns it must have."""

from __future__ import annotations

import os
from typing import Any

import pandas as pd

from truewood._formatting import count
from truewood.tabular._columns.roles import Roles
from truewood.tabular._errors import TableError
from truewood.tabular._files.frames import read_frame
from truewood.tabular._files.reading import FileContent, parse_file, read_file
from truewood.tabular._messages import Messages


def open_table(table: Any, roles: Roles, messages: Messages, *, is_for_model: bool = False) -> pd.DataFrame:
    """Read a table that has columns for the roles.

    Parameters
    ----------
    table : path, FileContent or data frame
        Where the table is.
    roles : Roles
        Columns that it must have.
    messages : Messages
        Hears what was read.
    is_for_model : bool, default=False
        Whether a saved model is to get the table, so that text is read as `pandas.read_csv` does.
    """
    rows = read_table(table, messages, model_target=roles.target if is_for_model else None)
    roles.check([str(name) for name in rows])
    return rows


def read_table(table: Any, messages: Messages, *, model_target: str | None = None) -> pd.DataFrame:
    """Read a table that has rows; arguments as of `open_table` and `parse_file`."""
    opened = read_file(table) if isinstance(table, str | os.PathLike) else table
    if isinstance(opened, FileContent):
        source, rows = opened.name, parse_file(opened, messages, model_target=model_target)
    else:
        source, rows = "the table", read_frame(opened)
    if rows.empty:
        raise TableError(f"{source} has column names but no rows.", "table")
    messages.add(f"read {source}: {count(len(rows), 'row')}, {count(rows.shape[1], 'column')}")
    return rows
