"""Plots of interactions show the numbers of the result."""

from __future__ import annotations

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import truewood as tw

pytestmark = pytest.mark.any_engine


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(400, 3)), rng.integers(0, 3, 400)])
    y = (X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.normal(size=400) > 0).astype(int)
    return tw.interactions(RandomForestClassifier(40, min_samples_leaf=5, random_state=0).fit(X, y), X, y)


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_bars_are_shares_in_order(result):
    ax = result.plot(top=3)
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == pytest.approx(100 * np.sort(result.share)[::-1][:3])
    assert ax.get_yticklabels()[0].get_text() == "x0 × x1"
    assert f"{result.select().sum()} of 6 pairs" in ax.get_title()
    assert "top 3" in ax.get_title()


def test_heat_map_has_the_matrix(result):
    ax = result.plot("heatmap")
    shown = ax.images[0].get_array()
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names[:2] in (["x0", "x1"], ["x1", "x0"])
    expected = 100 * result.matrix("share").loc[names, names].to_numpy()
    np.testing.assert_array_equal(np.ma.filled(shown, np.nan), expected)
    assert len([text for text in ax.texts if text.get_fontweight() == "bold"]) == 2 * result.select().sum() > 0


def test_surface_and_curves_follow_the_order_of_the_pair(result):
    place = result.surfaces.pairs.tolist().index(result.find_pair("x0", "x3"))
    means = result.surfaces.joint[place, 1, :, :3]
    for pair, expected in ((("x0", "x3"), means), (("x3", "x0"), means.T)):
        ax = result.plot("surface", pair=pair)
        np.testing.assert_array_equal(np.ma.filled(ax.images[0].get_array(), np.nan), expected.T)
        assert (ax.get_xlabel(), ax.get_ylabel()) == pair
    ax = result.plot("curves", pair=("x0", "x3"), output="0")
    assert len(ax.lines) == 3
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), result.surfaces.combined[place, 0, :, 0])
    assert ax.get_legend().get_texts()[2].get_text() == "x3: 2"


def test_plots_use_the_given_axes(result):
    _, ax = plt.subplots()
    for kind in ("bar", "heatmap", "surface", "curves"):
        assert result.plot(kind, ax=ax) is ax


def test_plots_without_inference(result):
    nothing = np.full(6, np.nan)
    bare = replace(result, std_error=nothing, null_std_error=nothing, inference_unavailable="too few rows")
    for kind in ("bar", "heatmap", "surface", "curves"):
        assert "significant" not in bare.plot(kind).get_title()


def test_wrong_arguments(result):
    for options, facts in (
        ({"kind": "pie"}, "kind.*'pie'"),
        ({"kind": "surface", "pair": "x0"}, "pair.*'x0'"),
        ({"kind": "surface", "output": "2"}, "output.*'2'"),
        ({"top": 0}, "top.*0"),
    ):
        with pytest.raises(ValueError, match=facts):
            result.plot(**options)
    without = replace(result, surfaces=None)
    with pytest.raises(ValueError, match="features="):
        without.plot("curves")
