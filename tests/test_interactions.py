"""`interactions()`: models, rows, arguments and errors."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import truewood as tw

pytestmark = pytest.mark.any_engine


def draw(n_rows=400, seed=0, *, joint=1.0, n_features=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + (X[:, 2] > 0) + joint * X[:, 0] * X[:, 1] + rng.normal(size=n_rows)
    return X, y


def fit(X, y, model=RandomForestRegressor, **options):
    return model(**{"n_estimators": 40, "min_samples_leaf": 5, "random_state": 0} | options).fit(X, y)


def list_found(result):
    return [tuple(pair) for pair in result.pairs[result.select()].tolist()]


def test_out_of_bag_rows_find_the_pair_that_interacts():
    X, y = draw()
    result = tw.interactions(fit(X, y), X, y)
    assert list_found(result) == [(0, 1)]
    assert result.rows == "oob"
    assert result.scale == "response"
    assert result.pairs.tolist() == [list(pair) for pair in combinations(range(5), 2)]
    assert 0.05 < result.share[0] < 0.3
    assert result.share == pytest.approx(result.values / np.var(y))


def test_held_out_rows_find_the_pair_that_interacts():
    X, y = draw(seed=1)
    result = tw.interactions(fit(X, y), *draw(seed=2), rows="heldout")
    assert list_found(result) == [(0, 1)]
    np.testing.assert_array_equal(result.std_error, result.null_std_error)


def test_lists_of_rows_are_the_same_as_out_of_bag_rows():
    X, y = draw(150)
    forest = fit(X, y, n_estimators=30)
    bags = [tree.random_state for tree in forest.estimators_]
    oob = [np.setdiff1d(np.arange(150), np.random.RandomState(bag).randint(0, 150, 150)) for bag in bags]
    expected = tw.interactions(forest, X, y)
    result = tw.interactions(forest, X, y, rows=oob)
    np.testing.assert_array_equal(result.values, expected.values)
    np.testing.assert_array_equal(result.null_std_error, expected.null_std_error)


@pytest.mark.parametrize(
    "model",
    [
        GradientBoostingRegressor(n_estimators=60, max_depth=3),
        HistGradientBoostingRegressor(max_iter=60, min_samples_leaf=10),
        ExtraTreesRegressor(40, min_samples_leaf=5, bootstrap=False, random_state=0),
    ],
)
def test_models_of_numbers(model):
    model.fit(*draw(seed=1))
    result = tw.interactions(model, *draw(seed=2), rows="heldout")
    assert (0, 1) in list_found(result)
    assert result.order[0] == 0
    assert np.isfinite(result.share).all()


def test_raw_scores_are_tested_on_the_scale_of_log_odds():
    """Probabilities of an additive log-odds model interact; raw scores do not."""

    def draw_classes(seed):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(3000, 3))
        return X, rng.random(3000) < 1 / (1 + np.exp(-2.5 * (X[:, 0] > 0) - 2.5 * (X[:, 1] > 0)))

    X, y = draw_classes(0)
    test = draw_classes(1)
    boosted = HistGradientBoostingClassifier(max_iter=60, max_depth=3, random_state=0).fit(X, y)
    raw = tw.interactions(boosted, *test, rows="heldout")
    assert raw.scale == "raw score"
    assert np.isnan(raw.share).all()
    assert raw.p_value[0] > 0.01
    forest = tw.interactions(fit(X, y, RandomForestClassifier, min_samples_leaf=20), *test, rows="heldout")
    assert forest.p_value[0] < 0.001


def test_several_classes_and_several_outputs():
    X, y = draw()
    classes = np.searchsorted(np.quantile(y, [0.3, 0.7]), y)
    result = tw.interactions(fit(X, classes, RandomForestClassifier), X, classes)
    assert result.order[0] == 0
    assert result.output_names.tolist() == ["0", "1", "2"]
    assert result.surfaces.joint.shape == (10, 3, 6, 6)
    both = np.column_stack([y, y + draw(seed=5)[1]])
    result = tw.interactions(fit(X, both), X, both)
    assert result.order[0] == 0
    assert result.output_names.tolist() == ["0", "1"]


def test_boosted_classes():
    X, y = draw(800)
    classes = np.searchsorted(np.quantile(y, [0.3, 0.7]), y)
    model = HistGradientBoostingClassifier(max_iter=20, max_depth=4, min_samples_leaf=10).fit(X[:400], classes[:400])
    result = tw.interactions(model, X[400:], classes[400:], rows="heldout")
    assert result.order[0] == 0
    assert result.surfaces.joint.shape[1] == 3


def test_scores_do_not_depend_on_the_mean_of_y():
    X, y = draw(200)
    forest = fit(X, y)
    result = tw.interactions(forest, X, y)
    for tree in forest.estimators_:
        tree.tree_.value[:] += 1000  # the same splits; a fit to y + 1000 may break ties in another way
    shifted = tw.interactions(forest, X, y + 1000)
    np.testing.assert_allclose(shifted.values, result.values, rtol=1e-8, atol=1e-11)


def test_a_feature_group_interacts_as_a_whole():
    X, y = draw(seed=1)
    groups = {"both": [0, 3], "last": [4]}
    result = tw.interactions(fit(X, y), X, y, feature_groups=groups)
    assert result.feature_names.tolist() == ["both", "x1", "x2", "last"]
    assert list_found(result) == [(0, 1)]


def test_columns_of_a_pipeline_are_those_of_the_caller():
    X, y = draw()
    table = pd.DataFrame(X, columns=list("abcde"))
    table["kind"] = np.where(X[:, 3] > 0.5, "big", np.where(X[:, 3] < -0.5, "small", "medium"))
    y = y + 2 * (table["kind"] == "big") * X[:, 4]
    table = table.drop(columns="d")
    encode = make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough")
    model = make_pipeline(encode, RandomForestRegressor(40, min_samples_leaf=5, random_state=0)).fit(table, y)
    result = tw.interactions(model, table, y)
    found = result.frame().query("adjusted_p_value < 0.05")
    assert {frozenset(pair) for pair in zip(found["feature_1"], found["feature_2"], strict=True)} == {
        frozenset({"a", "b"}),
        frozenset({"e", "kind"}),
    }


def test_only_pairs_of_the_features_asked_for():
    X, y = draw()
    forest = fit(pd.DataFrame(X, columns=list("abcde")), y)
    table = pd.DataFrame(X, columns=list("abcde")).assign(y=y)
    result = tw.interactions(forest, table, "y", features=["b", 3, "a"])
    assert result.pairs.tolist() == [[0, 1], [0, 3], [1, 3]]
    assert result.n_possible == 3
    every = tw.interactions(forest, table, "y")
    np.testing.assert_allclose(result.values[0], every.values[every.find_pair("a", "b")], rtol=1e-9)


def test_many_pairs_are_chosen_from_the_trees_alone():
    X, y = draw(n_features=12, joint=2.0)
    forest = fit(X, y)
    result = tw.interactions(forest, X, y, max_pairs=10)
    assert len(result.values) == 10
    assert result.n_possible == 66
    assert list_found(result)[0] == (0, 1)
    assert "10 of 66 pairs" in result.notes[0]
    other = np.random.default_rng(0).normal(size=(200, 12))
    heldout = tw.interactions(forest, other, other[:, 0], rows="heldout", max_pairs=10)
    assert heldout.pairs.tolist() == result.pairs.tolist()


def test_pairs_that_never_share_a_path_score_zero():
    X, y = draw()
    stumps = GradientBoostingRegressor(n_estimators=30, max_depth=1).fit(X, y)
    result = tw.interactions(stumps, *draw(seed=3), rows="heldout")
    assert not result.values.any()
    assert (result.p_value == 1).all()
    assert not result.select().any()


def test_too_dependent_features_have_no_p_value():
    X, y = draw()
    X[:, 3] = X[:, 0] + 0.1 * X[:, 3]
    with pytest.warns(UserWarning, match=r"1 pair .*x0 and x3.*feature_groups"):
        result = tw.interactions(fit(X, y), X, y)
    pair = result.find_pair(3, 0)
    assert result.is_withheld.nonzero()[0].tolist() == [pair]
    assert result.dependence[pair] > 0.95
    for numbers in (result.p_value, result.adjusted_p_value(), result.std_error, *result.interval()):
        assert np.isnan(numbers).nonzero()[0].tolist() == [pair]
    assert not result.select()[pair]


def test_weights_of_two_count_a_row_twice():
    X, y = draw(430)
    model = fit(*draw(seed=1))
    weight = np.where(np.arange(430) < 86, 2.0, 1.0)
    twice = np.concatenate([np.arange(86), np.arange(430)])  # 8 knots, with or without the copies
    weighted = tw.interactions(model, X, y, rows="heldout", sample_weight=weight)
    near = X[twice] + 1e-4 * np.random.default_rng(0).normal(size=(516, 5))
    repeated = tw.interactions(model, near, y[twice], rows="heldout")
    # Not the same, because quantiles and degrees of freedom follow the number of rows.
    np.testing.assert_allclose(weighted.values, repeated.values, atol=0.02)
    zero = np.where(np.arange(430) < 200, 1.0, 0.0)
    left_out = tw.interactions(model, X, y, rows="heldout", sample_weight=zero)
    alone = tw.interactions(model, X[:200], y[:200], rows="heldout")
    np.testing.assert_allclose(left_out.values, alone.values, rtol=1e-9, atol=1e-12)


def test_grouped_rows_have_errors_by_group():
    X, y = draw(600, seed=3)
    model = fit(*draw(seed=1))
    alone = tw.interactions(model, X, y, rows="heldout")
    single = tw.interactions(model, X, y, rows="heldout", groups=np.arange(600))
    np.testing.assert_allclose(single.null_std_error, alone.null_std_error)
    # Four rows that are nearly the same are worth as much as one, and a group has four times the leverage of a row.
    near = np.repeat(X, 4, axis=0) + 1e-4 * np.random.default_rng(0).normal(size=(2400, 5))
    four = tw.interactions(model, near, np.repeat(y, 4), rows="heldout", groups=np.arange(2400) // 4)
    plain = tw.interactions(model, near, np.repeat(y, 4), rows="heldout")
    assert four.n_groups == 600
    np.testing.assert_allclose(four.null_std_error / plain.null_std_error, 2.1, rtol=0.05)
    few = tw.interactions(model, X, y, rows="heldout", groups=np.arange(600) % 5)
    assert "5" in few.inference_unavailable
    with pytest.raises(ValueError, match="5"):
        few.interval()


def test_copies_of_rows_count_once():
    X, y = draw(300, seed=3)
    model = fit(*draw(seed=1))
    copied = tw.interactions(model, np.repeat(X, 2, axis=0), np.repeat(y, 2), rows="heldout")
    alone = tw.interactions(model, X, y, rows="heldout")
    np.testing.assert_allclose(copied.null_std_error, alone.null_std_error, rtol=0.25)
    assert any("cop" in note for note in copied.notes)


def test_few_rows_have_no_p_values():
    X, y = draw(50)
    result = tw.interactions(fit(X, y), X, y)
    assert "50" in result.inference_unavailable
    assert np.isnan(result.p_value).all()
    assert "p_value" not in result.frame()
    assert "No p-values" in repr(result)


@pytest.mark.parametrize(
    ("options", "error", "facts"),
    [
        ({"max_pairs": 0}, ValueError, "max_pairs.*0"),
        ({"features": "x0"}, TypeError, "features.*x0"),
        ({"features": ["x0", "z"]}, ValueError, "features.*'z'"),
        ({"features": [0, 0]}, ValueError, "features.*two"),
        ({"rows": "all"}, ValueError, "rows.*'all'"),
        ({"n_jobs": 0}, ValueError, "n_jobs.*0"),
        ({"engine": "fast"}, ValueError, "engine.*'fast'"),
    ],
)
def test_wrong_arguments(options, error, facts):
    X, y = draw(60)
    with pytest.raises(error, match=facts):
        tw.interactions(fit(X, y, n_estimators=3), X, y, **options)


def test_models_without_known_gradients_are_refused():
    X, y = draw(100)
    absolute = GradientBoostingRegressor(loss="absolute_error", n_estimators=5).fit(X, y)
    with pytest.raises(ValueError, match=r"GradientBoostingRegressor.*gradient"):
        tw.interactions(absolute, *draw(60, seed=1), rows="heldout")
    with pytest.raises(ValueError, match="two features"):
        tw.interactions(fit(X[:, :1], y), X[:, :1], y)


@pytest.mark.kernel
def test_threads_and_engines_change_nothing():
    X, y = draw(150)
    forest = fit(X, y, n_estimators=30)
    runs = (("numpy", 1), ("native", 1), ("native", 3))
    results = [tw.interactions(forest, X, y, engine=engine, n_jobs=n_jobs) for engine, n_jobs in runs]
    for other in results[1:]:
        for name in ("values", "null_std_error", "std_error", "dependence", "bias_bound"):
            np.testing.assert_array_equal(getattr(other, name), getattr(results[0], name))
        np.testing.assert_array_equal(other.surfaces.combined, results[0].surfaces.combined)


@pytest.mark.statistical
def test_level_and_power():
    """Additive effects are called interactions in at most 7% of the tests; half a product is always found."""
    rejected, found = [], []
    for seed in range(40):
        for joint, into in ((0.0, rejected), (0.5, found)):
            X, y = draw(seed=seed, joint=joint)
            result = tw.interactions(fit(X, y, max_features=0.5), X, y)
            into.append(result.p_value <= 0.05)
    assert np.mean(rejected) <= 0.07
    assert np.mean([p[0] for p in found]) == 1.0


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore:.*every bag contains")
def test_weights_that_draw_bags_leave_power_out_of_bag():
    """scikit-learn draws heavy rows into nearly all bags; the noise of their few trees must not hide the pair."""
    p_value = []
    for seed in range(20):
        X, y = draw(seed=seed, joint=0.5)
        weight = np.random.default_rng(seed).exponential(size=len(y)) + 0.1
        forest = RandomForestRegressor(60, min_samples_leaf=5, max_features=0.5, random_state=seed)
        p_value.append(tw.interactions(forest.fit(X, y, weight), X, y, sample_weight=weight).p_value)
    rejected = np.array(p_value) <= 0.05
    assert np.mean(rejected[:, 0]) >= 0.8
    assert np.mean(rejected[:, 1:]) <= 0.07


def draw_proxy(seed, n_rows=400):
    """Column 4 is a noisy product of columns 0 and 1; y adds up the columns."""
    X, y = draw(n_rows, seed, joint=0.0)
    X[:, 4] = 0.8 * X[:, 0] * X[:, 1] + 0.6 * X[:, 4]
    return X, y + X[:, 4]


@pytest.mark.statistical
def test_a_product_that_stands_in_for_another_feature_is_no_interaction():
    """The model uses the product of columns 0 and 1, since that predicts column 4."""
    p_value = [
        tw.interactions(fit(*draw_proxy(seed), max_features=0.5), *draw_proxy(1000 + seed), rows="heldout").p_value[0]
        for seed in range(40)
    ]
    assert np.mean(np.array(p_value) <= 0.05) <= 0.07


def test_scores_control_for_features_outside_the_pairs():
    model, test = fit(*draw_proxy(0)), draw_proxy(1)
    every = tw.interactions(model, *test, rows="heldout")
    pair = tw.interactions(model, *test, rows="heldout", features=[0, 1])
    np.testing.assert_allclose(pair.values, every.values[:1], rtol=1e-9)
    np.testing.assert_allclose(pair.null_std_error, every.null_std_error[:1], rtol=1e-9)
    assert np.isnan(pair.surfaces.levels[2:]).all()


@pytest.mark.filterwarnings("ignore:.*every bag contains")
def test_a_class_that_is_in_nearly_all_bags_has_no_p_values():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), np.arange(400) < 20
    forest = RandomForestClassifier(30, class_weight="balanced", random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match=r"withheld.*class True.*max_samples"):
        result = tw.interactions(forest, X, y)
    assert np.isnan(result.p_value).all()
    assert np.isfinite(result.values).all()
