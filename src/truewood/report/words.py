"""What the report says in words: the answer, what was measured, and what to be careful about. Plain text, no HTML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from truewood.data.correlation import STRONG, Correlations
from truewood.formulas.registry import get_measure
from truewood.result.pictures import name_level, name_measure, name_unit, shorten
from truewood.words import ROWS_IN_WORDS, count

if TYPE_CHECKING:
    import pandas as pd

    from truewood.result.importance_result import ImportanceResult

CITATION = (
    'Z. Zhou and G. Hooker, "Unbiased Measurement of Feature Importance in Tree-Based Methods", ACM Transactions on '
    "Knowledge Discovery from Data 15(2), 2021."
)

# The model as a whole is tested at this level, whatever that of its features.
_MODEL_LEVEL = 0.05
_MOST_NAMES = 12
_MOST_PAIRS = 20
_FEW_ROWS = 200
_MUCH_SKIPPED = 0.25
# Places that a feature must lose for the report to point at it.
_DECEPTION = 3

_ROWS_EXPLAINED = {
    "oob": "each tree was judged on those of the training data that were left out of its own bag",
    "heldout": "the model did not see them in training",
    "folds": "each was judged by a model that was fit without its fold",
    "lists": "each tree was judged on those that were listed for it",
    "training": "this measure knows only the rows the trees were grown on",
}


@dataclass(frozen=True)
class Caution:
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


def is_useless(result: ImportanceResult) -> bool:
    """Whether all splits together say nothing about unseen rows; False where that was not tested."""
    return result.total_p_value > _MODEL_LEVEL


def answer(result: ImportanceResult, alpha: float) -> tuple[str, str]:
    """Answer "which features matter?" in a sentence or two, at a level of significance, and say what that means."""
    table = result.frame()
    if result.no_inference is not None:
        top = table["feature"][: min(5, len(table))].tolist()
        return (
            f"By {name_measure(result)}, the most important of {count(len(table), 'feature')}: {enumerate_names(top)}.",
            f"How sure that is cannot be said: {result.no_inference}.",
        )
    is_found = result.select(alpha)[result.order]
    found, others = table["feature"][is_found].tolist(), table["feature"][~is_found].tolist()
    headline = _count_found(found, others, name_level(alpha))
    if is_useless(result):
        headline = f"The model as a whole shows no sign of predicting better than chance. {headline}"
    if not found:
        meaning = ["That is no proof that none does: more rows or a better model may show it."]
    else:
        meaning = [_say_no_sign(others)] if others else []
        meaning.append(_say_what_matters(result))
        share = table["share"][is_found].iloc[0]
        if not np.isnan(share):
            explained = f"{_write_percent(share)} of {_name_impurity(result)}"
            meaning.append(
                f"Without {shorten(found[0])} the model would miss {explained} more."
                if get_measure(result.measure).is_given_others
                else f"Splits on {shorten(found[0])} explain {explained}."
            )
    return headline, " ".join(meaning + _name_deception(table[~is_found]))


def _say_what_matters(result: ImportanceResult) -> str:
    if get_measure(result.measure).is_given_others:
        return (
            "A feature matters here if the model would predict unseen rows worse without it, given all the others; "
            "features that tell the same stand in for each other, so that none of them may matter. That does not make "
            "it a cause."
        )
    return (
        "A feature matters if the model's splits on it hold up on rows that the trees did not learn from; that does "
        "not make it a cause."
    )


def _say_no_sign(others: list[str]) -> str:
    return f"There is no sign that {enumerate_names(others, 'or')} {'does' if len(others) == 1 else 'do'}."


def _count_found(found: list[str], others: list[str], rate: str) -> str:
    n_features = len(found) + len(others)
    if not found:
        return f"None of {count(n_features, 'feature')} can be shown to matter ({rate})."
    verb = "matters" if len(found) == 1 else "matter"
    if not others:
        subject = "The only feature" if n_features == 1 else f"All {n_features:,} features"
        return f"{subject} {verb} ({rate}): {enumerate_names(found)}."
    return f"{len(found):,} of {n_features:,} features {verb} ({rate}): {enumerate_names(found)}."


def _name_deception(others: pd.DataFrame) -> list[str]:
    """The feature without significance that the biased importance overrates most, if it does."""
    if others.empty:
        return []
    worst = others.iloc[int(np.argmax(others["rank"] - others["mdi_rank"]))]
    if worst["rank"] - worst["mdi_rank"] < _DECEPTION:
        return []
    return [
        f"The usual, biased importance puts {shorten(worst['feature'])} in place {worst['mdi_rank']:,}; judged on "
        f"unseen rows it takes place {worst['rank']:,}."
    ]


def describe_measurement(result: ImportanceResult) -> list[tuple[str, str]]:
    """Say what was measured on what, as terms and descriptions."""
    trees = f"{result.n_trees:,} trees whose predictions are averaged (a forest)"
    if result.is_additive:
        trees = f"{count(result.n_trees, 'tree')} whose values add up (boosting)"
    elif result.n_trees == 1:
        trees = "a single tree"
    if result.per_fold is not None:
        trees += f", in models of {count(len(result.per_fold), 'fold')}"
    rows = "training" if result.measure == "mdi" else result.rows
    lines = [
        ("Model", f"{result.task}, {trees}."),
        ("Rows", f"{result.n_rows:,} {ROWS_IN_WORDS[rows]}: {_ROWS_EXPLAINED[rows]}."),
        ("Measure", f"{result.measure}: {get_measure(result.measure).summary}. Unit: {name_unit(result)}."),
    ]
    if result.n_row_groups is not None:
        groups = f"{count(result.n_row_groups, 'group')} of rows that belong together; errors are those of their sums."
        lines.insert(2, ("Groups of rows", groups))
    if get_measure(result.measure).is_given_others:
        lines.append(("Share", f"The score is the part of {_name_impurity(result)} that the model misses more."))
    elif not np.isnan(result.share).all():
        lines.append(("Share", f"The part of {_name_impurity(result)} that splits on the feature explain."))
    lines.append(("Beside it", "mdi: the usual, biased importance of the same trees, judged on their training rows."))
    return lines


def list_cautions(result: ImportanceResult, correlations: Correlations | None) -> list[Caution]:
    """Say what to be careful about, the gravest first."""
    cautions = []
    if is_useless(result):
        cautions.append(
            Caution(
                "The model may be useless",
                "Taken together the splits say nothing about unseen rows (p-value of all features together: "
                f"{result.total_p_value:.2g}): importances of a model that predicts no better than chance mean "
                "nothing.",
                is_grave=True,
            )
        )
    if result.measure == "mdi":
        cautions.append(
            Caution(
                "These importances are biased",
                "They are judged on the rows that chose the splits, so that features with many possible splits look "
                "important even when they are noise.",
                is_grave=True,
            )
        )
    if result.skipped_weight > 0:
        cautions.append(
            Caution(
                "Splits that could not be judged",
                f"{_write_percent(result.skipped_weight)} of the weight of all splits was left out, because no unseen "
                "row reached one of their sides.",
                is_grave=result.skipped_weight > _MUCH_SKIPPED,
            )
        )
    n_units = result.n_rows if result.n_row_groups is None else result.n_row_groups
    if result.no_inference is None and n_units < _FEW_ROWS:
        unit = "row" if result.n_row_groups is None else "group"
        cautions.append(
            Caution(
                f"Few {unit}s",
                f"With {count(n_units, unit)}{' of rows' * (unit == 'group')}, intervals and p-values are rough: they "
                f"need a few dozen {unit}s of each class that reach the splits.",
            )
        )
    if result.notes:
        text = "The model's own preparation of the table, and the choice of rows, decided what is scored by what."
        cautions.append(Caution("Columns and rows", text, items=tuple(result.notes)))
    cautions.append(_describe_correlations(correlations, get_measure(result.measure).is_given_others))
    if result.no_inference is None:
        cautions.append(_explain_p_values(result))
    return cautions


def _describe_correlations(correlations: Correlations | None, are_given: bool) -> Caution:
    """Say which features tell nearly the same, and what that does to scores, of features given the others or not."""
    heading = "Correlated features"
    effect = "the model may use either, and neither p-value says which of them is the one."
    if are_given:
        effect = "the model can do without either as long as it has the other; groups= scores them together."
    if correlations is None:
        return Caution(
            heading,
            "Not checked, as the report was made without the table. Strongly correlated features share what they tell: "
            f"{effect}",
        )
    looked_at = (
        f"a Spearman correlation of at least {STRONG} in size, or Cramér's V where a category takes part, in "
        f"{count(correlations.n_rows, 'row')}; compared: {correlations.n_columns:,} of "
        f"{count(correlations.n_given, 'column')}"
    )
    if correlations.n_with_categories < correlations.n_columns:
        looked_at += f", with categories only the first {correlations.n_with_categories:,}"
    if not correlations.pairs:
        return Caution(heading, f"No two features that were compared are strongly related ({looked_at}).")
    n_pairs = len(correlations.pairs)
    items = [f"{first} and {second}: {strength:.2f}" for first, second, strength in correlations.pairs[:_MOST_PAIRS]]
    if n_pairs > _MOST_PAIRS:
        items.append(f"and {count(n_pairs - _MOST_PAIRS, 'more pair')}")
    return Caution(
        heading,
        f"{count(n_pairs, 'pair')} of features {'tells' if n_pairs == 1 else 'tell'} nearly the same ({looked_at}). "
        f"They share what they tell: {effect}",
        items=tuple(items),
    )


def _explain_p_values(result: ImportanceResult) -> Caution:
    scope = "for this one fitted model" if result.rows == "heldout" else "for models of this kind on data like this"
    distrust = (
        "P-values are not to be trusted where rows depend on each other or are copies, or where the model was chosen "
        "with the same rows."
    )
    if get_measure(result.measure).is_given_others:
        return Caution(
            "What a p-value means here",
            f"If the model could do without the feature, so large a score would come with this probability, {scope}. A "
            "small one does not say that the feature is a cause, nor a large one that it tells nothing: another may "
            f"tell the same. {distrust}",
        )
    return Caution(
        "What a p-value means here",
        "If the feature told nothing about the target that the rest of a tree's path does not tell already, so large a "
        f"score would come with this probability, {scope}. A small one says that the model's splits on the feature "
        "hold up on unseen rows, not that the feature is a cause, nor that a model without it would be worse. A "
        "feature that is only correlated with a useful one, even moderately, gets a small p-value as its stand-in, "
        f"which the false discovery rate does not count. {distrust}",
    )


def _name_impurity(result: ImportanceResult) -> str:
    is_gini = result.task == "classification" and not result.is_additive
    return f"the target's {'Gini impurity' if is_gini else 'variance'}"


def _write_percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def enumerate_names(names: list[str], word: str = "and") -> str:
    """Join names as a sentence does, the first few of many."""
    shown = [shorten(name) for name in names[:_MOST_NAMES]]
    if len(names) > _MOST_NAMES:
        shown = [*shown[: _MOST_NAMES - 2], f"{len(names) - _MOST_NAMES + 2:,} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {word} {shown[-1]}"
