"""A progress bar in the terminal, for what takes long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def show_progress(
    description: str, *, total: int, done: int = 0, unit: str = "", is_wanted: bool = True
) -> Iterator[Callable[[int], None]]:
    """Show a bar on stderr as long as the block runs; nothing at all where stderr is no terminal.

    Parameters
    ----------
    description : str
        What stands before the bar.
    total : int
        Number of steps.
    done : int, default=0
        Number of steps that are done already.
    unit : str, default=""
        What the steps are, such as "trees"; stands after their number.
    is_wanted : bool, default=True
        Whether to show anything.

    Yields
    ------
    callable
        ``update(done)`` says how many steps are done.
    """
    console = Console(stderr=True)
    if not (is_wanted and console.is_terminal):
        yield lambda _done: None
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit)
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task(description, total=total, completed=done)
        yield lambda done: bar.update(task, completed=done)
