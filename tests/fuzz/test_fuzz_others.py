"""Models that the oracle does not know: the same bits everywhere, and contributions that add up to the scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import AdaBoostClassifier, AdaBoostRegressor, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from helpers.fuzz_checks import check_scores, score_everywhere
from helpers.fuzz_profiles import share

N_TRAIN = 50


def fit_adaboost(rng, depth, X, y):
    return AdaBoostRegressor(DecisionTreeRegressor(max_depth=depth), n_estimators=3, random_state=rng).fit(X, y), None


def fit_adaboost_classes(rng, depth, X, y):
    tree = DecisionTreeClassifier(max_depth=depth)
    return AdaBoostClassifier(tree, n_estimators=3, random_state=rng).fit(X, y > 0), lambda y: y > 0


def fit_treelite(rng, depth, X, y):
    treelite = pytest.importorskip("treelite")
    forest = RandomForestRegressor(3, max_depth=depth, random_state=rng).fit(X, y)
    return treelite.sklearn.import_model(forest), None


def fit_survival(rng, depth, X, y):
    ensemble = pytest.importorskip("sksurv.ensemble")
    from sksurv.util import Surv

    def as_times(y):
        return Surv.from_arrays(np.arange(len(y)) % 3 > 0, np.exp(y))

    forest = ensemble.RandomSurvivalForest(3, max_depth=depth, random_state=rng)
    return forest.fit(X, as_times(y)), as_times


FIT = {
    "adaboost": fit_adaboost,
    "adaboost classes": fit_adaboost_classes,
    "treelite": fit_treelite,
    "survival": fit_survival,
}


@share(0.1)
@given(name=st.sampled_from(list(FIT)), seed=st.integers(0, 2**31 - 1), depth=st.sampled_from([1, 2, None]))
def test_others(name, seed, depth):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N_TRAIN, 3))
    y = X[:, 0] + rng.standard_normal(N_TRAIN)
    model, encode = FIT[name](np.random.RandomState(seed), depth, X, y)
    rows = "oob" if name == "survival" else "heldout"
    if rows == "heldout":
        X = rng.standard_normal((N_TRAIN + 1, 3))
        y = X[:, 0] + rng.standard_normal(len(X))
    result = score_everywhere(model, X, y if encode is None else encode(y), rows=rows, contributions=True)
    assert not isinstance(result, str), result
    check_scores(result, result.values)
