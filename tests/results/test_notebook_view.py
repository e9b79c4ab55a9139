"""The HTML views of results: what they show, as text that cannot become markup."""

from __future__ import annotations

import html
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import truewood as tw
from helpers.messages import find_lacking
from truewood._results.caveats import Caveat
from truewood._results.notebook_view import draw_bars, write_table, write_view

pytestmark = pytest.mark.any_engine

BAD = "<img src=x onerror=alert(1)>&'\"\n"
N_ROWS = 120
rng = np.random.default_rng(0)
TABLE = pd.DataFrame(rng.standard_normal((N_ROWS, 12)), columns=[BAD, *(f"x{j}" for j in range(1, 12))])
TABLE["x1"] = TABLE[BAD] + 0.01 * rng.standard_normal(N_ROWS)
Y = TABLE[BAD] + TABLE["x2"] + rng.standard_normal(N_ROWS)
LABELS = np.digitize(Y, [-0.5, 0.5]).astype(str)
FOREST = RandomForestRegressor(20, random_state=0)


def read_cells(page):
    return [html.unescape(cell) for cell in re.findall(r"<td[^>]*>([^<]*)</td>", page)]


def make_views():
    fitted = RandomForestRegressor(20, random_state=0).fit(TABLE, Y)
    deeper = RandomForestRegressor(20, max_depth=2, random_state=0).fit(TABLE, Y)
    result = tw.importance(fitted, TABLE, Y, contributions=True)
    other = tw.importance(deeper, TABLE, Y, contributions=True)
    selector = tw.UnbiasedSelector(FOREST, k=3).fit(TABLE, Y)
    return {
        "result": result._repr_html_(),
        "comparison": tw.compare(result, other, names=(BAD, "b"))._repr_html_(),
        "explanation": tw.explain(fitted, TABLE, Y)._repr_html_(),
        "groups": tw.correlated_groups(TABLE)._repr_html_(),
        "test": tw.permutation_test(FOREST, TABLE, Y, n_permutations=3, random_state=0)._repr_html_(),
        "selector": selector._repr_mimebundle_()["text/html"],
    }


@pytest.fixture(scope="module")
def views():
    return make_views()


@pytest.mark.parametrize("name", ["result", "comparison", "explanation", "groups", "test", "selector"])
def test_names_stay_text_in_every_view(views, name):
    assert "<img" not in views[name]
    assert html.escape(BAD.strip()) in views[name]


@pytest.mark.parametrize("name", ["result", "comparison", "explanation", "groups", "test"])
def test_views_need_no_script_and_take_the_colors_of_the_page(views, name):
    assert not re.search(r"<script|<link|<style|https?:|[^-]color:(?!#)", views[name])
    assert "background:#fff" not in views[name]


def test_the_view_of_a_comparison_has_both_results(views):
    assert not find_lacking(views["comparison"], "difference", "95% CI", "adjusted p", "in b", "2 more features")
    assert "paired row by row" in views["comparison"]


def test_a_comparison_of_results_with_one_name_has_two_columns():
    result = tw.importance(RandomForestRegressor(20, random_state=0).fit(TABLE, Y), TABLE, Y, contributions=True)
    page = tw.compare(result, result, names=("same", "same"))._repr_html_()
    assert not find_lacking(page, "in the first", "in the second")


def test_the_view_of_an_explanation_orders_features_by_mean_absolute_effect():
    forest = RandomForestClassifier(8, random_state=0).fit(TABLE, LABELS)
    with pytest.warns(UserWarning, match="no explanation"):
        explanation = tw.explain(forest, TABLE, LABELS)
    page = explanation._repr_html_()
    is_known = ~np.isnan(explanation.base_values[:, 0])
    size = np.abs(explanation.values[is_known]).mean(axis=(0, 2))
    first = int(size.argmax())
    cells = read_cells(page)
    assert cells[0].strip() == explanation.feature_names[first].replace("\n", "\\n")
    assert float(cells[1]) == pytest.approx(size[first], rel=1e-2)
    assert not find_lacking(page, "largest for", "2 more features", f"{N_ROWS} out-of-bag rows", "3 outputs")
    n_missing = int(np.count_nonzero(~is_known))
    assert n_missing
    assert f"{n_missing} row" in page


