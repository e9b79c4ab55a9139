"""A progress bar in the terminal, for what takes long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Update(Protocol):
    """What moves a bar."""

    def __call__(self, done: int, total: int | None = None) -> None:
        """Say how many steps are done, of how many; None for as many as before."""


@contextmanager
def show_progress(
    description: str, *, total: int | None = None, done: int = 0, unit: str = "", is_wanted: bool = True
) -> Iterator[Update]:
    """Show a bar on stderr as long as the block runs; nothing at all where stderr is no terminal.

    Parameters
    ----------
    description : str
        What stands before the bar.
    total : int or None, default=None
        Number of steps; None where the first update says it, with which the bar then appears.
    done : int, default=0
        Number of steps that are done already.
    unit : str, default=""
        What the steps are, such as "trees"; stands after their number.
    is_wanted : bool, default=True
        Whether to show anything.

    Yields
    ------
    Update
        ``update(done)`` or ``update(done, total)`` says how many steps are done, of how many.
    """
    console = Console(stderr=True)
    if not (is_wanted and console.is_terminal):
        yield show_nothing
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit)
    bar = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
    task = bar.add_task(description, total=total, completed=done)
    if total is not None:
        bar.start()

    def update(done: int, total: int | None = None) -> None:
        bar.start()
        bar.update(task, completed=done, total=total)
        if bar.finished:
            bar.stop()

    try:
        yield update
    finally:
        bar.stop()  # of work that was interrupted


def show_nothing(done: int, total: int | None = None) -> None:
    """Move no bar."""
    del done, total
