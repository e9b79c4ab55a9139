"""Pipelines: encoded columns are summed into the columns they derive from, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import FeatureAgglomeration
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import SelectFromModel, SelectKBest, VarianceThreshold
from sklearn.impute import IterativeImputer, KNNImputer, MissingIndicator, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)

import truewood as tw
from truewood.adapters.sklearn_tree import SKLEARN_VERSION

N = 200
POLARS = pytest.param("polars", marks=pytest.mark.skipif(SKLEARN_VERSION < (1, 6), reason="scikit-learn knew it less"))


def make_table(seed, n_rows=N):
    """Numbers with and without missing values, texts with and without, and a column that is always missing."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "a": rng.standard_normal(n_rows),
            "b": rng.random(n_rows) + 0.1,
            "c": rng.standard_normal(n_rows),
            "s": rng.choice(["u", "v", "w"], n_rows),
            "t": rng.choice(["p", "q", "r", "rare"], n_rows, p=[0.4, 0.3, 0.25, 0.05]),
            "empty": np.full(n_rows, np.nan),
        }
    )
    target = (table["a"] + table["b"] + (table["s"] == "u") + (table["t"] == "p") + rng.standard_normal(n_rows)) > 1
    table.loc[rng.random(n_rows) < 0.2, "c"] = np.nan
    return table, target.to_numpy().astype(int)


TRAIN, Y = make_table(0)
TEST, Y_TEST = make_table(1)


def make_forest():
    return RandomForestClassifier(6, max_depth=5, random_state=0)


def fit(*steps, table=TRAIN, y=Y):
    return make_pipeline(*steps, make_forest()).fit(table, y)


def check(pipeline, table, y, labels, **options):
    """Compare with the same done by hand: encode, score the columns, add up those of the same label."""
    before = table.copy()
    result = tw.importance(pipeline, table, y, **options)
    encoded = pipeline[:-1].transform(table.copy())
    columns = tw.importance(pipeline[-1], encoded, y, **options)
    grouped = tw.importance(pipeline[-1], encoded, y, groups=labels, **options)
    order = [grouped.feature_names.tolist().index(name) for name in result.feature_names]
    assert sorted(order) == list(range(len(grouped.values)))
    by_hand = [columns.values[[label == name for label in labels]].sum() for name in result.feature_names]
    np.testing.assert_allclose(result.values, by_hand, rtol=0, atol=1e-12)
    for part in ("values", "std_error", "test_error", "mdi", "share", "p_value"):
        np.testing.assert_array_equal(getattr(result, part), getattr(grouped, part)[order])
    np.testing.assert_array_equal(result.expand().values, columns.values)
    np.testing.assert_array_equal(result.expand().std_error, columns.std_error)
    pd.testing.assert_frame_equal(table, before)
    return result


