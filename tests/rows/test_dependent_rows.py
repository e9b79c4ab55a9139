"""Rows that depend on their neighbors are warned about; sorted rows are not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import PredefinedSplit, TimeSeriesSplit

import truewood as tw
from truewood._rows.dependent_rows import find_correlated_neighbors

MESSAGE = r"neighboring rows to .*'x\d'.*same unit.*time or place.*groups=.*cv=.*consecutive blocks"


def draw_series(n_rows=400):
    noise = np.random.default_rng(0).standard_normal((n_rows, 4))
    series = lfilter([1.0], [1.0, -0.9], noise, axis=0)
    return series[:, :3], series[:, 3]


@pytest.fixture(scope="module")
def forest():
    X, y = draw_series()
    return RandomForestRegressor(30, min_samples_leaf=5, random_state=0).fit(X, y)


def test_a_time_series_is_warned_about(forest, engine):
    del engine
    X, y = draw_series()
    with pytest.warns(UserWarning, match=MESSAGE) as caught:
        tw.importance(forest, X, y)
    assert caught[0].filename == __file__


def test_held_out_rows_and_folds_are_checked():
    X, y = draw_series(800)
    model = GradientBoostingRegressor(n_estimators=20, random_state=0)
    with pytest.warns(UserWarning, match=MESSAGE):
        tw.importance(model.fit(X[:300], y[:300]), X[300:], y[300:], rows="heldout")
    with pytest.warns(UserWarning, match=MESSAGE):
        tw.cross_importance(model, X, y, cv=TimeSeriesSplit(4), progress=False)


def test_declared_blocks_and_shuffled_rows_are_not_warned_about(forest):
    X, y = draw_series()
    order = np.random.default_rng(1).permutation(400)
    model = GradientBoostingRegressor(n_estimators=20, random_state=0)
    blocks = np.arange(400) * 40 // 400
    tw.cross_importance(model, X, y, groups=blocks, cv=PredefinedSplit(blocks // 8), progress=False)
    shuffled = RandomForestRegressor(30, random_state=0).fit(X[order], y[order])
    tw.importance(shuffled, X[order], y[order])
    tw.importance(forest, X, y, inference=False)


@pytest.mark.parametrize("task", ["classes", "numbers", "strings"])
def test_rows_sorted_by_the_target_are_not_warned_about(task):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    y = X[:, 0] + rng.standard_normal(300)
    kind = RandomForestRegressor if task == "numbers" else RandomForestClassifier
    y = y if task == "numbers" else np.digitize(y, [-0.5, 0.5])
    order = np.argsort(y, kind="stable")
    if task == "classes":
        order = np.concatenate([order[y[order] == label] for label in (1, 2, 0)])
    X, y = X[order], np.array(["b", "c", "a"])[y[order]] if task == "strings" else y[order]
    forest = kind(20, random_state=0)
    tw.importance(forest.fit(X, y), X, y)
    tw.cross_importance(forest, X, y, cv=3 if task != "numbers" else 5, progress=False)


def test_sorted_by_a_feature_is_worded_as_a_condition():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    X = X[np.argsort(X[:, 0])]
    y = 3 * X[:, 0] + rng.standard_normal(300)
    with pytest.warns(
        UserWarning, match=r"If neighbors .*time or place.*If rows are independent and were merely sorted"
    ):
        tw.importance(RandomForestRegressor(20, random_state=0).fit(X, y), X, y)


def test_independent_rows_are_rarely_warned_about():
    rng = np.random.default_rng(0)
    for draw in (rng.standard_normal, rng.standard_cauchy, lambda size: rng.integers(0, 2, size).astype(float)):
        found = [find_correlated_neighbors(draw((100, 10))) for _ in range(300)]
        assert sum(one is not None for one in found) <= 1  # one in 10,000
    assert find_correlated_neighbors(np.zeros((100, 2))) is None
    assert find_correlated_neighbors(np.full((100, 2), np.nan)) is None
    assert find_correlated_neighbors(np.arange(19.0)[:, np.newaxis]) is None


def test_neighbors_in_different_folds_are_compared():
    rng = np.random.default_rng(0)
    order = rng.permutation(500)
    parts = np.array_split(order, 5)
    phi = rng.standard_normal((500, 3))
    phi[:, 1] += 3.0 * np.isin(np.arange(500), parts[0])  # folds differ, neighbors do not
    assert find_correlated_neighbors(phi, parts) is None
    phi[1:, 2] += phi[:-1, 2]
    feature, correlation = find_correlated_neighbors(phi, parts)
    assert feature == 2
    assert correlation == pytest.approx(find_correlated_neighbors(phi)[1], abs=0.05)
    repeated = [*parts, *np.array_split(rng.permutation(500), 5)]  # each row twice
    assert find_correlated_neighbors(phi, repeated)[1] == pytest.approx(correlation)
    assert find_correlated_neighbors(rng.standard_normal((500, 3)), repeated) is None
    found = [
        find_correlated_neighbors(rng.standard_normal((100, 10)), np.array_split(np.arange(100), 4)) for _ in range(300)
    ]
    assert sum(one is not None for one in found) <= 1  # one in 10,000
    assert find_correlated_neighbors(np.ones((100, 2)), [np.arange(100)]) is None


def test_a_time_series_in_shuffled_folds_is_warned_about():
    X, y = draw_series()
    with pytest.warns(UserWarning, match=MESSAGE):
        tw.cross_importance(GradientBoostingRegressor(n_estimators=20, random_state=0), X, y, cv=5, progress=False)


def test_the_feature_and_its_correlation_are_named():
    rng = np.random.default_rng(0)
    phi = rng.standard_normal((500, 3))
    phi[1:, 2] += phi[:-1, 2]
    feature, correlation = find_correlated_neighbors(phi)
    ranks = phi[:, 2].argsort().argsort()
    assert feature == 2
    assert correlation == pytest.approx(np.corrcoef(ranks[1:], ranks[:-1])[0, 1], abs=0.01)


def test_copies_beside_each_other_are_not_warned_about():
    rng = np.random.default_rng(0)
    X, y = np.repeat(rng.standard_normal((150, 3)), 2, axis=0), np.repeat(rng.standard_normal(150), 2)
    y += 0.01 * rng.standard_normal(300)
    forest = RandomForestRegressor(20, random_state=0)
    assert "copies" in tw.importance(forest.fit(X, y), X, y).notes[0]
    assert "copies" in tw.cross_importance(forest, X, y, cv=4, progress=False).notes[0]


def test_features_that_few_rows_contribute_to_raise_no_alarm():
    phi = np.zeros((42, 2))
    phi[[10, 11, 12], 0] = 1.0, 1.5, 2.0
    phi[:, 1] = np.random.default_rng(0).standard_normal(42)
    assert find_correlated_neighbors(phi) is None
