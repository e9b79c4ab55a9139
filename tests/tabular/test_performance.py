"""How well a model predicts, and how sure that is."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import r2_score, roc_auc_score

from truewood.tabular._checks.performance import measure_performance

pytestmark = pytest.mark.any_engine


def test_weights_count_as_repeated_rows_in_the_skill():
    rng = np.random.default_rng(2)
    y, score = rng.random(80) < 0.4, rng.normal(size=80)
    weight = rng.integers(0, 4, 80)
    repeated = np.repeat(np.arange(80), weight)
    chances = np.column_stack([-score, score])
    weighted = measure_performance(y, chances, [False, True], weight.astype(float), "rows")
    assert_allclose(weighted.value, roc_auc_score(y[repeated], score[repeated]))
    number = measure_performance(score + 1, score, None, weight.astype(float), "rows")
    assert_allclose(number.value, r2_score(score[repeated] + 1, score[repeated]))


def test_the_error_of_the_area_is_that_of_resampling():
    rng = np.random.default_rng(3)
    y = rng.random(400) < 0.3
    score = rng.normal(size=400) + y
    chances = np.column_stack([-score, score])
    performance = measure_performance(y, chances, [False, True], None, "rows")
    drawn = [roc_auc_score(y[rows], score[rows]) for rows in rng.integers(0, 400, (400, 400))]
    assert_allclose(performance.std_error, np.std(drawn), rtol=0.1)


def draw_numbers(rng, n_rows, noise):
    x = rng.normal(size=n_rows)
    return x + noise * rng.normal(size=n_rows), x, None


def draw_classes(rng, n_rows, noise):
    y = rng.choice(3, n_rows, p=[0.6, 0.3, 0.1])
    return y, np.eye(3)[y] + noise * rng.normal(size=(n_rows, 3)), np.arange(3)


@pytest.mark.parametrize("draw", [draw_numbers, draw_classes])
@pytest.mark.parametrize("noise", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_the_error_of_the_skill_is_that_of_many_tables(draw, noise, is_weighted):
    rng = np.random.default_rng(4)
    weight = rng.integers(1, 4, 300).astype(float) if is_weighted else None
    performances = [measure_performance(*draw(rng, 300, noise), weight, "rows") for _ in range(400)]
    spread = np.std([performance.value for performance in performances])
    # 400 tables estimate a standard deviation within about 4%.
    assert_allclose(np.mean([performance.std_error for performance in performances]), spread, rtol=0.15, atol=1e-4)


def test_the_skill_of_several_classes_is_that_of_scikit_learn():
    rng = np.random.default_rng(5)
    y, score, classes = draw_classes(rng, 200, 1.0)
    chances = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    weight = rng.integers(1, 4, 200).astype(float)
    performance = measure_performance(y, chances, classes, weight, "rows")
    areas = [roc_auc_score(y == label, chances[:, label], sample_weight=weight) for label in classes]
    shares = np.bincount(y, weights=weight) / weight.sum()
    assert_allclose(performance.value, np.average(areas, weights=shares * (1 - shares)))


def test_a_class_that_does_not_occur_does_not_count():
    y, score, _ = draw_classes(np.random.default_rng(6), 100, 1.0)
    without = measure_performance(y, score, np.arange(3), None, "rows")
    more = measure_performance(y, np.column_stack([score, score[:, 0]]), np.arange(4), None, "rows")
    assert (more.value, more.std_error) == (without.value, without.std_error)


def test_intervals_of_skill_are_possible():
    y = np.array([0, 1] * 5)
    chances = np.column_stack([1.0 - y, y + 0.0])
    chances[[0, 1], :] = 0.5
    area = measure_performance(y, chances, [0, 1], None, "rows")
    assert area.interval[1] == 1.0
    x = np.linspace(0, 1, 10)
    number = measure_performance(x, x + np.eye(10)[0] * 0.3, None, None, "rows")
    assert number.value + 1.96 * number.std_error > number.interval[1] == 1.0


def test_a_single_group_has_no_standard_error():
    x = np.linspace(0, 1, 10)
    groups = np.zeros(10, dtype=np.int64)
    assert measure_performance(x, x**2, None, None, "rows", groups=groups) is None
    assert measure_performance(x, x**2, None, None, "rows", groups=groups + (x > 0.5)).std_error > 0
