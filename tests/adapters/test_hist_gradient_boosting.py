"""scikit-learn's HistGradientBoosting."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)

import truewood as tw
from helpers.boosting_data import N_FEATURES, SIGNAL, draw_data, sums_may_overflow
from helpers.contract import add_leaf_values, draw_odd_rows, route
from truewood.adapters import open_model

pytestmark = [pytest.mark.usefixtures("one_thread"), sums_may_overflow]
HIST = {
    "binary": (HistGradientBoostingClassifier, "binary", {}),
    "multiclass": (HistGradientBoostingClassifier, "multiclass", {"max_iter": 3}),
    "class-weight": (HistGradientBoostingClassifier, "binary", {"class_weight": "balanced"}),
    "squared": (HistGradientBoostingRegressor, "regression", {}),
    "absolute": (HistGradientBoostingRegressor, "regression", {"loss": "absolute_error"}),
    "gamma": (HistGradientBoostingRegressor, "positive", {"loss": "gamma"}),
    "poisson": (HistGradientBoostingRegressor, "positive", {"loss": "poisson"}),
    "quantile": (HistGradientBoostingRegressor, "regression", {"loss": "quantile", "quantile": 0.3}),
    "early-stopping": (
        HistGradientBoostingRegressor,
        "regression",
        {"early_stopping": True, "n_iter_no_change": 2, "learning_rate": 1.0, "max_iter": 50},
    ),
    "monotonic": (HistGradientBoostingRegressor, "regression", {"monotonic_cst": [0, 0, 1, 0, -1]}),
    "interactions": (HistGradientBoostingRegressor, "regression", {"interaction_cst": "no_interactions"}),
    "few-bins": (HistGradientBoostingRegressor, "regression", {"max_bins": 4}),
}
CATEGORICAL = (1, 3)


def fit_hist(name, *, categorical=None, missing=True, **options):
    make, task, own = HIST[name]
    X, y = draw_data(task)
    rng = np.random.default_rng(5)
    if categorical is not None:
        X, y = add_categories(X, y, rng)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    if missing and categorical is None:
        X[rng.random(X.shape) < 0.03] = np.inf
        X[rng.random(X.shape) < 0.03] = -np.inf
    # Weights and a penalty give leaves values of their own, so that a wrong leaf shows.
    options = {
        "max_iter": 6,
        "max_bins": 40,
        "max_leaf_nodes": 16,
        "min_samples_leaf": 5,
        "l2_regularization": 1.0,
        **own,
        **options,
    }
    with np.errstate(invalid="ignore"):  # bins between infinite values
        return make(categorical_features=categorical, random_state=0, **options).fit(
            X, y, sample_weight=rng.random(len(y))
        )


def add_categories(X, y, rng):
    """Columns of categories that change y, so that trees split on them too: some labels are drawn anew."""
    X = X.copy()
    for j in CATEGORICAL:
        X[:, j] = rng.integers(0, 12, len(X))
    is_odd = (X[:, 1] % 3 == 0).astype(int) + (X[:, 3] % 2 == 0)
    if y.dtype.kind == "U":
        return X, np.where(rng.random(len(X)) < 0.3 * is_odd, np.unique(y)[-1], y)
    return X, y + 2.0 * is_odd


def find_stages(model, X):
    """What each iteration adds to the raw scores, as the library's own staged predictions have it."""
    raw = np.stack(list(model._staged_raw_predict(X)))
    base = np.broadcast_to(model._baseline_prediction, raw[:1].shape)
    return np.diff(np.concatenate([base, raw]), axis=0)  # (iteration, row, score)


