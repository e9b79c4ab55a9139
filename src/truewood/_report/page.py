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
from os import PathLike, fspath
from string import Template
from typing import TYPE_CHECKING, Any

from truewood._arguments import check_path, check_texts, check_type
from truewood._formatting import quote
from truewood._plotting.style import FAINT, SMALL, UNBIASED
from truewood._report import wording
from truewood._report.charts import (
    bundle_scripts,
    compile_chart,
    import_libraries,
    make_charts,
    make_room_for_names,
    name_class_column,
)
from truewood._report.groups_section import write_groups
from truewood._results.caveats import Caveat, check_table, list_caveats
from truewood._results.summary import find_percent, judge_features, name_level
from truewood._results.trends import Direction, explain_directions, find_directions
from truewood._writing import write_file

if TYPE_CHECKING:
    import pandas as pd

    from truewood._results.explanation import Explanation
    from truewood._results.importance_result import ImportanceResult

_ENDINGS = (".html", ".htm")
_SLOPES = """<section aria-labelledby="slopes-heading">
<h2 id="slopes-heading">The usual, biased rank beside this one</h2>
<p>Features that fall look important only to the rows that chose the splits.</p>
<div id="slopes" class="chart"></div>
</section>"""
_CAUTIONS = """<section aria-labelledby="cautions">
<h2 id="cautions">What to be careful about</h2>
{}
</section>"""
CITE = ("How to cite", f"<p>{escape(wording.CITATION)}</p>")
_CLASSES = """<section aria-labelledby="classes-heading">
<h2 id="classes-heading">By class</h2>
<p>The parts of the scores that have to do with each class; a line of the map adds up to the feature's score.</p>
<div id="classes" class="chart"></div>
</section>"""


@dataclass(frozen=True)
class Column:
    """A column of the page's table.

    Parameters
    ----------
    name : str
        The field of a row that it shows and sorts by.
    title : str
        Its heading.
    kind : {"text", "percent", "interval", "direction", "number", "change", "p_value", "count"}
        How it is written.
    is_wide : bool
        Whether it is left out where the screen is narrow.
    """

    name: str
    title: str
    kind: str
    is_wide: bool = False


@dataclass(frozen=True)
class Page:
    """What a report says and shows.

    Parameters
    ----------
    title, heading : str
        Title of the report, and name of its chart.
    answer : str
        The answer, in a sentence or two.
    facts : list of (str, str)
        What belongs to it, as terms and a few words each.
    cautions : list of Caution
        What to be careful about; what is grave is said right below the answer.
    note, meaning : str
        A line below the chart, and what else to say there.
    sections : str
        HTML of more sections.
    folds : list of (str, str)
        Headings and HTML of what is folded.
    table : DataFrame
        A line a feature, with all there is to download.
    columns : list of Column
        What the page's table shows of it.
    by : str
        The column of `table` that is drawn and that it is sorted by, largest first.
    factor : float
        What makes that and the ends of its interval what is shown.
    verdicts : list of str, or None
        What was found of each line, in wording.
    directions : list of Direction, or None
        Which way each line moves predictions.
    charts : dict of str to dict
        Vega-Lite specifications by the id of their place.
    """

    title: str
    heading: str
    answer: str
    facts: list[tuple[str, str]]
    cautions: list[Caveat]
    note: str
    meaning: str
    sections: str
    folds: list[tuple[str, str]]
    table: pd.DataFrame
    columns: list[Column]
    by: str
    factor: float
    verdicts: list[str] | None
    directions: list[Direction] | None
    charts: dict[str, dict[str, Any]]


