"""The process that does the jobs of a session: lines of JSON come in, and lines of JSON with the id of the job go out.

A process of its own keeps the page alive while a large table is read, can be stopped at any time, and takes nobody
along when there is too little memory.
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
from pathlib import Path
from typing import Any

from truewood.tabular import FitSettings, Messages, TableError, describe_table, score_table
from truewood.tabular._messages import without_hints

Tell = Callable[..., None]
_LONGEST_EXAMPLE = 40


def describe_columns(tell: Tell, *, file: str) -> dict[str, Any]:
    """What each column of a file is taken for."""
    messages = _make_messages(tell)
    columns = describe_table(file, messages=messages)
    shape = next(text for text in messages.messages if text.startswith("read "))
    return {
        "shape": shape.removeprefix(f"read {Path(file).name}: "),
        "columns": [
            asdict(column)
            | {
                "note": column.note and without_hints(column.note),
                "examples": [example[:_LONGEST_EXAMPLE] for example in column.examples],
            }
            for column in columns
        ],
    }


def write_report(
    tell: Tell, *, file: str, target: str, task: str | None, dtypes: dict[str, str], report: str
) -> dict[str, Any]:
    """Score the columns of a file, and write the report."""
    score = score_table(
        file,
        target,
        task=task,
        dtypes=dtypes,
        settings=FitSettings(n_jobs=-1),
        messages=_make_messages(tell),
        progress=lambda n_done, n_trees: tell(n_done=n_done, n_trees=n_trees),
    )
    score.result.report(
        report,
        X=score.X,
        title=f"What tells about {target}?",
        performance=None if score.performance is None else score.performance.describe(),
        explanation=score.explanation,
        notes=[without_hints(text) for text in score.messages if text != str(score.performance)],
        warnings=list(map(without_hints, score.warnings)),
    )
    return {}


def _make_messages(tell: Tell) -> Messages:
    return Messages(
        lambda text: tell(message=without_hints(text)),
        lambda text: tell(warning=without_hints(text)),
    )


JOBS: dict[str, Callable[..., dict[str, Any]]] = {"describe": describe_columns, "report": write_report}


def describe_error(error: Exception) -> str:
    """What is wrong, in one line."""
    text = str(error)
    if isinstance(error, TableError):
        text = without_hints(error.reason)
    if isinstance(error, MemoryError):
        text = "There is not enough memory; take a part of the rows, or leave columns out."
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror
    return " ".join(text.split())


def main() -> None:
    """Do the jobs that standard input names, until it ends."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever libraries print goes to the terminal

    def tell(id_: int, **line: Any) -> None:
        channel.write(json.dumps({"id": id_, **line}) + "\n")
        channel.flush()

    jobs: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read_jobs, args=[jobs], daemon=True).start()
    while True:
        job = json.loads(jobs.get())
        tell_of_job = partial(tell, job.pop("id"))
        try:
            tell_of_job(answer=JOBS[job.pop("job")](tell_of_job, **job))
        except (OSError, ValueError, MemoryError) as error:
            tell_of_job(error=describe_error(error))


def _read_jobs(jobs: queue.Queue[str]) -> None:
    for line in sys.stdin:
        jobs.put(line)
    os._exit(0)  # whoever asked has gone, whatever is being done


if __name__ == "__main__":
    main()
