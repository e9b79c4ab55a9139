"""Messages and warnings of a command: to standard error, and kept for reports."""

from __future__ import annotations

import sys


class Speaker:
    """Says things on standard error, one line each, and remembers them.

    Parameters
    ----------
    is_quiet : bool
        Whether to keep messages to itself; warnings are always said.

    Attributes
    ----------
    messages, warnings : list of str
        What there was to say.
    """

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self.messages: list[str] = []
        self.warnings: list[str] = []

    def say(self, message: str) -> None:
        """Say what was done or assumed."""
        self.messages.append(message)
        if not self._is_quiet:
            sys.stderr.write(f"{in_one_line(message)}\n")

    def warn(self, message: str) -> None:
        """Say what makes the outcome doubtful."""
        self.warnings.append(message)
        sys.stderr.write(f"truewood: warning: {in_one_line(message)}\n")


def in_one_line(text: str) -> str:
    """Text without characters that would move the cursor, which names of columns may hold: they are written out."""
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text)
