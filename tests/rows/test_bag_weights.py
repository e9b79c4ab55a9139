"""Bags drawn by weight: out-of-bag rows count by the inverse of their probability to be there."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import BaggingClassifier, BaggingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import truewood as tw
from helpers.messages import find_lacking
from truewood._exceptions import AdapterError
from truewood._rows.bag_weights import choose_bag_size
from truewood._sklearn_compat import WEIGHTS_ARE_DRAWN
from truewood.adapters import WeightedDraws, open_model

pytestmark = pytest.mark.skipif(not WEIGHTS_ARE_DRAWN, reason="weights set the probability to be drawn since 1.9")


@pytest.fixture(scope="module")
def data():
    """A signal in the first of four columns, and a class of about 9 %."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 4))
    return X, (rng.random(600) < 1 / (1 + np.exp(2.6 - 0.8 * X[:, 0]))).astype(int)


@pytest.mark.parametrize("max_samples", [None, 0.3, 100])
def test_the_probability_is_how_often_rows_are_left_out(data, max_samples):
    X, y = data
    forest = RandomForestClassifier(400, max_depth=1, class_weight="balanced", max_samples=max_samples, random_state=0)
    training = open_model(forest.fit(X, y)).training
    is_out = np.ones((400, 600), dtype=bool)
    for tree, bag in enumerate(forest.estimators_samples_):
        is_out[tree, bag] = False
    for label in (0, 1):
        expected = training.draws.oob_probability[y == label].mean()
        assert is_out[:, y == label].mean() == pytest.approx(expected, abs=4 / np.sqrt(400 * (y == label).sum()))


def test_rows_that_are_drawn_alike_have_no_weights(data):
    X, y = data
    for forest in (RandomForestClassifier(3), RandomForestClassifier(3, class_weight="balanced_subsample")):
        assert open_model(forest.fit(X, y)).training.draws is None
    assert open_model(RandomForestRegressor(3).fit(X, y, sample_weight=np.full(600, 2.0))).training.draws is None


def test_bagging_draws_by_sample_weight(data):
    X, y = data
    weight = np.where(y == 1, 4.0, 1.0)
    bagging = BaggingClassifier(DecisionTreeClassifier(max_depth=3), 10, random_state=0).fit(X, y, sample_weight=weight)
    draws = open_model(bagging).training.draws
    np.testing.assert_array_equal(draws.weight, weight)
    assert draws.n_draws == len(bagging.estimators_samples_[0])


