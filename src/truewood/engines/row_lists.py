"""`RowLists`: the rows to send down each of some trees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class RowLists:
    """The rows that score each of some trees.

    Parameters
    ----------
    index : ndarray of int64, shape (n,)
        Row numbers, those of the first tree first. A row may be listed several times.
    offset : ndarray of int64, shape (n_trees + 1,)
        Tree t takes ``index[offset[t]:offset[t + 1]]``.
    """

    index: NDArray[np.int64]
    offset: NDArray[np.int64]

    @classmethod
    def join(cls, lists: list[NDArray[np.int64]]) -> RowLists:
        """Put the lists of several trees behind each other."""
        index = lists[0] if len(lists) == 1 else np.concatenate(lists)
        return cls(np.ascontiguousarray(index, dtype=np.int64), np.cumsum([0, *map(len, lists)], dtype=np.int64))

    @classmethod
    def of_every_row(cls, n_rows: int, n_trees: int) -> RowLists:
        """All rows for each tree."""
        index = np.tile(np.arange(n_rows, dtype=np.int64), n_trees)
        return cls(index, np.arange(n_trees + 1, dtype=np.int64) * n_rows)

    def of_tree(self, tree: int) -> NDArray[np.int64]:
        """Rows of one tree."""
        return self.index[self.offset[tree] : self.offset[tree + 1]]
