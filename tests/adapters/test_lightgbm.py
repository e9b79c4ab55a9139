"""LightGBM's trees are read as LightGBM's own prediction reads them."""

from __future__ import annotations

import re
from functools import cache

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import truewood as tw
from contract import add_leaf_values, count_calls, draw_odd_rows, route
from truewood.adapters import open_model

N_FEATURES = 5
CATEGORICAL = 4
TINY = float(np.float32(1e-35))
QUIET = {"verbose": -1, "num_threads": 1, "seed": 0, "num_leaves": 8, "min_data_in_leaf": 5}
BAGGED = {"bagging_freq": 1, "bagging_fraction": 0.7}


def make_rows(seed=0, n_rows=300, zeros=0.3, missing=0.0):
    """Four numeric columns, of which three matter, and one of 40 categories."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, N_FEATURES))
    X[rng.random(X.shape) < zeros] = 0.0
    X[:, CATEGORICAL] = rng.integers(0, 40, n_rows)
    group = np.isin(X[:, CATEGORICAL], [0, 1, 5, 6, 20, 33, 39])
    y = X[:, 0] + 1.5 * (X[:, 1] > 0) + (X[:, 2] < 0) + 2.0 * group + 0.3 * rng.standard_normal(n_rows)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


def train(params=(), *, n_trees=6, missing=0.0, classes=0, **options):
    X, y = make_rows(missing=missing)
    if classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
    return lgb.train({**QUIET, **dict(params)}, lgb.Dataset(X, y, **options), n_trees)


def train_early_stopped():
    X, y = make_rows()
    X_valid, y_valid = make_rows(seed=1)
    valid = lgb.Dataset(X_valid, y_valid)
    stop = lgb.early_stopping(2, verbose=False)
    booster = lgb.train(
        {**QUIET, "learning_rate": 1.0},
        lgb.Dataset(X, y),
        50,
        valid_sets=[valid],
        callbacks=[stop],
        keep_training_booster=True,
    )
    assert 0 < booster.best_iteration < booster.num_trees()
    return booster


def train_on(first, missing):
    """Continue on rows with missing values."""
    X, y = make_rows(seed=2, missing=missing)
    return lgb.train(QUIET, lgb.Dataset(X, y), 4, init_model=first)


def forget_missing_type(booster):
    """Text of a model whose categorical splits say nothing of missing values, as in old files."""
    text = booster.model_to_string(num_iteration=-1)
    return re.sub("(?m)^decision_type=.*$", lambda line: re.sub(r"\b9\b", "1", line[0]), text)


CATEGORIES = {"categorical_feature": [CATEGORICAL]}
WITH_CATEGORIES = {"min_data_per_group": 5, "cat_smooth": 1.0}
MODELS = {
    "no-missing": train,
    "nan": lambda: train(missing=0.1),
    "zero-as-missing": lambda: train({"zero_as_missing": True}),
    "zero-as-missing-with-nan": lambda: train({"zero_as_missing": True}, missing=0.1),
    "use-missing-false": lambda: train({"use_missing": False}, missing=0.1),
    "dart": lambda: train({"boosting": "dart", "drop_rate": 0.5}),
    "rf": lambda: train({"boosting": "rf", **BAGGED}),
    "goss": lambda: train({"data_sample_strategy": "goss", "learning_rate": 0.5}),
    "bagging": lambda: train({**BAGGED, "feature_fraction": 0.6}),
    "extra-trees": lambda: train({"extra_trees": True}),
    "multiclass": lambda: train({"objective": "multiclass", "num_class": 3}, classes=3, missing=0.1),
    "multiclassova": lambda: train({"objective": "multiclassova", "num_class": 3}, classes=3),
    "class-never-seen": lambda: train({"objective": "multiclass", "num_class": 4}, classes=3),
    "binary": lambda: train({"objective": "binary"}, classes=2),
    "categories": lambda: train(WITH_CATEGORIES, **CATEGORIES),
    "categories-nan": lambda: train(WITH_CATEGORIES, missing=0.1, **CATEGORIES),
    "categories-without-missing-type": lambda: lgb.Booster(
        model_str=forget_missing_type(train(WITH_CATEGORIES, **CATEGORIES))
    ),
    "categories-one-hot": lambda: train({**WITH_CATEGORIES, "max_cat_to_onehot": 64}, **CATEGORIES),
    "categories-zero-as-missing": lambda: train({**WITH_CATEGORIES, "zero_as_missing": True}, **CATEGORIES),
    "early-stopping": train_early_stopped,
    "from-text": lambda: lgb.Booster(model_str=train(missing=0.1).model_to_string()),
    "trained-on": lambda: train_on(train(), missing=0.1),
    "single-leaf": lambda: train({"min_data_in_leaf": 300}),
    "rf-single-leaf": lambda: train({"boosting": "rf", **BAGGED, "min_data_in_leaf": 105}),
    "custom": lambda: train({"objective": lambda score, data: (score - data.get_label(), np.ones_like(score))}),
}


@cache
def build(name):
    return MODELS[name]()


def draw_rows(booster, seed=0):
    """Odd rows, with what LightGBM takes for zero and values that are cut to categories."""
    rng = np.random.default_rng(seed)
    ensemble = tw.to_ensemble(booster)
    has_categories = ensemble.categories is not None
    rows = draw_odd_rows(ensemble, N_FEATURES, seed, categorical=(CATEGORICAL,) if has_categories else ())
    for value in (-TINY, TINY, np.nextafter(-TINY, 0), np.nextafter(-TINY, -1), np.nextafter(TINY, 1), 0.0, np.nan):
        rows[rng.integers(len(rows), size=20), rng.integers(N_FEATURES, size=20)] = value
    if has_categories:
        cut = rng.choice([-0.5, -1.0, -1.5, 0.0, 5.9, 39.0, 40.0, 1e9, 1e300, np.inf, -np.inf], size=100)
        rows[rng.integers(len(rows), size=100), CATEGORICAL] = cut
        rows[:40, CATEGORICAL] = np.arange(40)
    return rows


def find_leaves(booster, X):
    """LightGBM's own leaves, numbered after the inner nodes, shape (n_rows, n_trees)."""
    leaves = booster.predict(X, pred_leaf=True).reshape(X.shape[0], -1)
    return leaves + count_inner(booster)


