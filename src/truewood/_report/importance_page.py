"""The report of an importance result: which features matter, how much, and how that was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from truewood._arguments import check_texts, check_type
from truewood._report import wording
from truewood._report.charts import make_charts, name_class_column
from truewood._report.groups_section import write_groups
from truewood._report.page import Column, Page, check_report, list_items, list_terms, write_page
from truewood._results.caveats import Caveat, check_table, list_caveats
from truewood._results.summary import classify_features, find_percent, name_level, name_percent_column
from truewood._results.trends import explain_directions, find_directions

if TYPE_CHECKING:
    from truewood._results.explanation import Explanation
    from truewood._results.importance_result import ImportanceResult

_RANKS = """<section aria-labelledby="slopes-heading">
<h2 id="slopes-heading">Biased and unbiased ranks</h2>
<p>Features that drop looked important only on the training data.</p>
<div id="slopes" class="chart"></div>
</section>"""
_CLASSES = """<section aria-labelledby="classes-heading">
<h2 id="classes-heading">Importance by class</h2>
<p>The part of each score that each class accounts for; the cells of a row add up to the feature's score.</p>
<div id="classes" class="chart"></div>
</section>"""


def write_report(
    result: ImportanceResult,
    path: str | PathLike[str],
    *,
    X: Any,
    feature_groups: Mapping[str, Sequence[Any]] | None,
    title: str | None,
    performance: str | None,
    notes: Sequence[str],
    warnings: Sequence[str],
    explanation: Explanation | None,
    alpha: float,
) -> None:
    """Write the report; see `ImportanceResult.report`."""
    check_report(path, title=title, notes=notes)
    check_texts(warnings, "warnings")
    if performance is not None:
        check_type(performance, str, "performance", "a str or None")
    table, percent, has_inference = result.frame(), find_percent(result), result.inference_unavailable is None
    check, directions = check_table(result, X, feature_groups), find_directions(result, explanation, alpha)
    reading = wording.explain_reading(result, alpha)
    if explanation is not None:
        reading.append(explain_directions(explanation))
    sections = [_RANKS]
    if feature_groups is not None:
        sections.insert(0, write_groups(result, feature_groups))
    if result.classes is not None:
        sections.insert(0, _CLASSES)
        for k, scores in enumerate(result.classes.values):
            table[name_class_column(k)] = scores[result.order]
    page = Page(
        title=title or "Which features matter?",
        heading="Importance",
        summary=wording.write_headline(result, alpha),
        facts=wording.list_facts(result, percent, performance),
        caveats=[*(Caveat("", text, is_severe=True) for text in warnings), *list_caveats(result, check)],
        note=f"Lines: 95% intervals. Significance: {name_level(alpha)}." if has_inference else "",
        conclusion=wording.write_conclusion(result, alpha),
        sections="\n".join(sections),
        background=[
            ("How this was measured", f"{list_terms(wording.describe_method(result, check))}{list_items(notes)}"),
            ("How to read this report", list_items(reading)),
        ],
        table=table,
        columns=_choose_columns(result, has_inference, has_directions=directions is not None),
        by="importance",
        factor=1.0 if percent is None else percent.factor,
        verdicts=classify_features(result, alpha)[result.order].tolist() if has_inference else None,
        directions=None if directions is None else [directions[j] for j in result.order],
        charts=make_charts(result),
    )
    write_page(page, path)


def _choose_columns(result: ImportanceResult, has_inference: bool, *, has_directions: bool) -> list[Column]:
    percent, columns = find_percent(result), [Column("feature", "feature", "text")]
    if percent is not None:
        columns.append(Column("shown", name_percent_column(percent).removesuffix(" %"), "percent"))
    if has_inference:
        columns.append(Column("high", "95% CI", "interval"))
    if has_directions:
        columns.append(Column("direction", "direction", "direction"))
    if has_inference:
        columns += [
            Column("verdict", "verdict", "text", is_wide=True),
            Column("p_value", "p-value", "p_value", is_wide=True),
        ]
    columns.append(Column("importance", "score", "number", is_wide=percent is not None))
    if has_inference:
        columns.append(Column("std_error", "standard error", "number", is_wide=True))
    return [
        *columns,
        Column("mdi", "biased score", "number", is_wide=True),
        Column("mdi_rank", "biased rank", "count", is_wide=True),
    ]
