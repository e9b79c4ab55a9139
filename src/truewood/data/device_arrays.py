"""Arrays that lie on a GPU: those of CuPy, tensors of PyTorch, data frames of cuDF, and others with their interface."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray


class DeviceWarning(UserWarning):
    """What lies on a GPU is copied to the host's memory, or work that was to be done there is done by the host."""


def is_on_device(X: Any) -> bool:
    """Whether an array or data frame lies on a GPU."""
    if _is_cudf(X):
        return True
    try:
        return getattr(X, "__cuda_array_interface__", None) is not None
    except RuntimeError:  # a tensor that gradients are asked of
        return True


def _is_cudf(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "cudf"


def read_device_names(X: Any) -> list[str] | None:
    """Column names of a data frame of cuDF; None for what has none."""
    return [str(name) for name in X.columns] if _is_cudf(X) and hasattr(X, "columns") else None


def as_device_array(X: Any) -> Any:
    """An array of CuPy over the same memory, where the types allow it."""
    import cupy

    if _is_cudf(X):
        return X.to_cupy()
    return cupy.asarray(X.detach() if hasattr(X, "detach") else X)


def as_host_array(X: Any) -> NDArray[Any]:
    """A copy in the host's memory."""
    if _is_cudf(X):
        copied: NDArray[Any] = X.to_numpy()
    elif hasattr(X, "detach"):  # a tensor
        copied = X.detach().cpu().numpy()
    elif hasattr(X, "get"):
        copied = X.get()
    else:
        copied = as_device_array(X).get()
    return copied


def bring_to_host(values: Any) -> Any:
    """Values as they are, or a copy in the host's memory of those that lie on a GPU."""
    return as_host_array(values) if is_on_device(values) else values


def read_device_values(X: Any, dtype: np.dtype[Any]) -> Any:
    """X as an array of CuPy of a type, row after row; what is no table of numbers is refused."""
    values = as_device_array(X)
    if values.dtype.kind not in "biuf":
        raise ValueError(f"X must be a table of numbers, got an array of {values.dtype} on the GPU.")
    import cupy

    return cupy.ascontiguousarray(values, dtype=dtype)


def warn_of_copy(reason: str) -> None:
    """Say that X is copied, and what for."""
    warnings.warn(f"X lies on the GPU, and is copied to the host's memory for {reason}.", DeviceWarning, stacklevel=4)
