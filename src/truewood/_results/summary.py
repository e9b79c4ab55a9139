"""The answer in a sentence: which features carry how much, in percent of what there is to explain."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from truewood._formatting import count, enumerate_names
from truewood._measures.registry import get_measure

if TYPE_CHECKING:
    from truewood._results.comparison import Comparison
    from truewood._results.importance_result import ImportanceResult


# A feature that adds less than this, in percent, is found, but small.
SMALL = 1.0
FOUND, FOUND_SMALL, NO_SIGN = "found", "found, but small", "no sign"
# A sum of scores is what percents are of only if it is so many times its error.
_SURE = 5.0
_MOST_DECIMALS = 6


# The features that are named first carry at least this part of what is found; up to so many are named anyway.
_MOST_OF_IT = 2 / 3
_FEW = 4


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


def name_measure(result: ImportanceResult | Comparison) -> str:
    """Name the measure in words."""
    return get_measure(result.measure).title


def name_unit(result: ImportanceResult | Comparison) -> str:
    """Name what the scores are measured in."""
    if result.is_additive:
        return "covariance of raw score and target"
    return get_measure(result.measure).unit[result.task]


def name_axis(result: ImportanceResult, percent: Percent | None) -> str:
    """Say what an axis of scores shows."""
    if percent is None:
        return name_unit(result)
    return f"share of {percent.of}, %" if percent.is_share else f"% of {percent.of} ({name_unit(result)})"


def name_level(alpha: float) -> str:
    """Name the level at which features are called significant."""
    return f"{100 * alpha:g} % false discovery rate"


def write_summary(result: ImportanceResult, alpha: float, *, with_names: bool = True) -> str:
    """Say which features carry how much, or how many do, for a result with inference."""
    verdicts, percent = judge_features(result, alpha)[result.order], find_percent(result)
    names = result.feature_names[result.order]
    is_found = (verdicts == FOUND) | (verdicts == FOUND_SMALL)
    level = name_level(alpha)
    if not is_found.any():
        return f"None of {count(len(names), 'feature')} can be shown to matter ({level})."
    if percent is None:
        return _count_found(names[is_found].tolist(), len(names), level, with_names=with_names)
    percents = percent.factor * result.values[result.order]
    large, n_small = np.flatnonzero(verdicts == FOUND), int(np.count_nonzero(verdicts == FOUND_SMALL))
    if not len(large):
        named = f": {enumerate_names(names[is_found].tolist())}" if with_names else ""
        are = "1 feature is" if n_small == 1 else f"{n_small:,} features are"
        return f"{are} found, but small: under {SMALL:g} % of {percent.of}{' each' * (n_small != 1)} ({level}){named}."
    n_first = _count_first(percents[large])
    first, others = large[:n_first], percents[large[n_first:]]
    subject = enumerate_names(names[first].tolist()) if with_names else count(n_first, "feature")
    verb = "carries" if n_first == 1 else "carry"
    if get_measure(result.measure).is_given_others:  # what each adds to the others is no part of a whole
        return _count_found(names[is_found].tolist(), len(names), level, with_names=with_names)
    parts = [f"{subject} {verb} {format_percent(float(percents[first].sum()))} of {percent.of}"]
    if len(others):
        low, high = format_percent(float(others[-1])).removesuffix(" %"), format_percent(float(others[0]))
        amount = high if len(others) == 1 or f"{low} %" == high else f"{low} to {high}"
        parts.append(_say_more(len(others), amount))
    if n_small:
        parts.append(_say_more(n_small, f"under {SMALL:g} %"))
    return f"{'; '.join(parts)} ({level})."


def _count_first(percents: np.ndarray) -> int:
    """How many features to name first: the fewest that carry most, or all where these are few."""
    if len(percents) <= _FEW:
        return len(percents)
    return int(np.searchsorted(np.cumsum(percents), _MOST_OF_IT * percents.sum())) + 1


def _say_more(number: int, amount: str) -> str:
    return f"{number:,} more {f'adds {amount}' if number == 1 else f'add {amount} each'}"


def _count_found(found: list[str], n_features: int, level: str, *, with_names: bool) -> str:
    verb = "matters" if len(found) == 1 else "matter"
    subject = f"{len(found):,} of {n_features:,} features"
    if len(found) == n_features:
        subject = "The only feature" if n_features == 1 else f"All {n_features:,} features"
    return f"{subject} {verb} ({level}){f': {enumerate_names(found)}' if with_names else ''}."


def say_total(result: ImportanceResult, percent: Percent | None) -> str:
    """Say what all features explain together, or what the numbers are if there is no such thing."""
    if percent is None:
        return f"Scores are in units of {name_unit(result)}; there is no share to give."
    if not percent.is_share:
        return f"Percents are of the sum of all scores ({name_unit(result)}): this model has no shares of the target."
    if get_measure(result.measure).is_given_others:
        return f"A feature's share is the part of {percent.of} that the model would miss more without it."
    return (
        f"All features together explain {format_percent(percent.total)} of {percent.of} on rows that the trees did not "
        f"learn from.{explain_impurity(result)}"
    )
