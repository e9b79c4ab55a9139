"""`RowProducts`: sums over rows of products of what they contribute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RowProducts:
    """Sums over rows of products of their contributions; see `inference.moments.Moments`.

    Parameters
    ----------
    phi_phi, phi_psi, psi_psi : ndarray of shape (n_columns,)
        By column.
    phi_sum : ndarray of shape (n_columns,)
        Sums of the contributions themselves, each minus its mean: zero, but for rounding, over all rows of a score.
    total_phi_phi, total_phi_psi : float
        Of the sums over columns.
    K, L : ndarray of shape (n_bags, n_columns)
        Sums of d phi and of d psi, where d is how much more weight a row has in the bag than on average, as a share of
        that.
    d_d : ndarray of shape (n_bags,)
        Sums of d^2.
    n_grown : int
        Number of rows that are in any bag.
    """

    phi_phi: Floats
    phi_psi: Floats
    psi_psi: Floats
    phi_sum: Floats
    total_phi_phi: float
    total_phi_psi: float
    K: Floats
    L: Floats
    d_d: Floats
    n_grown: int
