"""Errors about tables and saved models; each names the argument to change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from truewood._formatting import shorten


class TableError(ValueError):
    """Input that cannot be used.

    Parameters
    ----------
    reason : str
        What is wrong, and what to do about it.
    argument : str
        The argument to change, as `score_table`, `score_saved_model` or `FitSettings` names it, such as "target".
    """

    def __init__(self, reason: str, argument: str) -> None:
        super().__init__(reason, argument)
        self.reason = reason
        self.argument = argument

    def __str__(self) -> str:
        return f"{self.argument}: {self.reason}"


class UnknownFormatError(TableError):
    """A file with an extension that belongs to no known format."""


class UnusableModelError(ValueError):
    """A saved model that was read but cannot be scored; the text is a predicate whose subject is its name."""


@contextmanager
def name_damage(name: str, kind: str) -> Iterator[None]:
    """Turn any error that a library raises on a damaged file into one line that names the file."""
    try:
        yield
    except TableError:
        raise
    except Exception as error:
        # Arrow's own memory errors come from sizes that the damaged file claims.
        if isinstance(error, MemoryError) and type(error).__module__ == "builtins":
            raise
        reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        raise TableError(
            f"{name} cannot be read as {kind}: {shorten(reason, 200)}. Save the file again.", "table"
        ) from error
