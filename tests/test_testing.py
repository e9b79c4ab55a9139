"""`check_adapter`: it passes for every library, and an adapter that misreads its model fails."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestRegressor,
)

import truewood as tw
from helpers.sklearn_models import build, supported_cases
from truewood.adapters import TreeModel, _registry, open_model
from truewood.testing import check_adapter

CONTAINED = [name for name in supported_cases() if "csr" not in name and "csc" not in name]


@pytest.mark.parametrize("name", CONTAINED[::4])
def test_scikit_learns_models_pass(name):
    built = build(name, seed=0)
    in_bag = built.rows == "oob"
    check_adapter(built.model, built.X, built.y if in_bag else None, sample_weight=built.sample_weight)


def draw_data(n_rows=200):
    """Numbers, a target of numbers, and one of two classes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, 4))
    X[:, 3] = rng.integers(0, 3, n_rows)
    y = X[:, 0] + rng.standard_normal(n_rows)
    return X, y, (y > 0).astype(int)


def take(library, name, **options):
    return getattr(pytest.importorskip(library), name)(**options)


def fit_catboost(X, y, _labels):
    options = {"iterations": 5, "verbose": 0, "allow_writing_files": False, "random_seed": 0}
    for policy in ("SymmetricTree", "Depthwise", "Lossguide"):
        yield take("catboost", "CatBoostRegressor", grow_policy=policy, **options).fit(X, y)


def fit_econml(X, y, labels):
    options = {"n_estimators": 8, "random_state": 0, "n_jobs": 1}
    for is_honest in (True, False):
        yield take("econml.grf", "RegressionForest", honest=is_honest, **options).fit(X, y), y
    yield take("econml.grf", "CausalForest", **options).fit(X, labels.astype(float), y), np.column_stack([y, labels])


def make_times(y, labels):
    return pytest.importorskip("sksurv.util").Surv.from_arrays(labels == 1, np.exp(-y))


def fit_sksurv(X, y, labels):
    times = make_times(y, labels)
    for name in ("RandomSurvivalForest", "ExtraSurvivalTrees"):
        yield take("sksurv.ensemble", name, n_estimators=5, random_state=0).fit(X, times), times


def fit_treelite(X, y, labels):
    treelite = pytest.importorskip("treelite")
    yield treelite.sklearn.import_model(RandomForestRegressor(5, random_state=0).fit(X, y))
    yield treelite.sklearn.import_model(GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, labels))
    xgboost, lightgbm = pytest.importorskip("xgboost"), pytest.importorskip("lightgbm")
    yield treelite.frontend.from_xgboost(xgboost.train({}, xgboost.DMatrix(X, y), 4))
    yield treelite.frontend.from_lightgbm(lightgbm.train({"verbose": -1}, lightgbm.Dataset(X, y), 4))


# Models of each adapter; those with training rows come with their target.
MODELS = {
    "_catboost": fit_catboost,
    "_econml": fit_econml,
    "_imblearn": lambda X, _y, labels: [
        (take("imblearn.ensemble", "BalancedRandomForestClassifier", random_state=0).fit(X, labels), labels)
    ],
    "_lightgbm": lambda X, y, _labels: [take("lightgbm", "LGBMRegressor", n_estimators=5, verbose=-1).fit(X, y)],
    "_sklearn_adaboost": lambda X, y, labels: [
        (AdaBoostClassifier(n_estimators=5, random_state=0).fit(X, labels), labels),
        (AdaBoostRegressor(n_estimators=5, random_state=0).fit(X, y), y),
        (take("imblearn.ensemble", "RUSBoostClassifier", n_estimators=5, random_state=0).fit(X, labels), labels),
    ],
    "_sklearn_bagging": lambda X, _y, labels: [(BaggingClassifier(random_state=0).fit(X, labels), labels)],
    "_sklearn_gradient_boosting": lambda X, y, labels: [
        GradientBoostingRegressor(n_estimators=5).fit(X, y),
        take("sksurv.ensemble", "GradientBoostingSurvivalAnalysis", n_estimators=5).fit(X, make_times(y, labels)),
    ],
    "_sklearn_hist_gradient_boosting": lambda X, _y, labels: [
        HistGradientBoostingClassifier(max_iter=5).fit(X, labels),
    ],
    "_sklearn_trees": lambda X, y, _labels: [
        (RandomForestRegressor(5, random_state=0).fit(X, y), y),
        (take("quantile_forest", "RandomForestQuantileRegressor", n_estimators=5, random_state=0).fit(X, y), y),
        take("quantile_forest", "ExtraTreesQuantileRegressor", n_estimators=5, random_state=0).fit(X, y),
    ],
    "_sksurv": fit_sksurv,
    "_treelite": fit_treelite,
    "_xgboost": lambda X, y, _labels: [take("xgboost", "XGBRegressor", n_estimators=5).fit(X, y)],
}
# Checked in tests of their own, which have a session of Spark or rows of their libraries' own kinds.
ELSEWHERE = {"_ngboost", "_spark_ml", "_ydf"}
# cuML needs a GPU; models of xgboost.spark hold a Booster, which `_xgboost` reads.
NOT_CHECKED = {"_cuml", "_xgboost_spark"}


