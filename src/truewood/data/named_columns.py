"""Target, weights and groups of rows that are columns of the table, by name."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import pandas as pd

from truewood.data.tables import read_names
from truewood.words import list_names, quote

# Names that a sentence lists before it counts the rest.
_LISTED = 5


def take_named(X: Any, **given: Any) -> tuple[Any, ...]:
    """Take target, weights and groups of rows out of a data frame, where they are given as names of its columns.

    Parameters
    ----------
    X : array-like, data frame or sparse matrix
        The table; never modified.
    **given : array-like, str or None
        Values by argument, such as `y`, or the name of their column.

    Returns
    -------
    X, *values : object
        The table without these columns, and the values of each argument.
    """
    names = list(dict.fromkeys(value for value in given.values() if isinstance(value, str)))
    if not names:
        return X, *given.values()
    values = [_get_column(X, value, argument) if isinstance(value, str) else value for argument, value in given.items()]
    if isinstance(X, pd.DataFrame):
        return X.loc[:, [str(column) not in names for column in X.columns]], *values
    return nw.from_native(X).drop(names).to_native(), *values


def _get_column(X: Any, name: str, argument: str) -> Any:
    known = read_names(X)
    if known is None:
        raise ValueError(
            f"{argument}={quote(name)} names a column, and X is a {type(X).__name__} without names; pass a data "
            f"frame, or {argument} itself."
        )
    check_named(name, known, argument)
    return read_column(X, name)


def read_column(X: Any, name: str) -> Any:
    """A column of a data frame as numpy reads it."""
    if isinstance(X, pd.DataFrame):
        return X.iloc[:, [str(column) for column in X.columns].index(name)]  # it may be a number there
    if nw.dependencies.is_pyarrow_table(X):
        return X[name].to_pandas()  # missing values of categories get lost on the straight way to numpy
    return nw.from_native(X, eager_only=True)[name].to_numpy()


def check_named(name: str, known: list[str], argument: str) -> None:
    """Refuse the name of a column that is not there, or there more than once."""
    if known.count(name) != 1:
        found = "more than one" if name in known else f"the columns {list_names(known, _LISTED)}"
        raise ValueError(f"{argument} must name a column, but of {quote(name)} there are {found}.")
