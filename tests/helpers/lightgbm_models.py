"""Small models of every kind that LightGBM fits, and rows that distinguish them."""

from __future__ import annotations

import re
from functools import cache

import lightgbm as lgb
import numpy as np

import truewood as tw
from helpers.contract import draw_odd_rows

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
    """Text of a model whose categorical splits do not record missing values, as in old files."""
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
