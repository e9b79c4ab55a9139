"""Tables as trees read them: any data frame, array or sparse matrix becomes a matrix of numbers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import narwhals as nw
import numpy as np
from numpy.exceptions import ComplexWarning
from numpy.typing import NDArray
from scipy import sparse

from truewood._formatting import list_names, quote, shorten
from truewood._inputs.row_blocks import map_blocks
from truewood._inputs.table_types import (
    as_frame,
    bring_to_host,
    is_on_device,
    read_device_values,
    read_names,
    take_from_device,
)
from truewood._inputs.target import Target

# C-contiguous, aligned, and a plain array.
_FOR_THE_KERNEL: list[Literal["C", "A", "E"]] = ["C", "A", "E"]


@dataclass(frozen=True, eq=False)
class FeatureMatrix:
    """The rows to route, as the trees compare them.

    Parameters
    ----------
    values : ndarray of float32 or float64, shape (n_rows, n_features), or scipy.sparse.csr_array
        The numbers; or a CuPy array on a GPU; or an object of the library, if that finds the leaves.
    names : ndarray of str, shape (n_features,)
        Column names.
    has_missing : bool
        Whether any value is NaN.
    fill : float
        Value of entries that a sparse matrix does not store: 0 or NaN.
    """

    values: Any
    names: NDArray[np.str_]
    has_missing: bool
    fill: float = 0.0

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.values.shape[0])

    @property
    def is_on_device(self) -> bool:
        """Whether the numbers are on a GPU."""
        return is_on_device(self.values)

    @cached_property
    def parts(self) -> Any:
        """Arguments of the kernel: the array itself, or (data, indices, indptr, fill) of a sparse matrix."""
        if not sparse.issparse(self.values):
            return self.values
        data = np.require(self.values.data, self.values.data.dtype, _FOR_THE_KERNEL)
        indices = np.require(self.values.indices, np.int32, _FOR_THE_KERNEL)
        return data, indices, self.values.indptr.astype(np.int64), self.fill

    def take_rows(self, rows: NDArray[np.int64]) -> FeatureMatrix:
        """Return a matrix of some rows."""
        is_array = isinstance(self.values, np.ndarray) or sparse.issparse(self.values) or self.is_on_device
        picked = self.values[rows] if is_array else self.values.slice(rows)
        return FeatureMatrix(picked, self.names, self.has_missing, self.fill)

    def take_range(self, start: int, stop: int) -> FeatureMatrix:
        """Return a matrix of the rows from `start` up to `stop`, without copying an array."""
        if start == 0 and stop == self.n_rows:
            return self
        return FeatureMatrix(self.values[start:stop], self.names, self.has_missing, self.fill)

    def take(self, rows: NDArray[np.int64], columns: NDArray[Any] | None = None) -> NDArray[Any]:
        """Rows by number, dense, in the host's memory, shape (len(rows), n_features), or some of their columns."""
        taken = bring_to_host(self.values[rows])
        taken = taken if columns is None else taken[:, columns]
        if not sparse.issparse(taken):
            return taken  # type: ignore[no-any-return]
        dense = np.full(taken.shape, self.fill, dtype=taken.dtype)
        stored = taken.tocoo()
        dense[stored.row, stored.col] = stored.data
        return dense


