"""What single rows contribute to the scores, in both of their roles, and what trees owe to their bags."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BagEffect:
    """What the scores of trees owe to their bags, if rows change means at the nodes and nothing else.

    Parameters
    ----------
    L : ndarray of shape (n_first, n_columns)
        For the first trees b, times the number of all trees: L_b, the sum over the measured rows of psi less its mean,
        times how much more weight the row has in this tree than on average, as a share of that.
    r : float
        Variance of that share over trees, on average over rows: 1 for bootstrap samples of all rows.
    """

    L: Floats
    r: float


@dataclass(frozen=True, eq=False)
class Contributions:
    """What rows contribute to the scores of single columns, times the sum of the trees' weights.

    Parameters
    ----------
    rows : ndarray of int
        The measured rows.
    phi : ndarray of shape (len(rows), n_columns)
        What they add where they score trees.
    psi : ndarray of shape (len(rows), n_columns), or None
        What they add where they grew trees; None where only unseen rows were passed.
    is_scoring : ndarray of bool, shape (len(rows),)
        Which of them score any tree, or may.
    n_scoring : int
        Number of all rows that do, measured or not.
    bag_effect : BagEffect or None
        What trees owe to their bags; None without `psi`.
    """

    rows: NDArray[np.int64]
    phi: Floats
    psi: Floats | None
    is_scoring: NDArray[np.bool_]
    n_scoring: int
    bag_effect: BagEffect | None
