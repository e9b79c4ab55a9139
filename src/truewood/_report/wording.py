"""Text that only the report has: summary, conclusion, key facts, method, and how to read it. Plain text, no HTML."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from truewood._formatting import ROWS_IN_WORDS, count, enumerate_names, make_ordinal, shorten
from truewood._measures.registry import get_measure
from truewood._results.caveats import (
    TableCheck,
    describe_correlations,
    explain_intervals,
    explain_verdicts,
    is_no_better_than_chance,
)
from truewood._results.summary import (
    Percent,
    describe_skipped,
    describe_total,
    explain_percent_of_total,
    explain_total,
    find_percent,
    find_row_source,
    name_impurity,
    name_share,
    name_unit,
    write_summary,
)

if TYPE_CHECKING:
    import pandas as pd

    from truewood._results.importance_result import ImportanceResult

# The conclusion names up to this many features that are not significant.
_MAX_NAMED = 8
# Characters of a name in a sentence, which has several lines.
_LONGEST_NAME = 120
# Ranks that a feature must drop for the conclusion to mention it.
_MIN_DROP = 3

_ROWS_EXPLAINED = {
    "oob": "each tree is evaluated on the training rows that its bootstrap sample left out",
    "heldout": "the model was not trained on them",
    "folds": "each row is evaluated by a model trained without its fold",
    "lists": "each tree is evaluated on the rows listed for it",
    "training": "this measure only uses the rows the trees were trained on",
}


def describe_data(result: ImportanceResult, data: str | None) -> str:
    """Describe what was analyzed: the data, its rows and features, and the date."""
    parts = [] if data is None else [data]
    size = [count(result.n_rows, "row"), count(len(result.values), "feature")]
    return " · ".join([*parts, *size, format_date()])


def format_date() -> str:
    """Format the date on which the report is written."""
    today = datetime.now().astimezone()
    return f"{today:%B} {today.day}, {today.year}"


def write_page_summary(result: ImportanceResult, alpha: float, target: str | None) -> str:
    """Write the summary, with a warning in front if the model predicts no better than chance."""
    summary = write_summary(result, alpha, target=target, with_level=False, longest=_LONGEST_NAME)
    if is_no_better_than_chance(result):
        return f"No evidence that the model predicts better than chance, so do not rely on what follows. {summary}"
    return summary


def write_conclusion(result: ImportanceResult, alpha: float) -> str:
    """Write what the summary leaves open: features without evidence, and the most overrated one."""
    if result.inference_unavailable is not None:
        return f"Standard errors and p-values are unavailable: {result.inference_unavailable}."
    table, is_found = result.frame(), result.select(alpha)[result.order]
    sentences, others = [], table["feature"][~is_found].tolist()
    if not is_found.any():
        sentences.append("This does not prove that none matters: more rows or a better model may show that one does.")
    elif others:
        named = (
            enumerate_names(others, "or", _LONGEST_NAME)
            if len(others) <= _MAX_NAMED
            else f"the other {len(others):,} features"
        )
        matters = "matters" if len(others) <= _MAX_NAMED else "matter"
        given = " given the others" if get_measure(result.measure).is_given_others else ""
        sentences.append(f"No evidence that {named} {matters}{given}.")
    return " ".join(sentences + _describe_most_overrated(table[~is_found]))


def _describe_most_overrated(others: pd.DataFrame) -> list[str]:
    """Describe the feature that drops most from its biased rank, if any drops far."""
    if others.empty:
        return []
    worst = others.iloc[int(np.argmax(others["rank"] - others["mdi_rank"]))]
    if worst["rank"] - worst["mdi_rank"] < _MIN_DROP:
        return []
    biased_rank, rank = (make_ordinal(int(worst[name])) for name in ("mdi_rank", "rank"))
    return [
        f"{shorten(worst['feature'], _LONGEST_NAME)} ranks {biased_rank} by the usual, biased importance, but only "
        f"{rank} on evaluation rows."
    ]


def list_facts(result: ImportanceResult, percent: Percent | None, performance: str | None) -> list[tuple[str, str]]:
    """List key facts: what all features explain, how well the model predicts, and the evaluation rows."""
    rows = f"{result.n_rows:,} {ROWS_IN_WORDS[find_row_source(result)]}, {count(result.n_trees, 'tree')}"
    facts = [describe_total(result, percent)]
    if performance is not None:
        facts.append(("Model performance", performance))
    return [*facts, ("Evaluated on", rows)]


def describe_method(result: ImportanceResult, check: TableCheck | None) -> list[tuple[str, str]]:
    """Describe the model, the rows and the measure, as terms and descriptions."""
    trees = f"{count(result.n_trees, 'tree')} with averaged predictions (forest)"
    if result.is_additive:
        trees = f"{count(result.n_trees, 'tree')} with summed values (boosting)"
    elif result.n_trees == 1:
        trees = "a single tree"
    if result.per_fold is not None:
        trees += f", in {count(len(result.per_fold), 'fold')}"
    rows = find_row_source(result)
    lines = [
        ("Model", f"{result.task.capitalize()}, {trees}."),
        ("Rows", f"{result.n_rows:,} {ROWS_IN_WORDS[rows]}: {_ROWS_EXPLAINED[rows]}."),
    ]
    if result.n_groups is not None:
        lines.append(("Row groups", f"{count(result.n_groups, 'group')}; standard errors are cluster-robust."))
    lines.append(("Measure", f"{result.measure}: {get_measure(result.measure).summary}. Unit: {name_unit(result)}."))
    percent = find_percent(result)
    if percent is not None and percent.is_share:
        lines.append(("Share", name_share(result)))
    elif percent is not None:
        lines.append(("Percentages", explain_percent_of_total(result)))
    mdi = "mdi: mean decrease in impurity of the same trees on their training rows; biased, but widely used."
    if result.measure != "mdi" and get_measure("mdi").unit[result.task] != name_unit(result):
        mdi += " Its unit differs from that of the importance, so compare only ranks."
    lines.append(("Biased importance", mdi))
    if result.skipped_weight > 0:
        lines.append(("Splits without evaluation rows", describe_skipped(result)))
    return [*lines, ("Correlation", describe_correlations(check))]


def explain_reading(result: ImportanceResult, alpha: float, target: str | None) -> list[str]:
    """Explain shares by their technical term; with inference also verdicts, intervals and p-values."""
    percent, lines = find_percent(result, target), []
    if percent is not None and percent.is_share:
        whole = f"{percent.base[0].upper()}{percent.base[1:]}"
        share = name_share(result)
        lines = [f"{whole} is measured by {name_impurity(result)}. A share is {share[0].lower()}{share[1:]}"]
        lines += explain_total(result)
    if result.inference_unavailable is not None:
        return lines
    scope = "this fitted model" if result.rows == "heldout" else "models of this kind trained on data like this"
    null = "if the feature added no information about the target beyond the other splits on a tree's path"
    limits = (
        "A small p-value means that the model's splits on the feature hold up on evaluation rows. It does not mean "
        "that the feature is a cause, or that a model without it would be worse."
    )
    if get_measure(result.measure).is_given_others:
        null = "if the model could do without the feature"
        limits = (
            "A small p-value does not mean that the feature is a cause. A large one does not mean that the feature is "
            "useless: another one may be redundant with it."
        )
    return [
        *lines,
        *explain_verdicts(result, alpha, target).values(),
        *explain_intervals(result, alpha),
        f"A p-value is the probability of an importance at least this large {null}. It applies to {scope}. {limits} Do "
        "not trust p-values if the model was selected on the same rows.",
    ]
