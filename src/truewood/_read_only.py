"""Arrays that nobody else can write to, for records that promise not to change."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def restore_read_only(record: DataclassInstance, state: dict[str, Any]) -> None:
    """What `__setstate__` of a frozen dataclass does: arrays that come out of a pickle are read-only, too."""
    vars(record).update(state)
    make_read_only(record)


def make_read_only(record: DataclassInstance) -> None:
    """Replace each array of a frozen dataclass by a read-only view of it; nothing is copied."""
    for field in fields(record):
        array = getattr(record, field.name)
        if isinstance(array, np.ndarray):
            view = array.view()
            view.flags.writeable = False
            object.__setattr__(record, field.name, view)


def copy_integers(name: str, given: Any, dtype: Any) -> NDArray[Any]:
    """Copy whole numbers into an array of a type that has to hold them all."""
    numbers = np.asarray(given)
    if numbers.size and numbers.dtype.kind not in "iu":
        raise ValueError(f"{name} must be whole numbers, got {numbers.dtype}.")
    limits = np.iinfo(dtype)
    if numbers.size and not limits.min <= int(numbers.min()) <= int(numbers.max()) <= limits.max:
        raise ValueError(f"{name} must lie in {limits.min}..{limits.max}, got {numbers.min()} to {numbers.max()}.")
    return np.array(numbers, dtype=dtype)
