"""Arrays that lie on a GPU: those of CuPy, tensors of PyTorch, data frames of cuDF, and others with their interface."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from truewood._exceptions import DeviceWarning


def is_on_device(X: Any) -> bool:
    """Whether an array or data frame lies on a GPU."""
    if _is_cudf(X) or (_is_tensor(X) and bool(X.is_cuda)):
        return True
    return not _is_tensor(X) and getattr(X, "__cuda_array_interface__", None) is not None


def _is_cudf(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "cudf"


def _is_tensor(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "torch" and hasattr(X, "is_cuda")


def read_device_names(X: Any) -> list[str] | None:
    """Column names of a data frame of cuDF; None for what has none."""
    return [str(name) for name in X.columns] if _is_cudf(X) and hasattr(X, "columns") else None


def read_device_values(X: Any, dtype: np.dtype[Any]) -> Any:
    """X as an array of CuPy of a type, row after row, over the same memory where it has that form already."""
    import cupy

    if _is_cudf(X):
        values = X.to_cupy(dtype=dtype, na_value=np.nan)
    elif _is_tensor(X):
        values = cupy.from_dlpack(X.detach())  # waits for the stream that fills it
    else:
        values = cupy.asarray(X)
    if values.dtype.kind not in "biuf":
        raise ValueError(f"X must be a table of numbers, got an array of {values.dtype} on the GPU.")
    there, here = values.device.id, cupy.cuda.Device().id
    if there != here:
        raise ValueError(f"X lies on GPU {there}, and GPU {here} is in use; call within cupy.cuda.Device({there}).")
    return cupy.ascontiguousarray(values, dtype=dtype)


def bring_to_host(values: Any) -> Any:
    """Values as they are, or a copy in the host's memory of those that lie on a GPU; data frames stay data frames."""
    if not is_on_device(values):
        return values
    if _is_cudf(values):
        return values.to_pandas()
    if _is_tensor(values):
        return values.detach().cpu().numpy()
    import cupy

    return cupy.asarray(values).get()


def take_from_device(X: Any, reason: str, *, stacklevel: int = 2) -> Any:
    """X in the host's memory; where it was on a GPU, a warning says what it is copied for."""
    if is_on_device(X):
        warnings.warn(
            f"X lies on the GPU, and is copied to the host's memory for {reason}.",
            DeviceWarning,
            stacklevel=stacklevel + 1,
        )
    return bring_to_host(X)
