"""CatBoost's models: leaves, sums and weights are its own, for every kind of tree, feature and loss."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pytest
from catboost import CatBoost, CatBoostClassifier, CatBoostRanker, CatBoostRegressor, Pool, sum_models
from scipy import sparse
from sklearn.exceptions import NotFittedError

import truewood as tw
from contract import add_leaf_values, draw_odd_rows, route
from truewood.adapters import open_model
from truewood.data.target import LARGEST
from truewood.scoring import batches

N_FEATURES = 4
QUIET = {"verbose": 0, "thread_count": 1, "allow_writing_files": False, "random_seed": 0}
POLICIES = ["SymmetricTree", "Depthwise", "Lossguide"]
CATEGORICAL = ["a", "b", "c"]


def draw(n_rows=300, seed=0, missing=False):
    """Numbers; the first column drives the second value that is given."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, N_FEATURES))
    score = X[:, 0] + 0.3 * rng.standard_normal(n_rows)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, score


def draw_mixed(n_rows=800, seed=0):
    """A frame of numbers and strings: "a" and "c" count together, and "f0"."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "f0": rng.standard_normal(n_rows),
            "a": rng.choice(list("abcdef"), n_rows),
            "b": rng.choice(["u", "v"], n_rows),
            "f1": rng.standard_normal(n_rows),
            "c": rng.choice(list("wxyz"), n_rows),
        }
    )
    y = 2.0 * (frame["a"].isin(list("abc")) ^ frame["c"].isin(["w", "x"])) + frame["f0"] + frame["a"].eq("a")
    return frame, (y + 0.1 * rng.standard_normal(n_rows)).to_numpy()


def find_own_leaves(model, X, tmp_path):
    """Leaves by CatBoost, numbered as truewood does; those of trees of any shape are numbered anew when loaded."""
    numbered = model
    if model.get_all_params()["grow_policy"] != "SymmetricTree":
        model.save_model(str(tmp_path / "model.json"), format="json")
        numbered = CatBoost().load_model(str(tmp_path / "model.json"), format="json")
    ensemble = tw.to_ensemble(model)
    found = numbered.calc_leaf_indexes(X)
    return np.column_stack(
        [
            np.flatnonzero(ensemble.left[start:end] < 0)[found[:, t]]
            for t, (start, end) in enumerate(zip(ensemble.offset[:-1], ensemble.offset[1:], strict=True))
        ]
    )


def check_trees(model, X, tmp_path):
    """Leaves, weights and sums are CatBoost's."""
    ensemble, nodes = tw.to_ensemble(model), route(model, X)
    np.testing.assert_array_equal(nodes, find_own_leaves(model, X, tmp_path))
    if ensemble.kind.n_outputs == 1:  # CatBoost does not hand out the weights of trees of several values
        leaves = np.cumsum([0, *model.get_tree_leaf_counts()])[:-1] + model.calc_leaf_indexes(X)
        np.testing.assert_allclose(ensemble.weight[nodes + ensemble.offset[:-1]], model.get_leaf_weights()[leaves])
    inner = ensemble.splits
    below = ensemble.weight[ensemble.left[inner]] + ensemble.weight[ensemble.right[inner]]
    np.testing.assert_allclose(ensemble.weight[inner], below)
    _, bias = model.get_scale_and_bias()
    raw = np.reshape(model.predict(X, prediction_type="RawFormulaVal"), (len(nodes), -1))
    np.testing.assert_allclose(add_leaf_values(model, X) + bias, raw, rtol=1e-6, atol=1e-6)


NUMBERS = {
    "squared error": {"loss_function": "RMSE"},
    "deep": {"loss_function": "RMSE", "depth": 6, "iterations": 3},
    "shallow": {"loss_function": "RMSE", "depth": 1},
    "nan max": {"loss_function": "RMSE", "nan_mode": "Max"},
    "nan unseen": {"loss_function": "RMSE", "missing": False},
    "nan unseen max": {"loss_function": "RMSE", "nan_mode": "Max", "missing": False},
    "weights": {"loss_function": "RMSE", "weight": True},
    "logistic": {"loss_function": "Logloss"},
    "several classes": {"loss_function": "MultiClass"},
    "one vs rest": {"loss_function": "MultiClassOneVsAll"},
    "several outputs": {"loss_function": "MultiRMSE"},
    "several quantiles": {"loss_function": "MultiQuantile:alpha=0.2,0.5"},
    "shrunk": {"loss_function": "RMSE", "model_shrink_rate": 0.1, "learning_rate": 0.3},
    "ordered": {"loss_function": "RMSE", "boosting_type": "Ordered"},
}


