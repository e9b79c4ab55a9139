"""Labels of y are found among those of the model, whatever form they come in."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import truewood as tw
from truewood._inputs.target import TargetKind, encode_target

IS_SECOND = np.array([False, True, True, False])
BOOLEANS = {
    "bool": IS_SECOND,
    "int": IS_SECOND.astype(np.int64),
    "uint8": IS_SECOND.astype(np.uint8),
    "float": IS_SECOND.astype(np.float64),
    "truth values as objects": IS_SECOND.astype(object),
    "numbers as objects": IS_SECOND.astype(np.int64).astype(object),
    "list": IS_SECOND.tolist(),
    "series": pd.Series(IS_SECOND),
    "nullable series": pd.Series(IS_SECOND, dtype="boolean"),
}
SURROGATES = ["caf\udce9", "\ud800"]


def encode(y, labels):
    return encode_target(y, TargetKind((np.asarray(labels),)), np.zeros(2)).codes[:, 0].tolist()


@pytest.mark.parametrize("form", BOOLEANS)
@pytest.mark.parametrize("labels", [[False, True], [0, 1], [0.0, 1.0]])
def test_truth_values_are_the_numbers_0_and_1(form, labels):
    assert encode(BOOLEANS[form], labels) == [0, 1, 1, 0]


def test_other_numbers_are_no_truth_values():
    with pytest.raises(ValueError, match=r"\by\b.*\b2\b.*False, True"):
        encode(2 * IS_SECOND.astype(int), [False, True])
    with pytest.raises(ValueError, match=r"\by\b.*'True', 'False'.*False"):
        encode(["True", "False"], [False, True])
    with pytest.raises(ValueError, match=r"\by\b.*True, False.*\b2, 3\b"):
        encode([True, False], [2, 3])


@pytest.mark.parametrize("dtype", [">i4", ">f8", np.float16, np.longdouble])
def test_numbers_that_pandas_has_no_index_of(dtype):
    numbers = np.array([3, 1, 3, 2], dtype=dtype)
    assert encode(numbers, [1, 2, 3]) == encode([3, 1, 3, 2], np.unique(numbers)) == [2, 0, 2, 1]
    assert encode(numbers, np.unique(numbers)) == [2, 0, 2, 1]


def test_dates_of_another_unit_are_the_same_labels():
    days = np.array(["2020-01-01", "2020-02-01"], dtype="datetime64[D]")
    assert encode(days.astype("datetime64[ns]")[[1, 0]], days) == [1, 0]


@pytest.mark.parametrize("dtype", [object, np.str_])
def test_labels_may_hold_lone_surrogates(dtype):
    """Text that was read with errors="surrogateescape"."""
    labels = np.sort(np.array(SURROGATES, dtype=dtype))
    assert encode(labels[[1, 0, 1]], labels) == [1, 0, 1]
    assert encode(labels[[1, 0]].tolist(), labels) == [1, 0]
    with pytest.raises(ValueError, match=r"\by\b.*'z\\udcff'.*'caf\\udce9'"):
        encode(np.array(["z\udcff"], dtype=dtype), labels)


@pytest.mark.parametrize("labels", [[False, True], SURROGATES])
def test_such_labels_score(labels, rng):
    X = rng.standard_normal((80, 2))
    codes = (X[:, 0] > 0).astype(int)
    y = np.array(labels)[codes]
    expected = tw.importance(RandomForestClassifier(5, random_state=0).fit(X, y == y[0]), X, y == y[0]).values
    forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    result = tw.importance(forest, X, codes if labels[0] is False else y)
    np.testing.assert_allclose(result.values, expected)
