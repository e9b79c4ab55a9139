"""Steps that do not record what their columns derive from are probed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import FeatureUnion
from sklearn.preprocessing import (
    FunctionTransformer,
)

import truewood as tw
from helpers.messages import find_lacking
from helpers.pipeline_tables import TEST, TRAIN, Y_TEST, N, Y, check, fit

pytestmark = pytest.mark.any_engine


class Ratio(TransformerMixin, BaseEstimator):
    """A transformer that does not name its columns."""

    def fit(self, X, y=None):  # noqa: ARG002
        self.fitted_ = True
        return self

    def transform(self, X):
        return np.column_stack([X["a"], X["a"] / X["b"], np.ones(len(X))])


def test_what_is_not_known_is_tried_out():
    pipeline = fit(Ratio(), table=TRAIN[["a", "b", "c"]])
    result = check(pipeline, TEST[["a", "b", "c"]], Y_TEST, ["a", "ratio1", "ratio2"], rows="heldout")
    mixed, unused = result.notes
    assert not find_lacking(mixed, "(a, b)", "ratio1")
    assert not find_lacking(unused, "c")
    fragile = FunctionTransformer(lambda X: X[["a"]].assign(r=X["a"]) if (X["b"].diff()[1:] > 0).all() else 1 / 0)
    table = TEST[["a", "b"]].sort_values("b", ignore_index=True)
    result = tw.importance(fit(fragile, table=table), table, Y)
    assert result.feature_names.tolist() == ["a (encoded)", "r"]
    assert not find_lacking(*result.notes, "(a, b)", "a (encoded), r")


def draw_rare(n_rows=5000):
    """A table with a flag that few rows have, none of which a sample of every second or third row holds."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.standard_normal(n_rows), "b": rng.random(n_rows), "rare": 0.0})
    sampled = np.linspace(0, n_rows - 1, 2000).astype(int)
    table.loc[np.setdiff1d(np.arange(n_rows), sampled)[:40], "rare"] = 1.0
    return table, (table["rare"] > 0) | (table["a"] > 1)


class Override(TransformerMixin, BaseEstimator):
    """Its first column depends on a flag."""

    def fit(self, X, y=None):  # noqa: ARG002
        self.fitted_ = True
        return self

    def transform(self, X):
        return np.column_stack([np.where(X["rare"] > 0, 100, X["a"]), X["b"]])


def test_columns_with_rare_values_keep_their_source():
    table, y = draw_rare()
    for double in (lambda X: np.asarray(X) * 2, lambda X: X * 2):
        result = check(fit(FunctionTransformer(double), table=table, y=y), table, y, ["a", "b", "rare"])
        assert result.notes == ()
    result = tw.importance(fit(Override(), table=table, y=y), table, y)
    assert result.feature_names.tolist() == ["b", "override0"]
    assert not find_lacking(*result.notes, "(a, rare)", "override0")
    above = FunctionTransformer(lambda X: np.column_stack([X["a"] > X["a"].nlargest(2).min() - 1e-9, X["b"]]))
    assert tw.importance(fit(above, table=table, y=y), table, y).feature_names.tolist() == ["a", "b"]