@cache
def fit_numbers(option, policy):
    options = {"iterations": 6, "depth": 3, **QUIET, **NUMBERS[option], "grow_policy": policy}
    X, score = draw(missing=options.pop("missing", True))
    weight = np.random.default_rng(1).random(len(X)) if options.pop("weight", False) else None
    y = {
        "Logloss": (score > 0).astype(int),
        "MultiClass": np.digitize(score, [-0.5, 0.5]),
        "MultiClassOneVsAll": np.digitize(score, [-0.5, 0.5]),
        "MultiRMSE": np.column_stack([score, score**2]),
    }.get(options["loss_function"], score)
    return CatBoost(options).fit(Pool(X, y, weight=weight))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("option", NUMBERS)
def test_leaves_sums_and_weights_are_catboosts(option, policy, engine, tmp_path):
    if option == "ordered" and policy != "SymmetricTree":
        pytest.skip("CatBoost boosts other trees in plain order only")
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
    whole = CatBoostRegressor(**options, use_best_model=False).fit(X, y, eval_set=(X_new, y_new))
    assert tw.to_ensemble(whole).n_trees == 300


def test_a_sum_of_models():
    models = [fit_numbers("logistic", "SymmetricTree"), fit_numbers("logistic", "SymmetricTree")]
    model = sum_models(models, weights=[1.0, 0.5])
    X, score = draw(seed=6)
    np.testing.assert_allclose(add_leaf_values(model, X)[:, 0], model.predict(X), atol=1e-9)
    assert tw.importance(model, X, score > 0, rows="heldout").values.argmax() == 0
    mixed = sum_models([models[0], fit_numbers("squared error", "SymmetricTree")])
    with pytest.raises(ValueError, match="CatBoost does not record the loss it was fit with; pass target="):
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


def times(score):
    return np.exp(score)


LOSSES = {
    "RMSE": lambda score: score,
    "MAE": lambda score: score,
    "MAPE": lambda score: 10 * score,
    "Quantile:alpha=0.7": lambda score: score,
    "LogLinQuantile:alpha=0.3": times,
    "MultiQuantile:alpha=0.1,0.9": lambda score: score,
    "Expectile:alpha=0.3": lambda score: score,
    "Huber:delta=0.5": lambda score: score,
    "LogCosh": lambda score: score,
    "Poisson": lambda score: np.round(times(score)),
    "Tweedie:variance_power=1.3": lambda score: np.round(times(score)),
    "Logloss": lambda score: (score > 0).astype(int),
    "Focal:focal_alpha=0.3;focal_gamma=2.0": lambda score: (score > 0).astype(int),
    "CrossEntropy": lambda score: 1 / (1 + np.exp(-score)),
    "MultiLogloss": lambda score: np.column_stack([score > 0, score > 1]).astype(int),
    "MultiCrossEntropy": lambda score: np.column_stack([score > 0, score > 1]) * 0.9,
    "MultiClass": lambda score: np.digitize(score, [-0.5, 0.5]),
    "MultiClassOneVsAll": lambda score: np.digitize(score, [-0.5, 0.5]),
    "MultiRMSE": lambda score: np.column_stack([score, -score]),
    "MultiRMSEWithMissingValues": lambda score: np.column_stack([score, -score]),
    "Cox": lambda score: np.where(np.arange(len(score)) % 4 == 0, -1, 1) * times(score),
    "SurvivalAft:dist=Logistic;scale=1.2": lambda score: bound(score),
    "SurvivalAft:dist=Extreme": lambda score: bound(score),
    "SurvivalAft": lambda score: bound(score),
}


