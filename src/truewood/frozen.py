"""Arrays that nobody can write into, for records that promise not to change."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def freeze_arrays(record: DataclassInstance) -> None:
    """Replace each array of a frozen dataclass by a read-only view of it; nothing is copied."""
    for field in fields(record):
        array = getattr(record, field.name)
        if isinstance(array, np.ndarray):
            view = array.view()
            view.flags.writeable = False
            object.__setattr__(record, field.name, view)
