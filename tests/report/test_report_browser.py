"""The report in a real browser, opened from disk with the network off."""

from __future__ import annotations

import csv
import io
import re
import shutil
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import truewood as tw
from helpers.messages import find_lacking

pytest.importorskip("altair")
pytest.importorskip("vl_convert")
sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.any_engine,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]

NAMES = "#dots [aria-label^='Y-axis'] .role-axis-label text"
NASTY = [
    "<script>window.ran = 1</script>",
    "<img src=x onerror='window.ran = 2'>",
    "</script><script>window.ran = 3</script>",
    "<!-- <script>",
    "line\u2028separator",
    'say "hi", then; go',
    "=1+1",
    "-minus",
    "@sum",
    "__proto__",
    "constructor",
    "$title ${data}",
    "datum.importance > 0 ? 'a' : 'b'",
    "два слова",
]


def make_result(names, n_rows=120, **options):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((n_rows, len(names))), columns=names)
    y = X.iloc[:, 0] + X.iloc[:, 1] > 0
    forest = RandomForestClassifier(20, max_depth=4, random_state=0).fit(X.to_numpy(), y)
    return tw.importance(forest, X.to_numpy(), y, feature_groups=names, **options)


def write_directions(path):
    """A report of a number and of levels with names that are no good HTML."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"up": rng.standard_normal(300), "level": rng.choice(NASTY[:3], 300)})
    y = 2 * X["up"] + 3 * (X["level"] == NASTY[0]) + 0.1 * rng.standard_normal(300)
    encoder = make_column_transformer((OneHotEncoder(), ["level"]), remainder="passthrough")
    model = make_pipeline(encoder, RandomForestRegressor(30, min_samples_leaf=3, random_state=0)).fit(X, y)
    tw.importance(model, X, y).report(path, X=X, explanation=tw.explain(model, X, y))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    many = [f"feature {j}" for j in range(40)]
    texts = {"performance": "AUC 0.9", "notes": ["A note."], "warnings": ["the target is among the features"]}
    make_result(many).report(folder / "many.html", title="Forty features", **texts)
    make_result(many[:5], per_class=True).report(folder / "classes.html")
    make_result(NASTY).report(folder / "nasty.html", title="<b>T</b>&", notes=["<script>window.ran = 4</script>"])
    rng = np.random.default_rng(0)
    X = pd.DataFrame(np.repeat(rng.standard_normal((120, 7)), 2, axis=1), columns=NASTY)
    groups = tw.correlated_groups(X + 0.1 * rng.standard_normal(X.shape))
    model = RandomForestClassifier(20, max_depth=4, random_state=0).fit(X, X.iloc[:, 0] > 0)
    result = tw.importance(model, X, X.iloc[:, 0] > 0, feature_groups=groups, per_class=True)
    result.report(folder / "groups.html", X=X, feature_groups=groups)
    write_directions(folder / "directions.html")
    parts = [make_result(NASTY[::-1], n_rows) for n_rows in (120, 140)]
    tw.compare(*parts, names=("<img src=x onerror='window.ran = 5'>", "June")).report(folder / "comparison.html")
    return folder


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_report(browser, folder):
    """Open a report; at the end nothing may have been requested, and nothing may have gone wrong."""
    contexts, troubles = [], []

    def open_file(name, *, width=1280, chart="slopes", **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(5000)
        page.on("console", lambda message: troubles.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda request: troubles.append(request.url) if is_outside(request.url) else None)
        page.goto((folder / name).as_uri())
        page.locator(f"#{chart} svg.marks").wait_for()
        wait_for(lambda: page.evaluate(f"Boolean(document.getElementById('{chart}').view)"), True)
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert not troubles


def is_outside(url):
    return not url.startswith(("file:", "data:", "blob:"))


def wait_for(read, expected):
    """Wait until the page shows what it should: charts are redrawn a moment after a click."""
    end = time.monotonic() + 5
    while (found := read()) != expected and time.monotonic() < end:
        time.sleep(0.02)
    assert found == expected


def read_bars(page):
    """Names beside the bars, from top to bottom as they are drawn."""
    return page.evaluate(
        """() => [...document.querySelectorAll("#dots [aria-label^='Y-axis'] .role-axis-label text")]
            .map((text) => [text.getBoundingClientRect().y, text.textContent])
            .sort((a, b) => a[0] - b[0]).map((pair) => pair[1])"""
    )


def read_widths(page):
    """Widths of the pale bars in pixels, from top to bottom."""
    return page.evaluate(
        """() => [...document.querySelectorAll("#dots .mark-rect.layer_0_marks path")]
            .map((bar) => bar.getBBox()).sort((a, b) => a.y - b.y).map((box) => box.width)"""
    )


def read_overflows(page):
    """What is wider than its place: the page, and boxes of tables."""
    return page.evaluate(
        """() => [document.documentElement, ...document.querySelectorAll(".scroll")]
            .filter((element) => element.scrollWidth > element.clientWidth).map((element) => element.className)"""
    )


def point_at(page, name):
    """Move the pointer into the row that a name stands before."""
    place = name.bounding_box()
    page.mouse.move(place["x"] + place["width"] + 200, place["y"] + place["height"] / 2)


def read_table(page):
    return [name.strip() for name in page.locator("#rows th").all_text_contents()]


def count_slopes(page):
    return page.evaluate("document.getElementById('slopes').view.data('features').length")


@pytest.fixture(scope="module")
def table():
    return make_result([f"feature {j}" for j in range(40)]).frame()


def test_shows_the_most_important_first(open_report, table):
    page = open_report("many.html")
    assert page.title() == "Forty features"
    assert read_bars(page) == table["feature"][:20].tolist()
    assert count_slopes(page) == 20
    assert read_table(page) == table["feature"].tolist()
    widths = read_widths(page)
    expected = table["importance"][:20] / table["importance"][0]
    np.testing.assert_allclose(np.array(widths) / widths[0], expected.clip(lower=0), atol=0.02)
    assert "20 of 40" in page.locator("#status").inner_text()
    assert page.locator("caption").count() == 1


def test_sorts_table_and_charts_by_any_column(open_report, table):
    page = open_report("many.html")
    numbers = table["feature"].str.split().str[1].astype(int)  # "feature 2" comes before "feature 10"
    headings = {"p-value": "p_value", "biased importance": "mdi", "importance": "importance", "feature": "feature"}
    for heading, column in headings.items():
        keys = table.assign(feature=numbers)
        starts_ascending = column in ("p_value", "feature")
        for ascending in (starts_ascending, not starts_ascending):
            page.get_by_role("columnheader").get_by_role("button", name=heading, exact=True).click()
            expected = table["feature"][keys.sort_values([column, "rank"], ascending=[ascending, True]).index].tolist()
            assert read_table(page) == expected
            wait_for(lambda: read_bars(page), expected[:20])
            assert page.locator("th[aria-sort]").get_attribute("aria-sort") == (
                "ascending" if ascending else "descending"
            )
        assert page.get_by_label("Sort by").input_value() == column
    page.get_by_label("Sort by").select_option(label="share")
    wait_for(lambda: read_bars(page), table["feature"][:20].tolist())


def test_searches_table_and_charts_together(open_report, table):
    page = open_report("many.html")
    page.get_by_label("Search").fill("FEATURE 3")
    expected = [name for name in table["feature"] if name.startswith("feature 3")]
    wait_for(lambda: read_bars(page), expected)
    assert read_table(page) == expected
    assert count_slopes(page) == len(expected) == 11
    shown = [name for name in page.locator(".card .name").all() if name.is_visible()]
    assert [name.inner_text() for name in shown] == [name for name in table["feature"][:20] if name in expected]
    page.get_by_label("Search").fill("nothing like it")
    assert "feature" in page.locator("#status").inner_text()
    assert not page.locator("#dots").is_visible()
    assert not page.locator("#slopes").is_visible()
    assert read_table(page) == []
    page.get_by_label("Search").fill("")
    wait_for(lambda: read_bars(page), table["feature"][:20].tolist())


def test_shows_as_many_as_asked(open_report, table):
    page = open_report("many.html")
    height = page.locator("#dots svg.marks").bounding_box()["height"]
    page.get_by_label("Show", exact=True).select_option(label="all 40")
    wait_for(lambda: read_bars(page), table["feature"].tolist())
    assert page.locator("#dots svg.marks").bounding_box()["height"] > 1.5 * height


def test_toggles_features(open_report, table):
    page = open_report("many.html")
    names = table["feature"].tolist()
    box = page.get_by_role("checkbox", name=names[0], exact=True)
    box.focus()
    page.keyboard.press("Space")
    wait_for(lambda: read_bars(page), names[1:21])
    box.check()
    wait_for(lambda: read_bars(page), names[:20])
    page.get_by_role("checkbox", name="show all features").uncheck()
    assert not page.locator("#dots").is_visible()
    page.get_by_role("checkbox", name=names[5], exact=True).check()
    wait_for(lambda: read_bars(page), [names[5]])


def test_shows_scores_by_class(open_report):
    page = open_report("classes.html")
    page.locator("#classes svg.marks").wait_for()
    labels = page.locator("#classes [aria-label^='X-axis'] .role-axis-label text").all_text_contents()
    assert labels == ["False", "True"]
    assert page.locator("#classes .mark-rect.role-mark path").count() == 10
    assert page.locator("#classes .mark-text.role-mark text").count() == 10


def test_hover_shows_the_numbers(open_report, table):
    page = open_report("many.html")
    point_at(page, page.locator(NAMES).get_by_text(table["feature"][3], exact=True))
    tooltip = page.locator("#vg-tooltip-element")
    tooltip.get_by_text(table["feature"][3], exact=True).wait_for()
    assert f"{100 * table['share'][3]:.2f}%" in tooltip.inner_text()
    assert f"{table['p_value'][3]:.3f}" in tooltip.inner_text()


def test_downloads_the_table(open_report, table, tmp_path):
    page = open_report("many.html")
    page.get_by_label("Search").fill("feature 3")  # the file has all features all the same
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    assert download.value.suggested_filename == "feature-importance.csv"
    download.value.save_as(tmp_path / "table.csv")
    with open(tmp_path / "table.csv", encoding="utf-8-sig", newline="") as file:
        header, *rows = csv.reader(file)
    place = header.index("adjusted_p_value")
    assert header.pop(place) == "adjusted_p_value"
    assert header == table.columns.tolist()
    # Not a digit is lost on the way.
    expected = [[row[0], *map(float, row[1:])] for row in table.to_numpy().tolist()]
    assert all(float(row.pop(place)) >= float(row[place - 1]) for row in rows)
    assert [[row[0], *map(float, row[1:])] for row in rows] == expected


def test_names_stay_text(open_report, tmp_path):
    page = open_report("nasty.html")
    assert sorted(read_table(page)) == sorted(NASTY)
    assert page.evaluate("document.getElementById('dots').view.data('features').length") == len(NASTY)
    assert len(read_bars(page)) == len(NASTY)
    assert "<img src=x onerror='window.ran = 2'>" in read_bars(page)
    assert page.locator("h1").inner_text() == "<b>T</b>&"
    for name in NASTY[:4]:
        page.get_by_role("checkbox", name=name, exact=True).uncheck()
        page.get_by_role("checkbox", name=name, exact=True).check()
    page.locator("#dots").scroll_into_view_if_needed()
    for bar in page.locator(NAMES).all():
        point_at(page, bar)
        page.locator("#vg-tooltip-element.visible").wait_for()
    assert page.evaluate("window.ran") is None
    assert page.locator("img").count() == 0

    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    download.value.save_as(tmp_path / "table.csv")
    text = (tmp_path / "table.csv").read_bytes().decode("utf-8-sig")
    names = pd.read_csv(io.StringIO(text), keep_default_na=False)["feature"]
    # Names that a spreadsheet would run begin with an apostrophe in the file; the page explains that.
    assert sorted(names) == sorted(f"'{name}" if name[0] in "=-@" else name for name in NASTY)
    assert "leading '" in page.locator("#csv-note").inner_text()


def test_light_and_dark(open_report):
    def read_colors(page):
        return page.evaluate(
            """() => [getComputedStyle(document.body).backgroundColor,
                      getComputedStyle(document.querySelector("#dots .role-axis-label text")).fill]"""
        )

    light, dark = ["rgb(255, 255, 255)", "rgb(26, 29, 33)"], ["rgb(22, 25, 29)", "rgb(230, 233, 236)"]
    page = open_report("many.html", color_scheme="dark")
    assert read_colors(page) == dark
    page.get_by_role("button", name="Light").click()
    assert read_colors(page) == light
    page.get_by_role("button", name="Dark").click()
    assert read_colors(page) == dark
    assert read_colors(open_report("many.html", color_scheme="light")) == light


def test_the_answer_comes_first_and_the_background_is_folded(open_report, table):
    page = open_report("many.html")
    chart = page.locator("#dots svg.marks").bounding_box()
    assert chart["y"] + chart["height"] <= 900
    for place in ("#summary", "#facts", ".caveat.severe"):
        box = page.locator(place).bounding_box()
        assert box["y"] + box["height"] <= chart["y"]
    facts = page.locator("#facts dd").all_inner_texts()
    assert not find_lacking(facts[0], f"{100 * table['share'].sum():.0f}", "target")
    assert facts[1] == "AUC 0.9"
    fold = page.locator("details", has_text="How this was measured")
    note = page.get_by_text("A note.", exact=True)
    assert not note.is_visible()
    fold.locator("summary").click()
    assert note.is_visible()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("section > details:not([open])").count() == 0
    assert page.locator(".caveat.severe").is_visible()
    assert note.is_visible()


def test_the_table_is_in_percent(open_report, table):
    page = open_report("many.html")
    cells = page.locator("#rows tr:first-child td").all_inner_texts()
    first = table.iloc[0]
    low, high = 100 * first[["ci_low", "ci_high"]] * first["share"] / first["importance"]
    assert cells[:5] == [
        f"{100 * first['share']:.1f}%",
        f"{low:.1f} to {high:.1f}%",
        "significant",
        "<0.001",
        "<0.001",
    ]
    title = page.locator("#dots [aria-label^='X-axis'] .role-axis-title text").text_content()
    assert not find_lacking(title, "share", "target", "%")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["many.html", "classes.html", "groups.html", "comparison.html", "directions.html"])
def test_nothing_is_clipped(open_report, name, width):
    page = open_report(name, width=width, chart="dots")
    assert read_overflows(page) == []


def test_names_stand_above_the_points_of_a_phone(open_report, table):
    page = open_report("many.html", width=390, chart="dots")
    names = page.locator("#dots .mark-text.role-mark text")
    shown = [name.text_content() for name in names.all()]
    assert sorted(shown) == sorted(table["feature"][:20])
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in map(read_box, names.all()))


def read_box(element):
    return element.bounding_box()


@pytest.mark.parametrize("width", [1280, 390])
def test_fits_the_screen(open_report, width, tmp_path):
    page = open_report("nasty.html", width=width)
    assert read_overflows(page) == []
    assert 0.8 * width < page.locator("#dots svg.marks").bounding_box()["width"] <= width
    page.screenshot(path=tmp_path / f"{width}.png", full_page=True)
    assert (tmp_path / f"{width}.png").stat().st_size > 50_000


def test_two_thousand_features_open(open_report, folder):
    make_result([f"feature {j}" for j in range(2000)]).report(folder / "most.html")
    assert (folder / "most.html").stat().st_size < 3_000_000
    page = open_report("most.html")
    assert len(read_table(page)) == 500
    page.get_by_role("button", name="Show all 2,000 rows").click()
    assert len(read_table(page)) == 2000


def test_a_comparison_can_be_sorted_and_searched(open_report):
    page = open_report("comparison.html", chart="dots")
    sizes = [abs(float(text)) for text in page.locator("#rows tr td:nth-child(2)").all_inner_texts()]
    assert len(sizes) == len(NASTY)
    assert sizes == sorted(sizes, reverse=True)
    page.locator("#search").fill("два")
    wait_for(lambda: read_bars(page), ["два слова"])
    page.locator("#search").fill("")
    page.get_by_role("button", name="p-value", exact=True).click()
    values = [float(text.replace("<", "")) for text in page.locator("#rows td.p_value").all_inner_texts()[::2]]
    assert len(values) == len(NASTY)
    assert values == sorted(values)
    assert page.evaluate("window.ran") is None


def test_groups_show_their_members_and_their_tree(open_report):
    page = open_report("groups.html")
    members = page.locator("#groups tbody tr td:nth-child(2)").all_inner_texts()
    assert len(members) == len(NASTY) // 2
    assert sorted(members) == sorted(map(", ".join, zip(NASTY[::2], NASTY[1::2], strict=True)))
    assert page.evaluate("document.getElementById('dendrogram').naturalWidth") > 500
    page.locator("#classes svg.marks").wait_for()
    assert page.locator("#classes .mark-rect.role-mark path").count() == 2 * len(members)
    assert page.evaluate("window.ran") is None


@pytest.mark.parametrize("width", [1280, 390])
def test_rows_show_directions(open_report, width):
    page = open_report("directions.html", width=width)
    cells = page.locator("#rows td.direction")
    shown = dict(zip(read_table(page), cells.all_inner_texts(), strict=True))
    assert shown["up"].split() == ["rising"]
    # The names of the levels and their effects are text that is seen on every screen, and printed.
    level = " ".join(shown["level"].split())
    assert not find_lacking(level, *NASTY[:3])
    assert re.match(rf"{re.escape(NASTY[0])} \+[\d.]+ ", level)
    assert page.locator("td.direction polyline").count() == 1
    assert page.evaluate("window.ran") is None


def test_cards_open_one_by_one_and_all_on_paper(open_report):
    page = open_report("directions.html")
    cards = page.locator(".card")
    names = page.locator(".card summary .name").all_inner_texts()
    assert [cards.nth(k).get_attribute("open") is not None for k in range(2)] == [True, False]
    level = cards.nth(names.index("level"))
    figure = level.locator("table.levels")
    if level.get_attribute("open") is None:
        assert not figure.is_visible()
        level.locator("summary").click()
    assert figure.is_visible()
    rows = figure.locator("tbody th").all_inner_texts()
    assert rows[0] == NASTY[0]
    assert sorted(rows) == sorted(NASTY[:3])
    level.locator("summary").click()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert figure.is_visible()
    assert page.locator(".card:not([open])").count() == 0
    assert page.evaluate("window.ran") is None


def test_long_names_are_read_in_full(open_report, folder):
    long = "How satisfied are you with the advice that you received from our staff?"
    make_result([long, "b", "c"]).report(folder / "long.html", data="survey.csv")
    page = open_report("long.html")
    lines = page.locator(f"{NAMES} tspan").all_text_contents()
    assert " ".join(lines[:2]) == long or " ".join(lines[-2:]) == long
    assert long in page.locator("#summary").inner_text()
    assert page.locator("#about").inner_text().startswith("survey.csv")
    assert read_overflows(open_report("long.html", width=390, chart="dots")) == []
