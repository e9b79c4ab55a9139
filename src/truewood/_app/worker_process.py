"""The worker process of a browser session: it does one job at a time, for all tabs, and can be stopped."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Callable
from typing import Any, cast

# Bytes of a line: the columns of a wide table.
_LONGEST_LINE = 2**26


class WorkerError(Exception):
    """What went wrong, in one line for people."""


class WorkerProcess:
    """A process that runs the jobs of `worker`. Jobs wait for each other; a job that is cancelled ends the process."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()
        self._ids = itertools.count()

    async def prepare(self) -> None:
        """Start the process, which takes a while to import everything, unless it runs already."""
        async with self._lock:
            await self._start()

    async def do(self, job: str, hear: Callable[[dict[str, Any]], None], **arguments: Any) -> dict[str, Any]:
        """Do a job.

        Parameters
        ----------
        job : str
            Its name in `worker.JOBS`.
        hear : callable
            Takes messages and progress.
        **arguments
            Of the job.

        Returns
        -------
        dict
            The answer.

        Raises
        ------
        WorkerError
            If the job cannot be done.
        """
        hear({"waits": self._lock.locked()})
        async with self._lock:
            hear({"waits": False})
            process = await self._start()
            try:
                return await self._exchange(process, job, hear, arguments)
            except WorkerError:
                raise
            except BaseException:  # cancelled, most likely: the process must not answer this job when the next one asks
                await self._end()
                raise

    async def end(self) -> None:
        """End the process once the job that it does is done or cancelled."""
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
                start_new_session=True,  # Ctrl-C is for the server, which ends its work itself
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
        hear: Callable[[dict[str, Any]], None],
        arguments: dict[str, Any],
    ) -> dict[str, Any]:
        """Ask for a job and read the lines about it; lines about any other job are dropped."""
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
            hear(line)
        code = await process.wait()
        raise WorkerError(
            "The system has ended the work, most likely because memory ran out; take a part of the rows."
            if code == -9
            else f"The work has failed with exit code {code}; the terminal says more."
        )
