"""Encoded columns are summed into the columns they derive from, for every transformer."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import FeatureAgglomeration
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.feature_selection import SelectFromModel, SelectKBest, VarianceThreshold
from sklearn.impute import IterativeImputer, KNNImputer, MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
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
from helpers.messages import find_lacking
from helpers.pipeline_tables import LABELS, POLARS, TEST, TRAIN, Y_TEST, N, Y, check, fit, make_columns, make_forest
from truewood._sklearn_compat import SKLEARN_VERSION

pytestmark = pytest.mark.any_engine

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
    "nearest neighbors": (KNNImputer(add_indicator=True), "abc", "abcc"),
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


@pytest.mark.parametrize("is_verbose", [True, False])
@pytest.mark.parametrize("output", ["default", "pandas", POLARS])
def test_column_transformer_out_of_bag(is_verbose, output):
    pipeline = fit(make_columns(verbose_feature_names_out=is_verbose).set_output(transform=output))
    result = check(pipeline, TRAIN, Y, LABELS)
    assert result.rows == "oob"
    assert result.feature_names.tolist() == ["a", "c", "s", "t"]
    assert result.expand().feature_names.tolist() == pipeline[:-1].get_feature_names_out().tolist()
    assert not find_lacking(*result.notes, "b, empty")
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
    assert not find_lacking(*result.notes, "more, empty, b")


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
    mixed = (
        "Scored as separate features because they combine several columns (a, b, s): pca__pca0, poly__scaled__a s__s_v."
    )
    assert result.notes[0] == mixed


def test_a_mixture_has_a_name_of_its_own():
    table = TRAIN[["a", "b"]].assign(pca0=TRAIN["c"].fillna(0))
    encoder = ColumnTransformer([("pca", PCA(1), ["a", "b"])], remainder="passthrough", verbose_feature_names_out=False)
    result = tw.importance(fit(encoder, table=table), table, Y)
    assert result.feature_names.tolist() == ["pca0", "pca0 (encoded)"]


@pytest.mark.skipif(SKLEARN_VERSION < (1, 6), reason="a function that names columns came with scikit-learn 1.6")
def test_mixtures_of_the_same_name_are_distinguished():
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
    encoded = tw.importance(
        pipeline[-1], pipeline[0].transform(table), Y, feature_groups=["n"] * 2 + ["s"] * 3 + ["t"] * 4
    )
    for groups in ({"n": ["a", "b"]}, ["n", "n", "s", "t"], {"n": [0, "b"], "s": "s"}):
        result = tw.importance(pipeline, table, Y, feature_groups=groups)
        assert result.feature_names.tolist() == ["n", "s", "t"]
        np.testing.assert_array_equal(result.values, encoded.values)
        np.testing.assert_array_equal(result.std_error, encoded.std_error)
        assert result.notes == ()
    mixed = tw.importance(pipeline, table, Y, feature_groups={"x": ["a", "s"]})
    assert mixed.feature_names.tolist() == ["x", "t", "pca__pca0", "pca__pca1"]
    with pytest.raises(ValueError, match=r"\b4 columns.*\b9\b"):
        tw.importance(pipeline, table, Y, feature_groups=["g"] * 9)
    with pytest.raises(ValueError, match="'texts__s_u'"):
        tw.importance(pipeline, table, Y, feature_groups={"g": ["texts__s_u"]})


@pytest.mark.skipif(SKLEARN_VERSION < (1, 6), reason="there are frozen estimators since 1.6")
def test_frozen_transformers():
    from sklearn.frozen import FrozenEstimator

    table = TRAIN[["s", "t"]]
    check(fit(FrozenEstimator(OneHotEncoder().fit(table)), table=table), table, Y, list("ssstttt"))
    chosen = FrozenEstimator(SelectKBest(k=1).fit(TRAIN[["a", "b"]], Y))
    with pytest.warns(UserWarning, match="SelectKBest"):
        tw.importance(fit(chosen, table=TRAIN[["a", "b"]]), TRAIN[["a", "b"]], Y)


def test_several_columns_for_an_input_of_a_target_encoder():
    classes = np.random.default_rng(0).integers(0, 3, N)
    pipeline = fit(TargetEncoder(), table=TRAIN[["s", "t"]], y=classes)
    check(pipeline, TEST[["s", "t"]], classes, ["s"] * 3 + ["t"] * 3, rows="heldout")
