"""`truewood app` as a process of its own, and what its tests do with it and its page."""

from __future__ import annotations

import http.client
import os
import queue
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

# The command line, which also writes down whatever leaves this computer.
PROGRAM = """
import sys
outside = open(sys.argv[1], "a")
def watch(event, arguments):
    address = arguments[1] if event == "socket.connect" else arguments if event == "socket.getaddrinfo" else None
    if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "localhost", None):
        print(event, address, file=outside, flush=True)
sys.addaudithook(watch)
from truewood._cli import main
sys.exit(main(["app", *sys.argv[2:]]))
"""
MEGABYTES = 120


class App:
    """The command as it runs, the folder of its files, and the address that logs the next browser in."""

    def __init__(self, folder, *options, **variables):
        self.folder, self.outside = folder / "tmp", folder / "outside.txt"
        self.folder.mkdir()
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, self.outside, *options],
            env={**os.environ, "TMPDIR": str(self.folder), **variables},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines = queue.Queue()
        threading.Thread(target=self.read_lines, daemon=True).start()
        self.address = self.read_address()
        self.port = urlsplit(self.address).port

    def read_lines(self):
        with self.process.stdout as stream:
            for line in stream:
                self.lines.put(line)

    def read_address(self):
        """The next address that the terminal shows."""
        while "http://" not in (line := self.lines.get(timeout=60)):
            continue
        return line.split()[-1]

    def log_in(self):
        """The address of the page, and the cookie that it needs, of a new session."""
        status, text, headers = ask(self.address)
        assert status == 200
        self.address = self.read_address()
        path, cookie = re.search(r"url=(/\S+/)\"", text)[1], headers["set-cookie"].split(";")[0]
        return f"http://127.0.0.1:{self.port}{path}", cookie

    def list_files(self):
        return [Path(folder, name) for folder, _, names in os.walk(self.folder) for name in names]

    def list_folders(self):
        """The folders of pages."""
        return [path for path in self.folder.glob("truewood-*/*") if path.is_dir()]

    def list_workers(self):
        return [pid for pid, line in list_processes(self.process.pid) if "truewood._app.worker" in line]

    def end(self, number):
        """End the process by a signal; nothing may be left, and nothing may have left."""
        self.process.send_signal(number)
        self.process.wait(timeout=20)
        with self.process.stderr as stream:
            errors = stream.read()
        assert os.listdir(self.folder) == []
        assert self.outside.read_text() == ""
        return self.process.returncode, errors


def list_processes(root):
    """Pairs of the id and the command line of a process and of all that it has started."""
    lines = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            lines[int(folder.name)] = parent, (folder / "cmdline").read_text().replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            continue
    found, n_found = {root}, 0
    while len(found) > n_found:
        n_found = len(found)
        found |= {pid for pid, (parent, _) in lines.items() if parent in found}
    return [(pid, line) for pid, (_, line) in lines.items() if pid in found]


def ask(address, method="GET", body=None, **headers):
    """The answer to a request that no browser makes: status, text and headers."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    connection.request(method, path, body, {name.replace("_", "-"): text for name, text in headers.items()})
    try:
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), {name.lower(): text for name, text in answer.getheaders()}
    finally:
        connection.close()


def make_cookie(page):
    """What the browser sends with each request of a page."""
    return "; ".join(f"{cookie['name']}={cookie['value']}" for cookie in page.context.cookies())


def wait_for(is_so, seconds=20):
    end = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end:
        time.sleep(0.05)
    assert is_so()


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
    page.bring_to_front()  # menus open in the tab that is seen
    page.get_by_label("Target column").fill(name)
    page.get_by_role("option", name=name, exact=True).click()


def start_report(page, target):
    """Have a target explained."""
    choose_target(page, target)
    page.get_by_role("button", name="Analyze").click()


def wait_for_report(page, title):
    """The report on the page, once its scripts have filled its table: the heading is shown before."""
    report = page.frame_locator("iframe")
    report.get_by_role("heading", name=title, exact=True).wait_for()
    wait_for(lambda: report.locator("html").evaluate("() => document.readyState") == "complete")
    return report


def check_report(page, table, target):
    """Compare the report on the page, and the one it hands out, with the table and the target that were asked for."""
    wait_for_report(page, f"What predicts {target}?")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == f"{table} {target}.html"
    assert re.search(rf"What \w.*\b{target}\?", Path(download.value.path()).read_text(encoding="utf-8"))
