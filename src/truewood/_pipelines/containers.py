"""Rows and columns of tables in any container, and conversion to the container that fitted steps expect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from truewood._inputs.table_types import read_column, read_names


def adapt_table(X: Any, first: Any, categories: Iterable[NDArray[Any]]) -> tuple[Any, list[str]]:
    """Convert a table to the form that fitted steps expect.

    Parameters
    ----------
    X : array-like, data frame or sparse matrix
        The caller's table.
    first : object
        The first step, which records whether the training table had column names.
    categories : iterable of ndarray
        The categories of the encoders among the steps.

    Returns
    -------
    table : ndarray, sparse matrix, or pandas or polars DataFrame
        The table, not necessarily a copy.
    names : list of str
        Names of its columns.
    """
    known = getattr(first, "feature_names_in_", None)
    missing = _find_missing(categories)
    names = read_names(X)
    if names is None:
        return _adapt_unnamed(X, known, missing)
    if not isinstance(X, pd.DataFrame):
        # scikit-learn accepts only pandas and polars. Polars represents missing strings as None.
        X = X if nw.dependencies.is_polars_dataframe(X) and missing != {"NaN"} else _to_pandas(X)
    if known is None and hasattr(first, "n_features_in_") and all(isinstance(name, str) for name in X.columns):
        return X.to_numpy(), names  # fit on a table without column names
    return _convert_missing(X, missing) if isinstance(X, pd.DataFrame) else X, names


def _adapt_unnamed(X: Any, known: Any, missing: set[str]) -> tuple[Any, list[str]]:
    values = X if sparse.issparse(X) else np.asarray(X)
    if values.dtype.kind in "US":
        values = np.asarray(X, dtype=object)  # keep the numbers in mixed lists of numbers and strings
    if values.ndim == 1:
        return values, [str(getattr(X, "name", None) or "x0")]  # for example documents
    if values.ndim != 2:
        raise ValueError(f"X must have two dimensions, (n_rows, n_features), got shape {values.shape}.")
    if known is None or len(known) != values.shape[1]:
        return values, [f"x{j}" for j in range(values.shape[1])]
    if not sparse.issparse(X):
        values = _convert_missing(pd.DataFrame(values, columns=known).infer_objects(), missing)
    return values, [str(name) for name in known]


def _to_pandas(X: Any) -> pd.DataFrame:
    is_arrow = nw.dependencies.is_pyarrow_table(X)
    table: pd.DataFrame = X.to_pandas(date_as_object=False) if is_arrow else nw.from_native(X).to_pandas()
    return table


def _find_missing(categories: Iterable[NDArray[Any]]) -> set[str]:
    """How encoders represent missing strings: NaN, as in pandas, or None, as in polars."""
    return {"None" if value is None else "NaN" for values in categories for value in values[pd.isna(values)]}


def _convert_missing(table: pd.DataFrame, missing: set[str]) -> pd.DataFrame:
    """Represent missing strings as the encoders do."""
    if len(missing) != 1:
        return table
    table = table.copy(deep=False)
    for j, dtype in enumerate(table.dtypes):
        is_missing = table.iloc[:, j].isna().to_numpy()
        if (isinstance(dtype, pd.StringDtype) or dtype == np.dtype(object)) and is_missing.any():
            values = table.iloc[:, j].to_numpy(dtype=object, copy=True)
            values[is_missing] = None if missing == {"None"} else np.nan
            # As a Series, because pandas would convert the dtype of an array of strings.
            table.isetitem(j, pd.Series(values, index=table.index, dtype=object))  # type: ignore[arg-type]
    return table


def take_rows(table: Any, rows: NDArray[np.int64]) -> Any:
    """Select rows of an array, sparse matrix or data frame."""
    if isinstance(table, pd.DataFrame | pd.Series):
        return table.iloc[rows]
    return table[rows]


def take_columns(table: Any, columns: Any) -> Any:
    """Select columns of an array, sparse matrix or data frame; one-dimensional for a single index."""
    return table.iloc[:, columns] if isinstance(table, pd.DataFrame) else table[:, columns]


def encode_values(table: Any, column: int) -> NDArray[np.int64]:
    """Codes of the distinct values of a column, including missing, shape (n_rows,)."""
    values = _read_column(table, column)
    try:
        return pd.factorize(values, use_na_sentinel=False)[0]
    except TypeError:  # unhashable values such as lists: treat all as distinct
        return np.arange(len(values))


def find_rare_rows(table: Any, n_columns: int) -> NDArray[np.int64]:
    """Find rows with the rarest value of each column, and the minimum and maximum of each numeric column."""
    rows = []
    for column in range(n_columns):
        codes = encode_values(table, column)
        rows.append(int(np.bincount(codes)[codes].argmin()))
        values = _read_column(table, column)
        if pd.api.types.is_numeric_dtype(values) and values.notna().any():
            rows += [int(values.argmin()), int(values.argmax())]
    return np.unique(np.array(rows, dtype=np.int64))


def _read_column(table: Any, column: int) -> pd.Series[Any]:
    if isinstance(table, pd.DataFrame):
        return table.iloc[:, column]
    values = table[:, [column]].toarray()[:, 0] if sparse.issparse(table) else table[:, column]
    return pd.Series(np.asarray(values)).infer_objects()


def shuffle_column(table: Any, column: int, order: NDArray[np.int64]) -> Any:
    """Copy a table, with the values of one column reordered."""
    if isinstance(table, pd.DataFrame):
        shuffled = table.copy()
        shuffled.isetitem(column, table.iloc[order, column].array)
        return shuffled
    if sparse.issparse(table):
        parts = [table[:, :column], table[order][:, [column]], table[:, column + 1 :]]
        return type(table)(sparse.hstack(parts))
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return frame.with_columns(frame[:, column][order.tolist()]).to_native()
    values = table.copy()
    values[:, column] = table[order, column]
    return values


def take_inputs(X: Any, inputs: list[str], names: list[str], n_rows: int) -> NDArray[Any]:
    """Columns of the caller's table by feature name; missing values for features that combine several."""
    columns = [pd.Series(np.full(n_rows, np.nan))] * len(names)
    is_frame = read_names(X) is not None
    table = X if is_frame else X.tocsc() if sparse.issparse(X) else np.asarray(X)
    for g, name in enumerate(names):
        if inputs.count(name) == 1:
            j = inputs.index(name)
            is_pandas = isinstance(table, pd.DataFrame)
            taken = read_column(table, name) if is_frame and not is_pandas else _read_column(table, j)
            columns[g] = pd.Series(np.asarray(taken)).infer_objects()
    are_numbers = all(pd.api.types.is_numeric_dtype(column) for column in columns)
    return np.column_stack([column.to_numpy(dtype=np.float64 if are_numbers else object) for column in columns])
