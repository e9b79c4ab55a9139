"""Caveats of a result, and how to read its verdicts and intervals: the same text in terminal and report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from truewood._formatting import count, enumerate_names, format_p_value
from truewood._inference.moments import find_forest_noise
from truewood._inference.standard_errors import TREE_NOISE, average_tree_noise
from truewood._inputs.correlation import MOST_COLUMNS, STRONG, Correlations, find_correlations, find_missing
from truewood._measures.registry import get_measure
from truewood._results.scores_with_errors import find_share_factor
from truewood._results.summary import SIGNIFICANT, SIGNIFICANT_SMALL, SMALL, describe_skipped, find_percent

if TYPE_CHECKING:
    from truewood._results.importance_result import ImportanceResult

# The model as a whole is always tested at this level, whatever the level for features.
_MODEL_ALPHA = 0.05
# Items that one line of text lists.
_MAX_LISTED = 5
# Fewer rows make intervals and p-values rough.
_FEW_ROWS = 200
# Skipped split weight that is worth a caveat, and that makes the caveat severe.
_SKIPPED, _MUCH_SKIPPED = 0.05, 0.25
# Share of missing values that is worth a caveat.
_MUCH_MISSING = 0.2
# Variance of a significant score between trees, as a multiple of its variance over data sets, that is worth a caveat.
_UNSTABLE = 20.0
# Share of a typical standard error from the randomness of the trees that is worth a caveat.
_TREE_NOISE = 0.15


@dataclass(frozen=True)
class Caveat:
    """A reason to read a result with care.

    Parameters
    ----------
    heading : str
        A few words.
    text : str
        One or more sentences; the first follows the heading and a colon.
    is_severe : bool
        Whether the result may be wrong because of it.
    items : tuple of str
        Items to list after the text.
    """

    heading: str
    text: str
    is_severe: bool = False
    items: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.items:
            return f"{self.heading}: {self.text}"
        items = "; ".join(self.list_items(_MAX_LISTED)).removesuffix(".")
        return f"{self.heading}: {self.text.removesuffix('.')}: {items}."

    def list_items(self, most: int) -> list[str]:
        """Return the first items, and how many more there are."""
        n_more = len(self.items) - most
        return [*self.items[:most], *[f"and {n_more:,} more"] * (n_more > 0)]


@dataclass(frozen=True)
class TableCheck:
    """Properties of the scored table that affect how its scores should be read.

    Parameters
    ----------
    correlations : Correlations
        Nearly redundant columns.
    missing : list of (str, float)
        Columns with missing values, and the share of values that are missing.
    n_within_groups : int
        Number of nearly redundant pairs that `correlations` leaves out because both columns are in one feature group.
    """

    correlations: Correlations
    missing: list[tuple[str, float]]
    n_within_groups: int = 0


def check_table(
    result: ImportanceResult, X: Any, feature_groups: Mapping[str, Sequence[Any]] | None
) -> TableCheck | None:
    """Check a sample of the scored table for redundant columns and missing values; None without a table."""
    if X is None:
        return None
    names = result.feature_names.tolist()
    correlations = find_correlations(X, names, result.order.tolist())
    # Columns of one group are scored together, so their correlation does not matter.
    group_of = {str(column): name for name, columns in (feature_groups or {}).items() for column in columns}
    pairs = [pair for pair in correlations.pairs if group_of.get(pair[0], pair[0]) != group_of.get(pair[1], pair[1])]
    n_within_groups = len(correlations.pairs) - len(pairs)
    return TableCheck(replace(correlations, pairs=pairs), find_missing(X, names), n_within_groups)


def is_no_better_than_chance(result: ImportanceResult) -> bool:
    """Whether all splits together show no evidence of predicting evaluation rows; False without a test."""
    return result.total_p_value > _MODEL_ALPHA


def list_caveats(result: ImportanceResult, check: TableCheck | None, *, with_chance: bool = True) -> list[Caveat]:
    """List reasons to read a result with care, the most severe first; `with_chance` if chance may be one of them."""
    caveats = []
    if with_chance and is_no_better_than_chance(result):
        caveats.append(
            Caveat(
                "No better than chance",
                "there is no evidence that the model's splits predict the target on evaluation rows (p-value of all "
                f"features together: {format_p_value(result.total_p_value)}). Importances of a model that "
                "predicts no better than chance are meaningless.",
                is_severe=True,
            )
        )
    if result.measure == "mdi":
        caveats.append(
            Caveat(
                "Biased importances",
                "they are computed on the rows that chose the splits, so features with many possible splits look "
                "important even if they are noise.",
                is_severe=True,
            )
        )
    caveats += _list_large_shares(result)
    if result.skipped_weight > _SKIPPED:
        is_severe = result.skipped_weight > _MUCH_SKIPPED
        text = (
            f"{describe_skipped(result)} They contribute nothing to scores; trees with larger leaves have fewer of "
            "them."
        )
        caveats.append(Caveat("Splits without evaluation rows", text, is_severe=is_severe))
    n_units, unit = (result.n_rows, "row") if result.n_groups is None else (result.n_groups, "group")
    if result.inference_unavailable is None and n_units < _FEW_ROWS:
        per_class = " of each class" * (result.task == "classification")
        caveats.append(
            Caveat(
                f"Few {unit}s",
                f"intervals and p-values from {count(n_units, unit)}{' of rows' * (unit == 'group')} are rough. Add "
                f"{unit}s if you can; do not rely on p-values from fewer than a few dozen {unit}s{per_class}.",
            )
        )
    caveats += [*_list_tree_noise(result), *_list_unstable(result)]
    if result.notes:
        text = "preprocessing and the choice of evaluation rows affect what is scored."
        caveats.append(Caveat("Columns and rows", text, items=tuple(result.notes)))
    if check is not None:
        caveats += _list_table_caveats(check, are_given=get_measure(result.measure).is_given_others)
    return caveats


def _list_tree_noise(result: ImportanceResult) -> list[Caveat]:
    needed = result.n_trees_needed
    noise = average_tree_noise(result.tree_noise, result.null_std_error, result.values)
    if needed is None or noise <= _TREE_NOISE:
        return []
    return [
        Caveat(
            "Few trees",
            f"on average, the randomness of the trees makes up {100 * noise:.0f}% of the standard errors. "
            f"{_round_up(needed):,} trees instead of {result.n_trees:,} would reduce that to {100 * TREE_NOISE:.0f}%, "
            "so that weaker features can become significant.",
        )
    ]


def _list_unstable(result: ImportanceResult) -> list[Caveat]:
    """Significant features whose scores vary so much between trees that other rows would lead to other splits."""
    if result.inference_unavailable is not None or result.is_additive or np.isnan(result.tree_noise).all():
        return []
    weight = np.ones(result.n_trees) if result.tree_weight is None else result.tree_weight
    weight = np.where(np.isnan(result.per_tree).any(axis=1), 0.0, weight)
    noise, _ = find_forest_noise(result.values, np.nan_to_num(result.per_tree), weight)
    of_a_tree = noise * weight.sum() ** 2 / (weight**2).sum()
    is_unstable = (result.p_value <= _MODEL_ALPHA) & (of_a_tree > _UNSTABLE * result.std_error**2)
    names = result.feature_names[result.order][is_unstable[result.order]].tolist()
    if not names:
        return []
    subject, verb = ("the importance of", "varies") if len(names) == 1 else ("the importances of", "vary")
    return [
        Caveat(
            "Intervals too short",
            f"{subject} {enumerate_names(names)} {verb} strongly between trees, which is typical of features that "
            "matter only in combination with others. Other rows could lead to quite different splits, so "
            f"{'its interval is' if len(names) == 1 else 'their intervals are'} probably too short. In "
            "Python, use inference='bags' with at least 1,000 trees.",
        )
    ]


def _round_up(n_trees: int) -> int:
    """Round up to two digits."""
    unit: int = 10 ** max(len(str(n_trees)) - 2, 0)
    return -(-n_trees // unit) * unit


def _list_large_shares(result: ImportanceResult) -> list[Caveat]:
    factor, percent = find_share_factor(result.values, result.share), find_percent(result)
    measure = get_measure(result.measure)
    adds_up = not measure.is_loss_increase and not measure.is_given_others
    found = {"reach": factor * float(result.values.max())}
    if adds_up:
        found["add up to"] = factor * float(result.values.sum())
    above = [f"{verb} {100 * share:.0f}%" for verb, share in found.items() if share > 1]
    if percent is None or not above:
        return []
    shown = "100% is shown instead" if percent.is_share else "importances are shown relative to their sum"
    reason = (
        "A share is the covariance of predictions and target relative to the target's variance in training, and "
        "exceeds 100% if predictions vary more than the target, or if the target varies more in evaluation rows than "
        "in training rows."
        if adds_up
        else "A share above 100% means that without the feature's information, predictions are worse than the mean of "
        "the target, or that the target varies more in evaluation rows than in training rows."
    )
    return [
        Caveat(
            "Shares above 100%",
            f"shares {' and '.join(above)}, so {shown}. {reason} Rely on the order of the features, not on the sizes.",
        )
    ]


def _list_table_caveats(check: TableCheck, *, are_given: bool) -> list[Caveat]:
    """Caveats from the table; `are_given` if scores are given the other features."""
    caveats, pairs = [], check.correlations.pairs
    effect = (
        "nearly redundant features share credit, and their p-values cannot say which one matters; score them as a "
        "group to see what they contribute together."
    )
    if are_given:
        effect = (
            "the model can do without either of two nearly redundant features as long as it has the other; score them "
            "as a group instead."
        )
    if pairs:
        items = [f"{first} and {second} (correlation {strength:.2f})" for first, second, strength in pairs]
        verb = "is" if len(pairs) == 1 else "are"
        text = f"{effect} {count(len(pairs), 'pair')} {verb} affected."
        caveats.append(Caveat("Correlated features", text, items=tuple(items)))
    much = sorted((pair for pair in check.missing if pair[1] >= _MUCH_MISSING), key=lambda pair: -pair[1])
    if much:
        named = enumerate_names([f"{name} ({100 * share:.0f}% missing)" for name, share in much])
        caveats.append(
            Caveat(
                "Missing values",
                f"{named}. The importance of such a feature includes whether its value is missing, which may itself "
                "depend on the target.",
            )
        )
    return caveats


def describe_correlations(check: TableCheck | None) -> str:
    """Describe which columns were compared, and whether any are nearly redundant."""
    if check is None:
        return (
            "Not checked because the report was created without the table. Strongly correlated features share credit, "
            "and their p-values cannot say which one matters."
        )
    found = check.correlations
    how = (
        f"absolute Spearman correlation, or Cramér's V for categories, of at least {STRONG}; "
        f"{count(found.n_rows, 'row')}; {found.n_columns:,} of {count(found.n_given, 'column')} compared"
    )
    if found.n_columns < found.n_given <= MOST_COLUMNS:
        how += "; columns with a single value or too many levels are left out"
    if found.n_with_categories < found.n_columns:
        how += f"; only the first {found.n_with_categories:,} were compared with categorical columns"
    if check.n_within_groups:
        how += f"; {count(check.n_within_groups, 'pair')} within a feature group not counted"
    verb = "is" if len(found.pairs) == 1 else "are"
    pairs = f"{count(len(found.pairs), 'pair')} of features {verb}" if found.pairs else "No pair of features is"
    return f"{pairs} strongly correlated ({how})."


def explain_verdicts(result: ImportanceResult, alpha: float, target: str | None = None) -> dict[str, str]:
    """Explain by verdict what makes features significant, or significant but small; with inference only."""
    meanings = {SIGNIFICANT: f"Significant: adjusted p-value (Benjamini-Hochberg) at most {alpha:g}."}
    percent = find_percent(result, target)
    if percent is not None:
        meanings[SIGNIFICANT_SMALL] = f"Significant, but small: less than {SMALL:g}% of {percent.base}."
    return meanings


def explain_intervals(result: ImportanceResult, alpha: float) -> list[str]:
    """Explain verdicts and intervals that seem to disagree, and what both assume; with inference only."""
    lines = []
    low, _ = result.interval()
    is_found = result.select(alpha)
    excluded = result.feature_names[result.order][(~is_found & (low > 0))[result.order]].tolist()
    if excluded:
        interval, verb = ("the interval lies", "is") if len(excluded) == 1 else ("the intervals lie", "are")
        lines.append(
            f"{enumerate_names(excluded)}: {interval} above zero, but the feature{'s' * (len(excluded) > 1)} {verb} "
            f"not significant. Each interval is for a single feature; the test adjusts for all "
            f"{count(len(low), 'feature')}."
        )
    included = result.feature_names[result.order][(is_found & (low <= 0))[result.order]].tolist()
    if included:
        lines.append(
            f"{enumerate_names(included)}: significant, although the interval includes zero. The test is one-sided and "
            "uses the standard error of a feature that does not matter; the interval is two-sided, and its standard "
            "error is usually larger."
        )
    if result.residual_values is not None:
        lines.append(
            "P-values are those of the residual test: each feature is tested on the part of the target that the other "
            "features leave unexplained."
        )
    lines.append(
        "Redundant features can replace each other, so it is possible that none of them is significant."
        if get_measure(result.measure).is_given_others
        else "Features that are merely correlated with useful ones may be significant, too."
    )
    lines.append(
        "P-values and intervals assume independent rows; clustered rows, such as several per person, place or period, "
        "make them too optimistic."
        if result.n_groups is None
        else "P-values and intervals assume that rows of different groups are independent."
    )
    return lines
