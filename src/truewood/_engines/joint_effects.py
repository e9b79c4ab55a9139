"""Pairs of features, and the effects that engines compute for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PairedFeatures:
    """The pairs of features to compute joint effects of.

    Parameters
    ----------
    feature_of : ndarray of int32, shape (n_columns,)
        Feature of each column; negative if no effect of it is computed.
    pair_of : ndarray of int32, shape (n_features, n_features)
        Number of each pair; negative if it is not requested. Empty if there are no pairs.
    n_pairs : int
        Number of pairs; without any, only predictions and main effects are computed.
    """

    feature_of: NDArray[np.int32]
    pair_of: NDArray[np.int32]
    n_pairs: int


@dataclass(frozen=True, eq=False)
class JointEffects:
    """Sums over trees of predictions and effects; engines add to them.

    Parameters
    ----------
    prediction : ndarray of shape (n_rows, n_columns)
        The prediction f.
    main : ndarray of shape (n_rows, n_features, n_columns)
        f - P_j f for each feature j: what splits on j add.
    joint : ndarray of shape (n_rows, n_pairs, n_columns)
        f - P_j f - P_k f + P_jk f for each pair: what splits on j and k add together.
    """

    prediction: Floats
    main: Floats
    joint: Floats

    @classmethod
    def zeros(cls, n_rows: int, n_features: int, n_pairs: int, n_columns: int) -> JointEffects:
        """Allocate zeros."""
        return cls(
            np.zeros((n_rows, n_columns)),
            np.zeros((n_rows, n_features, n_columns)),
            np.zeros((n_rows, n_pairs, n_columns)),
        )
