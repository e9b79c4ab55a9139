"""`ClassScores`: the parts that classes have in the scores of a result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from truewood.frozen import freeze_arrays, restore_frozen
from truewood.inference.intervals import find_interval


@dataclass(frozen=True, eq=False)
class ClassScores:
    """How much each feature is worth to a model in telling each class.

    Attributes
    ----------
    names : ndarray of str, shape (n_classes,)
        Labels of the classes; of several outputs, the output and the label.
    values : ndarray of shape (n_classes, n_features)
        Parts of the scores, which sum over classes to the scores.
    std_error : ndarray of shape (n_classes, n_features)
        Their standard errors; NaN without inference.
    test_error : ndarray of shape (n_classes, n_features)
        Their spread around zero if the feature says nothing; what `p_value` goes by.
    """

    names: NDArray[np.str_]
    values: NDArray[np.float64]
    std_error: NDArray[np.float64]
    test_error: NDArray[np.float64]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @property
    def p_value(self) -> NDArray[np.float64]:
        """One-sided p-values, shape (n_classes, n_features); 1 where no split is, NaN without inference."""
        is_used = self.test_error != 0
        z_score = np.divide(self.values, self.test_error, out=np.zeros_like(self.values), where=is_used)
        return np.where(is_used, norm.sf(z_score), 1.0)

    def interval(self, level: float = 0.95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Confidence intervals of the expected parts, two arrays of shape (n_classes, n_features)."""
        return find_interval(self.values, self.test_error, self.std_error, level)

    __setstate__ = restore_frozen
