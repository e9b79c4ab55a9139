"""Boosted models of every library on noise: held-out rows score zero on average, the library's own gain does not."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from catboost import CatBoostClassifier, CatBoostRegressor
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from xgboost import XGBClassifier, XGBRegressor

import truewood as tw

N_SETS, N_ROWS = 40, 200
LEVELS = (3, 8, 20)
NAMES = ["continuous", "binary", *(f"levels_{k}" for k in LEVELS)]
CATEGORICAL = NAMES[2:]


def draw(rng, signal):
    """A table of noise, or with a signal in the binary column."""
    table = pd.DataFrame({"continuous": rng.standard_normal(N_ROWS), "binary": rng.integers(0, 2, N_ROWS)})
    for k, name in zip(LEVELS, CATEGORICAL, strict=True):
        table[name] = pd.Categorical(rng.integers(0, k, N_ROWS), categories=range(k))
    y = rng.standard_normal(N_ROWS) + signal * table["binary"].to_numpy()
    return table, y


def as_codes(table):
    """Categories as ordered numbers, for a library without categories."""
    return table.assign(**{name: table[name].cat.codes for name in CATEGORICAL})


def as_text(table):
    """Categories as text, which CatBoost encodes by the target."""
    return table.assign(**{name: table[name].astype(str) for name in CATEGORICAL})


def gain_of_hist(model):
    gain = np.zeros(len(NAMES))
    order = list(np.argsort([name not in CATEGORICAL for name in NAMES], kind="stable"))
    for (predictor,) in model._predictors:
        nodes = predictor.nodes[predictor.nodes["is_leaf"] == 0]
        np.add.at(gain, [order[j] for j in nodes["feature_idx"]], nodes["gain"])
    return gain


SMALL = {"n_estimators": 20, "max_depth": 3, "random_state": 0}
LIBRARIES = {
    "sklearn": (GradientBoostingRegressor, GradientBoostingClassifier, SMALL, as_codes, "feature_importances_"),
    "sklearn-hist": (
        HistGradientBoostingRegressor,
        HistGradientBoostingClassifier,
        {"max_iter": 20, "max_leaf_nodes": 8, "categorical_features": CATEGORICAL, "random_state": 0},
        lambda table: table,
        gain_of_hist,
    ),
    "xgboost": (
        XGBRegressor,
        XGBClassifier,
        {**SMALL, "enable_categorical": True, "n_jobs": 1},
        lambda table: table,
        "feature_importances_",
    ),
    "lightgbm": (
        LGBMRegressor,
        LGBMClassifier,
        {**SMALL, "importance_type": "gain", "min_data_per_group": 5, "cat_smooth": 1, "n_jobs": 1, "verbose": -1},
        lambda table: table,
        "feature_importances_",
    ),
    "catboost": (
        CatBoostRegressor,
        CatBoostClassifier,
        {
            "iterations": 20,
            "depth": 3,
            "random_seed": 0,
            "cat_features": CATEGORICAL,
            "max_ctr_complexity": 1,
            "thread_count": 1,
            "allow_writing_files": False,
            "verbose": False,
        },
        as_text,
        "feature_importances_",
    ),
}


def score(library, task, seed, signal):
    """Scores of held-out rows and the library's own gain."""
    regressor, classifier, options, encode, gain = LIBRARIES[library]
    rng = np.random.default_rng(seed)
    (X, y), (X_new, y_new) = draw(rng, signal), draw(rng, signal)
    if task == "classification":
        y, y_new = y > 0, y_new > 0
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*", category=FutureWarning)
        model = (regressor if task == "regression" else classifier)(**options).fit(encode(X), y)
    result = tw.importance(model, encode(X_new), y_new, rows="heldout")
    own = gain(model) if callable(gain) else getattr(model, gain)
    return result.values, np.asarray(own, dtype=float), result


@pytest.mark.statistical
@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_noise_scores_zero_and_gain_does_not(library, task):
    scores, gains, _ = zip(*(score(library, task, seed, signal=0.0) for seed in range(N_SETS)), strict=True)
    for values, is_zero in ((np.array(scores), True), (np.array(gains), False)):
        error = values.std(axis=0, ddof=1) / np.sqrt(N_SETS)
        z = values.mean(axis=0) / error
        if is_zero:
            assert (np.abs(z) < 4).all(), dict(zip(NAMES, z, strict=True))
        else:
            assert z.min() > 4, dict(zip(NAMES, z, strict=True))


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_planted_binary_signal_ranks_first(library, task):
    values, _, result = score(library, task, seed=0, signal=1.5)
    assert NAMES[int(np.argmax(values))] == "binary"
    assert result.p_value[1] < 1e-6
