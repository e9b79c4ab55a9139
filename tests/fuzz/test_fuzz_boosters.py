"""Boosted trees of every library with random options: routing, target and scores against the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from threadpoolctl import threadpool_limits

import truewood as tw
from helpers.fuzz_checks import check_scores, check_sizes, score_everywhere
from helpers.fuzz_profiles import share
from helpers.oracle import best_constant_gradient, score_arrays, size_arrays, walk_arrays

N_TRAIN, N_FEATURES, CATEGORICAL = 60, 4, 3
# Loss of the oracle -> what the libraries call it.
LOSSES = {
    "sklearn": {"squared": "squared_error", "absolute": "absolute_error", "quantile": "quantile"},
    "hist": {
        "squared": "squared_error",
        "absolute": "absolute_error",
        "gamma": "gamma",
        "poisson": "poisson",
        "quantile": "quantile",
    },
    "xgboost": {
        "squared": "reg:squarederror",
        "gamma": "reg:gamma",
        "poisson": "count:poisson",
        "logistic": "binary:logistic",
        "softmax": "multi:softprob",
    },
    "lightgbm": {
        "squared": "regression",
        "absolute": "regression_l1",
        "quantile": "quantile",
        "poisson": "poisson",
        "gamma": "gamma",
        "logistic": "binary",
        "softmax": "multiclass",
    },
    "catboost": {
        "squared": "RMSE",
        "absolute": "MAE",
        "poisson": "Poisson",
        "logistic": "Logloss",
        "softmax": "MultiClass",
    },
}
LEVEL = 0.3


@st.composite
def plans(draw):
    library = draw(st.sampled_from(list(LOSSES)))
    losses = list(LOSSES[library]) + (["logistic", "softmax"] if library in ("sklearn", "hist") else [])
    styles = {"xgboost": ["plain", "dart", "forest", "exact", "lossguide"], "lightgbm": ["plain", "dart", "rf", "goss"]}
    loss = draw(st.sampled_from(losses))
    offsets = [0.0, -1.0, 1e3, -1e6] + ([] if library == "catboost" else [1e9])  # y must vary as float32 there
    rates = [0.1, 1.0] if loss in ("poisson", "gamma") else [0.1, 1.0, 100.0]  # exponentials would overflow
    return {
        "library": library,
        "loss": loss,
        "style": draw(st.sampled_from(styles.get(library, ["plain"]))),
        "depth": draw(st.sampled_from([1, 2, 4])),
        "categories": draw(st.booleans()),
        "missing": draw(st.sampled_from([0.0, 0.2])),
        "weights": draw(st.sampled_from(["none", "integers", "uneven", "zeros"])),
        "rows": draw(st.sampled_from(["heldout", "lists"])),
        "seed": draw(st.integers(0, 2**31 - 1)),
        "is_sparse": draw(st.booleans()),
        "measure": draw(st.sampled_from(["auto", "ufi", "ufi_centered", "mdi", "mdi_oob"])),
        "scale": draw(st.sampled_from([1.0, 1e-12, 1e-6, 1e6, 1e12])),
        "offset": draw(st.sampled_from(offsets)),  # in units of the scale
        "rate": draw(st.sampled_from(rates)),  # of learning: trees diverge at the last
    }


def draw_rows(rng, plan):
    X = rng.standard_normal((2 * N_TRAIN, N_FEATURES))
    X[:, 1] = rng.integers(0, 3, len(X))
    X[:, CATEGORICAL] = rng.integers(0, 6, len(X))
    score = X[:, 0] + (X[:, CATEGORICAL] % 2) + rng.standard_normal(len(X))
    if plan["missing"] and plan["library"] != "sklearn":
        missing = rng.random(X.shape) < plan["missing"]
        missing[:, CATEGORICAL] = False
        X[missing] = np.nan
    y = {
        "logistic": (score > 0.5).astype(float),
        "softmax": np.digitize(score, [0.0, 1.0]).astype(float),
        "poisson": np.floor(np.exp(np.clip(score / 2, -3, 3))),
        "gamma": np.exp(score / 2),
    }.get(plan["loss"], plan["scale"] * (score + plan["offset"]))
    for first in (0, N_TRAIN):  # all classes, on both sides
        y[first : first + 3] = {"logistic": [0, 1, 0], "softmax": [0, 1, 2]}.get(plan["loss"], y[first : first + 3])
    return X, y


def fit_sklearn(plan, X, y):
    options = {"n_estimators": 3, "max_depth": plan["depth"], "random_state": 0, "subsample": 0.8}
    options["learning_rate"] = plan["rate"]
    if plan["loss"] in ("logistic", "softmax"):
        return GradientBoostingClassifier(**options).fit(X, y), None
    name = LOSSES["sklearn"][plan["loss"]]
    return GradientBoostingRegressor(loss=name, alpha=LEVEL, **options).fit(X, y), None


def fit_hist(plan, X, y):
    options = {"max_iter": 3, "max_depth": plan["depth"], "min_samples_leaf": 3, "early_stopping": False}
    options["learning_rate"] = plan["rate"]
    options["categorical_features"] = [CATEGORICAL] if plan["categories"] else None
    if plan["loss"] in ("logistic", "softmax"):
        model = HistGradientBoostingClassifier(**options).fit(X, y)
    else:
        name = LOSSES["hist"][plan["loss"]]
        level = LEVEL if plan["loss"] == "quantile" else None
        model = HistGradientBoostingRegressor(loss=name, quantile=level, **options).fit(X, y)
    return model, lambda rows: model._raw_predict(rows)


def fit_xgboost(plan, X, y):
    xgb = pytest.importorskip("xgboost")
    style = {
        "dart": {"booster": "dart", "rate_drop": 0.5},
        "forest": {"num_parallel_tree": 2, "subsample": 0.7},
        "exact": {"tree_method": "exact"},
        "lossguide": {"grow_policy": "lossguide", "max_leaves": 5},
    }.get(plan["style"], {})
    categorical = plan["categories"] and plan["style"] != "exact"
    types = ["q"] * CATEGORICAL + ["c" if categorical else "q"]
    params = {"objective": LOSSES["xgboost"][plan["loss"]], "max_depth": plan["depth"], "nthread": 1, **style}
    params |= {"num_class": 3} if plan["loss"] == "softmax" else {}
    params["learning_rate"] = plan["rate"]
    booster = xgb.train(params, xgb.DMatrix(X, y, feature_types=types, enable_categorical=True), 3)
    return booster, lambda rows: booster.predict(
        xgb.DMatrix(rows, feature_types=types, enable_categorical=True), output_margin=True
    )


def fit_lightgbm(plan, X, y):
    lgb = pytest.importorskip("lightgbm")
    style = {
        "dart": {"boosting": "dart", "drop_rate": 0.5},
        "rf": {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.7},
        "goss": {"data_sample_strategy": "goss"},
    }.get(plan["style"], {})
    params = {"objective": LOSSES["lightgbm"][plan["loss"]], "verbose": -1, "num_threads": 1, "min_data_in_leaf": 3}
    params |= {"max_depth": plan["depth"], "alpha": LEVEL, "min_data_per_group": 3, "cat_smooth": 1.0, **style}
    params |= {"num_class": 3} if plan["loss"] == "softmax" else {}
    params["learning_rate"] = plan["rate"]
    categorical = [CATEGORICAL] if plan["categories"] else []
    booster = lgb.train(params, lgb.Dataset(X, y, categorical_feature=categorical), 3)
    n_averaged = 3 if plan["style"] == "rf" else 1  # raw scores are sums even where predictions are means
    return booster, lambda rows: booster.predict(rows, raw_score=True) / n_averaged


def fit_catboost(plan, X, y):
    catboost = pytest.importorskip("catboost")
    model = catboost.CatBoost(
        {
            "loss_function": LOSSES["catboost"][plan["loss"]],
            "iterations": 3,
            "depth": plan["depth"],
            "learning_rate": min(plan["rate"], 1.0),
            "verbose": 0,
            "thread_count": 1,
            "allow_writing_files": False,
        }
    ).fit(X, y)
    _, bias = model.get_scale_and_bias()
    return model, lambda rows: model.predict(rows, prediction_type="RawFormulaVal") - bias


FIT = {
    "sklearn": fit_sklearn,
    "hist": fit_hist,
    "xgboost": fit_xgboost,
    "lightgbm": fit_lightgbm,
    "catboost": fit_catboost,
}


@share(0.2)
@given(plan=plans())
def test_boosters(plan):
    rng = np.random.default_rng(plan["seed"])
    with threadpool_limits(1):
        X, y = draw_rows(rng, plan)
        model, predict_raw = FIT[plan["library"]](plan, X[:N_TRAIN], y[:N_TRAIN])
        X, y = X[N_TRAIN:], y[N_TRAIN:]
        trees = tw.to_ensemble(model)
        if predict_raw is not None:
            check_routing(trees, X, predict_raw(X))
        check_booster(plan, rng, model, trees, X, y)


def check_routing(trees, X, raw):
    """Values of the leaves that the oracle walks to add up to the library's raw scores, but for a constant."""
    raw = np.reshape(raw, (len(X), -1))
    added = np.zeros_like(raw, dtype=float)
    for tree in range(trees.n_trees):
        column = slice(None) if trees.column is None else int(trees.column[tree])
        for i, x in enumerate(X):
            value = trees.value[walk_arrays(trees, tree, x)[-1]]
            added[i, column] += value if trees.column is None else value[0]
    gap = raw - added
    size = np.abs(trees.value).max() * trees.n_trees
    assert np.ptp(gap, axis=0).max() <= 1e-5 * max(size, float(np.abs(raw).max()))


