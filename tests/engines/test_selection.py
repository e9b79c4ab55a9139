"""`engine=` of every public function that routes rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

import truewood as tw
from truewood._engines.numpy_engine import NumpyEngine
from truewood._engines.selection import ENGINE_VARIABLE, has_native_engine
from truewood.tabular import FitSettings, score_saved_model, score_table

rng = np.random.default_rng(0)
X = rng.standard_normal((90, 3))
y = X[:, 0] + rng.standard_normal(90)
FOREST = RandomForestRegressor(5, random_state=0)
NEW_ROWS = rng.standard_normal((60, 3)), rng.standard_normal(60)
TABLE = pd.DataFrame(X, columns=list("abc")).assign(y=y)
NEW_TABLE = pd.DataFrame(NEW_ROWS[0], columns=list("abc")).assign(y=NEW_ROWS[1])
BOOSTING = HistGradientBoostingRegressor(max_iter=5, random_state=0)
CALLS = {
    "importance": lambda **options: tw.importance(FOREST.fit(X, y), X, y, **options).values,
    "cross_importance": lambda **options: tw.cross_importance(BOOSTING, X, y, cv=3, **options).values,
    "explain": lambda **options: tw.explain(FOREST.fit(X, y), X, y, **options).values,
    "permutation_test": lambda **options: (
        tw.permutation_test(FOREST, X, y, n_permutations=2, random_state=0, **options).null
    ),
    "corrected_importance": lambda **options: tw.corrected_importance(FOREST, X, y, random_state=0, **options).values,
    "interactions": lambda **options: tw.interactions(FOREST.fit(X, y), X, y, **options).values,
    "cross_interactions": lambda **options: tw.cross_interactions(BOOSTING, X, y, cv=3, **options).values,
    "UnbiasedSelector": lambda **options: tw.UnbiasedSelector(FOREST, **options).fit(X, y).importance_result_.values,
    "ImportanceAccumulator": lambda **options: (
        tw.ImportanceAccumulator(FOREST.fit(X, y), **options).update(*NEW_ROWS).finish().values
    ),
    "score_table": lambda **options: (
        score_table(TABLE, "y", settings=FitSettings(n_estimators=5), interactions=True, **options).result.values
    ),
    "score_saved_model": lambda **options: (
        score_saved_model(BOOSTING.fit(TABLE[["a", "b", "c"]], y), NEW_TABLE, "y", **options).result.values
    ),
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
