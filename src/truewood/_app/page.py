"""`Page`: upload a table, check its columns, run the analysis, and read the report."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import PlainTextResponse
from nicegui import Client, background_tasks, ui
from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect

from truewood._app.column_table import ColumnTable
from truewood._app.worker_process import WorkerError, WorkerProcess
from truewood.tabular._columns.target_column import name_time_to_event
from truewood.tabular._models.settings import MODELS

_HERE = Path(__file__).parent
_MEGABYTE = 10**6
_AUTO = "auto-detect"
_SURVIVAL = "survival"
_TASKS = (_AUTO, "classification", "regression", _SURVIVAL)
_TOO_LARGE = "The table is larger than the {} MB limit; to raise it, restart with truewood app --max-size MB."
# The report may run scripts and offer downloads, but not access the page around it.
_SANDBOX = "allow-scripts allow-downloads"

_DROP = """
<div class="drop" :class="{busy: props.isUploading}">
  <q-uploader-add-trigger />
  <svg viewBox="0 0 48 48" aria-hidden="true"><path d="M24 33V9m0 0-9 9m9-9 9 9M8 31v8h32v-8"/></svg>
  <strong v-if="!props.isUploading">Drop a table here, or choose a file</strong>
  <strong v-else role="status">Uploading: {{ props.uploadProgressLabel }}</strong>
  <span>FORMATS</span>
