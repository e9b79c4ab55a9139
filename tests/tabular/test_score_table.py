"""Scoring a table from Python: data frames of any library, what comes back, and what is refused."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from pandas.testing import assert_frame_equal

from helpers.messages import find_lacking
from helpers.mixed_table import TABLE, add_types, find_significant, find_values, score
from truewood import datasets
from truewood.tabular import Messages, TableError, score_saved_model, score_table


@pytest.fixture(scope="module")
def expected():
    return score(TABLE, "y", n_estimators=20)


def as_polars(table):
    return pytest.importorskip("polars").from_pandas(table)


def as_arrow(table):
    return pytest.importorskip("pyarrow").Table.from_pandas(table)


def as_arrow_types(table):
    pytest.importorskip("pyarrow")
    return table.convert_dtypes(dtype_backend="pyarrow")


FRAMES = {
    "pandas": lambda table: table,
    "pandas with nullable types": pd.DataFrame.convert_dtypes,
    "pandas with Arrow types": as_arrow_types,
    "pandas with another index": lambda table: table.set_axis(np.arange(len(table))[::-1] * 2),
    "pandas with a column as index": lambda table: table.set_index("id"),
    "polars": as_polars,
    "pyarrow": as_arrow,
}


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("prepare", [pd.DataFrame.copy, add_types], ids=["text", "typed"])
def test_data_frames_give_the_same_numbers(kind, prepare, expected):
    scored = score(FRAMES[kind](prepare(TABLE)), "y", n_estimators=20)
    assert [(column.name, column.dtype) for column in scored.columns] == [
        (column.name, column.dtype) for column in expected.columns
    ]
    assert_array_equal(scored.result.values, expected.result.values)
    assert scored.performance == expected.performance


def test_the_data_frame_stays_as_it_is():
    table = add_types(TABLE)
    table.loc[:9, "y"] = None
    before = table.copy()
    score(table, "y", n_estimators=5)
    assert_frame_equal(table, before)


def test_names_that_are_numbers():
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(100, 3)))
    assert set(find_values(score(table, 2, n_estimators=5))) == {"0", "1"}


def test_what_comes_back(expected):
    assert not find_lacking(expected.messages[0], "300 rows", "10 columns")
    assert expected.messages[-1] == str(expected.performance)
    assert not find_lacking(expected.describe(), "random-forest", "20 trees", "300 out-of-bag rows", "ufi")
    assert repr(expected) == f"{expected.describe()}\n{expected.performance}"
    assert list(expected.X) == list(find_values(expected))
    assert expected.model.predict(expected.X).shape == (300,)


def test_scores_are_split_by_class_if_there_are_more_than_two(expected):
    assert expected.result.classes is None  # two classes
    rng = np.random.default_rng(0)
    table = TABLE.assign(
        y=pd.Series(TABLE["x"] + 0.3 * rng.standard_normal(len(TABLE))).rank(pct=True).mul(2.999).astype(int)
    )
    table["y"] = table["y"].map({0: "low", 1: "middle", 2: "high"})
    result = score(table, "y", n_estimators=20).result
    assert result.classes.names.tolist() == ["high", "low", "middle"]
    np.testing.assert_allclose(result.per_class.sum(axis=0), result.values, atol=1e-12)
    assert score(table, "y", n_estimators=5, measure="permutation").result.classes is None


def test_warnings_are_part_of_what_is_printed():
    rng = np.random.default_rng(1)
    scored = score(pd.DataFrame({"a": rng.normal(size=100), "y": rng.choice(["u", "v"], 100)}), "y", n_estimators=20)
    assert f"warning: {scored.warnings[0]}" in repr(scored)


def test_messages_are_passed_on_as_they_come():
    heard, warned = [], []
    messages = Messages(heard.append, warned.append)
    scored = score(pd.concat([TABLE, TABLE]).drop(columns="id"), "y", n_estimators=5, messages=messages)
    assert heard == scored.messages == messages.messages
    assert warned == scored.warnings == messages.warnings
    assert "duplicates" in warned[0]


SMALL = TABLE[["x", "city", "y"]]
BAD_ARGUMENTS = {
    "target": ({"target": "cty"}, ["'cty'", "'city'"]),
    "drop": ({"drop": ["y"]}, ["'y'"]),
    "keep": ({"keep": ["z"]}, ["'z'", "'x', 'city', 'y'"]),
    "sample_weight": ({"sample_weight": "y"}, ["'y'"]),
    "task": ({"task": "ranking"}, ["classification, regression", "'ranking'"]),
    "measure": ({"measure": "gain"}, ["auto, ufi, "]),
    "alpha": ({"alpha": 5}, ["0", "1", "5"]),
}


@pytest.mark.parametrize("argument", BAD_ARGUMENTS)
def test_arguments_that_cannot_be_used(argument):
    given, words = BAD_ARGUMENTS[argument]
    with pytest.raises(TableError) as caught:
        score_table(SMALL, **({"target": "y"} | given))
    assert caught.value.argument == argument
    assert not find_lacking(caught.value.reason, *words)
    assert str(caught.value) == f"{argument}: {caught.value.reason}"
    assert isinstance(caught.value, ValueError)


def test_errors_can_be_sent_to_another_process():
    error = pickle.loads(pickle.dumps(TableError("is not there.", "target")))
    assert (error.reason, error.argument) == ("is not there.", "target")


@pytest.mark.parametrize(
    "table", [{"x": [1, 2]}, [[1, 2]], None, np.zeros((30, 2))], ids=lambda table: type(table).__name__
)
def test_what_is_no_table(table):
    with pytest.raises(TypeError, match=r"^table.*data ?frame"):
        score_table(table, "y")
    with pytest.raises(TypeError, match=r"^table.*data ?frame"):
        score_saved_model(score(SMALL, "y", n_estimators=2).model, table, "y")


def test_a_lazy_frame_is_collected():
    polars = pytest.importorskip("polars")
    lazy = polars.from_pandas(SMALL).lazy()
    assert_array_equal(score(lazy, "y", n_estimators=5).result.values, score(SMALL, "y", n_estimators=5).result.values)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (SMALL[:0], "no rows"),
        (SMALL[:10], r"\b20 rows\b.*\b10\b"),
        (SMALL.set_axis(["x", "x", "y"], axis=1), "columns.*'x'"),
        (SMALL.rename_axis(index="x"), "columns.*'x'"),
    ],
    ids=["no rows", "few rows", "a name twice", "an index like a column"],
)
def test_data_frames_that_cannot_be_used(table, words):
    with pytest.raises(TableError, match=words) as caught:
        score_table(table, "y")
    assert caught.value.argument == "table"


DATA = Path(os.environ.get(datasets.DATA_VARIABLE, "."))


@pytest.mark.skipif(not (DATA / "adult.data").is_file(), reason="TRUEWOOD_DATA names no folder with adult.data")
def test_adult(tmp_path):
    names = ",".join(datasets._ADULT_COLUMNS)
    (tmp_path / "adult.csv").write_text(names + "\n" + (DATA / "adult.data").read_text())
    scored = score(tmp_path / "adult.csv", "income", n_estimators=100)
    features = datasets._ADULT_COLUMNS[:-1]
    assert sorted(find_values(scored)) == sorted(features)
    frame = scored.result.frame().set_index("feature")
    assert frame.loc["fnlwgt", "mdi_rank"] == 1
    assert find_significant(scored) == set(features) - {"fnlwgt"}
    assert scored.performance.value > 0.89


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cv": 3}, "leave out cv=3"),
        ({"test_size": 0.3, "groups": "id"}, "leave out groups='id' and test_size=0.3"),
        ({"model": "hist-gradient-boosting"}, "use model='random-forest'"),
    ],
)
def test_measures_of_in_bag_rows_need_out_of_bag_rows(options, words):
    with pytest.raises(TableError, match=rf"sobol_mda.*in-bag.*{words}") as caught:
        score(TABLE, "y", n_estimators=5, measure="sobol_mda", **options)
    assert caught.value.argument == "measure"
