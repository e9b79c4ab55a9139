"""How well a model predicts rows it never saw, and whether that is better than chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class ModelPerformance:
    """A score of predictions, what chance would score, and how sure that is.

    Parameters
    ----------
    name : {"AUC", "one-vs-rest AUC", "R2", "concordance"}
        Area under the ROC curve for two classes, that of each class against the others for more,
        explained variance for numbers, Harrell's share of pairs in the right order for survival times.
    value : float
        The score.
    std_error : float
        Its standard error, over rows, or over groups of rows that belong together.
    chance : float
        The score of a model that knows nothing of the columns: 0.5, or 0 for numbers.
    rows : str
        Which rows were predicted, in words.
    """

    name: str
    value: float
    std_error: float
    chance: float
    rows: str

    @property
    def p_value(self) -> float:
        """One-sided p-value of a score that is no better than chance."""
        if self.std_error == 0:
            return 0.0 if self.value > self.chance else 1.0
        return float(norm.sf((self.value - self.chance) / self.std_error))

    @property
    def interval(self) -> tuple[float, float]:
        """Ends of the 95 % interval, within what is possible."""
        half, lowest = 1.96 * self.std_error, -np.inf if self.name == "R2" else 0.0
        return max(self.value - half, lowest), min(self.value + half, 1.0)

    def describe(self) -> str:
        """The score with its interval, and what chance would score."""
        low, high = self.interval
        nothing = "0 is the mean" if self.name == "R2" else "0.5 is chance"
        return f"{self.name} {self.value:.3f} (95 % interval {low:.3f} to {high:.3f}; {nothing})"

    def __str__(self) -> str:
        return f"the model predicts {self.rows} with {self.describe()}"


def measure_performance(
    y: NDArray[Any],
    predicted: Floats,
    classes: Any,
    weight: Floats | None,
    rows: str,
    *,
    groups: Integers | None = None,
) -> ModelPerformance | None:
    """Compare predictions of unseen rows with their target; None where there are too few of them.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        The target; of survival times, records of event and time.
    predicted : ndarray of shape (n_rows,) or (n_rows, n_classes)
        Numbers, or probabilities of classes; NaN for rows without a prediction.
    classes : array-like of shape (n_classes,), or None
        The labels; None for regression.
    weight : ndarray of shape (n_rows,), or None
        Weights of the rows.
    rows : str
        Which rows these are, in words.
    groups : ndarray of shape (n_rows,), or None
        Their groups, where rows belong together.
    """
    weight = np.ones(len(y)) if weight is None else weight
    groups = np.arange(len(y)) if groups is None else groups
    is_counted = ~np.isnan(predicted.reshape(len(y), -1)).any(axis=1) & (weight > 0)
    y, predicted, weight, groups = y[is_counted], predicted[is_counted], weight[is_counted], groups[is_counted]
    if len(y) < 2 or len(np.unique(y)) < 2:
        return None
    if y.dtype.names is not None:
        return _measure_times(y["time"], y["event"], predicted, groups, rows)
    if classes is None:
        return _measure_numbers(y.astype(np.float64), predicted, weight, groups, rows)
    return _measure_classes(y, predicted, np.asarray(classes), weight, groups, rows)


def _measure_numbers(y: Floats, predicted: Floats, weight: Floats, groups: Integers, rows: str) -> ModelPerformance:
    """One less a ratio of two means, whose error is that of both."""
    squares, around_mean = (y - predicted) ** 2, (y - np.average(y, weights=weight)) ** 2
    variance = np.average(around_mean, weights=weight)
    ratio = np.average(squares, weights=weight) / variance
    error = _find_error((ratio * around_mean - squares) / variance, weight, groups)
    return ModelPerformance("R2", float(1.0 - ratio), error, 0.0, rows)


def _measure_times(
    times: Floats, events: NDArray[np.bool_], risk: Floats, groups: Integers, rows: str
) -> ModelPerformance | None:
    """Harrell's concordance: of pairs of which one is known to end first, those where it has the higher risk."""
    places, pairs = np.zeros(len(times)), np.zeros(len(times))
    for row in np.flatnonzero(events):
        is_later = (times > times[row]) | ((times == times[row]) & ~events)
        agrees = np.where(risk[row] == risk, 0.5, risk[row] > risk) * is_later
        places += agrees
        pairs += is_later
        places[row] += agrees.sum()
        pairs[row] += is_later.sum()
    if not pairs.any():
        return None
    share = float(places.sum() / pairs.sum())
    # Each pair has two rows, and so counts twice in both sums.
    error = _find_error(2.0 * (places - share * pairs) / pairs.mean(), np.ones(len(times)), groups)
    return ModelPerformance("concordance", share, error, 0.5, rows)


def _measure_classes(
    y: NDArray[Any], predicted: Floats, classes: NDArray[Any], weight: Floats, groups: Integers, rows: str
) -> ModelPerformance:
    """Area under the ROC curve with the standard error of DeLong et al. (1988), with weights.

    Of more than two classes each is compared with the others, and a class counts by its number of pairs of rows.
    Probabilities need only be in the right order for it: a forest of deep trees can order rows well and yet miss the
    target by more than the shares of the classes would.
    """
    places, pairs = np.zeros(len(y)), np.zeros(len(y))
    for label, score in zip(classes, predicted.T, strict=True):
        is_label = y == label
        share = float(np.average(is_label, weights=weight))
        if share == 0.0:
            continue
        places[is_label] += (1.0 - share) * _place(score, is_label, weight)
        places[~is_label] += share * (1.0 - _place(score, ~is_label, weight))
        pairs += np.where(is_label, 1.0 - share, share)
    area = float(np.average(places, weights=weight) / np.average(pairs, weights=weight))
    # Each pair has two rows, and so counts twice in both means.
    error = _find_error(2.0 * (places - area * pairs) / np.average(pairs, weights=weight), weight, groups)
    return ModelPerformance("AUC" if len(classes) == 2 else "one-vs-rest AUC", area, error, 0.5, rows)


def _place(score: Floats, is_placed: NDArray[np.bool_], weight: Floats) -> Floats:
    """Share of the other class that scores lower than each row of this one; equal scores count half."""
    others = np.argsort(score[~is_placed], kind="stable")
    sorted_score, sums = score[~is_placed][others], np.append(0.0, np.cumsum(weight[~is_placed][others]))
    below, up_to = (np.searchsorted(sorted_score, score[is_placed], side=side) for side in ("left", "right"))
    placed: Floats = (sums[below] + sums[up_to]) / (2.0 * sums[-1])
    return placed


def _find_error(influence: Floats, weight: Floats, groups: Integers) -> float:
    """Standard error of a weighted mean, given what each row adds to it, and which rows belong together."""
    return float(np.sqrt(np.sum(np.bincount(groups, weights=weight * influence) ** 2)) / weight.sum())
