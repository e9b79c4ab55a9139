"""The worker process of a session: the answer to a job is its own."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

from helpers.app_driver import write_table
from truewood._app.worker_process import WorkerProcess

pytestmark = pytest.mark.any_engine


def test_answers_to_other_jobs_are_dropped(monkeypatch):
    """If a process answers the last job, the next one and this one, the answer to this one is returned."""
    program = """
import json, sys
for text in sys.stdin:
    id_ = json.loads(text)["id"]
    for other in (id_ - 1, id_ + 1, id_):
        print(json.dumps({"id": other, "message": other}))
        print(json.dumps({"id": other, "answer": {"of": other}}), flush=True)
"""

    async def start(work):
        if work._process is None:
            pipe = asyncio.subprocess.PIPE
            command = [sys.executable, "-c", program]
            work._process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        return work._process

    async def ask_three_times():
        work, heard = WorkerProcess(), []
        answers = await asyncio.gather(*(work.do("describe", heard.append) for _ in range(3)))
        await work.end()
        return answers, [line["message"] for line in heard if "message" in line]

    monkeypatch.setattr(WorkerProcess, "_start", start)
    assert asyncio.run(ask_three_times()) == ([{"of": 0}, {"of": 1}, {"of": 2}], [0, 1, 2])


def test_a_job_that_is_given_up_does_not_answer_the_next_one(tmp_path):
    """Neither when it is canceled, nor when the callback fails."""
    tables = [write_table(tmp_path / f"{n_rows}.csv", n_rows) for n_rows in (20_000, 30, 40)]

    def fail(line):
        if "message" in line:
            raise KeyError(json.dumps(line))

    async def give_up_and_ask():
        work, started = WorkerProcess(), asyncio.Event()
        job = asyncio.create_task(
            work.do("describe", lambda line: "message" in line and started.set(), file=str(tables[0]))
        )
        waiting = asyncio.create_task(work.do("describe", lambda _: None, file=str(tables[1])))
        await started.wait()
        job.cancel()
        shape = (await waiting)["shape"]
        assert job.cancelled()
        with pytest.raises(KeyError):
            await work.do("describe", fail, file=str(tables[1]))
        answer = await work.do("describe", lambda _: None, file=str(tables[2]))
        await work.end()
        return [shape, answer["shape"]]

    assert asyncio.run(give_up_and_ask()) == ["30 rows, 6 columns", "40 rows, 6 columns"]