def check_booster(plan, rng, model, trees, X, y):
    weight = {
        "none": None,
        "integers": rng.integers(1, 4, len(X)),
        "uneven": rng.random(len(X)) + 0.01,
        "zeros": rng.integers(0, 2, len(X)).astype(float),
    }[plan["weights"]]
    own = [rng.integers(0, len(X), int(rng.integers(0, 80))) for _ in range(trees.n_trees)]
    lists = own if plan["rows"] == "lists" else [np.arange(len(X))] * trees.n_trees
    is_sparse = plan["is_sparse"] and plan["library"] in ("sklearn", "lightgbm")
    result = score_everywhere(
        model,
        sparse.csr_array(X) if is_sparse and not np.isnan(X).any() else X,
        y,
        rows=lists if plan["rows"] == "lists" else "heldout",
        sample_weight=weight,
        measure=plan["measure"],
        contributions=plan["measure"] != "mdi",
    )
    row_weight = np.ones(len(X)) if weight is None else weight.astype(float)
    if isinstance(result, str):
        # New rows may happen to give the leaves of tiny trees the weights that they have.
        is_scorable = any(row_weight[listed].sum() > 0 for listed in lists)
        assume(not is_scorable or not result.startswith("TrainingRowsError"))
        assert not is_scorable
        return
    target = best_constant_gradient(plan["loss"], y, row_weight, LEVEL if plan["loss"] == "quantile" else 0.5)
    target = target - np.average(target, axis=0, weights=row_weight)
    outputs = [range(trees.kind.n_columns)]
    scores = score_arrays(result.measure, trees, X, target, row_weight, lists, outputs, is_classification=False)
    expected = np.sum([s for s in scores if s is not None], axis=0)[:, 0]
    if result.measure == "mdi":  # which does not look at the target
        check_scores(result, expected, trees.value)
    else:
        check_sizes(result, expected, size_arrays(trees, X, target, row_weight, lists, outputs))
