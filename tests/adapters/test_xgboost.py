"""XGBoost's trees are read as XGBoost itself walks them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, sparse, stats
from sklearn.exceptions import NotFittedError

import truewood as tw
from contract import add_leaf_values, draw_odd_rows, route
from truewood.adapters import open_model
from truewood.data import losses
from truewood.data.tables import read_features

xgb = pytest.importorskip("xgboost")

N_FEATURES = 5
VERSION = tuple(map(int, xgb.__version__.split(".")[:2]))
needs_weights_of_vectors = pytest.mark.skipif(VERSION < (3, 2), reason="vector leaves have no stored weights")
needs_stored_categories = pytest.mark.skipif(VERSION < (3, 1), reason="categories are not stored")


def draw(n_rows=300, seed=0, missing=0.1):
    """Columns 0 and 1 have signal; column 4 holds categories."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, N_FEATURES))
    X[:, 2] = X[:, 2].round(1)
    X[:, 4] = rng.integers(0, 8, n_rows)
    score = 2.0 * X[:, 0] + X[:, 1] + 1.5 * np.isin(X[:, 4], (1, 4, 6))
    X[rng.random(X.shape) < missing] = np.nan
    return X, score, rng


def make_target(name, score, rng):
    noisy = score + 0.5 * rng.standard_normal(len(score))
    return {
        "number": noisy,
        "positive": np.exp(noisy / 3.0),
        "share": 1.0 / (1.0 + np.exp(-noisy)),
        "binary": (noisy > 0).astype(int),
        "classes": np.digitize(noisy, [-1.5, 1.5]),
        "counts": rng.poisson(np.exp(np.clip(score, -3, 3) / 3.0)),
        "numbers": np.column_stack([noisy, -score, rng.standard_normal(len(score))]),
        "positives": np.column_stack([np.exp(noisy / 3.0), np.exp(-score / 3.0)]),
        "labels": np.column_stack([noisy > 0, noisy > 1, noisy < -1]).astype(int),
        "signed times": np.exp(-noisy / 2.0) * np.where(rng.random(len(score)) < 0.3, -1, 1),
    }[name]


@dataclass(frozen=True)
class Case:
    make: Any
    target: str = "number"
    params: dict = field(default_factory=dict)
    missing: float = 0.1


