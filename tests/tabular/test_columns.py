"""What columns are taken for, and how their values are read."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from mixed_table import TABLE, find_kinds, find_significant, find_values, score
from truewood.tabular import TableError
from truewood.tabular.columns import read_column

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
    "many levels": ([f"level {k % 13}" for k in range(100)], "category of many levels"),
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
    assert read_column("column", pd.Series(values, dtype=object)).kind == kind


def test_an_identifier_by_its_name():
    numbers = pd.Series([str(k * k) for k in range(100)])
    assert read_column("customer_id", numbers).kind == "identifier"
    assert read_column("humid", numbers).kind == "number"


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
        (["yes", "NO", "?"], [1.0, 0.0, np.nan]),
    ],
)
def test_values_of_strings(given, read):
    assert_allclose(read_column("column", pd.Series(given * 10)).values, read * 10)


def test_days_and_months_that_could_change_places_are_told():
    column = read_column("when", pd.Series(["01/02/2020", "03/04/2020"] * 10))
    assert column.note == "read as month/day/year, though day and month could change places"
    assert column.values[0] == pd.Timestamp("2020-01-02")


def test_what_is_said_of_numbers():
    numbers = [str(k + 0.5) for k in range(60)]
    assert read_column("x", pd.Series([*numbers, "off"])).note == "1 value is no number and is taken as missing: 'off'"
    note = read_column("x", pd.Series([*numbers, "off", "on"])).note
    assert note == "2 values are no numbers and are taken as missing: 'off', 'on'"


def test_what_columns_are_taken_for():
    scored = score(TABLE, "y", drop=["amount"], alpha=0.01, n_trees=200)
    assert find_kinds(scored) == {
        "id": "identifier",
        "x": "number",
        "member": "boolean",
        "city": "category",
        "product": "category of many levels",
        "when": "date",
        "comment": "free text",
        "country": "constant",
    }
    assert set(find_values(scored)) == {"x", "member", "city", "product", "when"}
    assert find_significant(scored, 0.01) == {"x", "member", "city"}
    said = "\n".join(scored.messages)
    assert "left out: id (names the rows" in said
    assert "left out: comment (free text; keep=[...] uses it" in said
    assert "left out: country (the same in every row)" in said
    assert scored.warnings == []


@pytest.mark.parametrize("keep", [["id", "comment"], "id"])
def test_kept_columns(keep):
    kept = {keep} if isinstance(keep, str) else set(keep)
    assert kept <= set(find_values(score(TABLE, "y", keep=keep, n_trees=5)))


def test_dropped_columns():
    assert "x" not in find_values(score(TABLE, "y", drop="x", n_trees=5))


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e200])
def test_values_that_trees_do_not_take(value):
    with pytest.raises(TableError, match=r"column 'x' holds 1 infinite or far too .* with drop=\['x'\]") as caught:
        score(TABLE.assign(x=TABLE["x"].where(TABLE.index > 0, value)), "y")
    assert caught.value.argument == "table"


def test_no_column_is_left():
    with pytest.raises(TableError, match="no column is left"):
        score(TABLE[["id", "country", "y"]], "y")