def test_effects_on_two_classes_are_those_on_the_second():
    values = np.array([[[-0.2, 0.2]], [[0.5, -0.5]]])
    rest = (np.full((2, 2), 0.5), np.ones((2, 1)), np.array(["a"]), np.array(["no", "yes"]))
    page = tw.Explanation(values, *rest)._repr_html_()
    assert not find_lacking(page, "-0.500 to 0.200", "for &quot;yes&quot;", "0.35")
    numbers = tw.Explanation(values * [1.0, 2.0], *rest)._repr_html_()  # two outputs that are no classes
    assert not find_lacking(numbers, "-1.00 to 0.50", "0.525")
    assert "for yes" not in numbers


def test_rows_that_all_trees_were_trained_on_have_no_table():
    explanation = tw.Explanation(np.full((2, 1), np.nan), np.full(2, np.nan), np.ones((2, 1)), np.array(["a"]))
    assert "<table" not in explanation._repr_html_()


def test_the_view_of_groups_lists_their_columns(views):
    assert not find_lacking(views["groups"], "x1", "10 other columns", "0.7")
    alone = tw.correlated_groups(TABLE[["x2", "x3"]])._repr_html_()
    assert "<table" not in alone
    assert "2 other columns" in alone


def test_the_view_of_a_permutation_test_has_its_p_values(views):
    assert not find_lacking(views["test"], "3 permutations", "0.25", "null mean", "2 more features")


def test_the_view_of_a_selector_follows_its_settings(views):
    assert "<b>Selected</b>: 3 of 12 columns" in views["selector"]
    selector = tw.UnbiasedSelector(FOREST, k=3)
    assert "Selected" not in selector._repr_mimebundle_()["text/html"]
    selector.fit(TABLE, Y).set_params(k=1)
    assert "<b>Selected</b>: 1 of 12 columns" in selector._repr_html_()


def read_parts(charts):
    """Start and width of bars and intervals, in percent."""
    parts = re.findall(r"margin-left:([\d.]+)%;width:([\d.]+)%", "".join(charts))
    return [(float(start), float(width)) for start, width in parts]


def test_bars_start_at_zero_on_a_common_scale():
    bars = draw_bars([3.0, 1.0, -1.0], [True, False, True])
    assert read_parts(bars) == [(25.0, 75.0), (25.0, 25.0), (0.0, 25.0)]
    assert ["opacity:1" in bar for bar in bars] == [True, False, True]
    assert len(set(re.findall(r"background:(#\w+)", "".join(bars)))) == 2
    assert read_parts(draw_bars([0.0, 0.0], [True, True])) == [(0.0, 0.0), (0.0, 0.0)]
    assert draw_bars([], []) == []


def test_intervals_are_drawn_below_bars_and_cut_off_if_wide():
    charts = draw_bars([2.0, 1.0], [True, True], ([1.0, -1.0], [3.0, 3.0]))
    assert read_parts(charts) == [(25.0, 50.0), (50.0, 50.0), (25.0, 25.0), (0.0, 100.0)]
    assert "2 (95% CI 1 to 3)" in charts[0]
    assert read_parts(draw_bars([1.0, 1.0], [True, True], ([np.nan, 0.0], [np.nan, 1.0])))[1:] == [(0.0, 100.0)] * 2
    wide = draw_bars([1.0], [True], ([-1000.0], [1000.0]))
    assert read_parts(wide) == [(50.0, 25.0), (0.0, 100.0)]


def test_caveats_and_columns_are_escaped():
    caveat = Caveat(f"a {BAD}", f"b {BAD}", is_severe=True, items=(BAD,))
    page = write_view(BAD, BAD, write_table({BAD: [BAD], "n": ["1"]}), [BAD], [caveat])
    assert "<img" not in page
    assert "border-left" in page
    assert page.count(html.escape(BAD.strip())) == 8
