"""`RowLists`: the rows of each of several trees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class RowLists:
    """Row numbers for each of several trees.

    Parameters
    ----------
    index : ndarray of int64, shape (n,)
        Row numbers of all trees, concatenated. A row may occur several times.
    offset : ndarray of int64, shape (n_trees + 1,)
        The rows of tree t are ``index[offset[t]:offset[t + 1]]``.
    """

    index: NDArray[np.int64]
    offset: NDArray[np.int64]

    @classmethod
    def join(cls, lists: list[NDArray[np.int64]]) -> RowLists:
        """Concatenate one list per tree."""
        index = lists[0] if len(lists) == 1 else np.concatenate(lists)
        return cls(np.ascontiguousarray(index, dtype=np.int64), np.cumsum([0, *map(len, lists)], dtype=np.int64))

    @classmethod
    def of_every_row(cls, n_rows: int, n_trees: int) -> RowLists:
        """List all rows for each tree."""
        index = np.tile(np.arange(n_rows, dtype=np.int64), n_trees)
        return cls(index, np.arange(n_trees + 1, dtype=np.int64) * n_rows)

    def of_tree(self, tree: int) -> NDArray[np.int64]:
        """Return the rows of one tree."""
        return self.index[self.offset[tree] : self.offset[tree + 1]]