def bound(score):
    """Bounds of time: seen, right-censored, left-censored and in an interval, in turn."""
    lower = upper = times(score)
    kind = np.arange(len(score)) % 4
    return np.column_stack(
        [np.where(kind == 2, -1, lower), np.choose(kind, [upper, np.full(len(upper), -1.0), upper, 1.5 * upper])]
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_finds_the_signal(loss):
    X, score = draw(600)
    model = CatBoost({"iterations": 30, "depth": 3, "loss_function": loss, **QUIET}).fit(X, LOSSES[loss](score))
    X_new, score = draw(600, seed=1)
    result = tw.importance(model, X_new, LOSSES[loss](score), rows="heldout")
    assert result.values[0] > 10 * np.abs(result.values[1:]).max()
    assert np.isfinite(result.mdi).all()
    n_scores = np.reshape(model.predict(X_new, prediction_type="RawFormulaVal"), (len(X_new), -1)).shape[1]
    assert result.per_output.shape == (n_scores, N_FEATURES)


def test_a_target_border_turns_numbers_into_classes():
    X, score = draw(600)
    options = {"iterations": 20, "depth": 3, "loss_function": "Logloss", **QUIET}
    model = CatBoost({**options, "target_border": 0.3}).fit(X, score)
    same = CatBoost(options).fit(X, (score > 0.3).astype(int))
    X_new, score = draw(600, seed=1)
    values = tw.importance(model, X_new, score, rows="heldout").values
    np.testing.assert_allclose(values, tw.importance(same, X_new, score > 0.3, rows="heldout").values, rtol=1e-9)


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [3, 5], [0.5, 1.5]])
def test_labels_of_two_classes(labels):
    X, score = draw(400)
    model = CatBoostClassifier(iterations=20, depth=3, **QUIET).fit(X, np.array(labels)[(score > 0).astype(int)])
    X_new, score = draw(400, seed=1)
    coded = CatBoostClassifier(iterations=20, depth=3, **QUIET).fit(X, (draw(400)[1] > 0).astype(int))
    values = tw.importance(model, X_new, np.array(labels)[(score > 0).astype(int)], rows="heldout").values
    np.testing.assert_allclose(values, tw.importance(coded, X_new, score > 0, rows="heldout").values, rtol=1e-9)
    with pytest.raises(ValueError, match="y holds labels the model was not fit on"):
        tw.importance(model, X_new, np.full(400, "maybe"), rows="heldout")


def test_labels_of_several_classes_in_any_order():
    X, score = draw(600)
    X_new, new = draw(600, seed=1)
    options = {"iterations": 20, "depth": 3, "loss_function": "MultiClass", **QUIET}
    label, new_label = np.digitize(score, [-0.5, 0.5]), np.digitize(new, [-0.5, 0.5])
    names = np.array(["low", "mid", "high"])
    model = CatBoostClassifier(**options).fit(X, names[label])
    assert model.classes_.tolist() == ["high", "low", "mid"]
    per_output = tw.importance(model, X_new, names[new_label], rows="heldout").per_output
    turned = CatBoostClassifier(**options, class_names=[2, 1, 0]).fit(X, label)
    expected = tw.importance(turned, X_new, new_label, rows="heldout").per_output
    np.testing.assert_allclose(per_output, expected[[0, 2, 1]], rtol=1e-6)
    assert (per_output[:, 0] > 0).all()


def test_classes_that_were_never_met_have_no_score():
    X, score = draw(600)
    label = np.array([0, 2, 3])[np.digitize(score, [-0.5, 0.5])]
    model = CatBoostClassifier(iterations=5, classes_count=5, **QUIET).fit(X, label)
    assert open_model(model).kind.classes[0].tolist() == [0, 2, 3]
    X_new, score = draw(600, seed=1)
    label = np.array([0, 2, 3])[np.digitize(score, [-0.5, 0.5])]
    assert tw.importance(model, X_new, label, rows="heldout").values.argmax() == 0


@pytest.mark.parametrize(
    "loss", ["YetiRank", "QueryRMSE", "PairLogit", "QuerySoftMax", "LambdaMart", "StochasticRank:metric=NDCG"]
)
def test_a_ranking_loss_needs_a_target(loss):
    X, score = draw(600)
    relevance = np.digitize(score, [-0.5, 0.5])
    model = CatBoostRanker(iterations=20, depth=3, loss_function=loss, **QUIET)
    model.fit(X, relevance, group_id=np.repeat(np.arange(60), 10))
    X_new, score = draw(600, seed=1)
    with pytest.raises(ValueError, match=r"the loss of CatBoostRanker, compares the rows of a group.*pass target="):
        tw.importance(model, X_new, score, rows="heldout")
    assert tw.importance(model, X_new, score, rows="heldout", target=lambda y: y).values.argmax() == 0


class OwnLoss:
    no_jit = True  # CatBoost would compile the method

    def calc_ders_range(self, approxes, targets, weights):  # noqa: ARG002 (CatBoost passes it)
        return [(y - score, -1.0) for score, y in zip(approxes, targets, strict=True)]


