"""Plots of interactions show the numbers of the result."""

from __future__ import annotations

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import truewood as tw
from truewood._report.pair_curves import draw_pair
from truewood._report.pairs_section import write_pairs_section
from truewood._scoring.joint_surfaces import _cut_column

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
    assert "share of the variation in the target (%)" in ax.get_xlabel()


def test_the_legend_fits_beside_long_names():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=[f"WIDE_COLUMN_NAME_{k}" for k in "ABC"])
    X["WIDE_COLUMN_NAME_D"] = X["WIDE_COLUMN_NAME_A"] + 0.01 * rng.normal(size=300)
    y = X.iloc[:, 0] * X.iloc[:, 1] + X.iloc[:, 2]
    forest = RandomForestRegressor(20, min_samples_leaf=5, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="withheld"):
        result = tw.interactions(forest, X, y)
    ax = result.plot()
    ax.figure.draw_without_rendering()
    box = ax.get_legend().get_window_extent()
    assert len(ax.get_legend().get_texts()) == 4
    assert 0 <= box.x0 < box.x1 <= ax.figure.bbox.width


def test_heat_map_has_the_matrix(result):
    ax = result.plot("heatmap")
    shown = ax.images[0].get_array()
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names[:2] in (["x0", "x1"], ["x1", "x0"])
    expected = 100 * result.matrix("share").loc[names, names].to_numpy()
    np.testing.assert_array_equal(np.ma.filled(shown, np.nan), expected)
    assert len([text for text in ax.texts if text.get_fontweight() == "bold"]) == 2 * result.select().sum() > 0
    ax.figure.draw_without_rendering()
    assert ax.get_position().x0 < 0.35  # names of two letters need little space


def test_surface_and_curves_follow_the_order_of_the_pair(result):
    place = result.surfaces.pairs.tolist().index(result.find_pair("x0", "x3"))
    means = result.surfaces.joint[place, 1, :, :3]
    for pair, expected in ((("x0", "x3"), means), (("x3", "x0"), means.T)):
        ax = result.plot("surface", pair=pair)
        np.testing.assert_array_equal(np.ma.filled(ax.images[0].get_array(), np.nan), expected.T)
        assert (ax.get_xlabel(), ax.get_ylabel()) == pair
    ax = result.plot("curves", pair=("x0", "x3"), output="0")
    assert len(ax.lines) == 3
    assert 'for "0"' in ax.get_title()
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


@pytest.fixture(scope="module")
def encoded():
    """Interactions of a pipeline that encodes two text columns."""
    rng = np.random.default_rng(0)
    n = 500
    X = pd.DataFrame(
        {
            "rain": rng.uniform(0, 100, n),
            "soil <b>": rng.choice(["sand", "clay & loam", "peat"], n),
            "use": rng.choice(["field", "garden"], n),
        }
    )
    sign = np.where(X["soil <b>"] == "sand", 1.0, -1.0)
    y = sign * (X["rain"] - 50) / 25 + sign * (X["use"] == "field")
    encoder = make_column_transformer((OneHotEncoder(), ["soil <b>", "use"]), remainder="passthrough")
    model = make_pipeline(encoder, RandomForestRegressor(40, min_samples_leaf=5, random_state=0))
    return tw.interactions(model.fit(X, y), X, y)


def test_curves_of_a_text_column_have_its_levels(encoded):
    ax = encoded.plot("curves", pair=("rain", "soil <b>"))
    levels = ["clay & loam", "peat", "sand"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [f"soil <b>: {level}" for level in levels]
    change = [line.get_ydata()[-1] - line.get_ydata()[0] for line in ax.lines[:3]]
    assert change[2] > 0 > max(change[:2])
    for kind in ("curves", "surface"):
        ax = encoded.plot(kind, pair=("soil <b>", "use"))
        assert [label.get_text() for label in ax.get_xticklabels()] == levels


def test_levels_are_saved(encoded, tmp_path):
    encoded.save(tmp_path / "pairs.json")
    loaded = tw.load(tmp_path / "pairs.json")
    np.testing.assert_array_equal(loaded.surfaces.level_names, encoded.surfaces.level_names)


def test_the_report_draws_pairs_with_level_names(encoded):
    numbers = [encoded.find_pair("rain", "soil <b>"), encoded.find_pair("soil <b>", "use")]
    curves, cells = (draw_pair(encoded, number) for number in numbers)
    assert curves.count("<polyline") == 3
    for drawn in (curves, cells):
        assert "clay &amp; loam" in drawn
        assert "soil &lt;b&gt;" in drawn
        assert "<b>" not in drawn
    assert cells.count("<tr>") == 4  # a heading and three levels
    section = write_pairs_section(encoded, 0.05)
    assert section.count('<figure class="pair">') == encoded.select().sum() > 0


def test_dates_are_cut_into_ranges_and_named():
    days = pd.Series(pd.date_range("2024-01-01", periods=12, tz="UTC"))
    cells, means, names = _cut_column(days)
    assert cells.tolist() == sorted(cells.tolist())
    assert names == [f"{pd.Timestamp(mean, unit='s'):%Y-%m-%d}" for mean in means]
    assert names[0] == "2024-01-01"


def test_missing_and_rare_levels_are_in_no_cell():
    column = pd.Series([*"aabbccddeeff", "g", None], dtype=object)
    cells, _, names = _cut_column(column)
    assert names == list("abcdef")
    assert cells.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, -1, -1]
    assert _cut_column(pd.Series([2, None, 1, pd.NA], dtype=object))[2] == []
