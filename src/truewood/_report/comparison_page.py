"""The report of a comparison: where two results differ, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from truewood._formatting import ROWS_IN_WORDS, enumerate_names, shorten
from truewood._measures.registry import get_measure
from truewood._plotting.comparison import find_differing, say_differing
from truewood._report.charts import NOT_SIGNIFICANT, make_difference_chart
from truewood._report.page import CITE, Column, Page, check_report, list_items, list_terms, write_page
from truewood._results.caveats import Caveat
from truewood._results.summary import name_level, name_unit

if TYPE_CHECKING:
    from truewood._results.comparison import Comparison


def write_comparison(
    comparison: Comparison, path: str | PathLike[str], *, title: str | None, notes: Sequence[str], alpha: float
) -> None:
    """Write a report; see `Comparison.report`."""
    check_report(path)
    if isinstance(notes, str):
        raise TypeError("notes must be a sequence of sentences, got one str; put it into a list.")
    table = comparison.frame()
    a, b = (shorten(name) for name in comparison.names)
    more = (f"more in {a}", f"more in {b}" if a != b else "less")
    is_found = find_differing(comparison, alpha)[comparison.order]
    verdicts = np.where(is_found, np.where(table["difference"] > 0, *more), NOT_SIGNIFICANT)
    measured = [
        ("Compared", f"{comparison.describe()}."),
        ("a", f"{a}: {comparison.n_rows[0]:,} {ROWS_IN_WORDS[comparison.rows]}."),
        ("b", f"{b}: {comparison.n_rows[1]:,} {ROWS_IN_WORDS[comparison.rows]}."),
        ("Measure", f"{comparison.measure}: {get_measure(comparison.measure).summary}. Unit: {name_unit(comparison)}."),
    ]
    page = Page(
        title=title or f"{a} and {b}: which features differ?",
        heading="Differences",
        answer=_answer(table["feature"].to_numpy(), is_found, verdicts, more, name_level(alpha)),
        facts=[
            (name, f"{n:,} {ROWS_IN_WORDS[comparison.rows]}") for name, n in zip((a, b), comparison.n_rows, strict=True)
        ],
        cautions=_list_caveats(comparison),
        note=f"Lines: 95 % intervals. Colours: at a {name_level(alpha)}.",
        meaning="A difference counts as found if it is larger than chance would make it; others may be there, too "
        "small for this many rows.",
        sections="",
        folds=[("What was measured", f"{list_terms(measured)}{list_items(notes)}"), CITE],
        table=table,
        columns=[
            Column("feature", "feature", "text"),
            Column("difference", "difference", "change"),
            Column("high", "95 % interval", "interval"),
            Column("verdict", "verdict", "text", is_wide=True),
            Column("p_value", "p-value", "p_value", is_wide=True),
            Column("adjusted_p_value", "adjusted p-value", "p_value", is_wide=True),
            *(Column(f"importance_{k}", f"in {name}", "number", is_wide=True) for k, name in (("a", a), ("b", b))),
        ],
        by="difference",
        factor=1.0,
        verdicts=verdicts.tolist(),
        directions=None,
        charts={"dots": make_difference_chart(comparison, more)},
    )
    write_page(page, path)


def _answer(features: np.ndarray, is_found: np.ndarray, verdicts: np.ndarray, more: tuple[str, str], level: str) -> str:
    answer = f"{say_differing(is_found)} ({level})."
    for verdict in more:
        found = features[verdicts == verdict].tolist()
        if found:
            answer += f" {verdict[0].upper()}{verdict[1:]}: {enumerate_names(found)}."
    return answer


def _list_caveats(comparison: Comparison) -> list[Caveat]:
    if comparison.is_paired:
        how = (
            "Rows were paired by their place: both results must be of the same rows in the same order, or of rows that "
            "have nothing to do with each other."
        )
    else:
        how = (
            "The results were taken as independent: no row may be in both, nor may rows of the two belong together, "
            "such as those of one customer."
        )
    scope = (
        "Held-out rows judge the fitted models that were passed; models that are fit again would differ more."
        if comparison.rows == "heldout"
        else "Rows of the training data judge models of this kind: the differences are those of all such models."
    )
    return [
        Caveat("Which rows", how),
        Caveat("Which models", scope),
        Caveat(
            "What a p-value means here",
            "If a feature were worth the same in both, so large a difference, either way, would come up with this "
            "probability. Correlated features may take each other's place from one fit to the next.",
        ),
    ]
