"""What single rows contribute to the scores, in both of their roles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood.data.row_groups import sum_groups

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Contributions:
    """What a block of rows contributes to the scores of single columns, times the sum of the trees' weights.

    With the engine "cuda", `phi`, `psi` and `bags` may be arrays on the GPU.

    Parameters
    ----------
    phi : ndarray of shape (n_rows, n_columns)
        What the rows add where they score trees.
    psi : ndarray of shape (n_rows, n_columns), or None
        What they add where they grew trees; None where only unseen rows were passed.
    is_scoring : ndarray of bool, shape (n_rows,)
        Which of them score any tree, or may.
    n_scoring : int
        Number of all rows that do, in this block and in others.
    bags : ndarray of float32, shape (n_first, n_rows), or None
        For the first trees, the weight of each row in the tree's fit; None without `psi`.
    size : ndarray of float64, shape (n_rows,), or None
        Where these are groups of rows, the number of rows of each that score any tree; None where each is one row.
    """

    phi: Floats
    psi: Floats | None
    is_scoring: NDArray[np.bool_]
    n_scoring: int
    bags: NDArray[np.float32] | None
    size: Floats | None = None


def sum_row_groups(blocks: Iterable[Contributions], row_groups: NDArray[np.int64]) -> Contributions:
    """What groups of rows contribute: sums over their rows that score, which may be in several blocks.

    Parameters
    ----------
    blocks : iterable of Contributions
        What all rows contribute, one block after the other.
    row_groups : ndarray of int64, shape (n_rows,)
        The group of each row.
    """
    n_groups, start, n_scoring = int(row_groups.max()) + 1, 0, 0
    size, parts = np.zeros(n_groups), dict[str, NDArray[Any]]()
    for block in blocks:
        own = row_groups[start : start + len(block.phi)][block.is_scoring]
        start, n_scoring = start + len(block.phi), block.n_scoring
        size += np.bincount(own, minlength=n_groups)
        bags = None if block.bags is None else block.bags.T
        for name, values in (("phi", block.phi), ("psi", block.psi), ("bags", bags)):
            if values is not None:
                summed = sum_groups(values[block.is_scoring], own, n_groups)
                parts[name] = parts[name] + summed if name in parts else summed
    bags = np.ascontiguousarray(parts["bags"].T) if "bags" in parts else None
    return Contributions(parts["phi"], parts.get("psi"), size > 0, n_scoring, bags, size)
