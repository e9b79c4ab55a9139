"""`RowProducts`: sums over rows of products of their influence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RowProducts:
    """Sums over rows of products of their influence; see `Moments`.

    In the formulas, phi is a row's influence on the trees it evaluates and psi its influence on the trees it is in bag
    for.

    Parameters
    ----------
    eval_eval, eval_inbag, inbag_inbag : ndarray of shape (n_columns,)
        Sums of phi phi, phi psi and psi psi by column.
    eval_sum : ndarray of shape (n_columns,)
        Sums of phi minus its mean: zero up to rounding, over all rows of a score.
    total_eval_eval, total_eval_inbag : float
        Sums of phi phi and phi psi for the influence on the sum of all columns.
    K, L : ndarray of shape (n_bags, n_columns)
        Sums of d phi and of d psi, where d is the row's weight in the bag relative to its mean over bags, minus 1.
    d_d : ndarray of shape (n_bags,)
        Sums of d^2.
    n_inbag : int
        Number of rows that are in at least one bag.
    """

    eval_eval: Floats
    eval_inbag: Floats
    inbag_inbag: Floats
    eval_sum: Floats
    total_eval_eval: float
    total_eval_inbag: float
    K: Floats
    L: Floats
    d_d: Floats
    n_inbag: int