# Transformer, the columns it is given, and the column that each encoded one belongs to.
TRANSFORMERS = {
    "scaler": (StandardScaler(), "ab", "ab"),
    "scaler in place": (StandardScaler(copy=False), "ab", "ab"),
    "min-max": (MinMaxScaler(), "ab", "ab"),
    "quantiles": (QuantileTransformer(n_quantiles=20), "ab", "ab"),
    "one-hot": (OneHotEncoder(), "st", "ssstttt"),
    "one-hot dense": (OneHotEncoder(sparse_output=False), "st", "ssstttt"),
    "one-hot, first dropped": (OneHotEncoder(drop="first"), "st", "ssttt"),
    "one-hot, one dropped if binary": (OneHotEncoder(drop="if_binary"), "st", "ssstttt"),
    "one-hot, rare ones together": (OneHotEncoder(min_frequency=0.3), "st", "sssttt"),
    "one-hot, few categories": (OneHotEncoder(max_categories=2, handle_unknown="ignore"), "st", "sstt"),
    "one-hot, own names": (OneHotEncoder(feature_name_combiner=lambda _name, value: f"is {value}"), "st", "ssstttt"),
    "ordinal": (OrdinalEncoder(), "st", "st"),
    "target, binary": (TargetEncoder(), "st", "st"),
    "imputer": (SimpleImputer(), "abc", "abc"),
    "imputer with indicator": (SimpleImputer(add_indicator=True), "cab", "cabc"),
    "imputer drops what is always missing": (
        SimpleImputer(add_indicator=True),
        ["empty", "a", "c"],
        ["a", "c", "empty", "c"],
    ),
    "nearest neighbours": (KNNImputer(add_indicator=True), "abc", "abcc"),
    "iterative": (IterativeImputer(max_iter=3, tol=10, add_indicator=True), "abc", "abcc"),
    "indicator": (MissingIndicator(features="all"), "abc", "abc"),
    "bins": (KBinsDiscretizer(3, strategy="uniform"), "ab", "aaabbb"),
    "ordinal bins": (KBinsDiscretizer(3, encode="ordinal", strategy="uniform"), "ab", "ab"),
    "splines": (SplineTransformer(n_knots=3, degree=1), "ab", "aaabbb"),
    "polynomials": (PolynomialFeatures(include_bias=False), "ab", ["a", "b", "a", "a b", "b"]),
    "polynomials with a constant": (PolynomialFeatures(), "ab", ["1", "a", "b", "a", "a b", "b"]),
    "main components": (PCA(2), "ab", ["pca0", "pca1"]),
    "singular values": (TruncatedSVD(1, random_state=0), "ab", ["truncatedsvd0"]),
    "one column": (PCA(1), "a", "a"),
    "clusters of columns": (FeatureAgglomeration(2), ["a", "a2", "noise"], ["featureagglomeration0", "noise"]),
    "variance": (VarianceThreshold(), ["a", "constant", "b"], "ab"),
    "best": (SelectKBest(k=2), ["noise", "a", "b"], "ab"),
    "from a model": (SelectFromModel(make_forest(), max_features=1, threshold=-np.inf), ["noise", "a"], "a"),
    "our own selector": (tw.UnbiasedSelector(make_forest(), k=2), ["noise", "a", "b"], "ab"),
    "function of numpy": (FunctionTransformer(np.sqrt), ["b", "b2"], ["b", "b2"]),
    "function, one to one": (FunctionTransformer(lambda x: x**2, feature_names_out="one-to-one"), "ab", "ab"),
    "function of rows": (FunctionTransformer(lambda x: x[["a"]].assign(r=x["a"] / x["b"])), "ab", ["a", "r"]),
    "function in place": (FunctionTransformer(lambda x: x.__setitem__("a", x["b"]) or x), "ab", ["b", "b"]),
    "function of missing values": (
        make_pipeline(FunctionTransformer(lambda x: x + 0), SimpleImputer()),
        "ac",
        "ac",
    ),
    "function of texts": (FunctionTransformer(lambda x: x == "u"), "st", "st"),
    "union": (
        FeatureUnion([("scaled", StandardScaler()), ("pca", PCA(1)), ("none", "drop"), ("as is", "passthrough")]),
        "ab",
        ["a", "b", "pca__pca0", "a", "b"],
    ),
    "nested": (
        make_pipeline(SimpleImputer(add_indicator=True), "passthrough", StandardScaler(), PolynomialFeatures(1)),
        "ac",
        ["1", "a", "c", "c"],
    ),
}


def widen(table):
    rng = np.random.default_rng(len(table))
    extra = {"a2": table["a"] * 2 + 0.01 * rng.standard_normal(len(table)), "b2": table["b"] * 2, "constant": 1.0}
    return table.assign(**extra, noise=rng.standard_normal(len(table)))


@pytest.mark.filterwarnings("ignore:Skipping features without any observed values")
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_every_transformer(name):
    transformer, columns, labels = TRANSFORMERS[name]
    # Copies: a step that works in place would write into what other tests share.
    train, test = (widen(table)[list(columns)].copy() for table in (TRAIN, TEST))
    check(fit(transformer, table=train), test, Y_TEST, list(labels), rows="heldout")


def make_columns(**options):
    """Preprocessing of a table with numbers, texts and missing values."""
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    texts = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return ColumnTransformer([("numbers", numbers, ["c", "a"]), ("texts", texts, ["t", "s"])], **options)


LABELS = list("cac" + "tttt" + "sss")


