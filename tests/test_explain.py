"""Explanations against plain loops over paths, the libraries' own predictions, and `mdi_oob`."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import truewood as tw
from helpers.oracle import walk
from helpers.sklearn_models import CASES, build, draw_bag, has_bags, supported_cases
from truewood._engines.selection import ENGINE_VARIABLE


def draw(n_rows=240, seed=0, n_classes=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 5)).astype(np.float32)
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.standard_normal(n_rows)
    return X, score if n_classes is None else np.searchsorted(np.quantile(score, [0.3, 0.7][: n_classes - 1]), score)


def explain_slowly(trees, values_of, X, n_columns):
    """Mean over the trees that never saw a row of the steps on its paths, and of the roots, row by row."""
    values, base = np.zeros((*X.shape, n_columns)), np.zeros((len(X), n_columns))
    n_trees = np.zeros(len(X))
    for tree, value in zip(trees, values_of, strict=True):
        for row, _ in tree.evaluation:
            path = walk(tree.tree, tree.columns, X[row])
            n_trees[row] += 1
            base[row] += value[0]
            for node, child in pairwise(path):
                values[row, tree.columns[tree.tree.feature[node]]] += value[child] - value[node]
    with np.errstate(invalid="ignore"):
        return values / n_trees[:, None, None], base / n_trees[:, None]


FORESTS = [name for name in supported_cases() if has_bags(name) and "bagging" not in name and "several" not in name]


@pytest.mark.filterwarnings("ignore:no explanation")
@pytest.mark.parametrize("name", FORESTS)
def test_engines_agree_with_the_oracle(name, engines, monkeypatch):
    built = build(name, 0)
    stored = [tree.tree.value[:, 0, :] for tree in built.trees]
    if built.case.is_classifier:
        stored = [value / value.sum(axis=1, keepdims=True) for value in stored]
    values, base = explain_slowly(built.trees, stored, built.dense, stored[0].shape[1])
    for engine in engines:
        monkeypatch.setenv(ENGINE_VARIABLE, engine)
        explanation = tw.explain(built.model, built.X, built.y, rows=built.rows, sample_weight=built.sample_weight)
        got = explanation.values.reshape(values.shape), explanation.base_values.reshape(base.shape)
        np.testing.assert_allclose(got[0], values, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(got[1], base, rtol=1e-12, atol=1e-12)


def test_out_of_bag_values_add_up_to_the_out_of_bag_prediction():
    X, y = draw(n_classes=3)
    forest = RandomForestClassifier(30, oob_score=True, random_state=0).fit(X, y)
    np.testing.assert_allclose(tw.explain(forest, X, y).predictions, forest.oob_decision_function_, atol=1e-10)
    X, y = draw()
    regressor = RandomForestRegressor(30, oob_score=True, random_state=0).fit(X, y)
    np.testing.assert_allclose(tw.explain(regressor, X, y).predictions, regressor.oob_prediction_, atol=1e-10)


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeRegressor(random_state=0),
        RandomForestRegressor(10, random_state=0),
        RandomForestRegressor(10, criterion="absolute_error", random_state=0),
        GradientBoostingRegressor(n_estimators=10, random_state=0),
        HistGradientBoostingRegressor(max_iter=10),
    ],
    ids=lambda model: type(model).__name__,
)
def test_held_out_values_add_up_to_predictions_of_numbers(model):
    X, y = draw()
    new, _ = draw(seed=1)
    model.fit(X, y)
    explanation = tw.explain(model, new, rows="heldout")
    assert explanation.values.shape == new.shape
    np.testing.assert_allclose(explanation.predictions, model.predict(new), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(random_state=0),
        RandomForestClassifier(10, random_state=0),
        ExtraTreesClassifier(10, random_state=0),
        GradientBoostingClassifier(n_estimators=5, random_state=0),
        HistGradientBoostingClassifier(max_iter=5),
    ],
    ids=lambda model: type(model).__name__,
)
def test_held_out_values_add_up_to_predictions_of_classes(model, n_classes):
    X, y = draw(n_classes=n_classes)
    new, new_y = draw(seed=1, n_classes=n_classes)
    names = np.array(["a", "b", "c"])[:n_classes]
    model.fit(X, names[y])
    explanation = tw.explain(model, new, names[new_y], rows="heldout")
    is_raw = hasattr(model, "decision_function")
    expected = model.decision_function(new) if is_raw else model.predict_proba(new)
    np.testing.assert_allclose(explanation.predictions, expected, rtol=1e-10, atol=1e-10)
    if is_raw and n_classes == 2:
        assert explanation.output_names is None
        np.testing.assert_array_equal(explanation.target, new_y)
    else:
        assert explanation.output_names.tolist() == names.tolist()
        np.testing.assert_array_equal(explanation.target, new_y[:, None] == np.arange(n_classes))


def test_a_first_estimator_that_is_no_constant_is_left_out():
    X, y = draw()
    new, _ = draw(seed=1)
    first = LinearRegression()
    model = GradientBoostingRegressor(n_estimators=5, init=first, random_state=0).fit(X, y)
    added = model.predict(new) - model.init_.predict(new)
    np.testing.assert_allclose(tw.explain(model, new, rows="heldout").predictions, added, atol=1e-6)


def test_tree_weights_count():
    X, y = draw(n_classes=2)
    new, _ = draw(seed=1)
    model = AdaBoostClassifier(DecisionTreeClassifier(max_depth=3), n_estimators=5, random_state=0).fit(X, y)
    weight = model.estimator_weights_
    expected = np.average([tree.predict_proba(new) for tree in model.estimators_], axis=0, weights=weight)
    np.testing.assert_allclose(tw.explain(model, new, rows="heldout").predictions, expected, atol=1e-10)


def test_xgboost_margins():
    xgboost = pytest.importorskip("xgboost")
    X, y = draw(n_classes=3)
    new, _ = draw(seed=1)
    model = xgboost.XGBClassifier(n_estimators=20, max_depth=4).fit(X, y)
    explanation = tw.explain(model, new, rows="heldout")
    margins = model.predict(new, output_margin=True)
    np.testing.assert_allclose(explanation.predictions, margins, atol=2e-5)  # xgboost adds up in float32
    binary = xgboost.XGBClassifier(n_estimators=20, base_score=0.2).fit(X, y == 1)
    explanation = tw.explain(binary, new, rows="heldout")
    np.testing.assert_allclose(explanation.predictions, binary.predict(new, output_margin=True), atol=2e-5)


def test_lightgbm_raw_scores():
    lightgbm = pytest.importorskip("lightgbm")
    X, y = draw(n_classes=3)
    new, _ = draw(seed=1)
    model = lightgbm.LGBMClassifier(n_estimators=10, verbose=-1).fit(X, y)
    explanation = tw.explain(model, new, rows="heldout")
    np.testing.assert_allclose(explanation.predictions, model.predict(new, raw_score=True), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("n_classes", [None, 3])
def test_tree_by_tree_the_mean_product_with_the_centered_target_is_mdi_oob(n_classes):
    X, y = draw(n_classes=n_classes)
    make = RandomForestRegressor if n_classes is None else RandomForestClassifier
    forest = make(6, random_state=0).fit(X, y)
    per_tree = tw.importance(forest, X, y, measure="mdi_oob").per_tree
    numbers = y[:, np.newaxis] if n_classes is None else (y[:, np.newaxis] == np.arange(n_classes)).astype(float)
    for tree in range(6):
        evaluation = np.setdiff1d(np.arange(len(X)), draw_bag(forest, tree))
        lists = [evaluation if t == tree else [] for t in range(6)]
        with pytest.warns(UserWarning, match="explanation"):
            values = tw.explain(forest, X, y, rows=lists).values.reshape(len(X), 5, -1)[evaluation]
        centered = numbers[evaluation] - numbers[evaluation].mean(axis=0)
        product = (values * centered[:, np.newaxis]).sum(axis=2).mean(axis=0)
        np.testing.assert_allclose(product, per_tree[tree], rtol=1e-10, atol=1e-12)


def test_boosted_trees_have_the_same_identity():
    X, y = draw()
    new, new_y = draw(seed=1)
    model = GradientBoostingRegressor(n_estimators=10, random_state=0).fit(X, y)
    score = tw.importance(model, new, new_y, rows="heldout", measure="mdi_oob").values
    values = tw.explain(model, new, rows="heldout").values
    np.testing.assert_allclose((values * (new_y - new_y.mean())[:, np.newaxis]).mean(axis=0), score, rtol=1e-10)


def make_mixed(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "city": rng.choice(["Bern", "Rom", "Wien"], n_rows),
            "age": rng.integers(20, 60, n_rows),
            "x": rng.random(n_rows),
        }
    )
    return X, (X["city"] == "Rom") * 2.0 + X["age"] / 20 + rng.standard_normal(n_rows)


@pytest.fixture(scope="module")
def pipeline():
    X, y = make_mixed(200)
    encode = make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough")
    return make_pipeline(encode, RandomForestRegressor(40, random_state=0)).fit(X, y)


def test_pipelines_explain_the_columns_of_the_table(pipeline):
    X, y = make_mixed(200)
    explanation = tw.explain(pipeline, X, y)
    assert explanation.feature_names.tolist() == ["city", "age", "x"]
    assert explanation.data[:, 0].tolist() == X["city"].tolist()
    new, new_y = make_mixed(50, seed=1)
    explanation = tw.explain(pipeline, new.assign(y=new_y), "y", rows="heldout")
    np.testing.assert_allclose(explanation.predictions, pipeline.predict(new), rtol=1e-10)
    inner = pipeline[-1]
    encoded = tw.explain(inner, pipeline[:-1].transform(new), rows="heldout")
    np.testing.assert_allclose(explanation.values[:, 0], encoded.values[:, :3].sum(axis=1), atol=1e-12)


def test_a_transformed_target_needs_no_y():
    X, y = draw()
    new, _ = draw(seed=1)
    model = TransformedTargetRegressor(RandomForestRegressor(5, random_state=0), func=np.exp, inverse_func=np.log)
    model.fit(X, y)
    explanation = tw.explain(model, new, rows="heldout")
    np.testing.assert_allclose(explanation.predictions, model.regressor_.predict(new), rtol=1e-10)


def test_groups_are_summed():
    X, y = draw()
    forest = RandomForestRegressor(5, random_state=0).fit(X, y)
    new, _ = draw(seed=1)
    single, both = (tw.explain(forest, new, rows="heldout", feature_groups=groups) for groups in (None, {"a": [0, 1]}))
    np.testing.assert_allclose(both.values[:, 0], single.values[:, :2].sum(axis=1), atol=1e-12)
    assert np.isnan(both.data[:, 0]).all()
    np.testing.assert_array_equal(both.data[:, 1], new[:, 2])


def test_training_rows_are_refused():
    X, y = draw(n_classes=2)
    new, new_y = draw(seed=1, n_classes=2)
    forest = RandomForestClassifier(20, random_state=0).fit(X, y)
    for given in (None, y):
        with pytest.raises(ValueError, match="rows='heldout'"):
            tw.explain(forest, X, given, rows="heldout")
    tree = DecisionTreeClassifier(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="rows='heldout'"):
        tw.explain(tree, X, rows="heldout")
    with pytest.raises(ValueError, match=r"rows='auto'.*\by\b"):
        tw.explain(forest, X)
    with pytest.raises(ValueError, match="rows='oob'"):
        tw.explain(forest, new, new_y)
    boosted = HistGradientBoostingClassifier(max_iter=5).fit(X, y)
    with pytest.raises(ValueError, match="rows='auto'"):
        tw.explain(boosted, new)
    with pytest.raises(ValueError, match="rows='heldout'"):
        tw.explain(boosted, X, rows="heldout")
    with pytest.raises(ValueError, match=r"\b240\b.*\b10\b"):
        tw.explain(boosted, new, new_y[:10], rows="heldout")


def test_a_row_that_every_tree_saw_has_no_explanation():
    X, y = draw()
    forest = RandomForestRegressor(2, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match=r"\d+ of 240 rows"):
        explanation = tw.explain(forest, X, y)
    seen = np.intersect1d(draw_bag(forest, 0), draw_bag(forest, 1))
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(explanation.base_values)), seen)
    np.testing.assert_array_equal(np.isnan(explanation.values).all(axis=1), np.isnan(explanation.base_values))


def test_cases_are_not_all_left_out():
    assert {"rfr-absolute-weighted", "rfr-monotonic", "et"} <= set(FORESTS) <= set(CASES)


def test_the_lower_of_two_features_that_work_together_gets_more():
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 10)
    tree = DecisionTreeRegressor(random_state=0).fit(X, X.all(axis=1))
    first = int(tree.tree_.feature[0])
    explanation = tw.explain(tree, [[1, 1]], rows="heldout")
    np.testing.assert_allclose(explanation.base_values, 0.25)
    np.testing.assert_allclose(explanation.values[0, [first, 1 - first]], [0.25, 0.5])


@pytest.mark.parametrize("low_memory", [False, True])
def test_survival_forests_are_explained_by_their_risk(low_memory):
    ensemble = pytest.importorskip("sksurv.ensemble")
    X, time = draw()
    new, _ = draw(seed=1)
    y = np.array([(t > -0.5, t) for t in time], dtype=[("event", bool), ("time", float)])
    y["time"] = np.exp(y["time"])
    forest = ensemble.RandomSurvivalForest(
        25, min_samples_leaf=15, max_samples=0.5, random_state=0, low_memory=low_memory
    )
    forest.fit(X, y)
    explanation = tw.explain(forest, new, y[::-1], rows="heldout")
    np.testing.assert_allclose(explanation.predictions, forest.predict(new), rtol=1e-10)
    assert explanation.is_risk
    own, rows = np.full((25, len(X)), np.nan), np.arange(len(X))
    for risk, tree, bag in zip(own, forest.estimators_, forest.estimators_samples_, strict=True):
        evaluation = np.setdiff1d(rows, bag)
        risk[evaluation] = tree.predict(X[evaluation])
    explanation = tw.explain(forest, X, y)
    np.testing.assert_allclose(explanation.predictions, np.nanmean(own, axis=0), rtol=1e-10)
    listed = tw.explain(forest, X[:50], y[:50], rows=[~np.isnan(risk[:50]) for risk in own])
    np.testing.assert_allclose(listed.values, explanation.values[:50], rtol=1e-10, atol=1e-10)
    for given in (y, None):
        with pytest.raises(tw.TrainingRowsError, match="rows='heldout'"):
            tw.explain(forest, X, given, rows="heldout")


def test_causal_forests_are_refused():
    grf = pytest.importorskip("econml.grf")
    X, y = draw()
    forest = grf.CausalForest(4, random_state=0).fit(X, X[:, :1], y)
    with pytest.raises(TypeError, match="CausalForest"):
        tw.explain(forest, X, np.column_stack([y, X[:, 0]]))


def test_honest_forests_are_explained_on_held_out_rows():
    grf = pytest.importorskip("econml.grf")
    X, y = draw()
    new, _ = draw(seed=1)
    forest = grf.RegressionForest(8, honest=True, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"'heldout'.*RegressionForest"):
        tw.explain(forest, X, y)
    explanation = tw.explain(forest, new, rows="heldout")
    np.testing.assert_allclose(explanation.predictions, forest.predict(new)[:, 0], atol=1e-10)
