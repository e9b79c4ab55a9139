"""Arrays that nobody else can write into, for records that promise not to change."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def restore_frozen(record: DataclassInstance, state: dict[str, Any]) -> None:
    """What `__setstate__` of a frozen dataclass does: arrays that come out of a pickle are read-only, too."""
    vars(record).update(state)
    freeze_arrays(record)


def freeze_arrays(record: DataclassInstance) -> None:
    """Replace each array of a frozen dataclass by a read-only view of it; nothing is copied."""
    for field in fields(record):
        array = getattr(record, field.name)
        if isinstance(array, np.ndarray):
            view = array.view()
            view.flags.writeable = False
            object.__setattr__(record, field.name, view)
