"""`engine=` of every public function that routes rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

import truewood as tw
from truewood._engines.numpy_engine import NumpyEngine
from truewood._engines.selection import ENGINE_VARIABLE, has_native_engine

rng = np.random.default_rng(0)
X = rng.standard_normal((90, 3))
y = X[:, 0] + rng.standard_normal(90)
FOREST = RandomForestRegressor(5, random_state=0)
BOOSTING = HistGradientBoostingRegressor(max_iter=5, random_state=0)
CALLS = {
    "importance": lambda **options: tw.importance(FOREST.fit(X, y), X, y, **options).values,
    "cross_importance": lambda **options: tw.cross_importance(BOOSTING, X, y, cv=3, **options).values,
    "explain": lambda **options: tw.explain(FOREST.fit(X, y), X, y, **options).values,
    "permutation_test": lambda **options: (
        tw.permutation_test(FOREST, X, y, n_permutations=2, random_state=0, **options).null
    ),
    "corrected_importance": lambda **options: tw.corrected_importance(FOREST, X, y, random_state=0, **options).values,
}


@pytest.mark.filterwarnings("ignore:.* of \\d+ rows")
@pytest.mark.parametrize("name", CALLS)
def test_the_engine_asked_for_routes_the_rows(name, monkeypatch):
    monkeypatch.delenv(ENGINE_VARIABLE, raising=False)
    calls, find_leaves = [], NumpyEngine.find_leaves

    def spy(*arguments, **options):
        calls.append(name)
        return find_leaves(*arguments, **options)

    monkeypatch.setattr(NumpyEngine, "find_leaves", spy)
    scores = CALLS[name](engine="numpy")
    assert calls
    if has_native_engine():
        calls.clear()
        np.testing.assert_array_equal(CALLS[name](engine="native"), scores)
        np.testing.assert_array_equal(CALLS[name](), scores)
        assert not calls


@pytest.mark.parametrize("name", CALLS)
def test_other_engines_are_refused(name):
    with pytest.raises(ValueError, match=r"^engine\b.*'auto'.*'numpy'.*'gpu'"):
        CALLS[name](engine="gpu")
