from __future__ import annotations

import shutil
import signal
import sys

import pytest

from helpers.app_driver import MEGABYTES, App

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    app = App(tmp_path_factory.mktemp("app"), "--no-browser", "--max-size", str(MEGABYTES))
    yield app
    assert app.end(signal.SIGTERM) == (128 + signal.SIGTERM, "")


@pytest.fixture
def own_app(tmp_path):
    """One that a test may end itself."""
    app = App(tmp_path, "--no-browser")
    yield app
    if app.process.returncode is None:
        assert app.end(signal.SIGTERM) == (128 + signal.SIGTERM, "")


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            # Whatever has another name than this computer cannot be found.
            args=["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
        )
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    """Open the page in a session of its own, or a tab beside one; at the end nothing may have been asked of others, and
    nothing may have gone wrong.
    """
    contexts, troubles = [], []

    def open_address(app, *, beside=None, width=1280):
        context = beside.context if beside else browser.new_context(viewport={"width": width, "height": 900})
        page = context.new_page()
        page.set_default_timeout(120_000)
        page.on("console", lambda message: troubles.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda request: None if is_own(request.url, app) else troubles.append(request.url))
        page.on("requestfailed", lambda request: None if is_left(request) else troubles.append(request.url))
        page.goto(beside.url if beside else app.address)
        page.get_by_text("Drop a table here").wait_for()
        if not beside:
            contexts.append(context)
            app.address = app.read_address()
        return page

    yield open_address
    for context in contexts:
        for page in context.pages:
            sys.stderr.write(describe_view(page))  # shown if the test has failed
        context.close()
    assert not troubles


def describe_view(page):
    """What a page shows: its visible text, and the headings of the report in its frame."""
    headings = [heading for frame in page.frames[1:] for heading in frame.locator("h1").all_inner_texts()]
    return f"The page shows:\n{page.locator('body').inner_text()}\nThe report is about: {headings}"


def is_own(url, app):
    return url.startswith((f"http://127.0.0.1:{app.port}/", "data:", "blob:"))


def is_left(request):
    """Whether a reload ended a request for a part of the page before."""
    return request.method == "GET" and request.failure == "net::ERR_ABORTED"
