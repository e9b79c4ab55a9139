"""The report of a comparison: which features differ between two results, and how certain that is."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING

from truewood._formatting import CI, INTERVALS, ROWS_IN_WORDS, count, format_p_value, shorten
from truewood._measures.registry import get_measure
from truewood._report.charts import make_difference_chart
from truewood._report.html_page import Column, Page, check_report, list_items, list_terms, write_page
from truewood._report.wording import format_date
from truewood._results.caveats import Caveat
from truewood._results.comparison_text import (
    classify_differences,
    find_difference_unit,
    summarize_differences,
    write_differences,
)
from truewood._results.summary import name_level, name_unit

if TYPE_CHECKING:
    from truewood._results.comparison import Comparison


def write_comparison(
    comparison: Comparison, path: str | PathLike[str], *, title: str | None, notes: Sequence[str], alpha: float
) -> None:
    """Write the report; see `Comparison.report`."""
    check_report(path, title=title, notes=notes)
    table, cells = comparison.frame(), write_differences(comparison, alpha)
    unit = find_difference_unit(comparison, alpha)
    titles, interval = list(cells), comparison.interval()
    verdicts = classify_differences(comparison, alpha)[comparison.order].tolist()
    a, b = (shorten(name) for name in comparison.names)
    rows = [f"{n:,} {ROWS_IN_WORDS[comparison.rows]}" for n in comparison.n_rows]
    method = [
        ("Comparison", f"{comparison.describe()}."),
        ("Measure", f"{comparison.measure}: {get_measure(comparison.measure).summary}. Unit: {name_unit(comparison)}."),
    ]
    shown = [10.0**-unit.exponent * numbers[comparison.order] for numbers in (comparison.difference, *interval)]
    page = Page(
        title=title or f"Which features differ between {a} and {b}?",
        heading="Differences",
        about=f"{count(len(comparison.difference), 'feature')} · {format_date()}",
        summary=summarize_differences(comparison, alpha, with_level=False),
        facts=list(zip((a, b), rows, strict=True)),
        caveats=_list_caveats(comparison),
        note=f"Lines: {INTERVALS}. Significance: {name_level(alpha)}.",
        conclusion="Features without a significant difference may differ by too little to detect with these rows.",
        cards="",
        sections="",
        background=[("How this was measured", f"{list_terms(method)}{list_items(notes)}")],
        table=table,
        columns=[
            Column("feature", "feature", "text", table["feature"].tolist()),
            Column("difference", titles[1], "change", cells[titles[1]]),
            Column("high", CI, "interval", cells[CI]),
            Column("verdict", "verdict", "text", verdicts, is_wide=True),
            Column("p_value", "p-value", "p_value", list(map(format_p_value, table["p_value"])), is_wide=True),
            Column("adjusted_p_value", "adjusted p-value", "p_value", cells["adjusted p"], is_wide=True),
            *(
                Column(f"importance_{k}", unit.name(f"importance in {name}"), "number", cells[key], is_wide=True)
                for k, name, key in (("a", a, titles[-2]), ("b", b, titles[-1]))
            ),
        ],
        by="difference",
        shown=shown[0].tolist(),
        low=shown[1].tolist(),
        high=shown[2].tolist(),
        verdicts=verdicts,
        directions=None,
        charts={"dots": make_difference_chart(comparison, unit)},
    )
    write_page(page, path)


def _list_caveats(comparison: Comparison) -> list[Caveat]:
    if comparison.is_paired:
        rows = (
            "rows are paired by position, which is valid if both results have the same rows in the same order, or if "
            "their rows are independent."
        )
    else:
        rows = (
            "the results are treated as independent, so no row may be in both, and no cluster, such as the rows of a "
            "customer, may have rows in both."
        )
    scope = (
        "the comparison is between these fitted models; refitting them would add variation that intervals leave out."
        if comparison.rows == "heldout"
        else "the comparison is between models of these kinds trained on data like this, not just between these fits."
    )
    return [
        Caveat("Pairing" if comparison.is_paired else "Independence", rows),
        Caveat("Scope", scope),
        Caveat(
            "P-values",
            "a p-value is the probability of a difference at least this large, in either direction, if the feature had "
            "the same importance in both. Correlated features may replace each other from one fit to the next.",
        ),
    ]
