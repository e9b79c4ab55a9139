"""What to be careful about, and how marks and intervals are to be read: the same words in terminal and report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from truewood._formatting import count, enumerate_names
from truewood._inputs.correlation import STRONG, Correlations, find_correlations, find_missing
from truewood._measures.registry import get_measure
from truewood._results.summary import FOUND, FOUND_SMALL, SMALL, find_percent

if TYPE_CHECKING:
    from truewood._results.importance_result import ImportanceResult

# The model as a whole is tested at this level, whatever that of its features.
_MODEL_LEVEL = 0.05
_MOST_PAIRS = 20
# What a line lists of it.
_LISTED = 5
_FEW_ROWS = 200
# Parts that are worth a word, and parts that are grave.
_SKIPPED, _MUCH_SKIPPED = 0.05, 0.25
_MUCH_MISSING = 0.2


@dataclass(frozen=True)
class Caveat:
    """Something to be careful about.

    Parameters
    ----------
    heading : str
        It in a few words.
    text : str
        It in sentences.
    is_grave : bool
        Whether the answer may be wrong because of it.
    items : tuple of str
        A list below the text.
    """

    heading: str
    text: str
    is_grave: bool = False
    items: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown = [*self.items[:_LISTED], *["and more"] * (len(self.items) > _LISTED)]
        return f"{self.heading}: {self.text}{' ' * bool(shown)}{'; '.join(shown)}"


@dataclass(frozen=True)
class TableCheck:
    """What a look at the table found.

    Parameters
    ----------
    correlations : Correlations
        Columns that tell nearly the same.
    missing : list of (str, float)
        Columns with missing values, and their share.
    """

    correlations: Correlations
    missing: list[tuple[str, float]]


def check_table(
    result: ImportanceResult, X: Any, feature_groups: Mapping[str, Sequence[Any]] | None
) -> TableCheck | None:
    """Look at a sample of the table that was scored; None where there is none."""
    if X is None:
        return None
    names = result.feature_names.tolist()
    correlations = find_correlations(X, names, result.order.tolist())
    return TableCheck(_leave_out_groups(correlations, feature_groups or {}), find_missing(X, names))


def _leave_out_groups(correlations: Correlations, feature_groups: Mapping[str, Sequence[Any]]) -> Correlations:
    """Pairs of columns that are not in one group."""
    group_of = {str(column): name for name, columns in feature_groups.items() for column in columns}
    pairs = [pair for pair in correlations.pairs if group_of.get(pair[0], pair[0]) != group_of.get(pair[1], pair[1])]
    return replace(correlations, pairs=pairs)


def is_useless(result: ImportanceResult) -> bool:
    """Whether all splits together say nothing about unseen rows; False where that was not tested."""
    return result.total_p_value > _MODEL_LEVEL


def list_caveats(result: ImportanceResult, check: TableCheck | None) -> list[Caveat]:
    """Say what to be careful about, the gravest first."""
    cautions = []
    if is_useless(result):
        cautions.append(
            Caveat(
                "The model may be useless",
                "taken together the splits say nothing about unseen rows (p-value of all features together: "
                f"{result.total_p_value:.2g}); importances of a model that predicts no better than chance mean "
                "nothing.",
                is_grave=True,
            )
        )
    if result.measure == "mdi":
        cautions.append(
            Caveat(
                "These importances are biased",
                "they are judged on the rows that chose the splits, so that features with many possible splits look "
                "important even when they are noise.",
                is_grave=True,
            )
        )
    cautions += _find_large_shares(result)
    if result.skipped_weight > _SKIPPED:
        cautions.append(
            Caveat(
                "Splits that could not be judged",
                f"{100 * result.skipped_weight:.1f} % of the weight of all splits was left out, because no unseen "
                "row reached one of their sides.",
                is_grave=result.skipped_weight > _MUCH_SKIPPED,
            )
        )
    n_units = result.n_rows if result.n_groups is None else result.n_groups
    if result.inference_unavailable is None and n_units < _FEW_ROWS:
        unit = "row" if result.n_groups is None else "group"
        cautions.append(
            Caveat(
                f"Few {unit}s",
                f"with {count(n_units, unit)}{' of rows' * (unit == 'group')}, intervals and p-values are rough: they "
                f"need a few dozen {unit}s of each class that reach the splits.",
            )
        )
    if result.notes:
        text = "the model's own preparation of the table, and the choice of rows, decided what is scored by what."
        cautions.append(Caveat("Columns and rows", text, items=tuple(result.notes)))
    if check is None:
        return cautions
    return cautions + _describe_table(check, are_given=get_measure(result.measure).is_given_others)


def _find_large_shares(result: ImportanceResult) -> list[Caveat]:
    percent = find_percent(result)
    if percent is None or not percent.is_share or max(percent.total, percent.factor * result.values.max()) <= 100:
        return []
    return [
        Caveat(
            "Shares above 100 %",
            "a share compares how predictions and target vary together with how the target varied in training; it "
            "passes 100 % where predictions swing further than the target does, or where the unseen rows vary more "
            "than the training rows. Read the order of the features, not the sizes.",
        )
    ]


def _describe_table(check: TableCheck, *, are_given: bool) -> list[Caveat]:
    """Cautions of columns; of features given the others, or not."""
    cautions, pairs = [], check.correlations.pairs
    effect = "the model may use either, and neither p-value says which of them is the one."
    if are_given:
        effect = "the model can do without either as long as it has the other; scored as a group they show."
    if pairs:
        items = [f"{first} and {second} ({strength:.2f})" for first, second, strength in pairs[:_MOST_PAIRS]]
        if len(pairs) > _MOST_PAIRS:
            items.append(f"and {count(len(pairs) - _MOST_PAIRS, 'more pair')}")
        cautions.append(
            Caveat(
                "Correlated features",
                f"{count(len(pairs), 'pair')} of features {'tells' if len(pairs) == 1 else 'tell'} nearly the same. "
                f"They share what they tell: {effect}",
                items=tuple(items),
            )
        )
    much = sorted((pair for pair in check.missing if pair[1] >= _MUCH_MISSING), key=lambda pair: -pair[1])
    if much:
        named = enumerate_names([f"{name} ({100 * share:.0f} %)" for name, share in much])
        cautions.append(
            Caveat(
                "Missing values",
                f"{named} of the rows have no value. What such a feature tells includes that its value is missing, "
                "which may be for a reason that has to do with the target.",
            )
        )
    return cautions


def describe_correlations(check: TableCheck | None) -> str:
    """Say which columns were compared, and whether any tell nearly the same."""
    if check is None:
        return (
            "Not checked, as the report was made without the table. Strongly correlated features share what they tell, "
            "and neither p-value says which of them is the one."
        )
    found = check.correlations
    looked_at = (
        f"a Spearman correlation of at least {STRONG} in size, or Cramér's V where a category takes part, in "
        f"{count(found.n_rows, 'row')}; compared: {found.n_columns:,} of {count(found.n_given, 'column')}"
    )
    if found.n_with_categories < found.n_columns:
        looked_at += f", with categories only the first {found.n_with_categories:,}"
    if not found.pairs:
        return f"No two features that were compared are strongly related ({looked_at})."
    return f"{count(len(found.pairs), 'pair')} of features strongly related ({looked_at})."


def explain_verdicts(result: ImportanceResult, alpha: float) -> dict[str, str]:
    """What it means that features are found, or found but small, by verdict; with inference only."""
    meanings = {FOUND: f"Found: adjusted p-value (Benjamini & Hochberg) at most {alpha:g}."}
    percent = find_percent(result)
    if percent is not None:
        meanings[FOUND_SMALL] = f"Found, but small: under {SMALL:g} % of {percent.of}."
    return meanings


def explain_intervals(result: ImportanceResult, alpha: float) -> list[str]:
    """Where a verdict and an interval seem to disagree, and what both rest on; with inference only."""
    lines = []
    low, _ = result.interval()
    is_found = result.select(alpha)
    without = result.feature_names[result.order][(~is_found & (low > 0))[result.order]].tolist()
    if without:
        its, lies = ("its interval lies", "it is") if len(without) == 1 else ("their intervals lie", "they are")
        lines.append(
            f"{enumerate_names(without)}: {its} above zero, yet {lies} not called found. An interval speaks of one "
            f"feature; what is called found has to stand out among {count(len(low), 'feature')} that were tested."
        )
    despite = result.feature_names[result.order][(is_found & (low <= 0))[result.order]].tolist()
    if despite:
        lines.append(
            f"{enumerate_names(despite)}: found, though the interval reaches zero. The test asks only whether the "
            "feature tells anything; an interval leaves 2.5 % out at either end, and allows for more."
        )
    lines.append(
        "Features that tell the same stand in for each other, so that none of them may be found."
        if get_measure(result.measure).is_given_others
        else "Features that are only correlated with useful ones may be found, too."
    )
    what = "rows" if result.n_groups is None else "groups of rows"
    lines.append(
        f"P-values and intervals take {what} as independent: {what} that belong together, such as those of one person, "
        "place or period, make them too good."
    )
    return lines
