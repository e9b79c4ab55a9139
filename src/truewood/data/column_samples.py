"""A sample of the rows of a table of any kind, column by column: what bounds the cost of looking at a table."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from truewood.data.tables import read_names

_MOST_ROWS = 2_000
_MOST_COLUMNS = 500


def find_missing(X: Any, feature_names: list[str]) -> list[tuple[str, float]]:
    """Columns with missing values, of the first 500: their names and the share of a sample of rows without a value."""
    n_rows, names = read_shape(X, feature_names)
    places = list(range(min(len(names), _MOST_COLUMNS)))
    shares = [float(pd.isna(values).mean()) for values in take_sample(X, sample_rows(n_rows), places)]
    return [(names[place], share) for place, share in zip(places, shares, strict=True) if share > 0]


def sample_rows(n_rows: int) -> NDArray[np.int64]:
    """The rows that are looked at."""
    if n_rows <= _MOST_ROWS:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, _MOST_ROWS, replace=False))


def read_shape(X: Any, feature_names: list[str]) -> tuple[int, list[str]]:
    """Number of rows, and names of the columns; those of the features where the table has none."""
    names = read_names(X)
    if names is not None:
        return len(X), names
    shape = np.shape(X)
    if len(shape) != 2:
        raise ValueError(f"X must be a table with rows and columns, got shape {shape}.")
    return shape[0], feature_names if len(feature_names) == shape[1] else [f"x{j}" for j in range(shape[1])]


def take_sample(X: Any, rows: NDArray[np.int64], places: list[int] | None) -> list[Any]:
    """Some rows of some columns, or of all, each column as an array or pandas series."""
    if places is None:
        places = list(range(np.shape(X)[1]))
    if isinstance(X, pd.DataFrame):
        return [X.iloc[rows, place] for place in places]
    if sparse.issparse(X):
        dense = sparse.csr_array(X)[rows][:, places].toarray()
        return list(dense.T)
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        sample = frame[rows]
        return [_unpack(sample[sample.columns[place]]) for place in places]
    array = np.asarray(X)[rows]
    return [array[:, place] for place in places]


def _unpack(column: nw.Series[Any]) -> NDArray[Any]:
    is_number = column.dtype.is_numeric() or column.dtype == nw.Boolean
    return (column.cast(nw.Float64) if is_number else column).to_numpy()
