"""Rows that are duplicates of others; tests/rows/test_copies.py has the tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from helpers.messages import find_lacking
from helpers.mixed_table import score

pytestmark = pytest.mark.any_engine


def test_duplicates_are_warned_about():
    rng = np.random.default_rng(3)
    noise = pd.DataFrame({"a": rng.normal(size=100).round(4), "b": rng.integers(0, 5, 100), "y": rng.choice(2, 100)})
    scored = score(pd.concat([noise, noise]), "y", n_estimators=5)
    assert not find_lacking(scored.warnings[0], "100 of 200 rows", "duplicates", "performance")
    assert any("100 of 200 rows" in note for note in scored.result.notes)


def test_tables_of_few_levels_are_not_warned_about():
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"a": rng.integers(0, 5, 200), "b": rng.choice(["u", "v"], 200), "y": rng.choice(2, 200)})
    assert not any("duplicates" in text for text in score(table, "y", n_estimators=5).warnings)
