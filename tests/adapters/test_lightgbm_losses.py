"""LightGBM's models are scored by what their objectives gradient at."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pytest

import truewood as tw
from helpers.contract import add_leaf_values
from helpers.lightgbm_models import QUIET, build, make_rows, make_signal

OBJECTIVES = {
    "regression": "number",
    "regression_l1": "number",
    "huber": "number",
    "fair": "number",
    "poisson": "count",
    "quantile": "number",
    "mape": "number",
    "gamma": "positive",
    "tweedie": "count",
    "binary": 2,
    "multiclass": 3,
    "multiclassova": 3,
    "cross_entropy": "share",
    "cross_entropy_lambda": "share",
}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_signal_scores_first_whatever_the_objective(objective):
    kind = OBJECTIVES[objective]
    params = {**QUIET, "objective": objective, "num_class": kind if objective.startswith("multi") else 1}
    booster = lgb.train(params, lgb.Dataset(*make_signal(0, kind)), 20)
    result = tw.importance(booster, *make_signal(1, kind), rows="heldout")
    assert result.values.argmax() == 1
    others = np.delete(result.values, 1)
    assert result.values[1] > 10 * np.abs(others).max()
    assert result.measure == "ufi_centered"
    reloaded = lgb.Booster(model_str=booster.model_to_string())
    np.testing.assert_array_equal(tw.importance(reloaded, *make_signal(1, kind), rows="heldout").values, result.values)


@pytest.mark.parametrize(
    ("params", "gradient"),
    [
        ({"objective": "regression"}, lambda y: y),
        ({"objective": "regression", "reg_sqrt": True}, lambda y: np.sign(y) * np.sqrt(np.abs(y))),
        ({"objective": "huber", "alpha": 0.5}, "huber"),
        ({"objective": "fair", "fair_c": 0.3}, "fair"),
        ({"objective": "quantile", "alpha": 0.8}, lambda y: -1.0 * (y < np.quantile(y, 0.8, method="inverted_cdf"))),
        ({"objective": "tweedie", "tweedie_variance_power": 1.2}, lambda y: y * y.mean() ** -0.2),
        ({"objective": "poisson"}, lambda y: y),
        ({"objective": "gamma"}, lambda y: y / y.mean()),
    ],
)
def test_parameters_of_the_objective_are_the_models(params, gradient):
    from truewood._inputs import losses

    X, y = make_signal(1, "positive")
    if isinstance(gradient, str):
        loss = {"huber": losses.huber(0.5), "fair": losses.fair(0.3)}[gradient]
        target = loss.make_target(y[:, np.newaxis], np.ones(len(y)))[:, 0]
    else:
        target = gradient(y)
    booster = lgb.train({**QUIET, **params}, lgb.Dataset(*make_signal(0, "positive")), 5)
    by_loss = tw.importance(booster, X, y, rows="heldout").values
    np.testing.assert_allclose(by_loss, tw.importance(booster, X, y, rows="heldout", target=target).values, rtol=1e-9)


@pytest.mark.parametrize("labels", [["no", "yes"], ["a", "b", "c"], [3, 7]])
def test_classifiers_know_their_labels(labels):
    X, y = make_signal(0, len(labels))
    X_test, y_test = make_signal(1, len(labels))
    labels = np.array(labels)
    model = lgb.LGBMClassifier(n_estimators=10, verbose=-1, n_jobs=1).fit(X, labels[y])
    result = tw.importance(model, X_test, labels[y_test], rows="heldout")
    assert result.values.argmax() == 1
    assert result.task == "classification"
    by_number = tw.importance(model.booster_, X_test, y_test, rows="heldout")
    np.testing.assert_array_equal(result.values, by_number.values)
    with pytest.raises(ValueError, match=r"\by\b.*(labels|classes)"):
        tw.importance(model, X_test, y_test + 10, rows="heldout")


def test_classes_come_in_the_order_of_the_raw_scores():
    X, y = make_signal(0, 3)
    X_test, y_test = make_signal(1, 3)
    booster = lgb.train({**QUIET, "objective": "multiclass", "num_class": 3}, lgb.Dataset(X, y), 5)
    target = (y_test[:, np.newaxis] == np.arange(3)).astype(float)
    by_loss = tw.importance(booster, X_test, y_test, rows="heldout")
    by_target = tw.importance(booster, X_test, y_test, rows="heldout", target=target)
    np.testing.assert_allclose(by_loss.values, by_target.values, rtol=1e-9)
    swapped = tw.importance(booster, X_test, y_test, rows="heldout", target=target[:, ::-1])
    assert swapped.values[1] < 0.5 * by_loss.values[1]


def test_regressors_and_early_stopping():
    X, y = make_signal(0, "number")
    X_valid, y_valid = make_signal(2, "number")
    model = lgb.LGBMRegressor(n_estimators=200, verbose=-1, n_jobs=1)
    model.fit(X, y, eval_X=X_valid, eval_y=y_valid, callbacks=[lgb.early_stopping(3, verbose=False)])
    assert tw.to_ensemble(model).n_trees == model.best_iteration_ < 200
    result = tw.importance(model, *make_signal(1, "number"), rows="heldout")
    assert result.values.argmax() == 1
    assert result.task == "regression"
    assert any("early stopping" in note for note in result.notes)
    whole = lgb.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1).fit(X, y, eval_X=X_valid, eval_y=y_valid)
    assert tw.importance(whole, *make_signal(1, "number"), rows="heldout").notes == ()
    stopping = lgb.LGBMRegressor(n_estimators=200, verbose=-1, n_jobs=1, early_stopping_rounds=3)
    assert not any("passed here" in note for note in tw.cross_importance(stopping, X, y, progress=False).notes)
    np.testing.assert_allclose(add_leaf_values(model, X)[:, 0], model.predict(X), rtol=1e-12)


def test_random_forests_and_dart():
    X, y = make_signal(0, "number")
    for boosting in ("rf", "dart"):
        model = lgb.LGBMRegressor(
            boosting_type=boosting, n_estimators=20, subsample=0.6, subsample_freq=1, verbose=-1, n_jobs=1
        )
        result = tw.importance(model.fit(X, y), *make_signal(1, "number"), rows="heldout")
        assert result.values.argmax() == 1
        np.testing.assert_allclose(add_leaf_values(model, X)[:, 0], model.predict(X), rtol=1e-12)


@pytest.mark.parametrize("objective", ["lambdarank", "rank_xendcg"])
def test_rankers_need_a_target(objective):
    X, y = make_signal(0, 3)
    ranker = lgb.LGBMRanker(objective=objective, n_estimators=10, verbose=-1, n_jobs=1).fit(X, y, group=[50] * 10)
    X_test, y_test = make_signal(1, 3)
    with pytest.raises(ValueError, match=rf"'{objective}'.*LGBMRanker.*target="):
        tw.importance(ranker, X_test, y_test, rows="heldout")
    assert tw.importance(ranker, X_test, y_test, rows="heldout", target=y_test).values.argmax() == 1


def test_custom_objectives_need_a_target():
    X_test, y_test = make_rows(1)
    with pytest.raises(ValueError, match=r"Booster.*objective.*target="):
        tw.importance(build("custom"), X_test, y_test, rows="heldout")
    assert tw.importance(build("custom"), X_test, y_test, rows="heldout", target=y_test).values[0] > 0


def test_a_text_without_parameters_needs_a_target():
    X, y = make_signal(0, "number")
    text = lgb.train({**QUIET, "objective": "huber"}, lgb.Dataset(X, y), 2).model_to_string()
    start, end = text.index("parameters:"), text.index("end of parameters")
    booster = lgb.Booster(model_str=text[:start] + text[end + len("end of parameters") :])
    with pytest.raises(ValueError, match=r"Booster.*'alpha'.*'huber'.*target="):
        tw.importance(booster, *make_signal(1, "number"), rows="heldout")


def test_labels_of_a_booster_are_numbers_from_zero():
    with pytest.raises(ValueError, match=r"\by\b.*\b2\b.*\b0\b.*\b1\b"):
        tw.importance(build("binary"), make_rows(1)[0], np.full(300, 2), rows="heldout")