def check_report(path: str | PathLike[str]) -> None:
    """Refuse a path that is not one of a report, and reports where what they need is not installed."""
    check_path(path, "path")
    if not fspath(path).lower().endswith(_ENDINGS):
        raise ValueError(f"path must end in .html, as the report is a page for a browser, got {quote(fspath(path))}.")
    import_libraries()


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
    """Write a report; see `ImportanceResult.report`."""
    check_report(path)
    for name, text in (("title", title), ("performance", performance)):
        if text is not None:
            check_type(text, str, name, "a str or None")
    check_texts(notes, "notes")
    check_texts(warnings, "warnings")
    table, percent = result.frame(), find_percent(result)
    check, directions = check_table(result, X, feature_groups), find_directions(result, explanation, alpha)
    reading = wording.explain_reading(result, alpha)
    if explanation is not None:
        reading.append(explain_directions(explanation))
    answer, meaning = wording.answer(result, alpha)
    has_inference = result.inference_unavailable is None
    sections = [_SLOPES]
    if feature_groups is not None:
        sections.insert(0, write_groups(result, feature_groups))
    if result.classes is not None:
        sections.insert(0, _CLASSES)
        for k, parts in enumerate(result.classes.values):
            table[name_class_column(k)] = parts[result.order]
    page = Page(
        title=title or "Which features matter?",
        heading="Importance",
        answer=answer,
        facts=wording.list_facts(result, percent, performance),
        cautions=[*(Caveat("", text, is_grave=True) for text in warnings), *list_caveats(result, check)],
        note=f"Lines: 95 % intervals. Found: at a {name_level(alpha)}." if has_inference else "",
        meaning=meaning,
        sections="\n".join(sections),
        folds=[
            ("What was measured", f"{list_terms(wording.describe_measurement(result, check))}{list_items(notes)}"),
            ("How to read this", list_items(reading)),
            CITE,
        ],
        table=table,
        columns=_choose_columns(result, has_inference, has_directions=directions is not None),
        by="importance",
        factor=1.0 if percent is None else percent.factor,
        verdicts=judge_features(result, alpha)[result.order].tolist() if has_inference else None,
        directions=None if directions is None else [directions[j] for j in result.order],
        charts=make_charts(result),
    )
    write_page(page, path)


def _choose_columns(result: ImportanceResult, has_inference: bool, *, has_directions: bool) -> list[Column]:
    percent, columns = find_percent(result), [Column("feature", "feature", "text")]
    if percent is not None:
        columns.append(Column("shown", "share" if percent.is_share else "% of sum", "percent"))
    if has_inference:
        columns.append(Column("high", "95 % interval", "interval"))
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
    biased = [Column("mdi", "biased score", "number", is_wide=True), Column("mdi_rank", "biased rank", "count", True)]
    return columns + biased


def write_page(page: Page, path: str | PathLike[str]) -> None:
    """Write a report as one HTML file."""
    bundle, glue = bundle_scripts(), _read("page.js")
    others = [caution for caution in page.cautions if not caution.is_grave]
    content = {
        "title": escape(page.title),
        "policy": " ".join(_hash_script(script) for script in (bundle, glue)),
        "style": _read("page.css").replace("FAINT", FAINT).replace("UNBIASED", UNBIASED).replace("SMALL", SMALL),
        "answer": escape(page.answer.replace(" %", "\N{NO-BREAK SPACE}%")),
        "facts": "".join(f"<div><dt>{escape(term)}</dt><dd>{escape(text)}</dd></div>" for term, text in page.facts),
        "alarms": "\n".join(_format_caveat(caution) for caution in page.cautions if caution.is_grave),
        "heading": escape(page.heading),
        "note": escape(page.note),
        "meaning": escape(page.meaning),
        "cautions": _CAUTIONS.format("\n".join(map(_format_caveat, others))) if others else "",
        "sections": page.sections,
        "folds": "\n".join(_fold(heading, content) for heading, content in page.folds if content),
        "version": escape(version("truewood")),
        "data": _to_script_json(_collect(page)),
        "bundle": bundle,
        "glue": glue,
    }
    filled = Template(_read("page.html")).substitute(content)
    write_file(path, filled.encode(errors="backslashreplace"))  # letters that are none, as names of files may hold


def _read(name: str) -> str:
    return files("truewood._report").joinpath(name).read_text(encoding="utf-8")


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
    table, charts = page.table, {name: compile_chart(chart) for name, chart in page.charts.items()}
    make_room_for_names(charts["dots"])
    return {
        "fields": table.columns.tolist(),
        "rows": table.astype(object).where(table.notna(), None).to_numpy().tolist(),
        "columns": [vars(column) for column in page.columns],
        "by": page.by,
        "factor": page.factor,
        "labels": _tell_apart(table["feature"].tolist()),
        "verdicts": page.verdicts,
        "directions": None if page.directions is None else list(map(vars, page.directions)),
        "charts": charts,
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


def list_terms(terms: Sequence[tuple[str, str]]) -> str:
    """HTML of terms and what is said of them."""
    lines = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in terms)
    return f"<dl>{lines}</dl>"


def list_items(items: Sequence[str]) -> str:
    """HTML of a list."""
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>" if items else ""


def _fold(heading: str, content: str) -> str:
    return f"<details><summary>{escape(heading)}</summary>\n{content}\n</details>"


def _format_caveat(caution: Caveat) -> str:
    heading = f"<b>{escape(caution.heading)}:</b> " if caution.heading else ""
    text = escape(caution.text if caution.heading else _begin_sentence(caution.text))
    items = f"<details><summary>Which ones</summary>{list_items(caution.items)}</details>" if caution.items else ""
    return f'<div class="caution{" grave" * caution.is_grave}"><p>{heading}{text}</p>{items}</div>'


def _begin_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}."
