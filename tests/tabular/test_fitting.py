"""Models that are fit to a table."""

from __future__ import annotations

import pickle
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import RandomForestRegressor
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline

import truewood as tw
from helpers.messages import find_lacking
from helpers.mixed_table import N_ROWS, TABLE, find_significant, find_values, score
from truewood.tabular import FitSettings, TableError, score_table
from truewood.tabular._columns.encoders import make_encoder
from truewood.tabular._columns.type_inference import infer_column

pytestmark = pytest.mark.any_engine


@pytest.mark.parametrize("model", ["extra-trees", "xgboost", "lightgbm", "catboost", "hist-gradient-boosting"])
@pytest.mark.parametrize("target", ["y", "amount"])
def test_other_models(model, target):
    if model not in ("extra-trees", "hist-gradient-boosting"):
        pytest.importorskip(model)
    scored = score(TABLE, target, drop=["amount" if target == "y" else "y"], model=model)
    result, is_forest = scored.result, model == "extra-trees"
    assert scored.model_name == model
    assert result.n_trees == (60 if is_forest else 300)
    assert result.rows == ("oob" if is_forest else "folds")
    assert result.n_rows == len(scored.X) == N_ROWS
    first = result.feature_names[result.order[0]]
    assert first in ("x", "member", "city")
    assert first in find_significant(scored)
    assert scored.performance.p_value < 0.01


@pytest.mark.parametrize("model", ["random-forest", "xgboost", "lightgbm"])
def test_three_classes(model):
    if model != "random-forest":
        pytest.importorskip(model)
    level = pd.cut(TABLE["amount"], 3, labels=["low", "middle", "high"]).astype(str)
    table = TABLE[["x", "city", "member"]].assign(level=level)
    scored = score(table, "level", model=model, test_size=0.4)
    assert scored.result.task == "classification"
    assert scored.performance.name == "one-vs-rest AUC"
    assert scored.performance.p_value < 1e-3
    assert scored.result.feature_names[scored.result.order[0]] in find_significant(scored)


def test_the_same_seed_gives_the_same_numbers():
    values = [score(TABLE, "y", random_state=seed).result.values for seed in (1, 1, 2)]
    assert_array_equal(values[0], values[1])
    assert (values[0] != values[2]).any()


def test_a_forest_that_grows_in_steps_is_the_forest():
    """30 trees are grown in 25 steps, 500 in as many."""
    steps = []
    settings = FitSettings(n_estimators=30, n_jobs=1)
    scored = score_table(
        TABLE, "amount", drop=["y"], settings=settings, progress=lambda *progress: steps.append(progress)
    )
    assert steps[:2] == [(0, 30), (1, 30)]
    assert steps[-1] == (30, 30)
    assert len(steps) == 26
    columns = [infer_column(name, TABLE[name]) for name in TABLE.drop(columns=["amount", "y"])]
    used = [column for column in columns if column.is_used]
    X = pd.DataFrame({column.name: column.values for column in used})
    pipeline = make_pipeline(make_encoder(used), RandomForestRegressor(30, min_samples_leaf=5, random_state=0)).fit(
        X, TABLE["amount"]
    )
    result = tw.importance(pipeline, X, TABLE["amount"])
    assert list(find_values(scored)) == result.feature_names.tolist()
    assert_allclose(scored.result.values, result.values, rtol=1e-9)


@pytest.mark.parametrize("model", ["random-forest", "xgboost", "lightgbm"])
def test_the_model_can_be_kept_and_scored_again(model):
    if model != "random-forest":
        pytest.importorskip(model)
    scored = score(
        TABLE, "amount", drop=["y"], n_estimators=10, model=model, test_size=None if model == "random-forest" else 0.25
    )
    kept = pickle.loads(pickle.dumps(scored.model))
    y = TABLE["amount"] if len(scored.X) == N_ROWS else TABLE["amount"][TABLE["x"].isin(scored.X["x"])]
    assert_array_equal(tw.importance(kept, scored.X, y, rows=scored.result.rows).values, scored.result.values)
    assert not kept.get_params().get("model__warm_start", False)


@pytest.mark.parametrize("model", ["xgboost", "lightgbm"])
def test_progress_of_boosting(model):
    pytest.importorskip(model)
    for options, n_fits in (({"test_size": 0.25}, 1), ({"cv": 3}, 3)):
        steps, settings = [], FitSettings(model=model, n_estimators=7, n_jobs=1, **options)
        score_table(TABLE, "y", settings=settings, progress=lambda *progress: steps.append(progress))  # noqa: B023
        assert steps == [(k, 7 * n_fits) for k in range(1, 7 * n_fits + 1)]


