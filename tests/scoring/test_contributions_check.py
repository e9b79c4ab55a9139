"""Contributions of rows have to sum to the scores: where they do not, there is an error and no number."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor

import truewood as tw
from truewood._engines.numpy_engine import NumpyEngine
from truewood._engines.selection import ENGINE_VARIABLE
from truewood._inference.moments import find_mismatch, find_unresolved

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 3))
Y = X[:, 0] + RNG.standard_normal(300)
MESSAGE = r"contributions.*'x\d'.* \S+, .*score.* \S+; "


def lose_rows(monkeypatch, factor):
    """An engine that adds something else than what rows contribute."""
    # All influence goes through this one method: add_influence lists every row and calls it.
    add_path_influence = NumpyEngine.add_path_influence

    def add_other_influence(self, ensemble, leaves, rows, weight, *rest):
        add_path_influence(self, ensemble, leaves, rows, weight * factor, *rest)

    monkeypatch.setenv(ENGINE_VARIABLE, "numpy")
    monkeypatch.setattr(NumpyEngine, "add_path_influence", add_other_influence)


@cache
def fit_forest():
    return RandomForestRegressor(10, random_state=0).fit(X, Y)


CALLS = {
    "out of bag": lambda: tw.importance(fit_forest(), X, Y),
    "clusters": lambda: tw.importance(fit_forest(), X[:200] + 0.1, Y[:200], rows="heldout", groups=np.arange(200) // 4),
    "held out": lambda: tw.importance(fit_forest(), X + 0.1, Y, rows="heldout"),
    "by class": lambda: tw.importance(
        RandomForestClassifier(10, random_state=0).fit(X, Y > 0), X, Y > 0, per_class=True
    ),
    "folds": lambda: tw.cross_importance(GradientBoostingRegressor(n_estimators=5), X, Y, cv=3),
    "parts": lambda: tw.ImportanceAccumulator(fit_forest()).update(X + 0.1, Y).finish(),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("factor", [1.0 + 1e-9, 0.0, np.nan])
def test_contributions_that_do_not_sum_to_the_scores_are_refused(call, factor, monkeypatch):
    lose_rows(monkeypatch, factor)
    with pytest.raises(ValueError, match=MESSAGE):
        CALLS[call]()


@pytest.mark.parametrize("call", CALLS)
def test_an_engine_that_is_right_passes(call, monkeypatch):
    lose_rows(monkeypatch, 1.0)
    assert CALLS[call]().inference_unavailable is None


def test_the_bound_is_of_each_feature():
    residual, magnitude = np.array([1e-3, 1e-9, 0.0]), np.array([1e14, 1.0, 0.0])
    assert find_mismatch(residual, magnitude, 100) == 1
    assert find_mismatch(residual[[0, 2]], magnitude[[0, 2]], 100) is None
    assert find_mismatch(np.array([0.0, np.nan]), np.ones(2), 100) == 1


def test_rounding_errors_matter_beside_large_scores_only():
    variance, magnitude = np.array([1e-6, 1e-2, 1e-9]), np.array([1e13, 1.0, 1e-3])
    assert find_unresolved(variance, magnitude, np.ones(3), 1) == 0
    assert find_unresolved(variance, magnitude, np.array([1e6, 1.0, 1.0]), 1) is None
    for nothing in (0.0, 1e-30):
        assert find_unresolved(np.full(3, nothing), magnitude, np.ones(3), 1) is None


def test_spreads_within_rounding_errors_are_withheld():
    # Values of 1e15 have no digits left for the steps of 0.1 between them.
    trees = tw.to_ensemble(GradientBoostingRegressor(n_estimators=3, random_state=0).fit(X, Y))
    far = trees.__class__(**{**vars_of(trees), "value": trees.value + 1e15})
    result = tw.importance(far, X + 0.1, None, rows="heldout", target=Y)
    assert result.inference_unavailable is not None
    assert "x0" in result.inference_unavailable
    assert np.isnan(result.p_value).all()


def vars_of(trees):
    return {name: getattr(trees, name) for name in trees.__dataclass_fields__}
