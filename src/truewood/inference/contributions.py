"""What single rows contribute to the scores, in both of their roles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Contributions:
    """What a block of rows contributes to the scores of single columns, times the sum of the trees' weights.

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
    """

    phi: Floats
    psi: Floats | None
    is_scoring: NDArray[np.bool_]
    n_scoring: int
    bags: NDArray[np.float32] | None
