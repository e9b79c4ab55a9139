"""Measure how well a model predicts evaluation rows, and warn if that is no better than chance or too optimistic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._formatting import CI, LEVEL, state_p_value
from truewood._inference.p_values import find_critical_value, find_p_value
from truewood._message import Message
from truewood._rows.copies import encode_table, find_copies
from truewood.tabular._messages import Messages

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class ModelPerformance:
    """How well a model predicts, with standard error and chance level.

    Parameters
    ----------
    name : {"AUC", "one-vs-rest AUC", "R2", "concordance"}
        The metric: area under the ROC curve for two classes, its one-vs-rest form for more classes, the coefficient of
        determination for regression, or Harrell's concordance index for survival times.
    value : float
        The score.
    std_error : float
        The standard error of the score, clustered if rows are grouped.
    chance : float
        The score of a model without features: 0.5, or 0 for regression.
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
        """One-sided p-value of the hypothesis that the score is no better than chance."""
        if self.std_error == 0:
            return 0.0 if self.value > self.chance else 1.0
        return float(find_p_value(self.value - self.chance, self.std_error))

    @property
    def interval(self) -> tuple[float, float]:
        """95% confidence interval, clipped to possible scores."""
        half, lowest = find_critical_value(LEVEL) * self.std_error, -np.inf if self.name == "R2" else 0.0
        return max(self.value - half, lowest), min(self.value + half, 1.0)

    def describe(self) -> str:
        """Describe the score with its interval and the chance level."""
        low, high = self.interval
        chance = "predicting the mean: 0" if self.name == "R2" else "chance: 0.5"
        return f"{self.name} {self.value:.3f} ({CI} {low:.3f} to {high:.3f}; {chance})"

    def __str__(self) -> str:
        return f"model performance on {self.rows}: {self.describe()}"


def measure_performance(
    y: NDArray[Any],
    predicted: Floats,
    classes: Any,
    weight: Floats | None,
    rows: str,
    *,
    groups: Integers | None = None,
) -> ModelPerformance | None:
    """Score the predictions of evaluation rows; None if there are too few rows or groups.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        The target; records of event and time for survival targets.
    predicted : ndarray of shape (n_rows,) or (n_rows, n_classes)
        Numbers, or class probabilities; NaN for rows without a prediction.
    classes : array-like of shape (n_classes,), or None
        The labels; None for regression.
    weight : ndarray of shape (n_rows,), or None
        Row weights.
    rows : str
        Which rows were predicted, in words.
    groups : ndarray of shape (n_rows,), or None
        Groups of rows.
    """
    weight = np.ones(len(y)) if weight is None else weight
    groups = np.arange(len(y)) if groups is None else groups
    is_counted = ~np.isnan(predicted.reshape(len(y), -1)).any(axis=1) & (weight > 0)
    y, predicted, weight, groups = y[is_counted], predicted[is_counted], weight[is_counted], groups[is_counted]
    if len(y) < 2 or len(np.unique(y)) < 2 or len(np.unique(groups)) < 2:
        return None
    if y.dtype.names is not None:
        return _measure_times(y["time"], y["event"], predicted, groups, rows)
    if classes is None:
        return _measure_numbers(y.astype(np.float64), predicted, weight, groups, rows)
    return _measure_classes(y, predicted, np.asarray(classes), weight, groups, rows)


def check_quality(
    performance: ModelPerformance | None,
    total_p_value: float,
    messages: Messages,
    *,
    alpha: float,
    may_be_too_deep: bool,
) -> None:
    """Report the performance of the model, and warn if its importances are meaningless.

    Parameters
    ----------
    performance : ModelPerformance or None
        The performance on evaluation rows; None if it could not be measured.
    total_p_value : float
        The p-value of all columns together; NaN if there is none.
    messages : Messages
        Receives the report and the warnings.
    alpha : float
        Significance level.
    may_be_too_deep : bool
        Whether the depth of the trees is unlimited.
    """
    if performance is None:
        messages.warn("model performance could not be measured: too few evaluation rows, or all of one class or group")
        return
    messages.add(str(performance))
    has_test = not math.isnan(total_p_value)
    is_noise = has_test and total_p_value > alpha
    if performance.p_value <= alpha:
        if is_noise:
            warn_of_noise(total_p_value, messages)
        return
    tested = (
        f"{performance.name} {performance.value:.3f} vs. {performance.chance:.3f}, one-sided "
        f"{state_p_value(performance.p_value)}"
    )
    if is_noise or not has_test:
        together = f"; all columns together {state_p_value(total_p_value)}" if has_test else ""
        messages.warn(
            f"the model is not significantly better than chance ({tested}{together}), so do not rely on its importances"
        )
        return
    text = (
        f"the model is not significantly better than chance ({tested}): its splits hold up on evaluation rows "
        f"({state_p_value(total_p_value)}), but what they explain is less than the noise in its predictions"
    )
    hint = "The trees may be too deep for a weak signal; try {max_depth}"
    messages.warn(Message(f"{text}.", hint, max_depth=3) if may_be_too_deep else text)


