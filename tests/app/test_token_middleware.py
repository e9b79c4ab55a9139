"""Only logged-in browsers are admitted, with requests of the page itself."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from helpers.app_driver import App, ask, list_processes, make_cookie, upload, wait_for, write_table

pytestmark = pytest.mark.any_engine

FORM = "multipart/form-data; boundary=part"
SOCKET = "_nicegui_ws/socket.io/?EIO=4&transport="
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec_WebSocket_Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec_WebSocket_Version": "13",
}
# Another user, who tries whatever looks like a secret in command lines, in files and in their names.
INTRUDER = """
import encodings.idna, http.client, itertools, json, os, re, sys
port, folder, user, *pids = sys.argv[1:]
os.setgroups([])
os.setgid(int(user))
os.setuid(int(user))
lines, texts = {}, []
for pid in filter(lambda pid: os.path.exists(f"/proc/{pid}"), pids):
    with open(f"/proc/{pid}/cmdline") as stream:
        lines[pid] = stream.read().split(chr(0))
files = [f"/proc/{pid}/environ" for pid in pids]
files += [word.removeprefix("file://") for line in lines.values() for word in line if folder in word]
for root, folders, names in os.walk(folder):
    texts += [*folders, *names]
    files += [os.path.join(root, name) for name in names]
is_read = {}
for file in files:
    try:
        with open(file, "rb") as stream:
            texts.append(stream.read(10**6).decode(errors="replace"))
        is_read[file] = True
    except OSError:
        is_read[file] = False
texts += [word for line in lines.values() for word in line]
secrets = sorted({word for text in texts for word in re.findall(r"[\\w-]{16,}", text) if re.search("[A-Z0-9]", word)})
paths = ["/", "/login"] + [path for text in texts for path in re.findall(rf":{port}(/\\S*)", text)]
paths += [form.format(secret) for secret in secrets for form in ("/{}/", "/{}", "/login?code={}", "/?token={}")]
statuses = {}
for path, secret in itertools.product(paths, ["", *secrets]):
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=20)
    connection.request("GET", path, headers={"Cookie": f"truewood={secret}"} if secret else {})
    statuses[f"{path} {secret}"] = connection.getresponse().status
    connection.close()
