"""Writes the report: words, data and charts into one page, with everything a user named kept as text."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from importlib.resources import files
from os import PathLike
from string import Template
from typing import TYPE_CHECKING, Any

from truewood.data.correlation import find_correlations
from truewood.report import words
from truewood.report.charts import VERDICTS, make_charts, name_class_column
from truewood.report.groups_section import leave_out_groups, write_groups
from truewood.report.vega import bundle_scripts, compile_chart
from truewood.result.pictures import FAINT, name_level
from truewood.writing import write_file

if TYPE_CHECKING:
    import pandas as pd

    from truewood.result.importance_result import ImportanceResult

# How a table heads a column and shows its numbers.
_HEADINGS = {
    "feature": ("feature", "text"),
    "importance": ("importance", "number"),
    "difference": ("difference", "change"),
    "share": ("share", "share"),
    "std_error": ("standard error", "number"),
    "ci_low": ("95 % low", "number"),
    "ci_high": ("95 % high", "number"),
    "p_value": ("p-value", "small"),
    "adjusted_p_value": ("adjusted p-value", "small"),
    "rank": ("rank", "count"),
    "mdi": ("biased importance", "number"),
    "mdi_rank": ("biased rank", "count"),
    "fold_std": ("spread over folds", "number"),
}
_SLOPES = """<section aria-labelledby="slopes-heading">
<h2 id="slopes-heading">The usual, biased rank beside this one</h2>
<p>Features that fall look important only to the rows that chose the splits.</p>
<div id="slopes" class="chart"></div>
</section>"""
_CLASSES = """<section aria-labelledby="classes-heading">
<h2 id="classes-heading">By class</h2>
<p>The parts of the scores that have to do with each class; a line of the map adds up to the feature's importance.</p>
<div id="classes" class="chart"></div>
</section>"""


@dataclass(frozen=True)
class Page:
    """What a report says and shows.

    Parameters
    ----------
    title, heading : str
        Title of the report, and of its chart.
    answer, meaning : str
        The answer, and what that means.
    measured : list of (str, str)
        Terms and descriptions: what was measured on what.
    bars_note : str
        A line below the chart.
    sections : str
        HTML of more sections.
    cautions : list of Caution
        What to be careful about.
    table : DataFrame
        A line a feature.
    headings : dict of str to (str, str)
        Headings of columns that only this table has, and their kinds.
    by : str
        The column that the table is sorted by, largest first.
    verdicts : list of str, or None
        Whether each line is significant, in words.
    charts : dict of str to dict
        Vega-Lite specifications by the id of their place.
    """

    title: str
    heading: str
    answer: str
    meaning: str
    warnings: Sequence[str]
    measured: list[tuple[str, str]]
    bars_note: str
    sections: str
    cautions: list[words.Caution]
    table: pd.DataFrame
    headings: dict[str, tuple[str, str]]
    by: str
    verdicts: list[str] | None
    charts: dict[str, dict[str, Any]]


def write_report(
    result: ImportanceResult,
    path: str | PathLike[str],
    *,
    X: Any,
    groups: Mapping[str, Sequence[Any]] | None,
    title: str | None,
    notes: Sequence[str],
    warnings: Sequence[str],
    alpha: float,
) -> None:
    """Write a report; see `ImportanceResult.report`."""
    table = result.frame()
    correlations = None if X is None else find_correlations(X, table["feature"].tolist())
    if correlations is not None and groups is not None:
        correlations = leave_out_groups(correlations, groups)
    answer, meaning = words.answer(result, alpha)
    has_inference = result.no_inference is None
    sections, headings = [_SLOPES], {}
    if groups is not None:
        sections.insert(0, write_groups(result, groups))
    if result.classes is not None:
        sections.append(_CLASSES)
        for k, (name, parts) in enumerate(zip(result.classes.names, result.classes.values, strict=True)):
            headings[name_class_column(k)] = (f"class {name}", "number")
            table[name_class_column(k)] = parts[result.order]
    page = Page(
        title=title or "Which features matter?",
        heading="Importance",
        answer=answer,
        meaning=meaning,
        warnings=warnings,
        measured=words.describe_measurement(result),
        bars_note=f"Thin lines: 95 % intervals. Significant: at a {name_level(alpha)}." if has_inference else "",
        sections="\n".join(sections),
        cautions=words.list_cautions(result, correlations),
        table=table,
        headings=headings,
        by="importance",
        verdicts=[VERDICTS[found] for found in result.select(alpha)[result.order].tolist()] if has_inference else None,
        charts=make_charts(result),
    )
    write_page(page, path, notes)


def write_page(page: Page, path: str | PathLike[str], notes: Sequence[str]) -> None:
    """Write a report as one HTML file."""
    for argument, given in (("notes", notes), ("warnings", page.warnings)):
        if isinstance(given, str):
            raise TypeError(f"{argument} must be a sequence of sentences, got one str; put it into a list.")
    bundle, glue = bundle_scripts(), _read("page.js")
    content = {
        "title": escape(page.title),
        "policy": " ".join(_hash_script(script) for script in (bundle, glue)),
        "style": _read("page.css").replace("FAINT", FAINT),
        "answer": escape(page.answer),
        "meaning": escape(page.meaning),
        "warnings": "".join(f'<p class="caution grave">{escape(warning)}</p>' for warning in page.warnings),
        "measured": "\n".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in page.measured),
        "notes": "".join(f"<li>{escape(note)}</li>" for note in notes),
        "heading": escape(page.heading),
        "bars_note": escape(page.bars_note),
        "sections": page.sections,
        "cautions": "\n".join(map(_format_caution, page.cautions)),
        "citation": escape(words.CITATION),
        "version": escape(version("truewood")),
        "data": _to_script_json(_collect(page)),
        "bundle": bundle,
        "glue": glue,
    }
    filled = Template(_read("page.html")).substitute(content)
    write_file(path, filled.encode(errors="backslashreplace"))  # letters that are none, as names of files may hold


def _read(name: str) -> str:
    return files("truewood.report").joinpath(name).read_text(encoding="utf-8")


def _hash_script(script: str) -> str:
    """The script's name in the page's policy: no other script runs, wherever it came from."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _to_script_json(value: Any) -> str:
    """JSON that can stand in a script element: no text in it can end or change the element."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _collect(page: Page) -> dict[str, Any]:
    """What the page's script works with: the table by row, and what goes with each row."""
    table, headings = page.table, _HEADINGS | page.headings
    return {
        "columns": [{"name": name, "title": headings[name][0], "kind": headings[name][1]} for name in table.columns],
        "rows": table.astype(object).where(table.notna(), None).to_numpy().tolist(),
        "by": page.by,
        "labels": _tell_apart(table["feature"].tolist()),
        "verdicts": page.verdicts,
        "charts": {name: compile_chart(chart) for name, chart in page.charts.items()},
    }


def _tell_apart(names: list[str]) -> list[str]:
    """Names for the charts, where each must be different: repeated ones are numbered."""
    seen: Counter[str] = Counter()
    taken = set(names)
    labels = []
    for name in names:
        label = name
        while seen[name] and label in taken:
            seen[name] += 1
            label = f"{name} ({seen[name]})"
        seen[name] += not seen[name]
        taken.add(label)
        labels.append(label)
    return labels


def _format_caution(caution: words.Caution) -> str:
    items = "".join(f"<li>{escape(item)}</li>" for item in caution.items)
    return (
        f'<div class="caution{" grave" * caution.is_grave}"><h3>{escape(caution.heading)}</h3>'
        f"<p>{escape(caution.text)}</p>{f'<ul>{items}</ul>' if items else ''}</div>"
    )
