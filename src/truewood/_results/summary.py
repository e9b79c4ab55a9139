"""The wording of a result: percentages, verdicts and summary sentences.

Terminal, notebook, plots and report all take their numbers and wording from here and from `caveats`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from truewood._formatting import (
    LEVEL,
    ROWS_IN_WORDS,
    Unit,
    count,
    enumerate_names,
    find_unit,
    format_percent,
    format_percents,
    shorten,
)
from truewood._measures.registry import get_measure
from truewood._results.scores_with_errors import find_share_factor

if TYPE_CHECKING:
    from truewood._results.comparison import Comparison
    from truewood._results.importance_result import ImportanceResult

SIGNIFICANT, SIGNIFICANT_SMALL, NOT_SIGNIFICANT = "significant", "significant, but small", "not significant"
# A significant feature below this percentage is called small.
SMALL = 1.0
# Percentages of a sum of scores are shown only if the sum is at least this many standard errors above zero.
_MIN_Z_OF_SUM = 5.0
# The summary names the top features that reach this part of the explained total, or all if there are at most this many.
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
        Percentage of all features together, within 0 and 100.
    """

    factor: float
    base: str
    is_share: bool
    total: float


def find_percent(result: ImportanceResult, target: str | None = None) -> Percent | None:
    """Return the conversion from scores to percentages, or None if scores are not part of a whole.

    Scores that are not shares, such as those of boosted classifiers, are relative to their sum unless that sum is
    uncertain. So are the scores of boosted trees if one of them, or their sum, exceeds the target's impurity: they are
    covariances, and correlated features may have large ones of opposite signs.
    """
    total, factor = float(result.values.sum()), 100 * find_share_factor(result.values, result.share)
    is_above = max(total, float(result.values.max())) * factor > 100
    if not math.isnan(factor) and not (result.is_additive and is_above):
        return Percent(factor, name_variation_in(target), True, min(max(factor * total, 0.0), 100.0))
    if total > 0 and total >= _MIN_Z_OF_SUM * result.total_error:
        return Percent(100.0 / total, "the total importance", False, 100.0)
    return None


def get_factor(percent: Percent | None) -> float:
    """The multiplier from a score to the number that is shown."""
    return 1.0 if percent is None else percent.factor


@dataclass(frozen=True, eq=False)
class ShownScores:
    """The scores of a result as terminal, plots and report show them.

    Percentages are clipped to the range from 0 to 100, because a feature cannot explain less than 0% or more than 100%.
    Scores in their own unit are not clipped.

    Parameters
    ----------
    values : ndarray of shape (n_features,)
        Percentages, or scores if they are not part of a whole.
    low, high : ndarray of shape (n_features,)
        Ends of their intervals; NaN without inference.
    unit : Unit or None
        The unit of scores; None for percentages.
    """

    values: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    unit: Unit | None

    @property
    def suffix(self) -> str:
        """What follows a number outside of a table."""
        return "%" if self.unit is None else self.unit.name("")

    def write_values(self) -> list[str]:
        """Write the values as the texts of a column."""
        return self._write(self.values)

    def write_intervals(self) -> list[str]:
        """Write the intervals as the texts of a column: "0.26 to 3.4"."""
        ends = zip(self._write(self.low), self._write(self.high), strict=True)
        return [f"{low} to {high}" for low, high in ends]

    def _write(self, numbers: NDArray[np.float64]) -> list[str]:
        if self.unit is None:
            return format_percents(numbers.tolist())
        return [self.unit.write(number) for number in numbers.tolist()]


def find_shown(result: ImportanceResult, percent: Percent | None) -> ShownScores:
    """Return scores and intervals as they are shown, in the order of the features."""
    low = high = np.full(len(result.values), np.nan)
    if result.inference_unavailable is None:
        low, high = result.interval(LEVEL)
    if percent is None:
        return ShownScores(result.values, low, high, find_unit(result.values.tolist()))
    values, low, high = (np.clip(percent.factor * numbers, 0.0, 100.0) for numbers in (result.values, low, high))
    return ShownScores(values, low, high, None)


def name_variation_in(target: str | None = None) -> str:
    """Name what shares are shares of, for readers who do not know impurity."""
    return f"the variation in {'the target' if target is None else shorten(target, 80)}"


def name_share(result: ImportanceResult) -> str:
    """Define shares by their technical term."""
    limits = "Shares are clipped to the range from 0 to 100%."
    measure = get_measure(result.measure)
    if result.values.min() < 0 and not measure.is_given_others and not measure.is_loss_increase:
        limits += " The total includes negative shares, so the shares shown may add up to more than the total."
    if measure.is_given_others:
        text = f"the part of {name_impurity(result)} that the model explains only with the feature"
    elif measure.is_loss_increase:
        text = f"the increase in squared error when the feature is permuted, relative to {name_impurity(result)}"
    else:
        text = f"the part of {name_impurity(result)} explained by splits on the feature"
    return " ".join(filter(None, [f"{text[0].upper()}{text[1:]}.", explain_impurity(result), limits]))


def explain_percent_of_total(result: ImportanceResult) -> str:
    """Explain percentages that are relative to the sum of all scores."""
    text = "Relative to the sum of all importances, and clipped to the range from 0 to 100%."
    if result.values.min() < 0:
        text += " The sum includes negative importances, so the percentages shown may add up to more than 100%."
    return f"{text} Intervals ignore the error of the sum."