@pytest.mark.parametrize("is_verbose", [True, False])
@pytest.mark.parametrize("output", ["default", "pandas", POLARS])
def test_column_transformer_out_of_bag(is_verbose, output):
    pipeline = fit(make_columns(verbose_feature_names_out=is_verbose).set_output(transform=output))
    result = check(pipeline, TRAIN, Y, LABELS)
    assert result.rows == "oob"
    assert result.feature_names.tolist() == ["a", "c", "s", "t"]
    assert result.expand().feature_names.tolist() == pipeline[:-1].get_feature_names_out().tolist()
    assert result.notes == ("Not used by the pipeline, and left out: b, empty.",)
    assert "b, empty" in repr(result)


SELECTIONS = {
    "names": (["c", "a"], "ca"),
    "numbers": ([2, 0], "ca"),
    "numbers from the end": ([-6, -5], "ab"),
    "slice": (slice(0, 2), "ab"),
    "slice of names": (slice("b", "c"), "bc"),
    "mask": ([True, False, True, False, False, False], "ac"),
    "function": (lambda table: [name for name in table.columns if name in "bc"], "bc"),
    "none": ([], ""),
}


@pytest.mark.parametrize("selection", SELECTIONS)
def test_columns_selected_in_every_way(selection):
    columns, labels = SELECTIONS[selection]
    parts = [("gone", "drop", ["empty"]), ("chosen", StandardScaler(), columns), ("s", OneHotEncoder(), ["s"])]
    encoder = ColumnTransformer([*parts, ("t", OrdinalEncoder(), ["t"])], remainder="passthrough")
    rest = [name for name in "abc" if name not in labels]
    table = TRAIN.fillna({"c": 0})
    result = check(fit(encoder, table=table), table, Y, [*labels, *"ssst", *rest])
    assert result.feature_names.tolist() == list("abcst")


def test_columns_in_another_order_and_more_of_them():
    pipeline = fit(make_columns())
    expected = tw.importance(pipeline, TEST, Y_TEST, rows="heldout")
    turned = TEST.assign(more=1)[["more", "s", "t", "empty", "c", "b", "a"]]
    result = check(pipeline, turned, Y_TEST, LABELS, rows="heldout")
    assert result.feature_names.tolist() == ["s", "t", "c", "a"]
    np.testing.assert_array_equal(result.values, expected.values[[2, 3, 1, 0]])
    assert result.notes == ("Not used by the pipeline, and left out: more, empty, b.",)


def test_ambiguous_names_are_resolved_by_structure():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.choice(["b_c", "x"], N), "a_b": rng.choice(["c", "y"], N)})
    y = (table["a"] == "x").to_numpy() ^ (rng.random(N) < 0.1)
    pipeline = fit(OneHotEncoder(), table=table, y=y)
    assert pipeline[:-1].get_feature_names_out().tolist() == ["a_b_c", "a_x", "a_b_c", "a_b_y"]
    result = check(pipeline, table, y, ["a", "a", "a_b", "a_b"])
    assert result.p_value[0] < 0.001 < 0.01 < result.p_value[1]


def test_names_that_look_like_our_own_marks():
    table = TRAIN[["s", "t"]].replace({"s": {"u": "\x1f7\x1f"}}).rename(columns={"t": "\x1f0\x1f"})
    check(fit(OneHotEncoder(), table=table), table, Y, ["s"] * 3 + ["\x1f0\x1f"] * 4)


def test_steps_after_steps():
    second = ColumnTransformer([("pca", PCA(1), [1, 0]), ("poly", PolynomialFeatures(2, include_bias=False), [0, 3])])
    scaled = ColumnTransformer([("scaled", StandardScaler(), ["a", "b"]), ("s", OneHotEncoder(), ["s"])])
    pipeline = fit(make_pipeline(scaled, "passthrough"), second, table=TRAIN)
    labels = ["pca__pca0", "a", "s", "a", "poly__scaled__a s__s_v", "s"]
    result = check(pipeline, TRAIN, Y, labels)
    assert result.feature_names.tolist() == ["a", "s", "pca__pca0", "poly__scaled__a s__s_v"]
    mixed = "Mixes of several columns (a, b, s), scored as they are: pca__pca0, poly__scaled__a s__s_v."
    assert result.notes[0] == mixed


