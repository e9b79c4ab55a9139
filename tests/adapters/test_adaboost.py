"""scikit-learn's AdaBoost."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier

import truewood as tw
from helpers.boosting_data import N_FEATURES, SIGNAL, draw_data, sums_may_overflow
from helpers.contract import draw_odd_rows, route
from truewood._sklearn_compat import MISSING_IS_TRUSTED, SKLEARN_VERSION
from truewood.adapters import open_model

pytestmark = sums_may_overflow

ADABOOST = {
    "binary": (AdaBoostClassifier, "binary", {}),
    "multiclass": (AdaBoostClassifier, "multiclass", {"estimator": DecisionTreeClassifier(max_depth=3)}),
    "entropy": (AdaBoostClassifier, "binary", {"estimator": DecisionTreeClassifier(criterion="entropy", max_depth=2)}),
    "balanced": (
        AdaBoostClassifier,
        "multiclass",
        {"estimator": DecisionTreeClassifier(class_weight="balanced", max_depth=3)},
    ),
    "extra": (AdaBoostClassifier, "binary", {"estimator": ExtraTreeClassifier(max_depth=4)}),
    "regression": (AdaBoostRegressor, "regression", {}),
    "absolute": (
        AdaBoostRegressor,
        "regression",
        {"estimator": DecisionTreeRegressor(criterion="absolute_error", max_depth=3), "loss": "square"},
    ),
}


def fit_adaboost(name, **fit_options):
    make, task, options = ADABOOST[name]
    X, y = draw_data(task)
    return make(**{"n_estimators": 10, "random_state": 0, **options}).fit(X, y, **fit_options)


@pytest.mark.parametrize("name", ADABOOST)
def test_adaboost_keeps_the_contract(name, engine):
    model = fit_adaboost(name)
    view, ensemble = open_model(model), tw.to_ensemble(model)
    rows = draw_odd_rows(ensemble, N_FEATURES, seed=1, missing=False, infinite=False)
    leaves = np.column_stack([tree.apply(rows.astype(np.float32)) for tree in model.estimators_])
    for given in (rows, rows.astype(np.float32), sparse.csr_array(rows)):
        np.testing.assert_array_equal(route(model, given), leaves)
    np.testing.assert_array_equal(view.tree_weight, model.estimator_weights_[: len(model.estimators_)])
    trees = [tree.tree_ for tree in model.estimators_]
    np.testing.assert_array_equal(ensemble.weight, np.concatenate([tree.weighted_n_node_samples for tree in trees]))
    stored = np.concatenate([tree.value.reshape(tree.node_count, -1) for tree in trees])
    np.testing.assert_array_equal(ensemble.value, stored)


@pytest.mark.skipif(SKLEARN_VERSION < (1, 6), reason="SAMME.R, the default before, has no weights of trees")
@pytest.mark.parametrize("name", ["binary", "multiclass"])
def test_the_weights_of_trees_are_those_of_the_vote(name):
    """The library's decision function, made of our leaves and weights."""
    model = fit_adaboost(name)
    X, _ = draw_data("regression", seed=1)
    view, ensemble = open_model(model), tw.to_ensemble(model)
    votes = ensemble.value[route(model, X) + ensemble.offset[:-1]].argmax(axis=2)
    n_classes, weight = len(model.classes_), view.tree_weight
    one_hot = votes[:, :, np.newaxis] == np.arange(n_classes)
    score = np.where(one_hot, 1.0, -1.0 / (n_classes - 1))
    decision = (weight[:, np.newaxis] * score).sum(axis=1) / weight.sum()
    if n_classes == 2:
        decision = decision[:, 1] - decision[:, 0]
    np.testing.assert_allclose(decision, model.decision_function(X))


@pytest.mark.parametrize("name", ADABOOST)
def test_adaboost_finds_the_signal(name):
    X, y = draw_data(ADABOOST[name][1], seed=1)
    model = fit_adaboost(name)
    result = tw.importance(model, X, y, rows="heldout")
    assert result.values.argmax() == SIGNAL
    weight = model.estimator_weights_[: len(model.estimators_)]
    np.testing.assert_allclose(result.values, np.average(result.per_tree, axis=0, weights=weight))
    assert result.share[SIGNAL] > 0


def test_boosting_that_stops_at_once_is_read():
    X, y = draw_data("binary")
    perfect = AdaBoostClassifier(DecisionTreeClassifier(), n_estimators=10).fit(X, y)
    assert open_model(perfect).n_trees == 1
    rng = np.random.default_rng(0)
    bad = AdaBoostRegressor(DecisionTreeRegressor(max_depth=1, min_samples_leaf=25), n_estimators=5, random_state=0)
    bad.fit(rng.standard_normal((60, 2)), rng.choice([-1.0, 1.0], 60))
    assert bad.estimator_weights_.sum() == 0  # the only tree is kept though it is too bad to be given a weight
    result = tw.importance(bad, rng.standard_normal((60, 2)), rng.choice([-1.0, 1.0], 60), rows="heldout")
    assert np.isfinite(result.values).all()
    X_test, y_test = draw_data("binary", seed=1)
    assert tw.importance(perfect, X_test, y_test, rows="heldout").values.argmax() == SIGNAL


@pytest.mark.parametrize("name", ["binary", "multiclass", "balanced"])
def test_adaboost_refuses_its_training_rows(name):
    X, y = draw_data(ADABOOST[name][1])
    model = fit_adaboost(name)
    with pytest.raises(tw.TrainingRowsError, match=r"rows='heldout'.*AdaBoostClassifier"):
        tw.importance(model, X, y, rows="heldout")
    with pytest.raises(ValueError, match=r"rows='auto'.*AdaBoostClassifier"):
        tw.importance(model, X, y)


def test_adaboost_regression_has_no_bags():
    X, y = draw_data("regression")
    with pytest.raises(ValueError, match=r"AdaBoostRegressor.*bootstrap"):
        tw.importance(fit_adaboost("regression"), X, y)


def test_adaboost_over_other_models_is_refused():
    X, y = draw_data("binary")
    model = AdaBoostClassifier(LogisticRegression(), n_estimators=3).fit(X, y)
    with pytest.raises(TypeError, match=r"AdaBoostClassifier.*LogisticRegression"):
        tw.importance(model, X, y, rows="heldout")


@pytest.mark.skipif(not MISSING_IS_TRUSTED, reason="no tree of scikit-learn before 1.8 is given missing values")
def test_adaboost_takes_no_missing_values():
    X, y = draw_data("binary", seed=1)
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match=r"AdaBoostClassifier.*missing|NaN.*AdaBoostClassifier"):
        tw.importance(fit_adaboost("binary"), X, y, rows="heldout")


@pytest.mark.parametrize("name", ["binary", "multiclass", "regression"])
def test_shares_weigh_the_roots_as_scores_weigh_the_trees(name, engine):
    model = fit_adaboost(name)
    result = tw.importance(model, *draw_data(ADABOOST[name][1], seed=1), rows="heldout")
    weight = model.estimator_weights_[: len(model.estimators_)]
    expected = np.average([tree.tree_.impurity[0] for tree in model.estimators_], weights=weight)
    assert result.impurity == pytest.approx(expected)
    np.testing.assert_allclose(result.share, result.values / expected)
