"""Types of tables that callers pass: data frames with named columns, and arrays on a GPU."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from scipy import sparse

from truewood._exceptions import DeviceWarning, warn
from truewood._formatting import list_names, quote

# Number of names to list in a message.
_LISTED = 5


def is_on_device(X: Any) -> bool:
    """Whether an array or data frame is on a GPU."""
    library = type(X).__module__.partition(".")[0]
    if library == "torch" and hasattr(X, "is_cuda"):
        return bool(X.is_cuda)
    return library == "cudf" or getattr(X, "__cuda_array_interface__", None) is not None


def _is_cudf(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "cudf"


def _is_tensor(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "torch" and hasattr(X, "is_cuda")


def read_device_names(X: Any) -> list[str] | None:
    """Column names of a cuDF data frame; None for other objects."""
    return [str(name) for name in X.columns] if _is_cudf(X) and hasattr(X, "columns") else None


def read_device_values(X: Any, dtype: np.dtype[Any]) -> Any:
    """X as a C-contiguous CuPy array of a dtype, without a copy if it has that form already."""
    import cupy

    if _is_cudf(X):
        values = X.to_cupy(dtype=dtype, na_value=np.nan)
    elif _is_tensor(X):
        values = cupy.from_dlpack(X.detach())  # waits for the stream that fills it
    else:
        values = cupy.asarray(X)
    if values.dtype.kind not in "biuf":
        raise ValueError(
            f"X must be a table of numbers, got an array of {values.dtype} on the GPU; encode its columns as numbers."
        )
    there, here = values.device.id, cupy.cuda.Device().id
    if there != here:
        raise ValueError(
            f"X must be on GPU {here}, the one in use, got GPU {there}; call within cupy.cuda.Device({there})."
        )
    return cupy.ascontiguousarray(values, dtype=dtype)


def bring_to_host(values: Any) -> Any:
    """Return values in the host's memory, copied only if they are on a GPU; data frames stay data frames."""
    if not is_on_device(values):
        return values
    if _is_cudf(values):
        return values.to_pandas()
    if _is_tensor(values):
        return values.detach().cpu().numpy()
    import cupy

    return cupy.asarray(values).get()


def take_from_device(X: Any, reason: str) -> Any:
    """Return X in the host's memory; if it was on a GPU, warn why it is copied."""
    if not is_on_device(X):
        return X
    warn(f"X is on the GPU and is copied to the host's memory for {reason}.", DeviceWarning)
    return bring_to_host(X)


def as_frame(X: Any) -> nw.DataFrame[Any] | None:
    """X as a narwhals data frame with unique names; None if it is not a data frame."""
    if isinstance(X, pd.DataFrame):
        # Names may be numbers, tuples or repeated, as scikit-learn allows; positions are unique.
        X = X.set_axis(list(map(str, range(X.shape[1]))), axis=1)
    frame = None if sparse.issparse(X) else nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def read_names(X: Any) -> list[str] | None:
    """Column names of a data frame; None for other tables."""
    if isinstance(X, pd.DataFrame):
        return list(map(str, X.columns))
    if is_on_device(X):
        return read_device_names(X)
    frame = as_frame(X)
    return None if frame is None else list(frame.columns)


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
            f"{argument}={quote(name)} names a column, but X, of type {type(X).__name__}, has no names; pass a data "
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
