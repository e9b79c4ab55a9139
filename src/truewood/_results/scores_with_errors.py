"""Scores with their standard errors: p-values, intervals, selection, and tables of them."""

from __future__ import annotations

from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from truewood._arguments import is_fraction
from truewood._formatting import quote
from truewood._inference.p_values import adjust, find_interval, find_p_value, find_z_score, janitza
from truewood._read_only import make_read_only, restore_read_only

if TYPE_CHECKING:
    from truewood._results.importance_result import ImportanceResult


class ScoresWithErrors:
    """What can be asked of scores and their errors; a result says what these are.

    Attributes
    ----------
    values, std_error, null_std_error, total_error, inference_unavailable
        As of `ImportanceResult`.
    """

    values: NDArray[np.float64]
    std_error: NDArray[np.float64]
    null_std_error: NDArray[np.float64]
    total_error: float
    inference_unavailable: str | None

    @property
    def order(self) -> NDArray[np.int64]:
        """Numbers of the features, the most important first, shape (n_features,); of equal scores the earlier one."""
        return np.argsort(-self.values, kind="stable")

    @property
    def z_score(self) -> NDArray[np.float64]:
        """Scores in units of `null_std_error`, shape (n_features,); 0 for features that no split uses."""
        return find_z_score(self.values, self.null_std_error)

    @property
    def p_value(self) -> NDArray[np.float64]:
        """One-sided p-values, shape (n_features,): the probability of such a score if the feature says nothing.

        1 for features that no split uses, NaN without inference.
        """
        return find_p_value(self.values, self.null_std_error)

    @property
    def total_p_value(self) -> float:
        """One-sided p-value of all features together: does the model see anything that holds for unseen rows?

        Importances of a model that sees nothing mean nothing. 1 for a model without splits, NaN without inference and
        for "sobol_mda".
        """
        return float(find_p_value(self.values.sum(), self.total_error))

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
        return find_interval(self.values, self.null_std_error, self.std_error, level)

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

    def janitza_p_value(self) -> NDArray[np.float64]:
        """P-values from all scores together: their null distribution is that of the scores that are not positive.

        The test of Janitza, Celik & Boulesteix (2018), for many features of which most say nothing. z-scores are
        mirrored, as scores of different kinds of features differ in spread; without inference, scores themselves.

        Returns
        -------
        ndarray of shape (n_features,)
        """
        return janitza(self.values if self.inference_unavailable is not None else self.z_score)

    def _require_inference(self) -> None:
        if self.inference_unavailable is not None:
            raise ValueError(f"this result has no standard errors and p-values: {self.inference_unavailable}.")

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


def make_frame(result: ImportanceResult) -> pd.DataFrame:
    """Make the table; see `ImportanceResult.frame`."""
    columns: dict[str, Any] = {
        "feature": result.feature_names.tolist(),
        "importance": result.values,
        "share": result.share,
    }
    if result.inference_unavailable is None:
        low, high = result.interval()
        columns |= {"std_error": result.std_error, "ci_low": low, "ci_high": high, "p_value": result.p_value}
    columns |= {
        "rank": rankdata(-result.values, method="min").astype(int),
        "mdi": result.mdi,
        "mdi_rank": rankdata(-result.mdi, method="min").astype(int),
    }
    if result.per_fold is not None and len(result.per_fold) > 1:
        columns["fold_std"] = result.per_fold.std(axis=0, ddof=1)
    return pd.DataFrame(columns).iloc[result.order].reset_index(drop=True)


def make_class_frame(result: ImportanceResult) -> pd.DataFrame:
    """Make the table of scores by class, feature after feature; see `ImportanceResult.frame`."""
    parts = result.require_classes()
    columns = {"importance": parts.values}
    if result.inference_unavailable is None:
        low, high = parts.interval()
        columns |= {"std_error": parts.std_error, "ci_low": low, "ci_high": high, "p_value": parts.p_value}
    n_classes, order = len(parts.names), result.order
    names = {
        "feature": np.repeat(result.feature_names[order], n_classes).tolist(),
        "class": np.tile(parts.names, len(order)).tolist(),
    }
    return pd.DataFrame(names | {name: numbers[:, order].T.ravel() for name, numbers in columns.items()})


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
    null_std_error : ndarray of shape (n_classes, n_features)
        Their spread around zero if the feature says nothing; what `p_value` goes by.
    """

    names: NDArray[np.str_]
    values: NDArray[np.float64]
    std_error: NDArray[np.float64]
    null_std_error: NDArray[np.float64]

    def __post_init__(self) -> None:
        make_read_only(self)

    @property
    def p_value(self) -> NDArray[np.float64]:
        """One-sided p-values, shape (n_classes, n_features); 1 where no split is, NaN without inference."""
        return find_p_value(self.values, self.null_std_error)

    def interval(self, level: float = 0.95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Confidence intervals of the expected parts, two arrays of shape (n_classes, n_features)."""
        return find_interval(self.values, self.null_std_error, self.std_error, level)

    __setstate__ = restore_read_only
