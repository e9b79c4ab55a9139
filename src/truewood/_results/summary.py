"""The one place that decides what is said about a result: percentages, verdicts and summary sentences.

Terminal, notebook, plots and report all take their numbers and wording from here and from `caveats`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from truewood._formatting import ROWS_IN_WORDS, count, enumerate_names, shorten
from truewood._measures.registry import get_measure

if TYPE_CHECKING:
    from truewood._results.comparison import Comparison
    from truewood._results.importance_result import ImportanceResult

SIGNIFICANT, SIGNIFICANT_SMALL, NOT_SIGNIFICANT = "significant", "significant, but small", "not significant"
# A significant feature below this percentage is called small.
SMALL = 1.0
# Percentages of a sum of scores are shown only if the sum is at least this many standard errors above zero.
_MIN_Z_OF_SUM = 5.0
_MAX_DECIMALS = 6
# The summary names the fewest features that reach this part of the explained total, or all of up to this many.
_MAIN_PART = 2 / 3
_FEW = 4
_N_TOP = 5
_ROW_NAMES = {"oob": "out-of-bag row", "heldout": "held-out row", "folds": "held-out row"}


@dataclass(frozen=True)
class Percent:
    """How scores are converted to percentages.

    Parameters
    ----------
    factor : float
        Multiplier from score to percentage.
    base : str
        What 100% is, in words.
    is_share : bool
        Whether percentages are shares of the target's impurity, as in `ImportanceResult.share`; otherwise they are
        relative to the sum of all scores.
    total : float
        Percentage of all features together.
    """

    factor: float
    base: str
    is_share: bool
    total: float


def find_percent(result: ImportanceResult) -> Percent | None:
    """Return the conversion from scores to percentages, or None if scores are not part of a whole.

    Scores that are not shares, such as those of boosted classifiers, are relative to their sum unless that sum is
    uncertain.
    """
    values, total = result.values, float(result.values.sum())
    if not np.isnan(result.share).all():
        largest = int(np.argmax(np.abs(values)))
        factor = 100.0 * float(result.share[largest] / values[largest]) if values[largest] != 0 else 0.0
        return Percent(factor, name_impurity(result), True, factor * total)
    if total > 0 and total >= _MIN_Z_OF_SUM * result.total_error:
        return Percent(100.0 / total, "the sum of all scores", False, 100.0)
    return None


def name_impurity(result: ImportanceResult) -> str:
    """Name the quantity that shares are shares of."""
    if result.task == "survival":
        return "the variance of martingale residuals"
    is_gini = result.task == "classification" and not result.is_additive
    return f"the target's {'Gini impurity' if is_gini else 'variance'}"


def explain_impurity(result: ImportanceResult) -> str:
    """Explain an uncommon impurity in a sentence; empty for the usual ones."""
    if result.task != "survival":
        return ""
    return "Martingale residual: 1 if the row had the event, 0 if not, minus the number of events expected by its time."


def name_measure(result: ImportanceResult | Comparison) -> str:
    """Name the measure."""
    return get_measure(result.measure).title


def name_unit(result: ImportanceResult | Comparison) -> str:
    """Name the unit of the scores."""
    if result.is_additive:
        return "covariance of raw score and target"
    return get_measure(result.measure).unit[result.task]


def name_axis(result: ImportanceResult, percent: Percent | None) -> str:
    """Label an axis of scores."""
    if percent is None:
        return name_unit(result)
    return f"share of {percent.base} (%)" if percent.is_share else f"% of {percent.base} ({name_unit(result)})"


def name_percent_column(percent: Percent) -> str:
    """Name a table column of percentages."""
    return "share %" if percent.is_share else "% of sum"


def name_level(alpha: float) -> str:
    """Name the level at which features are called significant."""
    return f"{100 * alpha:g}% false discovery rate"


def find_row_source(result: ImportanceResult) -> str:
    """Return which rows the scores come from, as a key of `ROWS_IN_WORDS`; mdi always uses the training rows."""
    return "training" if result.measure == "mdi" else result.rows


def classify_features(result: ImportanceResult, alpha: float) -> NDArray[np.str_]:
    """Classify features as significant, significant but small, or not significant, shape (n_features,)."""
    percent = find_percent(result)
    is_small = (
        np.zeros(len(result.values), dtype=np.bool_) if percent is None else percent.factor * result.values < SMALL
    )
    verdicts: NDArray[np.str_] = np.where(
        result.select(alpha), np.where(is_small, SIGNIFICANT_SMALL, SIGNIFICANT), NOT_SIGNIFICANT
    )
    return verdicts


def write_summary(result: ImportanceResult, alpha: float, *, with_names: bool = True) -> str:
    """Summarize a result in a sentence: which features explain how much, or the number of these features."""
    names, n_features = result.feature_names[result.order], len(result.values)
    if result.inference_unavailable is not None:
        if not with_names:
            return f"Features by {name_measure(result)}"
        top = enumerate_names(names[:_N_TOP].tolist())
        return f"Most important of {count(n_features, 'feature')} by {name_measure(result)}: {top}."
    verdicts, percent, level = classify_features(result, alpha)[result.order], find_percent(result), name_level(alpha)
    is_found = verdicts != NOT_SIGNIFICANT
    found = names[is_found].tolist()
    if not found:
        which = "the only feature" if n_features == 1 else f"any of the {n_features:,} features"
        return f"No evidence that {which} matters ({level})."
    # Scores given the other features do not add up to a whole.
    if percent is None or get_measure(result.measure).is_given_others:
        return _count_significant(found, n_features, level, with_names=with_names)
    verb, verbs = ("explain", "explains") if percent.is_share else ("account for", "accounts for")
    large, n_small = np.flatnonzero(verdicts == SIGNIFICANT), int(np.count_nonzero(verdicts == SIGNIFICANT_SMALL))
    if not len(large):
        subject = f"{count(n_small, 'feature')} {'is' if n_small == 1 else 'are'} significant, but small"
        each = "" if n_small == 1 else " each"
        named = f": {enumerate_names(found)}" if with_names else ""
        return f"{subject}: less than {SMALL:g}% of {percent.base}{each} ({level}){named}."
    percents = percent.factor * result.values[result.order]
    n_main = _count_main(percents[large])
    main, others = large[:n_main], percents[large[n_main:]]
    subject = enumerate_names(names[main].tolist()) if with_names else count(n_main, "feature")
    amount = format_percent(float(percents[main].sum()))
    parts = [f"{subject} {verbs if n_main == 1 else verb} {amount} of {percent.base}"]
    rest = []
    if len(others):
        low, high = format_percent(float(others[-1])), format_percent(float(others[0]))
        rest.append((len(others), high if low == high else f"{low} to {high}"))
    if n_small:
        rest.append((n_small, f"less than {SMALL:g}%"))
    for k, (n, part) in enumerate(rest):
        more = count(n, "more feature") if k == 0 else f"{n:,} more"
        parts.append(f"{more} {f'{verbs} {part}' if n == 1 else f'{verb} {part} each'}")
    return f"{'; '.join(parts)} ({level})."


def _count_main(percents: NDArray[np.float64]) -> int:
    """Number of features to name: the fewest that explain most, or all if they are few."""
    if len(percents) <= _FEW:
        return len(percents)
    return int(np.searchsorted(np.cumsum(percents), _MAIN_PART * percents.sum())) + 1


def _count_significant(found: list[str], n_features: int, level: str, *, with_names: bool) -> str:
    subject = f"{len(found):,} of {n_features:,} features"
    if len(found) == n_features:
        subject = "The only feature" if n_features == 1 else f"All {n_features:,} features"
    verb = "is" if len(found) == 1 else "are"
    return f"{subject} {verb} significant ({level}){f': {enumerate_names(found)}' if with_names else ''}."


def describe_total(result: ImportanceResult, percent: Percent | None) -> tuple[str, str]:
    """Describe what all features explain together, or else what the numbers are, as a term and its value."""
    if percent is None:
        return "Scores are in units of", name_unit(result)
    if not percent.is_share:
        return "Percentages are relative to", f"the sum of all scores ({name_unit(result)})"
    if get_measure(result.measure).is_given_others:
        return "A feature's share is", f"the part of {percent.base} that the model cannot explain without it"
    return "All features together explain", f"{format_percent(percent.total)} of {percent.base}"


def write_total(result: ImportanceResult, percent: Percent | None) -> str:
    """Write `describe_total` as a sentence."""
    sentence = " ".join(describe_total(result, percent))
    if percent is not None and percent.is_share:
        sentence += f" on {ROWS_IN_WORDS[find_row_source(result)]}"
    return f"{sentence}. {explain_impurity(result)}".strip()


def describe_skipped(result: ImportanceResult) -> str:
    """Describe how much of the splits was not scored."""
    row = {"oob": "out-of-bag row", "heldout": "held-out row", "folds": "held-out row"}.get(
        result.rows, "evaluation row"
    )
    percent = 100 * result.skipped_weight
    return (
        f"{percent:.{max(1, _count_decimals(percent))}f}% of splits (weighted by training rows) were not scored "
        f"because no {row} reached one of the two children."
    )


def classify_differences(comparison: Comparison, alpha: float) -> NDArray[np.str_]:
    """Classify features as higher in one of two results, or not significant, shape (n_features,)."""
    is_found = comparison.adjusted_p_value() <= alpha
    verdicts: NDArray[np.str_] = np.where(
        is_found, np.where(comparison.difference > 0, *name_differences(comparison)), NOT_SIGNIFICANT
    )
    return verdicts


def name_differences(comparison: Comparison) -> tuple[str, str]:
    """Name the verdicts for features that score higher in the first result, and in the second."""
    a, b = (shorten(name, 24) for name in comparison.names)
    return (f"higher in {a}", f"higher in {b}") if a != b else ("higher", "lower")


def summarize_differences(comparison: Comparison, alpha: float, *, with_names: bool = True) -> str:
    """Summarize a comparison in a sentence or two: how many features differ, and which."""
    verdicts, names = classify_differences(comparison, alpha)[comparison.order], comparison.feature_names
    n_found, n_features = int(np.count_nonzero(verdicts != NOT_SIGNIFICANT)), len(verdicts)
    if not n_found:
        return f"No evidence that any feature differs ({name_level(alpha)})."
    verb = "differs" if n_found == 1 else "differ"
    sentences = [f"{n_found:,} of {count(n_features, 'feature')} {verb} ({name_level(alpha)})."]
    for verdict in name_differences(comparison) if with_names else ():
        found = names[comparison.order][verdicts == verdict].tolist()
        if found:
            sentences.append(f"{verdict[0].upper()}{verdict[1:]}: {enumerate_names(found)}.")
    return " ".join(sentences)


def format_percent(percent: float) -> str:
    """Format a percentage in few digits: 63%, 3.4%, 0.26%, 0.0012%."""
    n_decimals = 0 if abs(percent) >= 10 else 1 if abs(percent) >= 1 else _count_decimals(percent)
    return f"{percent:.{n_decimals}f}%"


def format_column(numbers: NDArray[np.float64], n_decimals: int = 1) -> list[str]:
    """Format the numbers of a column with aligned decimal points; small numbers get more decimals."""
    texts = [f"{number:,.{max(n_decimals, _count_decimals(number))}f}" for number in numbers.tolist()]
    n_after = [len(text.partition(".")[2]) for text in texts]
    padded = [text + " " * (max(n_after) - n) for text, n in zip(texts, n_after, strict=True)]
    return [text.rjust(max(map(len, padded))) for text in padded]


def format_intervals(low: NDArray[np.float64], high: NDArray[np.float64], n_decimals: int = 1) -> list[str]:
    """Format intervals with the decimals that the larger end needs, and at least two if an end is below 1."""
    texts = []
    for ends in zip(low.tolist(), high.tolist(), strict=True):
        n = max(n_decimals, _count_decimals(max(ends, key=abs)), min(2, _count_decimals(min(ends, key=abs))))
        texts.append(f"{ends[0]:,.{n}f} to {ends[1]:,.{n}f}")
    return texts


def _count_decimals(number: float) -> int:
    """Decimals that show two significant digits of a number below 1; none if that takes too many."""
    if abs(number) < 0.5 * 10**-_MAX_DECIMALS or abs(number) >= 1 or math.isnan(number):
        return 0
    return min(_MAX_DECIMALS, 1 - math.floor(math.log10(abs(number))))
