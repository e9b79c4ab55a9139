"""`groups=` of tables: a column that is no feature, whole groups held out, errors of sums over groups."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor

import truewood as tw
from truewood.tabular import FitSettings, TableError, score_saved_model, score_table
from truewood.tabular._checks.performance import measure_performance

pytestmark = pytest.mark.any_engine

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 120, 600)
TABLE = pd.DataFrame({"x": RNG.standard_normal(600), "age": RNG.standard_normal(120)[LABELS]})
TABLE["patient"] = [f"p{label}" for label in LABELS]
TABLE["y"] = TABLE["x"] + RNG.standard_normal(120)[LABELS] + RNG.standard_normal(600)


@pytest.mark.parametrize("model", ["xgboost", "lightgbm"])
@pytest.mark.parametrize("target", ["y", "is_high"])
def test_boosting_holds_whole_groups_out(model, target):
    pytest.importorskip(model)
    table = TABLE.assign(is_high=TABLE["y"] > 0).drop(columns=["y", "is_high"][target == "y"])
    settings = FitSettings(model=model, n_estimators=10, test_size=0.25)
    score = score_table(table, target, groups="patient", settings=settings, contributions=True)
    result = score.result
    assert result.feature_names.tolist() == ["x", "age"]
    assert result.n_groups == 30  # a quarter of them
    evaluated = set(map(tuple, score.X.to_numpy()))
    is_evaluated = np.array([row in evaluated for row in map(tuple, table[["x", "age"]].to_numpy())])
    assert is_evaluated.sum() == result.n_rows
    assert not set(table["patient"][is_evaluated]) & set(table["patient"][~is_evaluated])
    phi = pd.DataFrame(result.contributions - result.contributions.mean(axis=0)).groupby(result.groups).sum()
    error = np.sqrt((phi**2).sum(axis=0)).to_numpy()
    assert (result.null_std_error > error).all()
    np.testing.assert_allclose(result.null_std_error, error, rtol=0.1)  # fewer groups than rows make it a bit wider


@pytest.mark.parametrize("model", ["random-forest", "lightgbm"])
@pytest.mark.parametrize("target", ["y", "is_high"])
def test_folds_keep_groups_together(model, target):
    if model != "random-forest":
        pytest.importorskip(model)
    table = TABLE.assign(is_high=TABLE["y"] > 0).drop(columns=["y", "is_high"][target == "y"])
    settings = FitSettings(model=model, n_estimators=5)
    score = score_table(table, target, groups="patient", settings=settings, contributions=True)
    result = score.result
    assert result.rows == "folds"
    assert result.n_groups == len(np.unique(LABELS))
    assert len(result.per_fold) == 5
    phi = pd.DataFrame(result.contributions - result.contributions.mean(axis=0)).groupby(LABELS).sum()
    np.testing.assert_allclose(
        result.null_std_error, np.sqrt(2 * (phi**2).sum(axis=0)), rtol=0.1
    )  # see cross_importance


def test_a_saved_model_is_evaluated_by_groups():
    features = ["x", "age"]
    forest = RandomForestRegressor(20, random_state=0).fit(TABLE[features][:300], TABLE["y"][:300])
    score = score_saved_model(forest, TABLE[300:], "y", groups="patient")
    expected = tw.importance(forest, TABLE[300:], "y", rows="heldout", groups="patient")
    np.testing.assert_array_equal(score.result.null_std_error, expected.null_std_error)
    alone = score_saved_model(forest, TABLE[300:], "y", drop="patient")
    assert score.performance.value == alone.performance.value
    assert score.performance.std_error != alone.performance.std_error


def test_the_error_of_skill_is_that_of_groups():
    y, predicted = TABLE["y"].to_numpy(), TABLE["x"].to_numpy()
    alone = measure_performance(y, predicted, None, None, "rows")
    twice = measure_performance(
        np.tile(y, 2), np.tile(predicted, 2), None, None, "rows", groups=np.tile(np.arange(600), 2)
    )
    assert twice.value == pytest.approx(alone.value, rel=1e-12)
    assert twice.std_error == pytest.approx(alone.std_error, rel=1e-12)


def test_a_class_that_is_in_too_few_groups_is_refused():
    pytest.importorskip("lightgbm")
    table = TABLE.assign(kind=np.where(LABELS[0] == LABELS, "rare", np.where(TABLE["x"] > 0, "a", "b"))).drop(
        columns="y"
    )
    seen = []
    for seed in range(12):
        settings = FitSettings(model="lightgbm", n_estimators=5, random_state=seed)
        try:
            score_table(table, "kind", groups="patient", settings=settings)
        except TableError as error:
            seen.append(str(error))
    assert seen
    assert len(set(seen)) == 1
    assert re.match("groups: .*'rare'.*few groups", seen[0])


def test_rows_that_are_read_in_parts_are_refused(tmp_path):
    TABLE.to_parquet(tmp_path / "part.parquet")
    forest = RandomForestRegressor(5, random_state=0).fit(TABLE[["x", "age"]], TABLE["y"])
    with pytest.raises(TableError, match=r"^groups: .*memory"):
        score_saved_model(forest, str(tmp_path), "y", groups="patient")
