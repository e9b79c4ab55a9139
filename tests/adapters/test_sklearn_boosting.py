"""What holds for all boosted trees of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import (
    AdaBoostRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
)
from sklearn.exceptions import NotFittedError

import truewood as tw

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("make", [GradientBoostingRegressor, HistGradientBoostingRegressor, AdaBoostRegressor])
def test_unfitted_models_are_refused(make):
    with pytest.raises(NotFittedError):
        tw.importance(make(), np.zeros((5, 2)), np.zeros(5))


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["gradient", "hist"])
def test_noise_scores_zero_on_average(name):
    """Over 30 data sets, noise of a boosted model that overfits is within 4 standard errors of zero; its mdi is not."""
    scores, biased = [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((200, 3))
        y = X[:, 0] + rng.standard_normal(200)
        make = (
            GradientBoostingRegressor(n_estimators=20, random_state=seed)
            if name == "gradient"
            else HistGradientBoostingRegressor(max_iter=20, min_samples_leaf=5, random_state=seed)
        )
        model = make.fit(X[:100], y[:100])
        result = tw.importance(model, X[100:], y[100:], rows="heldout")
        scores.append(result.values)
        biased.append(result.mdi)
    for values, is_zero in ((np.array(scores)[:, 1:].sum(axis=1), True), (np.array(biased)[:, 1:].sum(axis=1), False)):
        error = values.std(ddof=1) / np.sqrt(len(values))
        assert (abs(values.mean()) < 4 * error) == is_zero
