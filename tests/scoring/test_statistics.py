"""Noise scores zero on average. Seeds are fixed; tolerances are standard errors over data sets."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import truewood as tw

pytestmark = pytest.mark.statistical

N_DATA_SETS, N_ROWS = 200, 120
FEATURES = ["continuous", "binary", "4 levels", "20 levels"]


def draw_noise(rng):
    levels = [rng.integers(k, size=N_ROWS) for k in (2, 4, 20)]
    return np.column_stack([rng.standard_normal(N_ROWS), *levels])


@pytest.mark.parametrize("task", ["classification", "multiclass", "regression"])
def test_noise_scores_zero_on_average(task):
    scores = {measure: [] for measure in ("ufi", "ufi_centered", "mdi")}
    for seed in range(N_DATA_SETS):
        rng = np.random.default_rng(seed)
        X = draw_noise(rng)
        if task == "regression":
            forest, y = RandomForestRegressor(10, random_state=seed), 5.0 + rng.standard_normal(N_ROWS)
        else:
            forest = RandomForestClassifier(10, random_state=seed)
            y = rng.integers(3 if task == "multiclass" else 2, size=N_ROWS)
        forest.fit(X, y)
        for measure, listed in scores.items():
            listed.append(tw.importance(forest, X, y, measure=measure).values)
    z = {}
    for measure, listed in scores.items():
        mean, error = np.mean(listed, axis=0), np.std(listed, axis=0, ddof=1) / np.sqrt(N_DATA_SETS)
        z[measure] = mean / error
    for measure in ("ufi", "ufi_centered"):
        assert (np.abs(z[measure]) < 3).all(), (measure, dict(zip(FEATURES, z[measure], strict=True)))
    assert (z["mdi"] > 30).all()
    # The bias: more places to split, more importance.
    biased = np.mean(scores["mdi"], axis=0)
    assert biased[0] > biased[2] > biased[1]
    assert biased[3] > biased[2]


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_weak_binary_signal_is_found_among_noise(task):
    ranks, biased_ranks = [], []
    for seed in range(40):
        rng = np.random.default_rng(1000 + seed)
        X = draw_noise(rng)
        if task == "regression":
            forest, y = RandomForestRegressor(40, random_state=seed), X[:, 1] + 1.2 * rng.standard_normal(N_ROWS)
        else:
            forest, y = RandomForestClassifier(40, random_state=seed), rng.random(N_ROWS) < np.where(X[:, 1], 0.7, 0.3)
        result = tw.importance(forest.fit(X, y), X, y)
        table = result.frame().set_index("feature")
        ranks.append(table.loc["x1", "rank"])
        biased_ranks.append(table.loc["x1", "mdi_rank"])
    assert np.mean(ranks) < 1.25
    assert np.mean(biased_ranks) > 2.0
