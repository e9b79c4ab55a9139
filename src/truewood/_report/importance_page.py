"""The report of an importance result: which features matter, how much, and how that was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from os import PathLike
from typing import TYPE_CHECKING, Any

from truewood._arguments import check_texts, check_type
from truewood._formatting import CI, INTERVALS, find_unit, format_p_value, shorten
from truewood._report import wording
from truewood._report.cards import write_cards
from truewood._report.charts import make_charts, name_class_column
from truewood._report.groups_section import write_groups
from truewood._report.html_page import Column, Page, check_report, list_items, list_terms, write_page
from truewood._report.pairs_section import write_pairs_section
from truewood._results.caveats import Caveat, check_table, list_caveats
from truewood._results.importance_frame import MAX_RANKED
from truewood._results.importance_text import write_certain_top
from truewood._results.interactions import Interactions
from truewood._results.summary import (
    Percent,
    classify_features,
    find_percent,
    find_shown,
    name_level,
    name_percent_column,
)
from truewood._results.trends import Direction, explain_directions, find_directions, find_predicted_class

if TYPE_CHECKING:
    import pandas as pd

    from truewood._results.explanation import Explanation
    from truewood._results.importance_result import ImportanceResult

_RANKS = """<section aria-labelledby="slopes-heading">
<h2 id="slopes-heading">Biased and unbiased ranks</h2>
<p>Features that drop look more important on the training data than on evaluation rows.{certain}</p>
<div id="slopes" class="chart"></div>
</section>"""
_CLASSES = """<section aria-labelledby="classes-heading">
<h2 id="classes-heading">Importance by class</h2>
<p>How much each class contributes: the cells of a row add up to {whole}.</p>
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
    interactions: Interactions | None,
    target: str | None,
    data: str | None,
    alpha: float,
) -> None:
    """Write the report; see `ImportanceResult.report`."""
    check_report(path, title=title, notes=notes)
    check_texts(warnings, "warnings")
    if performance is not None:
        check_type(performance, str, "performance", "a str or None")
    for name, text in (("target", target), ("data", data)):
        if text is not None:
            check_type(text, str, name, "a str or None")
    if feature_groups is not None:
        check_type(feature_groups, Mapping, "feature_groups", "a dict of group names to columns, or None")
    table, percent, has_inference = result.frame(), find_percent(result, target), result.inference_unavailable is None
    check, directions = check_table(result, X, feature_groups), find_directions(result, explanation, alpha)
    has_directions = directions is not None and any(direction.word for direction in directions)
    reading = wording.explain_reading(result, alpha, target)
    if explanation is not None and has_directions:
        reading.append(explain_directions(explanation, with_inference=has_inference))
    shown, certain = find_shown(result, percent), ""
    if has_inference and 1 < len(result.values) <= MAX_RANKED:
        certain = f" {escape(write_certain_top(result, alpha))}"
    sections = [_RANKS.format(certain=certain)]
    if interactions is not None:
        check_type(interactions, Interactions, "interactions", "an Interactions or None")
        if not set(interactions.feature_names.tolist()) <= set(result.feature_names.tolist()):
            raise ValueError(
                "interactions must have the features of this result, got others; pass the interactions of the same "
                "model and table, with the same feature_groups."
            )
        sections.insert(0, write_pairs_section(interactions, alpha))
    if feature_groups is not None:
        sections.insert(0, write_groups(result, feature_groups))
    if result.classes is not None:
        whole = "the feature's importance" if percent is None else "the feature's share before clipping"
        sections.insert(0, _CLASSES.format(whole=whole))
        for k, scores in enumerate(result.classes.values):
            table[name_class_column(k)] = scores[result.order]
    page = Page(
        title=title or "Which features matter?",
        heading="Importance",
        about=wording.describe_data(result, data),
        summary=wording.write_page_summary(result, alpha, target),
        facts=wording.list_facts(result, percent, performance),
        caveats=[
            *(Caveat("", text, is_severe=True) for text in warnings),
            *list_caveats(result, check, with_chance=False),
        ],
        note=f"Lines: {INTERVALS}. Significance: {name_level(alpha)}." if has_inference else "",
        conclusion=wording.write_conclusion(result, alpha),
        cards=write_cards(
            result,
            percent=percent,
            alpha=alpha,
            check=check,
            feature_groups=feature_groups,
            explanation=explanation,
            directions=directions,
        ),
        sections="\n".join(sections),
        background=[
            ("How to read this report", list_items(reading)),
            ("How this was measured", f"{list_terms(wording.describe_method(result, check))}{list_items(notes)}"),
        ],
        table=table,
        columns=make_columns(result, table, percent, directions if has_directions else None, explanation, alpha),
        by="importance",
        shown=shown.values[result.order].tolist(),
        low=shown.low[result.order].tolist(),
        high=shown.high[result.order].tolist(),
        verdicts=classify_features(result, alpha)[result.order].tolist() if has_inference else None,
        directions=[directions[j] for j in result.order] if directions is not None and has_directions else None,
        charts=make_charts(result, percent, has_directions=has_directions),
    )
    write_page(page, path)


def make_columns(
    result: ImportanceResult,
    table: pd.DataFrame,
    percent: Percent | None,
    directions: list[Direction] | None,
    explanation: Explanation | None,
    alpha: float,
) -> list[Column]:
    """Make the columns of the table, the most important feature first; adds the adjusted p-value to the table."""
    order, shown = result.order.tolist(), find_shown(result, percent)
    unit, biased_unit = find_unit(result.values.tolist()), find_unit(result.mdi.tolist())
    values, intervals = shown.write_values(), shown.write_intervals()
    columns = [Column("feature", "feature", "text", table["feature"].tolist())]
    if percent is not None:
        title = name_percent_column(percent).removesuffix(" %")
        columns.append(Column("shown", title, "number", [f"{values[j]}%" for j in order]))
    else:
        columns.append(Column("importance", unit.name("importance"), "number", [values[j] for j in order]))
    if result.inference_unavailable is None:
        sign = "" if percent is None else "%"
        columns.append(Column("high", CI, "interval", [f"{intervals[j]}{sign}" for j in order]))
    if directions is not None and explanation is not None:
        output = find_predicted_class(explanation)
        title = "direction" if output is None else f'direction for "{shorten(output, 24)}"'
        columns.append(Column("direction", title, "direction", [directions[j].text for j in order]))
    if result.inference_unavailable is None:
        place = table.columns.tolist().index("p_value") + 1
        table.insert(place, "adjusted_p_value", result.adjusted_p_value()[order])
        verdicts = classify_features(result, alpha)[order].tolist()
        columns.append(Column("verdict", "verdict", "text", verdicts, is_wide=True))
        for name, title in (("p_value", "p-value"), ("adjusted_p_value", "adjusted p-value")):
            columns.append(Column(name, title, "p_value", list(map(format_p_value, table[name])), is_wide=True))
    if percent is not None:
        texts = [unit.write(value) for value in table["importance"]]
        columns.append(Column("importance", unit.name("importance"), "number", texts, is_wide=True))
    biased = [biased_unit.write(value) for value in table["mdi"]]
    ranks = [f"{rank:,}" for rank in table["mdi_rank"]]
    return [
        *columns,
        Column("mdi", biased_unit.name("biased importance"), "number", biased, is_wide=True),
        Column("mdi_rank", "biased rank", "number", ranks, is_wide=True),
    ]
