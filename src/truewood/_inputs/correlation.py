"""Which columns of a table are nearly redundant, measured on a sample of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import rankdata

from truewood._arguments import count_rows
from truewood._inputs.table_types import read_names

STRONG = 0.8

# Limits on the cost for large tables. Categorical columns cost more, in proportion to their number of levels.
MOST_COLUMNS = 500
_MOST_WITH_CATEGORIES = 100
# Columns with more levels are treated as identifiers or free text.
_MOST_LEVELS = 25
# Bins of a numeric column that is compared with a categorical one.
_N_BINS = 10
# Minimum number of rows with values in both columns.
_FEWEST_COMMON = 20
_MOST_ROWS = 2_000


@dataclass(frozen=True)
class Correlations:
    """Pairs of nearly redundant columns.

    Parameters
    ----------
    pairs : list of (str, str, float)
        Two names and their correlation, the strongest first.
    n_rows : int
        Number of rows in the sample.
    n_columns : int
        Number of columns compared: the first 500, without constant columns, identifiers and free text.
    n_with_categories : int
        Number of these that were compared with categorical columns; all of them if no column is categorical.
    n_given : int
        Number of candidate columns.
    """

    pairs: list[tuple[str, str, float]]
    n_rows: int
    n_columns: int
    n_with_categories: int
    n_given: int


@dataclass(frozen=True, eq=False)
class _Column:
    name: str
    codes: NDArray[np.int64]
    ranks: NDArray[np.float64] | None  # NaN for missing values; None for categories


def find_correlations(X: Any, feature_names: list[str], order: Sequence[int] | None = None) -> Correlations:
    """Find pairs of columns with a Spearman correlation, or Cramér's V if one is categorical, of at least `STRONG`.

    Parameters
    ----------
    X : array-like, data frame or sparse matrix of shape (n_rows, n_columns)
        The table.
    feature_names : list of str
        The features, in column order if X has no names. If all of them are columns of X, other columns are ignored.
    order : sequence of int, default=None
        Indices of the features, the most important first; if there are too many columns, the first are compared.
    """
    n_rows, names = read_shape(X, feature_names)
    rows = sample_rows(n_rows)
    places = {name: place for place, name in enumerate(names)}
    chosen = list(places.values())
    if set(feature_names) <= places.keys():
        first_names = feature_names if order is None else [feature_names[j] for j in order]
        chosen = [places[name] for name in dict.fromkeys(first_names)]
    first = chosen[:MOST_COLUMNS]
    read = [
        _read_column(names[place], values) for place, values in zip(first, take_sample(X, rows, first), strict=True)
    ]
    columns = [column for column in read if column is not None]
    numbers = [column for column in columns if column.ranks is not None]
    pairs = _list_pairs(_correlate_numbers(numbers), numbers)
    compared = columns
    if len(numbers) < len(columns):
        compared = columns[:_MOST_WITH_CATEGORIES]
        pairs += _list_pairs(_correlate_categories(compared), compared)
    pairs.sort(key=lambda pair: -abs(pair[2]))
    return Correlations(pairs, len(rows), len(columns), len(compared), len(chosen))


def correlate_columns(X: Any) -> tuple[list[str], NDArray[np.float64]]:
    """Names of all columns, and their absolute correlations, shape (n_columns, n_columns).

    Correlations are those of `find_correlations`, and 0 for constant columns, identifiers and free text.
    """
    shape = np.shape(X)
    n_rows, names = read_shape(X, [f"x{j}" for j in range(shape[1])] if len(shape) == 2 else [])
    columns = [
        _read_column(name, values)
        for name, values in zip(names, take_sample(X, sample_rows(n_rows), None), strict=True)
    ]
    strength = np.eye(len(names))
    kept = [place for place, column in enumerate(columns) if column is not None]
    read = [column for column in columns if column is not None]
    is_number = np.array([column.ranks is not None for column in read], dtype=np.bool_)
    numbers = [place for place, known in zip(kept, is_number, strict=True) if known]
    if numbers:
        strength[np.ix_(numbers, numbers)] = np.abs(_correlate_numbers([read[k] for k in np.flatnonzero(is_number)]))
    if not is_number.all():
        mixed = np.ix_(kept, kept)
        strength[mixed] = np.maximum(strength[mixed], _correlate_categories(read))
    np.fill_diagonal(strength, 1.0)
    return names, strength


def _read_column(name: str, values: Any) -> _Column | None:
    """Codes and, for numbers, ranks; None for constant columns, identifiers and free text."""
    series = pd.Series(values).infer_objects()
    if pd.api.types.is_datetime64_any_dtype(series) or pd.api.types.is_timedelta64_dtype(series):
        series = series.astype("int64").where(series.notna())
    if not pd.api.types.is_numeric_dtype(series):
        codes, levels = pd.factorize(series.astype(str))
        return _Column(name, codes, None) if 1 < len(levels) <= _MOST_LEVELS else None
    numbers = series.to_numpy(dtype=np.float64, na_value=np.nan)
    is_known = ~np.isnan(numbers)
    if len(np.unique(numbers[is_known])) < 2:
        return None
    ranks = np.full(len(numbers), np.nan)
    ranks[is_known] = rankdata(numbers[is_known]) / is_known.sum()
    bins = np.where(is_known, np.floor(ranks * (_N_BINS - 1e-9)), -1)
    return _Column(name, np.unique(bins, return_inverse=True)[1], ranks)


def _correlate_numbers(columns: list[_Column]) -> NDArray[np.float64]:
    """Pairwise Spearman correlations, over rows with values in both columns."""
    if not columns:
        return np.zeros((0, 0))
    ranks = np.stack([column.ranks for column in columns if column.ranks is not None])
    is_known = (~np.isnan(ranks)).astype(np.float64)
    ranks = np.where(is_known, ranks - 0.5, 0.0)
    n_common = is_known @ is_known.T
    total, squares = ranks @ is_known.T, ranks**2 @ is_known.T  # [i, j]: column i over rows where j is known
    n_counted = np.maximum(n_common, 1.0)
    spread = squares - total**2 / n_counted
    scale = np.sqrt(np.maximum(spread * spread.T, 0.0))
    is_enough = (n_common >= min(_FEWEST_COMMON, ranks.shape[1])) & (scale > 1e-9)
    covariance = ranks @ ranks.T - total * total.T / n_counted
    correlation: NDArray[np.float64] = np.divide(covariance, scale, out=np.zeros_like(scale), where=is_enough)
    return correlation


def _correlate_categories(columns: list[_Column]) -> NDArray[np.float64]:
    """Bias-corrected Cramér's V (Bergsma 2013); 0 for pairs of numeric columns."""
    n_rows = len(columns[0].codes)
    n_levels = np.array([column.codes.max() + 1 for column in columns])
    starts = np.cumsum(n_levels) - n_levels
    indicators = np.zeros((n_rows, n_levels.sum()))
    for start, column in zip(starts, columns, strict=True):
        indicators[np.arange(n_rows), start + column.codes] = 1.0
    counts = indicators.sum(axis=0)
    contingency = np.empty((len(columns), len(columns)))
    for j, (start, own) in enumerate(zip(starts, n_levels, strict=True)):  # one column at a time to save memory
        levels = slice(start, start + own)
        cells = (indicators[:, levels].T @ indicators) ** 2 / np.outer(counts[levels], counts)
        contingency[j] = np.add.reduceat(cells.sum(axis=0), starts) - 1.0
    freedom = n_levels - 1.0
    corrected = np.maximum(contingency - np.outer(freedom, freedom) / (n_rows - 1), 0.0)
    width = freedom - freedom**2 / (n_rows - 1)
    strength: NDArray[np.float64] = np.sqrt(corrected / np.maximum(np.minimum.outer(width, width), 1e-9)).clip(max=1.0)
    is_number = np.array([column.ranks is not None for column in columns])
    strength[np.outer(is_number, is_number)] = 0.0
    return strength