@pytest.mark.parametrize(
    ("loss", "why", "n_scores"),
    [
        (OwnLoss(), "was fit with a loss of your own", 1),
        ("Lq:q=3", "truewood has no target for Lq, the loss of CatBoostRegressor", 1),
        ("RMSEWithUncertainty", "truewood has no target for RMSEWithUncertainty", 2),
    ],
)
def test_a_loss_without_a_target_of_its_own(loss, why, n_scores):
    X, y = draw(300)
    model = CatBoostRegressor(iterations=10, depth=2, loss_function=loss, eval_metric="RMSE", **QUIET).fit(X, y)
    X_new, y_new = draw(300, seed=1)
    with pytest.raises(ValueError, match=f"{why}.*pass target="):
        tw.importance(model, X_new, y_new, rows="heldout")
    target = np.column_stack([y_new] * n_scores)
    assert tw.importance(model, X_new, y_new, rows="heldout", target=target).values.argmax() == 0


MIXED = {
    "default": {},
    "statistics of one column": {"max_ctr_complexity": 1},
    "combinations": {"max_ctr_complexity": 4},
    "many combinations": {"max_ctr_complexity": 4, "depth": 6, "iterations": 40, "learning_rate": 0.1},
    "one hot": {"one_hot_max_size": 20},
    "some one hot": {"one_hot_max_size": 4, "max_ctr_complexity": 2},
    "other statistics": {
        "max_ctr_complexity": 2,
        "simple_ctr": ["BinarizedTargetMeanValue", "Counter"],
        "combinations_ctr": ["Buckets", "Borders:TargetBorderCount=3"],
    },
}


@cache
def fit_mixed(option, policy="SymmetricTree", named=True):
    X, y = draw_mixed()
    if option == "many combinations":
        pair = X["a"].isin(list("abc")) ^ X["c"].isin(["w", "x"])
        y = 1.0 * pair + (pair ^ X["b"].eq("u")) + (pair ^ X["b"].eq("u") ^ (X["f0"] > 0))
    X.loc[::7, "f1"] = np.nan
    given = X if named else X.to_numpy(dtype=object)
    cats = CATEGORICAL if named else [1, 2, 4]
    options = {"iterations": 25, "depth": 4, **QUIET, **MIXED[option]}
    return CatBoostRegressor(**options, grow_policy=policy, cat_features=cats).fit(given, y)


def draw_unseen_mixed(n_rows=500, seed=1):
    """New rows, with categories and missing numbers that training never had."""
    X, y = draw_mixed(n_rows, seed)
    X.loc[::5, "a"] = "other"
    X.loc[::6, "c"] = "none"
    X.loc[::4, "f0"] = np.nan
    X.loc[1::9, "f1"] = np.inf
    return X, y


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("option", MIXED)
def test_leaves_with_categories_are_catboosts(option, policy, tmp_path):
    model = fit_mixed(option, policy)
    check_trees(model, draw_unseen_mixed()[0], tmp_path)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("option", MIXED)
def test_a_split_belongs_to_the_columns_that_it_reads(option, policy):
    model, X = fit_mixed(option, policy), draw_unseen_mixed(2000)[0]
    view, ensemble = open_model(model), tw.to_ensemble(model)
    leaves, names = model.calc_leaf_indexes(X), [*X.columns, *view.combined]
    rng = np.random.default_rng(0)
    moved = np.zeros((ensemble.n_trees, X.shape[1]), dtype=bool)
    for j, column in enumerate(X.columns):
        other = X.assign(**{column: rng.permutation(X[column])})
        moved[:, j] = (model.calc_leaf_indexes(other) != leaves).any(axis=0)
    claimed = np.zeros_like(moved)
    for t in range(ensemble.n_trees):
        for name in {names[j] for j in ensemble[t : t + 1].split_features}:
            claimed[t, [X.columns.get_loc(column) for column in name.split(" & ")]] = True
    assert not (moved & ~claimed).any()
    # Training meets other values of a statistic than prediction, where some borders part nothing.
    assert moved.sum() > 0.7 * claimed.sum()


