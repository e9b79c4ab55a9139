"""Errors about tables and saved models, which name the argument that cannot be used."""

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
        The argument it is about, as `score_table`, `score_saved_model` or `FitSettings` name it, such as "target".
    """

    def __init__(self, reason: str, argument: str) -> None:
        super().__init__(reason, argument)
        self.reason = reason
        self.argument = argument

    def __str__(self) -> str:
        return f"{self.argument}: {self.reason}"


class UnknownFormatError(TableError):
    """A file whose name does not tell its format."""


class UnusableModelError(ValueError):
    """A saved model that was read, but cannot be scored; the text goes on after the name of the model."""


@contextmanager
def name_damage(name: str, kind: str) -> Iterator[None]:
    """Turn whatever a library raises on a damaged file into one line that names the file."""
    try:
        yield
    except TableError:
        raise
    except Exception as error:
        if isinstance(error, MemoryError) and type(error).__module__ == "builtins":
            raise
        # Arrow's own errors of memory are sizes that the bytes of the file claim.
        reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        raise TableError(f"{name} cannot be read as {kind}: {shorten(reason, 200)}.", "table") from error
