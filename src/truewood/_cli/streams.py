"""Standard output and standard error that may have no reader, or no room."""

from __future__ import annotations

import os
import sys
from typing import TextIO

import rich.console


class Console(rich.console.Console):
    """A console that leaves a reader who has gone to the command line, where rich would exit with code 1."""

    def on_broken_pipe(self) -> None:
        """Pass the error on."""
        raise


def write_message(text: str) -> None:
    """Write a line to standard error; if nobody can read it, the work goes on without messages."""
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)


def settle_streams() -> None:
    """Flush the standard streams, so that Python has nothing left to write, and to fail at, when it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            _discard(stream)


def _discard(stream: TextIO) -> None:
    """Let a stream that cannot be written to end in the null device, with what it still holds."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
