"""Arrays on a GPU: CuPy arrays, PyTorch tensors, cuDF data frames, and others with the CUDA array interface."""

from __future__ import annotations

from typing import Any

import numpy as np

from truewood._exceptions import DeviceWarning, warn


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
