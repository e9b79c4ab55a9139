"""Scores follow a y + b as defined, also where y is far from zero, and models whose leaves are huge."""

from __future__ import annotations

from dataclasses import replace

import catboost
import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn.ensemble import (
    AdaBoostRegressor,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

import truewood as tw
from helpers.oracle import best_constant_gradient, score_arrays, size_arrays

N_FIT, N_FEATURES = 90, 4
QUIET = {"n_estimators": 8, "n_jobs": 1, "random_state": 0}
REGRESSORS = {
    "forest": lambda: RandomForestRegressor(6, min_samples_leaf=3, random_state=0),
    "extra trees": lambda: ExtraTreesRegressor(6, min_samples_leaf=3, random_state=0),
    "tree": lambda: DecisionTreeRegressor(min_samples_leaf=3, random_state=0),
    "adaboost": lambda: AdaBoostRegressor(DecisionTreeRegressor(max_depth=3), n_estimators=4, random_state=0),
    "gradient boosting": lambda: GradientBoostingRegressor(n_estimators=8, random_state=0),
    "hist": lambda: HistGradientBoostingRegressor(max_iter=8, min_samples_leaf=5, early_stopping=False),
    "lightgbm": lambda: lightgbm.LGBMRegressor(min_child_samples=5, verbose=-1, **QUIET),
    "xgboost": lambda: xgboost.XGBRegressor(max_depth=3, **QUIET),
    "catboost": lambda: catboost.CatBoostRegressor(
        iterations=8, depth=3, verbose=0, thread_count=1, allow_writing_files=False
    ),
}
# Losses whose gradients do not grow with y, so that steps are small beside values that hold the mean of y.
FAR = {
    "huber": (lambda: lightgbm.LGBMRegressor(objective="huber", min_child_samples=5, verbose=-1, **QUIET), None),
    "absolute": (lambda: lightgbm.LGBMRegressor(objective="l1", min_child_samples=5, verbose=-1, **QUIET), 0.5),
    "quantile": (
        lambda: lightgbm.LGBMRegressor(objective="quantile", alpha=0.3, min_child_samples=5, verbose=-1, **QUIET),
        0.3,
    ),
    "random forest": (
        lambda: lightgbm.LGBMRegressor(
            boosting_type="rf", subsample=0.7, subsample_freq=1, min_child_samples=5, verbose=-1, **QUIET
        ),
        "squared",
    ),
}


def draw(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((2 * N_FIT, N_FEATURES))
    return X, X[:, 0] + (X[:, 1] > 0) + rng.standard_normal(2 * N_FIT)


def score(model, X, y, measure="auto"):
    keeps = measure not in ("mdi", "loss_oob", "permutation")
    return tw.importance(
        model, X, y, rows="heldout", measure=measure, inference=keeps, contributions=keeps, random_state=0
    )


def fit(make, X, y):
    with threadpool_limits(1):
        return make().fit(X, y)


def measures_of(name):
    boosted = ("gradient boosting", "hist", "lightgbm", "xgboost", "catboost")
    several = ["auto", "ufi_centered", "mdi", "mdi_oob"]
    return several if name in boosted else [*several, "ufi", "loss_oob", "permutation"]


@pytest.mark.parametrize("scale", [2.0**-20, 2.0**40], ids=["small", "large"])
@pytest.mark.parametrize("name", REGRESSORS)
def test_scores_scale_with_the_square_of_y(name, scale, engine):
    X, y = draw()
    one, other = fit(REGRESSORS[name], X[:N_FIT], y[:N_FIT]), fit(REGRESSORS[name], X[:N_FIT], scale * y[:N_FIT])
    trees, scaled = tw.to_ensemble(one), tw.to_ensemble(other)
    if name == "xgboost" and scale < 1:
        assert len(scaled.splits) == 0  # gains are too small for it
        return
    np.testing.assert_array_equal(
        trees.threshold[trees.splits], scaled.threshold[scaled.splits]
    )  # 2^k changes no split
    exact = np.array_equal(scale * trees.value, scaled.value)
    assert exact or name in ("adaboost", "xgboost", "catboost", "hist", "lightgbm")
    for measure in measures_of(name):
        plain, moved = score(one, X[N_FIT:], y[N_FIT:], measure), score(other, X[N_FIT:], scale * y[N_FIT:], measure)
        # Where the library computes in float32, or by logarithms, its values scale up to that.
        tolerance = 1e-12 if exact else 1e-4
        biggest = float(np.abs(plain.values).max())
        np.testing.assert_allclose(moved.values / scale**2, plain.values, rtol=tolerance, atol=tolerance * biggest)
        np.testing.assert_allclose(moved.p_value, plain.p_value, rtol=1e-6 if exact else 0.05, atol=tolerance)
        np.testing.assert_allclose(moved.share, plain.share, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("offset", [1.0, 1e6, -1e9, 1e12])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("measure", ["auto", "ufi", "ufi_centered", "mdi", "mdi_oob", "loss_oob"])
def test_values_and_y_may_move_together(measure, scale, offset, engine):
    X, y = draw()
    trees = tw.to_ensemble(fit(REGRESSORS["forest"], X[:N_FIT], y[:N_FIT]))

    def move(numbers):
        return scale * (numbers + offset)

    moved = score(replace(trees, value=move(trees.value)), X[N_FIT:], move(y[N_FIT:]), measure)
    plain = score(trees, X[N_FIT:], y[N_FIT:], measure)
    # y and values are rounded to some 1e-16 of the offset when they move.
    rounded = 1e-14 * max(1.0, abs(offset)) * float(np.abs(y).max())
    np.testing.assert_allclose(moved.values / scale**2, plain.values, rtol=1e-9, atol=rounded)
    if plain.inference_unavailable is None and abs(offset) <= 1e9:
        np.testing.assert_allclose(moved.std_error / scale**2, plain.std_error, rtol=1e-6, atol=rounded)


@pytest.mark.parametrize("size", [1.0, 1e3, 1e7, 1e9, 1e12, 1e-6, 1e-12])
@pytest.mark.parametrize("name", FAR)
def test_boosting_far_from_zero(name, size, engine):
    make, level = FAR[name]
    X, y = draw()
    y = size * (1.0 + 0.3 * y)
    model = fit(make, X[:N_FIT], y[:N_FIT])
    X, y = X[N_FIT:], y[N_FIT:]
    result, trees = score(model, X, y), tw.to_ensemble(model)
    weight, lists = np.ones(N_FIT), [range(N_FIT)] * trees.n_trees
    if name == "huber":  # its gradient is that of truewood; the values are tested here
        target = tw.adapters.open_model(model).target.loss.make_target(y[:, np.newaxis], weight)
    else:
        target = best_constant_gradient("squared" if level == "squared" else name, y, weight, level)
    target = target - target.mean(axis=0)
    scores = score_arrays("ufi_centered", trees, X, target, weight, lists, [[0]])
    error = np.abs(result.values - np.sum(scores, axis=0)[:, 0])
    assert (error <= 2.0**-47 * size_arrays(trees, X, target, weight, lists, [[0]])).all()
    spread = result.contributions - result.contributions.mean(axis=0)
    np.testing.assert_allclose(result.std_error, np.sqrt((spread**2).sum(axis=0)), rtol=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_leaves_of_any_size_have_errors(seed, engine):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((180, 6))
    y = (X[:, 0] + rng.standard_normal(180) > 0).astype(int)
    model = GradientBoostingClassifier(
        n_estimators=8, max_depth=5, subsample=0.6, learning_rate=1.0, random_state=seed
    ).fit(X[:90], y[:90])
    result = score(model, X[90:], y[90:])
    spread = np.sqrt(((result.contributions - result.contributions.mean(axis=0)) ** 2).sum(axis=0))
    is_used = np.isin(np.arange(6), tw.to_ensemble(model).split_features)
    np.testing.assert_allclose(result.std_error[is_used], spread[is_used], rtol=1e-6)
    assert (result.p_value[spread > 0] < 1).all()
    np.testing.assert_allclose(result.contributions.sum(axis=0), result.values, rtol=1e-9)


def test_the_diverged_models_have_huge_leaves():
    largest = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((180, 6))
        y = (X[:, 0] + rng.standard_normal(180) > 0).astype(int)
        options = {"n_estimators": 8, "max_depth": 5, "subsample": 0.6, "learning_rate": 1.0, "random_state": seed}
        trees = tw.to_ensemble(GradientBoostingClassifier(**options).fit(X[:90], y[:90]))
        largest.append(np.abs(trees.value).max())
    assert np.sum(np.array(largest) > 1e8) >= 4


@pytest.mark.parametrize("value", [0.1, 1e9, -1e-9])
def test_leaves_that_are_all_the_same_show_nothing(value, engine):
    X, y = draw()
    model = GradientBoostingRegressor(n_estimators=3, random_state=0).fit(X[:N_FIT], y[:N_FIT])
    trees = tw.to_ensemble(model)
    flat = replace(trees, value=np.full_like(trees.value, value), statistic="leaf")
    result = tw.importance(flat, X[N_FIT:], None, rows="heldout", target=y[N_FIT:])
    np.testing.assert_array_equal(result.values, 0.0)
    np.testing.assert_array_equal(result.std_error, 0.0)
    np.testing.assert_array_equal(result.p_value, 1.0)


@pytest.mark.parametrize("value", [0.1, 1e9 / 3, -7e-9])
def test_a_target_that_does_not_vary_shows_nothing(value, engine):
    X, y = draw()
    model = GradientBoostingRegressor(n_estimators=3, random_state=0).fit(X[:N_FIT], y[:N_FIT])
    constant = np.full(N_FIT, value)
    for result in (
        tw.importance(model, X[N_FIT:], constant, rows="heldout"),
        sum(tw.ImportanceAccumulator(model).update(X[part], constant[: len(X[part])]) for part in halves()).finish(),
    ):
        np.testing.assert_array_equal(result.values, 0.0)
        np.testing.assert_array_equal(result.p_value, 1.0)


def halves():
    return slice(N_FIT, 130), slice(130, None)
