"""scikit-learn's GradientBoosting."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression

import truewood as tw
from helpers.boosting_data import N_FEATURES, SIGNAL, draw_data, sums_may_overflow
from helpers.contract import add_leaf_values, draw_odd_rows, route
from truewood.adapters import open_model

pytestmark = sums_may_overflow

GRADIENT_BOOSTING = {
    "binary": (GradientBoostingClassifier, "binary", {}),
    "exponential": (GradientBoostingClassifier, "binary", {"loss": "exponential"}),
    "multiclass": (GradientBoostingClassifier, "multiclass", {}),
    "multiclass-subsample": (GradientBoostingClassifier, "multiclass", {"subsample": 0.6, "max_features": 2}),
    "classifier-init": (GradientBoostingClassifier, "binary", {"init": LogisticRegression()}),
    "classifier-zero": (GradientBoostingClassifier, "multiclass", {"init": "zero"}),
    "squared": (GradientBoostingRegressor, "regression", {}),
    "rate": (GradientBoostingRegressor, "regression", {"learning_rate": 0.7, "max_depth": 5}),
    "absolute": (GradientBoostingRegressor, "regression", {"loss": "absolute_error"}),
    "huber": (GradientBoostingRegressor, "regression", {"loss": "huber", "alpha": 0.8}),
    "quantile": (GradientBoostingRegressor, "regression", {"loss": "quantile", "alpha": 0.3}),
    "early-stopping": (
        GradientBoostingRegressor,
        "regression",
        {"n_iter_no_change": 2, "learning_rate": 1.0, "n_estimators": 30},
    ),
    "zero": (GradientBoostingRegressor, "regression", {"init": "zero"}),
    "init": (GradientBoostingRegressor, "regression", {"init": LinearRegression()}),
    "max-leaf-nodes": (GradientBoostingRegressor, "regression", {"max_leaf_nodes": 6, "ccp_alpha": 0.01}),
}


def fit_gradient_boosting(name, **fit_options):
    make, task, options = GRADIENT_BOOSTING[name]
    X, y = draw_data(task)
    return make(**{"n_estimators": 8, "random_state": 0, **options}).fit(X, y, **fit_options)


@pytest.mark.parametrize("name", GRADIENT_BOOSTING)
def test_gradient_boosting_keeps_the_contract(name, engine):
    model = fit_gradient_boosting(name)
    ensemble = tw.to_ensemble(model)
    rows = draw_odd_rows(ensemble, N_FEATURES, seed=1, missing=False, infinite=False)
    leaves = model.apply(rows).reshape(len(rows), -1)
    for given in (rows, rows.astype(np.float32), sparse.csr_array(rows)):
        np.testing.assert_array_equal(route(model, given), leaves)
    usual = rows[np.abs(rows).max(axis=1) < 100]  # a linear model before the trees overflows at extremes
    narrow = usual.astype(np.float32)
    raw = model._raw_predict(narrow) - model._raw_predict_init(narrow)
    np.testing.assert_allclose(add_leaf_values(model, usual), raw, atol=1e-9)
    trees = [tree.tree_ for tree in model.estimators_.ravel()]
    np.testing.assert_array_equal(ensemble.weight, np.concatenate([tree.weighted_n_node_samples for tree in trees]))
    np.testing.assert_array_equal(np.diff(ensemble.offset), [tree.node_count for tree in trees])


def test_early_stopping_is_read_up_to_where_it_stopped():
    model = fit_gradient_boosting("early-stopping")
    assert open_model(model).n_trees == model.n_estimators_ < 30


def test_weights_of_rows_are_in_the_weights_of_nodes():
    weight = np.random.default_rng(0).random(400)
    model = fit_gradient_boosting("squared", sample_weight=weight)
    assert tw.to_ensemble(model).weight[0] == pytest.approx(weight.sum())


@pytest.mark.parametrize("name", GRADIENT_BOOSTING)
def test_gradient_boosting_finds_the_signal(name):
    X, y = draw_data(GRADIENT_BOOSTING[name][1], seed=1)
    result = tw.importance(fit_gradient_boosting(name), X, y, rows="heldout")
    if name in ("init", "classifier-init"):  # the signal is linear, and the first model has taken it
        alone = tw.importance(fit_gradient_boosting("squared" if name == "init" else "binary"), X, y, rows="heldout")
        assert np.abs(result.values).max() < 0.5 * alone.values[SIGNAL]
        return
    assert result.values.argmax() == SIGNAL
    assert result.values[SIGNAL] > 10 * np.abs(np.delete(result.values, SIGNAL)).max()


@pytest.mark.parametrize("name", ["binary", "multiclass", "squared"])
def test_gradient_boosting_refuses_its_training_rows(name):
    X, y = draw_data(GRADIENT_BOOSTING[name][1])
    model = fit_gradient_boosting(name)
    remedy = r"rows='heldout'.*GradientBoosting.*other rows.*cross_importance"
    with pytest.raises(tw.TrainingRowsError, match=remedy):
        tw.importance(model, X, y, rows="heldout")
    with pytest.raises(ValueError, match="rows='auto'"):
        tw.importance(model, X, y)


def test_gradient_boosting_takes_no_missing_or_infinite_values():
    X, y = draw_data("regression", seed=1)
    model = fit_gradient_boosting("squared")
    for value, message in (
        (np.nan, r"GradientBoostingRegressor.*missing|NaN.*GradientBoostingRegressor"),
        (np.inf, "infinite"),
    ):
        odd = X.copy()
        odd[0, 0] = value
        with pytest.raises(ValueError, match=message):
            tw.importance(model, odd, y, rows="heldout")


def test_gradient_boosting_knows_its_columns_by_name():
    X, y = draw_data("binary")
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(frame, y)
    X_test, y_test = draw_data("binary", seed=1)
    frame_test = pd.DataFrame(X_test, columns=list("abcde"))
    assert tw.importance(model, frame_test, y_test, rows="heldout").frame()["feature"][0] == "c"
    with pytest.raises(ValueError, match=r"\b0\b.*'a'.*'e'"):
        tw.importance(model, frame_test[list("edcba")], y_test, rows="heldout")


def test_a_missing_class_of_the_held_out_rows_is_no_problem():
    X, y = draw_data("multiclass", seed=1)
    kept = y != "b"
    result = tw.importance(fit_gradient_boosting("multiclass"), X[kept], y[kept], rows="heldout")
    assert result.values.argmax() == SIGNAL
