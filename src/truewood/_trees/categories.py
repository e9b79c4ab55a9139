"""`Categories`: categorical splits, stored as bitsets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._formatting import list_names
from truewood._read_only import copy_integers, make_read_only

_WORD = 32


@dataclass(frozen=True, eq=False)
class Categories:
    """Categorical splits: a set of categories goes left, all other values go right.

    Parameters
    ----------
    node_set : ndarray of int32, shape (n_nodes,)
        Index of the set that goes left, -1 for a threshold split.
    offset : ndarray of int64, shape (n_sets + 1,)
        Set s is ``bits[offset[s]:offset[s + 1]]``.
    bits : ndarray of uint32, shape (n_words,)
        Category k is in a set if bit ``k % 32`` of word ``k // 32`` of the set is 1.
    """

    node_set: NDArray[np.int32]
    offset: NDArray[np.int64]
    bits: NDArray[np.uint32]

    def __post_init__(self) -> None:
        for name, dtype in (("node_set", np.int32), ("offset", np.int64), ("bits", np.uint32)):
            object.__setattr__(self, name, copy_integers(name, getattr(self, name), dtype))
        make_read_only(self)
        for name in ("node_set", "offset", "bits"):
            if getattr(self, name).ndim != 1:
                raise ValueError(f"{name} must have one dimension, got shape {getattr(self, name).shape}.")
        n_sets = len(self.offset) - 1
        if n_sets < 0 or self.offset[0] != 0 or self.offset[-1] != len(self.bits) or (np.diff(self.offset) < 0).any():
            raise ValueError(
                f"offset must rise from 0 to the number of words in bits, {len(self.bits)}, got "
                f"{list_names(list(map(str, self.offset)), 5)}."
            )
        if len(self.node_set) and not -1 <= self.node_set.min() <= self.node_set.max() < n_sets:
            raise ValueError(
                f"node_set must lie in -1..{n_sets - 1}, got {self.node_set.min()} to {self.node_set.max()}."
            )

    @classmethod
    def from_lists(cls, n_nodes: int, nodes: Sequence[int], lists: Iterable[Sequence[int]]) -> Categories | None:
        """Build from the categories that go left, one list per categorical node; None without such nodes."""
        if not len(nodes):
            return None
        node_set = np.full(n_nodes, -1, dtype=np.int32)
        node_set[np.asarray(nodes)] = np.arange(len(nodes))
        words = [_to_words(np.asarray(categories, dtype=np.int64)) for categories in lists]
        return cls(node_set, np.cumsum([0, *map(len, words)]), np.concatenate(words))

    def holds(self, nodes: NDArray[Any], x: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether each value is a category in the set of its node; False for threshold splits."""
        if not len(self.bits):
            return np.zeros(np.shape(nodes), dtype=np.bool_)  # all sets are empty
        chosen = self.node_set[nodes]
        start, n_words = self.offset[chosen], np.diff(self.offset)[chosen]
        with np.errstate(invalid="ignore"):
            is_within = (chosen >= 0) & (x >= 0) & (x < n_words * _WORD)
        category = np.where(is_within, x, 0).astype(np.int64)
        word = self.bits[np.where(is_within, start + category // _WORD, 0)]
        is_in: NDArray[np.bool_] = is_within & ((word >> (category % _WORD).astype(np.uint32)) & 1).astype(np.bool_)
        return is_in

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickle through __init__, which validates the arrays and makes them read-only.
        return Categories, (self.node_set, self.offset, self.bits)

    def __getitem__(self, nodes: slice) -> Categories:
        return Categories(self.node_set[nodes], self.offset, self.bits)


def _to_words(categories: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Categories as a bitset of at least one word, even if it is empty."""
    if len(categories) and categories.min() < 0:
        raise ValueError(f"categories must not be negative, got {categories.min()}.")
    words = np.zeros(1 + (int(categories.max()) // _WORD if len(categories) else 0), dtype=np.uint32)
    np.bitwise_or.at(words, categories // _WORD, np.uint32(1) << (categories % _WORD).astype(np.uint32))
    return words