@dataclass(frozen=True, eq=False)
class InputSpec:
    """The table that a model expects.

    Parameters
    ----------
    model : str
        The model's name, for messages.
    n_features : int or None
        Number of columns it was fit on; None for an unfitted model.
    names : ndarray of str, shape (n_features,), or None, default=None
        Their names, if the model records them.
    spell : callable, default=str
        ``spell(name)`` returns a name as the model spells it.
    dtype : {"float32", "float64"} or None, default="float32"
        The type in which it compares values; None if the library finds leaves itself, from the output of `encode`.
    why_no_missing : str or None, default=None
        Why X may not contain NaN; None if every split has a direction for NaN.
    takes_sparse_missing : bool, default=True
        Whether a sparse matrix may store NaN.
    takes_infinite : bool, default=False
        Whether X may contain infinite values.
    sparse_fill : float, default=0.0
        Value of entries that a sparse matrix does not store: 0 or NaN.
    encode : callable or None, default=None
        ``encode(X)`` returns the table as the trees read it: categories as numbers, missing values as NaN.
    takes_codes : bool, default=False
        Whether it identifies categories of a data frame by code, not by label.
    takes_device : bool or None, default=None
        Whether rows on a GPU can stay there; None means that they can unless `encode` is set.
    """

    model: str
    n_features: int | None
    names: NDArray[Any] | None = None
    spell: Callable[[str], str] = str
    dtype: str | None = "float32"
    why_no_missing: str | None = None
    takes_sparse_missing: bool = True
    takes_infinite: bool = False
    sparse_fill: float = 0.0
    encode: Callable[[Any], Any] | None = None
    takes_codes: bool = False
    takes_device: bool | None = None


def read_features(X: Any, spec: InputSpec, n_threads: int = 1, *, on_device: bool = False) -> FeatureMatrix:
    """Read X as the model's features, and refuse values that the model does not support.

    Parameters
    ----------
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        The features; never modified.
    spec : InputSpec
        The table that the model expects.
    n_threads : int
        Number of threads.
    on_device : bool
        Whether an X on a GPU stays there.
    """
    names = read_names(X)
    if names is not None:
        _check_columns(len(names), spec, names)
    takes_device = spec.encode is None if spec.takes_device is None else spec.takes_device
    if not (on_device and takes_device and spec.dtype is not None):
        X = take_from_device(X, f"{spec.model}, which reads it there" if on_device else "this call")
    encoded = X if spec.encode is None else spec.encode(_open_arrow(X, spec))
    values = encoded if spec.dtype is None else _read_values(encoded, names, np.dtype(spec.dtype))
    if len(values.shape) != 2:
        raise ValueError(f"X must have two dimensions, (n_rows, n_features), got shape {values.shape}.")
    _check_columns(values.shape[1], spec)
    if values.shape[0] == 0:
        raise ValueError("X must have at least one row, got none.")
    has_missing = spec.dtype is not None and _check_finite(values, spec, n_threads)
    if names is None:
        names = [f"x{j}" for j in range(values.shape[1])] if spec.names is None else list(spec.names)
    return FeatureMatrix(values, np.asarray(names, dtype=np.str_), has_missing, spec.sparse_fill)


def _open_arrow(X: Any, spec: InputSpec) -> Any:
    """Convert an Arrow table with categories to pandas: from Arrow, libraries read at most numbers."""
    if not nw.dependencies.is_pyarrow_table(X):
        return X
    frame = nw.from_native(X, eager_only=True)
    are_numbers = all(dtype.is_numeric() or dtype == nw.Boolean for dtype in frame.schema.values())
    return X if are_numbers and spec.dtype is not None else frame.to_pandas()


def _read_values(X: Any, names: list[str] | None, dtype: np.dtype[Any]) -> Any:
    if sparse.issparse(X):
        with np.errstate(over="ignore"):
            matrix = sparse.csr_array(X, dtype=dtype)
        starts = matrix.indptr
        if starts[0] != 0 or starts[-1] > len(matrix.data) or (np.diff(starts) < 0).any():
            raise ValueError(
                "X must be a valid sparse matrix, but its indptr does not rise from 0 to the number of values."
            )
        if not matrix.has_canonical_format:
            matrix = matrix.copy()  # its arrays may be the caller's
            matrix.sum_duplicates()
        return matrix
    if is_on_device(X):
        return read_device_values(X, dtype)
    frame = as_frame(X)
    if frame is None:
        return _read_array(X, dtype)
    names = names or list(frame.columns)
    values = np.empty(frame.shape, dtype=dtype)
    for j, name in enumerate(names):
        with np.errstate(over="ignore"):
            values[:, j] = _read_column(frame[frame.columns[j]], name, dtype)
    return values