def test_inputs_that_are_the_same_in_all_rows_are_not_called_unused():
    table, y = draw_rare()
    model = fit(FunctionTransformer(lambda X: np.asarray(X) * 2), table=table, y=y)
    for n_rows in (1, 2, 30):  # of one row nothing varies, of 30 not the flag
        result = tw.importance(model, table[:n_rows].assign(rare=0.0), y[:n_rows], rows="heldout")
        assert result.feature_names.tolist() == ["a", "b", "rare"]
        assert result.notes == ()
    rest = table[:200].assign(rare=0.0)
    result = tw.importance(fit(Override(), table=table, y=y), rest, y[:200], rows="heldout")
    assert not find_lacking(*result.notes, "(a, rare, b)", "override0, override1")
    fewer = FunctionTransformer(lambda X: X[["a", "b"]])
    result = tw.importance(fit(fewer, table=table, y=y), rest, y[:200], rows="heldout")
    assert result.feature_names.tolist() == ["a", "b"]
    assert not find_lacking(*result.notes, "rare")
    encoder = ColumnTransformer([("fewer", fewer, ["rare", "a", "b"])])
    assert tw.importance(fit(encoder, table=table, y=y), rest, y[:200], rows="heldout").notes == result.notes
    both = FeatureUnion([("fewer", fewer), ("pca", PCA(1))])
    result = tw.importance(fit(both, table=table, y=y), rest, y[:200], rows="heldout")
    assert not find_lacking(*result.notes, "(a, b, rare)", "pca__pca0")
    more = FunctionTransformer(lambda X: X.assign(twice=2 * X["a"], ratio=X["a"] / X["b"]))
    result = tw.importance(fit(more, table=table, y=y), rest, y[:200], rows="heldout")
    assert result.feature_names.tolist() == ["a", "b", "rare", "ratio"]


def test_columns_that_are_too_many_to_probe_count_as_mixed():
    wide = pd.DataFrame(np.random.default_rng(0).random((40, 501)))
    y = np.arange(40) % 2
    result = tw.importance(fit(FunctionTransformer(lambda X: X.to_numpy()[:, :2] + 0), table=wide, y=y), wide, y)
    assert result.feature_names.tolist() == ["functiontransformer0", "functiontransformer1"]
    assert not find_lacking(result.notes[0], "(0, 1, 2, 3, 4 and 496 more)")
    by_value = tw.importance(fit(FunctionTransformer(np.sqrt), table=wide, y=y), wide, y)
    assert by_value.feature_names.tolist() == [str(j) for j in range(501)]


def test_the_number_of_columns_may_depend_on_the_values():
    table = pd.DataFrame({"s": ["u", "v"] * 1500, "a": np.random.default_rng(0).random(3000)})
    table.loc[1502, "s"] = "w"  # a row that is not among those that are tried out
    y = (table["s"] == "u").to_numpy() ^ (table["a"] < 0.2).to_numpy()
    dummies = FunctionTransformer(lambda X: pd.get_dummies(X, dtype=float))
    check(fit(dummies, table=table, y=y), table, y, ["a", "s", "s", "s"])
    encoder = ColumnTransformer([("dummies", dummies, ["s"]), ("rest", "passthrough", ["a"])])
    check(fit(encoder, table=table, y=y), table, y, ["s", "s", "s", "a"])


def test_texts():
    rng = np.random.default_rng(0)
    words = np.array(["ash", "birch", "cedar", "fir"])
    texts = [" ".join(rng.choice(words, 3)) for _ in range(N)]
    y = np.array([text.count("fir") > 0 for text in texts])
    for column in (texts, np.array(texts), pd.Series(texts)):
        result = tw.importance(fit(CountVectorizer(), table=column, y=y), column, y)
        assert result.feature_names.tolist() == ["x0"]
        assert result.expand().feature_names.tolist() == words.tolist()
        assert result.expand().frame()["feature"][0] == "fir"
    many = texts * 11  # more than are tried out
    assert tw.importance(fit(CountVectorizer(), table=many, y=np.tile(y, 11)), many, np.tile(y, 11)).notes == ()
    table = pd.DataFrame({"number": rng.random(N), "text": texts})
    encoder = ColumnTransformer([("words", CountVectorizer(), "text")], remainder="passthrough")
    check(fit(encoder, table=table, y=y), table, y, ["text"] * 4 + ["number"])
    lengths = FunctionTransformer(lambda column: column.str.len().to_frame())
    encoder = ColumnTransformer([("length", lengths, "text")], remainder="passthrough")
    check(fit(encoder, table=table, y=y), table, y, ["text", "number"])
