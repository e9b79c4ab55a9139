"""Scores with standard errors: p-values, intervals and selection."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from truewood._arguments import is_count, is_fraction, read_flag
from truewood._formatting import quote
from truewood._inference.p_values import adjust, find_interval, find_p_value, find_z_score, janitza
from truewood._read_only import make_read_only, restore_read_only

if TYPE_CHECKING:
    from truewood._results.importance_result import ImportanceResult


class ScoresWithErrors:
    """Tests, intervals and selection from scores and their standard errors.

    Attributes
    ----------
    values, share, std_error, null_std_error, total_error, residual_values, residual_std_error, inference_unavailable
        See `ImportanceResult`.
    """

    values: NDArray[np.float64]
    share: NDArray[np.float64]
    std_error: NDArray[np.float64]
    null_std_error: NDArray[np.float64]
    total_error: float
    residual_values: NDArray[np.float64] | None
    residual_std_error: NDArray[np.float64] | None
    inference_unavailable: str | None

    @property
    def order(self) -> NDArray[np.int64]:
        """Indices of the features, the most important first, shape (n_features,); ties keep the order of columns."""
        return np.argsort(-self.values, kind="stable")

    @property
    def z_score(self) -> NDArray[np.float64]:
        """Scores divided by `null_std_error`, shape (n_features,); 0 for features that no split uses.

        With ``inference="residual"``, `residual_values` divided by `residual_std_error`.
        """
        return find_z_score(*self._tested)

    @property
    def p_value(self) -> NDArray[np.float64]:
        """One-sided p-values, shape (n_features,).

        The probability of a score at least this large if the feature had no predictive power; 1 for features that no
        split uses, NaN without inference. With ``inference="residual"``, these are p-values of the residual test.
        """
        return find_p_value(*self._tested)

    @property
    def _tested(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What is tested, and its standard error if the feature has no predictive power."""
        if self.residual_values is None or self.residual_std_error is None:
            return self.values, self.null_std_error
        return self.residual_values, self.residual_std_error

    @property
    def total_p_value(self) -> float:
        """One-sided p-value of all features together: do the splits predict the target on evaluation rows?

        If they do not, the importances are meaningless. 1 for a model without splits, NaN without inference and for
        "sobol_mda".
        """
        return float(find_p_value(self.values.sum(), self.total_error))

    def interval(self, level: float = 0.95, *, share: bool = False) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return confidence intervals of the expected scores.

        For out-of-bag rows, the upper end is farther from the score than the lower end, because scores vary more if the
        expected score is larger.

        Parameters
        ----------
        level : float, default=0.95
            Confidence level: the share of data sets whose interval contains the expected score.
        share : bool, default=False
            Whether to return intervals of the shares that features explain. A feature cannot explain less than 0% or
            more than 100%, so both ends are clipped to the range from 0 to 1. Scores and their intervals are not
            clipped.

        Returns
        -------
        low, high : ndarray of shape (n_features,)
            Lower and upper ends.
        """
        self._require_inference()
        low, high = find_interval(self.values, self.null_std_error, self.std_error, level)
        if not read_flag(share, "share"):
            return low, high
        factor = find_share_factor(self.values, self.share)
        if math.isnan(factor):
            raise ValueError("share=True needs a result with shares, but this one has none; leave it out.")
        return np.clip(factor * low, 0.0, 1.0), np.clip(factor * high, 0.0, 1.0)

    def adjusted_p_value(self, correction: str | None = "bh") -> NDArray[np.float64]:
        """Return p-values adjusted for testing all features at once.

        Parameters
        ----------
        correction : {"bh", "by", "holm"} or None, default="bh"
            Benjamini-Hochberg (false discovery rate), Benjamini-Yekutieli (the same under any dependence), Holm
            (probability of any false discovery), or no adjustment.

        Returns
        -------
        ndarray of shape (n_features,)
        """
        self._require_inference()
        return adjust(self.p_value, correction)

    def janitza_p_value(self) -> NDArray[np.float64]:
        """Return p-values from a null distribution made of the scores that are not positive and their mirror images.

        This is the test of Janitza, Celik & Boulesteix (2018), for many features that mostly lack predictive power. The
        distribution consists of z-scores, because the spread of scores differs between features; without inference, it
        consists of the scores themselves.

        Returns
        -------
        ndarray of shape (n_features,)
        """
        return janitza(self.values if self.inference_unavailable is not None else self.z_score)

    def _require_inference(self) -> None:
        if self.inference_unavailable is not None:
            raise ValueError(f"this result has no standard errors or p-values: {self.inference_unavailable}.")

    def select(self, alpha: float = 0.05, correction: str | None = "bh", *, k: int | None = None) -> NDArray[np.bool_]:
        """Select features by adjusted p-value, or the k features with the largest scores.

        Parameters
        ----------
        alpha : float, default=0.05
            Significance level: features with an adjusted p-value of at most `alpha` are selected.
            Features that are merely correlated with useful ones pass, too.
        correction : {"bh", "by", "holm"} or None, default="bh"
            Adjustment, see `adjusted_p_value`.
        k : int, default=None
            Number of features to select by score, regardless of p-values.

        Returns
        -------
        ndarray of bool, shape (n_features,)
            Mask of the selected features; in case of ties the earlier feature is selected.
        """
        if k is None:
            if not is_fraction(alpha, or_one=True):
                raise ValueError(f"alpha must lie between 0 and 1, got {quote(alpha)}; pass 0.05 for a 5% level.")
            return self.adjusted_p_value(correction) <= alpha
        if not is_count(k, 0) or k > len(self.values):
            raise ValueError(
                f"k must be a whole number from 0 to the number of features, {len(self.values)}, got {quote(k)}."
            )
        return np.isin(np.arange(len(self.values)), self.order[:k])


def find_share_factor(values: NDArray[np.float64], share: NDArray[np.float64]) -> float:
    """The share of a score of 1; 0 if all scores are 0, NaN if scores are not shares."""
    if np.isnan(share).all():
        return math.nan
    largest = int(np.argmax(np.abs(values)))
    return float(share[largest] / values[largest]) if values[largest] != 0 else 0.0


def get_classes(result: ImportanceResult) -> ClassScores:
    """Return the scores by class, or raise an error that explains how to get them."""
    if result.classes is None:
        raise ValueError("this result has no scores by class; call importance(..., per_class=True).")
    return result.classes


@dataclass(frozen=True, eq=False)
class ClassScores:
    """Feature importances by class, with standard errors.

    Attributes
    ----------
    names : ndarray of str, shape (n_classes,)
        Class labels; with several outputs, the output and the label.
    values : ndarray of shape (n_classes, n_features)
        Scores by class; their sum over classes is the score of the feature.
    std_error : ndarray of shape (n_classes, n_features)
        Standard errors; NaN without inference.
    null_std_error : ndarray of shape (n_classes, n_features)
        Standard errors under the null hypothesis that the feature has no predictive power, used by `p_value`.
    """

    names: NDArray[np.str_]
    values: NDArray[np.float64]
    std_error: NDArray[np.float64]
    null_std_error: NDArray[np.float64]

    def __post_init__(self) -> None:
        make_read_only(self)

    @property
    def p_value(self) -> NDArray[np.float64]:
        """One-sided p-values, shape (n_classes, n_features); 1 for features without splits, NaN without inference."""
        return find_p_value(self.values, self.null_std_error)

    def interval(self, level: float = 0.95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return confidence intervals of the expected scores.

        Parameters
        ----------
        level : float, default=0.95
            Confidence level.

        Returns
        -------
        low, high : ndarray of shape (n_classes, n_features)
            Lower and upper ends.
        """
        return find_interval(self.values, self.null_std_error, self.std_error, level)

    __setstate__ = restore_read_only
