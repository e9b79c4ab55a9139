"""`RowData`: the rows that the caller passed, as they are scored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truewood.data.tables import FeatureMatrix
from truewood.data.target import Target


@dataclass(frozen=True, eq=False)
class RowData:
    """The rows that were passed.

    Parameters
    ----------
    matrix : FeatureMatrix
        Their features.
    target : ClassTarget or NumberTarget
        What the trees are scored by.
    weight : ndarray of shape (n_rows,), or None
        Their weights when they score; None where every row counts once.
    """

    matrix: FeatureMatrix
    target: Target
    weight: NDArray[np.float64] | None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.matrix.n_rows
