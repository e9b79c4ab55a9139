"""Jobs of a session: none answers for another, whatever is pressed, and one worker process does them all."""

from __future__ import annotations

import pytest

from helpers.app_driver import check_report, choose_target, list_processes, start_report, upload, wait_for, write_table

pytestmark = [pytest.mark.any_engine, pytest.mark.slow]

PRESS_THREE_TIMES = """button => { button.click(); button.click(); button.click(); }"""


@pytest.mark.parametrize(
    "press",
    [lambda button: button.dblclick(), lambda button: button.evaluate(PRESS_THREE_TIMES)],
    ids=["double click", "three clicks before any answer"],
)
def test_a_button_that_is_pressed_again(app, open_page, tmp_path, press):
    """It starts one job, and later reports are those that are asked for."""
    page = open_page(app)
    upload(page, write_table(tmp_path / "people.csv"))
    choose_target(page, "churn")
    press(page.get_by_role("button", name="Analyze"))
    check_report(page, "people", "churn")
    page.get_by_role("button", name="Columns").click()
    start_report(page, "income")
    check_report(page, "people", "income")
    page.get_by_role("button", name="Columns").click()
    choose_target(page, "age")
    button = page.get_by_role("button", name="Analyze")
    button.click()
    page.get_by_text("of 500 trees").wait_for()
    assert page.locator("section.columns button[disabled]").all_inner_texts() == ["Analyze"]
    check_report(page, "people", "age")


def test_two_files_that_are_chosen_quickly(app, open_page, tmp_path):
    """The last one counts, although the first one takes longer."""
    page = open_page(app)
    write_table(tmp_path / "first.csv", n_rows=200_000)
    (tmp_path / "second.csv").write_text("a,b\n" + "".join(f"{k % 7},{k % 5}\n" for k in range(200)))
    upload(page, tmp_path / "first.csv")
    page.get_by_role("heading", name="Reading first.csv").wait_for()
    upload(page, tmp_path / "second.csv")
    page.get_by_text("200 rows, 2 columns", exact=True).wait_for()
    assert page.get_by_role("heading", name="second.csv").is_visible()
    start_report(page, "b")
    check_report(page, "second", "b")
    assert "first.csv" not in {path.name for path in app.list_files()}


def test_tabs_share_a_worker_and_nothing_else(own_app, open_page, tmp_path):
    app = own_app
    first = open_page(app)
    second, third = open_page(app, beside=first), open_page(app, beside=first)
    upload(first, write_table(tmp_path / "long.csv", n_rows=5000))
    start_report(first, "income")
    first.get_by_text("of 500 trees").wait_for()

    # Others wait for it, and can be stopped or closed without it.
    for page in (second, third):
        upload(page, write_table(tmp_path / "short.csv", n_rows=40))
        page.get_by_text("another tab").wait_for()
    third.get_by_role("button", name="Stop").click()
    third.get_by_text("Drop a table here").wait_for()
    upload(third, tmp_path / "short.csv")
    third.get_by_text("another tab").wait_for()
    third.close()
    assert len(app.list_workers()) == 1
    assert first.get_by_role("button", name="Stop").is_visible()

    # When it is stopped, the next one is done, and it can be started again.
    first.get_by_role("button", name="Stop").click()
    second.get_by_text("40 rows, 6 columns", exact=True).wait_for()
    first.get_by_role("button", name="Analyze").click()
    start_report(second, "churn")
    check_report(first, "long", "income")
    check_report(second, "short", "churn")
    assert len(app.list_workers()) == 1


def test_a_dozen_reloads_leave_one_worker_and_the_last_tab_takes_it_along(own_app, open_page, tmp_path):
    app = own_app
    page = open_page(app)
    wait_for(app.list_workers)
    for k in range(12):
        if k % 2:
            page.reload()
            page.get_by_text("Drop a table here").wait_for()
        else:
            page.reload(wait_until="commit")  # and again before it is there
        assert len(app.list_workers()) <= 1
    upload(page, write_table(tmp_path / "people.csv"))
    start_report(page, "churn")
    check_report(page, "people", "churn")
    assert len(app.list_workers()) == 1
    wait_for(lambda: len(app.list_folders()) == 1, seconds=5)
    page.close()
    wait_for(lambda: len(list_processes(app.process.pid)) == 1 and not app.list_folders(), seconds=5)

    # The server goes on, and the session, too.
    again = page.context.new_page()
    again.goto(page.url)
    upload(again, tmp_path / "people.csv")
    again.get_by_text("300 rows, 6 columns", exact=True).wait_for()
    again.close()
    wait_for(lambda: not app.list_workers() and not app.list_folders(), seconds=5)