@pytest.mark.parametrize("model", ["random-forest", "lightgbm"])
def test_folds_are_scored_as_cross_importance_does(model):
    if model != "random-forest":
        pytest.importorskip(model)
    scored = score(TABLE, "amount", drop=["y"], n_estimators=10, model=model, cv=3)
    models = pickle.loads(pickle.dumps(scored.model))
    assert len(models) == 3
    y = TABLE["amount"].to_numpy()
    splits = [*KFold(3, shuffle=True, random_state=0).split(y)]
    indices = {"train": [training for training, _ in splits], "test": [test for _, test in splits]}
    expected = tw.cross_importance({"estimator": models, "indices": indices}, scored.X, y)
    assert_array_equal(scored.result.values, expected.values)
    assert_array_equal(scored.result.p_value, expected.p_value)
    predicted = np.empty(N_ROWS)
    for fitted, (_, test) in zip(models, splits, strict=True):
        predicted[test] = fitted.predict(scored.X.iloc[test])
    assert scored.performance.value == pytest.approx(r2_score(y, predicted))
    assert not find_lacking(repr(scored), model, "30 trees", "3 folds", f"{N_ROWS:,} rows")
    assert "R2" in repr(scored)


def test_preprocessing_is_fit_within_folds():
    pytest.importorskip("lightgbm")
    x = TABLE["x"].where(np.arange(N_ROWS) % 7 > 0)
    scored = score(TABLE.assign(x=x), "amount", drop=["y"], n_estimators=5, model="lightgbm", cv=3)
    place = scored.model[0][0].transformers_[0][2].index("x")
    medians = [fitted[0].named_transformers_["numbers"].statistics_[place] for fitted in scored.model]
    splits = KFold(3, shuffle=True, random_state=0).split(x)
    assert medians == [x.iloc[training].median() for training, _ in splits]


def test_leaves_grow_with_the_table():
    sizes = [FitSettings().choose_leaf_size("classification", n_rows) for n_rows in (100, 50_000, 50_001, 1_000_000)]
    assert sizes == [1, 1, 2, 20]
    assert FitSettings().choose_leaf_size("regression", 100) == 5


@pytest.mark.parametrize("model", ["random-forest", "lightgbm", "hist-gradient-boosting"])
def test_smallest_leaves(model):
    if model == "lightgbm":
        pytest.importorskip(model)
    scored = score(TABLE, "amount", drop=["y"], model=model, test_size=0.3, min_samples_leaf=40, n_estimators=2)
    trees = tw.to_ensemble(scored.model[-1])
    assert trees.weight[trees.left < 0].min() >= 40


def test_columns_that_splits_choose_from():
    for max_features in ("sqrt", 2, 0.5):
        scored = score(TABLE, "amount", drop=["y"], n_estimators=2, max_features=max_features)
        assert scored.model[-1].max_features == max_features


def test_numbers_of_trees():
    assert [FitSettings(model=model).count_trees() for model in ("random-forest", "lightgbm")] == [500, 200]


@pytest.mark.parametrize(
    ("argument", "value"),
    [("model", "svm"), ("n_estimators", 0), ("max_depth", 0), ("test_size", 1.0), ("test_size", 0.0), ("cv", 1)],
)
def test_settings_that_cannot_be_used(argument, value):
    with pytest.raises(TableError, match=f"^{argument}: .*'?{value}") as caught:
        FitSettings(**{argument: value})
    assert caught.value.argument == argument


def test_folds_and_a_split_exclude_each_other():
    with pytest.raises(TableError, match=r"^cv: .*test_size=0\.2"):
        FitSettings(cv=5, test_size=0.2)


def test_a_class_of_one_row_cannot_be_held_out():
    pytest.importorskip("lightgbm")
    table = TABLE.assign(y=TABLE["y"].where(TABLE.index > 0, "perhaps"))
    with pytest.raises(TableError, match=r"'perhaps'.*model='random-forest'"):
        score(table, "y", model="lightgbm")


@pytest.mark.parametrize(("argument", "value"), [("cv", 3), ("test_size", 0.3)])
def test_a_forest_with_a_class_of_one_row_is_scored_out_of_bag_only(argument, value):
    table = TABLE.assign(y=TABLE["y"].where(TABLE.index > 0, "perhaps"))
    settings = FitSettings(n_estimators=5, n_jobs=1, **{argument: value})
    with pytest.raises(TableError, match=rf"^{argument}: .*'perhaps'.*leave out {argument}={value}"):
        score_table(table, "y", settings=settings)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_a_library_that_is_not_installed(library, monkeypatch):
    monkeypatch.setattr("truewood._extras.find_spec", lambda name: None if name == library else find_spec(name))
    with pytest.raises(TableError, match=rf"pip install 'truewood\[{library}\]'") as caught:
        score(TABLE, "y", model=library)
    assert caught.value.argument == "model"