def warn_of_noise(total_p_value: float, messages: Messages) -> None:
    """Warn that the splits of all columns together are not significant."""
    messages.warn(f"all splits taken together may be noise ({state_p_value(total_p_value)})")


def _measure_numbers(y: Floats, predicted: Floats, weight: Floats, groups: Integers, rows: str) -> ModelPerformance:
    """R2: one minus a ratio of two means; the standard error accounts for both."""
    squares, around_mean = (y - predicted) ** 2, (y - np.average(y, weights=weight)) ** 2
    variance = np.average(around_mean, weights=weight)
    ratio = np.average(squares, weights=weight) / variance
    error = _find_error((ratio * around_mean - squares) / variance, weight, groups)
    return ModelPerformance("R2", float(1.0 - ratio), error, 0.0, rows)


def _measure_times(
    times: Floats, events: NDArray[np.bool_], risk: Floats, groups: Integers, rows: str
) -> ModelPerformance | None:
    """Harrell's concordance: among pairs with a known order, the share in which the earlier event has higher risk."""
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
    # A pair has two rows and counts twice in both sums.
    error = _find_error(2.0 * (places - share * pairs) / pairs.mean(), np.ones(len(times)), groups)
    return ModelPerformance("concordance", share, error, 0.5, rows)


def _measure_classes(
    y: NDArray[Any], predicted: Floats, classes: NDArray[Any], weight: Floats, groups: Integers, rows: str
) -> ModelPerformance:
    """Area under the ROC curve with the standard error of DeLong et al. (1988), weighted.

    With more than two classes, each is compared with the rest and weighted by its number of pairs of rows. AUC depends
    only on the order of the probabilities: a forest of deep trees can rank rows well and still have a larger error
    than the class frequencies.
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
    # A pair has two rows and counts twice in both means.
    error = _find_error(2.0 * (places - area * pairs) / np.average(pairs, weights=weight), weight, groups)
    return ModelPerformance("AUC" if len(classes) == 2 else "one-vs-rest AUC", area, error, 0.5, rows)


def _place(score: Floats, is_placed: NDArray[np.bool_], weight: Floats) -> Floats:
    """Share of the other class that scores lower than each row of this one; ties count half."""
    others = np.argsort(score[~is_placed], kind="stable")
    sorted_score, sums = score[~is_placed][others], np.append(0.0, np.cumsum(weight[~is_placed][others]))
    below, up_to = (np.searchsorted(sorted_score, score[is_placed], side=side) for side in ("left", "right"))
    placed: Floats = (sums[below] + sums[up_to]) / (2.0 * sums[-1])
    return placed


def _find_error(influence: Floats, weight: Floats, groups: Integers) -> float:
    """Standard error of a weighted mean, from the influence and the group of each row."""
    return float(np.sqrt(np.sum(np.bincount(groups, weights=weight * influence) ** 2)) / weight.sum())


def warn_of_duplicates(X: pd.DataFrame, messages: Messages) -> None:
    """Warn about rows that are copies of others in all columns, see `find_copies`."""
    copies = find_copies(encode_table(X))
    if copies is not None:
        are_duplicates = "is a duplicate of another row" if copies.n_copies == 1 else "are duplicates of other rows"
        messages.warn(
            f"{copies.n_copies:,} of {len(X):,} rows {are_duplicates} in all features. Importances and "
            "p-values take this into account, but the measured model performance does not and is too optimistic: "
            "remove the duplicates"
        )
