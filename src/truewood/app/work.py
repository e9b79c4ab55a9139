"""The work of one page: one job at a time, in a process that can be stopped."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any, cast

# Bytes of a line: the columns of a wide table.
_LONGEST_LINE = 2**26


class WorkError(Exception):
    """What went wrong, in one line for people."""


class WorkStopped(Exception):  # noqa: N818 - not an error
    """Somebody has stopped the work."""


class Work:
    """A process that does the jobs of `worker`, one at a time, and a new one after it was stopped."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._is_stopped = False

    async def prepare(self) -> None:
        """Start the process, which takes a while to import everything."""
        self._is_stopped = False
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-P", "-m", "truewood.app.worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LONGEST_LINE,
            start_new_session=True,  # Ctrl-C is for the server, which ends its work itself
        )

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
        WorkError
            If the job cannot be done.
        WorkStopped
            If `stop` was called meanwhile.
        """
        if self._process is None or self._process.returncode is not None:
            await self.prepare()
        process = cast("asyncio.subprocess.Process", self._process)
        stdin, stdout = cast("asyncio.StreamWriter", process.stdin), cast("asyncio.StreamReader", process.stdout)
        stdin.write(json.dumps({"job": job, **arguments}).encode() + b"\n")
        while text := await stdout.readline():
            line = json.loads(text)
            if "answer" in line:
                return dict(line["answer"])
            if "error" in line:
                raise WorkError(line["error"])
            hear(line)
        code = await process.wait()
        if self._is_stopped:
            raise WorkStopped
        raise WorkError(
            "The system has ended the work, most likely because memory ran out; take a part of the rows."
            if code == -9
            else f"The work has failed with exit code {code}; the terminal says more."
        )

    def stop(self) -> None:
        """End the process."""
        self._is_stopped = True
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def wait(self) -> None:
        """Wait until the process has ended, before the loop that would hear of it does."""
        if self._process is not None:
            await self._process.wait()
