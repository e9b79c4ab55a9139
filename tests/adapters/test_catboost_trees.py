"""CatBoost's trees of every shape: leaves, sums and weights are its own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from catboost import CatBoost, CatBoostRegressor, sum_models
from scipy import sparse

import truewood as tw
from helpers.catboost_models import (
    N_FEATURES,
    NUMBERS,
    POLICIES,
    QUIET,
    check_trees,
    draw,
    find_own_leaves,
    fit_numbers,
)
from helpers.contract import add_leaf_values, draw_odd_rows, route

# CatBoost boosts other trees than symmetric ones in plain order only.
SHAPES = [
    (option, policy) for option in NUMBERS for policy in POLICIES if option != "ordered" or policy == "SymmetricTree"
]


@pytest.mark.parametrize(("option", "policy"), SHAPES)
def test_leaves_sums_and_weights_are_catboosts(option, policy, engine, tmp_path):
    model = fit_numbers(option, policy)
    rows = draw_odd_rows(tw.to_ensemble(model), N_FEATURES, seed=2)
    check_trees(model, rows, tmp_path)
    for X in (rows.astype(np.float32), pd.DataFrame(rows)):
        np.testing.assert_array_equal(route(model, X), find_own_leaves(model, X, tmp_path))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("option", ["squared error", "several classes", "several outputs"])
def test_weights_count_the_training_rows(option, policy, engine):
    ensemble, nodes = tw.to_ensemble(model := fit_numbers(option, policy)), route(model, draw(missing=True)[0])
    counts = np.bincount((nodes + ensemble.offset[:-1]).ravel(), minlength=len(ensemble.weight))
    is_leaf = ensemble.left < 0
    np.testing.assert_array_equal(ensemble.weight[is_leaf], counts[is_leaf])
    np.testing.assert_array_equal(ensemble.weight[ensemble.offset[:-1]], len(nodes))


def test_leaves_of_a_symmetric_tree_have_catboosts_numbers():
    model = fit_numbers("squared error", "SymmetricTree")
    rows = draw_odd_rows(tw.to_ensemble(model), N_FEATURES, seed=2)
    depth = np.log2(model.get_tree_leaf_counts()).astype(int)
    assert depth.max() == 3
    np.testing.assert_array_equal(route(model, rows), 2**depth - 1 + model.calc_leaf_indexes(rows))


def test_a_sparse_matrix_is_read_as_zeros(engine, tmp_path):
    X, y = draw()
    X[X < 0.3] = 0.0
    model = CatBoostRegressor(iterations=10, depth=3, **QUIET).fit(sparse.csr_matrix(X), y)
    dense = draw_odd_rows(tw.to_ensemble(model), N_FEATURES, seed=3, missing=False)
    np.testing.assert_array_equal(route(model, sparse.csr_matrix(dense)), find_own_leaves(model, dense, tmp_path))


@pytest.mark.parametrize("policy", ["SymmetricTree", "Lossguide"])
@pytest.mark.parametrize("form", ["cbm", "json"])
def test_a_loaded_model_is_the_same(form, policy, tmp_path):
    model = fit_numbers("several classes", policy)
    model.save_model(str(tmp_path / "saved"), format=form)
    loaded = CatBoost().load_model(str(tmp_path / "saved"), format=form)
    X, score = draw(seed=5, missing=True)
    np.testing.assert_array_equal(route(loaded, X), route(model, X))
    y = np.digitize(score, [-0.5, 0.5])
    expected = tw.importance(model, X, y, rows="heldout").values
    np.testing.assert_allclose(tw.importance(loaded, X, y, rows="heldout").values, expected, rtol=1e-9)


@pytest.mark.parametrize("policy", POLICIES)
def test_scale_and_bias(policy, engine, tmp_path):
    model = fit_numbers("squared error", policy).copy()
    unscaled = tw.to_ensemble(model).value
    model.set_scale_and_bias(2.5, 7.0)
    check_trees(model, draw(seed=4, missing=True)[0], tmp_path)
    np.testing.assert_allclose(tw.to_ensemble(model).value, 2.5 * unscaled)


def test_an_early_stopped_model_is_read_as_it_predicts(tmp_path):
    X, y = draw(200)
    X_new, y_new = draw(200, seed=1)
    options = {"iterations": 300, "learning_rate": 0.5, "depth": 4, **QUIET}
    model = CatBoostRegressor(**options, early_stopping_rounds=20).fit(X, y, eval_set=(X_new, y_new))
    assert tw.to_ensemble(model).n_trees == model.best_iteration_ + 1 < 250
    check_trees(model, X_new, tmp_path)
    assert any("early stopping" in note for note in tw.importance(model, X_new, y_new, rows="heldout").notes)
    whole = CatBoostRegressor(**options, use_best_model=False).fit(X, y, eval_set=(X_new, y_new))
    assert tw.to_ensemble(whole).n_trees == 300
    assert tw.importance(whole, X_new, y_new, rows="heldout").notes == ()


def test_a_sum_of_models():
    models = [fit_numbers("logistic", "SymmetricTree"), fit_numbers("logistic", "SymmetricTree")]
    model = sum_models(models, weights=[1.0, 0.5])
    X, score = draw(seed=6)
    np.testing.assert_allclose(add_leaf_values(model, X)[:, 0], model.predict(X), atol=1e-9)
    assert tw.importance(model, X, score > 0, rows="heldout").values.argmax() == 0
    mixed = sum_models([models[0], fit_numbers("squared error", "SymmetricTree")])
    with pytest.raises(ValueError, match=r"CatBoost.*loss.*target="):
        tw.importance(mixed, X, score, rows="heldout")


def test_trees_without_splits():
    X, y = draw()
    model = CatBoostRegressor(iterations=3, depth=0, **QUIET).fit(X, y)
    assert not tw.to_ensemble(model).splits.size
    X_new, y_new = draw(seed=1)
    assert not tw.importance(model, X_new, y_new, rows="heldout").values.any()


@pytest.mark.parametrize("policy", POLICIES)
def test_nodes_that_no_training_row_reached_score_nothing(policy):
    X, y = draw(40)
    model = CatBoostRegressor(iterations=20, depth=6, **QUIET, grow_policy=policy).fit(X, y)
    ensemble = tw.to_ensemble(model)
    X_new, y_new = draw(500, seed=1)
    result = tw.importance(model, X_new, y_new, rows="heldout")
    assert np.isfinite(result.values).all()
    assert np.isfinite(result.mdi).all()
    assert policy != "SymmetricTree" or (ensemble.weight[ensemble.splits] == 0).any()