def test_a_class_that_is_in_nearly_all_bags_is_warned_about_and_the_remedy_works(data):
    X, y = data
    options = {"n_estimators": 80, "class_weight": "balanced", "random_state": 0}
    with pytest.warns(
        UserWarning, match=r"withheld.* 0\.\d+ rows of class 1\b.* 3\.1 needed with 80 trees.*max_samples=\d+"
    ) as caught:
        withheld = tw.importance(RandomForestClassifier(**options).fit(X, y), X, y, contributions=True)
    assert caught[0].filename == __file__
    assert not find_lacking(withheld.inference_unavailable, "class 1", "max_samples=")
    assert np.isnan(withheld.p_value).all()
    assert np.isnan(withheld.total_p_value)
    assert withheld.contributions.shape == X.shape
    np.testing.assert_allclose(withheld.contributions.sum(axis=0), withheld.values)
    n_draws = int(str(caught[0].message).partition("max_samples=")[2].split()[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = tw.importance(RandomForestClassifier(max_samples=n_draws, **options).fit(X, y), X, y)
    assert result.measure == "mdi_oob"
    assert result.p_value[0] < 0.001
    assert (result.p_value[1:] > 0.01).all()


def test_a_class_of_few_rows_needs_more_trees_and_the_remedy_works():
    X = np.random.default_rng(0).standard_normal((300, 2))
    y = (X[:, 0] > 0).astype(int)
    y[:5] = 2
    options = {"class_weight": "balanced", "random_state": 0}
    with pytest.warns(UserWarning, match=r"class 2\b.*max_samples=\d+ and at least \d+ trees") as caught:
        tw.importance(RandomForestClassifier(50, **options).fit(X, y), X, y)
    n_draws, n_trees = map(int, re.search(r"max_samples=(\d+) and at least (\d+)", str(caught[0].message)).groups())
    few, enough = (RandomForestClassifier(n, max_samples=n_draws, **options).fit(X, y) for n in (n_trees - 2, n_trees))
    with pytest.warns(UserWarning, match="withheld"):
        tw.importance(few, X, y)
    assert tw.importance(enough, X, y).inference_unavailable is None


def test_a_class_of_one_row_cannot_be_left_out_by_enough_trees():
    X = np.random.default_rng(0).standard_normal((300, 2))
    y = (X[:, 0] > 0).astype(int)
    y[0] = 2
    with pytest.warns(UserWarning, match=r"class 2\b.*; merge"):
        tw.importance(RandomForestClassifier(50, class_weight="balanced", random_state=0).fit(X, y), X, y)


def test_rows_that_outweigh_all_others_give_no_errors_for_numbers(data):
    X = data[0]
    y, forest = X[:, 0], RandomForestRegressor(20, min_samples_leaf=5, random_state=0)
    weight = np.where(np.arange(600) < 5, 70.0, 1.0)  # 945^2 / 25095 = 35.6 rows of equal weight
    with pytest.warns(UserWarning, match=r"withheld.* 600 rows count as 35\.6 rows of equal weight\b.*rows='heldout'"):
        withheld = tw.importance(forest.fit(X, y, sample_weight=weight), X, y, sample_weight=weight)
    assert not find_lacking(withheld.inference_unavailable, "600 rows", "35.6", "20%")
    assert np.isnan(withheld.p_value).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        new = tw.importance(forest, X + 0.01, y, rows="heldout", sample_weight=weight)
        lighter = np.where(np.arange(600) < 5, 20.0, 1.0)  # 186 rows
        given = tw.importance(forest.fit(X, y, sample_weight=lighter), X, y, sample_weight=lighter)
    assert new.p_value[0] < 0.001
    assert given.p_value[0] < 0.001


def test_training_rows_alone_need_no_warning(data):
    X, y = data
    forest = RandomForestClassifier(10, class_weight="balanced", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tw.importance(forest.fit(X, y), X, y, measure="mdi").notes == ()
        assert np.isfinite(tw.corrected_importance(forest, X, y, random_state=0).values).all()


def test_drop_in_forests_leave_out_rows_of_each_class(data):
    X, y = data
    forest = tw.UnbiasedRandomForestClassifier(80, class_weight="balanced", random_state=0).fit(X, y)
    assert forest.max_samples is None
    assert forest.importance_result_.p_value[0] < 0.001
    kept = tw.UnbiasedRandomForestClassifier(80, class_weight="balanced", max_samples=0.2, random_state=0).fit(X, y)
    assert kept.max_samples == 0.2


def test_bags_are_smaller_only_where_they_have_to_be(data):
    _, y = data
    assert choose_bag_size(np.ones(600), y) is None
    weight = np.where(y == 1, 600 / (2 * y.sum()), 600 / (2 * (600 - y.sum())))
    n_draws = choose_bag_size(weight, y)
    assert n_draws == 2 * y.sum()
    left_out = WeightedDraws(weight, n_draws).oob_probability[y == 1].mean()
    assert left_out == pytest.approx(np.exp(-1), abs=0.02)


@pytest.mark.parametrize("weight", [[1.0, np.nan], [1.0, -1.0], [0.0, 0.0]])
def test_weights_that_nothing_can_be_drawn_by(weight):
    with pytest.raises(AdapterError, match=r"finite.*negative.*zero"):
        WeightedDraws(np.array(weight), 2)


@pytest.mark.filterwarnings("ignore:When fitting BaggingRegressor with sample_weight")
@pytest.mark.parametrize("size", [16, 48, 72])
def test_bags_without_replacement_leave_rows_out_at_the_stated_rate(size):
    rng = np.random.default_rng(0)
    X, weight = rng.standard_normal((80, 2)), np.exp(rng.standard_normal(80))
    options = {"max_samples": size, "bootstrap": False, "random_state": 0}
    # Bags do not depend on the model; 3000 trees would take seconds.
    bagging = BaggingRegressor(DummyRegressor(), 3000, **options).fit(X, X[:, 0], sample_weight=weight)
    left_out = 1 - np.mean([np.bincount(bag, minlength=80) for bag in bagging.estimators_samples_], axis=0)
    of_trees = BaggingRegressor(DecisionTreeRegressor(max_depth=1), 2, **options)
    expected = open_model(of_trees.fit(X, X[:, 0], sample_weight=weight)).training.draws.oob_probability
    # Four standard errors, and what the approximation is off by in 80 rows.
    np.testing.assert_allclose(left_out, expected, atol=4 * np.sqrt(0.25 / 3000) + 0.01)
    assert np.corrcoef(left_out, expected)[0, 1] > 0.99


def test_bags_of_all_rows_leave_none_out():
    weight = np.array([1.0, 2.0, 0.0])
    np.testing.assert_array_equal(WeightedDraws(weight, 2, with_replacement=False).oob_probability, [0, 0, 1])


def test_weights_that_are_nearly_the_same_or_far_apart_have_probabilities():
    nearly = np.full(50, 0.1)
    nearly[0] = np.nextafter(0.1, 1)
    np.testing.assert_allclose(WeightedDraws(nearly, 20, with_replacement=False).oob_probability, 0.6)
    far = np.geomspace(1e-50, 1, 50)
    probability = WeightedDraws(far, 20, with_replacement=False).oob_probability
    assert probability.sum() == pytest.approx(30)
    assert (np.diff(probability) <= 0).all()
