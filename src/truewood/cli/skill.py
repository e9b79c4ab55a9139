"""How well a model predicts rows it never saw, and whether that is better than chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Skill:
    """A score of predictions, what chance would score, and how sure that is.

    Parameters
    ----------
    name : {"AUC", "accuracy", "R2"}
        Area under the ROC curve for two classes, share of right classes for more, explained variance for numbers.
    value : float
        The score.
    std_error : float
        Its standard error, over rows.
    chance : float
        The score of a model that knows nothing of the columns: 0.5, the share of the largest class, or 0.
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
        """Ends of the 95 % interval."""
        half = 1.96 * self.std_error
        return self.value - half, self.value + half

    def __str__(self) -> str:
        low, high = self.interval
        reference = {"AUC": "0.5 is chance", "accuracy": f"{self.chance:.3f} is the largest class"}
        return (
            f"the model predicts {self.rows} with {self.name} {self.value:.3f} (95 % interval {low:.3f} to {high:.3f}; "
            f"{reference.get(self.name, '0 is the mean')})"
        )


def measure_skill(y: NDArray[Any], predicted: Floats, classes: Any, weight: Floats | None, rows: str) -> Skill | None:
    """Compare predictions of unseen rows with their target; None where there are too few of them.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        The target.
    predicted : ndarray of shape (n_rows,) or (n_rows, n_classes)
        Numbers, or probabilities of classes; NaN for rows without a prediction.
    classes : array-like of shape (n_classes,), or None
        The labels; None for regression.
    weight : ndarray of shape (n_rows,), or None
        Weights of the rows.
    rows : str
        Which rows these are, in words.
    """
    weight = np.ones(len(y)) if weight is None else weight
    is_counted = ~np.isnan(predicted.reshape(len(y), -1)).any(axis=1) & (weight > 0)
    y, predicted, weight = y[is_counted], predicted[is_counted], weight[is_counted]
    if len(y) < 2 or len(np.unique(y)) < 2:
        return None
    if classes is None:
        return _measure_numbers(y.astype(np.float64), predicted, weight, rows)
    if len(classes) == 2:
        return _measure_two_classes(y == np.asarray(classes)[1], predicted[:, 1], weight, rows)
    return _measure_classes(y, predicted, np.asarray(classes), weight, rows)


def _measure_numbers(y: Floats, predicted: Floats, weight: Floats, rows: str) -> Skill:
    around_mean = (y - np.average(y, weights=weight)) ** 2
    value, error = _average((around_mean - (y - predicted) ** 2) / np.average(around_mean, weights=weight), weight)
    return Skill("R2", value, error, 0.0, rows)


def _measure_classes(y: NDArray[Any], predicted: Floats, classes: NDArray[Any], weight: Floats, rows: str) -> Skill:
    """The error is that of the difference to always guessing the largest class, row by row."""
    shares = [np.average(y == label, weights=weight) for label in classes]
    is_right = y == classes[predicted.argmax(axis=1)]
    is_largest = y == classes[int(np.argmax(shares))]
    _, error = _average(is_right.astype(np.float64) - is_largest, weight)
    return Skill("accuracy", float(np.average(is_right, weights=weight)), error, float(max(shares)), rows)


def _measure_two_classes(is_positive: NDArray[np.bool_], score: Floats, weight: Floats, rows: str) -> Skill:
    """Area under the curve with the standard error of DeLong et al. (1988), with weights."""
    first, second = _place(score, is_positive, weight), 1.0 - _place(score, ~is_positive, weight)
    value, error = _average(first, weight[is_positive])
    _, other_error = _average(second, weight[~is_positive])
    return Skill("AUC", value, float(np.hypot(error, other_error)), 0.5, rows)


def _place(score: Floats, is_placed: NDArray[np.bool_], weight: Floats) -> Floats:
    """Share of the other class that scores lower than each row of this one; equal scores count half."""
    others = np.argsort(score[~is_placed], kind="stable")
    sorted_score, sums = score[~is_placed][others], np.append(0.0, np.cumsum(weight[~is_placed][others]))
    below, up_to = (np.searchsorted(sorted_score, score[is_placed], side=side) for side in ("left", "right"))
    placed: Floats = (sums[below] + sums[up_to]) / (2.0 * sums[-1])
    return placed


def _average(values: Floats, weight: Floats) -> tuple[float, float]:
    """Weighted mean and its standard error."""
    mean = float(np.average(values, weights=weight))
    return mean, float(np.sqrt(np.sum((weight * (values - mean)) ** 2)) / weight.sum())
