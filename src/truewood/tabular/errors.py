"""Errors about tables and saved models, which name the argument that cannot be used."""

from __future__ import annotations


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
