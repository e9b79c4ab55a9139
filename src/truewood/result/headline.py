"""The answer in a sentence: which features carry how much, and what all of them explain together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from truewood.formulas.registry import get_measure
from truewood.result.percent import (
    FOUND,
    FOUND_SMALL,
    SMALL,
    Percent,
    explain_impurity,
    find_percent,
    format_percent,
    judge_features,
)
from truewood.words import count, enumerate_names

if TYPE_CHECKING:
    from truewood.result.comparison import Comparison
    from truewood.result.importance_result import ImportanceResult

# The features that are named first carry at least this part of what is found; up to so many are named anyway.
_MOST_OF_IT = 2 / 3
_FEW = 4


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


def write_headline(result: ImportanceResult, alpha: float, *, with_names: bool = True) -> str:
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
