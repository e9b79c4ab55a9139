"""LightGBM's trees are read as LightGBM's own prediction reads them."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import truewood as tw
from helpers.contract import add_leaf_values, count_calls, route
from helpers.lightgbm_models import (
    MODELS,
    N_FEATURES,
    QUIET,
    TINY,
    build,
    count_inner,
    draw_rows,
    find_leaves,
    make_rows,
    make_signal,
)
from truewood.adapters import open_model


@pytest.mark.parametrize("name", MODELS)
def test_leaves_and_sums_are_lightgbms_own(name, engine):
    booster = build(name)
    rows = draw_rows(booster)
    before = rows.copy()
    with np.errstate(over="ignore"):
        single = rows.astype(np.float32)
    for X in (rows, single, np.asfortranarray(rows)):
        np.testing.assert_array_equal(route(booster, X), find_leaves(booster, X))
        raw = booster.predict(X, raw_score=name != "rf" and name != "rf-single-leaf").reshape(len(X), -1)
        np.testing.assert_allclose(add_leaf_values(booster, X), raw, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(rows, before)


def test_the_cases_hold_what_they_are_for():
    missing_types = {
        name: {
            int(decision) >> 2
            for line in build(name).model_to_string().splitlines()
            if line.startswith("decision_type=")
            for decision in line.partition("=")[2].split()
        }
        for name in ("no-missing", "nan", "zero-as-missing", "use-missing-false", "trained-on")
    }
    assert missing_types["no-missing"] == missing_types["use-missing-false"] == {0}
    assert missing_types["zero-as-missing"] == {1}
    assert 2 in missing_types["nan"]
    assert missing_types["trained-on"] == {0, 2}
    words = set(build("no-missing").model_to_string().replace("=", " ").split())
    assert {repr(TINY), repr(-TINY)} <= words
    assert len(tw.to_ensemble(build("categories")).categories.bits) > 2
    assert "\ndecision_type=1" in build("categories-without-missing-type").model_to_string()
    assert (np.diff(tw.to_ensemble(build("rf-single-leaf")).offset) == 1).any()
    assert tw.to_ensemble(build("class-never-seen")).n_trees == 24


@pytest.mark.parametrize("name", ["no-missing", "nan", "zero-as-missing", "multiclass", "trained-on"])
def test_sparse_rows_are_read_as_lightgbm_reads_them(name, engine):
    booster = build(name)
    rows = draw_rows(booster, seed=1)
    # Of the values that are stored, NaN is for zero_as_missing only.
    rows = np.where(np.isnan(rows), 0.0, rows) if "zero" not in name else rows
    for X in (sparse.csr_matrix(rows), sparse.csc_matrix(rows)):
        np.testing.assert_array_equal(route(booster, X), find_leaves(booster, X))
    own = find_leaves(booster, sparse.csr_matrix(rows))
    np.testing.assert_array_equal(route(booster, sparse.csr_array(rows)), own)
    np.testing.assert_array_equal(route(booster, sparse.coo_array(rows)), own)


def test_sparse_categories(engine):
    for name in ("categories", "categories-zero-as-missing"):
        booster = build(name)
        X = sparse.csr_matrix(np.nan_to_num(draw_rows(booster, seed=1)))
        before = X.copy()
        np.testing.assert_array_equal(route(booster, X), find_leaves(booster, X))
        assert (before != X).nnz == 0


@pytest.mark.parametrize("name", ["no-missing", "zero-as-missing", "categories"])
def test_integers_are_read_as_lightgbm_reads_them(name):
    booster = build(name)
    X = np.random.default_rng(0).integers(-3, 60, (100, N_FEATURES))
    np.testing.assert_array_equal(route(booster, X), find_leaves(booster, X))


def test_large_integers_lose_their_last_digits_as_in_lightgbm():
    X = (2**24 + np.arange(40)).reshape(-1, 1)
    booster = lgb.train({**QUIET, "min_data_in_bin": 1}, lgb.Dataset(X.astype(np.float64), np.arange(40.0)), 3)
    assert (booster.predict(X, pred_leaf=True) != booster.predict(X.astype(np.float64), pred_leaf=True)).any()
    for table in (X, X.astype(np.float64), pd.DataFrame(X)):
        own = booster.predict(table, pred_leaf=True) + count_inner(booster)
        np.testing.assert_array_equal(route(booster, table), own)


@pytest.mark.parametrize("name", ["nan", "multiclass", "categories", "bagging", "early-stopping"])
def test_weights_are_lightgbms_counts(name):
    booster = build(name)
    ensemble = tw.to_ensemble(booster)
    for t, tree in enumerate(booster.dump_model()["tree_info"]):
        weight = ensemble.weight[ensemble.offset[t] : ensemble.offset[t + 1]]
        stored = np.zeros_like(weight)
        waiting = [tree["tree_structure"]]
        while waiting:
            node = waiting.pop()
            if "leaf_index" in node:
                stored[tree["num_leaves"] - 1 + node["leaf_index"]] = node["leaf_count"]
            else:
                stored[node["split_index"]] = node["internal_count"]
                waiting += [node["left_child"], node["right_child"]]
        np.testing.assert_array_equal(weight, stored)
        assert stored.all()


def test_trees_up_to_the_best_iteration_are_read():
    booster = build("early-stopping")
    assert tw.to_ensemble(booster).n_trees == booster.best_iteration


def test_a_run_of_trees_is_read_as_in_the_whole():
    view = open_model(build("categories"))
    part, whole = view.read(range(2, 4)), view.read(range(view.n_trees))[2:4]
    for field in ("feature", "threshold", "left", "right", "missing_left", "weight", "value", "offset", "column"):
        np.testing.assert_array_equal(getattr(part, field), getattr(whole, field), err_msg=field)


def test_zeros_that_go_the_same_way_in_all_trees_are_read(engine):
    """Trees with zero as missing and trees without it, on positive columns without zeros."""
    X, y = make_rows(zeros=0.0)
    X = np.abs(X[:, :4]) + 1.0
    first = lgb.train({**QUIET, "zero_as_missing": True}, lgb.Dataset(X, y), 3)
    booster = lgb.train(QUIET, lgb.Dataset(X, y), 3, init_model=first)
    rows = np.vstack([X, np.zeros((1, 4)), np.full((1, 4), np.nan), -X])
    rows[np.random.default_rng(0).random(rows.shape) < 0.2] = 0.0
    np.testing.assert_array_equal(route(booster, rows), find_leaves(booster, rows))


def test_reading_does_not_go_node_by_node():
    """Whole arrays are read, so that trees of ten times as many leaves take no more calls."""
    data = lgb.Dataset(*make_signal(0, "number"), free_raw_data=False)
    small, large = (lgb.train({**QUIET, "num_leaves": n, "min_data_in_leaf": 1}, data, 20) for n in (8, 80))
    assert len(tw.to_ensemble(large).left) > 9 * len(tw.to_ensemble(small).left)
    assert count_calls(lambda: tw.to_ensemble(large)) <= 1.1 * count_calls(lambda: tw.to_ensemble(small))


def test_missing_values_stored_in_a_sparse_matrix(engine):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3)) * (rng.random((300, 3)) < 0.6)
    X[rng.random(X.shape) < 0.2] = np.nan
    model = lgb.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1).fit(X, np.nan_to_num(X[:, 0]))
    np.testing.assert_array_equal(route(model, sparse.csr_array(X)), route(model, X))
