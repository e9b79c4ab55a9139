"""Every adapter keeps the same contract: its trees are the library's trees."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import (
    BaggingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomTreesEmbedding,
)
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import truewood as tw
from helpers.sklearn_models import CASES, N_FEATURES, build, contain, supported_cases
from truewood._engines.records import RowLists
from truewood._engines.selection import get_engine
from truewood._inputs.tables import InputSpec, read_features
from truewood.adapters import open_model
from truewood.adapters._registry import _REGISTRY

X = np.random.default_rng(0).standard_normal((50, 3))
y = (X[:, 0] > 0).astype(int)


def odd_rows(trees, rng, with_missing):
    """Random rows, rows on thresholds and one float beside them, extremes, missing values."""
    rows = rng.standard_normal((200, N_FEATURES))
    for ensemble in trees:
        for m in ensemble.splits:
            threshold, j = ensemble.threshold[m], ensemble.feature[m]
            beside = [threshold]  # infinite where a split parts missing values from all others
            for kind in (np.float32, np.float64):
                beside += [np.nextafter(kind(threshold), kind(sign * np.inf)) for sign in (1, -1)]
            beside = [value for value in beside if abs(value) <= np.finfo(np.float32).max]
            chosen = np.repeat(rng.standard_normal((1, N_FEATURES)), len(beside), axis=0)
            chosen[:, j] = beside
            rows = np.vstack([rows, chosen])
    rows[rng.integers(len(rows), size=20), rng.integers(N_FEATURES, size=20)] = np.finfo(np.float32).max
    rows[rng.integers(len(rows), size=20), rng.integers(N_FEATURES, size=20)] = np.finfo(np.float32).min
    if with_missing:
        rows[rng.random(rows.shape) < 0.2] = np.nan
    return rows


@pytest.mark.parametrize("name", supported_cases())
def test_leaves_weights_and_values_are_the_librarys_own(name, engine):
    built = build(name, seed=0)
    model, case = built.model, built.case
    ensemble = tw.to_ensemble(model)
    trees = getattr(model, "estimators_", [model])
    features = getattr(model, "estimators_features_", [np.arange(N_FEATURES)] * len(trees))
    rows = odd_rows([ensemble], np.random.default_rng(0), case.missing)
    matrix = read_features(contain(case, rows), InputSpec("", N_FEATURES))
    everything = np.arange(len(rows))
    leaves = get_engine().find_leaves(ensemble, matrix, RowLists.join([everything] * len(trees)))
    for t, (tree, columns) in enumerate(zip(trees, features, strict=True)):
        start, end = ensemble.offset[t : t + 2]
        own = leaves[t * len(rows) : (t + 1) * len(rows)] - start
        np.testing.assert_array_equal(own, tree.tree_.apply(rows.astype(np.float32)[:, columns]))
        np.testing.assert_array_equal(ensemble.weight[start:end], tree.tree_.weighted_n_node_samples)
        stored = [tree.tree_.value[:, o, :n] for o, n in enumerate(built.n_classes or [1] * tree.n_outputs_)]
        np.testing.assert_array_equal(ensemble.value[start:end], np.hstack(stored))


@pytest.mark.parametrize("name", ["rf", "rfr-several-outputs", "bagging-columns", "rf-missing"])
def test_a_run_of_trees_is_read_as_in_the_whole(name):
    if name not in supported_cases():
        pytest.skip("scikit-learn before 1.8 contradicts itself on missing values")
    view = open_model(build(name, seed=1).model)
    part, whole = view.read(range(1, 3)), view.read(range(view.n_trees))[1:3]
    for field in (
        "feature",
        "threshold",
        "left",
        "right",
        "missing_left",
        "weight",
        "value",
        "offset",
        "root_impurity",
    ):
        np.testing.assert_array_equal(getattr(part, field), getattr(whole, field), err_msg=field)


def test_bags_are_the_forests_own():
    forest = RandomForestClassifier(5, max_samples=0.7, random_state=None).fit(X, y)
    training = open_model(forest).training
    for tree, bag in enumerate(forest.estimators_samples_):
        np.testing.assert_array_equal(training.list_bag(tree, len(X)), bag)


def test_subclasses_are_read_through_their_parents():
    class OwnForest(RandomForestClassifier):
        pass

    assert tw.to_ensemble(OwnForest(2).fit(X, y)).n_trees == 2


@pytest.mark.parametrize("make", [IsolationForest, RandomTreesEmbedding])
def test_a_model_without_target_is_refused(make):
    with pytest.raises(TypeError, match=f"{make.__name__}.*target"):
        tw.importance(make(n_estimators=5).fit(X), X, y)


@pytest.mark.parametrize("model", [LogisticRegression(), None, "forest"])
def test_an_unknown_model_is_refused(model):
    with pytest.raises(TypeError, match=r"tw\.register_adapter"):
        tw.importance(model, X, y)


def test_formats_that_cannot_be_read_are_refused_with_the_reason():
    # The classes by name and module, as protobuf and onnxruntime define them.
    places = {"ModelProto": "onnx.onnx_ml_pb2", "InferenceSession": "onnxruntime.capi.onnxruntime_inference_collection"}
    for name, module in places.items():
        converted = type(name, (), {"__module__": module})()
        with pytest.raises(TypeError, match=rf"{name}.*training rows.*converted from"):
            tw.importance(converted, X, y)


def test_a_model_on_a_server_is_refused_with_the_reason():
    served = type("H2ORandomForestEstimator", (type("ModelBase", (), {"__module__": "h2o.model.model_base"}),), {})
    with pytest.raises(TypeError, match=r"H2ORandomForestEstimator.*Java"):
        tw.importance(served(), X, y)


def test_a_class_is_refused():
    with pytest.raises(TypeError, match="class RandomForestClassifier"):
        tw.importance(RandomForestClassifier, X, y)


@pytest.mark.parametrize("name", ["rf", "tree", "bagging", "imblearn", "quantile-forest"])
def test_an_unfitted_model_is_refused(name):
    case = CASES[name]
    with pytest.raises(NotFittedError):
        tw.importance(clone(case.make(**case.options)), X, y)


def test_bagging_over_other_models_is_refused():
    with pytest.raises(TypeError, match="SVC"):
        tw.importance(BaggingClassifier(SVC(), 3).fit(X, y), X, y)


def test_a_warm_started_bagging_has_no_bags():
    bagging = BaggingClassifier(n_estimators=3, warm_start=True).fit(X, y).set_params(n_estimators=5).fit(X, y)
    with pytest.raises(ValueError, match="warm_start"):
        tw.importance(bagging, X, y)


def test_bagging_that_copies_rows_is_known_by_its_data():
    import sklearn

    with sklearn.config_context(enable_metadata_routing=True):
        bagging = BaggingClassifier(DecisionTreeClassifier(), 5, max_samples=0.2, random_state=0).fit(X, y)
        assert bagging.estimators_[0].tree_.n_node_samples[0] == 10
        result = tw.importance(bagging, X, y)
    assert result.values[0] > 0


def test_a_third_party_adapter(monkeypatch, tmp_path):
    (tmp_path / "stump_adapter.py").write_text(
        "import truewood.adapters as adapters\ndef open_model(model):\n    return adapters.open_model(model.tree)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("truewood.adapters._registry._REGISTRY", {**_REGISTRY})

    class Stump:
        tree = DecisionTreeClassifier(max_depth=1).fit(X, y)

    tw.register_adapter(f"{Stump.__module__}.Stump", "stump_adapter")
    assert tw.to_ensemble(Stump()).n_trees == 1


def test_register_adapter_wants_a_path():
    with pytest.raises(ValueError, match="class_path"):
        tw.register_adapter("Forest", "adapter")
    with pytest.raises(TypeError, match=r"class_path.*str.*int"):
        tw.register_adapter(3, "adapter")
    with pytest.raises(TypeError, match=r"module.*str.*NoneType"):
        tw.register_adapter("lib.Forest", None)


def test_no_other_tree_library_is_imported():
    code = (
        "import sys, truewood, sklearn.ensemble\n"
        "truewood.to_ensemble(sklearn.ensemble.RandomForestClassifier(2).fit([[0], [1]], [0, 1]))\n"
        "others = {'catboost', 'dask', 'econml', 'imblearn', 'lightgbm', 'polars', 'quantile_forest', 'sksurv',"
        " 'treelite', 'xgboost'}\n"
        "loaded = others & {name.split('.')[0] for name in sys.modules}\n"
        "assert not loaded, loaded\n"
        "assert 'matplotlib' not in sys.modules\n"
        "assert 'truewood.adapters._sklearn_bagging' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_other_models_are_refused_in_a_short_line():
    X, y = np.arange(20.0).reshape(10, 2), np.tile([0, 1], 5)
    with pytest.raises(TypeError, match=r"^model\b.*LogisticRegression.*XGBoost.*register_adapter") as caught:
        tw.importance(LogisticRegression().fit(X, y), X, y)
    message = str(caught.value)
    assert len(message) < 300
    assert "\n" not in message
