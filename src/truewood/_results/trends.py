"""Which way a feature moves predictions: rising, falling, mixed or by level, with a small curve of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._arguments import check_type
from truewood._formatting import ROWS_IN_WORDS, count, shorten
from truewood._results.summary import NO_SIGN, judge_features

if TYPE_CHECKING:
    from truewood._results.explanation import Explanation
    from truewood._results.importance_result import ImportanceResult

RISING, FALLING, MIXED, BY_LEVEL = "rising", "falling", "mixed", "by level"
HIGHER_RISK, LOWER_RISK = "higher risk", "lower risk"
# Rows that are looked at, evenly taken from all.
_MOST_ROWS = 2_000
_FEWEST_ROWS = 20
# The part of the way of the mean moves, from low to high values, that must go up, or down.
_CLEAR = 0.7
# The part of the variance of the moves that these means must explain: else the direction depends on other features.
_FEWEST_EXPLAINED = 0.25
_MOST_BINS = 10
_MOST_LEVELS = 8

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Direction:
    """Which way a feature moves the prediction of rows that trees never saw.

    Parameters
    ----------
    word : str
        Rising, falling (of survival times higher risk, lower risk), mixed or by level, with the class where there are
        several; "" where that is not known.
    moves : list of float
        Mean moves of the prediction: from low to high values in bins of about as many rows each, or by level.
    levels : list of str
        The most frequent levels, from the lowest to the highest move; none for numbers.
    """

    word: str
    moves: list[float]
    levels: list[str]


UNKNOWN = Direction("", [], [])


def find_directions(result: ImportanceResult, explanation: Explanation | None, alpha: float) -> list[Direction] | None:
    """Directions of the features of a result, those without a sign left out; None without an explanation.

    Parameters
    ----------
    result : ImportanceResult
        The scores.
    explanation : Explanation or None
        Of the same features, by trees that never saw the rows.
    alpha : float
        Largest adjusted p-value of a feature that is found; others have no direction.
    """
    if explanation is None:
        return None
    from truewood._results.explanation import Explanation  # whose pictures import this module

    check_type(explanation, Explanation, "explanation", "an Explanation, as explain gives it")
    if not np.array_equal(explanation.feature_names, result.feature_names):
        raise ValueError("explanation must be of the features of this result, in the same order; got others.")
    is_wanted = np.ones(len(result.values), dtype=np.bool_)
    if result.inference_unavailable is None:
        is_wanted = judge_features(result, alpha) != NO_SIGN
    rows = pick_rows(explanation)
    return [_find(explanation, rows, j) if wanted else UNKNOWN for j, wanted in enumerate(is_wanted)]


def pick_rows(explanation: Explanation) -> NDArray[np.intp]:
    """Numbers of the rows that are looked at, of those that have an explanation."""
    base = explanation.base_values
    rows = np.flatnonzero(~np.isnan(base if base.ndim == 1 else base[:, 0]))
    return rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _MOST_ROWS)).astype(np.intp))]


def explain_directions(explanation: Explanation) -> str:
    """How to read directions."""
    names = explanation.output_names
    what, (up, down) = explanation.name_prediction(), _name_ways(explanation)
    if names is not None and len(names) == 2:
        what += f" of {shorten(str(names[1]), 24)}"
    elif names is not None:
        what += " of the class that is named, which it moves most"
    rows = f"{count(len(pick_rows(explanation)), 'row').removesuffix(' rows')} {ROWS_IN_WORDS[explanation.rows]}"
    return (
        f"Direction: from low to high values, the mean move of the {what} goes up ({up}) or down ({down}) for at "
        f"least {100 * _CLEAR:g} % of its way; mixed: neither, or other features decide ({rows}, by trees that never "
        "saw them)."
    )


def _name_ways(explanation: Explanation) -> tuple[str, str]:
    """Words for up and down: of survival times it must not be taken for the time."""
    return (HIGHER_RISK, LOWER_RISK) if explanation.is_risk else (RISING, FALLING)


def _find(explanation: Explanation, rows: NDArray[np.intp], j: int) -> Direction:
    moves, suffix = explanation.values[rows, j], ""
    if moves.ndim == 2:
        names: Any = explanation.output_names
        chosen = 1 if len(names) == 2 else int(np.abs(moves).mean(axis=0).argmax())
        moves, suffix = moves[:, chosen], "" if len(names) == 2 else f" for {shorten(str(names[chosen]), 16)}"
    column = pd.Series(explanation.data[rows, j]).infer_objects()
    is_known = column.notna().to_numpy()
    if np.count_nonzero(is_known) < min(_FEWEST_ROWS, len(rows)) or column[is_known].nunique() < 2:
        return UNKNOWN
    column, moves = column[is_known].reset_index(drop=True), moves[is_known]
    if pd.api.types.is_datetime64_any_dtype(column):
        column = column.astype("int64")
    if not pd.api.types.is_numeric_dtype(column):
        return _describe_levels(column, moves, suffix)
    way = measure_trend(column.to_numpy().astype(np.float64), moves)
    up, down = _name_ways(explanation)
    is_clear = way.explained >= _FEWEST_EXPLAINED
    word = up if is_clear and way.rises >= _CLEAR else down if is_clear and way.rises <= 1 - _CLEAR else MIXED
    return Direction(word + suffix, way.moves.tolist(), [])


@dataclass(frozen=True, eq=False)
class Trend:
    """How predictions move from low to high numbers.

    Parameters
    ----------
    moves : ndarray of shape (n_bins,)
        Mean moves in bins from low to high numbers.
    rises : float
        The part of the way from bin to bin that goes up; 0.5 where there is none.
    explained : float
        The part of the variance of the moves that their means in bins explain; 0 where they do not vary.
    """

    moves: Floats
    rises: float
    explained: float


def measure_trend(numbers: Floats, moves: Floats) -> Trend:
    """Put rows into bins by their numbers, and follow the mean moves."""
    starts, counts = np.unique(numbers, return_counts=True)
    if len(starts) > _MOST_BINS:
        # A value that many rows have is a bin of its own.
        frequent = np.flatnonzero(counts > len(numbers) / _MOST_BINS)
        own = starts[np.union1d(frequent, np.minimum(frequent + 1, len(starts) - 1))]
        starts = np.union1d(np.quantile(numbers, np.arange(_MOST_BINS) / _MOST_BINS, method="lower"), own)
    bins = np.searchsorted(starts, numbers, side="right") - 1
    means: Floats = np.bincount(bins, weights=moves) / np.bincount(bins)
    steps, variance = np.diff(means), float(moves.var())
    length = float(np.abs(steps).sum())
    return Trend(
        means,
        rises=float(steps.clip(min=0).sum()) / length if length > 0 else 0.5,
        explained=float(means[bins].var()) / variance if variance > 0 else 0.0,
    )


def _describe_levels(column: pd.Series[Any], moves: Floats, suffix: str) -> Direction:
    texts = column.astype(str)
    common = texts.value_counts().index[:_MOST_LEVELS]
    means = pd.Series(moves).groupby(texts).mean()[common].sort_values()
    return Direction(BY_LEVEL + suffix, means.tolist(), [shorten(str(level), 24) for level in means.index])
