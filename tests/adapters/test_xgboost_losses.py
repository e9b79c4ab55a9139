"""XGBoost's models are scored by what their objectives gradient at."""

from __future__ import annotations

import numpy as np
import pytest
import xgboost as xgb
from scipy import optimize, stats

import truewood as tw
from helpers.contract import add_leaf_values
from helpers.xgboost_models import (
    BASE,
    CASES,
    N_FEATURES,
    R,
    build,
    check_leaves,
    draw,
    link,
    make_target,
    odd_rows,
)
from truewood._inputs import losses
from truewood.adapters import open_model

# Objective -> what y is, and parameters.
OBJECTIVES = {
    "reg:squarederror": ("number", {}),
    "reg:squaredlogerror": ("positive", {}),
    "reg:absoluteerror": ("number", {}),
    "reg:pseudohubererror": ("number", {"huber_slope": 2.0}),
    "reg:quantileerror": ("number", {"quantile_alpha": [0.2, 0.7]}),
    "reg:logistic": ("share", {}),
    "reg:gamma": ("positive", {}),
    "reg:tweedie": ("positive", {"tweedie_variance_power": 1.3}),
    "count:poisson": ("counts", {}),
    "binary:logistic": ("binary", {}),
    "binary:logitraw": ("binary", {}),
    "binary:hinge": ("binary", {}),
    "multi:softmax": ("classes", {"num_class": 3}),
    "multi:softprob": ("classes", {"num_class": 3}),
    "survival:cox": ("signed times", {}),
}


def train(objective, n_rows=400, seed=0, **params):
    """A small Booster, and held-out rows with their y."""
    target, own = OBJECTIVES[objective]
    X, score, rng = draw(n_rows, seed)
    test, test_score, test_rng = draw(n_rows, seed + 1)
    booster = xgb.train(
        {"objective": objective, "max_depth": 3, "nthread": 1, "eta": 0.2, **own, **params},
        xgb.DMatrix(X, make_target(target, score, rng)),
        10,
    )
    return booster, test, make_target(target, test_score, test_rng)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_signal_comes_first_by_every_objective(objective):
    booster, X, y = train(objective)
    result = tw.importance(booster, X, y, rows="heldout")
    assert result.feature_names[np.argsort(-result.values)[:2]].tolist() == ["x0", "x1"]
    assert result.values[0] > 0
    assert np.abs(result.values[2:4]).max() < 0.15 * result.values[0]
    raw = booster.predict(xgb.DMatrix(X), output_margin=True).reshape(len(X), -1)
    np.testing.assert_allclose(add_leaf_values(booster, X) + link(booster), raw, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("objective", "gradient"),
    [
        ("reg:squarederror", lambda y: y),
        ("reg:absoluteerror", lambda y: np.sign(y - np.quantile(y, 0.5, method="inverted_cdf"))),
        (
            "reg:quantileerror",
            lambda y: np.column_stack(
                [-(y < np.quantile(y, q, method="inverted_cdf")).astype(float) for q in (0.2, 0.7)]
            ),
        ),
        ("reg:squaredlogerror", lambda y: np.log1p(y) / np.exp(np.log1p(y).mean())),
        ("reg:gamma", lambda y: y / y.mean()),
        ("reg:tweedie", lambda y: y * y.mean() ** -0.3),
        ("count:poisson", lambda y: y),
        ("binary:hinge", lambda y: y),
        ("multi:softmax", lambda y: np.eye(3)[y]),
    ],
)
def test_the_loss_is_the_objectives(objective, gradient):
    booster, X, y = train(objective)
    result = tw.importance(booster, X, y, rows="heldout")
    given = tw.importance(booster, X, y, rows="heldout", target=gradient)
    np.testing.assert_allclose(result.values, given.values, rtol=1e-6, atol=1e-9)


