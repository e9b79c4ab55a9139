"""Tables in: any data frame, array or sparse matrix becomes float32 columns with names, and columns become groups."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.exceptions import ComplexWarning
from numpy.typing import NDArray
from scipy import sparse


@dataclass(frozen=True, eq=False)
class FeatureMatrix:
    """The rows to route, as the trees compare them: float32, row after row.

    Parameters
    ----------
    values : ndarray of float32, shape (n_rows, n_features), or scipy.sparse.csr_array
        The numbers.
    names : ndarray of str, shape (n_features,)
        Column names.
    has_missing : bool
        Whether any value is NaN.
    """

    values: Any
    names: NDArray[np.str_]
    has_missing: bool

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.values.shape[0])

    @cached_property
    def parts(self) -> Any:
        """What the kernel reads: the array itself, or (data, indices, indptr) of a sparse matrix."""
        if not sparse.issparse(self.values):
            return self.values
        indices = self.values.indices.astype(np.int32, copy=False)
        return self.values.data, indices, self.values.indptr.astype(np.int64, copy=False)

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Rows by number, dense, shape (len(rows), n_features)."""
        taken = self.values[rows]
        return taken.toarray() if sparse.issparse(taken) else taken  # type: ignore[no-any-return]


def read_features(
    X: Any, *, n_features: int | None, model_names: NDArray[Any] | None, why_no_missing: str | None, model: str
) -> FeatureMatrix:
    """Read X as the model's features, and refuse what the model would not take.

    Parameters
    ----------
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        The features; never modified.
    n_features : int or None
        Number of columns the model was fit on; None for a model that is yet to be fit.
    model_names : ndarray of str, shape (n_features,), or None
        Column names the model was fit on, where it knows them.
    why_no_missing : str or None
        Why X may not hold NaN; None where it may.
    model : str
        The model's name, for messages.
    """
    names, values = _read_values(X)
    if values.ndim != 2:
        raise ValueError(f"X must have two dimensions, (n_rows, n_features), got shape {values.shape}.")
    if n_features is not None and values.shape[1] != n_features:
        raise ValueError(f"X must have the {n_features} columns {model} was fit on, got {values.shape[1]}.")
    if values.shape[0] == 0:
        raise ValueError("X must hold at least one row, got none.")
    has_missing = _check_finite(values, why_no_missing)
    return FeatureMatrix(values, _choose_names(names, model_names, values.shape[1], model), has_missing)


def _read_values(X: Any) -> tuple[list[str] | None, Any]:
    if sparse.issparse(X):
        matrix = sparse.csr_array(X, dtype=np.float32)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()  # its arrays may be the caller's
            matrix.sum_duplicates()
        return None, matrix
    names = None
    if isinstance(X, pd.DataFrame):
        # Names may be numbers, tuples or repeated, as scikit-learn allows; places are unique.
        names = [str(name) for name in X.columns]
        X = X.set_axis([str(j) for j in range(len(names))], axis=1)
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return None, _read_array(X)
    names = names or list(frame.columns)
    values = np.empty(frame.shape, dtype=np.float32)
    for j, name in enumerate(names):
        with np.errstate(over="ignore"):
            values[:, j] = _read_column(frame[frame.columns[j]], name)
    return names, values


def _read_array(X: Any) -> NDArray[np.float32]:
    if isinstance(X, np.ma.MaskedArray):
        raise ValueError("X must not be a masked array; fill it, for instance with NaN.")
    try:
        with np.errstate(over="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error", ComplexWarning)
            return np.ascontiguousarray(X, dtype=np.float32)
    except (TypeError, ValueError, ComplexWarning) as error:
        raise ValueError(f"X must be a table of numbers, got {_describe(X)}: {error}") from error


def _describe(X: Any) -> str:
    return f"an array of {X.dtype}" if isinstance(X, np.ndarray) else type(X).__name__


def _read_column(column: nw.Series[Any], name: str) -> NDArray[Any]:
    try:
        if column.dtype.is_temporal():
            raise ValueError("dates and times are not numbers")
        is_number = column.dtype.is_numeric() or column.dtype == nw.Boolean
        if is_number and column.null_count():
            return column.cast(nw.Float64).to_numpy()
        return column.to_numpy().astype(np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"X must be numbers, but column {name!r} is {column.dtype}; encode it as when the model was fit."
        ) from error


