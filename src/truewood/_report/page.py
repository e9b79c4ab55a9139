"""`Page`: a report as one HTML file, with summary, charts, table and background. User text is always escaped."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from importlib.resources import files
from os import PathLike, fspath
from string import Template
from typing import TYPE_CHECKING, Any

from truewood._arguments import check_path, check_texts, check_type
from truewood._formatting import quote
from truewood._plotting.style import FAINT, SMALL, UNBIASED
from truewood._report.charts import adapt_rows_to_phones, bundle_scripts, compile_chart, import_libraries
from truewood._results.caveats import Caveat
from truewood._results.trends import Direction
from truewood._writing import write_file

if TYPE_CHECKING:
    import pandas as pd

_SUFFIXES = (".html", ".htm")
_CAVEATS = """<section aria-labelledby="caveats-heading">
<h2 id="caveats-heading">Caveats</h2>
{}
</section>"""
_CITATION = (
    'Z. Zhou and G. Hooker, "Unbiased Measurement of Feature Importance in Tree-Based Methods", ACM Transactions on '
    "Knowledge Discovery from Data 15(2), 2021."
)


@dataclass(frozen=True)
class Column:
    """A column of the page's table.

    Parameters
    ----------
    name : str
        The field to show and sort by.
    title : str
        Heading of the column.
    kind : {"text", "percent", "interval", "direction", "number", "change", "p_value", "count"}
        How values are formatted.
    is_wide : bool
        Whether narrow screens leave it out.
    """

    name: str
    title: str
    kind: str
    is_wide: bool = False


@dataclass(frozen=True)
class Page:
    """Contents of a report.

    Parameters
    ----------
    title, heading : str
        Title of the report, and accessible name of its main chart.
    summary : str
        The result in a sentence or two.
    facts : list of (str, str)
        Key facts, as terms and short values.
    caveats : list of Caveat
        Caveats; severe ones appear right below the summary.
    note, conclusion : str
        A line below the main chart, and a paragraph below that.
    sections : str
        HTML of further sections.
    background : list of (str, str)
        Headings and HTML of collapsed sections.
    table : DataFrame
        One row per feature, with all values to download.
    columns : list of Column
        The columns that the page's table shows.
    by : str
        The column of `table` to plot and sort by, largest first.
    factor : float
        Multiplier from that column and the ends of its interval to what is shown.
    verdicts : list of str, or None
        The verdict on each row.
    directions : list of Direction, or None
        The direction of each row.
    charts : dict of str to dict
        Vega-Lite specifications by element id.
    """

    title: str
    heading: str
    summary: str
    facts: list[tuple[str, str]]
    caveats: list[Caveat]
    note: str
    conclusion: str
    sections: str
    background: list[tuple[str, str]]
    table: pd.DataFrame
    columns: list[Column]
    by: str
    factor: float
    verdicts: list[str] | None
    directions: list[Direction] | None
    charts: dict[str, dict[str, Any]]


def check_report(path: str | PathLike[str], *, title: str | None, notes: Sequence[str]) -> None:
    """Check the arguments that all reports share, and that the libraries they need are installed."""
    check_path(path, "path")
    if not fspath(path).lower().endswith(_SUFFIXES):
        raise ValueError(f"path must end in .html, got {quote(fspath(path))}; a report is a web page.")
    if title is not None:
        check_type(title, str, "title", "a str or None")
    check_texts(notes, "notes")
    import_libraries()


def write_page(page: Page, path: str | PathLike[str]) -> None:
    """Write a report as one HTML file."""
    bundle, script = bundle_scripts(), _read("page.js")
    severe = [_format_caveat(caveat) for caveat in page.caveats if caveat.is_severe]
    others = [_format_caveat(caveat) for caveat in page.caveats if not caveat.is_severe]
    background = [*page.background, ("How to cite", f"<p>{escape(_CITATION)}</p>")]
    content = {
        "title": escape(page.title),
        "policy": " ".join(_hash_script(source) for source in (bundle, script)),
        "style": _read("page.css").replace("FAINT", FAINT).replace("UNBIASED", UNBIASED).replace("SMALL", SMALL),
        "summary": escape(page.summary),
        "facts": "".join(f"<div><dt>{escape(term)}</dt><dd>{escape(text)}</dd></div>" for term, text in page.facts),
        "severe_caveats": "\n".join(severe),
        "heading": escape(page.heading),
        "note": escape(page.note),
        "conclusion": escape(page.conclusion),
        "caveats": _CAVEATS.format("\n".join(others)) if others else "",
        "sections": page.sections,
        "background": "\n".join(_write_details(heading, content) for heading, content in background if content),
        "version": escape(version("truewood")),
        "data": _to_script_json(_collect(page)),
        "bundle": bundle,
        "script": script,
    }
    filled = Template(_read("page.html")).substitute(content)
    write_file(path, filled.encode(errors="backslashreplace"))  # names may contain lone surrogates


def _read(name: str) -> str:
    return files("truewood._report").joinpath(name).read_text(encoding="utf-8")


def _hash_script(script: str) -> str:
    """Hash a script for the page's security policy, which runs no other script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _to_script_json(value: Any) -> str:
    """Write JSON for a script element; no text in it can end or change the element."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _collect(page: Page) -> dict[str, Any]:
    """Collect the data for the page's script: the table, and what belongs to each row."""
    table, charts = page.table, {name: compile_chart(chart) for name, chart in page.charts.items()}
    adapt_rows_to_phones(charts["dots"])
    return {
        "fields": table.columns.tolist(),
        "rows": table.astype(object).where(table.notna(), None).to_numpy().tolist(),
        "columns": [vars(column) for column in page.columns],
        "by": page.by,
        "factor": page.factor,
        "labels": _make_unique(table["feature"].tolist()),
        "verdicts": page.verdicts,
        "directions": None if page.directions is None else list(map(vars, page.directions)),
        "charts": charts,
    }


def _make_unique(names: list[str]) -> list[str]:
    """Number repeated names, as charts need unique ones."""
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


def list_terms(terms: Sequence[tuple[str, str]]) -> str:
    """Write terms and descriptions as HTML."""
    lines = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in terms)
    return f"<dl>{lines}</dl>"


def list_items(items: Sequence[str]) -> str:
    """Write a list as HTML."""
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>" if items else ""


def _write_details(heading: str, content: str) -> str:
    return f"<details><summary>{escape(heading)}</summary>\n{content}\n</details>"


def _format_caveat(caveat: Caveat) -> str:
    heading = f"<b>{escape(caveat.heading)}:</b> " if caveat.heading else ""
    text = escape(caveat.text if caveat.heading else _begin_sentence(caveat.text))
    items = f"<details><summary>Show list</summary>{list_items(caveat.items)}</details>" if caveat.items else ""
    return f'<div class="caveat{" severe" * caveat.is_severe}"><p>{heading}{text}</p>{items}</div>'


def _begin_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}."
