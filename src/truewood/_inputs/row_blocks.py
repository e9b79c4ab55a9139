"""Work on blocks of rows, on several threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

# Rows per block: a block of a few columns fits into the processor's cache.
_BLOCK_ROWS = 1 << 16


def map_blocks(function: Callable[[slice], T], n_rows: int, n_threads: int = 1) -> list[T]:
    """Call ``function(rows)`` for blocks of consecutive rows, and return the results in their order.

    Blocks do not depend on the number of threads. numpy releases the GIL while it works on arrays of numbers.
    """
    blocks = [slice(start, min(start + _BLOCK_ROWS, n_rows)) for start in range(0, n_rows, _BLOCK_ROWS)]
    if n_threads == 1 or len(blocks) < 2:
        return list(map(function, blocks))
    with ThreadPoolExecutor(min(n_threads, len(blocks))) as pool:
        return list(pool.map(function, blocks))
