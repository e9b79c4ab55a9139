"""Columns as numbers that trees can split."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import OneHotEncoder

import truewood as tw
from helpers.mixed_table import TABLE, find_values, score
from truewood.tabular._columns.encoders import DateParts

pytestmark = pytest.mark.any_engine


def test_parts_of_dates_that_vary():
    dates = pd.DataFrame({"when": pd.to_datetime(["2020-03-01 06:00", "2020-03-04 18:00", None])})
    parts = DateParts().fit(dates)
    assert parts.get_feature_names_out().tolist() == ["when_days", "when_day", "when_day_of_week", "when_hour"]
    assert_allclose(parts.transform(dates), [[0, 1, 6, 6], [3.5, 4, 2, 18], [np.nan] * 4])


def test_the_same_as_by_hand():
    scored = score(TABLE[["x", "city", "y"]], "y", random_state=3)
    encoder = make_column_transformer((OneHotEncoder(sparse_output=False), ["city"]), remainder="passthrough")
    encoded = encoder.fit_transform(TABLE[["x", "city"]])[:, [3, 0, 1, 2]]
    forest = RandomForestClassifier(60, random_state=3, oob_score=True).fit(encoded, TABLE["y"])
    result = tw.importance(forest, encoded, TABLE["y"], feature_groups=["x", "city", "city", "city"])
    assert list(find_values(scored)) == result.feature_names.tolist()
    assert_allclose(scored.result.values, result.values, rtol=1e-12)
    assert_allclose(scored.result.p_value, result.p_value, rtol=1e-9)
    area = roc_auc_score(TABLE["y"] == "stays", forest.oob_decision_function_[:, 1])
    assert_allclose(scored.performance.value, area, rtol=1e-12)
