"""The page: a table comes in, its columns are shown and can be changed, work is done, and the report is read."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import shutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, PlainTextResponse
from nicegui import Client, background_tasks, ui
from nicegui import app as gui
from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect, HTTPConnection

from truewood._app.token_middleware import COOKIE
from truewood._app.worker_process import WorkerError, WorkerProcess

_HERE = Path(__file__).parent
_MEGABYTE = 10**6
_AS_IT_LOOKS = "as it looks"
_TASKS = {_AS_IT_LOOKS: _AS_IT_LOOKS, "classification": "classes", "regression": "a number"}
# What a column can be read as, in words, and for `score_table`.
_KINDS = {"number": "number", "category": "category", "date": "date", "left out": "drop"}
_TOO_LARGE = "The table is larger than the {} MB that this page takes; truewood app --max-size takes larger ones."
_ROWS_OF_GRID = 25
# The report may draw and hand out its table, but not touch the page around it.
_SANDBOX = "allow-scripts allow-downloads"

_DROP = """
<div class="drop" :class="{busy: props.isUploading}">
  <q-uploader-add-trigger />
  <svg viewBox="0 0 48 48" aria-hidden="true"><path d="M24 33V9m0 0-9 9m9-9 9 9M8 31v8h32v-8"/></svg>
  <strong v-if="!props.isUploading">Drop a table here, or choose a file</strong>
  <strong v-else role="status">Taking it in: {{ props.uploadProgressLabel }}</strong>
  <span>FORMATS</span>
</div>
"""
_COLUMN = """
<q-td :props="props">
  <div class="name">{{ props.row.name }}</div>
  <div class="note" v-if="props.row.holds">{{ props.row.holds }}</div>
  <div class="note" v-if="props.row.note">{{ props.row.note }}</div>
</q-td>
"""
_KIND = """
<q-td :props="props">
  <span v-if="props.row.is_target" class="target">to be explained</span>
  <select v-else :value="props.row.choice" :aria-label="'Kind of ' + props.row.name"
    @change="(event) => $parent.$emit('choose', {name: props.row.name, choice: event.target.value})">
    <option v-for="choice in props.row.choices" :value="choice">{{ choice }}</option>
  </select>