def check_hist(model, rows):
    """Compare with the library tree by tree: the routed leaf has the value that the iteration adds."""
    ensemble = tw.to_ensemble(model)
    leaves = route(model, rows)
    values = ensemble.value[leaves + ensemble.offset[:-1], 0]
    assert (ensemble.left[leaves + ensemble.offset[:-1]] < 0).all()
    stages = find_stages(model, rows)
    added = np.moveaxis(values.reshape(len(values), *stages[:, 0].shape), 0, 1)
    np.testing.assert_allclose(added, stages, atol=1e-9)
    raw = model._raw_predict(rows) - model._baseline_prediction
    np.testing.assert_allclose(add_leaf_values(model, rows), raw, atol=1e-9)
    records = np.concatenate([predictor.nodes for iteration in model._predictors for predictor in iteration])
    np.testing.assert_array_equal(ensemble.weight, records["count"])
    for t in range(ensemble.n_trees):
        own = slice(*ensemble.offset[t : t + 2])
        at_leaves = ensemble.value[own][ensemble.left[own] < 0]
        # Otherwise a wrong leaf would go unnoticed; monotonic constraints make some leaves equal.
        assert len(np.unique(at_leaves)) >= (0.9 if model.monotonic_cst is None else 0.5) * len(at_leaves)
    return leaves


@pytest.mark.parametrize("name", HIST)
def test_hist_gradient_boosting_keeps_the_contract(name, engine):
    model = fit_hist(name)
    rows = draw_odd_rows(tw.to_ensemble(model), N_FEATURES, seed=1)
    leaves = check_hist(model, rows)
    with np.errstate(over="ignore"):
        narrow = rows.astype(np.float32)
    np.testing.assert_array_equal(route(model, narrow), route(model, narrow.astype(np.float64)))
    check_hist(model, narrow)
    np.testing.assert_array_equal(route(model, pd.DataFrame(rows)), leaves)


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
def test_splits_that_part_odd_values_from_all_others(odd, engine):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (300, 2)).astype(float)
    X[:150, 0] = odd
    model = HistGradientBoostingRegressor(max_iter=3, l2_regularization=1.0, random_state=0)
    with np.errstate(invalid="ignore"):
        model.fit(X, 5.0 * (X[:, 0] >= 0) * np.isfinite(X[:, 0]) + X[:, 1])
    ensemble = tw.to_ensemble(model)
    assert ensemble.feature[0] == 0
    assert abs(ensemble.threshold[0]) >= 1e300
    values = [-np.inf, -1e308, -1.0, 0.0, 2.0, 1e300, np.finfo(np.float64).max, np.inf, np.nan]
    check_hist(model, np.array([[a, b] for a in values for b in values]))


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", ["binary", "multiclass", "squared"])
def test_categories_given_as_numbers(name, missing, engine):
    model = fit_hist(name, categorical=list(CATEGORICAL), missing=missing)
    ensemble = tw.to_ensemble(model)
    assert ensemble.categories is not None
    assert {1, 3} <= set(ensemble.feature[ensemble.categories.node_set >= 0]) <= {1, 3}
    assert SIGNAL in ensemble.feature[ensemble.splits]
    rows = draw_odd_rows(ensemble, N_FEATURES, seed=1, categorical=CATEGORICAL)
    rows[:20, 1] = -1.0
    rows[20:40, 3] = 2.5
    check_hist(model, rows)


def test_codes_that_no_row_had_go_where_missing_values_go(engine):
    """Encoding leaves no such codes, but they may occur if the trees are used alone."""
    model = fit_hist("squared", categorical=list(CATEGORICAL))
    ensemble = tw.to_ensemble(model)
    codes = draw_odd_rows(ensemble, N_FEATURES, seed=1, categorical=CATEGORICAL)
    codes[:100, list(CATEGORICAL)] = np.random.default_rng(0).integers(-3, 40, (100, 2))
    codes[codes[:, 1] > 255, 1] = codes[codes[:, 3] > 255, 3] = 255.0  # the library cuts them to a byte
    order = [1, 3, 0, 2, 4]  # categories first
    known, row_of = model._bin_mapper.make_known_categories_bitsets()
    values = ensemble.value[route(ensemble, codes) + ensemble.offset[:-1], 0]
    for t, (predictor,) in enumerate(model._predictors):
        np.testing.assert_array_equal(values[:, t], predictor.predict(codes[:, order], known, row_of, 1))


def test_many_categories_of_which_most_are_rare(engine):
    rng = np.random.default_rng(0)
    category = rng.integers(0, 254, 1500)
    X = np.column_stack([category, rng.standard_normal(1500)])
    model = HistGradientBoostingRegressor(categorical_features=[0], max_iter=5, min_samples_leaf=1, random_state=0).fit(
        X, np.sin(category * 1.7) + 0.1 * X[:, 1]
    )
    rows = np.column_stack([np.arange(-5, 400), np.zeros(405)])
    check_hist(model, rows)


