"""Serving the page: a free port of loopback, a folder for its files that goes when it ends, and the browser."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

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
        Takes the address.
    """
    with _open_port(port) as listener, tempfile.TemporaryDirectory(prefix="truewood-") as folder:
        token = secrets.token_urlsafe(24)
        address = f"http://{_LOOPBACK}:{listener.getsockname()[1]}/{token}/"
        server = _make_server(Path(folder), token, largest)
        _listen_to_signals(server)
        tell(address)
        if opens_browser:  # in a thread, because a browser of the terminal returns when it is closed
            threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()
        server.run(sockets=[listener])


def _open_port(port: int) -> socket.socket:
    if port > _LAST_PORT:
        raise ValueError(f"port {port} cannot be used: ports end at {_LAST_PORT}; without one, a free one is taken.")
    try:
        return socket.create_server((_LOOPBACK, port))
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise ValueError(f"port {port} cannot be used: {reason}; without one, a free one is taken.") from error


def _make_server(folder: Path, token: str, largest: int) -> Any:
    tempfile.tempdir = str(folder)  # of uploads on their way
    os.environ["NICEGUI_STORAGE_PATH"] = str(folder / "nicegui")  # which it reads when it is imported
    import uvicorn
    from fastapi import FastAPI

    from truewood.app.door import Door
    from truewood.app.page import add_pages

    app = FastAPI(openapi_url=None)
    add_pages(app, f"/{token}", folder=folder, largest=largest, reconnect_seconds=RECONNECT_SECONDS)
    door = Door(app, token, largest + _MARGIN)
    return uvicorn.Server(uvicorn.Config(door, loop="asyncio", log_level="warning", timeout_graceful_shutdown=1))


def _listen_to_signals(server: Any) -> None:
    """Let the process end in an orderly way; uvicorn shuts down for SIGINT and SIGTERM, and raises them again."""

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        del frame
        raise SystemExit(128 + number)

    def shut_down(number: int, frame: FrameType | None) -> None:
        del number, frame
        server.should_exit = True

    signal.signal(signal.SIGTERM, leave)
    if hasattr(signal, "SIGHUP"):  # the terminal was closed
        signal.signal(signal.SIGHUP, shut_down)