def _list_pairs(strength: NDArray[np.float64], columns: list[_Column]) -> list[tuple[str, str, float]]:
    found = np.argwhere(np.triu(np.abs(strength) >= STRONG, k=1))
    return [(columns[i].name, columns[j].name, float(strength[i, j])) for i, j in found]


def find_missing(X: Any, feature_names: list[str]) -> list[tuple[str, float]]:
    """Names and shares of missing values, in a sample of rows, of the first 500 columns that have any."""
    n_rows, names = read_shape(X, feature_names)
    places = list(range(min(len(names), MOST_COLUMNS)))
    shares = [float(pd.isna(values).mean()) for values in take_sample(X, sample_rows(n_rows), places)]
    return [(names[place], share) for place, share in zip(places, shares, strict=True) if share > 0]


def sample_rows(n_rows: int) -> NDArray[np.int64]:
    """A reproducible sample of row indices, ascending."""
    if n_rows <= _MOST_ROWS:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, _MOST_ROWS, replace=False))


def read_shape(X: Any, feature_names: list[str]) -> tuple[int, list[str]]:
    """Number of rows, and column names: `feature_names` if the table has none."""
    names = read_names(X)
    if names is not None:
        return len(X), names
    n_rows, shape = count_rows(X), np.shape(X)
    if len(shape) != 2:
        raise ValueError(f"X must be a table with rows and columns, got shape {shape}.")
    return n_rows, feature_names if len(feature_names) == shape[1] else [f"x{j}" for j in range(shape[1])]


def take_sample(X: Any, rows: NDArray[np.int64], places: list[int] | None) -> list[Any]:
    """Rows of the chosen columns (None: all), each column as an array or pandas series."""
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