def test_stumps_tell_the_column_of_each_statistic():
    X, y = draw_mixed()
    y = y + X["b"].eq("u")
    model = CatBoostRegressor(iterations=60, depth=1, cat_features=CATEGORICAL, one_hot_max_size=1, **QUIET).fit(X, y)
    ensemble, leaves = tw.to_ensemble(model), model.calc_leaf_indexes(X)
    rng = np.random.default_rng(0)
    moved = np.column_stack(
        [
            (model.calc_leaf_indexes(X.assign(**{name: rng.permutation(X[name])})) != leaves).any(axis=0)
            for name in X.columns
        ]
    )
    told = ensemble.feature[ensemble.splits]
    parts = moved.any(axis=1)
    assert moved.sum(axis=1).max() == 1
    np.testing.assert_array_equal(moved[parts].argmax(axis=1), told[parts])
    assert set(X.columns[told[parts]]) >= {"a", "b", "f0"}


def test_each_combination_is_one_feature():
    view = open_model(fit_mixed("many combinations"))
    assert {"a & c", "f0 & a & c", "f0 & a & b & c"} <= set(view.combined)
    assert len(set(view.combined)) == len(view.combined)
    ensemble = view.read(range(view.n_trees))
    assert ensemble.n_features == 5 + len(view.combined)
    assert set(range(5, ensemble.n_features)) <= set(ensemble.split_features)
    assert "x1 & x4" in open_model(fit_mixed("combinations", named=False)).combined


def test_categories_that_count_score_first(engine):
    X, y = draw_unseen_mixed(1500)
    result = tw.importance(fit_mixed("combinations"), X, y, rows="heldout")
    frame = result.frame().set_index("feature")["importance"]
    assert frame.index[:2].tolist() in (["a & c", "f0"], ["f0", "a & c"])
    assert abs(frame["b"]) < 0.01 * frame["a & c"]
    assert np.isfinite(result.mdi).all()
    two = tw.importance(fit_mixed("combinations"), X, y, rows="heldout", n_jobs=2)
    np.testing.assert_array_equal(two.values, result.values)


def test_rows_are_found_in_runs_of_trees(monkeypatch):
    X, y = draw_unseen_mixed()
    model = fit_mixed("default", "Lossguide")
    expected = tw.importance(model, X, y, rows="heldout", inference=False)
    monkeypatch.setattr("truewood.adapters.catboost._RUN_BYTES", 3 * len(X))
    monkeypatch.setattr("truewood.adapters.catboost._BLOCK_LEAVES", 200)
    monkeypatch.setattr(batches, "_BATCH_NODES", 40)
    result = tw.importance(model, X, y, rows="heldout", inference=False)
    np.testing.assert_allclose(result.values, expected.values, rtol=1e-9)


def test_tables_of_categories():
    model, unnamed = fit_mixed("default"), fit_mixed("default", named=False)
    X = draw_unseen_mixed()[0]
    leaves = route(model, X)
    np.testing.assert_array_equal(route(model, X.astype(dict.fromkeys(CATEGORICAL, "category"))), leaves)
    np.testing.assert_array_equal(route(model, X.to_numpy(dtype=object)), leaves)
    np.testing.assert_array_equal(route(model, pl.DataFrame(X.to_dict("list"))), leaves)
    np.testing.assert_array_equal(route(unnamed, X), route(unnamed, X.to_numpy(dtype=object)))


def test_categories_of_polars_are_read_as_texts():
    model, X = fit_mixed("default"), draw_unseen_mixed()[0]
    table = pl.DataFrame(X.to_dict("list")).with_columns(pl.col(CATEGORICAL).cast(pl.Categorical))
    np.testing.assert_array_equal(route(model, table), route(model, X))


def test_tables_that_do_not_fit_are_refused():
    model, (X, y) = fit_mixed("default"), draw_unseen_mixed()
    with pytest.raises(
        ValueError, match=r"X must be a table as CatBoostRegressor takes it: .*must be integer or string"
    ):
        tw.importance(model, X.assign(a=1.5), y, rows="heldout")
    with pytest.raises(ValueError, match="X must be a table as CatBoostRegressor takes it: Invalid cat_features"):
        tw.importance(model, X.to_numpy(dtype=object)[:, :3], y, rows="heldout")
    with pytest.raises(ValueError, match="X must have the 5 columns CatBoostRegressor was fit on, got 6"):
        tw.importance(model, np.column_stack([X.to_numpy(dtype=object), y]), y, rows="heldout")
    with pytest.raises(ValueError, match="column 0 should be 'f0', got 'c'"):
        tw.importance(model, X[["c", "a", "b", "f1", "f0"]], y, rows="heldout")


