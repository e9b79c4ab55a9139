"""Fits that get text are refused in one line with the columns, a value of each, and a remedy that works."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder, StandardScaler

import truewood as tw

FOREST = RandomForestClassifier(5, random_state=0)
CALLS = {
    "cross_importance": lambda X, y: tw.cross_importance(FOREST, X, y, cv=2),
    "cross_importance, processes": lambda X, y: tw.cross_importance(FOREST, X, y, cv=2, n_jobs=2),
    "cross_interactions": lambda X, y: tw.cross_interactions(FOREST, X, y, cv=2),
    "permutation_test": lambda X, y: tw.permutation_test(FOREST, X, y, n_permutations=2),
    "forest": lambda X, y: tw.UnbiasedRandomForestClassifier(5).fit(X, y),
    "trees": lambda X, y: tw.UnbiasedExtraTreesClassifier(5).fit(X, y),
    "selector": lambda X, y: tw.UnbiasedSelector(FOREST).fit(X, y),
    "pipeline": lambda X, y: tw.cross_importance(make_pipeline(StandardScaler(), FOREST), X, y, cv=2),
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"size": rng.random(60), "price": rng.random(60).astype(str)})
    table["color"], table["shape"] = rng.permuted(["red", "blue"] * 30), rng.permuted(["round", "flat"] * 30)
    table.loc[7, "price"] = "?"
    table.loc[0, ["color", "shape"]] = ["red", "flat"]
    return table


@pytest.fixture(scope="module")
def labels(table):
    return (table["size"] > 0.5).to_numpy()


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_columns_and_values_are_named(call, table, labels):
    with pytest.raises(ValueError, match=r"^X\b") as caught:
        call(table, labels)
    message = str(caught.value)
    found = re.findall(r"(\w+) \('([^']*)'\)", message)
    assert found == [("price", "?"), ("color", "red"), ("shape", "flat")]  # prices but one are numbers
    assert "\n" not in message
    assert re.search(r"OrdinalEncoder.*, (Unbiased)?(RandomForest|ExtraTrees)Classifier\(\)\)", message)


@pytest.mark.parametrize("make", [pl.from_pandas, lambda table: table.to_numpy(dtype=object)], ids=["polars", "array"])
def test_other_tables(make, table, labels):
    with pytest.raises(ValueError, match=r"^X\b.*\('\?'\).*\('red'\).*\('flat'\)"):
        CALLS["forest"](make(table), labels)


def test_remedy_works(table, labels):
    encoder = make_column_transformer((OrdinalEncoder(), ["color", "shape"]), remainder="passthrough")
    result = tw.cross_importance(make_pipeline(encoder, FOREST), table.drop(columns="price"), labels, cv=2)
    assert result.feature_names[result.order[0]] == "size"


def test_other_errors_are_unchanged(table, labels):
    with pytest.raises(ValueError, match="could not convert string to float: 'x'"):
        tw.cross_importance(make_pipeline(FunctionTransformer(_fail), FOREST), table[["size"]], labels, cv=2)


def _fail(X):
    return float("x")
