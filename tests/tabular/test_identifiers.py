"""Columns that name rows, and what rows belong to."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from helpers.messages import find_lacking
from helpers.mixed_table import N_ROWS, TABLE, find_dtypes, score
from truewood.tabular import FitSettings, Messages, describe_table, score_table
from truewood.tabular._columns.type_inference import infer_column

pytestmark = pytest.mark.any_engine

RNG = np.random.default_rng(0)
WITH_GAPS = np.sort(RNG.choice(5000, 300, replace=False))

NUMBERS = {
    "a row index with gaps": ("x1", WITH_GAPS, "identifier"),
    "the same, shuffled": ("x1", RNG.permutation(WITH_GAPS), "identifier"),
    "unnamed and far apart": ("unnamed 1", np.arange(300) ** 3, "identifier"),
    "unnamed by pandas": ("Unnamed: 0", np.arange(300) ** 3, "identifier"),
    "named so": ("orderId", np.arange(300) ** 3, "identifier"),
    "measured": ("population", RNG.permutation(np.arange(300) ** 3), "number"),
    "points in time": ("year", np.arange(1700, 2000), "number"),
    "with fractions": ("x1", WITH_GAPS + 0.5, "number"),
    "one twice": ("x1", np.append(WITH_GAPS[:-1], WITH_GAPS[0]), "number"),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_that_name_rows(case):
    name, values, kind = NUMBERS[case]
    assert infer_column(name, pd.Series(values)).dtype == kind


def test_names_of_rows_are_looked_for_in_all_rows():
    table = TABLE[["x", "city"]].assign(number=np.arange(N_ROWS) % 299 + (np.arange(N_ROWS) == 299) * 1e6, y=TABLE["y"])
    assert find_dtypes(score(table, "y", n_estimators=5))["number"] == "number"
    counted = table.assign(number=np.arange(N_ROWS), y=TABLE["y"].where(np.arange(N_ROWS) % 11 == 0))
    assert find_dtypes(score(counted, "y", n_estimators=5))["number"] == "identifier"


def test_what_is_the_same_in_rows_with_a_target_is_left_out():
    is_known = np.arange(N_ROWS) < 200
    table = TABLE[["x", "city"]].assign(
        wave=np.where(is_known, "first", "second"), note=np.where(is_known, np.nan, 1.5), y=TABLE["y"].where(is_known)
    )
    kinds = find_dtypes(score(table, "y", n_estimators=5))
    assert kinds == {"x": "number", "city": "category", "wave": "constant", "note": "empty"}


UNITS = np.arange(N_ROWS) // 6


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("id", UNITS),
        ("userId", UNITS * 1000),
        ("patient", [f"p{unit}" for unit in UNITS]),
        ("Individual ID", UNITS),
        ("Subject", UNITS % 8),
        ("site_id", [f"s{unit % 8}" for unit in UNITS]),
    ],
)
def test_columns_that_identify_groups_are_left_out(name, values):
    table = TABLE[["x", "city", "y"]].assign(**{name: values})
    scored = score(table, "y", n_estimators=5)
    n_groups = f"{len(set(values))} values"
    assert not find_lacking(scored.warnings[0], name, n_groups, "300 rows", f"groups={name!r}")
    assert find_dtypes(scored)[name] == "group identifier"
    assert name not in scored.result.feature_names
    kept = score(table, "y", n_estimators=5, keep=name)
    assert name in kept.result.feature_names
    assert not any("groups=" in warning for warning in kept.warnings)


def test_no_groups_are_suggested_for_survival_times():
    """Survival forests are scored on out-of-bag rows, which groups would share with in-bag rows."""
    pytest.importorskip("sksurv")
    rng = np.random.default_rng(0)
    times = TABLE[["x", "city"]].assign(**{"Individual ID": UNITS}, time=rng.exponential(size=N_ROWS), died=UNITS % 2)
    for warnings in (
        score(times, "time", event="died", n_estimators=5).warnings,
        describe(times, target="time", event="died"),
    ):
        (warning,) = [text for text in warnings if "Individual ID" in text]
        assert "groups=" not in warning
        assert "one row per Individual ID" in warning


def describe(table, **arguments):
    """Warnings of a description."""
    messages = Messages()
    describe_table(table, **arguments, messages=messages)
    return messages.warnings


def test_rows_that_are_kept_together_are_not_warned_of():
    pytest.importorskip("lightgbm")
    table = TABLE[["x", "city", "y"]].assign(patient=UNITS, user=UNITS)
    settings = FitSettings(model="lightgbm", n_estimators=5)
    scored = score_table(table, "y", groups="patient", settings=settings)
    assert not any("groups=" in warning for warning in scored.warnings)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("humid", UNITS),
        ("id", UNITS % 3),
        ("patient", UNITS + 0.25),
        ("member", UNITS),
        ("customers", UNITS),  # a count
        ("family", [f"f{unit % 8}" for unit in UNITS]),  # a category
    ],
)
def test_other_columns_are_left_alone(name, values):
    scored = score(TABLE[["x", "city", "y"]].assign(**{name: values}), "y", n_estimators=5)
    assert not any("groups=" in warning for warning in scored.warnings)
    assert name in scored.result.feature_names
