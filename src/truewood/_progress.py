"""A progress bar in the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Update(Protocol):
    """Function that updates a bar."""

    def __call__(self, done: int, total: int | None = None) -> None:
        """Set the number of finished steps, and the total unless it is None."""


@contextmanager
def show_progress(
    description: str, *, total: int | None = None, done: int = 0, unit: str = "", is_wanted: bool = True
) -> Iterator[Update]:
    """Show a bar on stderr while the block runs, if stderr is a terminal.

    Parameters
    ----------
    description : str
        Text before the bar.
    total : int or None, default=None
        Number of steps; None if the first update sets it and shows the bar.
    done : int, default=0
        Number of steps finished already.
    unit : str, default=""
        Unit of the steps, such as "trees", shown after their number.
    is_wanted : bool, default=True
        Whether to show anything.

    Yields
    ------
    Update
        ``update(done)`` or ``update(done, total)`` sets the number of finished steps.
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
        bar.stop()  # also after an interruption


def show_nothing(done: int, total: int | None = None) -> None:
    """Update without a bar."""
    del done, total