CATEGORICAL = {"feature_types": ["q"] * 4 + ["c"], "enable_categorical": True}
VECTOR = {"multi_strategy": "multi_output_tree", "tree_method": "hist"}
BASE = {"n_estimators": 4, "max_depth": 3, "n_jobs": 1, "random_state": 0}
R, C = xgb.XGBRegressor, xgb.XGBClassifier
CASES = {
    "regressor": Case(R),
    "exact": Case(R, params={"tree_method": "exact"}),
    "approx": Case(R, params={"tree_method": "approx"}),
    "no missing": Case(R, missing=0.0),
    "lossguide": Case(R, params={"grow_policy": "lossguide", "max_leaves": 9, "max_depth": 0}),
    "pruned": Case(R, params={"tree_method": "exact", "gamma": 20.0, "max_depth": 6}),
    "pruned hist": Case(R, params={"gamma": 20.0, "max_depth": 6}),
    "stumps": Case(R, params={"gamma": 1e9}),
    "own base score": Case(R, params={"base_score": 3.5}),
    "subsample": Case(R, params={"subsample": 0.5, "colsample_bytree": 0.6}),
    "forest in rounds": Case(R, params={"num_parallel_tree": 3, "subsample": 0.5}),
    "dart": Case(R, params={"booster": "dart", "rate_drop": 0.5, "n_estimators": 10}),
    "dart classes": Case(C, "classes", {"booster": "dart", "rate_drop": 0.5, "n_estimators": 8}),
    "dart forest": Case(R, params={"booster": "dart", "rate_drop": 0.5, "num_parallel_tree": 2, "subsample": 0.5}),
    "binary": Case(C, "binary"),
    "weighted": Case(C, "binary", {"scale_pos_weight": 3.0}),
    "classes": Case(C, "classes"),
    "classes parallel": Case(C, "classes", {"num_parallel_tree": 2, "subsample": 0.5}),
    "labels": Case(C, "labels"),
    "outputs": Case(R, "numbers"),
    "forest": Case(xgb.XGBRFRegressor),
    "forest classes": Case(xgb.XGBRFClassifier, "classes"),
    "onehot categories": Case(R, params={**CATEGORICAL, "max_cat_to_onehot": 100}),
    "partition": Case(R, params={**CATEGORICAL, "max_cat_to_onehot": 1}),
    "partition approx": Case(R, params={**CATEGORICAL, "max_cat_to_onehot": 1, "tree_method": "approx"}),
    "partition classes": Case(C, "classes", {**CATEGORICAL, "max_cat_to_onehot": 1}),
    "dart partition": Case(
        R, params={**CATEGORICAL, "max_cat_to_onehot": 1, "booster": "dart", "rate_drop": 0.5, "n_estimators": 8}
    ),
    "absolute error": Case(R, params={"objective": "reg:absoluteerror"}),
    "quantiles": Case(R, params={"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.5, 0.9]}),
}
if VERSION >= (3, 2):
    CASES |= {
        "vectors": Case(R, "numbers", VECTOR),
        "vectors parallel": Case(R, "numbers", {**VECTOR, "num_parallel_tree": 2, "subsample": 0.5}),
        "vectors classes": Case(C, "classes", VECTOR),
        "vectors labels": Case(C, "labels", VECTOR),
        "vectors absolute error": Case(R, "numbers", {**VECTOR, "objective": "reg:absoluteerror"}),
        "vectors quantiles": Case(
            R, params={**VECTOR, "objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.5, 0.9]}
        ),
        "vectors lossguide": Case(
            R, "numbers", {**VECTOR, "grow_policy": "lossguide", "max_leaves": 9, "max_depth": 0}
        ),
        "vectors stumps": Case(R, "numbers", {**VECTOR, "gamma": 1e9}),
        "vectors single": Case(R, params=VECTOR),
    }


@cache
def build(name):
    case = CASES[name]
    X, score, rng = draw(missing=case.missing)
    return case.make(**{**BASE, **case.params}).fit(X, make_target(case.target, score, rng))


def dump(model):
    """What the Booster says of itself."""
    booster = model if isinstance(model, xgb.Booster) else model.get_booster()
    return json.loads(booster.save_raw("json"))["learner"]


def dumped_trees(model):
    booster = dump(model)["gradient_booster"]
    return (booster["gbtree"] if booster["name"] == "dart" else booster)["model"]["trees"]


def kept_nodes(tree):
    """The library's numbers of the nodes that a split leads to, in order: pruning leaves others behind."""
    inner = [m for m, left in enumerate(tree["left_children"]) if left >= 0]
    return sorted({0, *(tree[side][m] for m in inner for side in ("left_children", "right_children"))})


def check_leaves(model, given, own):
    """Leaves of truewood are `own`, the library's, under the library's numbers."""
    found = route(model, given)
    own = own.reshape(len(own), -1).astype(int)
    assert own.shape == found.shape
    for t, tree in enumerate(dumped_trees(model)[: own.shape[1]]):
        np.testing.assert_array_equal(np.asarray(kept_nodes(tree))[found[:, t]], own[:, t])


def link(model):
    """Raw base scores, from the stored ones."""
    learner = dump(model)
    base = np.atleast_1d(json.loads(learner["learner_model_param"]["base_score"]))
    name = learner["objective"]["name"]
    if name in ("binary:logistic", "reg:logistic"):
        return np.log(base / (1.0 - base))
    if name in ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft"):
        return np.log(base)
    return base


def odd_rows(model, categorical, seed=1):
    return draw_odd_rows(
        tw.to_ensemble(model), N_FEATURES, seed, categorical=(4,) if categorical else (), infinite=False
    )


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
    stored = np.concatenate([np.asarray(tree["sum_hessian"])[kept_nodes(tree)] for tree in trees])
    n_outputs = ensemble.value.shape[1]
    np.testing.assert_allclose(ensemble.weight, stored / n_outputs, rtol=1e-12)
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
        assert min(dump(build(name))["gradient_booster"]["weight_drop"]) < 1
    assert open_model(build("stumps")).n_nodes.tolist() == [1] * 4


@pytest.mark.parametrize("name", ["partition", "onehot categories"])
@pytest.mark.parametrize("category", [-1.0, -0.5, 2.7, 8.0, 57.0, 2.0**24, 3e9, 1e38])
def test_odd_categories_go_where_the_library_sends_them(name, category, engine):
    model, rows = build(name), draw(50, seed=3)[0]
    rows[:, 4] = category
    check_leaves(model, rows, model.apply(rows))


@pytest.mark.parametrize("name", ["regressor", "partition", "classes", *(["vectors"] if VERSION >= (3, 2) else [])])
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


def frame(n_rows=200, seed=0, letters="abcdefgh"):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "size": rng.standard_normal(n_rows).astype(np.float32),
            "letter": pd.Categorical(rng.choice(list(letters), n_rows)),
            "number": pd.Categorical(rng.choice([3, 5, 70], n_rows)),
            "count": rng.integers(0, 9, n_rows),
            "flag": rng.random(n_rows) < 0.5,
        }
    )
    y = table["size"] + 2.0 * table["letter"].isin(["b", "e"]) + (table["number"] == 5) + rng.standard_normal(n_rows)
    return table, y


@cache
def frame_model(onehot):
    table, y = frame()
    return R(**BASE, enable_categorical=True, max_cat_to_onehot=onehot).fit(table, y)


@pytest.mark.parametrize("onehot", [1, 100])
def test_categories_of_a_data_frame(onehot, engine):
    model, (table, _) = frame_model(onehot), frame(seed=1)
    table.loc[::7, "letter"] = np.nan
    table.loc[::5, "size"] = np.nan
    check_leaves(model, table, model.apply(table))
    assert open_model(model).form.names.tolist() == table.columns.tolist()
    raw = model.predict(table, output_margin=True)[:, np.newaxis]
    np.testing.assert_allclose(add_leaf_values(model, table) + link(model), raw, rtol=1e-6, atol=2e-6)


@needs_stored_categories
@pytest.mark.parametrize("onehot", [1, 100])
def test_categories_are_known_by_their_names(onehot, engine):
    model, (table, _) = frame_model(onehot), frame(seed=1)
    expected = route(model, table)
    other = table.assign(letter=table["letter"].cat.reorder_categories(list("hgfedcba")))
    np.testing.assert_array_equal(route(model, other), expected)
    check_leaves(model, other, model.apply(other))
    some = table[table["letter"].isin(list("ceh")) & (table["number"] != 3)]
    fewer = some.assign(**{name: some[name].cat.remove_unused_categories() for name in ("letter", "number")})
    np.testing.assert_array_equal(route(model, fewer), expected[some.index])
    check_leaves(model, fewer, model.apply(fewer))
    codes = table.assign(letter=table["letter"].cat.codes, number=table["number"].cat.codes).to_numpy(np.float64)
    np.testing.assert_array_equal(route(model, codes), expected)


@needs_stored_categories
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"letter": pd.Categorical(["z"] * 200)}, "category not in the training set for the 1th .* column: `z`"),
        ({"letter": np.arange(200.0)}, "the: 1th feature .* should be either numeric or categorical"),
        ({"number": np.full(200, 5)}, "the: 2th feature .* should be either numeric or categorical"),
    ],
)
def test_categories_the_model_does_not_know_are_refused(change, message):
    model, (table, y) = frame_model(1), frame(seed=1)
    with pytest.raises(ValueError, match=message) as caught:
        tw.importance(model, table.assign(**change), y, rows="heldout")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("X must be a table as the model was fit on: ")