def count_inner(booster):
    trees = booster.dump_model()["tree_info"]
    return np.array([tree["num_leaves"] - 1 for tree in trees])


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


@pytest.mark.parametrize("name", ["no-missing", "nan", "zero-as-missing", "categories"])
def test_polars_frames_are_read_as_lightgbm_reads_them(name, engine):
    booster = build(name)
    X = pl.DataFrame(draw_rows(booster, seed=1), schema=list("abcde")).fill_nan(None)
    np.testing.assert_array_equal(route(booster, X), find_leaves(booster, X))


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


# Data frames


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
    with pytest.raises(ValueError, match="must have the 2 categorical columns Booster was fit on, got 1"):
        tw.importance(booster, frame.assign(level=0), y, rows="heldout")


def test_categories_without_known_ones_are_refused():
    X, y = make_rows()
    frame = pd.DataFrame(X).astype({CATEGORICAL: "category"})
    with pytest.raises(ValueError, match="must have the 0 categorical columns Booster was fit on, got 1"):
        tw.importance(train(), frame, y, rows="heldout")


def test_names():
    X, y = make_rows()
    frame = pd.DataFrame(X, columns=["one two", "b", "c", "d", "e"])
    model = lgb.LGBMRegressor(n_estimators=2, verbose=-1, n_jobs=1).fit(frame, y)
    X_test, y_test = make_rows(1)
    unseen = pd.DataFrame(X_test, columns=frame.columns)
    assert tw.importance(model, unseen, y_test, rows="heldout").feature_names[0] == "one two"
    assert tw.importance(model, X_test, y_test, rows="heldout").feature_names[0] == "one_two"
    with pytest.raises(ValueError, match="column 1 should be 'b', got 'c'"):
        tw.importance(model, unseen[["one two", "c", "b", "d", "e"]], y_test, rows="heldout")
    nameless = train()
    assert tw.importance(nameless, unseen, y_test, rows="heldout").feature_names[0] == "one two"
    assert tw.importance(nameless, X_test, y_test, rows="heldout").feature_names[0] == "x0"