def test_a_mixture_has_a_name_of_its_own():
    table = TRAIN[["a", "b"]].assign(pca0=TRAIN["c"].fillna(0))
    encoder = ColumnTransformer([("pca", PCA(1), ["a", "b"])], remainder="passthrough", verbose_feature_names_out=False)
    result = tw.importance(fit(encoder, table=table), table, Y)
    assert result.feature_names.tolist() == ["pca0", "pca0 (encoded)"]


def test_mixtures_of_the_same_name_are_told_apart():
    parts = [("p", PCA(1), ["a", "b"]), ("q", PCA(1), ["b", "pca0"]), ("r", PCA(1), ["a", "pca0"])]
    table = TRAIN[["a", "b"]].assign(pca0=TRAIN["c"].fillna(0))
    encoder = ColumnTransformer(parts, verbose_feature_names_out=lambda _label, name: name)
    result = tw.importance(fit(encoder, table=table), table, Y)
    assert result.feature_names.tolist() == ["pca0 (encoded)", "pca0 (encoded) (2)", "pca0 (encoded) (3)"]
    union = FeatureUnion([("p", PCA(1)), ("q", PCA(1))], verbose_feature_names_out=False)
    result = tw.importance(fit(union, table=table[["a", "b"]]), table[["a", "b"]], Y)
    assert result.feature_names.tolist() == ["pca0", "pca0 (2)"]


def test_groups_are_of_the_callers_columns():
    encoder = ColumnTransformer([("pca", PCA(2), ["a", "b"]), ("texts", OneHotEncoder(), ["s", "t"])])
    table = TRAIN[["a", "b", "s", "t"]]
    pipeline = fit(encoder, table=table)
    encoded = tw.importance(pipeline[-1], pipeline[0].transform(table), Y, groups=["n"] * 2 + ["s"] * 3 + ["t"] * 4)
    for groups in ({"n": ["a", "b"]}, ["n", "n", "s", "t"], {"n": [0, "b"], "s": "s"}):
        result = tw.importance(pipeline, table, Y, groups=groups)
        assert result.feature_names.tolist() == ["n", "s", "t"]
        np.testing.assert_array_equal(result.values, encoded.values)
        np.testing.assert_array_equal(result.std_error, encoded.std_error)
        assert result.notes == ()
    mixed = tw.importance(pipeline, table, Y, groups={"x": ["a", "s"]})
    assert mixed.feature_names.tolist() == ["x", "t", "pca__pca0", "pca__pca1"]
    with pytest.raises(ValueError, match="the 4 columns, got 9"):
        tw.importance(pipeline, table, Y, groups=["g"] * 9)
    with pytest.raises(ValueError, match="'texts__s_u'"):
        tw.importance(pipeline, table, Y, groups={"g": ["texts__s_u"]})


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
    assert result.notes == (
        "Mixes of several columns (a, b), scored as they are: ratio1.",
        "Not used by the pipeline, and left out: c.",
    )
    fragile = FunctionTransformer(lambda X: X[["a"]].assign(r=X["a"]) if (X["b"].diff()[1:] > 0).all() else 1 / 0)
    table = TEST[["a", "b"]].sort_values("b", ignore_index=True)
    result = tw.importance(fit(fragile, table=table), table, Y)
    assert result.feature_names.tolist() == ["a (encoded)", "r"]
    assert result.notes == ("Mixes of several columns (a, b), scored as they are: a (encoded), r.",)


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
    assert result.notes == ("Mixes of several columns (a, rare), scored as they are: override0.",)
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
    assert result.notes == ("Mixes of several columns (a, rare, b), scored as they are: override0, override1.",)
    fewer = FunctionTransformer(lambda X: X[["a", "b"]])
    result = tw.importance(fit(fewer, table=table, y=y), rest, y[:200], rows="heldout")
    assert result.feature_names.tolist() == ["a", "b"]
    assert result.notes == (
        "The same in all rows that were tried, so that nothing tells what they are used for: rare.",
    )
    encoder = ColumnTransformer([("fewer", fewer, ["rare", "a", "b"])])
    assert tw.importance(fit(encoder, table=table, y=y), rest, y[:200], rows="heldout").notes == result.notes
    both = FeatureUnion([("fewer", fewer), ("pca", PCA(1))])
    result = tw.importance(fit(both, table=table, y=y), rest, y[:200], rows="heldout")
    assert result.notes == ("Mixes of several columns (a, b, rare), scored as they are: pca__pca0.",)
    more = FunctionTransformer(lambda X: X.assign(twice=2 * X["a"], ratio=X["a"] / X["b"]))
    result = tw.importance(fit(more, table=table, y=y), rest, y[:200], rows="heldout")
    assert result.feature_names.tolist() == ["a", "b", "rare", "ratio"]


