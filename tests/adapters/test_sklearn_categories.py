"""Trees of scikit-learn with native categories, since release 1.10; and nodes that truewood does not know."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor

import truewood as tw
from helpers.oracle import OracleTree, score_forest
from truewood._engines.selection import ENGINE_VARIABLE
from truewood.adapters import _sklearn_categories
from truewood.adapters._sklearn_categories import read_categories
from truewood.testing import check_adapter

needs_categories = pytest.mark.skipif(
    "categorical_features" not in inspect.signature(DecisionTreeClassifier).parameters,
    reason="scikit-learn before 1.10 has no categorical splits",
)
N_LEVELS = 6


def draw(seed, n_rows=300, n_levels=N_LEVELS):
    """Codes of categories in columns 0 (noise) and 1, numbers in columns 2 and 3, and a class."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.permutation(np.arange(n_rows) % n_levels),
            rng.permutation(np.arange(n_rows) % N_LEVELS),
            rng.standard_normal((n_rows, 2)),
        ]
    )
    return X, (np.isin(X[:, 1], [0, 3, 4]) + X[:, 2] + rng.standard_normal(n_rows) > 0.5).astype(int)


def with_categories(make, **options):
    return make(categorical_features=[0, 1], random_state=0, **options)


def grow_forest(base, **options):
    """A forest whose trees split on categories; until forests have the parameter, a subclass passes it on."""
    if "categorical_features" in inspect.signature(base).parameters:
        return with_categories(base, **options)

    class CategoricalForest(base):
        categorical_features = (0, 1)

        def __init__(self, n_estimators=100, random_state=0, bootstrap=True):
            super().__init__(n_estimators, random_state=random_state, bootstrap=bootstrap)
            self.estimator_params = (*self.estimator_params, "categorical_features")

    return CategoricalForest(**options)


MAKERS = {
    "tree": lambda: with_categories(DecisionTreeClassifier),
    "tree-regressor": lambda: with_categories(DecisionTreeRegressor, max_leaf_nodes=20),
    "extra-tree": lambda: with_categories(ExtraTreeClassifier),
    "extra-tree-regressor": lambda: with_categories(ExtraTreeRegressor, max_depth=6),
    "bagging": lambda: BaggingClassifier(with_categories(DecisionTreeClassifier), 4, random_state=0),
    "bagging-regressor": lambda: BaggingRegressor(with_categories(ExtraTreeRegressor), 4, random_state=0),
    "forest": lambda: grow_forest(RandomForestClassifier, n_estimators=4),
    "forest-regressor": lambda: grow_forest(RandomForestRegressor, n_estimators=4),
    "extra-trees": lambda: grow_forest(ExtraTreesClassifier, n_estimators=4, bootstrap=True),
    "adaboost": lambda: AdaBoostClassifier(with_categories(DecisionTreeClassifier, max_depth=3), n_estimators=4),
}


@needs_categories
@pytest.mark.parametrize("name", MAKERS)
def test_trees_with_categories_are_the_librarys_own(name):
    X, y = draw(0)
    X[::17, 0] = np.nan if name != "adaboost" else 0.0
    model = MAKERS[name]().fit(X, y)
    check_adapter(model, X, y)
    ensemble = tw.to_ensemble(model)
    is_set = ensemble.categories.node_set >= 0
    assert set(ensemble.feature[is_set]) == {0, 1}
    assert set(ensemble.feature[ensemble.splits][~is_set[ensemble.splits]]) == {2, 3}


@needs_categories
@pytest.mark.parametrize("n_levels", [2, 31, 32, 33, 200, 256])
@pytest.mark.parametrize("make", [DecisionTreeClassifier, ExtraTreeClassifier])
def test_any_number_of_categories_is_read(make, n_levels):
    X, y = draw(1, 1000, n_levels)
    check_adapter(with_categories(make).fit(X, y), X, y)


@needs_categories
def test_random_splits_of_very_many_categories_are_read():
    X, y = draw(1, 3000, 3000)
    check_adapter(with_categories(ExtraTreeClassifier).fit(X, y), X, y)


@needs_categories
@pytest.mark.parametrize("base", [DecisionTreeClassifier, ExtraTreeClassifier])
def test_engines_agree_with_the_oracle_on_categories(base, engines, monkeypatch):
    X, y = draw(2, 120)
    model = BaggingClassifier(with_categories(base), 3, random_state=0).fit(X, y)
    trees = []
    for tree, bag in zip(model.estimators_, model.estimators_samples_, strict=True):
        drawn = np.bincount(bag, minlength=len(X))
        in_bag = [(row, float(drawn[row])) for row in np.flatnonzero(drawn)]
        evaluation = [(row, 1.0) for row in np.flatnonzero(drawn == 0)]
        trees.append(OracleTree(tree.tree_, range(4), in_bag, evaluation, [range(2)]))
    for measure in ("ufi", "ufi_centered", "mdi", "mdi_oob", "mdi_plus_oob"):
        expected = score_forest(measure, trees, X, y[:, np.newaxis], [2])
        for engine in engines:
            monkeypatch.setenv(ENGINE_VARIABLE, engine)
            result = tw.importance(model, X, y, measure=measure)
            np.testing.assert_allclose(result.values, expected, rtol=1e-12, atol=1e-12, err_msg=measure)