# Objectives


def make_signal(seed, kind):
    """Column 1 matters; column 0 has as many values as rows, and does not."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((500, 4))
    X[:, 1:] = X[:, 1:].round()
    score = np.clip(X[:, 1], -2, 2)
    if kind == "number":
        return X, 5.0 + score + 0.5 * rng.standard_normal(500)
    if kind == "positive":
        return X, np.exp(0.5 * score) * rng.gamma(5.0, 0.2, 500)
    if kind == "count":
        return X, rng.poisson(np.exp(0.5 * score))
    if kind == "share":
        return X, 1.0 / (1.0 + np.exp(-2.0 * score - rng.standard_normal(500)))
    return X, np.clip(np.rint(score + rng.standard_normal(500)) + 1, 0, kind - 1).astype(int)


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
    ("params", "pull"),
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
def test_parameters_of_the_objective_are_the_models(params, pull):
    from truewood.data import losses

    X, y = make_signal(1, "positive")
    if isinstance(pull, str):
        loss = {"huber": losses.huber(0.5), "fair": losses.fair(0.3)}[pull]
        target = loss.pull(y[:, np.newaxis], np.ones(len(y)))[:, 0]
    else:
        target = pull(y)
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
    with pytest.raises(ValueError, match="y holds labels the model was not fit on"):
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


# What is refused


@pytest.mark.parametrize("objective", ["lambdarank", "rank_xendcg"])
def test_rankers_need_a_target(objective):
    X, y = make_signal(0, 3)
    ranker = lgb.LGBMRanker(objective=objective, n_estimators=10, verbose=-1, n_jobs=1).fit(X, y, group=[50] * 10)
    X_test, y_test = make_signal(1, 3)
    with pytest.raises(
        ValueError, match=rf"objective '{objective}' of LGBMRanker is not a sum over rows.*pass target="
    ):
        tw.importance(ranker, X_test, y_test, rows="heldout")
    assert tw.importance(ranker, X_test, y_test, rows="heldout", target=y_test).values.argmax() == 1


def test_custom_objectives_need_a_target():
    X_test, y_test = make_rows(1)
    with pytest.raises(ValueError, match=r"Booster was trained with an objective of the caller's own.*pass target="):
        tw.importance(build("custom"), X_test, y_test, rows="heldout")
    assert tw.importance(build("custom"), X_test, y_test, rows="heldout", target=y_test).values[0] > 0


def test_a_text_without_parameters_needs_a_target():
    X, y = make_signal(0, "number")
    text = lgb.train({**QUIET, "objective": "huber"}, lgb.Dataset(X, y), 2).model_to_string()
    start, end = text.index("parameters:"), text.index("end of parameters")
    booster = lgb.Booster(model_str=text[:start] + text[end + len("end of parameters") :])
    with pytest.raises(ValueError, match="Booster does not store 'alpha' of its objective 'huber'; pass target="):
        tw.importance(booster, *make_signal(1, "number"), rows="heldout")


def test_linear_trees_are_refused():
    booster = lgb.train({**QUIET, "linear_tree": True}, lgb.Dataset(*make_rows()), 2)
    with pytest.raises(ValueError, match=r"linear model in every leaf.*fit it with linear_tree=False"):
        tw.to_ensemble(booster)


def test_unfitted_models_are_refused():
    for make in (lgb.LGBMClassifier, lgb.LGBMRegressor, lgb.LGBMRanker):
        with pytest.raises(NotFittedError, match=make.__name__):
            tw.importance(make(), *make_rows(), rows="heldout")
    with pytest.raises(NotFittedError, match="Booster has no trees; train it first"):
        tw.to_ensemble(lgb.Booster(QUIET, lgb.Dataset(*make_rows(), params=QUIET)))


@pytest.mark.parametrize(
    ("params", "options"),
    [({"zero_as_missing": True}, {}), ({**WITH_CATEGORIES}, CATEGORIES)],
    ids=["zero", "category"],
)
def test_columns_that_are_read_in_two_ways_are_refused(params, options):
    with pytest.raises(ValueError, match=r"column 'Column_\d' is read in two ways"):
        tw.to_ensemble(train_on(train(params, **options), missing=0.1))


def test_zeros_that_go_the_same_way_in_all_trees_are_read(engine):
    """Trees with zero as missing and trees without it, on positive columns without zeros."""
    X, y = make_rows(zeros=0.0)
    X = np.abs(X[:, :4]) + 1.0
    first = lgb.train({**QUIET, "zero_as_missing": True}, lgb.Dataset(X, y), 3)
    booster = lgb.train(QUIET, lgb.Dataset(X, y), 3, init_model=first)
    rows = np.vstack([X, np.zeros((1, 4)), np.full((1, 4), np.nan), -X])
    rows[np.random.default_rng(0).random(rows.shape) < 0.2] = 0.0
    np.testing.assert_array_equal(route(booster, rows), find_leaves(booster, rows))


def test_rows_have_to_be_unseen():
    X, y = make_rows()
    for model in (train(), lgb.LGBMRegressor(n_estimators=3, verbose=-1, n_jobs=1).fit(X, y)):
        with pytest.raises(
            ValueError, match="does not record which rows its trees saw; pass rows it never saw and rows="
        ):
            tw.importance(model, X, y)
        with pytest.raises(ValueError, match="needs rows the model never saw, got the rows it was fit on"):
            tw.importance(model, X, y, rows="heldout")


@pytest.mark.parametrize("name", ["nan", "zero-as-missing", "categories", "class-never-seen"])
def test_training_rows_are_known_by_their_counts(name):
    X, y = make_rows(missing=0.1 if name == "nan" else 0.0)
    y = np.digitize(y, [0, 1]) if name == "class-never-seen" else y
    with pytest.raises(ValueError, match="got the rows it was fit on"):
        tw.importance(build(name), X, y, rows="heldout")


def test_labels_of_a_booster_are_numbers_from_zero():
    with pytest.raises(ValueError, match="y holds labels the model was not fit on: 2; it knows 0, 1"):
        tw.importance(build("binary"), make_rows(1)[0], np.full(300, 2), rows="heldout")


def test_reading_does_not_go_node_by_node():
    """Whole arrays are read, so that trees of ten times as many leaves take no more calls."""
    data = lgb.Dataset(*make_signal(0, "number"), free_raw_data=False)
    small, large = (lgb.train({**QUIET, "num_leaves": n, "min_data_in_leaf": 1}, data, 20) for n in (8, 80))
    assert len(tw.to_ensemble(large).left) > 9 * len(tw.to_ensemble(small).left)
    assert count_calls(lambda: tw.to_ensemble(large)) <= 1.1 * count_calls(lambda: tw.to_ensemble(small))


def test_names_with_spaces_are_known_and_kept():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((200, 2)), columns=["petal length", "petal_width"])
    model = lgb.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1).fit(X, X["petal length"])
    new = X + 0.1
    result = tw.importance(model, new, new["petal length"], rows="heldout")
    assert result.feature_names.tolist() == ["petal length", "petal_width"]
    with pytest.raises(ValueError, match="column 0 should be 'petal_length', got 'petal width'"):
        tw.importance(model, new.set_axis(["petal width", "petal_length"], axis=1), new["petal length"], rows="heldout")


def test_missing_values_stored_in_a_sparse_matrix(engine):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3)) * (rng.random((300, 3)) < 0.6)
    X[rng.random(X.shape) < 0.2] = np.nan
    model = lgb.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1).fit(X, np.nan_to_num(X[:, 0]))
    np.testing.assert_array_equal(route(model, sparse.csr_array(X)), route(model, X))
