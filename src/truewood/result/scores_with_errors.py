"""Scores with their errors, and what these say: p-values, intervals, and which features are chosen by them."""

from __future__ import annotations

from operator import index

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from truewood.arguments import is_fraction
from truewood.inference.intervals import find_interval
from truewood.inference.multiplicity import adjust, mirror
from truewood.words import quote


class ScoresWithErrors:
    """What can be asked of scores and their errors; a result says what these are.

    Attributes
    ----------
    values, std_error, test_error, total_error, no_inference
        As of `ImportanceResult`.
    """

    values: NDArray[np.float64]
    std_error: NDArray[np.float64]
    test_error: NDArray[np.float64]
    total_error: float
    no_inference: str | None

    @property
    def order(self) -> NDArray[np.int64]:
        """Numbers of the features, the most important first, shape (n_features,); of equal scores the earlier one."""
        return np.argsort(-self.values, kind="stable")

    @property
    def z_score(self) -> NDArray[np.float64]:
        """Scores in units of `test_error`, shape (n_features,); 0 for features that no split uses."""
        return np.divide(self.values, self.test_error, out=np.zeros(len(self.values)), where=self.test_error != 0)

    @property
    def p_value(self) -> NDArray[np.float64]:
        """One-sided p-values, shape (n_features,): the probability of such a score if the feature says nothing.

        1 for features that no split uses, NaN without inference.
        """
        return np.where(self.test_error == 0, 1.0, norm.sf(self.z_score))

    @property
    def total_p_value(self) -> float:
        """One-sided p-value of all features together: does the model see anything that holds for unseen rows?

        Importances of a model that sees nothing mean nothing. 1 for a model without splits, NaN without inference and
        for "sobol_mda".
        """
        return 1.0 if self.total_error == 0 else float(norm.sf(self.values.sum() / self.total_error))

    def interval(self, level: float = 0.95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Confidence intervals of the expected scores.

        Out of bag the upper end is further away: a score varies more, the larger the expected score is.

        Parameters
        ----------
        level : float, default=0.95
            Share of data sets whose interval holds the expected score.

        Returns
        -------
        low, high : ndarray of shape (n_features,)
            The ends.
        """
        self._require_inference()
        if not is_fraction(level):
            raise ValueError(f"level must lie between 0 and 1, got {quote(level)}.")
        return find_interval(self.values, self.test_error, self.std_error, level)

    def adjusted_p_value(self, correction: str | None = "bh") -> NDArray[np.float64]:
        """P-values adjusted for testing all features at once.

        Parameters
        ----------
        correction : {"bh", "by", "holm"} or None, default="bh"
            Benjamini & Hochberg (false discovery rate), Benjamini & Yekutieli (the same under any dependence), Holm
            (probability of any false discovery), or no adjustment.

        Returns
        -------
        ndarray of shape (n_features,)
        """
        self._require_inference()
        return adjust(self.p_value, correction)

    def mirror_p_value(self) -> NDArray[np.float64]:
        """P-values from all scores together: their null distribution is that of the scores that are not positive.

        The test of Janitza, Celik & Boulesteix (2018), for many features of which most say nothing. z-scores are
        mirrored, as scores of different kinds of features differ in spread; without inference, scores themselves.

        Returns
        -------
        ndarray of shape (n_features,)
        """
        return mirror(self.values if self.no_inference is not None else self.z_score)

    def _require_inference(self) -> None:
        if self.no_inference is not None:
            raise ValueError(f"this result has no standard errors and p-values: {self.no_inference}.")

    def select(self, alpha: float = 0.05, correction: str | None = "bh", *, k: int | None = None) -> NDArray[np.bool_]:
        """Choose features by adjusted p-value, or the k of largest score.

        Parameters
        ----------
        alpha : float, default=0.05
            Largest adjusted p-value that is chosen. Features that are only correlated with useful ones pass, too.
        correction : {"bh", "by", "holm"} or None, default="bh"
            Adjustment, see `adjusted_p_value`.
        k : int, default=None
            Number of features; if given, the k largest scores are chosen whatever their p-value.

        Returns
        -------
        ndarray of bool, shape (n_features,)
            Mask of the chosen features; of equal scores the earlier feature is chosen.
        """
        if k is None:
            if not is_fraction(alpha, or_one=True):
                raise ValueError(f"alpha must lie between 0 and 1, got {quote(alpha)}.")
            return self.adjusted_p_value(correction) <= alpha
        if not 0 <= index(k) <= len(self.values):
            raise ValueError(f"k must lie between 0 and the number of features, {len(self.values)}, got {k}.")
        return np.isin(np.arange(len(self.values)), self.order[:k])
