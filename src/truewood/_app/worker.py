"""The worker process of a browser session: reads jobs as lines of JSON and writes lines of JSON with their ids.

A separate process keeps the page responsive while a large table is read, can be stopped at any time, and can run out of
memory without stopping the app.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from truewood._formatting import count
from truewood._message import as_message, get_message
from truewood.tabular import FitSettings, Messages, TableError, describe_table, score_table
from truewood.tabular._columns.columns import LEAK
from truewood.tabular._table_score import write_score_report

Send = Callable[..., None]
_LONGEST_EXAMPLE = 40
# What the page calls arguments.
_CHOICES = {"task": "Task:", "model": "Model:", "groups": "Group column:", "drop": 'type "left out" for'}


def describe_columns(send: Send, *, file: str) -> dict[str, Any]:
    """Infer the type of each column of a file."""
    columns = describe_table(file, messages=_make_messages(send))
    return {
        "shape": f"{count(columns[0].n_rows, 'row')}, {count(len(columns), 'column')}",
        "columns": [
            asdict(column)
            | {
                "note": None if column.note is None else as_message(column.note).text,
                "examples": [_cut(example) for example in column.examples],
            }
            for column in columns
        ],
    }


def _cut(example: str) -> str:
    return example if len(example) <= _LONGEST_EXAMPLE else f"{example[: _LONGEST_EXAMPLE - 1]}…"


def write_report(send: Send, *, file: str, target: str, model: str, title: str, report: str, **options: Any) -> Any:
    """Score the columns of a file, write the report, and name the columns that may leak the target."""
    score = score_table(
        file,
        target,
        **options,
        settings=FitSettings(model, n_jobs=-1),
        messages=_make_messages(send),
        progress=lambda n_done, n_trees: send(n_done=n_done, n_trees=n_trees),
    )
    send(stage="Writing the report")
    write_score_report(score, report, title=title, render=lambda text: as_message(text).text)
    return {"leaks": [column.name for column in score.columns if column.dtype == LEAK]}


def _make_messages(send: Send) -> Messages:
    """Send messages without hints: the page has no arguments to change."""
    return Messages(lambda message: send(message=message.text), lambda warning: send(warning=warning.text))


def _spell(argument: str, value: Any) -> str:
    """Write a suggested argument as the choice on the page."""
    names = value if isinstance(value, list | tuple) else [value]
    return f"{_CHOICES[argument]} {', '.join(map(str, names))}"


JOBS: dict[str, Callable[..., dict[str, Any]]] = {"describe": describe_columns, "report": write_report}


def describe_error(error: Exception) -> str:
    """Describe an error in one line."""
    text = get_message(error).text
    if isinstance(error, TableError):
        message = as_message(error.reason)
        text = message.render(_spell) if message.suggestion.keys() <= _CHOICES.keys() else message.text
    if isinstance(error, MemoryError):
        text = "Memory ran out; use fewer rows, or leave out columns."
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror
    return " ".join(text.split())


def main() -> None:
    """Run the jobs on standard input until it ends."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # libraries may print to standard output

    def send(id_: int, **line: Any) -> None:
        channel.write(json.dumps({"id": id_, **line}) + "\n")
        channel.flush()

    jobs: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read_jobs, args=[jobs], daemon=True).start()
    while True:
        job = json.loads(jobs.get())
        send_line = partial(send, job.pop("id"))
        send_line(stage="Reading the table")
        try:
            send_line(answer=JOBS[job.pop("job")](send_line, **job))
        except (OSError, ValueError, MemoryError) as error:
            send_line(error=describe_error(error))


def _read_jobs(jobs: queue.Queue[str]) -> None:
    for line in sys.stdin:
        jobs.put(line)
    os._exit(0)  # the app has stopped, so the running job is useless


if __name__ == "__main__":
    main()
