"""Residuals of raw scores."""

import numpy as np
import pytest

from truewood._inputs.losses import logistic, poisson, softmax, squared_error
from truewood._scoring.pair_rows import _differentiate


def draw(loss, seed=0):
    """Raw scores that are three times too small, and a target."""
    rng = np.random.default_rng(seed)
    n_scores = 3 if loss == "softmax" else 1
    raw = 0.4 * rng.normal(size=(2000, n_scores))
    if loss == "softmax":
        y = np.argmax(3 * raw + rng.gumbel(size=raw.shape), axis=1)[:, np.newaxis]
    elif loss == "logistic":
        y = (rng.random(raw.shape) < 1 / (1 + np.exp(-3 * raw))).astype(float)
    else:
        y = rng.poisson(np.exp(3 * raw)).astype(float)
    return raw, y, rng.uniform(0.5, 2.0, len(raw))


@pytest.mark.parametrize(("name", "loss"), [("logistic", logistic()), ("softmax", softmax(3)), ("poisson", poisson())])
def test_residuals_do_not_depend_on_the_calibration_of_the_model(name, loss):
    raw, y, weight = draw(name)
    residual, curvature = _differentiate(loss, y, raw, weight)
    shrunk, larger = _differentiate(loss, y, raw / 2 + 1, weight)
    np.testing.assert_allclose(shrunk, residual / 2, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(larger, 4 * curvature, rtol=1e-8)


def test_two_classes_with_a_score_each():
    raw, y, weight = draw("logistic")
    residual, _ = _differentiate(logistic(), y, raw, weight)
    both, _ = _differentiate(softmax(2), y, np.hstack([-raw, raw]), weight)
    np.testing.assert_allclose(both, np.hstack([-2 * residual, 2 * residual]), rtol=1e-8, atol=1e-9)


def test_calibrated_scores_have_the_least_loss():
    raw, y, weight = draw("logistic")
    residual, curvature = _differentiate(logistic(), y, raw, weight)
    # The gradient is orthogonal to the functions that the calibration can add.
    assert abs(weight @ (residual * curvature)[:, 0]) < 1e-8
    assert abs(weight @ (residual * curvature * raw)[:, 0]) < 1e-8


@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0])
def test_scores_without_or_with_all_information(scale):
    _, y, weight = draw("logistic")
    raw = scale * (y - 0.5)
    residual, curvature = _differentiate(logistic(), y, raw, weight)
    assert np.isfinite(residual).all()
    assert (curvature > 0).all()


def test_squared_error_has_no_slope():
    raw, y, weight = draw("poisson")
    residual, curvature = _differentiate(squared_error(), y, raw, weight)
    assert curvature is None
    np.testing.assert_allclose(residual, y - raw - np.average(y - raw, axis=0, weights=weight), rtol=1e-12, atol=1e-12)
