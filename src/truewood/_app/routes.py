"""Routes of the app: the page, uploads and reports."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.responses import FileResponse
from nicegui import Client, ui
from nicegui import app as gui
from starlette.requests import HTTPConnection

from truewood._app.page import Page
from truewood._app.token_middleware import COOKIE
from truewood._app.worker_process import WorkerProcess


def add_routes(app: Any, mount_path: str, *, folder: Path, max_bytes: int, reconnect_seconds: float) -> None:
    """Add the page, uploads and reports to an application.

    Parameters
    ----------
    app : FastAPI
        The application.
    mount_path : str
        Prefix of all paths.
    folder : Path
        Folder for the files of pages.
    max_bytes : int
        Maximum size of a table.
    reconnect_seconds : float
        Time after which a disconnected page is closed and its files are deleted.
    """
    pages: dict[str, Page] = {}
    workers: defaultdict[str, WorkerProcess] = defaultdict(WorkerProcess)  # by session

    def open_page(request: Request) -> None:
        client = ui.context.client
        page = pages[client.id] = Page(client, folder, max_bytes, workers[request.cookies[COOKIE]])
        client.on_connect(page.connect)
        client.on_delete(lambda: close_page(page))
        client.on_delete(lambda: end_unused_worker(page.worker))
        page.build()

    def close_page(page: Page) -> None:
        # Not a coroutine: those run after the client is deleted, and the job could still update the page.
        del pages[page.key]
        page.close()

    async def end_unused_worker(worker: WorkerProcess) -> None:
        if not any(page.worker is worker and page.is_connected for page in pages.values()):
            await worker.end()

    def find_page(key: str) -> Page:
        if key not in pages:
            raise HTTPException(404, "This page was closed; open the app again.")
        return pages[key]

    def send_report(key: str) -> FileResponse:
        report = find_page(key).report
        if not report.exists():
            raise HTTPException(404, "This page has no report yet.")
        return FileResponse(report, media_type="text/html", headers={"Cache-Control": "no-store"})

    async def receive_upload(key: str, request: Request) -> Response:
        return await find_page(key).receive_upload(request)

    async def close_pages() -> None:
        for page in pages.values():
            page.close()
        for worker in workers.values():
            await worker.end()

    ui.page("/")(open_page)
    gui.get("/report/{key}")(send_report)
    gui.post("/upload/{key}")(receive_upload)
    gui.on_shutdown(close_pages)
    ui.run_with(
        app,
        mount_path=mount_path,
        title="truewood",
        favicon=Path(__file__).parent / "icon.svg",
        dark=None,
        language="en-US",
        tailwind=False,
        reconnect_timeout=reconnect_seconds,
        show_welcome_message=False,
    )


def leave_page(request: HTTPConnection) -> None:
    """Close the page of a socket at once: the browser has left it and will not reconnect."""
    client = Client.instances.get(request.query_params.get("client_id", ""))
    if client is not None:
        client.delete()