def _read_array(X: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    if isinstance(X, np.ma.MaskedArray):
        raise ValueError("X must not be a masked array; fill it, for instance with NaN.")
    try:
        with np.errstate(over="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error", ComplexWarning)
            return np.require(X, dtype, _FOR_THE_KERNEL)
    except (TypeError, ValueError, OverflowError, ComplexWarning) as error:
        raise ValueError(f"X must be a table of numbers, got {_describe(X)}: {shorten(str(error), 200)}") from error


def _describe(X: Any) -> str:
    return f"an array of {X.dtype}" if isinstance(X, np.ndarray) else type(X).__name__


def _read_column(column: nw.Series[Any], name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
    try:
        if column.dtype.is_temporal():
            raise ValueError("dates and times are not numbers")
        is_number = column.dtype.is_numeric() or column.dtype == nw.Boolean
        if is_number and column.null_count():
            return column.cast(nw.Float64).to_numpy()
        return column.to_numpy().astype(dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"X must be numbers, but column {quote(name)} is {column.dtype}; encode it as in training."
        ) from error


def _check_finite(values: Any, spec: InputSpec, n_threads: int) -> bool:
    """Whether any value is missing; refuse missing or infinite values that the model does not support."""
    is_sparse = sparse.issparse(values)
    numbers = values.data if is_sparse else values
    has_missing = bool(is_sparse and np.isnan(spec.sparse_fill))

    def is_sum_finite(rows: slice) -> bool:
        with np.errstate(invalid="ignore", over="ignore"):
            return bool(np.isfinite(float(numbers[rows].sum())))

    # A sum is not finite if a value is not; the sum of very large numbers may not be finite either.
    is_array = isinstance(numbers, np.ndarray)
    if all(map_blocks(is_sum_finite, len(numbers), n_threads)) if is_array else is_sum_finite(slice(None)):
        return has_missing
    blocks = np.array_split(numbers, numbers.size // 1_000_000 + 1)
    if not spec.takes_infinite and any(np.isinf(block).any() for block in blocks):
        raise ValueError(f"X must not contain infinite values, or values too large for {spec.dtype}; replace them.")
    if not any(np.isnan(block).any() for block in blocks):
        return has_missing
    why_no_missing = spec.why_no_missing
    if is_sparse and not spec.takes_sparse_missing:
        why_no_missing = f"{spec.model} does not support missing values in a sparse matrix"
    if why_no_missing is not None:
        raise ValueError(f"X must not contain NaN: {why_no_missing}; impute or drop the missing values.")
    return True


def _check_columns(n_features: int, spec: InputSpec, names: list[str] | None = None) -> None:
    """Refuse another number of columns, or other names, than the model was fit on."""
    if spec.n_features is not None and n_features != spec.n_features:
        raise ValueError(
            f"X must have the {spec.n_features} columns {spec.model} was fit on, got {n_features}"
            f"{_compare_names(names or [], spec)}."
        )
    if names is None or spec.names is None:
        return
    for place, (name, known) in enumerate(zip(names, spec.names, strict=True)):
        if spec.spell(name) != known:
            raise ValueError(
                f"X must have the columns {spec.model} was fit on, in that order: column {place} should be "
                f"{quote(str(known))}, got {quote(name)}."
            )


def _compare_names(names: list[str], spec: InputSpec) -> str:
    """List missing and unknown columns, to append to a message."""
    if not names:
        return ""
    if spec.names is None:
        return f": {list_names(names)}"
    known = [str(name) for name in spec.names]
    surplus = [name for name in names if spec.spell(name) not in known]
    absent = [name for name in known if name not in set(map(spec.spell, names))]
    parts = [("missing ", absent), ("unknown ", surplus)]
    return "".join(f"; {words}{list_names(columns)}" for words, columns in parts if columns)


@dataclass(frozen=True, eq=False)
class RowData:
    """The caller's rows, validated and encoded.

    Parameters
    ----------
    matrix : FeatureMatrix
        Their features.
    target : ClassTarget or NumberTarget
        The target of the trees.
    weight : ndarray of shape (n_rows,), or None
        Their weights; None if every row counts once.
    """

    matrix: FeatureMatrix
    target: Target
    weight: NDArray[np.float64] | None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.matrix.n_rows
