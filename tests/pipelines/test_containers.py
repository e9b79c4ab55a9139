"""Pipelines take tables of every library, and sparse ones stay sparse."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    StandardScaler,
)

import truewood as tw
from helpers.pipeline_tables import POLARS, TRAIN, N, Y, fit, make_columns
from truewood._inputs.tables import read_features
from truewood._scoring import inputs

pytestmark = pytest.mark.any_engine


def test_sparse_stays_sparse(monkeypatch):
    table = TRAIN[["s", "t"]]
    pipeline = fit(OneHotEncoder(), table=table)
    seen = []
    monkeypatch.setattr(
        inputs, "read_features", lambda X, *rest, **options: seen.append(X) or read_features(X, *rest, **options)
    )
    tw.importance(pipeline, table, Y)
    assert sparse.issparse(seen[0])
    numbers = sparse.csr_matrix(np.column_stack([TRAIN["a"], TRAIN["b"] > 0.5]))
    for step, labels in ((StandardScaler(with_mean=False), ["x0", "x1"]), (TruncatedSVD(1), ["truncatedsvd0"])):
        result = tw.importance(fit(step, table=numbers), numbers, Y)
        assert result.feature_names.tolist() == labels
    doubled = FunctionTransformer(lambda X: X * 2, accept_sparse=True)
    assert tw.importance(fit(doubled, table=numbers), numbers, Y).feature_names.tolist() == ["x0", "x1"]


MIXED = TRAIN.drop(columns="empty").assign(t=TRAIN["t"].where(TRAIN["t"] != "rare"))


@pytest.mark.parametrize("fit_on", ["pandas", POLARS])
def test_every_container_gives_the_same(fit_on):
    pyarrow = pytest.importorskip("pyarrow")
    tables = {
        "pandas": MIXED,
        "pandas objects": MIXED.astype(object),
        "polars": pl.from_pandas(MIXED),
        "pyarrow": pyarrow.Table.from_pandas(MIXED),
        "numpy": MIXED.to_numpy(dtype=object),
        "None in numpy": MIXED.astype(object).where(MIXED.notna(), None).to_numpy(),
        "list": MIXED.to_numpy(dtype=object).tolist(),
    }
    pipeline = fit(make_columns(), table=tables[fit_on])
    expected = tw.importance(pipeline, tables[fit_on], Y)
    assert expected.feature_names.tolist() == ["a", "c", "s", "t"]
    assert len(expected.expand().values) == 10
    for table in tables.values():
        result = tw.importance(pipeline, table, Y)
        np.testing.assert_array_equal(result.per_tree, expected.per_tree)
        np.testing.assert_array_equal(result.std_error, expected.std_error)
        assert result.feature_names.tolist() == expected.feature_names.tolist()


def test_days_of_an_arrow_table_are_those_of_pandas():
    pyarrow = pytest.importorskip("pyarrow")
    days = pd.DataFrame({"day": pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(N), "D"), "a": TRAIN["a"]})
    months = FunctionTransformer(lambda table: table.assign(day=table["day"].dt.month))
    pipeline = fit(months, table=days)
    schema = pyarrow.schema([("day", pyarrow.date32()), ("a", pyarrow.float64())])
    result = tw.importance(pipeline, pyarrow.Table.from_pandas(days, schema=schema), Y)
    np.testing.assert_array_equal(result.values, tw.importance(pipeline, days, Y).values)


def test_frames_for_a_pipeline_that_was_fit_without_names():
    pyarrow = pytest.importorskip("pyarrow")
    table = TRAIN[["a", "b"]]
    pipeline = fit(StandardScaler(), table=table.to_numpy())
    expected = tw.importance(pipeline, table.to_numpy(), Y)
    assert expected.feature_names.tolist() == ["x0", "x1"]
    for frame in (table, pl.from_pandas(table), pyarrow.Table.from_pandas(table)):
        result = tw.importance(pipeline, frame, Y)
        np.testing.assert_array_equal(result.per_tree, expected.per_tree)
        assert result.feature_names.tolist() == ["a", "b"]


def test_numbers_as_names():
    table = pd.DataFrame(TRAIN[["a", "b", "s"]].to_numpy(dtype=object)).infer_objects()
    encoder = ColumnTransformer([("s", OneHotEncoder(), [2]), ("rest", "passthrough", [1, 0])])
    assert tw.importance(fit(encoder, table=table), table, Y).feature_names.tolist() == ["0", "1", "2"]