def test_categories_of_a_data_frame(engine):
    rng = np.random.default_rng(3)
    X, y = add_categories(*draw_data("regression"), rng)
    names = ["first", "town", "signal", "color", "last"]

    def make_frame(values):
        frame = pd.DataFrame(values, columns=names)
        frame["town"] = pd.Categorical.from_codes(values[:, 1].astype(int), [f"town {k}" for k in range(14)])
        frame["color"] = pd.Categorical.from_codes(values[:, 3].astype(int), [f"c{k}" for k in range(14)])
        return frame

    train = make_frame(X)
    train.loc[train.index[::9], "town"] = np.nan
    model = HistGradientBoostingRegressor(
        categorical_features="from_dtype", max_iter=10, min_samples_leaf=5, random_state=0
    ).fit(train, y)
    ensemble = tw.to_ensemble(model)
    assert set(ensemble.feature[ensemble.categories.node_set >= 0]) == {1, 3}
    codes = rng.integers(0, 14, (300, N_FEATURES)).astype(float)
    codes[:, [0, 2, 4]] = rng.standard_normal((300, 3))
    rows = make_frame(codes)
    rows.loc[rows.index[::7], "color"] = np.nan
    check_hist(model, rows)

    X_test, y_test = add_categories(*draw_data("regression", seed=1), rng)
    result = tw.importance(model, make_frame(X_test), y_test, rows="heldout")
    assert result.feature_names.tolist() == names
    assert set(np.argsort(-result.values)[:3]) == {1, 2, 3}
    assert np.abs(result.values[[0, 4]]).max() < 0.1 * result.values[[1, 2, 3]].min()


@pytest.mark.parametrize(
    "spoil",
    [lambda table: table.assign(letter=1.5), lambda table: table.assign(number="a"), lambda table: table["letter"]],
)
def test_a_table_of_other_types_than_that_of_the_fit_is_refused(spoil):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"letter": rng.choice(list("abc"), 200), "number": rng.standard_normal(200)})
    model = HistGradientBoostingRegressor(categorical_features=["letter"], max_iter=3).fit(table, table["number"])
    message = r"^X must be a table.*HistGradientBoostingRegressor.*categories and numbers"
    with pytest.raises(ValueError, match=message):
        tw.importance(model, spoil(table), table["number"], rows="heldout")


@pytest.mark.parametrize("name", HIST)
def test_hist_gradient_boosting_finds_the_signal(name):
    X, y = draw_data(HIST[name][1], seed=1)
    result = tw.importance(fit_hist(name), X, y, rows="heldout")
    assert result.values.argmax() == SIGNAL
    assert result.values[SIGNAL] > 10 * np.abs(np.delete(result.values, SIGNAL)).max()


def test_hist_early_stopping_is_read_up_to_where_it_stopped():
    model = fit_hist("early-stopping")
    assert open_model(model).n_trees == model.n_iter_ < 50


@pytest.mark.parametrize("name", ["binary", "multiclass", "squared"])
def test_hist_gradient_boosting_refuses_its_training_rows(name):
    X, y = draw_data(HIST[name][1])
    model = fit_hist(name, missing=False)
    with pytest.raises(tw.TrainingRowsError, match=r"rows='heldout'.*HistGradientBoosting"):
        tw.importance(model, X, y, rows="heldout")
    with pytest.raises(ValueError, match="rows='auto'"):
        tw.importance(model, X, y)


def test_a_loss_of_ones_own_needs_a_target():
    from sklearn._loss import HalfSquaredError

    X, y = draw_data("regression", seed=1)
    model = fit_hist("squared", loss=HalfSquaredError())
    with pytest.raises(ValueError, match=r"loss=.*HistGradientBoostingRegressor.*target="):
        tw.importance(model, X, y, rows="heldout")
    assert tw.importance(model, X, y, rows="heldout", target=y).values.argmax() == SIGNAL
