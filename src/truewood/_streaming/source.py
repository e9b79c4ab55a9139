"""`Source`: rows that are read batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

# Values in a batch, and its largest and smallest number of rows.
_BATCH_VALUES = 1 << 22
_MOST_ROWS = 1 << 17
_FEWEST_ROWS = 1 << 10

# Exceptions that Arrow raises for damaged files, including sizes that exceed all memory.
_ARROW_ERRORS = (OSError, ValueError, LookupError, TypeError, NotImplementedError, MemoryError)

# The file that rows come from ("" if unknown), for error messages, and a table of the rows.
Batch = tuple[str, Any]


@dataclass(frozen=True, eq=False)
class Source:
    """Rows that are read batch by batch.

    Parameters
    ----------
    names : list of str
        Names of the columns.
    read : callable
        ``read(columns, n_rows)`` yields batches of some columns, with at most `n_rows` rows each.
    can_repeat : bool
        Whether the rows can be read again from the start.
    n_rows : int or None
        Number of rows, if known before they are read.
    """

    names: list[str]
    read: Callable[[list[str], int], Iterator[Batch]]
    can_repeat: bool = True
    n_rows: int | None = None

    def read_batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Small batches of some columns, with at least one row each."""
        for label, table in self.read(list(columns), choose_batch_rows(len(columns))):
            if table.shape[0]:
                yield label, table


def choose_batch_rows(n_columns: int) -> int:
    """Number of rows to process at a time."""
    return min(_MOST_ROWS, max(_FEWEST_ROWS, _BATCH_VALUES // max(1, n_columns)))


def join_tables(tables: Iterator[Any], n_rows: int) -> Iterator[Any]:
    """Concatenate small pyarrow tables to about `n_rows` rows, because each pass down the trees has a fixed cost."""
    import pyarrow as pa

    waiting, n_waiting = list[Any](), 0
    for table in tables:
        if table.num_rows:
            waiting.append(table)
            n_waiting += table.num_rows
        if 2 * n_waiting >= n_rows:
            yield pa.concat_tables(waiting)
            waiting, n_waiting = [], 0
    if waiting:
        yield pa.concat_tables(waiting)


@contextmanager
def name_errors(what: str, kinds: tuple[type[BaseException], ...] = _ARROW_ERRORS) -> Iterator[None]:
    """Turn errors of a library, by default Arrow, into one line that begins with what failed."""
    try:
        yield
    except kinds as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise ValueError(f"{what}: {reason}.") from error
