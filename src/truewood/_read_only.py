"""Read-only arrays for immutable records."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def restore_read_only(record: DataclassInstance, state: dict[str, Any]) -> None:
    """`__setstate__` of a frozen dataclass that keeps arrays read-only after unpickling."""
    vars(record).update(state)
    make_read_only(record)


def make_read_only(record: DataclassInstance) -> None:
    """Replace each array of a frozen dataclass by a read-only view; nothing is copied."""
    for field in fields(record):
        array = getattr(record, field.name)
        if isinstance(array, np.ndarray):
            view = array.view()
            view.flags.writeable = False
            object.__setattr__(record, field.name, view)


def copy_integers(name: str, given: Any, dtype: Any) -> NDArray[Any]:
    """Copy integers into an array of another integer dtype, and refuse numbers out of its range."""
    numbers = np.asarray(given)
    if numbers.size and numbers.dtype.kind not in "iu":
        raise ValueError(f"{name} must be integers, got {numbers.dtype}.")
    limits = np.iinfo(dtype)
    if numbers.size and not limits.min <= int(numbers.min()) <= int(numbers.max()) <= limits.max:
        raise ValueError(f"{name} must lie in {limits.min}..{limits.max}, got {numbers.min()} to {numbers.max()}.")
    return np.array(numbers, dtype=dtype)
