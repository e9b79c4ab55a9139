"""Write to standard streams that may be closed or full."""

from __future__ import annotations

import os
import sys
from typing import TextIO

import rich.console


class Console(rich.console.Console):
    """A console that passes on broken pipes, where rich would exit with code 1."""

    def on_broken_pipe(self) -> None:
        """Pass the error on."""
        raise


def write_message(text: str) -> None:
    """Write a line to standard error; if that fails, the command continues without messages."""
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)


def settle_streams() -> None:
    """Flush the standard streams, so that Python does not fail to do so when it exits."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            _discard(stream)


def _discard(stream: TextIO) -> None:
    """Redirect a stream that cannot be written to the null device, with its buffered content."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
