"""The report in a real browser, opened from disk with the network off."""

from __future__ import annotations

import csv
import io
import shutil
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import truewood as tw
from installed import needs_kernel

pytest.importorskip("altair")
pytest.importorskip("vl_convert")
sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium")
pytestmark = [needs_kernel, pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")]

NAMES = "#bars [aria-label^='Y-axis'] .role-axis-label text"
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
    return tw.importance(forest, X.to_numpy(), y, groups=names, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    many = [f"feature {j}" for j in range(40)]
    make_result(many).report(folder / "many.html", title="Forty features", notes=["A note."])
    make_result(many[:5], per_class=True).report(folder / "classes.html")
    make_result(NASTY).report(folder / "nasty.html", title="<b>T</b>&", notes=["<script>window.ran = 4</script>"])
    rng = np.random.default_rng(0)
    X = pd.DataFrame(np.repeat(rng.standard_normal((120, 7)), 2, axis=1), columns=NASTY)
    groups = tw.correlated_groups(X + 0.1 * rng.standard_normal(X.shape))
    model = RandomForestClassifier(20, max_depth=4, random_state=0).fit(X, X.iloc[:, 0] > 0)
    result = tw.importance(model, X, X.iloc[:, 0] > 0, groups=groups, per_class=True)
    result.report(folder / "groups.html", X=X, groups=groups)
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
        """() => [...document.querySelectorAll("#bars [aria-label^='Y-axis'] .role-axis-label text")]
            .map((text) => [text.getBoundingClientRect().y, text.textContent])
            .sort((a, b) => a[0] - b[0]).map((pair) => pair[1])"""
    )


def read_widths(page):
    """Widths of the bars in pixels, from top to bottom."""
    return page.evaluate(
        """() => [...document.querySelectorAll("#bars .mark-rect.layer_0_marks path")]
            .map((bar) => bar.getBBox()).sort((a, b) => a.y - b.y).map((box) => box.width)"""
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
    np.testing.assert_allclose(np.array(widths) / widths[0], expected.abs(), atol=0.02)
    assert "20 of 40 features" in page.locator("#status").inner_text()
    assert page.locator("caption").count() == 1


def test_sorts_table_and_charts_by_any_column(open_report, table):
    page = open_report("many.html")
    numbers = table["feature"].str.split().str[1].astype(int)  # "feature 2" comes before "feature 10"
    headings = {"p-value": "p_value", "biased importance": "mdi", "standard error": "std_error", "feature": "feature"}
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
    page.get_by_label("Sort by").select_option(label="importance")
    wait_for(lambda: read_bars(page), table["feature"][:20].tolist())


def test_searches_table_and_charts_together(open_report, table):
    page = open_report("many.html")
    page.get_by_label("Search").fill("FEATURE 3")
    expected = [name for name in table["feature"] if name.startswith("feature 3")]
    wait_for(lambda: read_bars(page), expected)
    assert read_table(page) == expected
    assert count_slopes(page) == len(expected) == 11
    page.get_by_label("Search").fill("nothing like it")
    assert page.locator("#status").inner_text() == "No feature has such a name."
    assert not page.locator("#bars").is_visible()
    assert not page.locator("#slopes").is_visible()
    assert read_table(page) == []
    page.get_by_label("Search").fill("")
    wait_for(lambda: read_bars(page), table["feature"][:20].tolist())


def test_shows_as_many_as_asked(open_report, table):
    page = open_report("many.html")
    height = page.locator("#bars svg.marks").bounding_box()["height"]
    page.get_by_label("Show", exact=True).select_option(label="all 40")
    wait_for(lambda: read_bars(page), table["feature"].tolist())
    assert page.locator("#bars svg.marks").bounding_box()["height"] > 1.5 * height


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
    assert not page.locator("#bars").is_visible()
    page.get_by_role("checkbox", name=names[5], exact=True).check()
    wait_for(lambda: read_bars(page), [names[5]])


def test_shows_scores_by_class(open_report):
    page = open_report("classes.html")
    page.locator("#classes svg.marks").wait_for()
    labels = page.locator("#classes [aria-label^='X-axis'] .role-axis-label text").all_text_contents()
    assert labels == ["False", "True"]
    assert page.locator("#classes .mark-rect.role-mark path").count() == 10
    assert page.locator("#headings th[data-column='class_1']").inner_text() == "class True"


def test_hover_tells_the_numbers(open_report, table):
    page = open_report("many.html")
    point_at(page, page.locator(NAMES).get_by_text(table["feature"][3], exact=True))
    tooltip = page.locator("#vg-tooltip-element")
    tooltip.get_by_text(table["feature"][3], exact=True).wait_for()
    assert f"{table['importance'][3]:.6g}"[:6] in tooltip.inner_text()


def test_downloads_the_table(open_report, table, tmp_path):
    page = open_report("many.html")
    page.get_by_label("Search").fill("feature 3")  # the file has all features all the same
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    assert download.value.suggested_filename == "feature-importance.csv"
    download.value.save_as(tmp_path / "table.csv")
    with open(tmp_path / "table.csv", encoding="utf-8-sig", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == table.columns.tolist()
    # Not a digit is lost on the way.
    expected = [[row[0], *map(float, row[1:])] for row in table.to_numpy().tolist()]
    assert [[row[0], *map(float, row[1:])] for row in rows] == expected


def test_names_stay_text(open_report, tmp_path):
    page = open_report("nasty.html")
    assert sorted(read_table(page)) == sorted(NASTY)
    assert page.evaluate("document.getElementById('bars').view.data('features').length") == len(NASTY)
    assert len(read_bars(page)) == len(NASTY)
    assert "<img src=x onerror='window.ran = 2'>" in read_bars(page)
    assert page.locator("h1").inner_text() == "<b>T</b>&"
    for name in NASTY[:4]:
        page.get_by_role("checkbox", name=name, exact=True).uncheck()
        page.get_by_role("checkbox", name=name, exact=True).check()
    page.locator("#bars").scroll_into_view_if_needed()
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
    # Names that a spreadsheet would run begin with an apostrophe in the file; the page says so.
    assert sorted(names) == sorted(f"'{name}" if name[0] in "=-@" else name for name in NASTY)
    assert "leading '" in page.locator("#csv-note").inner_text()


def test_light_and_dark(open_report):
    def read_colours(page):
        return page.evaluate(
            """() => [getComputedStyle(document.body).backgroundColor,
                      getComputedStyle(document.querySelector("#bars .role-axis-label text")).fill]"""
        )

    light, dark = ["rgb(255, 255, 255)", "rgb(26, 29, 33)"], ["rgb(22, 25, 29)", "rgb(230, 233, 236)"]
    page = open_report("many.html", color_scheme="dark")
    assert read_colours(page) == dark
    page.get_by_role("button", name="Light").click()
    assert read_colours(page) == light
    page.get_by_role("button", name="Dark").click()
    assert read_colours(page) == dark
    assert read_colours(open_report("many.html", color_scheme="light")) == light


@pytest.mark.parametrize("width", [1280, 390])
def test_fits_the_screen(open_report, width, tmp_path):
    page = open_report("nasty.html", width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert 0.8 * width < page.locator("#bars svg.marks").bounding_box()["width"] <= width
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
    page = open_report("comparison.html", chart="bars")
    sizes = [abs(float(text)) for text in page.locator("#rows tr td:nth-child(2)").all_inner_texts()]
    assert len(sizes) == len(NASTY)
    assert sizes == sorted(sizes, reverse=True)
    page.locator("#search").fill("два")
    wait_for(lambda: read_bars(page), ["два слова"])
    page.locator("#search").fill("")
    page.get_by_role("button", name="p-value", exact=True).click()
    values = [float(text) for text in page.locator("#rows tr td:nth-child(7)").all_inner_texts()]
    assert values == sorted(values)
    assert page.evaluate("window.ran") is None


def test_groups_show_their_members_and_their_tree(open_report):
    page = open_report("groups.html")
    members = page.locator("#groups tbody tr td:nth-child(2)").all_inner_texts()
    assert len(members) == len(NASTY) // 2
    assert sorted(members) == sorted(map(", ".join, zip(NASTY[::2], NASTY[1::2], strict=True)))
    assert page.evaluate("document.getElementById('tree').naturalWidth") > 500
    page.locator("#classes svg.marks").wait_for()
    assert page.locator("#classes .mark-rect.role-mark path").count() == 2 * len(members)
    assert page.evaluate("window.ran") is None
