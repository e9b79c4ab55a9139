"""Scores as people read them: in percent of what there is to explain, and found, small or without a sign."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from truewood.result.importance_result import ImportanceResult

# A feature that adds less than this, in percent, is found, but small.
SMALL = 1.0
FOUND, FOUND_SMALL, NO_SIGN = "found", "found, but small", "no sign"
# A sum of scores is what percents are of only if it is so many times its error.
_SURE = 5.0
_MOST_DECIMALS = 6


@dataclass(frozen=True)
class Percent:
    """How scores become percents.

    Parameters
    ----------
    factor : float
        What a score is multiplied by.
    of : str
        What the percents are of, in words.
    is_share : bool
        Whether they are shares of what there is to explain, as of `ImportanceResult.share`; else parts of the sum of
        all scores.
    total : float
        The percents of all features together.
    """

    factor: float
    of: str
    is_share: bool
    total: float


def find_percent(result: ImportanceResult) -> Percent | None:
    """How the scores of a result become percents; None where there is nothing that they are part of.

    Where scores are no shares, as of boosted classifiers, they are parts of their sum, unless the sum is uncertain.
    """
    values, total = result.values, float(result.values.sum())
    if not np.isnan(result.share).all():
        largest = int(np.argmax(np.abs(values)))
        factor = 100.0 * float(result.share[largest] / values[largest]) if values[largest] != 0 else 0.0
        return Percent(factor, name_impurity(result), True, factor * total)
    if total > 0 and total >= _SURE * result.total_error:
        return Percent(100.0 / total, "the sum of all scores", False, 100.0)
    return None


def name_impurity(result: ImportanceResult) -> str:
    """Name what shares are shares of."""
    if result.task == "survival":
        return "the variance of martingale residuals"
    is_gini = result.task == "classification" and not result.is_additive
    return f"the target's {'Gini impurity' if is_gini else 'variance'}"


def explain_impurity(result: ImportanceResult) -> str:
    """Say what shares are of, in a sentence that follows another, where that is not plain; "" where it is."""
    if result.task != "survival":
        return ""
    return " Martingale residuals: whether a row had the event, less how much of it was expected in its time."


def judge_features(result: ImportanceResult, alpha: float) -> NDArray[np.str_]:
    """Whether each feature is found at a level, found but small, or without a sign, shape (n_features,)."""
    percent = find_percent(result)
    is_small = (
        np.zeros(len(result.values), dtype=np.bool_) if percent is None else percent.factor * result.values < SMALL
    )
    verdicts: NDArray[np.str_] = np.where(result.select(alpha), np.where(is_small, FOUND_SMALL, FOUND), NO_SIGN)
    return verdicts


def format_percent(percent: float) -> str:
    """A percent in few digits: 63 %, 3.4 %, 0.26 %, 0.0012 %."""
    n_decimals = 0 if abs(percent) >= 10 else 1 if abs(percent) >= 1 else _count_decimals(percent)
    return f"{percent:.{n_decimals}f} %"


def format_column(numbers: NDArray[np.float64], n_decimals: int = 1) -> list[str]:
    """Numbers of a column, with their points below each other; small ones get as many digits as show them."""
    texts = [f"{number:,.{max(n_decimals, _count_decimals(number))}f}" for number in numbers.tolist()]
    n_after = [len(text.partition(".")[2]) for text in texts]
    padded = [text + " " * (max(n_after) - n) for text, n in zip(texts, n_after, strict=True)]
    return [text.rjust(max(map(len, padded))) for text in padded]


def format_intervals(low: NDArray[np.float64], high: NDArray[np.float64], n_decimals: int = 1) -> list[str]:
    """Intervals of a column, with as many decimals as the larger end needs, and two where an end is below 1."""
    texts = []
    for ends in zip(low.tolist(), high.tolist(), strict=True):
        n = max(n_decimals, _count_decimals(max(ends, key=abs)), min(2, _count_decimals(min(ends, key=abs))))
        texts.append(f"{ends[0]:,.{n}f} to {ends[1]:,.{n}f}")
    return texts


def _count_decimals(number: float) -> int:
    """Decimals that show two digits of a number below 1."""
    if number == 0 or abs(number) >= 1 or math.isnan(number):
        return 0
    return min(_MOST_DECIMALS, 1 - math.floor(math.log10(abs(number))))
