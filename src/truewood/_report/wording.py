"""What the report says in words: the answer, what was measured, and how to read it. Plain text, no HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from truewood._formatting import ROWS_IN_WORDS, count, enumerate_names, shorten
from truewood._measures.registry import get_measure
from truewood._results.caveats import TableCheck, describe_correlations, explain_intervals, explain_verdicts, is_useless
from truewood._results.summary import (
    Percent,
    explain_impurity,
    find_percent,
    format_percent,
    name_impurity,
    name_measure,
    name_unit,
    write_summary,
)

if TYPE_CHECKING:
    import pandas as pd

    from truewood._results.importance_result import ImportanceResult

CITATION = (
    'Z. Zhou and G. Hooker, "Unbiased Measurement of Feature Importance in Tree-Based Methods", ACM Transactions on '
    "Knowledge Discovery from Data 15(2), 2021."
)

# Features without a sign that are named.
_MOST_OTHERS = 8
# Places that a feature must lose for the report to point at it.
_DECEPTION = 3

_ROWS_EXPLAINED = {
    "oob": "each tree was judged on those of the training data that were left out of its own bag",
    "heldout": "the model did not see them in training",
    "folds": "each was judged by a model that was fit without its fold",
    "lists": "each tree was judged on those that were listed for it",
    "training": "this measure knows only the rows the trees were grown on",
}


def answer(result: ImportanceResult, alpha: float) -> tuple[str, str]:
    """Answer "which features matter?" in a sentence or two, at a level of significance, and say what that leaves."""
    table = result.frame()
    if result.inference_unavailable is not None:
        top = table["feature"][: min(5, len(table))].tolist()
        return (
            f"By {name_measure(result)}, the most important of {count(len(table), 'feature')}: {enumerate_names(top)}.",
            f"How sure that is cannot be said: {result.inference_unavailable}.",
        )
    is_found = result.select(alpha)[result.order]
    headline = write_summary(result, alpha)
    if is_useless(result):
        headline = f"The model as a whole shows no sign of predicting better than chance. {headline}"
    meaning, others = [], table["feature"][~is_found].tolist()
    if not is_found.any():
        meaning.append("That is no proof that none does: more rows or a better model may show it.")
    elif others:
        named = enumerate_names(others, "or") if len(others) <= _MOST_OTHERS else f"the other {len(others):,} features"
        tells = "tells" if len(others) == 1 else "tell"
        what = "anything that the others do not" if get_measure(result.measure).is_given_others else "anything"
        meaning.append(f"There is no sign that {named} {tells} {what}.")
    return headline, " ".join(meaning + _name_deception(table[~is_found]))


def list_facts(result: ImportanceResult, percent: Percent | None, performance: str | None) -> list[tuple[str, str]]:
    """What belongs to the answer: what all features explain, how well the model predicts, and on which rows."""
    if percent is not None and get_measure(result.measure).is_given_others:
        facts = [("A feature's share is", f"the part of {percent.of} that the model would miss more without it")]
    elif percent is not None and percent.is_share:
        facts = [("All features together explain", f"{format_percent(percent.total)} of {percent.of}")]
    elif percent is not None:
        facts = [("Percents are of", f"the sum of all scores ({name_unit(result)})")]
    else:
        facts = [("Scores are in units of", name_unit(result))]
    if performance is not None:
        facts.append(("Model performance", performance))
    rows = "training" if result.measure == "mdi" else result.rows
    return [*facts, ("Judged on", f"{result.n_rows:,} {ROWS_IN_WORDS[rows]}, {count(result.n_trees, 'tree')}")]


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


def describe_measurement(result: ImportanceResult, check: TableCheck | None) -> list[tuple[str, str]]:
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
    if result.n_groups is not None:
        groups = f"{count(result.n_groups, 'group')} of rows that belong together; errors are those of their sums."
        lines.insert(2, ("Groups of rows", groups))
    percent, meaning = find_percent(result), explain_impurity(result)
    if get_measure(result.measure).is_given_others:
        lines.append(("Share", f"The score is the part of {name_impurity(result)} that the model misses more."))
    elif percent is not None and percent.is_share:
        lines.append(("Share", f"The part of {percent.of} that splits on the feature explain.{meaning}"))
    elif percent is not None:
        lines.append(("Percent", "Parts of the sum of all scores, which intervals take as known."))
    lines.append(("Beside it", "mdi: the usual, biased importance of the same trees, judged on their training rows."))
    if result.skipped_weight > 0:
        lines.append(("Left out", f"{result.skipped_weight:.2%} of the weight of all splits, without an unseen row."))
    return [*lines, ("Correlation", describe_correlations(check))]


def explain_reading(result: ImportanceResult, alpha: float) -> list[str]:
    """How to read the report."""
    if result.inference_unavailable is not None:
        return []
    marks = [*explain_verdicts(result, alpha).values(), *explain_intervals(result, alpha)]
    scope = "for this one fitted model" if result.rows == "heldout" else "for models of this kind on data like this"
    if get_measure(result.measure).is_given_others:
        return [
            *marks,
            "What a p-value means here: if the model could do without the feature, so large a score would come with "
            f"this probability, {scope}. A small one does not say that the feature is a cause, nor a large one that it "
            "tells nothing: another may tell the same. P-values are not to be trusted where the model was chosen with "
            "the same rows.",
        ]
    return [
        *marks,
        "What a p-value means here: if the feature told nothing about the target that the rest of a tree's path does "
        f"not tell already, so large a score would come with this probability, {scope}. A small one says that the "
        "model's splits on the feature hold up on unseen rows, not that the feature is a cause, nor that a model "
        "without it would be worse. P-values are not to be trusted where the model was chosen with the same rows.",
    ]
