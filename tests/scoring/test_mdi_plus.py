"""MDI+ on evaluation rows: against the oracle, its influence of rows, and what it refuses."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import truewood as tw
from helpers.grouped_forest import GroupForestRegressor, list_oob_rows
from helpers.oracle import make_lines, make_stumps, score_forest
from helpers.sklearn_models import build, score_built
from truewood._inputs.tables import FeatureMatrix
from truewood._inputs.target import NumberTarget
from truewood._scoring import mdi_plus, trees
from truewood._scoring.inputs import make_scoring_inputs
from truewood._scoring.tree_ridge import fit_tree
from truewood._trees.categories import Categories
from truewood.adapters import open_model

PENALTY = 0.1


def make_data(seed=0, n_rows=150):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 5))
    X[:, 1] = rng.integers(0, 3, n_rows)
    return X, 2 * X[:, 0] + X[:, 1] + rng.standard_normal(n_rows)


@pytest.fixture(scope="module")
def fitted():
    X, y = make_data()
    return RandomForestRegressor(12, min_samples_leaf=3, random_state=0).fit(X, y), X, y


def score(model, X, y, **options):
    return tw.importance(model, X, y, measure="mdi_plus_oob", **options)


def open_inputs(forest, X, y):
    return make_scoring_inputs(open_model(forest), X, y, rows="oob")


def fit_first(inputs, data=None):
    inputs = inputs if data is None else dataclasses.replace(inputs, data=data)
    return fit_tree(inputs, 0, inputs.tree_model.read(range(1)), inputs.evaluation_rows.of_tree(0))


@pytest.mark.parametrize("name", ["rfr", "rf-several-outputs", "rfr-missing", "bagging-repeated-columns"])
def test_contributions_add_up_to_the_oracles_scores(name, engine):
    built = build(name, seed=2)
    result = score_built(built, "mdi_plus_oob", contributions=True, feature_groups={"both": [0, 2]})
    by_column = score_forest("mdi_plus_oob", built.trees, built.dense, built.codes, built.n_classes)
    expected = [by_column[0] + by_column[2], by_column[1], by_column[3]]
    np.testing.assert_allclose(result.values, expected, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(result.contributions.sum(axis=0), expected, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(result.expand().values, by_column, rtol=1e-11, atol=1e-13)
    assert result.skipped_weight == 0.0


def test_stumps_of_a_tree_are_orthogonal_on_its_in_bag_rows(fitted):
    # That is why only the linear terms have to be solved for.
    built = build("rfr", seed=0)
    weight = np.zeros(len(built.dense))
    for row, own in built.trees[0].training:
        weight[row] = own
    stumps = make_stumps(built.trees[0], built.dense, weight)
    values = np.column_stack([values for _, values, _ in stumps])
    squares = np.diag([at_node for _, _, at_node in stumps])
    np.testing.assert_allclose((values.T * weight) @ values, squares, atol=1e-9)
    np.testing.assert_allclose(weight @ values, 0.0, atol=1e-9)
    lines = make_lines(built.trees[0], built.dense, weight, stumps)
    for column, line in lines:
        largest = max(at_node for own, _, at_node in stumps if own == column)
        assert weight @ line**2 == pytest.approx(largest)


def test_influence_of_in_bag_rows_is_the_derivative_of_the_scores(fitted):
    forest, X, y = fitted
    inputs = open_inputs(forest, X, y)

    def score_first(fit):
        parts, _ = fit.predict_parts(fit.factorize(PENALTY), 0)
        own = fit.evaluation
        return ((own.y - own.y.mean()) * parts).mean(axis=0)

    fit = fit_first(inputs)
    influence = fit.measure_influence(fit.factorize(PENALTY), 0)
    np.testing.assert_allclose(influence.sum(axis=0), score_first(fit), rtol=1e-10)
    row = 7  # of the in-bag rows
    moved = inputs.data.target.numbers.copy()
    moved[fit.in_bag.rows[row]] += 0.5
    target = NumberTarget(inputs.data.target.kind, moved, inputs.data.target.origin)
    other = fit_first(inputs, dataclasses.replace(inputs.data, target=target))
    change = influence[row] / fit.in_bag.y[row] * 0.5
    np.testing.assert_allclose(score_first(other) - score_first(fit), change, rtol=1e-8, atol=1e-12)


def test_a_linear_effect_scores_more_than_the_few_steps_that_trees_cut_it_into():
    X, y = make_data()
    forest = RandomForestRegressor(12, max_leaf_nodes=3, random_state=0).fit(X, y)
    new, splits = score(forest, X, y), tw.importance(forest, X, y, measure="mdi_oob")
    assert new.values[0] > 1.1 * splits.values[0]
    assert new.p_value[0] < 1e-6
    np.testing.assert_allclose(new.share, new.values / new.impurity)
    np.testing.assert_array_equal(new.mdi, splits.mdi)


@pytest.mark.parametrize("make", [RandomForestRegressor, RandomForestClassifier])
def test_neither_threads_nor_batches_nor_engines_change_a_bit(make, engines, monkeypatch):
    X, y = make_data(1)
    y = np.digitize(y, [0.0, 2.0]) if make is RandomForestClassifier else y
    forest = make(12, random_state=0).fit(X, y)
    first = score(forest, X, y, contributions=True)
    assert first.std_error.all()
    for engine in engines:
        for n_jobs, n_values in ((1, 1), (2, 1), (5, 3000)):
            monkeypatch.setattr(trees, "MOST_VALUES", n_values)
            other = score(forest, X, y, contributions=True, n_jobs=n_jobs, engine=engine)
            for name in ("per_tree", "contributions", "std_error", "p_value"):
                np.testing.assert_array_equal(getattr(other, name), getattr(first, name))


def test_the_units_of_columns_do_not_matter(fitted):
    forest, X, y = fitted
    moved = np.float32(4 * X - 2)
    other = RandomForestRegressor(12, min_samples_leaf=3, random_state=0).fit(moved, y)
    np.testing.assert_allclose(score(other, moved, y).values, score(forest, X, y).values, rtol=1e-5, atol=1e-6)


def test_the_order_of_evaluation_rows_does_not_matter_nor_does_listing_all_of_them_twice(fitted):
    forest, X, y = fitted
    expected = score(forest, X, y).values
    listed = [np.setdiff1d(np.arange(len(X)), bag)[::-1] for bag in forest.estimators_samples_]
    np.testing.assert_allclose(score(forest, X, y, rows=listed).values, expected, rtol=1e-12)
    twice = [np.repeat(rows, 2) for rows in listed]
    np.testing.assert_allclose(score(forest, X, y, rows=twice).values, expected, rtol=1e-12)


def test_classes_add_up():
    X, y = make_data(2)
    y = np.digitize(y, [0.0, 2.0])
    forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    result = score(forest, X, y, per_class=True)
    np.testing.assert_allclose(result.per_class.sum(axis=0), result.values, rtol=1e-12)
    assert result.per_class.shape == (3, 5)
    # What is more of one of two classes is less of the other.
    two = (y == 1).astype(int)
    forest = RandomForestClassifier(10, random_state=0).fit(X, two)
    halves = score(forest, X, two, per_class=True)
    np.testing.assert_allclose(halves.per_class[0], halves.per_class[1], rtol=1e-9, atol=1e-12)
    assert (halves.classes.std_error > 0).all()


def test_columns_split_by_category_have_no_linear_term(fitted):
    inputs = open_inputs(*fitted)
    ensemble = inputs.tree_model.read(range(1))
    splits = ensemble.splits[ensemble.split_features == 1]
    assert len(splits)
    categories = Categories.from_lists(len(ensemble.left), splits, [[0]] * len(splits))
    by_category = dataclasses.replace(ensemble, categories=categories)
    fit = fit_tree(inputs, 0, by_category, inputs.evaluation_rows.of_tree(0))
    without = fit.in_bag.lines.shape[1]
    assert list(fit.columns) == [0, 1, 2, 3, 4]
    assert without == fit_first(inputs).in_bag.lines.shape[1] - 1 == 4
    parts, _ = fit.predict_parts(fit.factorize(PENALTY), 0)
    assert np.ptp(parts[:, 1]) > 0  # its stumps still count


def test_a_missing_value_takes_the_mean(fitted):
    inputs = open_inputs(*fitted)
    values = inputs.data.matrix.values.copy()
    values[::7, 0] = np.nan
    matrix = FeatureMatrix(values, inputs.data.matrix.names, has_missing=True)
    fit = fit_first(inputs, dataclasses.replace(inputs.data, matrix=matrix))
    for rows in (fit.in_bag, fit.evaluation):
        is_missing = rows.rows % 7 == 0
        assert is_missing.any()
        assert (rows.lines[is_missing, 0] == 0).all()
    assert fit.in_bag.weight @ fit.in_bag.lines[:, 0] == pytest.approx(0.0, abs=1e-9)


def test_infinite_values_are_refused(fitted):
    inputs = open_inputs(*fitted)
    values = inputs.data.matrix.values.copy()
    values[3, 2] = np.inf
    matrix = FeatureMatrix(values, inputs.data.matrix.names, has_missing=False)
    with pytest.raises(ValueError, match=r"X.*infinite.*'mdi_plus_oob'.*'x2'"):
        fit_first(inputs, dataclasses.replace(inputs.data, matrix=matrix))


def test_encoded_columns_are_summed():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"color": rng.choice(["red", "green", "blue"], 150), "size": rng.random(150)})
    y = (table["color"] == "red") + table["size"] + 0.5 * rng.standard_normal(150)
    encoder = make_column_transformer((OneHotEncoder(), ["color"]), remainder="passthrough")
    result = score(make_pipeline(encoder, RandomForestRegressor(10, random_state=0)).fit(table, y), table, y)
    assert result.feature_names.tolist() == ["color", "size"]
    np.testing.assert_allclose(result.values[0], result.expand().values[:3].sum(), rtol=1e-12)


def test_clusters_are_summed_before_they_are_squared():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(40), 4)
    X = rng.standard_normal((160, 3))
    y = X[:, 0] + rng.standard_normal(40)[labels]
    forest = GroupForestRegressor(20, random_state=0).fit_groups(X, y, labels)
    result = score(forest, X, y, groups=labels, contributions=True)
    listed = score(forest, X, y, rows=list_oob_rows(forest), groups=labels)
    np.testing.assert_array_equal(listed.std_error, result.std_error)
    summed = np.stack([result.contributions[labels == label].sum(axis=0) for label in range(40)])
    spread = np.sqrt(((summed - result.values / 40) ** 2).sum(axis=0))
    assert (result.null_std_error > 0.6 * spread).all()


def test_trees_that_never_split_score_zero():
    X, y = make_data(3)
    forest = RandomForestRegressor(8, max_leaf_nodes=2, min_impurity_decrease=1e9, random_state=0).fit(X, y)
    result = score(forest, X, y)
    np.testing.assert_array_equal(result.values, 0.0)
    assert mdi_plus.choose_penalties(open_inputs(forest, X, y), None).tolist() == [10.0]


@pytest.mark.statistical
@pytest.mark.parametrize("make", [RandomForestRegressor, RandomForestClassifier])
def test_noise_scores_zero_on_average(make):
    scores, rejected = [], []
    for seed in range(100):
        rng = np.random.default_rng([20, seed])
        X = rng.standard_normal((120, 6))
        X[:, 3:] = rng.integers(0, 4, (120, 3))
        y = X[:, 0] + rng.standard_exponential(120)
        y = (y > np.median(y)).astype(int) if make is RandomForestClassifier else y
        result = score(make(40, random_state=seed).fit(X, y), X, y)
        scores.append(result.share[1:])
        rejected.append(result.p_value[1:] < 0.05)
    mean = np.mean(scores, axis=0)
    error = np.std(scores, axis=0) / np.sqrt(len(scores))
    assert (np.abs(mean) < 3.5 * error).all(), (mean, error)  # five tests a forest
    assert np.mean(rejected) < 0.06


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rows": "heldout"}, "mdi_plus_oob.*training data.*heldout.*rows='oob'"),
        ({"inference": "residual"}, "residual.*mdi_plus_oob"),
    ],
)
def test_what_it_cannot_score_is_refused(fitted, options, words):
    forest, _, _ = fitted
    X, y = make_data(0) if "inference" in options else make_data(9)
    with pytest.raises(ValueError, match=rf"(?s){words}"):
        score(forest, X, y, **options)


def test_boosted_trees_are_refused(fitted):
    _, X, y = fitted
    X_test, y_test = make_data(9)
    model = GradientBoostingRegressor(n_estimators=5, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"'mdi_plus_oob'.*boosted trees.*'mdi_oob'"):
        score(model, X_test, y_test, rows="heldout")
