"""The direction in which a feature moves predictions: rising, falling, mixed or by level, with a small curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._arguments import check_type
from truewood._formatting import ROWS_IN_WORDS, shorten
from truewood._results.summary import NOT_SIGNIFICANT, classify_features

if TYPE_CHECKING:
    from truewood._results.explanation import Explanation
    from truewood._results.importance_result import ImportanceResult

RISING, FALLING, MIXED, BY_LEVEL = "rising", "falling", "mixed", "by level"
HIGHER_RISK, LOWER_RISK = "higher risk", "lower risk"
# Rows to use, evenly spaced, and rows with a known value that a direction needs.
_MAX_ROWS = 2_000
_MIN_ROWS = 20
# Part of the change in mean effects, from low to high values, that must go up (or down).
_MIN_MONOTONE = 0.7
# Part of the variance of effects that bin means must explain; otherwise the direction depends on other features.
_MIN_EXPLAINED = 0.25
_MAX_BINS = 10
_MAX_LEVELS = 8

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Direction:
    """The direction in which a feature moves predictions of rows the trees were not trained on.

    Parameters
    ----------
    word : str
        Rising or falling (for survival times: higher risk or lower risk), mixed, or by level, with the class if there
        are several; empty if unknown.
    effects : list of float
        Mean effects on the prediction, either in bins from low to high values or by level.
    levels : list of str
        The most frequent levels, from the lowest to the highest effect; empty for numbers.
    """

    word: str
    effects: list[float]
    levels: list[str]


UNKNOWN = Direction("", [], [])


def find_directions(result: ImportanceResult, explanation: Explanation | None, alpha: float) -> list[Direction] | None:
    """Find the directions of a result's features, unknown for those that are not significant.

    Parameters
    ----------
    result : ImportanceResult
        The scores.
    explanation : Explanation or None
        The explanation of the same features; without it, the return value is None.
    alpha : float
        Largest adjusted p-value of a significant feature.
    """
    if explanation is None:
        return None
    from truewood._results.explanation import Explanation  # a circular import at the top

    check_type(explanation, Explanation, "explanation", "an Explanation from truewood.explain")
    if not np.array_equal(explanation.feature_names, result.feature_names):
        raise ValueError(
            "explanation must have the features of this result in the same order, got others; explain the same model "
            "and table, with the same feature_groups."
        )
    is_wanted = np.ones(len(result.values), dtype=np.bool_)
    if result.inference_unavailable is None:
        is_wanted = classify_features(result, alpha) != NOT_SIGNIFICANT
    rows = pick_rows(explanation)
    return [_find(explanation, rows, j) if wanted else UNKNOWN for j, wanted in enumerate(is_wanted)]


def pick_rows(explanation: Explanation) -> NDArray[np.intp]:
    """Pick up to 2,000 evenly spaced rows that have an explanation."""
    base = explanation.base_values
    rows = np.flatnonzero(~np.isnan(base if base.ndim == 1 else base[:, 0]))
    return rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _MAX_ROWS)).astype(np.intp))]


def name_prediction(explanation: Explanation, output_name: str | None = None) -> str:
    """Name what an explanation adds up to: a prediction, predicted risk or raw score, and for which output."""
    name = "raw score" if explanation.is_additive else "predicted risk" if explanation.is_risk else "prediction"
    return name if output_name is None else f"{name} for {shorten(output_name, 24)}"


def explain_directions(explanation: Explanation) -> str:
    """Explain how directions are determined."""
    names = explanation.output_names
    what, (up, down) = name_prediction(explanation), _name_trends(explanation)
    if names is not None and len(names) == 2:
        what = name_prediction(explanation, str(names[1]))
    elif names is not None:
        what += " for the class that the feature affects most"
    rows = f"{len(pick_rows(explanation)):,} {ROWS_IN_WORDS[explanation.rows]}"
    return (
        f"Direction of the mean effect on the {what}, from low to high values of the feature: {up} if at least "
        f"{100 * _MIN_MONOTONE:g}% of its total change is upward, {down} if at least {100 * _MIN_MONOTONE:g}% is "
        f"downward, and mixed otherwise or if the effect depends on other features ({rows})."
    )


def _name_trends(explanation: Explanation) -> tuple[str, str]:
    """Words for up and down; for survival times they must not be mistaken for a longer or shorter time."""
    return (HIGHER_RISK, LOWER_RISK) if explanation.is_risk else (RISING, FALLING)


def _find(explanation: Explanation, rows: NDArray[np.intp], j: int) -> Direction:
    effects, suffix = explanation.values[rows, j], ""
    if effects.ndim == 2:
        names: Any = explanation.output_names
        chosen = 1 if len(names) == 2 else int(np.abs(effects).mean(axis=0).argmax())
        effects, suffix = effects[:, chosen], "" if len(names) == 2 else f" for {shorten(str(names[chosen]), 16)}"
    column = pd.Series(explanation.data[rows, j]).infer_objects()
    is_known = column.notna().to_numpy()
    if np.count_nonzero(is_known) < min(_MIN_ROWS, len(rows)) or column[is_known].nunique() < 2:
        return UNKNOWN
    column, effects = column[is_known].reset_index(drop=True), effects[is_known]
    if pd.api.types.is_datetime64_any_dtype(column):
        column = column.astype("int64")
    if not pd.api.types.is_numeric_dtype(column):
        return _describe_levels(column, effects, suffix)
    trend = measure_trend(column.to_numpy().astype(np.float64), effects)
    up, down = _name_trends(explanation)
    is_clear = trend.explained >= _MIN_EXPLAINED
    word = MIXED
    if is_clear and trend.rising >= _MIN_MONOTONE:
        word = up
    elif is_clear and trend.rising <= 1 - _MIN_MONOTONE:
        word = down
    return Direction(word + suffix, trend.effects.tolist(), [])


@dataclass(frozen=True, eq=False)
class Trend:
    """The trend of effects from low to high numbers.

    Parameters
    ----------
    effects : ndarray of shape (n_bins,)
        Mean effects in bins from low to high numbers.
    rising : float
        Part of the total change from bin to bin that goes up; 0.5 without any change.
    explained : float
        Part of the variance of effects that bin means explain; 0 if effects do not vary.
    """

    effects: Floats
    rising: float
    explained: float


def measure_trend(numbers: Floats, effects: Floats) -> Trend:
    """Bin rows by their numbers, and follow the mean effects from bin to bin."""
    starts, counts = np.unique(numbers, return_counts=True)
    if len(starts) > _MAX_BINS:
        # A frequent value gets a bin of its own.
        frequent = np.flatnonzero(counts > len(numbers) / _MAX_BINS)
        own = starts[np.union1d(frequent, np.minimum(frequent + 1, len(starts) - 1))]
        starts = np.union1d(np.quantile(numbers, np.arange(_MAX_BINS) / _MAX_BINS, method="lower"), own)
    bins = np.searchsorted(starts, numbers, side="right") - 1
    means: Floats = np.bincount(bins, weights=effects) / np.bincount(bins)
    steps, variance = np.diff(means), float(effects.var())
    length = float(np.abs(steps).sum())
    return Trend(
        means,
        rising=float(steps.clip(min=0).sum()) / length if length > 0 else 0.5,
        explained=float(means[bins].var()) / variance if variance > 0 else 0.0,
    )


def _describe_levels(column: pd.Series[Any], effects: Floats, suffix: str) -> Direction:
    texts = column.astype(str)
    common = texts.value_counts().index[:_MAX_LEVELS]
    means = pd.Series(effects).groupby(texts).mean()[common].sort_values()
    return Direction(BY_LEVEL + suffix, means.tolist(), [shorten(str(level), 24) for level in means.index])
