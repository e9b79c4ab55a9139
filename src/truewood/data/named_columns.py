"""Target and weights that are columns of the table, by name."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import pandas as pd

from truewood.data.tables import read_names
from truewood.words import list_names

# Names that a sentence lists before it counts the rest.
_LISTED = 5


def take_named(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Take target and weights out of a data frame, where they are given as names of its columns.

    Parameters
    ----------
    X : array-like, data frame or sparse matrix
        The table; never modified.
    y : array-like or str
        The target, or the name of its column.
    sample_weight : array-like, str or None
        The weights, or the name of their column.

    Returns
    -------
    X, y, sample_weight : object
        The table without these columns, and their values.
    """
    names = [given for given in (y, sample_weight) if isinstance(given, str)]
    if not names:
        return X, y, sample_weight
    if isinstance(y, str):
        y = _get_column(X, y, "y")
    if isinstance(sample_weight, str):
        sample_weight = _get_column(X, sample_weight, "sample_weight")
    rest = X.drop(columns=names) if isinstance(X, pd.DataFrame) else nw.from_native(X).drop(names).to_native()
    return rest, y, sample_weight


def _get_column(X: Any, name: str, argument: str) -> Any:
    known = read_names(X)
    if known is None:
        raise ValueError(
            f"{argument}={name!r} names a column, and X is a {type(X).__name__} without names; pass a data frame, or "
            f"{argument} itself."
        )
    check_named(name, known, argument)
    return read_column(X, name)


def read_column(X: Any, name: str) -> Any:
    """A column of a data frame as numpy reads it."""
    if isinstance(X, pd.DataFrame):
        return X[name]
    if nw.dependencies.is_pyarrow_table(X):
        return X[name].to_pandas()  # missing values of categories get lost on the straight way to numpy
    return nw.from_native(X, eager_only=True)[name].to_numpy()


def check_named(name: str, known: list[str], argument: str) -> None:
    """Refuse the name of a column that is not there, or there more than once."""
    if known.count(name) != 1:
        found = "more than one" if name in known else f"the columns {list_names(known, _LISTED)}"
        raise ValueError(f"{argument} must name a column, but of {name!r} there are {found}.")
