"""XGBoost's trees are read as XGBoost itself walks them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from scipy import sparse

import truewood as tw
from helpers.contract import add_leaf_values, route
from helpers.xgboost_models import (
    BASE,
    CASES,
    N_FEATURES,
    C,
    R,
    build,
    check_leaves,
    draw,
    dropout,
    dumped_trees,
    kept_nodes,
    link,
    make_target,
    odd_rows,
)
from truewood._inputs.tables import read_features
from truewood.adapters import open_model


@pytest.mark.parametrize("name", CASES)
def test_leaves_and_sums_are_the_librarys_own(name, engine):
    model, categorical = build(name), "feature_types" in CASES[name].params
    rows = odd_rows(model, categorical)
    for given in (rows, rows.astype(np.float32)):
        check_leaves(model, given, model.apply(given))
    check_leaves(model, pd.DataFrame(rows), model.apply(rows))
    raw = model.predict(rows, output_margin=True).reshape(len(rows), -1)
    np.testing.assert_allclose(add_leaf_values(model, rows) + link(model), raw, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("name", CASES)
def test_weights_are_the_librarys_own(name):
    model = build(name)
    ensemble = tw.to_ensemble(model)
    trees = dumped_trees(model)
    stored = np.concatenate([np.asarray(tree["sum_hessian"], dtype=np.float32)[kept_nodes(tree)] for tree in trees])
    n_outputs = ensemble.value.shape[1]
    np.testing.assert_array_equal(ensemble.weight, stored.astype(np.float64) / n_outputs)
    assert ensemble.n_trees == len(trees)
    assert ensemble.is_additive
    assert ensemble.statistic == "leaf"


def test_cases_are_what_they_say():
    pruned = dumped_trees(build("pruned"))
    assert any(int(tree["tree_param"]["num_deleted"]) for tree in pruned)
    assert any(size > 1 for tree in dumped_trees(build("partition")) for size in tree["categories_sizes"])
    onehot = dumped_trees(build("onehot categories"))
    assert any(tree["categories_nodes"] for tree in onehot)
    assert all(size == 1 for tree in onehot for size in tree["categories_sizes"])
    for name in ("dart", "dart classes", "dart forest", "dart partition"):
        assert min(dropout(build(name))) < 1
    assert open_model(build("stumps")).n_nodes.tolist() == [1] * 4


@pytest.mark.parametrize("name", ["regressor", "partition", "classes", "vectors"])
def test_a_sparse_matrix_does_not_store_missing_values(name, engine):
    model, rows = build(name), odd_rows(build(name), name == "partition")
    row, column = np.nonzero(~np.isnan(rows))
    matrix = sparse.coo_array((rows[row, column], (row, column)), shape=rows.shape)
    assert (matrix.data == 0).any()
    for given in (matrix.tocsr(), matrix.tocsc(), sparse.csr_matrix(matrix)):
        check_leaves(model, given, model.apply(given))
    np.testing.assert_array_equal(route(model, matrix.tocsr()), route(model, rows))


@pytest.mark.parametrize("missing", [-999.0, 0.0, 0.1, np.inf, -np.inf])
def test_the_wrappers_missing_value_is_missing(missing, engine):
    X, score, rng = draw()
    X[np.isnan(X)] = missing
    model = R(**BASE, missing=missing).fit(X, make_target("number", score, rng))
    rows = odd_rows(model, categorical=False)
    rows[rng.random(rows.shape) < 0.1] = missing
    if np.isinf(missing):
        rows[rng.random(rows.shape) < 0.05] = -missing
        rows[0] = 1e300
    kept = rows.copy()
    check_leaves(model, rows, model.apply(rows))
    check_leaves(model, pd.DataFrame(rows), model.apply(pd.DataFrame(rows)))
    check_leaves(model, rows.tolist(), model.apply(rows))
    check_leaves(model, sparse.csr_array(rows), model.apply(sparse.csr_array(rows)))
    np.testing.assert_array_equal(rows, kept)


@cache
def stopped(booster="gbtree"):
    X, score, rng = draw()
    y = make_target("classes", score, rng)
    model = C(
        **{**BASE, "n_estimators": 60, "learning_rate": 1.0},
        early_stopping_rounds=3,
        num_parallel_tree=2,
        booster=booster,
    )
    return model.fit(X[:150], y[:150], eval_set=[(X[150:], y[150:])], verbose=False)


@pytest.mark.parametrize("booster", ["gbtree", "dart"])
def test_an_early_stopped_wrapper_is_read_up_to_its_best_iteration(booster, engine):
    model = stopped(booster)
    n_used = (model.best_iteration + 1) * 3 * 2
    assert tw.to_ensemble(model).n_trees == n_used < len(dumped_trees(model))
    assert open_model(model).is_stopped_early
    rows = draw(seed=5)[0]
    check_leaves(model, rows, model.apply(rows))
    raw = model.predict(rows, output_margin=True)
    np.testing.assert_allclose(add_leaf_values(model, rows) + link(model), raw, rtol=1e-6, atol=5e-6)


def test_an_early_stopped_booster_is_read_as_it_predicts(engine):
    booster = stopped().get_booster()
    rows = draw(seed=5)[0]
    matrix = xgb.DMatrix(rows)
    check_leaves(booster, rows, booster.predict(matrix, pred_leaf=True))
    assert tw.to_ensemble(booster).n_trees == len(dumped_trees(booster))
    best = booster[: booster.best_iteration + 1]
    np.testing.assert_array_equal(route(best, rows), route(stopped(), rows))


@pytest.mark.parametrize("part", [slice(0, 2), slice(1, 4), slice(0, 4, 2)])
@pytest.mark.parametrize("name", ["classes", "dart", "forest in rounds"])
def test_slices(name, part, engine):
    booster = build(name).get_booster()[part]
    rows = draw(seed=5)[0]
    matrix = xgb.DMatrix(rows)
    check_leaves(booster, rows, booster.predict(matrix, pred_leaf=True))
    raw = booster.predict(matrix, output_margin=True).reshape(len(rows), -1)
    np.testing.assert_allclose(add_leaf_values(booster, rows) + link(booster), raw, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("suffix", ["json", "ubj"])
@pytest.mark.parametrize("name", ["classes", "dart", "partition", "pruned"])
def test_loaded_models(name, suffix, tmp_path):
    model, rows = build(name), odd_rows(build(name), name == "partition")
    path = tmp_path / f"model.{suffix}"
    model.save_model(path)
    loaded = CASES[name].make(n_jobs=1)
    loaded.load_model(path)
    for other in (loaded, xgb.Booster(model_file=path)):
        np.testing.assert_array_equal(route(other, rows), route(model, rows))
        np.testing.assert_array_equal(add_leaf_values(other, rows), add_leaf_values(model, rows))
    loaded_view, view = open_model(loaded), open_model(model)
    assert [labels.tolist() for labels in loaded_view.target.kind.classes] == [
        labels.tolist() for labels in view.target.kind.classes
    ]


def test_a_loaded_wrapper_keeps_its_best_iteration(tmp_path):
    stopped().save_model(tmp_path / "model.ubj")
    loaded = C()
    loaded.load_model(tmp_path / "model.ubj")
    assert tw.to_ensemble(loaded).n_trees == tw.to_ensemble(stopped()).n_trees


def test_trees_that_got_rows_of_no_weight():
    X, score, _ = draw()
    weight = np.zeros(len(X))
    weight[:3] = 1.0
    model = R(**{**BASE, "n_estimators": 1}, num_parallel_tree=30, subsample=0.2, tree_method="exact")
    model.fit(X, score, sample_weight=weight)
    is_empty = np.array([tree["sum_hessian"][0] == 0 for tree in dumped_trees(model)])
    assert 0 < is_empty.sum() < len(is_empty)
    rows = odd_rows(model, categorical=False)
    check_leaves(model, rows, model.apply(rows))
    ensemble = tw.to_ensemble(model)
    np.testing.assert_array_equal(ensemble.weight[ensemble.offset[:-1]][is_empty], 1.0)


def test_a_run_of_trees_is_read_as_in_the_whole():
    view = open_model(build("partition classes"))
    part, whole = view.read(range(4, 7)), view.read(range(view.n_trees))[4:7]
    for name in ("feature", "threshold", "left", "right", "missing_left", "weight", "value", "offset", "column"):
        np.testing.assert_array_equal(getattr(part, name), getattr(whole, name), err_msg=name)
    np.testing.assert_array_equal(view.n_nodes[4:7], np.diff(part.offset))


def test_what_is_read_is_float32():
    form = open_model(build("regressor")).table
    assert read_features(np.zeros((2, N_FEATURES)), form).values.dtype == np.float32