print(json.dumps({"lines": lines, "is_read": is_read, "statuses": statuses}))
"""


def ask_socket(address, **headers):
    """The status of a handshake for a websocket."""
    return ask(address + SOCKET + "websocket", **UPGRADE, **headers)[0]


def test_a_code_logs_one_browser_in(app):
    address = app.address
    page, cookie = app.log_in()
    assert ask(page, Cookie=cookie)[0] == 200
    assert app.address != address
    status, text, headers = ask(address)
    assert (status, "set-cookie" in headers) == (403, False)
    assert "already been used" in text
    other_page, other_cookie = app.log_in()
    assert (other_page, other_cookie != cookie) == (page, True)
    assert ask(page, Cookie=cookie)[0] == 200


def test_the_cookie_is_for_the_page_only(app):
    address = app.address
    _, _, headers = ask(address)
    app.address = app.read_address()
    (cookie,) = SimpleCookie(headers["set-cookie"]).values()
    assert (cookie["httponly"], cookie["samesite"].lower()) == (True, "strict")
    # Browsers send cookies to all ports of a computer, but not to paths that nobody there knows.
    assert len(cookie["path"]) > 24
    assert headers["cache-control"] == "no-store"


def test_strangers_stay_outside(app):
    page, cookie = app.log_in()
    root = f"http://127.0.0.1:{app.port}/"
    path = urlsplit(page).path.strip("/")
    code = urlsplit(app.address).query.removeprefix("code=")
    value = cookie.partition("=")[2]
    wrong_paths = ["", "login", "login?code=", f"login?code={value}", f"login?code={path}", f"{code}/", f"{value}/"]
    wrong_paths += ["x" * len(path) + "/", f"?token={path}", "_nicegui_ws/socket.io/", path[:-1] + "/", "//", "%C3%A9"]
    for wrong in wrong_paths:
        assert ask(root + wrong, Cookie=cookie)[0] == 403
    for wrong in ("", "truewood=", f"truewood={path}", f"truewood={code}", cookie[:-1], cookie + "x", f"other={value}"):
        assert ask(page, Cookie=wrong)[0] == 403
        assert ask(page + SOCKET + "polling", Cookie=wrong)[0] == 403
        assert ask_socket(page, Cookie=wrong, Origin=root.rstrip("/")) == 403
    assert ask(page)[0] == 403
    assert ask(page, Cookie=cookie)[0] == 200
    assert ask(app.address, "POST", b"", Origin=root.rstrip("/"))[0] == 403
    assert ask(page, Cookie=cookie, Host=f"localhost:{app.port}")[0] == 200
    # A foreign page whose name leads here knows no cookie, and would be refused with one.
    for host in ("evil.example", f"evil.example:{app.port}", f"127.0.0.1.evil.example:{app.port}", ""):
        assert ask(page, Cookie=cookie, Host=host)[0] == 403
        assert ask(app.address, Host=host)[0] == 403
    own = {"Cookie": cookie, "Origin": root.rstrip("/")}
    assert ask(page + "report/" + path, Cookie=cookie)[0] == 404
    assert ask(page, "POST", b"", Content_Length=str(200 * 10**6), **own)[0] == 413
    assert ask(page, "POST", iter([b"of no size"]), **own)[0] == 411


def test_requests_of_other_pages_are_refused_with_the_right_cookie(app):
    page, cookie = app.log_in()
    own = f"http://127.0.0.1:{app.port}"
    origins = ["http://evil.example", "null", "", f"http://127.0.0.1:{app.port + 1}", "http://127.0.0.1", own + ".evil"]
    origins += [f"http://localhost:{app.port}", f"https://127.0.0.1:{app.port}"]
    for origin in origins:
        assert ask_socket(page, Cookie=cookie, Origin=origin) == 403
        assert ask(page + SOCKET + "polling", Cookie=cookie, Origin=origin)[0] == 403
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            assert ask(page + "upload/x", method, b"", Cookie=cookie, Origin=origin)[0] == 403
    # Browsers name the page in each request that may change something.
    assert ask_socket(page, Cookie=cookie) == 403
    assert ask(page + "upload/x", "POST", b"", Cookie=cookie)[0] == 403
    assert ask(page + "upload/x", "POST", b"", Cookie=cookie, Origin=own)[0] == 404
    assert ask_socket(page, Cookie=cookie, Origin=own) == 101


def make_form(name="a.csv", field='name="x"; filename="{}"'):
    """The body of an upload."""
    text = "--part\r\nContent-Disposition: form-data; {}\r\n\r\na,b\n1,2\n\r\n--part--\r\n"
    return text.format(field.format(name)).encode()


class Uploads:
    """Uploads to a page that no browser makes."""

    def __init__(self, app, page):
        self.port, self.path = app.port, f"{urlsplit(page.url).path}upload/{page.evaluate('window.clientId')}"
        self.headers = {
            "Cookie": make_cookie(page),
            "Origin": f"http://127.0.0.1:{app.port}",
            "Content-Type": FORM,
        }

    def send(self, body, **headers):
        return ask(f"http://127.0.0.1:{self.port}{self.path}", "POST", body, **{**self.headers, **headers})[:2]

    def begin(self, body, n_bytes):
        """Send the first bytes of a body; the connection takes the others."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        headers = {"Host": f"127.0.0.1:{self.port}", "Content-Length": len(body), **self.headers}
        lines = [f"POST {self.path} HTTP/1.1", *(f"{name}: {text}" for name, text in headers.items()), "", ""]
        connection.sendall("\r\n".join(lines).encode() + body[:n_bytes])
        return connection


def test_uploads_that_hold_no_table(app, open_page):
    """They are refused in a line, and the page goes on."""
    page = open_page(app)
    uploads = Uploads(app, page)
    without_file = make_form(field='name="x"')
    for body, kind in [
        (without_file, FORM),
        (b"", FORM),
        (b"--part--\r\n", FORM),
        (b"", "text/plain"),
        (b"a,b\n1,2\n", "text/csv"),
        (b"a=1", "application/x-www-form-urlencoded"),
        (make_form(), "multipart/form-data"),
        (make_form().removesuffix(b"--part--\r\n") + make_form(), FORM),
    ]:
        status, text = uploads.send(body, **{"Content-Type": kind})
        assert (status, len(text.splitlines())) == (400, 1)
    assert "no file" in uploads.send(without_file)[1]
    assert uploads.send(make_form(name="x" * 300))[0] == 507
    assert page.get_by_text("Drop a table here").is_visible()
    for name in ("../../a.csv", "..\\\\a.csv", "a\x07.csv"):
        assert uploads.send(make_form(name))[0] == 200
        page.get_by_role("heading", name="a.csv", exact=True).wait_for()


