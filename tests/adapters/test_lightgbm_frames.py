"""Data frames, their categories and their names, as LightGBM reads them."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import truewood as tw
from helpers.contract import route
from helpers.lightgbm_models import CATEGORICAL, QUIET, WITH_CATEGORIES, build, draw_rows, find_leaves, make_rows, train


@pytest.mark.parametrize("name", ["no-missing", "nan", "zero-as-missing", "categories"])
def test_polars_frames_are_read_as_lightgbm_reads_them(name, engine):
    booster = build(name)
    X = pl.DataFrame(draw_rows(booster, seed=1), schema=list("abcde")).fill_nan(None)
    np.testing.assert_array_equal(route(booster, X), find_leaves(booster, X))


def make_frame(seed=0):
    X, y = make_rows(seed)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d", "level"])
    letters = np.array([f"level {k}" for k in range(40)])
    frame["level"] = pd.Categorical(letters[frame["level"].astype(int)], categories=np.sort(letters))
    frame["size"] = pd.Categorical(np.where(X[:, 0] > 0, 30, 10), categories=[10, 20, 30], ordered=True)
    frame["flag"] = X[:, 1] > 0
    frame["count"] = pd.array(np.where(X[:, 2] > 1, None, X[:, 3].round()), dtype="Int64")
    return frame, y


@pytest.mark.parametrize("reload", [False, True])
def test_pandas_categories(reload, engine):
    frame, y = make_frame()
    booster = lgb.train({**QUIET, **WITH_CATEGORIES}, lgb.Dataset(frame, y), 6)
    if reload:
        booster = lgb.Booster(model_str=booster.model_to_string())
    other, _ = make_frame(seed=1)
    other.loc[:20, "level"] = np.nan
    other["level"] = other["level"].cat.rename_categories({"level 5": "unseen"})
    other["size"] = other["size"].astype(int).replace(10, 40).astype("category")
    assert tw.to_ensemble(booster).categories is not None
    for table in (frame, other):
        before = table.copy()
        np.testing.assert_array_equal(route(booster, table), find_leaves(booster, table))
        pd.testing.assert_frame_equal(table, before)
    result = tw.importance(booster, *make_frame(seed=2), rows="heldout")
    assert set(result.feature_names[np.argsort(-result.values)[:3]]) == {"a", "b", "level"}


def test_ordered_pandas_categories_are_numbers(engine):
    rng = np.random.default_rng(0)
    levels = pd.Categorical(rng.choice(["low", "mid", "high"], 300), categories=["low", "mid", "high"], ordered=True)
    frame = pd.DataFrame({"level": levels, "noise": rng.standard_normal(300)})
    y = frame["level"].cat.codes + 0.1 * rng.standard_normal(300)
    frame.loc[y > 1.9, "level"] = None
    booster = lgb.train(QUIET, lgb.Dataset(frame, y), 3)
    other = frame.assign(level=frame["level"].cat.rename_categories({"mid": "unseen"}))
    assert tw.to_ensemble(booster).categories is None
    for table in (frame, other):
        np.testing.assert_array_equal(route(booster, table), find_leaves(booster, table))


def test_frames_with_other_categorical_columns_are_refused():
    frame, y = make_frame()
    booster = lgb.train(QUIET, lgb.Dataset(frame, y), 2)
    with pytest.raises(ValueError, match=r"\b2\b.*categorical.*Booster.*\b1\b"):
        tw.importance(booster, frame.assign(level=0), y, rows="heldout")


def test_categories_without_known_ones_are_refused():
    X, y = make_rows()
    frame = pd.DataFrame(X).astype({CATEGORICAL: "category"})
    with pytest.raises(ValueError, match=r"\b0\b.*categorical.*Booster.*\b1\b"):
        tw.importance(train(), frame, y, rows="heldout")


def test_names():
    X, y = make_rows()
    frame = pd.DataFrame(X, columns=["one two", "b", "c", "d", "e"])
    model = lgb.LGBMRegressor(n_estimators=2, verbose=-1, n_jobs=1).fit(frame, y)
    X_test, y_test = make_rows(1)
    heldout = pd.DataFrame(X_test, columns=frame.columns)
    assert tw.importance(model, heldout, y_test, rows="heldout").feature_names[0] == "one two"
    assert tw.importance(model, X_test, y_test, rows="heldout").feature_names[0] == "one_two"
    with pytest.raises(ValueError, match=r"\b1\b.*'b'.*'c'"):
        tw.importance(model, heldout[["one two", "c", "b", "d", "e"]], y_test, rows="heldout")
    nameless = train()
    assert tw.importance(nameless, heldout, y_test, rows="heldout").feature_names[0] == "one two"
    assert tw.importance(nameless, X_test, y_test, rows="heldout").feature_names[0] == "x0"


def test_names_with_spaces_are_known_and_kept():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((200, 2)), columns=["petal length", "petal_width"])
    model = lgb.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1).fit(X, X["petal length"])
    new = X + 0.1
    result = tw.importance(model, new, new["petal length"], rows="heldout")
    assert result.feature_names.tolist() == ["petal length", "petal_width"]
    with pytest.raises(ValueError, match=r"\b0\b.*'petal_length'.*'petal width'"):
        tw.importance(model, new.set_axis(["petal width", "petal_length"], axis=1), new["petal length"], rows="heldout")