def test_pseudo_huber_takes_the_models_slope_and_each_output_for_itself():
    X, score, rng = draw(400)
    Y = make_target("positives", score, rng)
    test, test_score, test_rng = draw(400, seed=1)
    test_y = make_target("positives", test_score, test_rng)
    booster = xgb.train(
        {"objective": "reg:pseudohubererror", "huber_slope": 0.7, "nthread": 1, "max_depth": 3}, xgb.DMatrix(X, Y), 8
    )

    def gradient(y):
        columns = []
        for column in y.T:
            grid = np.linspace(column.min(), column.max(), 20001)
            cost = [np.sqrt(1 + ((column - c) / 0.7) ** 2).sum() for c in grid]
            r = column - grid[int(np.argmin(cost))]
            columns.append(r / np.sqrt(1 + (r / 0.7) ** 2))
        return np.column_stack(columns)

    result = tw.importance(booster, test, test_y, rows="heldout")
    given = tw.importance(booster, test, test_y, rows="heldout", target=gradient)
    np.testing.assert_allclose(result.values, given.values, rtol=1e-3)


@pytest.mark.parametrize("distribution", ["normal", "logistic", "extreme"])
def test_accelerated_failure_time(distribution):
    def bounds(score, rng):
        time = np.exp(score / 2.0 + 0.3 * rng.standard_normal(len(score)))
        low, high = time.copy(), time.copy()
        high[:60] = np.inf
        low[60:90] = 0.0
        high[90:120] *= 1.5
        return np.column_stack([low, high])

    X, score, rng = draw(400)
    Y = bounds(score, rng)
    matrix = xgb.DMatrix(X)
    matrix.set_float_info("label_lower_bound", Y[:, 0])
    matrix.set_float_info("label_upper_bound", Y[:, 1])
    params = {"aft_loss_distribution": distribution, "aft_loss_distribution_scale": 0.8, "nthread": 1, "max_depth": 3}
    booster = xgb.train({"objective": "survival:aft", **params}, matrix, 15)
    test, test_score, test_rng = draw(400, seed=1)
    test_y = bounds(test_score, test_rng)
    result = tw.importance(booster, test, test_y, rows="heldout")
    assert np.argsort(-result.values)[:2].tolist() == [0, 1]
    assert np.isfinite(result.values).all()
    finite = np.where(np.isinf(test_y), 1e12, test_y)
    near = tw.importance(booster, test, finite, rows="heldout")
    np.testing.assert_allclose(result.values, near.values, rtol=1e-6)
    with pytest.raises(ValueError, match=r"\by\b.*\(n_rows, 2\)"):
        tw.importance(booster, test, test_y[:, 0], rows="heldout")


