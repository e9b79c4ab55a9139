"""Whole numbers as trees hold them: copies that nobody else can change, of a type that has to hold them all."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def copy_integers(name: str, given: Any, dtype: Any) -> NDArray[Any]:
    """Copy whole numbers into an array of a type that has to hold them all."""
    numbers = np.asarray(given)
    if numbers.size and numbers.dtype.kind not in "iu":
        raise ValueError(f"{name} must be whole numbers, got {numbers.dtype}.")
    limits = np.iinfo(dtype)
    if numbers.size and not limits.min <= int(numbers.min()) <= int(numbers.max()) <= limits.max:
        raise ValueError(f"{name} must lie in {limits.min}..{limits.max}, got {numbers.min()} to {numbers.max()}.")
    return np.array(numbers, dtype=dtype)
