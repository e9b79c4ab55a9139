"""Serve the app on a loopback port, with a temporary folder for its files, and open the browser."""

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

# Seconds after which a disconnected page counts as closed; browsers suspend pages.
RECONNECT_SECONDS = 60.0
_LOOPBACK, _LAST_PORT = "127.0.0.1", 65_535
# Bytes that a form adds to its file.
_MARGIN = 65_536


def serve_app(*, port: int, max_bytes: int, opens_browser: bool, show_address: Callable[[str], None]) -> None:
    """Serve the app until the process is stopped, and delete all files.

    Parameters
    ----------
    port : int
        The loopback port; 0 for any free port.
    max_bytes : int
        Maximum size of a table.
    opens_browser : bool
        Whether to open the browser.
    show_address : callable
        Called with the address that logs in a browser, and with a new one whenever it was used.
    """
    with (
        _hold_signals() as signals,
        _open_port(port) as listener,
        tempfile.TemporaryDirectory(prefix="truewood-") as folder,
    ):
        login, code = f"http://{_LOOPBACK}:{listener.getsockname()[1]}/login?code=", secrets.token_urlsafe(24)
        signals.server = server = _make_server(
            Path(folder), code, max_bytes, offer=lambda code: show_address(login + code)
        )
        if signals.received:
            return
        show_address(login + code)
        if opens_browser:
            _open_browser(Path(folder, "login.html"), login + code)
        server.run(sockets=[listener])


class _Signals:
    """The signals that stop the server; nothing else is interrupted."""

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
    """Defer signals until all files are deleted, and then end the process.

    Uvicorn handles SIGINT and SIGTERM itself while it runs, and raises them again.
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
        raise ValueError(f"port {port} cannot be used: the largest port is {_LAST_PORT}; omit it to use any free port.")
    try:
        return socket.create_server((_LOOPBACK, port))
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise ValueError(f"port {port} cannot be used: {reason}; omit it to use any free port.") from error


def _open_browser(file: Path, address: str) -> None:
    """Open an address through a file that only this user can read; command-line arguments are visible to all users."""
    from truewood._app.token_middleware import make_redirect

    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
        stream.write(make_redirect(address))
    # In a thread, because text browsers block until they are closed.
    threading.Thread(target=webbrowser.open, args=[file.as_uri()], daemon=True).start()


def _make_server(folder: Path, code: str, max_bytes: int, *, offer: Callable[[str], None]) -> Any:
    tempfile.tempdir = str(folder)  # for uploads in progress
    os.environ["NICEGUI_STORAGE_PATH"] = str(folder / "nicegui")  # read when nicegui is imported
    import uvicorn
    from fastapi import FastAPI

    from truewood._app.routes import add_routes, leave_page
    from truewood._app.token_middleware import TokenMiddleware

    app, path = FastAPI(openapi_url=None), secrets.token_urlsafe(24)
    add_routes(app, f"/{path}", folder=folder, max_bytes=max_bytes, reconnect_seconds=RECONNECT_SECONDS)
    guarded = TokenMiddleware(app, path, code, max_bytes + _MARGIN, offer=offer, leave=leave_page)
    return uvicorn.Server(uvicorn.Config(guarded, loop="asyncio", log_level="warning", timeout_graceful_shutdown=1))
