"""Warnings of models whose importances mean nothing."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from helpers.mixed_table import score
from truewood._formatting import format_p_value
from truewood.tabular import Messages, ModelPerformance
from truewood.tabular._checks.performance import check_quality

pytestmark = pytest.mark.any_engine


def test_a_model_without_skill_is_warned_about(recwarn):
    rng = np.random.default_rng(1)
    noise = pd.DataFrame({"a": rng.normal(size=200), "b": rng.integers(0, 5, 200), "y": rng.choice(["u", "v"], 200)})
    (warning,) = score(noise, "y", n_estimators=50).warnings
    assert re.search(r"chance.*\(AUC 0\.", warning)
    assert not recwarn


def draw_unbalanced():
    """Classes of 90, 5 and 5 %, the rare ones at the ends of x."""
    rng = np.random.default_rng(3)
    label = rng.choice(["big", "m", "r"], 1500, p=[0.9, 0.05, 0.05])
    x = rng.normal(size=1500) + 1.2 * (label == "m") - 1.2 * (label == "r")
    return pd.DataFrame({"x": x, "z": rng.normal(size=1500), "t": label})


def test_unbalanced_classes_with_signal_are_no_chance():
    scored = score(draw_unbalanced(), "t")
    assert scored.warnings == []
    assert scored.performance.p_value < 1e-6
    noise = draw_unbalanced().assign(x=np.random.default_rng(0).normal(size=1500))
    assert "chance" in score(noise, "t").warnings[0]


@pytest.mark.parametrize(("max_depth", "has_hint"), [(None, True), (12, False)])
def test_depth_is_a_hint_for_deep_forests_only(max_depth, has_hint):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=600), **{f"z{k}": rng.normal(size=600) for k in range(2)}})
    table["y"] = 0.25 * table["x"] + rng.normal(size=600)
    scored = score(table, "y", max_depth=max_depth)
    assert "splits" in scored.warnings[0]
    assert ("max_depth=3" in scored.warnings[0]) == has_hint


GOOD, POOR = ModelPerformance("AUC", 0.8, 0.02, 0.5, "rows"), ModelPerformance("AUC", 0.51, 0.02, 0.5, "rows")
VERDICTS = {
    "not measured": (None, 0.001, "measured"),
    "good": (GOOD, 0.001, None),
    "good, but splits are noise": (GOOD, 0.3, "(p = 0.300)"),
    "good, without a test of splits": (GOOD, np.nan, None),
    "poor": (POOR, 0.3, "p = 0.300)"),
    "poor, without a test of splits": (POOR, np.nan, "p = 0.309)"),
    "poor, but splits hold up": (POOR, 0.001, "(p = 0.001), but"),
}


@pytest.mark.parametrize("case", VERDICTS)
def test_verdicts(case):
    performance, total_p_value, words = VERDICTS[case]
    messages = Messages()
    check_quality(performance, total_p_value, messages, alpha=0.05, may_be_too_deep=False)
    assert messages.messages == ([] if performance is None else [str(performance)])
    assert len(messages.warnings) == (words is not None)
    assert words is None or words in messages.warnings[0]


def test_p_values_in_few_characters():
    assert [format_p_value(value) for value in (0.04321, 1e-20, np.nan)] == ["0.043", "<0.001", "-"]
