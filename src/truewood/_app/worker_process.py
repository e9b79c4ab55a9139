"""`WorkerProcess`: the worker of a browser session, which runs one job at a time for all tabs."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Callable
from typing import Any, cast

# Largest line in bytes: the columns of a wide table.
_LONGEST_LINE = 2**26
# Shown until the process has imported its libraries and takes the job.
_STARTING = "Starting; this takes longest the first time"


class WorkerError(Exception):
    """A failed job; the text is one line for the user."""


class WorkerProcess:
    """A process that runs the jobs of `worker` one after the other; canceling a job ends the process."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()
        self._ids = itertools.count()

    async def prepare(self) -> None:
        """Start the process ahead of the first job, because imports take a while."""
        async with self._lock:
            await self._start()

    async def do(self, job: str, show: Callable[[dict[str, Any]], None], **arguments: Any) -> dict[str, Any]:
        """Run a job.

        Parameters
        ----------
        job : str
            The name in `worker.JOBS`.
        show : callable
            Called with messages and progress.
        **arguments
            Arguments of the job.

        Returns
        -------
        dict
            The answer.

        Raises
        ------
        WorkerError
            If the job fails.
        """
        show({"stage": "Waiting for another tab to finish" if self._lock.locked() else _STARTING})
        async with self._lock:
            show({"stage": _STARTING})
            process = await self._start()
            try:
                return await self._exchange(process, job, show, arguments)
            except WorkerError:
                raise
            except BaseException:  # most likely canceled: the process must not answer this job later
                await self._end()
                raise

    async def end(self) -> None:
        """End the process when its job is finished or canceled."""
        async with self._lock:
            await self._end()

    async def _start(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-P", "-m", "truewood._app.worker"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_LONGEST_LINE,
                start_new_session=True,  # Ctrl-C stops the server, which ends its workers
            )
        return self._process

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()

    async def _exchange(
        self,
        process: asyncio.subprocess.Process,
        job: str,
        show: Callable[[dict[str, Any]], None],
        arguments: dict[str, Any],
    ) -> dict[str, Any]:
        """Send a job and read its lines; lines of other jobs are ignored."""
        stdin, stdout = cast("asyncio.StreamWriter", process.stdin), cast("asyncio.StreamReader", process.stdout)
        id_ = next(self._ids)
        stdin.write(json.dumps({"id": id_, "job": job, **arguments}).encode() + b"\n")
        while text := await stdout.readline():
            line = json.loads(text)
            if line.pop("id") != id_:
                continue
            if "answer" in line:
                return dict(line["answer"])
            if "error" in line:
                raise WorkerError(line["error"])
            show(line)
        code = await process.wait()
        raise WorkerError(
            "The analysis was killed, most likely because memory ran out; use fewer rows."
            if code == -9
            else f"The analysis failed with exit code {code}; see the terminal for details."
        )
