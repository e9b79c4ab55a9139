"""`truewood app` as people use it: the command in a process of its own, and its page in a real browser."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from truewood.app.server import serve_app

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

# The command line, which also writes down whatever leaves this computer.
PROGRAM = """
import sys
outside = open(sys.argv[1], "a")
def watch(event, arguments):
    address = arguments[1] if event == "socket.connect" else arguments if event == "socket.getaddrinfo" else None
    if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "localhost", None):
        print(event, address, file=outside, flush=True)
sys.addaudithook(watch)
from truewood.app import server
server.RECONNECT_SECONDS = 8.0
from truewood.cli import main
sys.exit(main(["app", "--no-browser", *sys.argv[2:]]))
"""
MEGABYTES = 120


class App:
    """The command as it runs, and the folder of its files."""

    def __init__(self, folder, *options):
        self.folder, self.outside = folder / "tmp", folder / "outside.txt"
        self.folder.mkdir()
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, self.outside, *options],
            env={**os.environ, "TMPDIR": str(self.folder)},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.address = self.process.stdout.readline().split()[-1]

    def list_files(self):
        return [path for path in self.folder.rglob("*") if path.is_file()]

    def end(self, number):
        """End the process by a signal; nothing may be left, and nothing may have left."""
        self.process.send_signal(number)
        errors = self.process.communicate(timeout=20)[1]
        assert os.listdir(self.folder) == []
        assert self.outside.read_text() == ""
        return self.process.returncode, errors


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    app = App(tmp_path_factory.mktemp("app"), "--max-size", str(MEGABYTES))
    yield app
    assert app.end(signal.SIGTERM) == (128 + signal.SIGTERM, "")


@pytest.fixture(scope="module")
def browser():
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
    """Open the page; at the end nothing may have been asked of others, and nothing may have gone wrong."""
    contexts, troubles = [], []

    def open_address(address, **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(120_000)
        page.on("console", lambda message: troubles.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda request: None if is_own(request.url, address) else troubles.append(request.url))
        page.on("requestfailed", lambda request: None if is_left(request) else troubles.append(request.url))
        page.goto(address)
        page.get_by_text("Drop a table here").wait_for()
        return page

    yield open_address
    for context in contexts:
        context.close()
    assert not troubles


def is_left(request):
    """Whether the page went on to the columns before the answer to the upload was there."""
    return "/upload/" in request.url and request.failure == "net::ERR_ABORTED"


def is_own(url, address):
    return url.startswith((address, "data:", "blob:"))


def write_table(path, n_rows=300):
    """A table of customers."""
    rng = np.random.default_rng(0)
    age, income = rng.integers(18, 80, n_rows), rng.normal(50, 10, n_rows)
    churn, city = age + rng.normal(0, 10, n_rows) > 50, rng.integers(0, 3, n_rows)
    with path.open("w") as file:
        file.write("customer,age,income,<img src=x onerror=alert(1)>,churn,letter\n")
        for k in range(n_rows):
            letter = f"Dear {k} and all the others"
            file.write(f"c{k:05d},{age[k]},{income[k]:.2f},{'ABC'[city[k]]},{'no' if churn[k] else 'yes'},{letter}\n")
    return path


def upload(page, path):
    page.locator("input[type=file]").set_input_files(path)


def choose_target(page, name):
    page.get_by_label("What should be explained?").fill(name)
    page.get_by_role("option", name=name, exact=True).click()


def ask(address, method="GET", body=None, **headers):
    """The answer to a request that no browser makes."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)
    connection.request(method, parts.path, body, {name.replace("_", "-"): text for name, text in headers.items()})
    try:
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def wait_for(is_so, seconds=20):
    end = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end:
        time.sleep(0.05)
    assert is_so()


def test_from_a_table_to_its_report(app, open_page, tmp_path):
    page, other = open_page(app.address), open_page(app.address, viewport={"width": 390, "height": 800})
    upload(other, write_table(tmp_path / "other.csv", n_rows=40))
    other.get_by_text("40 rows, 6 columns", exact=True).wait_for()
    wait_for(lambda: other.evaluate("document.documentElement.scrollWidth") <= 390)
    upload(page, write_table(tmp_path / "people.csv"))
    page.get_by_text("300 rows, 6 columns", exact=True).wait_for()
    assert not page.get_by_role("button", name="Find out").is_enabled()
    kinds = {
        "customer": "left out (identifier)",
        "age": "number",
        "income": "number",
        "<img src=x onerror=alert(1)>": "category",
        "churn": "boolean",
        "letter": "left out (free text)",
    }
    for name, kind in kinds.items():
        assert page.get_by_label(f"Kind of {name}", exact=True).input_value() == kind
    choose_target(page, "churn")
    page.get_by_text("to be explained").wait_for()
    page.get_by_label("Kind of income").select_option("left out")
    page.get_by_role("button", name="Find out").click()
    page.get_by_text("of 500 trees").wait_for()
    report = page.frame_locator("iframe")
    report.get_by_role("heading", name="What tells about churn?").wait_for()
    features = report.locator("#rows th").all_inner_texts()
    assert [name.strip() for name in features] == ["age", "<img src=x onerror=alert(1)>"]
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == "people churn.html"
    assert "What tells about churn?" in Path(download.value.path()).read_text(encoding="utf-8")

    # The other page has seen nothing of it, and nothing is kept of it when it is closed.
    assert other.get_by_role("heading", name="other.csv").is_visible()
    assert other.locator("iframe").get_attribute("src") is None
    assert {path.name for path in app.list_files()} == {"people.csv", "report.html", "other.csv"}
    other.close()
    wait_for(lambda: {path.name for path in app.list_files()} == {"people.csv", "report.html"})