@needs_categories
def test_a_data_frame_is_encoded_by_the_tree():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"color": pd.Categorical(rng.choice(["red", "green", "blue"], 300)), "size": rng.random(300)})
    y = (frame["color"] == "red") + rng.standard_normal(300)
    tree = DecisionTreeRegressor(categorical_features="from_dtype", max_depth=4).fit(frame, y)
    check_adapter(tree, frame, y)
    tree = DecisionTreeRegressor(categorical_features="from_dtype", max_depth=4).fit(frame[:200], y[:200])
    result = tw.importance(tree, frame[200:], y[200:], rows="heldout")
    assert result.frame()["feature"][0] == "color"
    unknown = frame[200:].assign(color=pd.Categorical(["violet"] * 100))
    check_adapter(tree, unknown)
    with pytest.raises(ValueError, match=r"DecisionTreeRegressor.*sparse"):
        tw.importance(tree, sparse.csr_array(np.ones((100, 2))), y[200:], rows="heldout")


@needs_categories
@pytest.mark.parametrize("options", [{"max_features": 0.5}, {"bootstrap_features": True}])
def test_trees_that_encode_categories_differently_are_refused(options):
    X, y = draw(4)
    bagging = BaggingClassifier(with_categories(ExtraTreeClassifier), 5, random_state=0, **options).fit(X, y)
    with pytest.raises(ValueError, match=r"BaggingClassifier.*categories.*columns"):
        tw.importance(bagging, X, y)


@needs_categories
@pytest.mark.statistical
@pytest.mark.parametrize("is_forest", [False, True], ids=["bagging", "forest"])
def test_noise_with_200_levels_scores_zero_on_average(is_forest):
    scores, own = [], []
    for seed in range(40):
        X, y = draw(seed, 400, 200)
        if is_forest:
            model = grow_forest(RandomForestClassifier, n_estimators=30, random_state=seed).fit(X, y)
        else:
            model = BaggingClassifier(with_categories(DecisionTreeClassifier), 30, random_state=seed).fit(X, y)
        scores.append(tw.importance(model, X, y, inference=False).values[0])
        own.append(np.mean([tree.feature_importances_ for tree in model.estimators_], axis=0))
    assert np.argmax(np.mean(own, axis=0)) == 0
    assert abs(np.mean(scores)) < 3 * np.std(scores, ddof=1) / np.sqrt(len(scores))


def test_unknown_fields_of_nodes_are_refused(monkeypatch):
    X, y = draw(5)
    forest = RandomForestClassifier(3).fit(X, y)
    read_nodes = _sklearn_categories.list_nodes

    def add_field(tree):
        nodes = read_nodes(tree)
        wider = np.empty(len(nodes), dtype=[*nodes.dtype.descr, ("oblique_weight", np.float64)])
        for name in nodes.dtype.names:
            wider[name] = nodes[name]
        return wider

    monkeypatch.setattr(_sklearn_categories, "list_nodes", add_field)
    with pytest.raises(tw.AdapterError, match=r"scikit-learn \d.*oblique_weight.*update truewood"):
        tw.importance(forest, X, y)


NODES = np.dtype(
    [
        ("left_child", np.intp),
        ("feature", np.intp),
        ("left_cat_bitset", (np.uint32, 8)),
        ("split_kind", np.int8),
    ]
)


def make_inner(kinds, bitsets, n_categories):
    """An inner tree with a chain of splits on column 0, as scikit-learn 1.10 stores it."""
    nodes = np.zeros(len(kinds) + 1, dtype=NODES)
    nodes["left_child"] = [*range(1, len(kinds) + 1), -1]
    nodes["feature"][-1] = -2
    nodes["split_kind"] = [*kinds, -1]
    nodes["left_cat_bitset"][:-1] = bitsets
    return SimpleNamespace(
        node_count=len(nodes), _n_categories=np.array([n_categories]), __getstate__=lambda: {"nodes": nodes}
    )


def mix(x):
    """The hash of scikit-learn's random splits on categories, in plain integers."""
    x ^= x >> 16
    x = x * 0x7FEB352D % 2**32
    x ^= x >> 15
    x = x * 0x846CA68B % 2**32
    return x ^ x >> 16


@pytest.mark.parametrize("n_categories", [2, 32, 33, 100])
def test_bitsets_and_hashes_become_sets(n_categories):
    seed = 123456789
    bitset = [0b1011, 0, 1 << 31, 0, 0, 0, 0, 0]
    inner = make_inner([0, 1, 2], [[0] * 8, bitset, [seed] + [0] * 7], n_categories)
    categories = read_categories([inner, inner])
    np.testing.assert_array_equal(categories.node_set, [-1, 0, 1, -1, -1, 2, 3, -1])
    codes = np.arange(n_categories)
    in_bitset = [code in (0, 1, 3, 95) for code in codes]
    np.testing.assert_array_equal(categories.holds(np.full(n_categories, 5), codes), in_bitset)
    in_hash = [bool(mix(seed ^ int(code)) & 1) for code in codes]
    np.testing.assert_array_equal(categories.holds(np.full(n_categories, 2), codes), in_hash)


def test_an_unknown_kind_of_split_is_refused():
    with pytest.raises(tw.AdapterError, match=r"split_kind.*update truewood"):
        read_categories([make_inner([3], [[0] * 8], 4)])
