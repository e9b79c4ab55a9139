"""Pipelines, searches and transformed targets stand for the model in them; steps that saw the targets are reported."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    StandardScaler,
    TargetEncoder,
)

import truewood as tw
from helpers.pipeline_tables import LABELS, TEST, TRAIN, Y_TEST, N, Y, check, fit, make_columns, make_forest


def test_a_search_stands_for_its_best_model():
    pipeline = Pipeline([("columns", make_columns()), ("forest", make_forest())])
    settings = {"forest__max_depth": [2, 4]}
    for search in (GridSearchCV(pipeline, settings, cv=2), RandomizedSearchCV(pipeline, settings, n_iter=1, cv=2)):
        search.fit(TRAIN, Y)
        expected = tw.importance(search.best_estimator_, TRAIN, Y)
        np.testing.assert_array_equal(tw.importance(search, TRAIN, Y).values, expected.values)
    inner = make_pipeline(make_columns(), GridSearchCV(make_forest(), {"max_depth": [2, 4]}, cv=2)).fit(TRAIN, Y)
    assert tw.importance(inner, TRAIN, Y).feature_names.tolist() == ["a", "c", "s", "t"]
    with pytest.raises(NotFittedError, match=r"GridSearchCV.*fit"):
        tw.importance(GridSearchCV(pipeline, settings), TRAIN, Y)
    kept_nothing = GridSearchCV(pipeline, settings, cv=2, refit=False).fit(TRAIN, Y)
    with pytest.raises(ValueError, match=r"GridSearchCV.*refit=False"):
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
    message = r"^rows='{}'.*'under' \(RandomUnderSampler\).*heldout'"
    for rows in ("auto", "oob"):
        with pytest.raises(ValueError, match=message.format(rows)):
            tw.importance(pipeline, TRAIN, Y, rows=rows)
    result = tw.importance(pipeline, TEST, Y_TEST, rows="heldout")
    encoded = pipeline[0].transform(TEST)
    grouped = tw.importance(pipeline[-1], encoded, Y_TEST, rows="heldout", feature_groups=LABELS)
    np.testing.assert_array_equal(np.sort(result.values), np.sort(grouped.values))


def test_steps_that_have_seen_the_targets():
    encoder = ColumnTransformer([("t", TargetEncoder(), ["t"])], remainder=SimpleImputer())
    table = TRAIN[["t", "a"]]
    with pytest.raises(ValueError, match=r"^rows='auto'.*TargetEncoder.*'heldout'"):
        tw.importance(fit(encoder, table=table), table, Y)
    rng = np.random.default_rng(0)
    noise, y = rng.standard_normal((100, 300)), rng.integers(0, 2, 100)
    with pytest.warns(UserWarning, match="^SelectKBest.*target") as caught:
        result = tw.importance(fit(SelectKBest(k=3), table=noise, y=y), noise, y)
    assert caught[0].filename == __file__
    assert str(caught[0].message) in result.notes
    assert result.total_p_value < 0.01  # of noise: the warning is right


def test_steps_that_have_seen_the_targets_of_listed_rows():
    table, lists = TRAIN[["t", "a"]], [np.arange(N)] * 6
    encoder = ColumnTransformer([("t", TargetEncoder(), ["t"])], remainder=SimpleImputer())
    with pytest.warns(UserWarning, match="^TargetEncoder.*rows=") as caught:
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
    with pytest.warns(UserWarning, match="^RandomUnderSampler resampled"):
        tw.importance(pipeline, TEST[["a", "b"]], Y_TEST, rows=[np.arange(N)] * 6)


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
    result = tw.importance(fit(make_columns()), TRAIN, Y, contributions=True)
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
        with pytest.raises(ValueError, match="expand"):
            result.expand()


def test_other_rows_than_those_of_the_fit_are_refused():
    with pytest.raises(ValueError, match=r"rows='oob'.*X and y"):
        tw.importance(fit(make_columns()), TEST, Y_TEST)


BROKEN = {
    "not fitted": (lambda: make_pipeline(make_columns(), make_forest()), NotFittedError, "not fitted"),
    "encoder not fitted": (lambda: make_pipeline(OneHotEncoder(), make_forest()), NotFittedError, "OneHotEncoder"),
    "model not fitted": (lambda: make_pipeline(make_columns().fit(TRAIN), make_forest()), NotFittedError, "not fitted"),
    "no trees": (lambda: make_pipeline(make_columns(), LogisticRegression()).fit(TRAIN, Y), TypeError, "LogisticReg"),
    "ends in a transformer": (
        lambda: make_pipeline(make_columns(), PCA(1)).fit(TRAIN),
        TypeError,
        r"pipeline.*tree model.*'pca'.*PCA",
    ),
    "ends in nothing": (
        lambda: Pipeline([("columns", make_columns()), ("last", "passthrough")]).fit(TRAIN),
        TypeError,
        r"pipeline.*tree model.*'last'.*'passthrough'",
    ),
    "other columns": (lambda: fit(StandardScaler(), table=TRAIN[["a", "b"]]), ValueError, "feature names"),
}


def test_no_table():
    with pytest.raises(ValueError, match=r"\bX\b.*\(n_rows, n_features\).*\(\)"):
        tw.importance(fit(make_columns()), None, Y)


@pytest.mark.parametrize("name", BROKEN)
def test_pipelines_that_cannot_be_scored(name):
    make, error, message = BROKEN[name]
    with pytest.raises(error, match=message):
        tw.importance(make(), TRAIN, Y)
