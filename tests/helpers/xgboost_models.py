"""Small models of every kind that XGBoost fits, and its own description of them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import xgboost as xgb

import truewood as tw
from helpers.contract import draw_odd_rows, route

N_FEATURES = 5


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
    "vectors": Case(R, "numbers", VECTOR),
    "vectors parallel": Case(R, "numbers", {**VECTOR, "num_parallel_tree": 2, "subsample": 0.5}),
    "vectors classes": Case(C, "classes", VECTOR),
    "vectors labels": Case(C, "labels", VECTOR),
    "vectors absolute error": Case(R, "numbers", {**VECTOR, "objective": "reg:absoluteerror"}),
    "vectors quantiles": Case(
        R, params={**VECTOR, "objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.5, 0.9]}
    ),
    "vectors lossguide": Case(R, "numbers", {**VECTOR, "grow_policy": "lossguide", "max_leaves": 9, "max_depth": 0}),
    "vectors stumps": Case(R, "numbers", {**VECTOR, "gamma": 1e9}),
    "vectors single": Case(R, params=VECTOR),
}


@cache
def build(name):
    case = CASES[name]
    X, score, rng = draw(missing=case.missing)
    return case.make(**{**BASE, **case.params}).fit(X, make_target(case.target, score, rng))


def dump(model):
    """The Booster's description of itself."""
    booster = model if isinstance(model, xgb.Booster) else model.get_booster()
    return json.loads(booster.save_raw("json"))["learner"]


def dumped_trees(model):
    booster = dump(model)["gradient_booster"]
    return booster.get("gbtree", booster)["model"]["trees"]


def dropout(model):
    """What dropout left of each tree."""
    booster = dump(model)["gradient_booster"]
    return booster["weight_drop"] if "weight_drop" in booster else booster["model"]["weight_drop"]


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
