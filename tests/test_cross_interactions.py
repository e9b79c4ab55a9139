"""`cross_interactions()`: pairs of features on the held-out rows of folds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import truewood as tw

pytestmark = pytest.mark.any_engine


def draw(n_rows=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    return X, X[:, 0] + np.sin(2 * X[:, 1]) + X[:, 0] * X[:, 1] + 50 + rng.normal(size=n_rows)


@pytest.mark.parametrize(
    "model",
    [
        HistGradientBoostingRegressor(max_iter=40, min_samples_leaf=10),
        RandomForestRegressor(20, min_samples_leaf=5, random_state=0),
    ],
)
def test_folds_find_the_pair_that_interacts(model):
    X, y = draw()
    result = tw.cross_interactions(model, X, y, cv=4)
    assert result.pairs[result.select()].tolist() == [[0, 1]]
    assert result.rows == "folds"
    assert result.impurity == pytest.approx(np.var(y), rel=0.02)
    assert result.share[0] == pytest.approx(result.values[0] / result.impurity)


def test_one_fold_is_the_same_as_held_out_rows():
    X, y = draw(300)
    forest = RandomForestRegressor(20, min_samples_leaf=5, random_state=0)
    split = [(np.arange(150), np.arange(150, 300))]
    result = tw.cross_interactions(forest, X, y, cv=split)
    expected = tw.interactions(forest.fit(X[:150], y[:150]), X[150:], y[150:], rows="heldout")
    np.testing.assert_allclose(result.values, expected.values, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(result.null_std_error, expected.null_std_error, rtol=1e-9)
    np.testing.assert_allclose(result.surfaces.observed, expected.surfaces.observed, atol=1e-9)
    assert "150 rows of 300" in result.notes[0]


def test_classes_weights_and_groups():
    X, y = draw()
    classes = y > np.median(y)
    groups = np.arange(400) // 4
    model = HistGradientBoostingClassifier(max_iter=20, min_samples_leaf=10)
    result = tw.cross_interactions(model, X, classes, groups=groups, sample_weight=np.full(400, 2.0))
    assert result.scale == "raw score"
    assert result.n_groups == 100
    assert result.order[0] == 0


def test_wrong_arguments():
    X, y = draw(60)
    model = HistGradientBoostingRegressor(max_iter=3, min_samples_leaf=3)
    for options, facts in (
        ({"cv": RepeatedKFold(n_splits=2, n_repeats=2)}, "cv.*once"),
        ({"cv": ShuffleSplit(3, random_state=0)}, "cv.*once"),
        ({"max_pairs": 2}, r"max_pairs.*\b6\b.*\b2\b"),
        ({"max_pairs": 0}, "max_pairs.*0"),
        ({"groups": np.arange(60) % 2, "cv": KFold(3)}, "cv.*group"),
    ):
        with pytest.raises(ValueError, match=facts):
            tw.cross_interactions(model, X, y, **options)
    with pytest.raises(TypeError, match="estimator"):
        tw.cross_interactions("model", X, y)


def test_processes_change_nothing():
    X, y = draw(200)
    forest = RandomForestRegressor(10, min_samples_leaf=5, random_state=0)
    one, two = (tw.cross_interactions(forest, X, y, cv=2, n_jobs=n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.null_std_error, two.null_std_error)


def test_output_of_cross_validate():
    X, y = draw(200)
    forest, cv = RandomForestRegressor(10, min_samples_leaf=5, random_state=0), KFold(3)
    fitted = cross_validate(forest, X, y, cv=cv, return_estimator=True, return_indices=True)
    result, expected = tw.cross_interactions(fitted, X, y), tw.cross_interactions(forest, X, y, cv=cv)
    np.testing.assert_array_equal(result.values, expected.values)
    with pytest.raises(ValueError, match=r"cv.*params.*cross_validate"):
        tw.cross_interactions(fitted, X, y, cv=3)
    with pytest.raises(ValueError, match=r"return_indices.*fit_time"):
        tw.cross_interactions({"fit_time": [1.0]}, X, y)


def test_encoders_that_see_other_levels_in_other_folds():
    X, y = draw(200)
    level = np.array(["a", "b"])[np.arange(200) % 2].astype(object)
    level[:2] = "rare"
    table = pd.DataFrame({"level": level, "number": X[:, 0], "other": X[:, 1]})
    encoder = ColumnTransformer([("level", OneHotEncoder(handle_unknown="ignore"), ["level"])], remainder="passthrough")
    model = make_pipeline(encoder, RandomForestRegressor(10, min_samples_leaf=5, random_state=0))
    result = tw.cross_interactions(model, table, y, cv=KFold(4))
    assert result.feature_names.tolist() == ["level", "number", "other"]
    assert result.dependence.max() < 0.5
    assert result.pairs[result.select()].tolist() == [[1, 2]]


def test_folds_control_for_features_outside_the_pairs(monkeypatch):
    X, y = draw(200)
    forest = RandomForestRegressor(10, min_samples_leaf=5, random_state=0)
    every = tw.cross_interactions(forest, X, y, cv=2)
    pair = tw.cross_interactions(forest, X, y, cv=2, features=[1, 2])
    np.testing.assert_allclose(pair.values, every.values[every.find_pair(1, 2)], rtol=1e-9)
    np.testing.assert_allclose(pair.null_std_error, every.null_std_error[every.find_pair(1, 2)], rtol=1e-9)
    # If there are more than a few, those with splits that reduce the training impurity most, in all folds.
    monkeypatch.setattr("truewood._scoring.pair_choice._MOST_OTHERS", 1)
    few = tw.cross_interactions(forest, X, y, cv=2, features=[1, 2])
    assert few.values[0] != pair.values[0]
    assert few.values[0] == pytest.approx(pair.values[0], abs=3 * pair.null_std_error[0])


def test_features_by_array():
    X, y = draw(120)
    model = HistGradientBoostingRegressor(max_iter=3, min_samples_leaf=3)
    assert tw.cross_interactions(model, X, y, cv=2, features=np.array([0, 2, 3])).pairs.tolist() == [
        [0, 2],
        [0, 3],
        [2, 3],
    ]
    with pytest.raises(TypeError, match=r"features.*x0"):
        tw.cross_interactions(model, X, y, features="x0")