</q-td>
"""


def add_pages(app: Any, mount_path: str, *, folder: Path, largest: int, reconnect_seconds: float) -> None:
    """Add the page and the reports to an application.

    Parameters
    ----------
    app : FastAPI
        The application.
    mount_path : str
        What addresses begin with.
    folder : Path
        Where pages keep files.
    largest : int
        Bytes that a table may have.
    reconnect_seconds : float
        How long a page may be out of touch before its files are removed.
    """
    pages: dict[str, Page] = {}
    works: defaultdict[str, WorkerProcess] = defaultdict(WorkerProcess)  # of sessions

    def open_page(request: Request) -> None:
        client = ui.context.client
        page = pages[client.id] = Page(client, folder, largest, works[request.cookies[COOKIE]])
        client.on_connect(page.connect)
        client.on_delete(lambda: close_page(page))
        page.build()

    async def close_page(page: Page) -> None:
        del pages[page.key]
        page.close()
        if not any(other.work is page.work and other.is_connected for other in pages.values()):
            await page.work.end()

    def find_page(key: str) -> Page:
        if key not in pages:
            raise HTTPException(404, "This page was closed.")
        return pages[key]

    def send_report(key: str) -> FileResponse:
        report = find_page(key).report
        if not report.exists():
            raise HTTPException(404, "This page has no report yet.")
        return FileResponse(report, media_type="text/html", headers={"Cache-Control": "no-store"})

    async def take_upload(key: str, request: Request) -> Response:
        return await find_page(key).take_upload(request)

    async def close_pages() -> None:
        for page in pages.values():
            page.close()
        for work in works.values():
            await work.end()

    ui.page("/")(open_page)
    gui.get("/report/{key}")(send_report)
    gui.post("/upload/{key}")(take_upload)
    gui.on_shutdown(close_pages)
    ui.run_with(
        app,
        mount_path=mount_path,
        title="truewood",
        favicon=_HERE / "icon.svg",
        dark=None,
        language="en-US",
        tailwind=False,
        reconnect_timeout=reconnect_seconds,
        show_welcome_message=False,
    )


def leave_page(request: HTTPConnection) -> None:
    """Close the page of a socket at once: the browser has left it, and will not reconnect."""
    client = Client.instances.get(request.query_params.get("client_id", ""))
    if client is not None:
        client.delete()


class Page:
    """One page in one tab: its files, its job, and what it shows.

    Tabs of a session share its worker process, and nothing else. A page has one job at a time: a new table takes the
    place of a job, and all other buttons do nothing meanwhile.

    Parameters
    ----------
    client : Client
        The page in NiceGUI.
    folder : Path
        Where to make a folder for its files.
    largest : int
        Bytes that a table may have.
    work : Work
        The process that does its jobs.
    """

    def __init__(self, client: Client, folder: Path, largest: int, work: WorkerProcess) -> None:
        self.client = client
        self.key = client.id
        self.folder = folder / self.key
        self.report = self.folder / "report.html"
        self.largest = largest
        self.work = work
        self.is_connected = False
        self.job: asyncio.Task[None] | None = None
        self.uploads = itertools.count()
        self.newest_upload: int | None = None
        self.table: Path | None = None
        self.columns: dict[str, dict[str, Any]] = {}

    async def connect(self) -> None:
        """Make the folder and start the process, now that the page is in a browser."""
        self.is_connected = True
        self.folder.mkdir(exist_ok=True)  # there already if the browser was out of touch
        await self.work.prepare()

    def close(self) -> None:
        """Cancel the job and remove the files."""
        self.newest_upload = None
        self._cancel()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def take_upload(self, request: Request) -> Response:
        """Keep the file that comes in, in place of the last one, unless another one was begun meanwhile."""
        number = self.newest_upload = next(self.uploads)
        try:
            async with request.form(max_files=1) as form:
                file = next((entry for entry in form.values() if isinstance(entry, UploadFile)), None)
                if file is None:
                    return PlainTextResponse("The upload holds no file; choose a table.", 400)
                table = self.folder / str(number) / _clean_name(file.filename)
                table.parent.mkdir()
                with table.open("wb") as stream:
                    await run_in_threadpool(shutil.copyfileobj, file.file, stream)
        except ClientDisconnect:
            return Response(status_code=400)
        except OSError as error:
            shutil.rmtree(self.folder / str(number), ignore_errors=True)
            return PlainTextResponse(f"The table cannot be stored: {error.strerror}.", 507)
        if number != self.newest_upload:
            shutil.rmtree(table.parent, ignore_errors=True)
            return PlainTextResponse("Another table was chosen meanwhile.", 409)
        self._take_table(table)
        return Response()

    def build(self) -> None:
        """Lay the page out."""
        ui.add_css(_HERE / "page.css")
        with ui.element("header"):
            ui.html((_HERE / "icon.svg").read_text(), sanitize=False)
            ui.label("truewood").classes("wordmark")
        with ui.element("main"):
            self.trouble = ui.label().classes("trouble").props("role=alert")
            self.views = {}
            for name, lay_out in {
                "file": self._lay_out_file,
                "columns": self._lay_out_columns,
                "running": self._lay_out_running,
                "report": self._lay_out_report,
            }.items():
                with ui.element("section").classes(name) as self.views[name]:
                    lay_out()
        ui.on_exception(self._fail)
        self._show("file")

    def _show(self, name: str, trouble: str = "") -> None:
        for other, view in self.views.items():
            view.set_visibility(other == name)
        self.trouble.set_text(trouble)
        self.trouble.set_visibility(bool(trouble))
        self._set_start()

    def _go(self, name: str, trouble: str = "") -> None:
        """Show another view, unless a job runs."""
        if self.job is None:
            self._show(name, trouble)

    def _lay_out_file(self) -> None:
        with ui.element("h1"):
            ui.label("Which columns tell about the one you care about?")
        ui.label(
            "Truewood fits a forest to your table and measures, on rows that its trees have never seen, how much each "
            "column says, and how sure that is."
        ).classes("lead")
        megabytes = self.largest // _MEGABYTE
        self.upload = ui.element("q-uploader").props(f"flat auto-upload url=upload/{self.key}")
        self.upload.props["max-file-size"] = self.largest
        self.upload.on("rejected", lambda: self._go("file", _TOO_LARGE.format(f"{megabytes:,}")), args=[])
        self.upload.on(
            "failed",
            lambda event: self._go("file", event.args or "The table did not arrive; try again."),
            js_handler="(info) => emit(info.xhr.responseText)",
        )
        self.upload.on("finish", js_handler=f"() => getElement({self.upload.id}).reset()")
        formats = f"CSV, Excel, Parquet and others, up to {megabytes:,} MB"
        self.upload.add_slot("header", _DROP.replace("FORMATS", formats))
        self.upload.add_slot("list", "<span></span>")
        ui.label("It stays on this computer, and is deleted when you close the page.").classes("quiet")

    def _lay_out_columns(self) -> None:
        with ui.element("h1"):
            self.heading = ui.label()
        self.shape = ui.label().classes("lead")
        with ui.element("div").classes("question"):
            self.target = ui.select([], label="What should be explained?", with_input=True, on_change=self._set_target)
            self.task = ui.select(_TASKS, label="Read it", value=_AS_IT_LOOKS)
        self.target.props("outlined")
        self.task.props("outlined")
        with ui.element("div").classes("actions"):
            self.start = ui.button("Find out", on_click=self._score).props("unelevated no-caps")
            ui.button("New table", on_click=lambda: self._go("file")).props("flat no-caps")
        with ui.element("h2"):
            ui.label("What the columns are taken for")
        self.search = ui.input(placeholder="Search columns").props("dense outlined clearable")
        self.grid = ui.table(
            rows=[],
            columns=[
                {"name": "name", "label": "Column", "field": "name", "align": "left"},
                {"name": "kind", "label": "Taken for", "field": "choice", "align": "left"},
            ],
            row_key="name",
            pagination=_ROWS_OF_GRID,
        ).props("flat")
        self.grid.bind_filter_from(self.search, "value")
        self.grid.add_slot("body-cell-name", _COLUMN)
        self.grid.add_slot("body-cell-kind", _KIND)
        self.grid.on("choose", lambda event: self._choose(**event.args))

    def _lay_out_running(self) -> None:
        with ui.element("h1"):
            self.doing = ui.label()
        self.bar = ui.linear_progress(show_value=False).props("rounded aria-label=Progress")
        self.progress = ui.label().classes("quiet").props("role=status")
        self.heard = ui.element("ul").classes("quiet")
        with ui.element("div").classes("actions"):
            ui.button("Stop", on_click=self._stop).props("outline no-caps")

    def _lay_out_report(self) -> None:
        with ui.element("div").classes("actions"):
            self.download = ui.element("a").classes("button")
            with self.download:
                ui.label("Download")
            ui.button("Columns", on_click=lambda: self._go("columns")).props("flat no-caps")
            ui.button("New table", on_click=lambda: self._go("file")).props("flat no-caps")
        self.frame = ui.element("iframe").props(f'title=Report sandbox="{_SANDBOX}"')

    def _take_table(self, table: Path) -> None:
        """Look at the columns of a table that came in, in place of the last one."""
        self._cancel()
        if self.table:
            shutil.rmtree(self.table.parent, ignore_errors=True)
        self.table, self.columns = table, {}
        self.target.set_options([], value=None)
        self._begin(f"Reading {table.name}", "file", "describe", self._show_columns, file=str(table))

    def _show_columns(self, answer: dict[str, Any]) -> None:
        self.columns = {column["name"]: _make_row(column) for column in answer["columns"]}
        self.heading.set_text(self.table.name if self.table else "")
        self.shape.set_text(answer["shape"])
        self.target.set_options(list(self.columns), value=None)
        self.task.set_value(_AS_IT_LOOKS)
        self.search.set_value("")
        self.search.set_visibility(len(self.columns) > _ROWS_OF_GRID)
        self.grid.props["hide-pagination"] = len(self.columns) <= _ROWS_OF_GRID
        self._set_target()
        self._show("columns")

    def _set_target(self) -> None:
        for name, row in self.columns.items():
            row["is_target"] = name == self.target.value
        self.grid.rows = list(self.columns.values())
        self._set_start()

    def _set_start(self) -> None:
        """Let the button be pressed that starts a job, or not."""
        self.start.set_enabled(self.target.value is not None and self.job is None)

    def _choose(self, name: str, choice: str) -> None:
        if self.job is None:
            self.columns[name]["choice"] = choice

    def _list_kinds(self, target: str) -> dict[str, str]:
        """What columns are to be read as that are taken for something else."""
        changed = {name: row["choice"] for name, row in self.columns.items() if row["choice"] != row["choices"][0]}
        return {name: _KINDS[choice] for name, choice in changed.items() if name != target}

    def _score(self) -> None:
        """Score the columns and show the report."""
        table, target, task = self.table, self.target.value, self.task.value
        if self.job is not None or table is None:
            return
        self._begin(
            f"What tells about {target}?",
            "columns",
            "report",
            lambda _: self._show_report(f"{table.stem} {target}.html"),
            file=str(table),
            target=target,
            task=None if task == _AS_IT_LOOKS else task,
            dtypes=self._list_kinds(target),
            report=str(self.report),
        )

    def _show_report(self, name: str) -> None:
        address = f"report/{self.key}?{secrets.token_hex(4)}"  # a new one each time, or the frame keeps the old report
        self.frame.props["src"] = address
        self.download.props["href"] = address
        self.download.props["download"] = name
        self._show("report")

    def _begin(
        self, doing: str, back: str, job: str, finish: Callable[[dict[str, Any]], None], **arguments: Any
    ) -> None:
        """Begin a job: `finish` takes its answer, and the view `back` is shown if there is none."""
        self.back = back
        self.doing.set_text(doing)
        self.heard.clear()
        self.progress.set_text("")
        self.bar.props["indeterminate"] = True
        self.job = background_tasks.create(self._run(job, finish, arguments), context=self.client)
        self._show("running")

    async def _run(self, job: str, finish: Callable[[dict[str, Any]], None], arguments: dict[str, Any]) -> None:
        try:
            answer = await self.work.do(job, self._hear, **arguments)
        except WorkerError as error:
            self.job = None
            self._show(self.back, str(error))
        else:
            self.job = None
            finish(answer)

    def _cancel(self) -> None:
        if self.job is not None:
            self.job.cancel()
            self.job = None

    def _stop(self) -> None:
        if self.job is not None:
            self._cancel()
            self._show(self.back)

    def _fail(self, error: Exception) -> None:
        self._cancel()
        self._show("file", f"Truewood has failed; the terminal says more. ({error!r})")

    def _hear(self, line: dict[str, Any]) -> None:
        """Show progress, a message or a warning."""
        if "waits" in line:
            self.progress.set_text("Waiting until another tab is done" if line["waits"] else "")
        if "n_trees" in line:
            n_done, n_trees = line["n_done"], line["n_trees"]
            self.bar.props["indeterminate"] = n_done == n_trees
            self.bar.set_value(n_done / n_trees)
            self.progress.set_text(f"{n_done:,} of {n_trees:,} trees" if n_done < n_trees else "Scoring on unseen rows")
        for kind in ("message", "warning"):
            if kind in line:
                with self.heard, ui.element("li").classes(kind):
                    ui.label(line[kind])


def _clean_name(name: str | None) -> str:
    """The name of a file without folders, and of letters that can be shown."""
    last = "".join(filter(str.isprintable, name or "")).replace("\\", "/").rpartition("/")[2]
    return last if last.strip(". ") else "table"


def _make_row(column: dict[str, Any]) -> dict[str, Any]:
    """A row of the table of columns: what is taken first among its choices."""
    found = column["dtype"] if column["is_used"] else f"left out ({column['dtype']})"
    holds = [", ".join(column["examples"]), f"{column['n_missing']:,} missing" * (column["n_missing"] > 0)]
    return {
        "name": column["name"],
        "note": column["note"],
        "holds": "; ".join(filter(None, holds)),
        "choice": found,
        "choices": [found, *(kind for kind in _KINDS if not found.startswith(kind))],
        "is_target": False,
    }
