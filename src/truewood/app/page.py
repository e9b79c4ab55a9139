"""The page: a table comes in, its columns are shown and can be changed, work is done, and the report is read."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path
from typing import Any

from fastapi import HTTPException
from fastapi.responses import FileResponse
from nicegui import app as gui
from nicegui import ui

from truewood.app.work import Work, WorkError, WorkStopped

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

    async def open_page() -> None:
        page = Page(folder, largest)
        pages[page.key] = page
        ui.context.client.on_delete(lambda: pages.pop(page.key).close())
        page.build()
        await page.work.prepare()

    def send_report(key: str) -> FileResponse:
        if key not in pages:
            raise HTTPException(404, "This report is gone with its page.")
        return FileResponse(pages[key].report, media_type="text/html", headers={"Cache-Control": "no-store"})

    async def close_pages() -> None:
        for page in pages.values():
            page.close()
        for page in pages.values():
            await page.work.wait()

    ui.page("/")(open_page)
    gui.get("/report/{key}")(send_report)
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


class Page:
    """One page in one tab: its files, its work, and what it shows.

    Parameters
    ----------
    folder : Path
        Where to make a folder for its files.
    largest : int
        Bytes that a table may have.
    """

    def __init__(self, folder: Path, largest: int) -> None:
        self.key = secrets.token_urlsafe(24)
        self.folder = folder / self.key
        self.folder.mkdir()
        self.report = self.folder / "report.html"
        self.largest = largest
        self.work = Work()
        self.table: Path | None = None
        self.columns: dict[str, dict[str, Any]] = {}

    def close(self) -> None:
        """Stop the work and remove the files."""
        self.work.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

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
        ui.on_exception(lambda error: self._show("file", f"Truewood has failed; the terminal says more. ({error!r})"))
        self._show("file")

    def _show(self, name: str, trouble: str = "") -> None:
        for other, view in self.views.items():
            view.set_visibility(other == name)
        self.trouble.set_text(trouble)
        self.trouble.set_visibility(bool(trouble))

    def _lay_out_file(self) -> None:
        with ui.element("h1"):
            ui.label("Which columns tell about the one you care about?")
        ui.label(
            "Truewood fits a forest to your table and measures, on rows that its trees have never seen, how much each "
            "column says, and how sure that is."
        ).classes("lead")
        megabytes = self.largest // _MEGABYTE
        self.upload = ui.upload(
            on_upload=self._take_table,
            on_rejected=lambda: self._show("file", _TOO_LARGE.format(f"{megabytes:,}")),
            max_file_size=self.largest,
            auto_upload=True,
        ).props("flat")
        self.upload.on("failed", lambda: self._show("file", "The table did not arrive; try again."))
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
            ui.button("New table", on_click=lambda: self._show("file")).props("flat no-caps")
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
            ui.button("Stop", on_click=self.work.stop).props("outline no-caps")

    def _lay_out_report(self) -> None:
        with ui.element("div").classes("actions"):
            self.download = ui.element("a").classes("button")
            with self.download:
                ui.label("Download")
            ui.button("Columns", on_click=lambda: self._show("columns")).props("flat no-caps")
            ui.button("New table", on_click=lambda: self._show("file")).props("flat no-caps")
        self.frame = ui.element("iframe").props(f'title=Report sandbox="{_SANDBOX}"')

    async def _take_table(self, event: Any) -> None:
        """Keep the file that came in, in place of the last one, and look at its columns."""
        self.upload.reset()
        self._remove_table()
        name = event.file.name
        self.table = self.folder / "table" / (name if name.strip(". ") else "table")
        try:
            await event.file.save(self.table)
            self._begin(f"Reading {name}")
            answer = await self.work.do("describe", self._hear, file=str(self.table))
        except WorkStopped:
            self._show("file")
        except (WorkError, OSError) as error:
            self._show("file", str(error))
        else:
            self._show_columns(answer)

    def _remove_table(self) -> None:
        shutil.rmtree(self.folder / "table", ignore_errors=True)
        self.table = None

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
        self.start.set_enabled(self.target.value is not None)

    def _choose(self, name: str, choice: str) -> None:
        self.columns[name]["choice"] = choice

    def _list_kinds(self, target: str) -> dict[str, str]:
        """What columns are to be read as that are taken for something else."""
        changed = {name: row["choice"] for name, row in self.columns.items() if row["choice"] != row["choices"][0]}
        return {name: _KINDS[choice] for name, choice in changed.items() if name != target}

    async def _score(self) -> None:
        """Score the columns and show the report."""
        target, task = self.target.value, self.task.value
        self._begin(f"What tells about {target}?")
        try:
            await self.work.do(
                "report",
                self._hear,
                file=str(self.table),
                target=target,
                task=None if task == _AS_IT_LOOKS else task,
                kinds=self._list_kinds(target),
                report=str(self.report),
            )
        except WorkStopped:
            self._show("columns")
        except WorkError as error:
            self._show("columns", str(error))
        else:
            self._show_report(target)

    def _show_report(self, target: str) -> None:
        address = f"report/{self.key}?{secrets.token_hex(4)}"  # a new one each time, or the frame keeps the old report
        self.frame.props["src"] = address
        self.download.props["href"] = address
        self.download.props["download"] = f"{self.table.stem if self.table else 'table'} {target}.html"
        self._show("report")

    def _begin(self, doing: str) -> None:
        self.doing.set_text(doing)
        self.heard.clear()
        self.progress.set_text("")
        self.bar.props["indeterminate"] = True
        self._show("running")

    def _hear(self, line: dict[str, Any]) -> None:
        """Show progress, a message or a warning."""
        if "n_trees" in line:
            n_done, n_trees = line["n_done"], line["n_trees"]
            self.bar.props["indeterminate"] = n_done == n_trees
            self.bar.set_value(n_done / n_trees)
            self.progress.set_text(f"{n_done:,} of {n_trees:,} trees" if n_done < n_trees else "Scoring on unseen rows")
        for kind in ("message", "warning"):
            if kind in line:
                with self.heard, ui.element("li").classes(kind):
                    ui.label(line[kind])


def _make_row(column: dict[str, Any]) -> dict[str, Any]:
    """A row of the table of columns: what is taken first among its choices."""
    found = column["kind"] if column["is_used"] else f"left out ({column['kind']})"
    holds = [", ".join(column["examples"]), f"{column['n_missing']:,} missing" * (column["n_missing"] > 0)]
    return {
        "name": column["name"],
        "note": column["note"],
        "holds": "; ".join(filter(None, holds)),
        "choice": found,
        "choices": [found, *(kind for kind in _KINDS if not found.startswith(kind))],
        "is_target": False,
    }
