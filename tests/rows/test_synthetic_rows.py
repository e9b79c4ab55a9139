"""Rows that lie between two others of their class, as SMOTE makes them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import KFold

import truewood as tw

over_sampling = pytest.importorskip("imblearn.over_sampling")

FOREST = RandomForestClassifier(20, random_state=0)


def draw(seed=0, share=0.2, n_rows=300):
    rng = np.random.default_rng(seed)
    return 3 * rng.standard_normal((n_rows, 5)) + 10, (rng.random(n_rows) < share).astype(int)


def shuffle(X, y):
    order = np.random.default_rng(1).permutation(len(y))
    return X[order], y[order]


@pytest.mark.parametrize("kind", ["SMOTE", "ADASYN", "BorderlineSMOTE"])
def test_p_values_of_synthetic_rows_are_withheld_and_scores_kept(kind):
    X, y = getattr(over_sampling, kind)(random_state=0).fit_resample(*draw())
    forest = RandomForestClassifier(20, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="p-values are withheld.*between two other rows.*SMOTE"):
        result = tw.importance(forest, X, y, contributions=True, per_class=True)
    assert "SMOTE" in result.inference_unavailable
    assert np.isnan(result.p_value).all()
    assert np.isnan(result.std_error).all()
    assert np.isnan(result.total_p_value)
    assert np.isnan(result.classes.p_value).all()
    np.testing.assert_allclose(result.contributions.sum(axis=0), result.values)
    with pytest.warns(UserWarning, match="scores are unreliable.*SMOTE"):
        plain = tw.importance(forest, X, y, inference=False)
    np.testing.assert_array_equal(plain.values, result.values)
    assert any("SMOTE" in note for note in plain.notes)


@pytest.mark.parametrize("inference", ["bags", "residual"])
def test_no_other_test_answers_instead(inference):
    X, y = over_sampling.SMOTE(random_state=0).fit_resample(*draw())
    with pytest.warns(UserWarning, match="p-values are withheld.*SMOTE"):
        result = tw.importance(FOREST.fit(X, y), X, y, inference=inference)
    assert np.isnan(result.p_value).all()


def test_held_out_synthetic_rows():
    X, y = shuffle(*over_sampling.SMOTE(random_state=0).fit_resample(*draw(share=0.1, n_rows=600)))
    for model in (HistGradientBoostingClassifier(max_iter=10), RandomForestClassifier(10, random_state=0)):
        with pytest.warns(UserWarning, match="p-values are withheld.*SMOTE"):
            result = tw.importance(model.fit(X[::2], y[::2]), X[1::2], y[1::2], rows="heldout")
        assert np.isnan(result.p_value).all()


def test_folds_of_synthetic_rows():
    X, y = shuffle(*over_sampling.SMOTE(random_state=0).fit_resample(*draw(share=0.1)))
    labels = np.array(["no", "yes"])[y]
    with pytest.warns(UserWarning, match="p-values are withheld.*SMOTE"):
        result = tw.cross_importance(FOREST, X, labels, cv=3, feature_groups={"first": [0, 1]})
    assert np.isnan(result.p_value).all()
    assert np.isnan(result.columns.p_value).all()
    with pytest.warns(UserWarning, match="scores are unreliable.*SMOTE"):
        plain = tw.cross_importance(FOREST, X, labels, cv=3, inference=False)
    assert any("SMOTE" in note for note in plain.notes)
    with pytest.warns(UserWarning, match="p-values are withheld.*SMOTE"):
        pairs = tw.cross_interactions(FOREST, X, labels, cv=3)
    assert np.isnan(pairs.p_value).all()
    assert np.isfinite(pairs.values).all()


def test_interactions_of_synthetic_rows():
    X, y = over_sampling.SMOTE(random_state=0).fit_resample(*draw())
    with pytest.warns(UserWarning, match="p-values are withheld.*SMOTE"):
        pairs = tw.interactions(FOREST.fit(X, y), X, y)
    assert np.isnan(pairs.p_value).all()
    assert np.isfinite(pairs.values).all()


def test_resampling_inside_a_pipeline_keeps_p_values():
    pipeline = pytest.importorskip("imblearn.pipeline").make_pipeline(over_sampling.SMOTE(random_state=0), FOREST)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = tw.cross_importance(pipeline, *draw(), cv=KFold(3, shuffle=True, random_state=0))
    assert np.isfinite(result.p_value).all()


def draw_tables():
    """Tables whose rows are in line by chance, by construction, or not at all."""
    rng = np.random.default_rng(0)
    X = draw()[0]
    zeros = rng.gamma(1.0, 1.0, (1000, 6)) * (rng.random((1000, 6)) < 0.55)
    celsius = rng.normal(20, 5, (1000, 1))
    yield X
    yield X.round(1)
    yield X[:, :2]
    yield X[:, :1] * [1.0, 2.0, 3.0] + [0.0, 1.0, 2.0]
    yield X[:, :2] @ [[1.0, 0.0, 1.0, 2.0], [0.0, 1.0, 1.0, -1.0]]
    yield zeros[:300, :3]  # a row with a single amount lies between others of the same kind
    yield zeros
    yield np.clip(rng.standard_normal((2000, 4)), -0.9, 0.9)
    yield np.hstack([celsius, 1.8 * celsius + 32, celsius + 273.15, zeros[:, :2]])
    yield np.cumsum(rng.standard_normal((1000, 4)), axis=0)
    yield rng.standard_normal((20_000, 3)).round(3)


def test_other_rows_keep_their_p_values():
    rng = np.random.default_rng(0)
    for table in draw_tables():
        y = rng.integers(0, 2, len(table))
        forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(table, y)
        assert tw.importance(forest, table, y, inference=False).notes == ()


def test_levels_that_are_far_apart_are_not_warned_about():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(60), np.arange(60) % 2
    levels = [rng.choice([0.0, 1e-45, -1e-40, 1.0], 60), rng.choice([1.0, 1e30, -1e30, 2e30], 60)]
    X = np.column_stack([*levels, x, x])
    assert tw.importance(RandomForestClassifier(5, random_state=0).fit(X, y), X, y, inference=False).notes == ()