@pytest.mark.parametrize(
    ("column", "dtype"), [(["a"] * 200, "String"), (pd.Timestamp("2020-01-01"), "Datetime"), ([()] * 200, "Object")]
)
def test_columns_that_are_neither_numbers_nor_categories_are_refused(column, dtype):
    model, (table, y) = frame_model(1), frame(seed=1)
    with pytest.raises(ValueError, match=f"but column 'letter' is {dtype}.*; encode it as when the model was fit"):
        tw.importance(model, table.assign(letter=column), y, rows="heldout")


def test_a_frame_of_categories_for_a_model_of_codes(engine):
    table, y = frame()
    codes = table.assign(letter=table["letter"].cat.codes, number=table["number"].cat.codes).to_numpy(np.float64)
    model = R(**BASE, enable_categorical=True, feature_types=["q", "c", "c", "q", "q"], max_cat_to_onehot=1)
    model.fit(codes, y)
    np.testing.assert_array_equal(route(model, table), route(model, codes))
    check_leaves(model, table, model.apply(codes))


def test_categories_for_a_model_of_numbers_are_refused():
    table, y = frame()
    model = R(**BASE).fit(table[["size", "count"]], y)
    with pytest.raises(ValueError, match="column 'count' is Categorical; encode it as when the model was fit"):
        tw.importance(model, table[["size"]].assign(count=table["letter"]), y, rows="heldout")


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
    assert [labels.tolist() for labels in loaded_view.kind.classes] == [labels.tolist() for labels in view.kind.classes]


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
    """A small Booster, and unseen rows with their y."""
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
    ("objective", "pull"),
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
        ("survival:cox", lambda y: _martingale(np.abs(y), y > 0)),
    ],
)
def test_the_loss_is_the_objectives(objective, pull):
    booster, X, y = train(objective)
    result = tw.importance(booster, X, y, rows="heldout")
    given = tw.importance(booster, X, y, rows="heldout", target=pull)
    np.testing.assert_allclose(result.values, given.values, rtol=1e-6, atol=1e-9)


