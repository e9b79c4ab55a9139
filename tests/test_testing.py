"""`check_adapter`: it passes for every library, and an adapter that misreads its model fails."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor

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


def test_boosters_pass():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    y = X[:, 0] + rng.standard_normal(200)
    check_adapter(GradientBoostingRegressor(n_estimators=5, random_state=0).fit(X, y), X)
    lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
    check_adapter(lightgbm.LGBMRegressor(n_estimators=5, verbose=-1).fit(X, y), X)
    check_adapter(xgboost.XGBRegressor(n_estimators=5).fit(X, y), X)


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
