"""Writes the report: words, data and charts into one page, with everything a user named kept as text."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from html import escape
from importlib.metadata import version
from importlib.resources import files
from os import PathLike
from string import Template
from typing import TYPE_CHECKING, Any

from truewood.report import words
from truewood.report.charts import NOT_SIGNIFICANT, SIGNIFICANT, make_charts, name_class_column
from truewood.report.correlation import find_correlations
from truewood.report.vega import bundle_scripts, compile_chart
from truewood.result.pictures import FAINT, name_level
from truewood.writing import write_file

if TYPE_CHECKING:
    from truewood.result.importance_result import ImportanceResult

# How the table heads a column and shows its numbers.
_HEADINGS = {
    "feature": ("feature", "text"),
    "importance": ("importance", "number"),
    "share": ("share", "share"),
    "std_error": ("standard error", "number"),
    "ci_low": ("95 % low", "number"),
    "ci_high": ("95 % high", "number"),
    "p_value": ("p-value", "small"),
    "rank": ("rank", "count"),
    "mdi": ("biased importance", "number"),
    "mdi_rank": ("biased rank", "count"),
}


_CLASSES = """<section aria-labelledby="classes-heading">
<h2 id="classes-heading">By class</h2>
<p>The parts of the scores that have to do with each class; a line of the map adds up to the feature's importance.</p>
<div id="classes" class="chart"></div>
</section>
"""


def write_report(
    result: ImportanceResult,
    path: str | PathLike[str],
    *,
    X: Any,
    title: str | None,
    notes: Sequence[str],
    alpha: float,
) -> None:
    """Write a report; see `ImportanceResult.report`."""
    if isinstance(notes, str):
        raise TypeError("notes must be a sequence of sentences, got one str; put it into a list.")
    bundle = bundle_scripts()
    names = result.frame()["feature"].tolist()
    correlations = None if X is None else find_correlations(X, names)
    glue = _read("page.js")
    answer, meaning = words.answer(result, alpha)
    content = {
        "title": escape(title or "Which features matter?"),
        "policy": " ".join(_hash_script(script) for script in (bundle, glue)),
        "style": _read("page.css").replace("FAINT", FAINT),
        "answer": escape(answer),
        "meaning": escape(meaning),
        "measured": "\n".join(
            f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in words.describe_measurement(result)
        ),
        "notes": "".join(f"<li>{escape(note)}</li>" for note in notes),
        "bars_note": f"Thin lines: 95 % intervals. Significant: at a {name_level(alpha)}."
        if result.no_inference is None
        else "",
        "cautions": "\n".join(map(_format_caution, words.list_cautions(result, correlations))),
        "classes": "" if result.classes is None else _CLASSES,
        "citation": escape(words.CITATION),
        "version": escape(version("truewood")),
        "data": _to_script_json(_collect(result, alpha)),
        "bundle": bundle,
        "glue": glue,
    }
    page = Template(_read("page.html")).substitute(content)
    write_file(path, page.encode(errors="backslashreplace"))  # letters that are none, as names of files may hold


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


def _collect(result: ImportanceResult, alpha: float) -> dict[str, Any]:
    """What the page's script works with: the table by row, and what goes with each row."""
    table = result.frame()
    columns = [{"name": name, "title": _HEADINGS[name][0], "kind": _HEADINGS[name][1]} for name in table.columns]
    if result.classes is not None:
        for k, (name, parts) in enumerate(zip(result.classes.names, result.classes.values, strict=True)):
            columns.append({"name": name_class_column(k), "title": f"class {name}", "kind": "number"})
            table[name_class_column(k)] = parts[result.order]
    verdicts = None
    if result.no_inference is None:
        is_found = result.select(alpha)[result.order]
        verdicts = [SIGNIFICANT if found else NOT_SIGNIFICANT for found in is_found.tolist()]
    rows = table.astype(object).where(table.notna(), None).to_numpy().tolist()
    return {
        "columns": columns,
        "rows": rows,
        "labels": _tell_apart(table["feature"].tolist()),
        "verdicts": verdicts,
        "charts": {name: compile_chart(chart) for name, chart in make_charts(result).items()},
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