def _martingale(time, event):
    hazard = [sum(e / (time >= t).sum() for t, e in zip(time, event, strict=True) if t <= own) for own in time]
    return event - np.asarray(hazard)


@pytest.mark.skipif(VERSION < (3, 2), reason="the library grows no trees for the second output")
def test_pseudo_huber_takes_the_models_slope_and_each_output_for_itself():
    X, score, rng = draw(400)
    Y = make_target("positives", score, rng)
    test, test_score, test_rng = draw(400, seed=1)
    test_y = make_target("positives", test_score, test_rng)
    booster = xgb.train(
        {"objective": "reg:pseudohubererror", "huber_slope": 0.7, "nthread": 1, "max_depth": 3}, xgb.DMatrix(X, Y), 8
    )

    def pull(y):
        columns = []
        for column in y.T:
            grid = np.linspace(column.min(), column.max(), 20001)
            cost = [np.sqrt(1 + ((column - c) / 0.7) ** 2).sum() for c in grid]
            r = column - grid[int(np.argmin(cost))]
            columns.append(r / np.sqrt(1 + (r / 0.7) ** 2))
        return np.column_stack(columns)

    result = tw.importance(booster, test, test_y, rows="heldout")
    given = tw.importance(booster, test, test_y, rows="heldout", target=pull)
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
    with pytest.raises(ValueError, match=r"y must have shape \(n_rows, 2\)"):
        tw.importance(booster, test, test_y[:, 0], rows="heldout")


@pytest.mark.parametrize("scale", [1.0, 0.05])
@pytest.mark.parametrize("distribution", ["normal", "logistic", "extreme"])
def test_the_target_of_failure_times_is_the_slope_of_their_likelihood(distribution, scale):
    rng = np.random.default_rng(0)
    low = np.exp(rng.standard_normal(40))
    high = low.copy()
    high[:10], low[10:20] = np.inf, 0.0
    found = losses.aft(distribution, scale).pull(np.column_stack([low, np.minimum(high, 1e300)]), np.ones(40))[:, 0]
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
    with pytest.raises(ValueError, match="y must be one number per row, a time, negative where it is censored"):
        tw.importance(booster, X, y, rows="heldout")


@pytest.mark.parametrize("name", CASES)
def test_every_case_can_be_scored(name):
    case, model = CASES[name], build(name)
    X, score, rng = draw(seed=7, missing=case.missing)
    result = tw.importance(model, X, make_target(case.target, score, rng), rows="heldout")
    if "stumps" not in name:
        assert result.values.argmax() == 0
    assert result.per_tree.shape == (open_model(model).n_trees, N_FEATURES)


@pytest.mark.parametrize(
    "strategy", ["one_output_per_tree", pytest.param("multi_output_tree", marks=needs_weights_of_vectors)]
)
def test_outputs_are_scored_by_their_own_columns(strategy):
    """An output that nothing predicts gets next to nothing, and the others as much as their own trees say."""
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
    assert open_model(build("binary")).kind.classes[0].tolist() == [0, 1]
    assert open_model(build("labels")).kind.n_outputs == 3
    assert open_model(build("classes").get_booster()).kind.classes[0].tolist() == [0, 1, 2]
    assert open_model(build("labels").get_booster()).kind.n_outputs == 3
    assert open_model(build("outputs")).kind.n_outputs == 3
    assert open_model(build("quantiles")).n_scores == 3
    booster, X, y = train("multi:softprob")
    with pytest.raises(ValueError, match="y holds labels the model was not fit on: 3; it knows 0, 1, 2"):
        tw.importance(booster, X, y + 1, rows="heldout")