def test_columns_that_are_too_many_to_try_out_count_as_mixed():
    wide = pd.DataFrame(np.random.default_rng(0).random((40, 501)))
    y = np.arange(40) % 2
    result = tw.importance(fit(FunctionTransformer(lambda X: X.to_numpy()[:, :2] + 0), table=wide, y=y), wide, y)
    assert result.feature_names.tolist() == ["functiontransformer0", "functiontransformer1"]
    assert result.notes[0].startswith("Mixes of several columns (0, 1, 2, 3, 4 and 496 more), scored as they are: func")
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


def test_sparse_stays_sparse(monkeypatch):
    table = TRAIN[["s", "t"]]
    pipeline = fit(OneHotEncoder(), table=table)
    seen = []
    read = tw.importance.__globals__["read_features"]
    monkeypatch.setitem(tw.importance.__globals__, "read_features", lambda X, form: seen.append(X) or read(X, form))
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


def test_a_search_stands_for_its_best_model():
    pipeline = Pipeline([("columns", make_columns()), ("forest", make_forest())])
    settings = {"forest__max_depth": [2, 4]}
    for search in (GridSearchCV(pipeline, settings, cv=2), RandomizedSearchCV(pipeline, settings, n_iter=1, cv=2)):
        search.fit(TRAIN, Y)
        expected = tw.importance(search.best_estimator_, TRAIN, Y)
        np.testing.assert_array_equal(tw.importance(search, TRAIN, Y).values, expected.values)
    inner = make_pipeline(make_columns(), GridSearchCV(make_forest(), {"max_depth": [2, 4]}, cv=2)).fit(TRAIN, Y)
    assert tw.importance(inner, TRAIN, Y).feature_names.tolist() == ["a", "c", "s", "t"]
    with pytest.raises(NotFittedError, match="GridSearchCV is not fitted"):
        tw.importance(GridSearchCV(pipeline, settings), TRAIN, Y)
    kept_nothing = GridSearchCV(pipeline, settings, cv=2, refit=False).fit(TRAIN, Y)
    with pytest.raises(ValueError, match="GridSearchCV must keep a fitted model, got refit=False"):
        tw.importance(kept_nothing, TRAIN, Y)


def test_a_pipeline_within_a_pipeline():
    inner = make_pipeline(StandardScaler(), make_forest())
    nested = make_pipeline(make_columns(), inner).fit(TRAIN, Y)
    expected = tw.importance(fit(make_columns(), StandardScaler()), TRAIN, Y)
    result = tw.importance(nested, TRAIN, Y)
    assert result.feature_names.tolist() == ["a", "c", "s", "t"]
    assert result.expand().feature_names.tolist() == expected.expand().feature_names.tolist()
    np.testing.assert_array_equal(result.per_tree, expected.per_tree)
    assert result.notes == expected.notes


@pytest.mark.parametrize("is_outside", [True, False])
def test_transformed_targets(is_outside):
    y = np.exp(TRAIN["a"].to_numpy())
    forest = RandomForestRegressor(5, random_state=0)
    expected = tw.importance(make_pipeline(make_columns(), forest).fit(TRAIN, np.log(y)), TRAIN, np.log(y))
    options = {"func": np.log, "inverse_func": np.exp}
    model = make_pipeline(make_columns(), TransformedTargetRegressor(forest, **options))
    if is_outside:
        model = TransformedTargetRegressor(make_pipeline(make_columns(), forest), **options)
    with pytest.raises(NotFittedError):
        tw.importance(model, TRAIN, y)
    result = tw.importance(model.fit(TRAIN, y), TRAIN, y)
    np.testing.assert_array_equal(result.values, expected.values)
    assert result.feature_names.tolist() == ["a", "c", "s", "t"]


