"""Small models of every kind that CatBoost fits, and its own description of them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
from catboost import CatBoost, CatBoostRegressor, Pool

import truewood as tw
from helpers.contract import add_leaf_values, route

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


def draw_heldout_mixed(n_rows=500, seed=1):
    """New rows, with categories and missing numbers that training never had."""
    X, y = draw_mixed(n_rows, seed)
    X.loc[::5, "a"] = "other"
    X.loc[::6, "c"] = "none"
    X.loc[::4, "f0"] = np.nan
    X.loc[1::9, "f1"] = np.inf
    return X, y