def test_ranking_has_no_target_of_its_own():
    X, score, rng = draw()
    model = xgb.XGBRanker(**BASE).fit(X, make_target("classes", score, rng), qid=np.repeat(np.arange(30), 10))
    rows = odd_rows(model, categorical=False)
    check_leaves(model, rows, model.apply(rows))
    test, test_score, test_rng = draw(seed=1)
    y = make_target("classes", test_score, test_rng)
    with pytest.raises(ValueError, match=r"XGBRanker was fit with rank:ndcg, which compares rows .*; pass target="):
        tw.importance(model, test, y, rows="heldout")
    assert tw.importance(model, test, y, rows="heldout", target=y).values.argmax() == 0


def test_a_custom_objective_has_no_target_of_its_own():
    def objective(y, score):
        return score - y, np.ones_like(y)

    X, score, rng = draw()
    model = R(**BASE, objective=objective).fit(X, make_target("number", score, rng))
    test, test_score, _ = draw(seed=1)
    with pytest.raises(ValueError, match=r"XGBRegressor was fit with a custom objective.*; pass target="):
        tw.importance(model, test, test_score, rows="heldout")
    assert tw.importance(model, test, test_score, rows="heldout", target=test_score).values.argmax() == 0


@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: model.get_booster()])
def test_a_linear_model_is_refused(wrap):
    X, score, rng = draw()
    model = R(booster="gblinear", n_estimators=2).fit(X, make_target("number", score, rng))
    with pytest.raises(TypeError, match="must have trees, booster='gbtree' or 'dart', got booster='gblinear'"):
        tw.to_ensemble(wrap(model))


def test_models_without_trees_are_refused():
    for model in (R(), C(), xgb.XGBRFRegressor(), xgb.Booster()):
        with pytest.raises(NotFittedError):
            tw.to_ensemble(model)
    X, score, _ = draw()
    with pytest.raises(ValueError, match="XGBRegressor must have at least one tree, got none"):
        tw.to_ensemble(R(n_estimators=0).fit(X, score))


@pytest.mark.skipif(VERSION >= (3, 2), reason="weights are stored")
def test_vector_leaves_without_weights_are_refused():
    X, score, rng = draw()
    model = R(**BASE, **VECTOR).fit(X, make_target("numbers", score, rng))
    with pytest.raises(ValueError, match=r"has vector leaves, whose weights XGBoost stores since 3\.2"):
        tw.to_ensemble(model)


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("missing", [np.nan, -1.0])
def test_infinite_values_are_refused_as_in_a_fit(value, missing):
    X, score, rng = draw()
    y = make_target("number", score, rng)
    model = R(**BASE, missing=missing).fit(X, y)
    X[3, 1] = value
    with pytest.raises(xgb.core.XGBoostError, match="contains `inf`"):
        model.apply(X)
    with pytest.raises(ValueError, match=r"infinite values|contains `inf`") as caught:
        tw.importance(model, X, y, rows="heldout")
    assert "\n" not in str(caught.value)


def test_rows_have_to_be_held_out():
    X, score, rng = draw()
    y = make_target("number", score, rng)
    model = build("regressor")
    with pytest.raises(ValueError, match="but XGBRegressor does not record which rows a tree saw; pass rows it never"):
        tw.importance(model, X, y)
    with pytest.raises(ValueError, match="rows='heldout' needs rows the model never saw, got the rows it was fit on"):
        tw.importance(model, X, y, rows="heldout")
    with pytest.raises(ValueError, match="got the rows it was fit on; Booster does not record"):
        tw.importance(model.get_booster(), X, y, rows="heldout")


@needs_weights_of_vectors
def test_rows_of_a_fit_are_known_by_vector_leaves():
    X, score, rng = draw()
    with pytest.raises(ValueError, match="got the rows it was fit on"):
        tw.importance(build("vectors"), X, make_target("numbers", score, rng), rows="heldout")


def test_names_are_the_models():
    X, score, rng = draw()
    y = make_target("number", score, rng)
    table = pd.DataFrame(X, columns=list("abcde"))
    model = R(**BASE).fit(table, y)
    test, test_score, _ = draw(seed=1)
    for other in (model, model.get_booster()):
        assert tw.importance(other, test, test_score, rows="heldout").feature_names.tolist() == list("abcde")
        with pytest.raises(ValueError, match="column 0 should be 'a', got 'b'"):
            tw.importance(other, table[list("bacde")], y, rows="heldout")
        with pytest.raises(ValueError, match="must have the 5 columns"):
            tw.importance(other, X[:, :4], y, rows="heldout")


def test_what_is_read_is_float32():
    form = open_model(build("regressor")).form
    assert read_features(np.zeros((2, N_FEATURES)), form).values.dtype == np.float32