def test_resampled_rows_cannot_score():
    pipelines = pytest.importorskip("imblearn.pipeline")
    samplers = pytest.importorskip("imblearn.under_sampling")
    columns, forest = make_columns().fit(TRAIN), make_forest()
    steps = [("columns", columns), ("under", samplers.RandomUnderSampler(random_state=0)), ("forest", forest)]
    pipeline = pipelines.Pipeline(steps).fit(TRAIN, Y)
    message = r"^rows='{}' needs the rows .* step 'under' \(RandomUnderSampler\) resampled them; pass rows .*heldout'.$"
    for rows in ("auto", "oob"):
        with pytest.raises(ValueError, match=message.format(rows)):
            tw.importance(pipeline, TRAIN, Y, rows=rows)
    result = tw.importance(pipeline, TEST, Y_TEST, rows="heldout")
    encoded = pipeline[0].transform(TEST)
    grouped = tw.importance(pipeline[-1], encoded, Y_TEST, rows="heldout", groups=LABELS)
    np.testing.assert_array_equal(np.sort(result.values), np.sort(grouped.values))


def test_steps_that_have_seen_the_targets():
    encoder = ColumnTransformer([("t", TargetEncoder(), ["t"])], remainder=SimpleImputer())
    table = TRAIN[["t", "a"]]
    with pytest.raises(
        ValueError, match=r"^rows='auto' needs columns as the trees saw them, but TargetEncoder .*'heldout'\.$"
    ):
        tw.importance(fit(encoder, table=table), table, Y)
    rng = np.random.default_rng(0)
    noise, y = rng.standard_normal((100, 300)), rng.integers(0, 2, 100)
    with pytest.warns(UserWarning, match="^SelectKBest learned from the targets of the rows that score") as caught:
        result = tw.importance(fit(SelectKBest(k=3), table=noise, y=y), noise, y)
    assert caught[0].filename == __file__
    assert str(caught[0].message) in result.notes
    assert result.total_p_value < 0.01  # of noise: the warning is right


def test_steps_that_have_seen_the_targets_of_listed_rows():
    table, lists = TRAIN[["t", "a"]], [np.arange(N)] * 6
    encoder = ColumnTransformer([("t", TargetEncoder(), ["t"])], remainder=SimpleImputer())
    with pytest.warns(UserWarning, match="^TargetEncoder resampled .* or learned .*unless the listed rows") as caught:
        result = tw.importance(fit(encoder, table=table), TEST[["t", "a"]], Y_TEST, rows=lists)
    assert caught[0].filename == __file__
    assert str(caught[0].message) in result.notes
    with pytest.warns(UserWarning, match="^SelectKBest "):
        tw.importance(fit(SelectKBest(k=1), table=TRAIN[["a", "b"]]), TEST[["a", "b"]], Y_TEST, rows=iter(lists))
    assert tw.importance(fit(StandardScaler(), table=TRAIN[["a"]]), TEST[["a"]], Y_TEST, rows=lists).notes == ()


def test_resampled_rows_in_lists():
    pipelines = pytest.importorskip("imblearn.pipeline")
    samplers = pytest.importorskip("imblearn.under_sampling")
    steps = [("under", samplers.RandomUnderSampler(random_state=0)), ("forest", make_forest())]
    pipeline = pipelines.Pipeline(steps).fit(TRAIN[["a", "b"]], Y)
    with pytest.warns(UserWarning, match="^RandomUnderSampler resampled the rows of the fit"):
        tw.importance(pipeline, TEST[["a", "b"]], Y_TEST, rows=[np.arange(N)] * 6)


@pytest.mark.skipif(SKLEARN_VERSION < (1, 6), reason="there are frozen estimators since 1.6")
def test_frozen_transformers():
    from sklearn.frozen import FrozenEstimator

    table = TRAIN[["s", "t"]]
    check(fit(FrozenEstimator(OneHotEncoder().fit(table)), table=table), table, Y, list("ssstttt"))
    chosen = FrozenEstimator(SelectKBest(k=1).fit(TRAIN[["a", "b"]], Y))
    with pytest.warns(UserWarning, match="SelectKBest learned"):
        tw.importance(fit(chosen, table=TRAIN[["a", "b"]]), TRAIN[["a", "b"]], Y)


