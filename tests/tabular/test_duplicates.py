"""Rows that look like duplicates of others."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from helpers.messages import find_lacking
from helpers.mixed_table import score
from truewood.tabular._checks.duplicates import count_duplicates

pytestmark = pytest.mark.any_engine


def test_duplicates_are_warned_about():
    rng = np.random.default_rng(3)
    noise = pd.DataFrame({"a": rng.normal(size=100).round(4), "b": rng.integers(0, 5, 100), "y": rng.choice(2, 100)})
    scored = score(pd.concat([noise, noise]), "y", n_estimators=5)
    assert not find_lacking(scored.warnings[0], "100 of 200 rows", "duplicates")


RNG = np.random.default_rng(8)
AGES = pd.DataFrame({"age": RNG.integers(18, 80, 1000), "sex": RNG.choice(["m", "f"], 1000)})
FLAGS = pd.DataFrame(RNG.random((300, 22)) < 0.4)
TYPES = RNG.random(400) < 0.5
REPEATS = {
    "flags, a fifth repeated": (pd.concat([FLAGS, FLAGS[:75]]), 75),
    "flags, five times": (pd.concat([FLAGS] * 5), 1200),
    "few flags": (FLAGS.iloc[:, :5], 0),
    # Two kinds of rows, of which half are as typical as can be.
    "flags of two types": (pd.DataFrame((RNG.random((400, 20)) < 0.97) == TYPES[:, np.newaxis]), 0),
    "a tenth repeated": (pd.DataFrame({"x": np.append(np.arange(100) / 7, np.arange(12) / 7), "g": "a"}), 12),
    "repeated three times": (pd.concat([pd.DataFrame({"x": np.arange(100) / 7, "g": "a"})] * 3), 200),
    "repeated dates": (pd.DataFrame({"when": pd.date_range("2020-01-01", periods=50).repeat(2)}), 50),
    "few duplicates": (pd.DataFrame({"x": np.append(np.arange(100) / 7, [0.0])}), 0),
    "few levels": (pd.DataFrame({"a": RNG.integers(0, 4, 200), "b": RNG.choice(["u", "v"], 200)}), 0),
    "ages": (AGES[["age"]], 0),
    "ages and sexes": (AGES, 0),
    "ages and hours": (AGES.assign(hours=RNG.integers(20, 60, 1000)), 0),
    "the same in two units": (pd.DataFrame({"cm": AGES["age"], "inch": AGES["age"] / 2.54}), 0),
}


@pytest.mark.parametrize("case", REPEATS)
def test_which_repeated_rows_look_like_duplicates(case):
    table, n_duplicates = REPEATS[case]
    # Duplicates have the target of the first.
    y = np.arange(len(table)) * 7 % 2 if n_duplicates == 0 else np.zeros(len(table))
    assert table.duplicated().any()
    assert count_duplicates(table.reset_index(drop=True), y) == n_duplicates


def test_flags_of_the_same_rows_with_other_targets_are_no_duplicates():
    table = pd.concat([FLAGS, FLAGS[:75]], ignore_index=True)
    assert count_duplicates(table, np.append(np.zeros(300), np.ones(75))) == 0
    # One kind of rows has one target: most repeated rows are those without a single exception.
    assert count_duplicates(REPEATS["flags of two types"][0], TYPES) == 0
