"""CatBoost's statistics of categories: a split belongs to the columns that it reads."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from catboost import CatBoostRegressor

import truewood as tw
from helpers.catboost_models import (
    CATEGORICAL,
    MIXED,
    POLICIES,
    QUIET,
    check_trees,
    draw_heldout_mixed,
    draw_mixed,
    fit_mixed,
)
from helpers.contract import route
from truewood._scoring import trees
from truewood.adapters import open_model


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("option", MIXED)
def test_leaves_with_categories_are_catboosts(option, policy, tmp_path):
    model = fit_mixed(option, policy)
    check_trees(model, draw_heldout_mixed()[0], tmp_path)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("option", MIXED)
def test_a_split_belongs_to_the_columns_that_it_reads(option, policy):
    model, X = fit_mixed(option, policy), draw_heldout_mixed(2000)[0]
    view, ensemble = open_model(model), tw.to_ensemble(model)
    leaves, names = model.calc_leaf_indexes(X), [*X.columns, *view.combined]
    rng = np.random.default_rng(0)
    moved = np.zeros((ensemble.n_trees, X.shape[1]), dtype=bool)
    for j, column in enumerate(X.columns):
        other = X.assign(**{column: rng.permutation(X[column])})
        moved[:, j] = (model.calc_leaf_indexes(other) != leaves).any(axis=0)
    claimed = np.zeros_like(moved)
    for t in range(ensemble.n_trees):
        for name in {names[j] for j in ensemble[t : t + 1].split_features}:
            claimed[t, [X.columns.get_loc(column) for column in name.split(" & ")]] = True
    assert not (moved & ~claimed).any()
    # Training meets other values of a statistic than prediction, where some borders part nothing.
    assert moved.sum() > 0.7 * claimed.sum()


def test_stumps_identify_the_column_of_each_statistic():
    X, y = draw_mixed()
    y = y + X["b"].eq("u")
    model = CatBoostRegressor(iterations=60, depth=1, cat_features=CATEGORICAL, one_hot_max_size=1, **QUIET).fit(X, y)
    ensemble, leaves = tw.to_ensemble(model), model.calc_leaf_indexes(X)
    rng = np.random.default_rng(0)
    moved = np.column_stack(
        [
            (model.calc_leaf_indexes(X.assign(**{name: rng.permutation(X[name])})) != leaves).any(axis=0)
            for name in X.columns
        ]
    )
    found = ensemble.feature[ensemble.splits]
    parts = moved.any(axis=1)
    assert moved.sum(axis=1).max() == 1
    np.testing.assert_array_equal(moved[parts].argmax(axis=1), found[parts])
    assert set(X.columns[found[parts]]) >= {"a", "b", "f0"}


def test_each_combination_is_one_feature():
    view = open_model(fit_mixed("many combinations"))
    assert {"a & c", "f0 & a & c", "f0 & a & b & c"} <= set(view.combined)
    assert len(set(view.combined)) == len(view.combined)
    ensemble = view.read(range(view.n_trees))
    assert ensemble.n_features == 5 + len(view.combined)
    assert set(range(5, ensemble.n_features)) <= set(ensemble.split_features)
    assert "x1 & x4" in open_model(fit_mixed("combinations", named=False)).combined


def test_categories_that_count_score_first(engine):
    X, y = draw_heldout_mixed(1500)
    result = tw.importance(fit_mixed("combinations"), X, y, rows="heldout")
    frame = result.frame().set_index("feature")["importance"]
    assert frame.index[:2].tolist() in (["a & c", "f0"], ["f0", "a & c"])
    assert abs(frame["b"]) < 0.01 * frame["a & c"]
    assert np.isfinite(result.mdi).all()
    two = tw.importance(fit_mixed("combinations"), X, y, rows="heldout", n_jobs=2)
    np.testing.assert_array_equal(two.values, result.values)


def test_rows_are_found_in_runs_of_trees(monkeypatch):
    X, y = draw_heldout_mixed()
    model = fit_mixed("default", "Lossguide")
    expected = tw.importance(model, X, y, rows="heldout", inference=False)
    monkeypatch.setattr("truewood.adapters._catboost._RUN_BYTES", 3 * len(X))
    monkeypatch.setattr("truewood.adapters._catboost._BLOCK_LEAVES", 200)
    monkeypatch.setattr(trees, "_BATCH_NODES", 40)
    result = tw.importance(model, X, y, rows="heldout", inference=False)
    np.testing.assert_allclose(result.values, expected.values, rtol=1e-9)


def test_tables_of_categories():
    model, unnamed = fit_mixed("default"), fit_mixed("default", named=False)
    X = draw_heldout_mixed()[0]
    leaves = route(model, X)
    np.testing.assert_array_equal(route(model, X.astype(dict.fromkeys(CATEGORICAL, "category"))), leaves)
    np.testing.assert_array_equal(route(model, X.to_numpy(dtype=object)), leaves)
    np.testing.assert_array_equal(route(model, pl.DataFrame(X.to_dict("list"))), leaves)
    np.testing.assert_array_equal(route(unnamed, X), route(unnamed, X.to_numpy(dtype=object)))


def test_categories_of_polars_are_read_as_texts():
    model, X = fit_mixed("default"), draw_heldout_mixed()[0]
    table = pl.DataFrame(X.to_dict("list")).with_columns(pl.col(CATEGORICAL).cast(pl.Categorical))
    np.testing.assert_array_equal(route(model, table), route(model, X))
