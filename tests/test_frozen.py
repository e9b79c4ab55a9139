"""Arrays of a record cannot be written into, and are not copied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from truewood.frozen import freeze_arrays


@dataclass(frozen=True, eq=False)
class Record:
    values: Any
    name: str = "a"

    def __post_init__(self):
        freeze_arrays(self)


def test_arrays_of_a_record_are_read_only_views():
    values = np.zeros(3)
    record = Record(values)
    with pytest.raises(ValueError, match="read-only"):
        record.values[0] = 1.0
    assert np.shares_memory(record.values, values)
    values[1] = 2.0  # the caller's own array stays the caller's
    assert record.values[1] == 2.0


@pytest.mark.parametrize("values", [None, [1.0], np.float64(1.0)])
def test_what_is_no_array_stays_as_it_is(values):
    assert Record(values).values is values