def test_what_is_wrong_is_said_in_a_line(app, open_page, tmp_path):
    page = open_page(app.address)
    trouble = page.get_by_role("alert")

    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and then nothing")
    upload(page, tmp_path / "broken.parquet")
    trouble.get_by_text("broken.parquet cannot be read as a Parquet file").wait_for()
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    upload(page, tmp_path / "picture.png")
    trouble.get_by_text("picture.png must end in .csv").wait_for()
    with (tmp_path / "large.csv").open("wb") as file:
        file.truncate(MEGABYTES * 10**6 + 1)
    upload(page, tmp_path / "large.csv")
    trouble.get_by_text(f"larger than the {MEGABYTES} MB").wait_for()
    (tmp_path / "few.csv").write_text("a,b\n1,2\n3,4\n")
    upload(page, tmp_path / "few.csv")
    choose_target(page, "b")
    assert not trouble.is_visible()
    page.get_by_role("button", name="Find out").click()
    trouble.get_by_text("rows with a target").wait_for()
    assert "\n" not in trouble.inner_text()
    assert page.get_by_role("button", name="Find out").is_enabled()
    kept = {path.name for path in app.list_files()}
    assert kept & {"broken.parquet", "picture.png", "large.csv", "few.csv"} == {"few.csv"}


def test_a_hundred_megabytes(app, open_page, tmp_path):
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, 100)
    photos = [rng.bytes(10**6) for _ in age]
    path = tmp_path / "photos.parquet"
    parquet.write_table(pa.table({"age": age, "photo": photos, "price": age + rng.normal(size=100)}), path)
    assert path.stat().st_size > 100 * 10**6
    page = open_page(app.address)
    upload(page, path)
    # The server answers others while it takes the table in and reads it.
    while not page.get_by_text("100 rows, 3 columns", exact=True).is_visible():
        assert ask(app.address + "favicon.ico")[0] == 200
    assert page.get_by_label("Kind of photo").input_value() == "left out (nested values)"
    choose_target(page, "price")
    page.get_by_role("button", name="Find out").click()
    page.frame_locator("iframe").get_by_role("heading", name="What tells about price?").wait_for()


def test_strangers_stay_outside(app):
    parts = urlsplit(app.address)
    root = f"http://{parts.netloc}/"
    token = parts.path.strip("/")
    socket = "_nicegui_ws/socket.io/?EIO=4&transport=polling"
    for path in ["", "x" * len(token) + "/", f"?token={token}", "_nicegui_ws/socket.io/", token[:-1] + "/", "//", "é"]:
        assert ask(root + path.replace("é", "%C3%A9"))[0] == 403
    assert ask(app.address)[0] == 200
    assert ask(app.address, Host=f"localhost:{parts.port}")[0] == 200
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    assert ask(root + socket, Sec_WebSocket_Version="13", **upgrade)[0] == 403
    # A foreign page whose name leads here knows no token, and would be refused with one.
    for host in ("evil.example", f"evil.example:{parts.port}", f"127.0.0.1.evil.example:{parts.port}", ""):
        assert ask(app.address, Host=host)[0] == 403
    assert ask(app.address + "report/" + token)[0] == 404
    assert ask(app.address, "POST", b"", Content_Length=str(200 * 10**6))[0] == 413
    assert ask(app.address, "POST", iter([b"of no size"]))[0] == 411


def test_listens_on_loopback_only(app):
    port = urlsplit(app.address).port
    sockets = Path("/proc/net/tcp")
    if not sockets.exists():
        pytest.skip("sockets are listed by Linux only")
    lines = [line.split() for line in sockets.read_text().splitlines()[1:]]
    listening = [line[1] for line in lines if line[3] == "0A" and int(line[1].split(":")[1], 16) == port]
    assert [address.split(":")[0] for address in listening] == ["0100007F"]


def test_work_is_stopped_and_nothing_is_left_when_it_ends_at_work(open_page, tmp_path):
    app = App(tmp_path)
    page = open_page(app.address)
    upload(page, write_table(tmp_path / "people.csv", n_rows=5000))
    choose_target(page, "income")
    page.get_by_role("button", name="Find out").click()
    page.get_by_text("of 500 trees").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Find out").click()
    page.get_by_text("of 500 trees").wait_for()
    assert not page.get_by_role("alert").is_visible()
    assert app.list_files()
    page.close()
    assert app.end(signal.SIGINT) == (130, "truewood: stopped\n")


def test_a_port_that_is_taken(app):
    port = urlsplit(app.address).port
    with pytest.raises(ValueError, match=f"^port {port} cannot be used: Address already in use; without one"):
        serve_app(port=port, largest=1, opens_browser=False, tell=print)
    with pytest.raises(ValueError, match=r"^port 65536 cannot be used: ports end at 65535"):
        serve_app(port=65_536, largest=1, opens_browser=False, tell=print)
