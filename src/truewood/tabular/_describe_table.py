"""`describe_table`: the inferred type of each column, without fitting a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from truewood.tabular._checks.leaks import leave_out_leaks
from truewood.tabular._columns.columns import LEAK, MISSING_LEVEL, Column, describe_columns, take_rows
from truewood.tabular._columns.dtype_overrides import list_dropped, read_columns, read_dtypes
from truewood.tabular._columns.identifiers import warn_of_groups
from truewood.tabular._columns.roles import check_name, read_roles
from truewood.tabular._columns.target_column import find_outcome
from truewood.tabular._errors import TableError
from truewood.tabular._files.reading import read_table
from truewood.tabular._messages import Messages, read_messages

_MOST_EXAMPLES = 3


@dataclass(frozen=True)
class ColumnDescription:
    """The type of a column, and what it contains.

    Parameters
    ----------
    name, dtype, is_used, note : str, str, bool, str or None
        As in `ColumnSummary`; `is_used` is also True for the target and for `event`.
    n_rows, n_missing, n_distinct : int
        Number of rows, of missing values, and of distinct values.
    examples : tuple of str
        The first distinct values.
    """

    name: str
    dtype: str
    is_used: bool
    note: str | None
    n_rows: int
    n_missing: int
    n_distinct: int
    examples: tuple[str, ...]


def describe_table(
    table: Any,
    *,
    target: str | None = None,
    task: str | None = None,
    drop: str | Iterable[str] = (),
    keep: str | Iterable[str] = (),
    dtypes: Mapping[str, str] | None = None,
    event: str | None = None,
    messages: Messages | None = None,
) -> list[ColumnDescription]:
    """Describe the columns of a table as `score_table` reads them, without fitting a model.

    Parameters
    ----------
    table, task, drop, keep, dtypes, event, messages
        As in `score_table`.
    target : str, default=None
        The column to predict. If given, `messages` also receives the task, and warnings about possible target leakage.
        Required with `event`; it is then the column of times.

    Returns
    -------
    list of ColumnDescription
        One for each column that is not dropped.

    Raises
    ------
    TableError
        If the input cannot be used; the attribute `argument` names the argument to change.

    Examples
    --------
    >>> import pandas as pd
    >>> from truewood.tabular import describe_table
    >>> cars = pd.DataFrame({"city": ["26 mpg", "30 mpg", "19 mpg"] * 10, "built": ["2012Q1", "2012Q2", "2013Q1"] * 10})
    >>> [(column.name, column.dtype, column.note) for column in describe_table(cars)]
    [('city', 'number', 'numbers (unit: mpg)'), ('built', 'date', 'read as year and quarter')]
    """
    messages = read_messages(messages)
    if event is not None and target is None:
        raise TableError("needs the column of times as well; pass it as target.", "event")
    rows = read_table(table, messages)
    names = list(map(str, rows))
    dtypes = read_dtypes(dtypes, names, target)
    roles = read_roles(target or "", sample_weight=None, groups=None, event=event, drop=drop, keep=keep)
    for argument, given in (("drop", roles.drop), ("keep", roles.keep)):
        for name in given:
            check_name(name, names, argument)
    absent = {*roles.drop, *list_dropped(dtypes)}
    predicted = {str(name) for name in (target, event) if name is not None}
    columns = read_columns(rows[[name for name in names if name not in absent]], {*roles.keep, *predicted}, dtypes)
    if target is not None:
        roles.check(names)
        has_target, outcome = find_outcome(rows, roles, task, dtypes, messages)
        features = take_rows([column for column in columns if column.name not in predicted], has_target)
        checked = leave_out_leaks(features, outcome, roles.target, roles.keep, messages)
        leaks = {column.name for column in checked if column.dtype == LEAK}
        columns = [replace(column, dtype=LEAK) if column.name in leaks else column for column in columns]
    features = [column for column in columns if column.name not in predicted]
    for line in describe_columns(features):
        messages.add(line)
    warn_of_groups(features, None if event is None else "survival", messages)
    return [_describe_column(column, rows[column.name]) for column in columns]


def _describe_column(column: Column, given: pd.Series[Any]) -> ColumnDescription:
    is_missing = column.values.isna() | column.values.map(
        lambda value: isinstance(value, str) and value == MISSING_LEVEL
    )
    there = given[~is_missing.to_numpy()].map(str)
    examples = tuple(dict.fromkeys(there.head(1000)))[:_MOST_EXAMPLES]
    return ColumnDescription(
        name=column.name,
        dtype=column.dtype,
        is_used=column.is_used,
        note=column.note,
        n_rows=len(given),
        n_missing=int(is_missing.sum()),
        n_distinct=there.nunique(),
        examples=examples,
    )
