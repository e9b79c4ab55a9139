"""`RowData`: the caller's rows, validated and encoded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truewood._inputs.tables import FeatureMatrix
from truewood._inputs.target import Target


@dataclass(frozen=True, eq=False)
class RowData:
    """The caller's rows, validated and encoded.

    Parameters
    ----------
    matrix : FeatureMatrix
        Their features.
    target : ClassTarget or NumberTarget
        The target of the trees.
    weight : ndarray of shape (n_rows,), or None
        Their weights; None if every row counts once.
    """

    matrix: FeatureMatrix
    target: Target
    weight: NDArray[np.float64] | None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.matrix.n_rows
