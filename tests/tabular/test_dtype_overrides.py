"""Columns read as the user wants them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from helpers.messages import find_lacking
from helpers.mixed_table import TABLE, find_dtypes, score
from truewood.tabular import TableError
from truewood.tabular._columns.dtype_overrides import read_column_as

pytestmark = pytest.mark.any_engine

NEARLY = ["170", "169.5", "5'7\"", None]
DATES = ["03.04.2020", "31.12.2021", "soon", None]


@pytest.mark.parametrize(
    ("given", "wanted", "kind", "values"),
    [
        (NEARLY, "number", "number", [170.0, 169.5, np.nan, np.nan]),
        (["yes", "no"], "number", "number", [1.0, 0.0]),
        ([True, False], "number", "number", [1.0, 0.0]),
        ([20120101, 20120102, 20120103], "number", "number", [20120101.0, 20120102.0, 20120103.0]),
        (["20120101", "20120102", "20120103"], "number", "number", [20120101.0, 20120102.0, 20120103.0]),
        ([1, 2, 3], "category", "category", ["1", "2", "3"]),
        ([1.0, 2.5, None], "category", "category", ["1", "2.5", "(missing)"]),
        (list(range(13)), "category", "high-cardinality category", [str(k) for k in range(13)]),
        (DATES, "date:%d.%m.%Y", "date", [pd.Timestamp("2020-04-03"), pd.Timestamp("2021-12-31"), pd.NaT, pd.NaT]),
        ([201203, 201204], "date:%Y%m", "date", [pd.Timestamp("2012-03-01"), pd.Timestamp("2012-04-01")]),
        (
            ["01/02/2020", "03/04/2020"],
            "date:%d/%m/%Y",
            "date",
            [pd.Timestamp("2020-02-01"), pd.Timestamp("2020-04-03")],
        ),
        (["2020-02-01", "2020-04-03"], "date", "date", [pd.Timestamp("2020-02-01"), pd.Timestamp("2020-04-03")]),
        (["a", "b"], "text", "free text", ["a", "b"]),
        (["a", "a"], "number", "constant", ["a", "a"]),
    ],
)
def test_kinds_that_are_wanted(given, wanted, kind, values):
    column = read_column_as("x", pd.Series(given * 10), wanted)
    assert column.dtype == kind
    assert_array_equal(column.values.isna(), pd.isna(np.array(values * 10, dtype=object)))
    there = column.values.notna()
    assert column.values[there].tolist() == [value for value in values * 10 if not pd.isna(value)]


def test_values_that_do_not_fit_the_type_are_reported():
    note = read_column_as("x", pd.Series(DATES * 5), "date:%d.%m.%Y").note
    assert not find_lacking(note, "%d.%m.%Y", "5 values", "missing")
    assert "5 non-numeric values" in read_column_as("x", pd.Series(NEARLY * 5), "number").note


@pytest.mark.parametrize(
    ("dtypes", "words"),
    [
        ({"x": "int"}, ["'x'", "number, category, date, text, drop", "date:FORMAT", "'int'"]),
        ({"x": "number:%d"}, ["'x'", "'number:%d'"]),
        ({"z": "number"}, ["'z'"]),
        ({"y": "date"}, ["'y'", "number", "category", "'date'"]),
        ({"city": "number"}, ["'city'", "a number"]),
        ({"city": "date"}, ["'city'", "dates"]),
        ({"city": "date:%Y"}, ["'city'", "'%Y'"]),
    ],
)
def test_kinds_that_cannot_be(dtypes, words):
    with pytest.raises(TableError) as caught:
        score(TABLE[["x", "city", "y"]], "y", dtypes=dtypes)
    assert not find_lacking(caught.value.reason, *words)
    assert caught.value.argument == "dtypes"


def test_kinds_of_a_table():
    scored = score(
        TABLE, "y", dtypes={"id": "category", "x": "drop", "product": "text", "city": "category"}, n_estimators=5
    )
    dtypes = find_dtypes(scored)
    assert "x" not in dtypes
    assert (dtypes["id"], dtypes["product"], dtypes["city"]) == ("high-cardinality category", "free text", "category")


def test_the_kind_of_the_target_is_its_task():
    table = TABLE[["x", "city"]].assign(grade=pd.cut(TABLE["amount"], 5, labels=False))
    assert score(table, "grade", dtypes={"grade": "number"}, n_estimators=5).result.task == "regression"
    assert score(table, "grade", dtypes={"grade": "category"}, n_estimators=5).result.task == "classification"