def _check_finite(values: Any, why_no_missing: str | None) -> bool:
    numbers = values.data if sparse.issparse(values) else values
    with np.errstate(invalid="ignore"):
        # A sum of float32 in float64 cannot overflow: it is finite unless a value is not.
        if np.isfinite(numbers.sum(dtype=np.float64)):
            return False
    if any(np.isinf(block).any() for block in np.array_split(numbers, numbers.size // 1_000_000 + 1)):
        raise ValueError("X must not hold infinite values, or values too large for float32.")
    if sparse.issparse(values):
        why_no_missing = "trees take no missing values in a sparse matrix"
    if why_no_missing is not None:
        raise ValueError(f"X must not hold NaN: {why_no_missing}.")
    return True


def _choose_names(
    names: list[str] | None, model_names: NDArray[Any] | None, n_features: int, model: str
) -> NDArray[np.str_]:
    if names is not None and model_names is not None and names != list(model_names):
        place = next(j for j, (name, known) in enumerate(zip(names, model_names, strict=True)) if name != known)
        raise ValueError(
            f"X must have the columns {model} was fit on, in that order: column {place} should be "
            f"{str(model_names[place])!r}, got {names[place]!r}."
        )
    if model_names is not None:
        return np.asarray(model_names, dtype=np.str_)
    return np.asarray(names if names is not None else [f"x{j}" for j in range(n_features)], dtype=np.str_)


def read_groups(groups: Any, names: NDArray[np.str_]) -> tuple[NDArray[np.str_], NDArray[np.intp]]:
    """Read `groups` as names of the groups and the group of each column.

    Parameters
    ----------
    groups : None, dict or sequence
        None: each column for itself. A dict from group name to columns (names or numbers): columns not mentioned stay
        for themselves. A sequence: the group name of each column.
    names : ndarray of str, shape (n_features,)
        Column names.
    """
    if groups is None:
        return names, np.arange(len(names))
    if isinstance(groups, Mapping):
        labels = _labels_from_mapping(groups, names)
    elif isinstance(groups, str) or np.ndim(groups) != 1:
        raise TypeError(f"groups must be a dict or a sequence, got {type(groups).__name__}.")
    else:
        labels = [str(label) for label in groups]
        if len(labels) != len(names):
            raise ValueError(f"groups must name the group of each of the {len(names)} columns, got {len(labels)}.")
    order = list(dict.fromkeys(labels))
    position = {label: g for g, label in enumerate(order)}
    return np.asarray(order, dtype=np.str_), np.array([position[label] for label in labels], dtype=np.intp)


def _labels_from_mapping(groups: Mapping[Any, Any], names: NDArray[np.str_]) -> list[str]:
    labels = [str(name) for name in names]
    group_of: dict[int, str] = {}
    for label, columns in groups.items():
        listed = [columns] if isinstance(columns, str) or np.ndim(columns) == 0 else list(columns)
        if not listed or str(label) in group_of.values():
            raise ValueError(
                f"groups must give each name once, with at least one column, but {str(label)!r} is not so."
            )
        for column in listed:
            j = _find_column(column, labels)
            if j in group_of:
                raise ValueError(f"groups puts column {labels[j]!r} into both {group_of[j]!r} and {str(label)!r}.")
            group_of[j] = str(label)
    clash = next((name for j, name in enumerate(labels) if j not in group_of and name in group_of.values()), None)
    if clash is not None:
        raise ValueError(f"groups uses {clash!r}, which is also the name of a column outside that group.")
    return [group_of.get(j, name) for j, name in enumerate(labels)]


def _find_column(column: Any, names: list[str]) -> int:
    """Place of a column that is given by name or by number."""
    if isinstance(column, str) and names.count(column) == 1:
        return names.index(column)
    if isinstance(column, int | np.integer) and not isinstance(column, bool) and 0 <= column < len(names):
        return int(column)
    raise ValueError(f"groups names a column that X does not have, or has more than once: {column!r}.")


def add_groups(scores: NDArray[np.float64], group_of: NDArray[np.intp], n_groups: int) -> NDArray[np.float64]:
    """Sum the columns (second axis) of each group, in the order of the columns."""
    grouped = np.zeros((scores.shape[0], n_groups, *scores.shape[2:]))
    for column, group in enumerate(group_of):
        grouped[:, group] += scores[:, column]
    return grouped
