"""Arguments with a value for each row, as arrays or as column names: target, weights and groups of rows."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from truewood._formatting import list_names, quote
from truewood._inputs.tables import read_names

# Number of names to list in a message.
_LISTED = 5


def take_named(X: Any, **given: Any) -> tuple[Any, ...]:
    """Take target, weights and groups out of a data frame if they are given as names of its columns.

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
            f"{argument}={quote(name)} names a column, but X is a {type(X).__name__} without names; pass a data "
            f"frame, or {argument} as an array."
        )
    check_named(name, known, argument)
    return read_column(X, name)


def read_column(X: Any, name: str) -> Any:
    """A column of a data frame as numpy reads it."""
    if isinstance(X, pd.DataFrame):
        return X.iloc[:, [str(column) for column in X.columns].index(name)]  # names may be numbers
    if nw.dependencies.is_pyarrow_table(X):
        return X[name].to_pandas()  # a direct conversion to numpy loses missing categories
    return nw.from_native(X, eager_only=True)[name].to_numpy()


def check_named(name: str, known: list[str], argument: str) -> None:
    """Refuse the name of a column that is missing or repeated."""
    if known.count(name) != 1:
        found = "repeated" if name in known else f"not among {list_names(known, _LISTED)}"
        raise ValueError(f"{argument} must name a column of X, got {quote(name)}, which is {found}.")


def read_groups(given: Any, n_rows: int) -> NDArray[np.int64] | None:
    """Code of each row's group, in order of appearance, shape (n_rows,); None if rows are not grouped.

    Parameters
    ----------
    given : array-like of shape (n_rows,), or None
        Labels of any hashable type.
    n_rows : int
        Number of rows of the table.
    """
    if given is None:
        return None
    labels = pd.Series(list(given), dtype=object) if isinstance(given, list | tuple) else given
    if np.ndim(labels) != 1:
        raise ValueError(f"groups must be a label for each row, shape ({n_rows},), got shape {np.shape(labels)}.")
    if len(labels) != n_rows:
        raise ValueError(f"groups must be a label for each of the {n_rows} rows, got {len(labels)}.")
    labels = labels if isinstance(labels, pd.Series | pd.Index) else np.asarray(labels)
    if isinstance(labels.dtype, np.dtype):
        labels = labels.astype(labels.dtype.newbyteorder("="))  # pandas requires it
    try:
        codes, _ = pd.factorize(labels)
    except TypeError as error:
        raise TypeError(f"groups must be hashable labels, such as names or numbers: {error}.") from None
    if (codes < 0).any():
        raise ValueError(
            f"groups must have a label for each row, got none for row {int(np.argmax(codes < 0))}; give such rows "
            "labels of their own, or drop them."
        )
    return codes.astype(np.int64)


def sum_row_groups(values: NDArray[Any], groups: NDArray[np.int64], n_groups: int) -> NDArray[Any]:
    """Sum rows (first axis) over each group, in the order of the rows, shape (n_groups, n_columns)."""
    n_rows = len(groups)
    members = sparse.csr_array(
        (np.ones(n_rows, dtype=values.dtype), (groups, np.arange(n_rows))), shape=(n_groups, n_rows)
    )
    summed: NDArray[Any] = members @ values
    return summed
