"""`Source`: rows that are read batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

# Numbers of a batch, and rows at most and at least.
_BATCH_VALUES = 1 << 22
_MOST_ROWS = 1 << 17
_FEWEST_ROWS = 1 << 10


@dataclass(frozen=True)
class Batch:
    """Some rows of a source.

    Parameters
    ----------
    label : str
        Where they are, for messages: a file, or "" where there is nothing to say.
    table : data frame
        The columns that were asked for.
    """

    label: str
    table: Any


@dataclass(frozen=True, eq=False)
class Source:
    """Rows that are read batch by batch.

    Parameters
    ----------
    names : list of str
        Names of the columns.
    read : callable
        ``read(columns, n_rows)`` gives batches of some columns, of at most so many rows.
    can_repeat : bool
        Whether it can be read again from the start.
    n_rows : int or None
        Number of rows, where that is known before they are read.
    """

    names: list[str]
    read: Callable[[list[str], int], Iterator[Batch]]
    can_repeat: bool = True
    n_rows: int | None = None

    def read_batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Batches of some columns that are small, each with at least one row."""
        for batch in self.read(list(columns), choose_batch_rows(len(columns))):
            if batch.table.shape[0]:
                yield batch


def choose_batch_rows(n_columns: int) -> int:
    """Number of rows that are worked on at once."""
    return min(_MOST_ROWS, max(_FEWEST_ROWS, _BATCH_VALUES // max(1, n_columns)))


def join_tables(tables: Iterator[Any], n_rows: int) -> Iterator[Any]:
    """Tables of pyarrow with the rows of several, about so many: a pass down all trees takes a while to begin."""
    import pyarrow as pa

    waiting: list[Any] = []
    for table in tables:
        if table.num_rows:
            waiting.append(table)
        if 2 * sum(one.num_rows for one in waiting) >= n_rows:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def cut(label: str, table: Any, n_rows: int) -> Iterator[Batch]:
    """Parts of a table of pyarrow or polars of at most so many rows."""
    for start in range(0, table.shape[0], n_rows):
        yield Batch(label, table.slice(start, n_rows))


# What Arrow raises on damaged files, sizes that no memory holds among them.
_OF_ARROW = (OSError, ValueError, LookupError, TypeError, NotImplementedError, MemoryError)


@contextmanager
def name_errors(what: str, kinds: tuple[type[BaseException], ...] = _OF_ARROW) -> Iterator[None]:
    """Errors of a library, those of Arrow if nothing else is said, as one line that begins with what went wrong."""
    try:
        yield
    except kinds as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise ValueError(f"{what}: {reason}.") from error
