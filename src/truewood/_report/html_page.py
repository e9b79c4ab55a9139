"""`Page`: a report as one HTML file, with summary, charts, table and background. User text is always escaped."""

from __future__ import annotations

import base64
import hashlib
import json
import math
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
from truewood._formatting import count, quote
from truewood._plotting.style import FAINT, SMALL, UNBIASED
from truewood._report.charts import adapt_rows, wrap_name
from truewood._report.vega import bundle_scripts, compile_chart, import_libraries
from truewood._results.caveats import Caveat
from truewood._results.trends import Direction, list_effects
from truewood._writing import write_file

if TYPE_CHECKING:
    import pandas as pd

_SUFFIXES = (".html", ".htm")
# Caveats that are not folded, items of a caveat that are not folded, items that it lists, and levels that a cell shows.
_MAX_CAVEATS = 3
_FEW_ITEMS = 3
_MAX_LISTED = 20
_MAX_LEVELS = 3
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
        The field to sort by.
    title : str
        Heading of the column.
    kind : {"text", "number", "interval", "direction", "change", "p_value"}
        What it holds; changes are sorted by their absolute value.
    texts : list of str
        The cells, in the order of the table.
    is_wide : bool
        Whether narrow screens leave it out.
    """

    name: str
    title: str
    kind: str
    texts: list[str]
    is_wide: bool = False


@dataclass(frozen=True)
class Page:
    """Contents of a report.

    Parameters
    ----------
    title, heading : str
        Title of the report, and accessible name of its main chart.
    about : str
        What was analyzed, and when.
    summary : str
        The result in a sentence or two.
    facts : list of (str, str)
        Key facts, as terms and short values.
    caveats : list of Caveat
        Caveats, the most severe first. Severe ones appear right above the summary, and only the first few unfolded.
    note, conclusion : str
        A line below the main chart, and a paragraph below that.
    cards, sections : str
        HTML of the cards of features, and of further sections.
    background : list of (str, str)
        Headings and HTML of collapsed sections.
    table : DataFrame
        One row per feature, with all values to download.
    columns : list of Column
        The columns that the page's table shows.
    by : str
        The column of `table` that gives its order, largest first.
    shown, low, high : list of float
        The numbers of the main chart and their intervals, in the order of the table; intervals may be NaN.
    verdicts : list of str, or None
        The verdict on each row.
    directions : list of Direction, or None
        The direction of each row.
    charts : dict of str to dict
        Vega-Lite specifications by element id.
    """

    title: str
    heading: str
    about: str
    summary: str
    facts: list[tuple[str, str]]
    caveats: list[Caveat]
    note: str
    conclusion: str
    cards: str
    sections: str
    background: list[tuple[str, str]]
    table: pd.DataFrame
    columns: list[Column]
    by: str
    shown: list[float]
    low: list[float]
    high: list[float]
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
    background = [*page.background, ("How to cite", f"<p>{escape(_CITATION)}</p>")]
    severe, others, folded = _arrange_caveats(page.caveats)
    content = {
        "title": escape(page.title),
        "policy": " ".join(_hash_script(source) for source in (bundle, script)),
        "style": _read("page.css").replace("FAINT", FAINT).replace("UNBIASED", UNBIASED).replace("SMALL", SMALL),
        "about": escape(page.about),
        "summary": escape(page.summary),
        "facts": "".join(f"<div><dt>{escape(term)}</dt><dd>{escape(text)}</dd></div>" for term, text in page.facts),
        "severe_caveats": severe,
        "heading": escape(page.heading),
        "note": escape(page.note),
        "conclusion": f"<p>{escape(page.conclusion)}</p>" if page.conclusion else "",
        "caveats": _CAVEATS.format(others + folded) if others or folded else "",
        "cards": page.cards,
        "sections": page.sections,
        "background": "\n".join(_write_details(heading, content) for heading, content in background if content),
        "version": escape(version("truewood")),
        "data": _to_script_json(_collect(page)),
        "bundle": bundle,
        "script": script,
    }
    filled = Template(_read("page.html")).substitute(content)
    write_file(path, filled.encode(errors="backslashreplace"))  # names may contain lone surrogates


def _arrange_caveats(caveats: Sequence[Caveat]) -> tuple[str, str, str]:
    """Return the HTML of severe caveats, of others, and of those that are folded because there are too many."""
    first, more = caveats[:_MAX_CAVEATS], caveats[_MAX_CAVEATS:]
    severe, others = ("".join(_format_caveat(c) for c in first if c.is_severe is wanted) for wanted in (True, False))
    if not more:
        return severe, others, ""
    folded = "".join(map(_format_caveat, more))
    return severe, others, _write_details(count(len(more), "more caveat"), folded)


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
    labels = _make_unique(table["feature"].tolist())
    lines = [wrap_name(label) for label in labels]
    narrow = [wrap_name(label, is_narrow=True) for label in labels]
    for name, chart in charts.items():
        adapt_rows(name, chart, max(map(len, lines)), max(map(len, narrow)))
    numbers = zip(page.shown, page.low, page.high, strict=True)
    return {
        "fields": table.columns.tolist(),
        "rows": table.astype(object).where(table.notna(), None).to_numpy().tolist(),
        "columns": [vars(column) for column in page.columns],
        "by": page.by,
        "shown": [[None if math.isnan(number) else number for number in three] for three in numbers],
        "labels": labels,
        "lines": lines,
        "narrow": narrow,
        "verdicts": page.verdicts,
        "directions": None if page.directions is None else list(map(_summarize_direction, page.directions)),
        "charts": charts,
    }


def _summarize_direction(direction: Direction) -> dict[str, Any]:
    """Return what a cell of the table shows: the effects, and the class and the extreme levels as text."""
    effects = list_effects(direction)
    ends = effects if len(effects) <= _MAX_LEVELS else [effects[0], effects[-1]]
    n_left = len(effects) - len(ends) + direction.n_more
    if n_left:
        ends = [*ends, (count(n_left, "more level"), "")]
    if ends and direction.output:
        ends = [(f"for {direction.output}", ""), *ends]
    return {"text": direction.text, "effects": direction.effects, "levels": ends}


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
    listed = list_items(caveat.list_items(_MAX_LISTED))
    items = f"<details><summary>Show list</summary>{listed}</details>" if len(caveat.items) > _FEW_ITEMS else listed
    return f'<div class="caveat{" severe" * caveat.is_severe}"><p>{heading}{text}</p>{items}</div>'


def _begin_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}."