</div>
"""


class Page:
    """A page in one browser tab: its files, its job, and its views.

    The tabs of a session share a worker process and nothing else. A page has one job at a time: a new table replaces
    it, and all other buttons do nothing while it runs.

    Parameters
    ----------
    client : Client
        The NiceGUI client of the page.
    folder : Path
        Where to create the folder for its files.
    max_bytes : int
        Maximum size of a table.
    worker : WorkerProcess
        The process that runs its jobs.
    """

    def __init__(self, client: Client, folder: Path, max_bytes: int, worker: WorkerProcess) -> None:
        self.client = client
        self.key = client.id
        self.folder = folder / self.key
        self.report = self.folder / "report.html"
        self.max_bytes = max_bytes
        self.worker = worker
        self.is_connected = False
        self.job: asyncio.Task[None] | None = None
        self.uploads = itertools.count()
        self.newest_upload: int | None = None
        self.table: Path | None = None

    async def connect(self) -> None:
        """Create the folder and start the process when the page is shown in a browser."""
        if self.client.is_deleted:  # the browser may leave during the handshake
            return
        self.is_connected = True
        self.folder.mkdir(exist_ok=True)  # it exists after an upload, and if the browser reconnects
        await self.worker.prepare()

    def close(self) -> None:
        """Cancel the job and delete the files."""
        self.newest_upload = None
        self._cancel()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def receive_upload(self, request: Request) -> Response:
        """Store an uploaded file in place of the last one, unless a newer upload has begun."""
        number = self.newest_upload = next(self.uploads)
        try:
            async with request.form(max_files=1) as form:
                file = next((entry for entry in form.values() if isinstance(entry, UploadFile)), None)
                if file is None:
                    return PlainTextResponse("The upload contains no file; choose a table.", 400)
                table = self.folder / str(number) / _clean_name(file.filename)
                table.parent.mkdir(parents=True)  # the upload may be faster than the socket
                with table.open("wb") as stream:
                    await run_in_threadpool(shutil.copyfileobj, file.file, stream)
        except ClientDisconnect:
            return Response(status_code=400)
        except OSError as error:
            shutil.rmtree(self.folder / str(number), ignore_errors=True)
            return PlainTextResponse(f"The table cannot be stored: {error.strerror}.", 507)
        if number != self.newest_upload:
            shutil.rmtree(table.parent, ignore_errors=True)
            return PlainTextResponse("Another table was chosen in the meantime.", 409)
        self._open_table(table)
        return Response()

    def build(self) -> None:
        """Lay out the page."""
        ui.add_css(_HERE / "page.css")
        with ui.element("header"):
            ui.html((_HERE / "icon.svg").read_text(), sanitize=False)
            ui.label("truewood").classes("wordmark")
        with ui.element("div").classes("content"):
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
        self._update_buttons()

    def _go(self, name: str, trouble: str = "") -> None:
        """Show another view, unless a job is running."""
        if self.job is None:
            self._show(name, trouble)

    def _lay_out_file(self) -> None:
        with ui.element("h1"):
            ui.label("Which columns predict the one you care about?")
        ui.label(
            "Truewood fits a random forest or boosted trees to your table, and scores each column on rows that the "
            "trees were not trained on. Each score has a 95% interval and a p-value."
        ).classes("lead")
        megabytes = self.max_bytes // _MEGABYTE
        self.upload = ui.element("q-uploader").props(f"flat auto-upload url=upload/{self.key}")
        self.upload.props["max-file-size"] = self.max_bytes
        self.upload.on("rejected", lambda: self._go("file", _TOO_LARGE.format(f"{megabytes:,}")), args=[])
        self.upload.on(
            "failed",
            lambda event: self._go("file", event.args or "The upload failed; try again."),
            js_handler="(info) => emit(info.xhr.responseText)",
        )
        self.upload.on("finish", js_handler=f"() => getElement({self.upload.id}).reset()")
        formats = f"CSV, Excel, Parquet and more, up to {megabytes:,} MB"
        self.upload.add_slot("header", _DROP.replace("FORMATS", formats))
        self.upload.add_slot("list", "<span></span>")
        privacy = "Your data stays on this computer. The uploaded copy is deleted when you close the page."
        ui.label(privacy).classes("quiet")

    def _lay_out_columns(self) -> None:
        with ui.element("h1"):
            self.heading = ui.label()
        self.shape = ui.label().classes("lead")
        with ui.element("div").classes("question"):
            self.target = ui.select([], label="Target column", with_input=True, on_change=self._set_roles)
            self.task = ui.select(list(_TASKS), label="Task", value=_AUTO, on_change=self._set_roles)
        self.refusal = ui.label().classes("refusal").props("role=status")
        with ui.element("div").classes("options"):
            self.event = ui.select([], label="Event column", with_input=True, on_change=self._set_roles)
            self.groups = ui.select([], label="Group column (optional)", with_input=True, on_change=self._set_roles)
            self.model = ui.select(list(MODELS), label="Model", value=MODELS[0])
        self.event.props('hint="true or 1: event; false or 0: censored"')
        self.groups.props('clearable hint="such as patients; folds keep them together"')
        for select in (self.target, self.task, self.event, self.groups, self.model):
            select.props("outlined")
        self.pairs = ui.checkbox("Also test pairs of columns for interactions (takes longer)")
        with ui.element("div").classes("actions"):
            self.start = ui.button("Analyze", on_click=self._analyze).props("unelevated no-caps")
            ui.button("New table", on_click=lambda: self._go("file")).props("flat no-caps")
        with ui.element("h2"):
            ui.label("Column types")
        self.columns = ColumnTable(self._set_roles)

    def _lay_out_running(self) -> None:
        with ui.element("h1"):
            self.doing = ui.label()
        self.bar = ui.linear_progress(show_value=False).props("rounded aria-label=Progress animation-speed=200")
        self.progress = ui.label().classes("quiet").props("role=status")
        self.messages = ui.element("ul").classes("quiet")
        with ui.element("div").classes("actions"):
            ui.button("Stop", on_click=self._stop).props("outline no-caps")

    def _lay_out_report(self) -> None:
        with ui.element("div").classes("actions"):
            self.download = ui.element("a").classes("button")
            with self.download:
                ui.label("Download")
            ui.button("Columns", on_click=lambda: self._go("columns")).props("flat no-caps")
            ui.button("New table", on_click=lambda: self._go("file")).props("flat no-caps")
        self.frame = ui.element("div")

    def _open_table(self, table: Path) -> None:
        """Describe the columns of an uploaded table, in place of the last one."""
        self._cancel()
        if self.table:
            shutil.rmtree(self.table.parent, ignore_errors=True)
        self.table = table
        self._fill([])
        self._begin(f"Reading {table.name}", "file", "describe", self._show_columns, file=str(table))

    def _show_columns(self, answer: dict[str, Any]) -> None:
        self.heading.set_text(self.table.name if self.table else "")
        self.shape.set_text(answer["shape"])
        self._fill(answer["columns"])
        self._show("columns")

    def _fill(self, columns: list[dict[str, Any]]) -> None:
        """Offer the columns of a table, and forget what was chosen for the last one."""
        self.columns.fill(columns)
        for select in (self.target, self.event, self.groups):
            select.set_options(list(self.columns.rows), value=None)
        self.task.set_value(_AUTO)
        self.model.set_value(MODELS[0])
        self.pairs.set_value(False)
        self._set_roles()

    def _set_roles(self) -> None:
        """Show the options that the task needs, and mark the chosen columns in the table."""
        is_survival = self.task.value == _SURVIVAL
        self.event.set_visibility(is_survival)
        self.groups.set_visibility(not is_survival)
        self.model.set_visibility(not is_survival)
        self.pairs.set_visibility(not is_survival)
        label = "Time column" if is_survival else "Target column"
        if self.target.props["label"] != label:  # an update would close the menu
            self.target.props["label"] = label
        others = {self.event.value: "event"} if is_survival else {self.groups.value: "groups"}
        self.columns.mark_roles({**others, self.target.value: "time" if is_survival else "target"})
        self._update_buttons()

    def _update_buttons(self) -> None:
        """Enable the button that starts the analysis, or disable it and say why."""
        target, is_survival = self.target.value, self.task.value == _SURVIVAL
        refusal = "" if target is None else self.columns.refuse_target(target)
        other = self.event.value if is_survival else self.groups.value
        if target is not None and target == other:
            refusal = f"{target} cannot have two roles; choose another column."
        self.refusal.set_text(refusal)
        self.refusal.set_visibility(bool(refusal))
        self.columns.is_locked = self.job is not None
        is_complete = target is not None and (other is not None or not is_survival)
        self.start.set_enabled(is_complete and not refusal and self.job is None)

    def _analyze(self) -> None:
        """Score the columns and show the report."""
        table, target, task = self.table, self.target.value, self.task.value
        if self.job is not None or table is None:
            return
        is_survival = task == _SURVIVAL
        title = f"What predicts {name_time_to_event(target, self.event.value) if is_survival else target}?"
        self._begin(
            title,
            "columns",
            "report",
            lambda answer: self._show_report(f"{table.stem} {target}.html", answer["leaks"]),
            file=str(table),
            target=target,
            task=None if task in (_AUTO, _SURVIVAL) else task,
            event=self.event.value if is_survival else None,
            groups=None if is_survival else self.groups.value,
            model=MODELS[0] if is_survival else self.model.value,
            interactions=not is_survival and self.pairs.value,
            dtypes=self.columns.list_dtypes(),
            keep=self.columns.list_kept(),
            title=title,
            report=str(self.report),
        )

    def _show_report(self, name: str, leaks: list[str]) -> None:
        self.columns.mark_leaks(leaks)
        address = f"report/{self.key}?{secrets.token_hex(4)}"  # a new address each time, so that nothing is cached
        # A new frame each time: a frame whose address changes while it is hidden may stay blank.
        self.frame.clear()
        with self.frame:
            ui.element("iframe").props(f'title=Report sandbox="{_SANDBOX}" src="{address}"')
        self.download.props["href"] = address
        self.download.props["download"] = name
        self._show("report")

    def _begin(
        self, doing: str, back: str, job: str, finish: Callable[[dict[str, Any]], None], **arguments: Any
    ) -> None:
        """Start a job; `finish` is called with its answer, and the view `back` is shown if there is none."""
        self.back = back
        self.doing.set_text(doing)
        self.messages.clear()
        self.progress.set_text("")
        self.bar.props["indeterminate"] = True
        self.job = background_tasks.create(self._run(job, finish, arguments), context=self.client)
        self._show("running")

    async def _run(self, job: str, finish: Callable[[dict[str, Any]], None], arguments: dict[str, Any]) -> None:
        try:
            answer = await self.worker.do(job, self._show_progress, **arguments)
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
        self._show("file", f"Truewood failed; see the terminal for details. ({error!r})")

    def _show_progress(self, line: dict[str, Any]) -> None:
        """Show progress, a message or a warning."""
        if "stage" in line:
            self.progress.set_text(line["stage"])
        if "n_trees" in line:
            n_done, n_trees = line["n_done"], line["n_trees"]
            self.bar.props["indeterminate"] = n_done in (0, n_trees)
            self.bar.set_value(n_done / n_trees)
            self.progress.set_text(f"{n_done:,} of {n_trees:,} trees" if n_done < n_trees else "Scoring")
        for kind in ("message", "warning"):
            if kind in line:
                with self.messages, ui.element("li").classes(kind):
                    ui.label(line[kind])


def _clean_name(name: str | None) -> str:
    """Strip folders and unprintable characters from a file name."""
    last = "".join(filter(str.isprintable, name or "")).replace("\\", "/").rpartition("/")[2]
    return last if last.strip(". ") else "table"