@pytest.mark.parametrize("policy", POLICIES)
def test_training_rows_are_not_held_out(policy):
    X, y = draw(missing=True)
    model = fit_numbers("squared error", policy)
    with pytest.raises(ValueError, match="got the rows it was fit on; CatBoost does not record which rows"):
        tw.importance(model, X, y, rows="heldout")
    with pytest.raises(ValueError, match=r"rows='auto' needs recorded out-of-bag rows.*pass rows it never saw"):
        tw.importance(model, X, y)
    mixed, y = draw_mixed()
    mixed.loc[::7, "f1"] = np.nan
    with pytest.raises(ValueError, match="got the rows it was fit on"):
        tw.importance(fit_mixed("one hot", policy), mixed, y, rows="heldout")


def test_forbidden_missing_values_are_refused():
    X, y = draw(seed=1, missing=True)
    model = CatBoostRegressor(iterations=5, depth=2, nan_mode="Forbidden", **QUIET).fit(*draw())
    with pytest.raises(ValueError, match="must not hold NaN: CatBoostRegressor was fit with nan_mode='Forbidden'"):
        tw.importance(model, X, y, rows="heldout")
    frame, z = draw_mixed()
    mixed = CatBoostRegressor(iterations=5, depth=2, nan_mode="Forbidden", cat_features=CATEGORICAL, **QUIET)
    mixed.fit(frame, z)
    X, y = draw_unseen_mixed()
    with pytest.raises(ValueError, match="must not hold NaN: CatBoostRegressor was fit with nan_mode='Forbidden'"):
        tw.importance(mixed, X, y, rows="heldout")
    assert len(route(mixed, X.fillna(0.0))) == len(X)


def test_models_that_cannot_be_read_are_refused(tmp_path):
    X, y = draw(200)
    with pytest.raises(NotFittedError, match="CatBoostRegressor is not fitted yet"):
        tw.importance(CatBoostRegressor(), X, y, rows="heldout")
    small = {"iterations": 3, "depth": 2, **QUIET}
    words = pd.DataFrame({"x": X[:, 0], "text": np.where(y > 0, "good day to you", "bad night for me")})
    model = CatBoostClassifier(**small, text_features=["text"]).fit(words, y > 0)
    with pytest.raises(ValueError, match="CatBoostClassifier has text or embedding features"):
        tw.importance(model, words, y > 0, rows="heldout")
    points = pd.DataFrame({"x": X[:, 0], "point": list(X)})
    model = CatBoostClassifier(**small, embedding_features=["point"]).fit(points, y > 0)
    with pytest.raises(ValueError, match="CatBoostClassifier has text or embedding features"):
        tw.to_ensemble(model)
    model = CatBoostRegressor(**small).fit(X, y)
    model.save_model(str(tmp_path / "model"), format="coreml")
    with pytest.raises(ValueError, match="CatBoost has no weights of leaves"):
        tw.to_ensemble(CatBoost().load_model(str(tmp_path / "model"), format="coreml"))
    model.shrink(0)
    with pytest.raises(ValueError, match="CatBoostRegressor has no trees"):
        tw.to_ensemble(model)


def test_times_and_bounds_are_read_as_catboost_means_them():
    X, score = draw(100)
    options = {"iterations": 2, "depth": 2, **QUIET}
    cox = open_model(CatBoost({**options, "loss_function": "Cox"}).fit(X, times(score)))
    np.testing.assert_array_equal(cox.read_y(np.array([2.0, -3.0])), [[2.0, 1.0], [3.0, 0.0]])
    aft = open_model(CatBoost({**options, "loss_function": "SurvivalAft"}).fit(X, bound(score)))
    endless = LARGEST
    np.testing.assert_array_equal(aft.read_y([[2, 2], [3, -1], [-1, 4]]), [[2, 2], [3, endless], [0, 4]])


def test_times_that_cannot_be_read_are_refused():
    X, score = draw(200)
    X_new, new = draw(200, seed=1)
    options = {"iterations": 3, "depth": 2, **QUIET}
    cox = CatBoost({**options, "loss_function": "Cox"}).fit(X, times(score))
    with pytest.raises(ValueError, match="y must be one number per row, a time, negative where it is censored"):
        tw.importance(cox, X_new, bound(new), rows="heldout")
    aft = CatBoost({**options, "loss_function": "SurvivalAft"}).fit(X, bound(score))
    with pytest.raises(ValueError, match="y must be a lower and an upper bound of time per row, -1 for none"):
        tw.importance(aft, X_new, times(new), rows="heldout")
