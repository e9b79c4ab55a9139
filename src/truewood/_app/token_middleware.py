"""`TokenMiddleware`: admit only logged-in browsers, same-origin requests, and bodies of limited size."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse

# The session cookie.
COOKIE = "truewood"
# Nothing is loaded from or sent to other hosts. Vue compiles templates, which needs eval.
_HEADERS = {
    "Content-Security-Policy": "default-src 'self' data: blob: 'unsafe-inline' 'unsafe-eval'; frame-ancestors 'self'; "
    "base-uri 'self'; form-action 'self'; object-src 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_HOSTS = ("127.0.0.1", "localhost")
_GOING_AWAY = 1001  # sent when a page is closed, reloaded or left


def make_redirect(address: str) -> str:
    """Make an HTML page that redirects to an address."""
    return f"""<!doctype html><meta charset="utf-8"><title>truewood</title><link rel="icon" href="data:,">
<meta http-equiv="refresh" content="0; url={address}">"""


class TokenMiddleware:
    """Pass requests on to an ASGI application, or refuse them.

    `/login?code=...` logs in a browser: the code works once and is exchanged for a session cookie. Browsers send
    cookies to all ports of a host, where programs of other users might read them; the secret path of the cookie
    prevents that.

    Parameters
    ----------
    app : callable
        The application.
    path : str
        Secret prefix of all paths.
    code : str
        Code that logs in the first browser.
    max_bytes : int
        Maximum size of a request body.
    offer : callable
        Called with the code for the next browser whenever one was used.
    leave : callable
        Called with the request of a socket when the browser leaves its page.
    """

    def __init__(
        self,
        app: Any,
        path: str,
        code: str,
        max_bytes: int,
        *,
        offer: Callable[[str], None],
        leave: Callable[[HTTPConnection], None],
    ) -> None:
        self.app = app
        self.path = path
        self.code = code
        self.max_bytes = max_bytes
        self.offer = offer
        self.leave = leave
        self.sessions: set[str] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        request = HTTPConnection(scope)
        status, reason = self._find_refusal(request)
        if reason:
            await _refuse(status, reason, scope, receive, send)
        elif _is_login(scope):
            await self._log_in()(scope, receive, _add_headers(send))
        else:
            await self.app(scope, self._watch(request, receive), _add_headers(send))

    def _find_refusal(self, request: HTTPConnection) -> tuple[int, str]:
        """Return status and reason of a refusal; no reason if the request is admitted."""
        headers = request.headers
        if not _is_from_here(request.scope, headers):
            return 403, "This page is only available on the computer that runs truewood."
        if _is_login(request.scope):
            if not secrets.compare_digest(request.query_params.get("code", "").encode(), self.code.encode()):
                return (
                    403,
                    "This address has already been used or is incomplete; open the latest address from the terminal.",
                )
        elif not self._is_logged_in(request):
            return 403, "This browser is not logged in; open the latest address from the terminal."
        if "transfer-encoding" in headers:  # of unknown size
            return 411, "The request must have a Content-Length."
        if int(headers.get("content-length", 0)) > self.max_bytes:
            return 413, "The file is too large."
        return 200, ""

    def _is_logged_in(self, request: HTTPConnection) -> bool:
        first = request.scope["path"].removeprefix("/").partition("/")[0]
        is_path_right = secrets.compare_digest(first.encode(), self.path.encode())
        return is_path_right and request.cookies.get(COOKIE) in self.sessions

    def _log_in(self) -> HTMLResponse:
        session = secrets.token_urlsafe(24)
        self.sessions.add(session)
        self.code = secrets.token_urlsafe(24)
        self.offer(self.code)
        # Not an HTTP redirect: coming from a file, browsers would withhold strict cookies.
        answer = HTMLResponse(make_redirect(f"/{self.path}/"), headers={"Cache-Control": "no-store"})
        answer.set_cookie(COOKIE, session, path=f"/{self.path}/", httponly=True, samesite="strict")
        return answer

    def _watch(self, request: HTTPConnection, receive: Any) -> Any:
        async def receive_and_watch() -> Any:
            message = await receive()
            if message["type"] == "websocket.disconnect" and message.get("code") == _GOING_AWAY:
                self.leave(request)
            return message

        return receive_and_watch


def _is_login(scope: Any) -> bool:
    return (scope["type"], scope["path"], scope.get("method")) == ("http", "/login", "GET")


def _is_from_here(scope: Any, headers: Headers) -> bool:
    """Whether a request addresses this computer and, if it can change something, comes from this page."""
    host = headers.get("host", "").lower()
    is_harmless = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
    origin = headers.get("origin", f"http://{host}" if is_harmless else "").lower()
    return host.split(":")[0] in _HOSTS and origin == f"http://{host}"


async def _refuse(status: int, reason: str, scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close"})  # before it is accepted, which answers 403
    else:
        await PlainTextResponse(reason, status)(scope, receive, send)


def _add_headers(send: Any) -> Any:
    async def send_with_headers(message: Any) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(_HEADERS)
        await send(message)

    return send_with_headers
