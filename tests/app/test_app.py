"""`truewood app` as people use it: the command in a process of its own, and its page in a real browser."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from helpers.app_driver import (
    MEGABYTES,
    ask,
    check_report,
    choose_target,
    make_cookie,
    start_report,
    upload,
    wait_for,
    wait_for_report,
    write_table,
)
from truewood._app.server import serve_app

pytestmark = [pytest.mark.any_engine, pytest.mark.slow]


def test_from_a_table_to_its_report(app, open_page, tmp_path):
    page, other = open_page(app), open_page(app, width=390)
    upload(other, write_table(tmp_path / "other.csv", n_rows=40))
    other.get_by_text("40 rows, 6 columns", exact=True).wait_for()
    wait_for(lambda: other.evaluate("document.documentElement.scrollWidth") <= 390)
    upload(page, write_table(tmp_path / "people.csv"))
    page.get_by_text("300 rows, 6 columns", exact=True).wait_for()
    assert not page.get_by_role("button", name="Analyze").is_enabled()
    kinds = {
        "customer": "left out (identifier)",
        "age": "number",
        "income": "number",
        "<img src=x onerror=alert(1)>": "category",
        "churn": "boolean",
        "letter": "left out (free text)",
    }
    for name, kind in kinds.items():
        assert page.get_by_label(f"Type of {name}", exact=True).input_value() == kind
    choose_target(page, "churn")
    page.locator("span.role").wait_for()
    page.get_by_label("Type of income").select_option("left out")
    page.get_by_role("button", name="Analyze").click()
    page.get_by_text("of 500 trees").wait_for()
    report = wait_for_report(page, "What predicts churn?")
    assert list_features(report) == ["age", "<img src=x onerror=alert(1)>"]
    check_report(page, "people", "churn")

    # The other page has seen nothing of it, and nothing is kept of it when it is closed.
    assert other.get_by_role("heading", name="other.csv").is_visible()
    assert other.locator("iframe").count() == 0
    assert {path.name for path in app.list_files()} == {"people.csv", "report.html", "other.csv"}
    other.close()
    wait_for(lambda: {path.name for path in app.list_files()} == {"people.csv", "report.html"})


def test_errors_are_shown_in_one_line(app, open_page, tmp_path):
    page = open_page(app)
    trouble = page.get_by_role("alert")

    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and then nothing")
    upload(page, tmp_path / "broken.parquet")
    trouble.get_by_text("broken.parquet cannot be read as a Parquet file").wait_for()
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    upload(page, tmp_path / "picture.png")
    trouble.get_by_text("picture.png must end in").wait_for()
    with (tmp_path / "large.csv").open("wb") as file:
        file.truncate(MEGABYTES * 10**6 + 1)
    upload(page, tmp_path / "large.csv")
    trouble.get_by_text(f"larger than the {MEGABYTES} MB").wait_for()
    (tmp_path / "few.csv").write_text("a,b\n1,2.5\n3,4\n")
    upload(page, tmp_path / "few.csv")
    choose_target(page, "b")
    assert not trouble.is_visible()
    page.get_by_role("button", name="Analyze").click()
    trouble.get_by_text("rows with a target").wait_for()
    assert "\n" not in trouble.inner_text()
    assert page.get_by_role("button", name="Analyze").is_enabled()
    kept = {path.name for path in app.list_files()}
    assert kept & {"broken.parquet", "picture.png", "large.csv", "few.csv"} == {"few.csv"}


def test_what_cannot_be_the_target_is_refused_at_once(app, open_page, tmp_path):
    page = open_page(app)
    upload(page, write_table(tmp_path / "people.csv"))
    start = page.get_by_role("button", name="Analyze")
    for name, reason in {"customer": "row identifier", "letter": "free text"}.items():
        choose_target(page, name)
        page.locator(".refusal", has_text=name).filter(has_text=reason).wait_for()
        assert not start.is_enabled()
    choose_target(page, "churn")
    wait_for(start.is_enabled)
    assert not page.locator(".refusal").is_visible()
    # A number that looks like an identifier may be a target nevertheless.
    (tmp_path / "ranks.csv").write_text("x,rank\n" + "".join(f"{k % 7},{k}\n" for k in range(60)))
    upload(page, tmp_path / "ranks.csv")
    page.get_by_text("60 rows, 2 columns", exact=True).wait_for()
    choose_target(page, "rank")
    page.locator(".refusal").get_by_text("row identifier").wait_for()
    assert not start.is_enabled()
    page.get_by_label("Type of rank").select_option("number")
    wait_for(start.is_enabled)
    assert not page.locator(".refusal").is_visible()


def test_a_leak_is_left_out_until_it_is_wanted(app, open_page, tmp_path):
    rng = np.random.default_rng(0)
    weight = rng.gamma(3, size=200)
    price = 20 * weight + rng.normal(0, 5, 200)
    rows = "".join(f"{w:.3f},{p:.2f},{1.19 * p:.2f}\n" for w, p in zip(weight, price, strict=True))
    (tmp_path / "shop.csv").write_text(f"weight,Price,Price incl. VAT\n{rows}")
    page = open_page(app)
    upload(page, tmp_path / "shop.csv")
    start_report(page, "Price")
    report = wait_for_report(page, "What predicts Price?")
    assert "Price incl. VAT" in report.locator(".caveat.severe").first.inner_text()
    assert list_features(report) == ["weight"]
    page.get_by_role("button", name="Columns").click()
    kind = page.get_by_label("Type of Price incl. VAT")
    assert kind.input_value() == "left out (possible leak)"
    kind.select_option("use anyway")
    page.get_by_role("button", name="Analyze").click()
    report.locator("#rows th").nth(1).wait_for()
    assert list_features(report)[0] == "Price incl. VAT"
    # It is no leak for another target.
    page.get_by_role("button", name="Columns").click()
    choose_target(page, "weight")
    wait_for(lambda: kind.input_value() == "number")


def list_features(report):
    """The features of a report, in order."""
    return [name.strip() for name in report.locator("#rows th").all_inner_texts()]


def test_groups_model_and_survival_times(app, open_page, tmp_path):
    pytest.importorskip("sksurv")
    rng = np.random.default_rng(0)
    x, patient = rng.normal(size=200), np.repeat(np.arange(40), 5)
    days = rng.exponential(np.exp(-x))
    rows = "".join(f"{k},{a:.3f},{d:.3f},{e}\n" for k, a, d, e in zip(patient, x, days, patient % 3 > 0, strict=True))
    (tmp_path / "study.csv").write_text(f"patient,x,days,died\n{rows}")
    page = open_page(app)
    upload(page, tmp_path / "study.csv")
    page.get_by_text("200 rows, 4 columns", exact=True).wait_for()
    assert not page.get_by_label("Event column").is_visible()
    choose_option(page, "Group column", "patient")
    page.locator("span.role", has_text="groups").wait_for()
    choose_option(page, "Model", "extra-trees")
    page.get_by_role("checkbox", name="Also test pairs of columns for interactions").click()
    start_report(page, "days")
    report = wait_for_report(page, "What predicts days?")
    assert list_features(report) == ["x", "died"]
    assert "folds" in report.locator("#facts").inner_text()  # and not out-of-bag rows
    report.get_by_role("heading", name="Interactions").wait_for()

    page.get_by_role("button", name="Columns").click()
    choose_option(page, "Task", "survival")
    page.get_by_label("Time column").wait_for()
    assert not page.get_by_role("button", name="Analyze").is_enabled()
    choose_option(page, "Event column", "died")
    page.get_by_role("button", name="Analyze").click()
    report = wait_for_report(page, "What predicts time to event (days, died)?")
    assert list_features(report) == ["x"]


def choose_option(page, label, option):
    page.get_by_label(label).click()
    page.get_by_role("option", name=option, exact=True).click()


def test_a_hundred_megabytes(app, open_page, tmp_path):
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, 100)
    photos = [rng.bytes(10**6) for _ in age]
    path = tmp_path / "photos.parquet"
    parquet.write_table(pa.table({"age": age, "photo": photos, "price": age + rng.normal(size=100)}), path)
    assert path.stat().st_size > 100 * 10**6
    page = open_page(app)
    upload(page, path)
    # The server answers others while it takes the table in and reads it.
    while not page.get_by_text("100 rows, 3 columns", exact=True).is_visible():
        assert ask(page.url + "favicon.ico", Cookie=make_cookie(page))[0] == 200
    assert page.get_by_label("Type of photo").input_value() == "left out (nested values)"
    start_report(page, "price")
    check_report(page, "photos", "price")


def test_work_is_stopped_and_nothing_is_left_when_it_ends_at_work(own_app, browser, tmp_path):
    app = own_app
    page = browser.new_page()
    page.goto(app.address)
    upload(page, write_table(tmp_path / "people.csv", n_rows=5000))
    start_report(page, "income")
    page.get_by_text("of 500 trees").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Analyze").click()
    page.get_by_text("of 500 trees").wait_for()
    assert not page.get_by_role("alert").is_visible()
    assert app.list_files()
    workers = app.list_workers()
    assert len(workers) == 1
    assert app.end(signal.SIGINT) == (130, "truewood: stopped\n")
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    page.close()


def test_pages_closed_at_work_are_not_updated_afterwards(own_app, browser, tmp_path):
    write_table(tmp_path / "people.csv", n_rows=5000)
    for _ in range(4):
        page = browser.new_page()
        page.goto(own_app.address)
        own_app.address = own_app.read_address()
        upload(page, tmp_path / "people.csv")
        start_report(page, "income")
        page.get_by_text("of 500 trees").wait_for()
        page.close()
        wait_for(lambda: own_app.list_workers() == [])
    assert own_app.end(signal.SIGTERM) == (128 + signal.SIGTERM, "")


def test_a_port_that_is_taken(app):
    with pytest.raises(ValueError, match=f"port {app.port}.*Address already in use"):
        serve_app(port=app.port, max_bytes=1, opens_browser=False, show_address=print)
    with pytest.raises(ValueError, match=r"port 65536.*\b65535\b"):
        serve_app(port=65_536, max_bytes=1, opens_browser=False, show_address=print)
