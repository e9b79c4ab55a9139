"""Arrays of a record cannot be written into, and are not copied."""

from __future__ import annotations

import pickle
from copy import deepcopy
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import truewood as tw
from truewood._read_only import make_read_only
from truewood._trees.categories import Categories


@dataclass(frozen=True, eq=False)
class Record:
    values: Any
    name: str = "a"

    def __post_init__(self):
        make_read_only(self)


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


@pytest.mark.parametrize("copy", [lambda record: pickle.loads(pickle.dumps(record)), deepcopy], ids=["pickle", "copy"])
def test_arrays_stay_read_only_in_a_copy(copy):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    forest = RandomForestRegressor(3, random_state=0).fit(X, X[:, 0])
    ensemble = tw.to_ensemble(forest)
    sets = Categories(np.array([0, -1]), np.array([0, 2]), np.array([1, 3]))
    records = [tw.importance(forest, X, X[:, 0], feature_groups={"a": [0, 1]}, contributions=True), ensemble, sets]
    records.append(tw.permutation_test(forest, X, X[:, 0], n_permutations=2, random_state=0))
    for record in records:
        again = copy(record)
        arrays = {part.name: getattr(again, part.name) for part in fields(again)}
        arrays = {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}
        assert arrays
        for name, array in arrays.items():
            assert not array.flags.writeable, (type(record).__name__, name)
            np.testing.assert_array_equal(array, getattr(record, name))
    assert not copy(records[0]).columns.values.flags.writeable