def test_several_columns_for_an_input_of_a_target_encoder():
    classes = np.random.default_rng(0).integers(0, 3, N)
    pipeline = fit(TargetEncoder(), table=TRAIN[["s", "t"]], y=classes)
    check(pipeline, TEST[["s", "t"]], classes, ["s"] * 3 + ["t"] * 3, rows="heldout")


def test_boosted_trees_and_weights():
    model = make_pipeline(make_columns(), HistGradientBoostingClassifier(max_iter=5)).fit(TRAIN, Y)
    weight = np.random.default_rng(0).random(N)
    result = check(model, TEST, Y_TEST, LABELS, rows="heldout", sample_weight=weight, n_jobs=2)
    assert result.is_additive


def test_combinations_of_catboost_stay_for_themselves():
    catboost = pytest.importorskip("catboost")
    table = TRAIN[["a", "s", "t"]]
    keep = FunctionTransformer(feature_names_out="one-to-one")
    forest = catboost.CatBoostClassifier(iterations=10, cat_features=["s", "t"], verbose=0, allow_writing_files=False)
    model = make_pipeline(keep, forest).fit(table, Y)
    own = tw.importance(forest, TEST[table.columns], Y_TEST, rows="heldout")
    result = tw.importance(model, TEST[table.columns], Y_TEST, rows="heldout")
    assert result.feature_names.tolist() == own.feature_names.tolist()
    np.testing.assert_array_equal(result.values, own.values)


def test_rows_are_kept_and_results_saved(tmp_path):
    result = tw.importance(fit(make_columns()), TRAIN, Y, inference="rows")
    np.testing.assert_allclose(result.contributions.sum(axis=0), result.values, rtol=0, atol=1e-12)
    result.save(tmp_path / "result.json")
    loaded = tw.load(tmp_path / "result.json")
    assert loaded.notes == result.notes
    assert loaded.expand().feature_names.tolist() == result.expand().feature_names.tolist()


def test_a_pipeline_of_a_model_alone_is_that_model():
    table = TRAIN[["a", "b"]]
    for model in (make_pipeline(make_forest()), make_pipeline("passthrough", make_forest())):
        result = tw.importance(model.fit(table, Y), table, Y)
        np.testing.assert_array_equal(result.values, tw.importance(model[-1], table, Y).values)
        with pytest.raises(ValueError, match="nothing to expand"):
            result.expand()


def test_other_rows_than_those_of_the_fit_are_refused():
    with pytest.raises(ValueError, match="rows='oob' needs X and y as this forest was fit on"):
        tw.importance(fit(make_columns()), TEST, Y_TEST)


BROKEN = {
    "not fitted": (lambda: make_pipeline(make_columns(), make_forest()), NotFittedError, "not fitted"),
    "encoder not fitted": (lambda: make_pipeline(OneHotEncoder(), make_forest()), NotFittedError, "OneHotEncoder"),
    "model not fitted": (lambda: make_pipeline(make_columns().fit(TRAIN), make_forest()), NotFittedError, "not fitted"),
    "no trees": (lambda: make_pipeline(make_columns(), LogisticRegression()).fit(TRAIN, Y), TypeError, "LogisticReg"),
    "ends in a transformer": (
        lambda: make_pipeline(make_columns(), PCA(1)).fit(TRAIN),
        TypeError,
        "^a pipeline must end in a tree model, but its last step 'pca' is a transformer, PCA.$",
    ),
    "ends in nothing": (
        lambda: Pipeline([("columns", make_columns()), ("last", "passthrough")]).fit(TRAIN),
        TypeError,
        "^a pipeline must end in a tree model, but its last step 'last' is 'passthrough'.$",
    ),
    "other columns": (lambda: fit(StandardScaler(), table=TRAIN[["a", "b"]]), ValueError, "feature names"),
}


def test_no_table():
    with pytest.raises(ValueError, match=r"X must have two dimensions, \(n_rows, n_features\), got shape \(\)"):
        tw.importance(fit(make_columns()), None, Y)


@pytest.mark.parametrize("name", BROKEN)
def test_pipelines_that_cannot_be_scored(name):
    make, error, message = BROKEN[name]
    with pytest.raises(error, match=message):
        tw.importance(make(), TRAIN, Y)