@pytest.mark.parametrize("adapter", MODELS)
def test_every_adapter_passes(adapter):
    X, y, labels = draw_data()
    for fitted in MODELS[adapter](X, y, labels):
        model, target = fitted if isinstance(fitted, tuple) else (fitted, None)
        class_path = _registry._find_class_path(type(model), list(_registry._REGISTRY))
        assert _registry._REGISTRY[class_path] == f"truewood.adapters.{adapter}"
        check_adapter(model, X, target)


def test_no_adapter_is_forgotten():
    modules = {module.rpartition(".")[2] for module in _registry._REGISTRY.values() if module.startswith("truewood.")}
    assert modules == MODELS.keys() | ELSEWHERE | NOT_CHECKED


class Stored:
    """A model whose adapter returns what is stored in it."""

    def __init__(self, tree_model: TreeModel) -> None:
        self.tree_model = tree_model


@pytest.fixture
def forest(monkeypatch):
    module = ModuleType("stored_adapter")
    module.open_model = lambda model: model.tree_model
    monkeypatch.setitem(sys.modules, "stored_adapter", module)
    monkeypatch.setattr(_registry, "_REGISTRY", dict(_registry._REGISTRY))
    tw.register_adapter(f"{Stored.__module__}.Stored", "stored_adapter")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = X[:, 0] + rng.standard_normal(60)
    return RandomForestRegressor(4, random_state=0).fit(X, y), X, y


def change(tree_model, **changes):
    """The same model with other parts of its reader."""
    reader = replace(tree_model._reader, **changes)
    return Stored(TreeModel(tree_model.table, tree_model.target, reader, tree_model.training))


def move_thresholds(ensemble):
    """One float32 up: only rows on thresholds show the difference."""
    moved = np.nextafter(ensemble.threshold.astype(np.float32), np.float32(np.inf)).astype(np.float64)
    return replace(ensemble, threshold=np.where(ensemble.left < 0, ensemble.threshold, moved))


def test_a_threshold_that_is_off_by_one_float_is_noticed(forest):
    model, X, _ = forest
    tree_model = open_model(model)
    with pytest.raises(tw.AdapterError, match="leaves"):
        check_adapter(change(tree_model, read=lambda trees: move_thresholds(tree_model.read(trees))), X)


def test_trees_that_depend_on_how_they_are_read_are_noticed(forest):
    model, X, _ = forest
    tree_model = open_model(model)

    def read(trees):
        ensemble = tree_model.read(trees)
        return ensemble if len(trees) == 1 else replace(ensemble, value=ensemble.value + 1.0)

    with pytest.raises(tw.AdapterError, match=r"value.*tree 0"):
        check_adapter(change(tree_model, read=read), X)


def test_other_training_rows_are_noticed(forest):
    model, X, y = forest
    check_adapter(model, X, y)
    with pytest.raises(tw.AdapterError, match=r"training rows.*tree 0"):
        check_adapter(model, X, y[::-1])


def test_an_adapter_without_a_library_to_ask_is_refused(forest):
    model, X, _ = forest
    with pytest.raises(tw.AdapterError, match="ReferencePredictor"):
        check_adapter(change(open_model(model), library=None), X)
