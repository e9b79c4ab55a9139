"""A model that is read otherwise than its library reads it is refused: what a changed format would do, faked."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import treelite
import xgboost as xgb
from catboost import CatBoostRegressor
from econml.grf import CausalForest, RegressionForest
from imblearn.ensemble import BalancedRandomForestClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier
from sksurv.ensemble import GradientBoostingSurvivalAnalysis, RandomSurvivalForest
from sksurv.util import Surv

import truewood as tw
from truewood._exceptions import AdapterError
from truewood._inputs.tables import read_features
from truewood._trees.ensemble import TreeEnsemble
from truewood.adapters import TreeModel, TreeReader, open_model
from truewood.adapters._verification import verify_against_library

rng = np.random.default_rng(0)
X = rng.standard_normal((200, 4))
X[:, 3] = rng.integers(0, 6, 200)
number = X[:, 0] + X[:, 1] + np.isin(X[:, 3], (1, 4)) + 0.3 * rng.standard_normal(200)
label = np.digitize(number, [-0.5, 1.0])
survival = Surv.from_arrays(rng.random(200) < 0.7, np.exp(-number))


@dataclass(frozen=True)
class Case:
    """How a model is fit, the module that reads its trees, and what of it can be compared."""

    fit: Any
    module: str
    library: str
    parts: tuple[str, ...] = ("value", "threshold")


def fit_xgboost(**params):
    return xgb.XGBRegressor(n_estimators=8, max_depth=3, n_jobs=1, random_state=0, **params).fit(X, number)


def fit_lightgbm(**params):
    return lgb.LGBMClassifier(n_estimators=4, num_leaves=5, n_jobs=1, verbose=-1, **params).fit(X, label)


def fit_catboost(columns=()):
    rows = X.astype(object)
    rows[:, 3] = X[:, 3].astype(int)
    options = {"iterations": 5, "depth": 3, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
    return CatBoostRegressor(cat_features=list(columns), **options).fit(rows if columns else X, number)


S, D = "scikit-learn", "truewood.adapters._sklearn_trees"
CASES = {
    "tree": Case(lambda: DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, label), D, S),
    "forest": Case(lambda: RandomForestRegressor(4, random_state=0).fit(X, number), D, S),
    "extra trees": Case(lambda: ExtraTreesClassifier(4, random_state=0).fit(X, label), D, S),
    "bagging": Case(lambda: BaggingClassifier(n_estimators=4, max_features=2, random_state=0).fit(X, label), D, S),
    "adaboost": Case(
        lambda: AdaBoostClassifier(DecisionTreeClassifier(max_depth=3), n_estimators=4, random_state=0).fit(X, label),
        D,
        S,
    ),
    "balanced": Case(
        lambda: BalancedRandomForestClassifier(
            4, sampling_strategy="all", replacement=True, bootstrap=False, random_state=0
        ).fit(X, label),
        D,
        S,
    ),
    "gradient boosting": Case(
        lambda: GradientBoostingClassifier(n_estimators=4, random_state=0).fit(X, label),
        "truewood.adapters._sklearn_gradient_boosting",
        S,
    ),
    "survival boosting": Case(
        lambda: GradientBoostingSurvivalAnalysis(n_estimators=5, dropout_rate=0.5, random_state=0).fit(X, survival),
        "truewood.adapters._sklearn_gradient_boosting",
        S,
    ),
    "histogram": Case(
        lambda: HistGradientBoostingRegressor(max_iter=4, categorical_features=[3]).fit(X, number),
        "truewood.adapters._sklearn_hist_gradient_boosting",
        S,
    ),
    "survival forest": Case(
        lambda: RandomSurvivalForest(4, random_state=0).fit(X, survival),
        "truewood.adapters._sksurv",
        "scikit-survival",
    ),
    "regression forest": Case(
        lambda: RegressionForest(n_estimators=4, random_state=0, n_jobs=1).fit(X, number),
        "truewood.adapters._econml",
        "econml",
    ),
    "causal forest": Case(
        lambda: CausalForest(n_estimators=4, random_state=0, n_jobs=1).fit(X, X[:, 2], number),
        "truewood.adapters._econml",
        "econml",
        ("threshold",),
    ),
    "xgboost": Case(fit_xgboost, "truewood.adapters._xgboost", "XGBoost"),
    "xgboost dart": Case(lambda: fit_xgboost(booster="dart", rate_drop=0.5), "truewood.adapters._xgboost", "XGBoost"),
    "lightgbm": Case(fit_lightgbm, "truewood.adapters._lightgbm", "LightGBM"),
    "lightgbm forest": Case(
        lambda: fit_lightgbm(boosting_type="rf", subsample=0.6, subsample_freq=1),
        "truewood.adapters._lightgbm",
        "LightGBM",
    ),
    "catboost": Case(fit_catboost, "truewood.adapters._catboost_trees", "CatBoost"),
    "catboost categories": Case(lambda: fit_catboost([3]), "truewood.adapters._catboost_trees", "CatBoost", ("value",)),
    "treelite": Case(
        lambda: treelite.frontend.from_lightgbm(fit_lightgbm().booster_), "truewood.adapters._treelite", "treelite"
    ),
}


@cache
def fit(name):
    return CASES[name].fit()


def check(name):
    view = open_model(fit(name))
    rows = X
    if name == "catboost categories":
        rows = X.astype(object)
        rows[:, 3] = X[:, 3].astype(int)
    verify_against_library(view, read_features(rows, view.table))


@pytest.mark.parametrize("name", CASES)
def test_what_is_read_right_agrees(name, engine):
    assert open_model(fit(name)).library.name == CASES[name].library
    check(name)


@pytest.mark.parametrize(("name", "part"), [(name, part) for name, case in CASES.items() for part in case.parts])
def test_what_is_read_otherwise_is_refused(name, part, monkeypatch):
    def misread(**parts):
        changed = 1.2 * parts["value"] if part == "value" else np.asarray(parts["threshold"]) + 0.7
        return TreeEnsemble(**{**parts, part: changed})

    monkeypatch.setattr(importlib.import_module(CASES[name].module), "TreeEnsemble", misread)
    what = "raw predictions" if part == "value" else ""
    with pytest.raises(AdapterError, match=rf"{CASES[name].library} \d.*{what}"):
        check(name)


def test_dropout_that_is_stored_elsewhere_is_refused(monkeypatch):
    monkeypatch.setattr("truewood.adapters._xgboost._find_dropout", lambda _booster: None)
    message = rf"XGBRegressor.*XGBoost {xgb.__version__}.*raw predictions"
    with pytest.raises(AdapterError, match=message):
        tw.importance(fit("xgboost dart"), X + 0.1, number, rows="heldout")


def test_lost_trees_are_refused():
    view = open_model(fit("lightgbm"))
    part = TreeReader.of_ensemble(view.read(range(9)), library=view.library)
    with pytest.raises(AdapterError, match=r"\b9\b.*\b12\b"):
        verify_against_library(TreeModel(view.table, view.target, part), read_features(X, view.table))


def test_a_table_without_a_library_is_taken_as_it_is():
    ensemble = tw.to_ensemble(fit("forest"))
    view = open_model(ensemble)
    assert view.library is None
    verify_against_library(view, read_features(X.astype(np.float32), view.table))


@pytest.mark.parametrize("n_rows", [1, 2])
def test_few_rows_are_enough(n_rows):
    view = open_model(fit("forest"))
    assert verify_against_library(view, read_features(X[:n_rows], view.table)) is None