def explain_total(result: ImportanceResult) -> list[str]:
    """Explain why what all features together explain differs from R2, in a sentence; empty for other tasks."""
    percent, measure = find_percent(result), get_measure(result.measure)
    is_total = percent is not None and percent.is_share and not measure.is_given_others and not measure.is_loss_increase
    if result.task != "regression" or not is_total:
        return []
    return ["The total can differ from R2: it adds up the scores of features; R2 measures the error of predictions."]


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
    return (
        "Martingale residual: the event indicator (1 for an event, 0 for censoring) minus the number of events "
        "expected by the row's time."
    )


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
    return f"share of {percent.base} (%)"


def name_percent_column(percent: Percent) -> str:
    """Name a table column of percentages."""
    return "share %" if percent.is_share else "% of total"


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


def write_summary(
    result: ImportanceResult,
    alpha: float,
    *,
    target: str | None = None,
    with_names: bool = True,
    with_level: bool = True,
    longest: int = 36,
) -> str:
    """Summarize a result in a sentence: which features explain how much, or the number of these features.

    Parameters
    ----------
    result : ImportanceResult
        The scores.
    alpha : float
        Significance level for adjusted p-values.
    target : str, default=None
        Name of the target.
    with_names, with_level : bool, default=True
        Whether to name features, and the level of significance.
    longest : int, default=36
        Characters of a name; longer ones are shortened.
    """
    names, n_features = result.feature_names[result.order], len(result.values)
    if result.inference_unavailable is not None:
        if not with_names:
            return f"Features by {name_measure(result)}"
        top = enumerate_names(names[:_N_TOP].tolist(), longest=longest)
        if n_features <= _N_TOP:
            return f"Features by {name_measure(result)}, most important first: {top}."
        return f"Most important of {n_features:,} features by {name_measure(result)}: {top}."
    verdicts, percent = classify_features(result, alpha)[result.order], find_percent(result, target)
    level = f" ({name_level(alpha)})" if with_level else ""
    is_found = verdicts != NOT_SIGNIFICANT
    found = names[is_found].tolist()
    if not found:
        which = "the only feature" if n_features == 1 else f"any of the {n_features:,} features"
        return f"No evidence that {which} matters{level}."
    # Scores given the other features do not add up to a whole.
    if percent is None or get_measure(result.measure).is_given_others:
        named = f": {enumerate_names(found, longest=longest)}" if with_names else ""
        return f"{_count_significant(len(found), n_features)}{level}{named}."
    verb, verbs = ("explain", "explains") if percent.is_share else ("account for", "accounts for")
    large, n_small = np.flatnonzero(verdicts == SIGNIFICANT), int(np.count_nonzero(verdicts == SIGNIFICANT_SMALL))
    if not len(large):
        subject = f"{count(n_small, 'feature')} {'is' if n_small == 1 else 'are'} significant, but"
        each = "" if n_small == 1 else " each"
        named = f": {enumerate_names(found, longest=longest)}" if with_names else ""
        verb = verbs if n_small == 1 else verb
        return f"{subject} {verb} less than {SMALL:g}% of {percent.base}{each}{level}{named}."
    percents = find_shown(result, percent).values[result.order]
    n_main = _count_main(percents[large])
    main, others = large[:n_main], percents[large[n_main:]]
    subject = enumerate_names(names[main].tolist(), longest=longest) if with_names else count(n_main, "feature")
    # Scores of noise may be negative, but no sum is shown as larger than the whole.
    explained = float(percents[main].sum())
    amount = format_percent(explained if n_main == 1 else min(explained, percent.total))
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
    return f"{'; '.join(parts)}{level}."


def _count_main(percents: NDArray[np.float64]) -> int:
    """Number of features to name: the fewest that explain most, or all if they are few."""
    if len(percents) <= _FEW:
        return len(percents)
    return int(np.searchsorted(np.cumsum(percents), _MAIN_PART * percents.sum())) + 1


def _count_significant(n_found: int, n_features: int) -> str:
    subject = f"{n_found:,} of {n_features:,} features"
    if n_found == n_features:
        subject = "The only feature" if n_features == 1 else f"All {n_features:,} features"
    return f"{subject} {'is' if n_found == 1 else 'are'} significant"


def describe_total(result: ImportanceResult, percent: Percent | None) -> tuple[str, str]:
    """Describe what all features explain together, or else what the numbers are, as a term and its value."""
    if percent is None:
        return "Importances measure the", name_unit(result)
    if not percent.is_share:
        return "Percentages are relative to", "the sum of all importances"
    if get_measure(result.measure).is_given_others:
        return "A feature's share is", f"how much of {percent.base} the model explains only with it"
    if get_measure(result.measure).is_loss_increase:
        return "A feature's share is", f"how much error permuting it adds, relative to {percent.base}"
    return "All features together explain", f"{format_percent(percent.total)} of {percent.base}"


def write_total(result: ImportanceResult, percent: Percent | None) -> str:
    """Write `describe_total` as a sentence."""
    sentence = " ".join(describe_total(result, percent))
    if percent is not None and percent.is_share:
        sentence += f" on {ROWS_IN_WORDS[find_row_source(result)]}"
    elif percent is not None:
        sentence += f" ({name_unit(result)})"
    return f"{sentence}."


def describe_skipped(result: ImportanceResult) -> str:
    """Describe how much of the splits was not scored."""
    row = _ROW_NAMES.get(result.rows, "evaluation row")
    return (
        f"{format_percent(100 * result.skipped_weight)} of splits (weighted by training rows) were not scored because "
        f"no {row} reached one of the two children."
    )