@pytest.mark.parametrize("scale", [1.0, 0.05])
@pytest.mark.parametrize("distribution", ["normal", "logistic", "extreme"])
def test_the_target_of_failure_times_is_the_slope_of_their_likelihood(distribution, scale):
    rng = np.random.default_rng(0)
    low = np.exp(rng.standard_normal(40))
    high = low.copy()
    high[:10], low[10:20] = np.inf, 0.0
    found = losses.aft(distribution, scale).make_target(np.column_stack([low, np.minimum(high, 1e300)]), np.ones(40))[
        :, 0
    ]
    noise = {"normal": stats.norm, "logistic": stats.logistic, "extreme": stats.gumbel_l}[distribution]

    def slope(score):
        def likelihood(at):
            with np.errstate(divide="ignore", over="ignore"):
                start, end = (np.log(low) - at) / scale, (np.log(high) - at) / scale
                censored = np.where(np.isinf(high), noise.logsf(start), noise.logcdf(end))
                return np.where(low == high, noise.logpdf(start), censored)

        return (likelihood(score + 1e-6) - likelihood(score - 1e-6)) / 2e-6

    best = optimize.brentq(lambda score: slope(score).sum(), np.log(low[20:]).min() - 1, np.log(low[20:]).max() + 1)
    np.testing.assert_allclose(found, slope(best), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("y", [np.ones((400, 2)), np.array(["a"] * 400)])
def test_times_of_cox_loss_are_one_number_per_row(y):
    booster, X, _ = train("survival:cox")
    with pytest.raises(ValueError, match=r"\by\b.*time.*censored"):
        tw.importance(booster, X, y, rows="heldout")


@pytest.mark.parametrize("name", CASES)
def test_every_case_can_be_scored(name):
    case, model = CASES[name], build(name)
    X, score, rng = draw(seed=7, missing=case.missing)
    result = tw.importance(model, X, make_target(case.target, score, rng), rows="heldout")
    if "stumps" not in name:
        assert result.values.argmax() == 0
    assert result.per_tree.shape == (open_model(model).n_trees, N_FEATURES)


@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
def test_outputs_are_scored_by_their_own_columns(strategy):
    """An output that nothing predicts gets next to nothing, and the others what their own trees add."""
    X, score, rng = draw(600)
    model = R(**BASE, base_score=0.0, multi_strategy=strategy, tree_method="hist").fit(
        X, make_target("numbers", score, rng)
    )
    test, test_score, test_rng = draw(600, seed=1)
    y = make_target("numbers", test_score, test_rng)
    result = tw.importance(model, test, y, rows="heldout")
    assert result.per_output.shape == (3, N_FEATURES)
    assert result.per_output[:2, 0].min() > 1
    assert np.abs(result.per_output[2]).max() < 0.1
    # A model of the first output alone has the same trees only where they are grown for themselves.
    if strategy == "one_output_per_tree":
        X, score, rng = draw(600)
        alone = R(**BASE, base_score=0.0, tree_method="hist").fit(X, make_target("numbers", score, rng)[:, 0])
        own = tw.importance(alone, test, y[:, 0], rows="heldout")
        np.testing.assert_allclose(result.per_output[0], own.values, rtol=1e-4, atol=1e-4)


def test_kinds_of_y():
    assert open_model(build("binary")).target.kind.classes[0].tolist() == [0, 1]
    assert open_model(build("labels")).target.kind.n_outputs == 3
    assert open_model(build("classes").get_booster()).target.kind.classes[0].tolist() == [0, 1, 2]
    assert open_model(build("labels").get_booster()).target.kind.n_outputs == 3
    assert open_model(build("outputs")).target.kind.n_outputs == 3
    assert open_model(build("quantiles")).target.n_scores == 3
    booster, X, y = train("multi:softprob")
    with pytest.raises(ValueError, match=r"\by\b.*\b3\b.*\b0\b.*\b1\b.*\b2\b"):
        tw.importance(booster, X, y + 1, rows="heldout")


def test_ranking_has_no_target_of_its_own():
    X, score, rng = draw()
    model = xgb.XGBRanker(**BASE).fit(X, make_target("classes", score, rng), qid=np.repeat(np.arange(30), 10))
    rows = odd_rows(model, categorical=False)
    check_leaves(model, rows, model.apply(rows))
    test, test_score, test_rng = draw(seed=1)
    y = make_target("classes", test_score, test_rng)
    with pytest.raises(ValueError, match=r"XGBRanker.*rank:ndcg.*target="):
        tw.importance(model, test, y, rows="heldout")
    assert tw.importance(model, test, y, rows="heldout", target=y).values.argmax() == 0


def test_a_custom_objective_has_no_target_of_its_own():
    def objective(y, score):
        return score - y, np.ones_like(y)

    X, score, rng = draw()
    model = R(**BASE, objective=objective).fit(X, make_target("number", score, rng))
    test, test_score, _ = draw(seed=1)
    with pytest.raises(ValueError, match=r"XGBRegressor.*custom objective.*target="):
        tw.importance(model, test, test_score, rows="heldout")
    assert tw.importance(model, test, test_score, rows="heldout", target=test_score).values.argmax() == 0
