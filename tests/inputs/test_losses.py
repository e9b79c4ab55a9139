"""Minus the derivative of the loss at the best constant, found here by brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

from truewood._inputs import losses
from truewood._inputs.life_tables import make_life_table

rng = np.random.default_rng(0)
NUMBERS = rng.gamma(2.0, 2.0, 200)
UNIT = rng.random(200)
COUNTS = rng.poisson(2.0, 200).astype(float)
BINARY = rng.integers(0, 2, 200).astype(float)
WEIGHT = rng.integers(1, 4, 200).astype(float)


def cross_entropy(y, f):
    return np.log1p(np.exp(f)) - y * f


def tweedie_deviance(y, f, power=1.3):
    return -y * np.exp((1 - power) * f) / (1 - power) + np.exp((2 - power) * f) / (2 - power)


def smooth_huber(y, f, delta=1.5):
    r = np.abs(y - f)
    return np.where(r <= delta, r * r / 2, delta * (r - delta / 2))


SMOOTH = {
    "squared": (losses.squared_error(), NUMBERS, lambda y, f: (y - f) ** 2 / 2),
    "logistic": (losses.logistic(), BINARY, cross_entropy),
    "cross-entropy": (losses.logistic(), UNIT, cross_entropy),
    "poisson": (losses.poisson(), COUNTS, lambda y, f: np.exp(f) - y * f),
    "gamma": (losses.gamma(), NUMBERS, lambda y, f: y * np.exp(-f) + f),
    "tweedie": (losses.tweedie(1.3), COUNTS, tweedie_deviance),
    "huber": (losses.huber(1.5), NUMBERS, smooth_huber),
    "pseudo-huber": (losses.pseudo_huber(2.0), NUMBERS, lambda y, f: 4 * (np.sqrt(1 + ((y - f) / 2) ** 2) - 1)),
    "fair": (losses.fair(2.0), NUMBERS, lambda y, f: 4 * (np.abs(y - f) / 2 - np.log1p(np.abs(y - f) / 2))),
    "log-cosh": (losses.log_cosh(), NUMBERS, lambda y, f: np.log(np.cosh(y - f))),
    "expectile": (losses.expectile(0.8), NUMBERS, lambda y, f: np.where(y > f, 0.8, 0.2) * (y - f) ** 2 / 2),
    "squared-log": (losses.squared_log_error(), NUMBERS, lambda y, f: (np.log1p(y) - np.log1p(f)) ** 2 / 2),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_it_is_the_negative_gradient_at_the_best_constant(name):
    loss, y, function = SMOOTH[name]
    best = optimize.minimize_scalar(
        lambda f: float(np.average(function(y, f), weights=WEIGHT)),
        bounds=(-0.9, 12.0),
        method="bounded",
        options={"xatol": 1e-10},
    ).x
    step = 1e-5
    expected = -(function(y, best + step) - function(y, best - step)) / (2 * step)
    np.testing.assert_allclose(loss.make_target(y[:, None], WEIGHT)[:, 0], expected, atol=2e-4)


def test_softmax_is_one_hot_minus_priors():
    y = np.array([0.0, 1.0, 2.0, 2.0])
    gradient = losses.softmax(3).make_target(y[:, None], np.ones(4))
    np.testing.assert_allclose(gradient[3], [-0.25, -0.25, 0.5])


def test_absolute_error_is_the_sign_around_the_weighted_median():
    y = np.array([1.0, 2.0, 3.0, 10.0])
    np.testing.assert_array_equal(
        losses.absolute_error().make_target(y[:, None], np.array([1.0, 1, 1, 5]))[:, 0], [-1, -1, -1, 0]
    )


def test_quantiles_have_a_column_each():
    gradient = losses.quantile(0.1, 0.9).make_target(NUMBERS[:, None], np.ones(200))
    assert gradient.shape == (200, 2)
    assert sorted(set(gradient[:, 1].round(6))) == [-0.1, 0.9]
    assert np.abs(gradient.mean(axis=0)).max() < 0.01


def test_percentage_error_weighs_by_size():
    y = np.array([[0.5], [2.0], [4.0]])
    gradient = losses.absolute_percentage_error().make_target(y, np.ones(3))[:, 0]
    np.testing.assert_allclose(np.abs(gradient), [0.0, 0.5, 0.25])


def test_huber_by_quantile_cuts_that_share():
    gradient = losses.huber_quantile(0.9).make_target(NUMBERS[:, None], np.ones(200))[:, 0]
    at_the_cut = np.isclose(np.abs(gradient), np.abs(gradient).max())
    assert 0.05 < at_the_cut.mean() < 0.15


def test_cox_gives_life_tables():
    y = np.array([[1.0, 1.0], [2.0, 0.0], [3.0, 1.0], [4.0, 0.0]])
    loss = losses.cox()
    assert loss.is_life_table
    np.testing.assert_array_equal(loss.make_target(y, np.ones(4)), make_life_table(y[:, 0], y[:, 1] > 0, np.ones(4)))


@pytest.mark.parametrize(
    ("name", "noise"), [("normal", stats.norm), ("logistic", stats.logistic), ("extreme", stats.gumbel_l)]
)
def test_aft_is_the_gradient_of_the_likelihood(rng, name, noise):
    low = np.exp(rng.standard_normal(60))
    high = np.where(rng.random(60) < 0.5, low, np.where(rng.random(60) < 0.5, low * 2.0, 1e300))
    scale = 1.2

    def minus_log_likelihood(f):
        z, upper = (np.log(low) - f) / scale, (np.log(high) - f) / scale
        mass = np.where(low == high, 1.0, noise.cdf(upper) - noise.cdf(z))
        return np.where(low == high, -noise.logpdf(z), -np.log(mass))

    best = optimize.minimize_scalar(
        lambda f: minus_log_likelihood(f).mean(), bounds=(-4, 6), method="bounded", options={"xatol": 1e-10}
    ).x
    step = 1e-5
    expected = -(minus_log_likelihood(best + step) - minus_log_likelihood(best - step)) / (2 * step)
    gradient = losses.aft(name, scale).make_target(np.column_stack([low, high]), np.ones(60))[:, 0]
    np.testing.assert_allclose(gradient, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("loss", "y", "message"),
    [
        (losses.logistic(), [2.0], r"\b0\b.*\b1\b"),
        (losses.softmax(3), [3.0], r"\b0\b.*\b2\b"),
        (losses.poisson(), [-1.0], "negative"),
        (losses.gamma(), [0.0], "positive"),
        (losses.tweedie(1.5), [-1.0], "negative"),
        (losses.tweedie(1.5), [0.0], "zero"),
        (losses.squared_log_error(), [-2.0], "above -1"),
    ],
)
def test_a_target_outside_the_loss_is_refused(loss, y, message):
    with pytest.raises(ValueError, match=message):
        loss.make_target(np.array(y)[:, None], np.ones(1))
