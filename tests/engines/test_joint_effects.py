"""Predictions, main effects and joint effects against their definition, evaluated leaf by leaf."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

import truewood as tw
from truewood._engines.joint_effects import JointEffects, PairedFeatures
from truewood._engines.records import RowLists
from truewood._engines.selection import get_engine, resolve_engine
from truewood._inputs.tables import FeatureMatrix
from truewood._scoring.joint_effects import share_weight

pytestmark = [pytest.mark.tsan, pytest.mark.asan]


def goes_left(ensemble, node, value):
    if np.isnan(value):
        return bool(ensemble.missing_left[node])
    if ensemble.categories is not None and ensemble.categories.node_set[node] >= 0:
        return bool(ensemble.categories.holds(np.array([node]), np.array([value]))[0])
    return float(value) <= ensemble.threshold[node]


def predict(ensemble, tree, x, group_of, averaged):
    """The prediction for a row if splits on the features in `averaged` send it both ways, by training weight."""

    def at(node):
        if ensemble.left[node] < 0:
            return ensemble.value[node]
        left, right = ensemble.left[node], ensemble.right[node]
        if group_of[ensemble.feature[node]] in averaged:
            weight = ensemble.weight[left], ensemble.weight[right]
            return (weight[0] * at(left) + weight[1] * at(right)) / sum(weight)
        return at(left if goes_left(ensemble, node, x[ensemble.feature[node]]) else right)

    return at(ensemble.offset[tree])


def draw(seed=0, n_rows=60, n_columns=5, *, missing=False):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n_rows, n_columns - 1)), rng.integers(0, 6, n_rows)]).astype(np.float32)
    if missing:
        X[rng.random(X.shape) < 0.15] = np.nan
    return X, np.nan_to_num(X[:, 0] * X[:, 1] + X[:, 2]) + rng.normal(size=n_rows)


def number_pairs(pairs, n_features):
    pair_of = np.full((n_features, n_features), -1, dtype=np.int32)
    for number, (j, k) in enumerate(pairs):
        pair_of[j, k] = pair_of[k, j] = number
    return pair_of


def add(ensemble, X, rows, group_of, pairs, n_features, *, n_columns, engine=None, n_threads=1):
    out = JointEffects.zeros(len(X), n_features, len(pairs), n_columns)
    matrix = FeatureMatrix(X, np.array([f"x{j}" for j in range(X.shape[1])]), bool(np.isnan(X).any()))
    features = PairedFeatures(np.asarray(group_of, dtype=np.int32), number_pairs(pairs, n_features), len(pairs))
    engine = get_engine() if engine is None else resolve_engine(engine)
    engine.add_joint_effects(ensemble, matrix, rows, share_weight(ensemble), ensemble.value, features, out, n_threads)
    return out


def check(ensemble, X, group_of, pairs, n_features):
    """Compare with the definition, on a different half of the rows for each tree."""
    rng = np.random.default_rng(1)
    rows = RowLists.join([np.sort(rng.permutation(len(X))[: len(X) // 2]) for _ in range(ensemble.n_trees)])
    n_columns = ensemble.value.shape[1] if ensemble.column is None else int(ensemble.column.max()) + 1
    out = add(ensemble, X, rows, group_of, pairs, n_features, n_columns=n_columns)
    expected = JointEffects.zeros(len(X), n_features, len(pairs), n_columns)
    for tree in range(ensemble.n_trees):
        at = slice(None) if ensemble.column is None else slice(ensemble.column[tree], ensemble.column[tree] + 1)
        for i in rows.of_tree(tree):
            f = predict(ensemble, tree, X[i], group_of, ())
            without = [predict(ensemble, tree, X[i], group_of, (j,)) for j in range(n_features)]
            expected.prediction[i, at] += f
            for j in range(n_features):
                expected.main[i, j, at] += f - without[j]
            for number, (j, k) in enumerate(pairs):
                both = predict(ensemble, tree, X[i], group_of, (j, k))
                expected.joint[i, number, at] += f - without[j] - without[k] + both
    for name in ("prediction", "main", "joint"):
        np.testing.assert_allclose(getattr(out, name), getattr(expected, name), rtol=0, atol=1e-12, err_msg=name)
    assert np.abs(out.joint).max() > 1e-3


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("missing", [False, True])
def test_effects_follow_their_definition(missing):
    X, y = draw(missing=missing)
    forest = RandomForestRegressor(4, min_samples_leaf=2, random_state=0).fit(X, y)
    check(tw.to_ensemble(forest), X, np.arange(5), list(combinations(range(5), 2)), 5)


@pytest.mark.usefixtures("engine")
def test_classes_feature_groups_and_a_choice_of_pairs():
    X, y = draw(1)
    forest = RandomForestClassifier(4, min_samples_leaf=2, random_state=0).fit(X, np.searchsorted([-1, 1], y))
    # Columns 0 and 3 are one feature, and column 4 is in no pair.
    check(tw.to_ensemble(forest), X, np.array([0, 1, 2, 0, -1]), [(0, 1), (0, 2)], 3)


@pytest.mark.usefixtures("engine")
def test_categories():
    X, y = draw(2, 400, missing=True)
    y = y + 4 * np.isin(X[:, 4], [0, 3, 4])
    model = HistGradientBoostingRegressor(max_iter=4, min_samples_leaf=4, categorical_features=[4], max_depth=4)
    model.fit(X, y)
    ensemble = tw.to_ensemble(model)
    assert ensemble.categories is not None
    check(ensemble, X[:60].astype(np.float64), np.arange(5), list(combinations(range(5), 2)), 5)


@pytest.mark.usefixtures("engine")
def test_trees_of_one_column_each():
    X, y = draw(3, 120)
    model = HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=5).fit(X, np.searchsorted([-1, 1], y))
    ensemble = tw.to_ensemble(model)
    assert ensemble.column is not None
    check(ensemble, X.astype(np.float64), np.arange(5), list(combinations(range(5), 2)), 5)


@pytest.mark.kernel
@pytest.mark.parametrize("missing", [False, True])
def test_engines_and_threads_agree_bit_for_bit(missing):
    X, y = draw(4, 700, 6, missing=missing)
    ensemble = tw.to_ensemble(RandomForestRegressor(6, random_state=0).fit(X, y))
    rng = np.random.default_rng(0)
    rows = RowLists.join([np.flatnonzero(rng.random(len(X)) < 0.4) for _ in range(6)])
    pairs = list(combinations(range(6), 2))
    runs = [("numpy", 1), ("native", 1), ("native", 3)]
    found = [
        add(ensemble, X, rows, np.arange(6), pairs, 6, n_columns=1, engine=engine, n_threads=n_threads)
        for engine, n_threads in runs
    ]
    for other in found[1:]:
        for name in ("prediction", "main", "joint"):
            assert np.array_equal(getattr(found[0], name), getattr(other, name)), name


@pytest.mark.usefixtures("engine")
def test_trees_deeper_than_pythons_stack():
    n = 1500
    inner, ends = np.arange(n), np.full(n + 1, -1)
    chain = tw.TreeEnsemble(
        feature=np.append(inner % 2, ends),
        threshold=np.append(inner / n, np.zeros(n + 1)),
        left=np.append(n + inner, ends),
        right=np.concatenate([inner[1:], [2 * n], ends]),
        missing_left=np.zeros(2 * n + 1, dtype=bool),
        weight=np.concatenate([np.arange(n + 1.0, 1.0, -1.0), np.ones(n + 1)]),
        value=np.random.default_rng(0).normal(size=(2 * n + 1, 1)),
        offset=[0, 2 * n + 1],
        root_impurity=[1.0],
        n_features=2,
        kind=tw.TargetKind(),
    )
    X = np.random.default_rng(1).random((20, 2))
    rows = RowLists.of_every_row(20, 1)
    out = add(chain, X, rows, np.arange(2), [(0, 1)], 2, n_columns=1)
    # A row takes the first split that its value does not exceed.
    first = [next((k for k in range(n) if x[k % 2] <= k / n), n) for x in X]
    np.testing.assert_array_equal(out.prediction, chain.value[n:][first])
    # Without both features, all leaves are averaged; each is reached with the share of its weight.
    averaged = chain.value[n:].mean()
    without = out.prediction[:, 0] - out.main[:, :, 0].sum(axis=1) + out.joint[:, 0, 0]
    np.testing.assert_allclose(without, averaged, rtol=0, atol=1e-10)


@pytest.mark.usefixtures("engine")
def test_main_effects_without_pairs():
    X, y = draw(5)
    ensemble = tw.to_ensemble(RandomForestRegressor(4, random_state=0).fit(X, y))
    rows = RowLists.of_every_row(len(X), 4)
    every = add(ensemble, X, rows, np.array([0, 1, 2, 0, -1]), [(0, 1), (1, 2)], 3, n_columns=1)
    out = JointEffects.zeros(len(X), 3, 0, 1)
    matrix = FeatureMatrix(X, np.array([f"x{j}" for j in range(5)]), False)
    none = PairedFeatures(np.array([0, 1, 2, 0, -1], dtype=np.int32), np.zeros((0, 0), dtype=np.int32), 0)
    get_engine().add_joint_effects(ensemble, matrix, rows, share_weight(ensemble), ensemble.value, none, out)
    np.testing.assert_array_equal(out.prediction, every.prediction)
    np.testing.assert_array_equal(out.main, every.main)


@pytest.mark.kernel
def test_the_kernel_refuses_what_it_cannot_index():
    X, y = draw()
    ensemble = tw.to_ensemble(RandomForestRegressor(2, random_state=0).fit(X, y))
    rows = RowLists.of_every_row(len(X), 2)
    call = {"n_columns": 1, "engine": "native"}
    with pytest.raises(ValueError, match=r"feature_of.*3"):
        add(ensemble, X, rows, [0, 1, 2, 3, 3], [(0, 1)], 3, **call)
    with pytest.raises(ValueError, match="ascend"):
        add(ensemble, X, RowLists.join([np.array([3, 1]), np.array([0])]), np.arange(5), [(0, 1)], 5, **call)
    with pytest.raises(ValueError, match="rows"):
        add(ensemble, X, RowLists.join([np.array([60]), np.array([0])]), np.arange(5), [(0, 1)], 5, **call)
