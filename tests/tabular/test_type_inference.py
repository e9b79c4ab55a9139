"""Which types columns have, and how their values are read."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from helpers.messages import find_lacking
from helpers.mixed_table import TABLE, find_dtypes, find_significant, find_values, score
from truewood.tabular import TableError
from truewood.tabular._columns.type_inference import infer_column

pytestmark = pytest.mark.any_engine

KINDS = {
    "numbers with thousands": (["1,200", "3,400.5", "7"] * 10, "number"),
    "money and percent": (["$1,200", "-$3", "7%"] * 10, "number"),
    "decimal commas": (["1,5", "2,25", "1.300,5"] * 10, "number"),
    "numbers with gaps": (["1", "", "?", "NA", "-", "none", "2.5"] * 10, "number"),
    "numbers and a few words": (["1", "2", "3"] * 30 + ["broken"], "number"),
    "words and a few numbers": (["a", "b", "3"] * 10, "category"),
    "truth": (["TRUE", "false", ""] * 10, "boolean"),
    "yes and no": (["Yes", "no"] * 10, "boolean"),
    "only yes, or nothing": (["yes", ""] * 10, "category"),
    "types of truth": ([True, False, None] * 10, "boolean"),
    "dates": (["2020-01-05", "2020-11-30T10:00:00", ""] * 10, "date"),
    "dates with days first": (["31/12/2020", "01/02/2021"] * 10, "date"),
    "dates with dots": (["31.12.2020 10:30", "01.02.2021 23:00"] * 10, "date"),
    "dates in words": (["Jan 5, 2020", "Feb 7, 2021"] * 10, "date"),
    "dates in words without commas": (["Jan 01 2012", "Feb 03 2012"] * 10, "date"),
    "months and years": (["Jan-12", "Feb-13"] * 10, "date"),
    "months in full and years": (["January 2012", "May 2013"] * 10, "date"),
    "quarters": (["2012Q1", "2012-Q4", "Q2 2013"] * 10, "date"),
    "dates in eight digits": (["20120101", "20121231", "20130228"] * 10, "date"),
    "numbers in eight digits as typed dates": ([20120101, 20121231, 20130228] * 10, "date"),
    "numbers in eight digits that are no dates": (["20120101", "20121331", "20130228"] * 10, "number"),
    "units": (["26 mpg", "30 mpg", "19.5 mpg"] * 10, "number"),
    "units of several words": (["11,622 sq ft", "900 sq ft"] * 10, "number"),
    "one and several": (["1 year", "2 years"] * 10, "number"),
    "several units": (["3 kg", "400 g"] * 10, "category"),
    "feet and inches": (["5'7\"", "6'0\"", "5' 11\""] * 10, "number"),
    "levels with numbers": (["level 1", "level 2"] * 10, "category"),
    "ordinals": (["1st", "2nd", "3rd"] * 10, "category"),
    "months and numbers": (["Mon-12", "Tue-13"] * 10, "category"),
    "times of day": (["10:30", "23:15"] * 10, "date"),
    "ranges": (["10-20", "20-30"] * 10, "category"),
    "versions": (["1.2.3", "1.2.4"] * 10, "category"),
    "codes": ([f"{k:x}z" for k in range(100)], "identifier"),
    "counted rows": ([str(k) for k in range(100)], "identifier"),
    "shuffled counted rows": ([str((7 * k) % 100) for k in range(100)], "identifier"),
    "whole numbers without gaps that occur twice": ([str(k % 50) for k in range(100)], "number"),
    "whole numbers with gaps": ([str(k * k) for k in range(100)], "number"),
    "real numbers": ([str(k + 0.5) for k in range(100)], "number"),
    "few levels": ([f"level {k % 12}" for k in range(100)], "category"),
    "many levels": ([f"level {k % 13}" for k in range(100)], "high-cardinality category"),
    "texts": ([f"he said {k} words or so" for k in range(100)], "free text"),
    "the same long answers": (["I do not know at all", "that is how it is"] * 10, "category"),
    "constant": (["a"] * 20, "constant"),
    "nothing": (["", "NA", None, "?"] * 5, "empty"),
    "lists": ([[1], [2]] * 10, "nested values"),
    "bytes": ([b"a", b"b"] * 10, "nested values"),
}


@pytest.mark.parametrize("case", KINDS)
def test_kinds(case):
    values, kind = KINDS[case]
    assert infer_column("column", pd.Series(values, dtype=object)).dtype == kind


def test_an_identifier_by_its_name():
    numbers = pd.Series([str(k * k) for k in range(100)])
    assert infer_column("customer_id", numbers).dtype == "identifier"
    assert infer_column("humid", numbers).dtype == "number"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (["1,200", "7", "-"], [1200.0, 7.0, np.nan]),
        (["1,5", "1.300,5", "2"], [1.5, 1300.5, 2.0]),
        (["1.234", "12,5", "1.234,50"], [1234.0, 12.5, 1234.5]),
        (["0,512", "1", "12,512"], [0.512, 1.0, 12.512]),
        (["1,234", "2,345,678", "3"], [1234.0, 2345678.0, 3.0]),
        (["1.5", "2,5", "1.234"], [1.5, 2.5, 1.234]),
        (["1.234", "2,5", ".", "-"], [1234.0, 2.5, np.nan, np.nan]),
        (["-$3", "12%", "€1,000.5"], [-3.0, 12.0, 1000.5]),
        (["750 €", "2.041 €"], [750.0, 2041.0]),
        (["1.5 €", "2.041 €"], [1.5, 2.041]),
        (["€3.459", "€3.5"], [3.459, 3.5]),
        (["12.345 %", "7 %"], [12.345, 7.0]),
        (["1.234.567", "2.000", "7"], [1234567.0, 2000.0, 7.0]),
        (["yes", "NO", "?"], [1.0, 0.0, np.nan]),
    ],
)
def test_values_of_strings(given, read):
    assert_allclose(infer_column("column", pd.Series(given * 10)).values, read * 10)


def test_ambiguous_days_and_months_are_reported():
    column = infer_column("when", pd.Series(["01/02/2020", "03/04/2020"] * 10))
    assert "month/day/year" in column.note
    assert column.values[0] == pd.Timestamp("2020-01-02")


def test_unambiguous_days_and_months_are_not_reported():
    for texts in (["01/02/2020", "03/14/2020"], ["01/02/2020", "14/03/2020"], ["01/01/2020", "02/02/2020"]):
        assert "though" not in infer_column("when", pd.Series(texts * 10)).note


@pytest.mark.parametrize(
    ("given", "read", "note"),
    [
        (["26 mpg", "19.5 mpg", "-", "?"], [26.0, 19.5, np.nan, np.nan], "numbers (unit: mpg)"),
        (["11,622 sq ft", "900 sq ft"], [11622.0, 900.0], "numbers (unit: sq ft)"),
        (["5'7\"", "6'", "5 ft 11.5 in"], [67.0, 72.0, 71.5], "feet and inches converted to inches"),
        (["1,5 kg", "2,25 kg"], [1.5, 2.25], "numbers (unit: kg)"),
    ],
)
def test_numbers_with_units(given, read, note):
    column = infer_column("column", pd.Series(given * 10))
    assert_allclose(column.values, read * 10)
    assert column.note == note


def test_quarters_are_their_first_days():
    column = infer_column("when", pd.Series(["2012Q1", "Q4 2013"] * 10))
    assert column.values[:2].tolist() == [pd.Timestamp("2012-01-01"), pd.Timestamp("2013-10-01")]


def test_columns_that_are_nearly_numeric_are_reported():
    given = pd.Series([str(k % 40) for k in range(93)] + ["5'7\""] * 7)
    column = infer_column("height", given)
    assert column.dtype == "high-cardinality category"
    assert not find_lacking(column.note, "93%", "5'7\"", "{'height': 'number'}")
    assert infer_column("height", given.replace("5'7\"", "x").where(given.index % 2 == 0, "a")).note is None


def test_messages_about_numbers():
    numbers = [str(k + 0.5) for k in range(60)]
    assert not find_lacking(infer_column("x", pd.Series([*numbers, "off"])).note, "1 ", "missing", "'off'")
    note = infer_column("x", pd.Series([*numbers, "off", "on"])).note
    assert not find_lacking(note, "2 ", "missing", "'off', 'on'")


def test_what_columns_are_taken_for():
    scored = score(TABLE, "y", drop=["amount"], alpha=0.01, n_estimators=200)
    assert find_dtypes(scored) == {
        "id": "identifier",
        "x": "number",
        "member": "boolean",
        "city": "category",
        "product": "high-cardinality category",
        "when": "date",
        "comment": "free text",
        "country": "constant",
    }
    assert set(find_values(scored)) == {"x", "member", "city", "product", "when"}
    assert find_significant(scored, 0.01) == {"x", "member", "city"}
    messages = "\n".join(scored.messages)
    assert "id (" in messages
    assert re.search(r"comment \(free text.*keep=\[", messages)
    assert "country (" in messages
    assert scored.warnings == []


@pytest.mark.parametrize("keep", [["id", "comment"], "id"])
def test_kept_columns(keep):
    kept = {keep} if isinstance(keep, str) else set(keep)
    assert kept <= set(find_values(score(TABLE, "y", keep=keep, n_estimators=5)))


def test_dropped_columns():
    assert "x" not in find_values(score(TABLE, "y", drop="x", n_estimators=5))


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e200])
def test_values_that_trees_do_not_take(value):
    with pytest.raises(TableError, match=r"'x'.*infinite.*\b1 row\b.*drop=\['x'\]") as caught:
        score(TABLE.assign(x=TABLE["x"].where(TABLE.index > 0, value)), "y")
    assert caught.value.argument == "table"


def test_no_column_is_left():
    with pytest.raises(TableError, match="column"):
        score(TABLE[["id", "country", "y"]], "y")


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ([1900, 1950, -999, 2000, -999], "-999"),
        ([1.5, 2.5, 99, 3.5, 99], "99"),
        ([1900, 1950, -999, 2000, 1980], None),  # once may be a value
        ([10, 500, 999, 800, 999], None),  # within reach of the others
        ([99, 99, 98, 98], None),
        (["1", "2", "-99", "3", "-99"], "-99"),
    ],
)
def test_codes_for_missing_values_are_noted(values, code):
    column = infer_column("year", pd.Series(values), is_kept=True)
    assert column.dtype == "number"
    if code is None:
        assert column.note is None
    else:
        assert f"{code} in 2 rows" in column.note


def test_levels_that_differ_in_letter_case_are_noted():
    column = infer_column("kind", pd.Series(["Flat", "flat", "House ", "House", "barn"] * 3))
    assert "Flat and flat differ only in letter case" in column.note
    assert "House" not in column.note
    assert infer_column("kind", pd.Series(["Flat", "House"] * 3)).note is None