def test_a_refused_upload_is_reported_on_the_page(app, browser, tmp_path):
    page = browser.new_page()
    page.goto(app.address)
    app.address = app.read_address()

    def lose_file(route):
        headers = {**route.request.headers, "content-type": FORM}
        route.continue_(post_data=make_form(field='name="x"'), headers=headers)

    page.route("**/upload/*", lose_file)
    upload(page, write_table(tmp_path / "people.csv"))
    page.get_by_role("alert").get_by_text("no file").wait_for()
    page.unroute("**/upload/*")
    upload(page, tmp_path / "people.csv")
    page.get_by_text("300 rows, 6 columns", exact=True).wait_for()
    assert not page.get_by_role("alert").is_visible()
    page.close()


def test_an_upload_that_ends_after_a_later_one_is_dropped(own_app, open_page):
    page = open_page(own_app)
    uploads, body = Uploads(own_app, page), make_form("slow.csv")
    with uploads.begin(body, 20) as slow:
        wait_for(lambda: uploads.send(make_form("quick.csv"))[0] == 200)
        slow.sendall(body[20:])
        assert slow.recv(12) == b"HTTP/1.1 409"
    page.get_by_role("heading", name="quick.csv", exact=True).wait_for()
    assert {path.name for path in own_app.list_files()} == {"quick.csv"}


def test_an_upload_before_the_socket_is_connected(own_app):
    """The page is shown before its socket is there, and a table may be dropped at once."""
    page, cookie = own_app.log_in()
    key = re.search(r"upload/([\w-]+)", ask(page, Cookie=cookie)[1])[1]
    own = {"Cookie": cookie, "Origin": f"http://127.0.0.1:{own_app.port}", "Content-Type": FORM}
    assert ask(f"{page}upload/{key}", "POST", make_form(), **own)[:2] == (200, "")


def test_an_upload_that_is_broken_off(own_app, open_page):
    page = open_page(own_app)
    Uploads(own_app, page).begin(make_form(), 20).close()
    page.close()
    wait_for(lambda: not own_app.list_folders())


def test_a_report_that_is_not_there_yet(app, open_page):
    page = open_page(app)
    address = f"{page.url}report/{page.evaluate('window.clientId')}"
    assert ask(address, Cookie=make_cookie(page))[0] == 404


def test_listens_on_loopback_only(app):
    sockets = Path("/proc/net/tcp")
    if not sockets.exists():
        pytest.skip("sockets are listed by Linux only")
    lines = [line.split() for line in sockets.read_text().splitlines()[1:]]
    listening = [line[1] for line in lines if line[3] == "0A" and int(line[1].split(":")[1], 16) == app.port]
    assert [address.split(":")[0] for address in listening] == ["0100007F"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_another_user_of_the_computer_does_not_get_in():
    """The command opens the browser itself; what others can read of both of them does not help."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    profile = folder / "profile"
    profile.mkdir(0o700)
    options = f"--headless --no-sandbox --disable-crash-reporter --user-data-dir={profile}"
    app = App(folder, BROWSER=f"env TMPDIR={profile} chromium {options} %s")
    try:
        app.folder.chmod(0o755)
        app.read_address()  # the browser has logged in when there is another one
        wait_for(app.list_workers)
        pids = [pid for pid, _ in list_processes(app.process.pid)]
        (file,) = app.list_files()
        assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        arguments = map(str, [app.port, app.folder, pwd.getpwnam("nobody").pw_uid, *pids])
        found = json.loads(subprocess.check_output([sys.executable, "-c", INTRUDER, *arguments], timeout=120))
        assert any(file.as_uri() in line for line in found["lines"].values())
        assert found["is_read"][str(file)] is False
        assert not any(found["is_read"][f"/proc/{pid}/environ"] for pid in pids)
        assert len(found["statuses"]) > 10
        assert set(found["statuses"].values()) == {403}
    finally:
        for pid, line in list_processes(app.process.pid):
            with suppress(ProcessLookupError):  # others end with the first
                if "profile" in line:
                    os.kill(pid, signal.SIGKILL)
        assert app.end(signal.SIGTERM)[0] == 128 + signal.SIGTERM
        shutil.rmtree(folder)
