"""Sums and influence of all rows: the native and the numpy engine agree bit for bit on any number of threads."""

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from xgboost import XGBClassifier

from truewood._engines.selection import get_engine, has_native_engine, resolve_engine
from truewood._measures.registry import MEASURES
from truewood._scoring.inputs import make_scoring_inputs
from truewood.adapters import open_model

pytestmark = [pytest.mark.tsan, pytest.mark.asan]

RNG = np.random.default_rng(7)
X = RNG.normal(size=(5_000, 6))
X[:, 5] = RNG.integers(0, 9, len(X))
SCORE = X[:, 0] + X[:, 1] * X[:, 2] + RNG.normal(size=len(X))
HALF = len(X) // 2


def with_gaps(table):
    gappy = table.copy()
    gappy[::7, 0] = np.nan
    return gappy


CASES = {
    "classes": (RandomForestClassifier(12, random_state=0), X, np.digitize(SCORE, [-1, 1]), "ufi"),
    "shallow classes": (RandomForestClassifier(12, max_depth=4, random_state=0), X, SCORE > 0, "mdi_oob"),
    "numbers": (RandomForestRegressor(6, random_state=0), X, SCORE, "ufi"),
    "shallow numbers": (RandomForestRegressor(20, max_depth=5, random_state=0), X, SCORE, "ufi"),
    "hundreds of leaves": (RandomForestRegressor(9, max_leaf_nodes=300, random_state=0), X, SCORE, "ufi_centered"),
    "two outputs": (
        RandomForestRegressor(6, max_depth=5, random_state=0),
        X,
        np.column_stack([SCORE, X[:, 3]]),
        "ufi_centered",
    ),
    "boosted with gaps": (
        HistGradientBoostingRegressor(max_iter=30, categorical_features=[5]),
        with_gaps(X),
        SCORE,
        "ufi_centered",
    ),
    "boosted classes": (XGBClassifier(n_estimators=9), with_gaps(X), np.digitize(SCORE, [-1, 1]), "ufi_centered"),
    "boosted doubles": (LGBMClassifier(n_estimators=30, verbose=-1), X, (SCORE > 0).astype(int), "ufi_centered"),
}


@pytest.mark.skipif(not has_native_engine(), reason="compares the native and the numpy engine")
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_the_kernel_and_numpy_agree(name, is_weighted):
    model, table, y, measure = CASES[name]
    view = open_model(model.fit(table[:HALF], y[:HALF]))
    weight = RNG.uniform(0, 2, HALF) if is_weighted else None
    job = make_scoring_inputs(view, table[HALF:], y[HALF:], rows="heldout", sample_weight=weight)
    ensemble, data = view.read(range(view.n_trees)), job.data
    expected = resolve_engine("numpy").sum_nodes(ensemble, data.matrix, data.target, data.weight)
    terms = MEASURES[measure].row_terms(ensemble, expected, None).evaluation
    tree_weight = RNG.uniform(0.5, 2, view.n_trees) if is_weighted else np.ones(view.n_trees)
    influence = np.zeros((HALF, view.n_features))
    resolve_engine("numpy").add_influence(
        ensemble, data.matrix, data.target, data.weight, terms, tree_weight, influence
    )
    assert np.abs(influence).sum(axis=0).min() > 0
    for n_threads in (1, 3):
        sums = get_engine().sum_nodes(ensemble, data.matrix, data.target, data.weight, n_threads)
        for part in ("weight", "total", "square"):
            np.testing.assert_array_equal(getattr(sums, part), getattr(expected, part))
        found = np.zeros_like(influence)
        get_engine().add_influence(
            ensemble, data.matrix, data.target, data.weight, terms, tree_weight, found, n_threads=n_threads
        )
        np.testing.assert_array_equal(found, influence)
