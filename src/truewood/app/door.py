"""Who may come in: only those who know the token, under a name of this computer, with bodies of a limited size."""

from __future__ import annotations

import secrets
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

# Nothing is loaded from, or sent to, anywhere else. The page's framework compiles templates, hence the eval.
_HEADERS = {
    "Content-Security-Policy": "default-src 'self' data: blob: 'unsafe-inline' 'unsafe-eval'; frame-ancestors 'self'; "
    "base-uri 'self'; form-action 'self'; object-src 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_HOSTS = ("127.0.0.1", "localhost")


class Door:
    """Let requests to an ASGI application pass, or refuse them.

    The token is the first part of each address, so that pages, uploads and sockets all carry it, and nothing is kept in
    the browser. A name of another host, which a foreign page may let lead to this computer, is refused.

    Parameters
    ----------
    app : callable
        The application.
    token : str
        What addresses must begin with.
    largest : int
        Bytes that the body of a request may have.
    """

    def __init__(self, app: Any, token: str, largest: int) -> None:
        self.app = app
        self.token = token
        self.largest = largest

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        headers, first = Headers(scope=scope), scope["path"].removeprefix("/").partition("/")[0]
        if headers.get("host", "").lower().split(":")[0] not in _HOSTS:
            await _refuse(403, "This page is for this computer only.", scope, receive, send)
        elif not secrets.compare_digest(first.encode(), self.token.encode()):
            await _refuse(403, "The address needs the token that the terminal shows.", scope, receive, send)
        elif "transfer-encoding" in headers:  # of a size that nobody knows
            await _refuse(411, "A request has to say how large it is.", scope, receive, send)
        elif int(headers.get("content-length", 0)) > self.largest:
            await _refuse(413, "The file is too large.", scope, receive, send)
        else:
            await self.app(scope, receive, _add_headers(send))


async def _refuse(status: int, reason: str, scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close"})  # before it was accepted, which answers with 403
    else:
        await PlainTextResponse(reason, status)(scope, receive, send)


def _add_headers(send: Any) -> Any:
    async def send_with_headers(message: Any) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(_HEADERS)
        await send(message)

    return send_with_headers
