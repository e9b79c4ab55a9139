"""Where encoded columns come from, transformer by transformer, and what happens where little is known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from truewood._pipelines.containers import adapt_table
from truewood._pipelines.provenance import ColumnProvenance, list_transformers, trace_provenance
from truewood._pipelines.provenance_probe import find_sources
from truewood._sklearn_compat import SKLEARN_VERSION

pytestmark = pytest.mark.any_engine

TABLE = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "s": ["u", "v", "w", "u"], "t": ["p", None, "q", "r"]})


def probe(function, table=TABLE, n_columns=1):
    transformer = FunctionTransformer(function)
    known = [frozenset[int]()] * n_columns
    return find_sources(transformer, table, ["a", "s", "t"], known=known, output_names=None)


def test_texts_with_missing_values_can_be_tried_out():
    sources, unknown = probe(lambda X: X[["t", "s"]].apply(lambda column: column.str.upper()), n_columns=2)
    assert sources == [{2}, {1}]
    assert unknown == frozenset()


def test_an_output_of_one_dimension_is_one_column():
    assert probe(lambda X: X["a"] + X["s"].str.len() + (X["s"] == "u"))[0] == [{0, 1}]


def test_values_that_cannot_be_compared_count_as_different():
    lists = TABLE.assign(s=[[1], [1], [1], [1]])
    sources, unknown = probe(lambda X: X[["a"]], lists)
    assert sources == [{0}]
    assert unknown == frozenset()  # the lists may differ: only what is the same in all rows is unknown


def test_frames_of_polars_can_be_tried_out():
    sources, _ = probe(lambda X: X.select(pl.col("a") * pl.col("s").str.len_chars()), pl.from_pandas(TABLE))
    assert sources == [{0}]  # all texts have one letter
    sources, _ = probe(lambda X: X.select(pl.col("t").is_null(), pl.col("a")), pl.from_pandas(TABLE), n_columns=2)
    assert sources == [{2}, {0}]


def test_a_part_with_another_number_of_columns_than_in_the_fit_counts_as_mixed():
    dummies = FunctionTransformer(lambda X: pd.get_dummies(X, dtype=float))
    encoder = ColumnTransformer([("dummies", dummies, ["s", "a"]), ("rest", "passthrough", ["a"])]).fit(TABLE)
    _, found = trace_provenance(encoder, TABLE, list(TABLE))
    assert found.sources == [{0}, {1}, {1}, {1}, {0}]
    _, found = trace_provenance(encoder, TABLE[:2], list(TABLE))  # without the level "w"
    assert found.sources == [{0, 1}] * 4


@pytest.mark.skipif(SKLEARN_VERSION < (1, 6), reason="scikit-learn knew no such rule")
def test_names_follow_a_rule_that_is_a_text():
    rule = "{feature_name} by {transformer_name}"
    encoder = ColumnTransformer([("scaled", StandardScaler(), ["a"])], verbose_feature_names_out=rule).fit(TABLE)
    _, found = trace_provenance(encoder, TABLE, list(TABLE))
    assert found.names == encoder.get_feature_names_out().tolist() == ["a by scaled"]


def test_traces_one_after_the_other():
    first = ColumnProvenance(["p", "q"], [frozenset([0, 2]), frozenset([1])], frozenset([3]))
    second = ColumnProvenance(["r"], [frozenset([0])], frozenset([1]))
    joined = first.then(second)
    assert joined.names == ["r"]
    assert joined.sources == [{0, 2}]
    assert joined.unknown == {1, 3}


def test_sparse_matrices_keep_the_names_of_the_fit():
    scaler = StandardScaler(with_mean=False).fit(TABLE[["a"]])
    table, names = adapt_table(sparse.csr_matrix([[1.0]]), scaler, [])
    assert sparse.issparse(table)
    assert names == ["a"]


def test_all_single_transformers_are_listed():
    scaler, encoder, function = StandardScaler(), OneHotEncoder(), FunctionTransformer()
    columns = ColumnTransformer([("a", make_pipeline(scaler, "passthrough"), ["a"]), ("s", encoder, ["s"])])
    union = FeatureUnion([("function", function), ("none", "drop")])
    steps = Pipeline([("columns", columns), ("none", None), ("union", union)]).fit(TABLE)
    names = [type(part).__name__ for part in list_transformers(steps)]
    assert names[:2] == ["StandardScaler", "OneHotEncoder"]
    assert names[-1] == "FunctionTransformer"


@pytest.mark.skipif(SKLEARN_VERSION < (1, 6), reason="scikit-learn had no FrozenEstimator")
def test_a_frozen_transformer_is_listed_as_what_it_holds():
    from sklearn.frozen import FrozenEstimator

    scaler = StandardScaler()
    assert list(list_transformers(FrozenEstimator(scaler))) == [scaler]


def test_rows_of_numbers_are_left_as_they_are():
    values = np.arange(6.0).reshape(3, 2)
    output, found = trace_provenance("passthrough", values, ["x0", "x1"])
    assert output is values
    assert found.sources == [{0}, {1}]
