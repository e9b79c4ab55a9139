"""Serving the page: a free port of loopback, a folder for its files that goes when it ends, and the browser."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

# Seconds that a page may be out of touch before it counts as closed: browsers put pages to sleep.
RECONNECT_SECONDS = 60.0
_LOOPBACK, _LAST_PORT = "127.0.0.1", 65_535
# Bytes that a form adds to the file in it.
_MARGIN = 65_536


def serve_app(*, port: int, largest: int, opens_browser: bool, tell: Callable[[str], None]) -> None:
    """Serve the page until the process is asked to end; all files are removed then.

    Parameters
    ----------
    port : int
        The port on loopback; 0 is any free one.
    largest : int
        Bytes that a table may have.
    opens_browser : bool
        Whether to open the page in the browser.
    tell : callable
        Takes the address that logs a browser in, and a new one whenever it was used.
    """
    with (
        _hold_signals() as signals,
        _open_port(port) as listener,
        tempfile.TemporaryDirectory(prefix="truewood-") as folder,
    ):
        login, code = f"http://{_LOOPBACK}:{listener.getsockname()[1]}/login?code=", secrets.token_urlsafe(24)
        signals.server = server = _make_server(Path(folder), code, largest, offer=lambda code: tell(login + code))
        if signals.received:
            return
        tell(login + code)
        if opens_browser:
            _open_browser(Path(folder, "login.html"), login + code)
        server.run(sockets=[listener])


class _Signals:
    """The signals that ask the process to end; they stop the server, and nothing else that is under way."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self.server: Any = None

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Remember a signal."""
        del frame
        self.received.append(number)
        if self.server is not None:
            self.server.should_exit = True


@contextmanager
def _hold_signals() -> Iterator[_Signals]:
    """Let signals wait until everything is removed, and end the process then.

    Uvicorn takes SIGINT and SIGTERM itself while it runs, and raises them again.
    """
    signals = _Signals()
    numbers = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    handlers = {number: signal.signal(number, signals.handle) for number in numbers}
    try:
        yield signals
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if signal.SIGINT in signals.received:
        raise KeyboardInterrupt
    if signals.received:
        raise SystemExit(128 + signals.received[0])


def _open_port(port: int) -> socket.socket:
    if port > _LAST_PORT:
        raise ValueError(f"port {port} cannot be used: ports end at {_LAST_PORT}; without one, a free one is taken.")
    try:
        return socket.create_server((_LOOPBACK, port))
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise ValueError(f"port {port} cannot be used: {reason}; without one, a free one is taken.") from error


def _open_browser(file: Path, address: str) -> None:
    """Open an address by a file that only this user can read: everybody can read the arguments of the browser."""
    from truewood._app.token_middleware import make_redirect

    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
        stream.write(make_redirect(address))
    # In a thread, because a browser of the terminal returns when it is closed.
    threading.Thread(target=webbrowser.open, args=[file.as_uri()], daemon=True).start()


def _make_server(folder: Path, code: str, largest: int, *, offer: Callable[[str], None]) -> Any:
    tempfile.tempdir = str(folder)  # of uploads on their way
    os.environ["NICEGUI_STORAGE_PATH"] = str(folder / "nicegui")  # which it reads when it is imported
    import uvicorn
    from fastapi import FastAPI

    from truewood._app.page import add_pages, leave_page
    from truewood._app.token_middleware import TokenMiddleware

    app, path = FastAPI(openapi_url=None), secrets.token_urlsafe(24)
    add_pages(app, f"/{path}", folder=folder, largest=largest, reconnect_seconds=RECONNECT_SECONDS)
    door = TokenMiddleware(app, path, code, largest + _MARGIN, offer=offer, leave=leave_page)
    return uvicorn.Server(uvicorn.Config(door, loop="asyncio", log_level="warning", timeout_graceful_shutdown=1))
