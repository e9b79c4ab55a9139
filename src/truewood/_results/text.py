"""The text and HTML that a terminal and a notebook show for a result: a header, the top features, and notes."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._formatting import ROWS_IN_WORDS, align, count, find_unit, format_p_value, in_one_line
from truewood._results.summary import (
    SIGNIFICANT,
    SIGNIFICANT_SMALL,
    SMALL,
    classify_features,
    describe_skipped,
    find_percent,
    find_row_source,
    find_shown,
    name_percent_column,
)

if TYPE_CHECKING:
    from truewood._results.importance_result import ImportanceResult

_N_SHOWN = 10
_ALPHA = 0.05
# Marks of significant features.
STARS = {SIGNIFICANT: "*", SIGNIFICANT_SMALL: "(*)"}
_BAR = (
    '<div style="width:8em"><div style="width:{0:.1f}%;min-width:1px;height:0.8em;background:#0072B2;opacity:{1}">'
    "</div></div>"
)
_CELL = '<td style="text-align:right">{}</td>'


def write_text(result: ImportanceResult) -> str:
    """Write a result as text for a terminal."""
    table = _make_top_table(result).to_string(index=False)
    return "\n".join([f"ImportanceResult: {_write_header(result)}", table, *_write_notes(result)])


def write_html(result: ImportanceResult) -> str:
    """Write a result as HTML for a notebook, with small bars."""
    table = _make_top_table(result)
    shown = result.values[result.order][: len(table)]
    most = max(float(shown.max()), 0.0)
    widths = [100 * max(value, 0.0) / most if most > 0 else 0.0 for value in shown.tolist()]
    marks = table[""].tolist() if "" in table else ["*"] * len(table)
    bars = [_BAR.format(width, 1 if mark else 0.35) for width, mark in zip(widths, marks, strict=True)]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in ["feature", "", *table.columns[1:]])
    lines = [
        f'<tr><td style="text-align:left">{html.escape(row[0])}</td><td>{bar}</td>'
        f"{''.join(_CELL.format(html.escape(cell)) for cell in row[1:])}</tr>"
        for row, bar in zip(table.to_numpy().tolist(), bars, strict=True)
    ]
    heading = f"<p><b>ImportanceResult</b>: {html.escape(_write_header(result))}</p>"
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return "\n".join([heading, body, *(f"<p>{html.escape(note)}</p>" for note in _write_notes(result))])


def _write_header(result: ImportanceResult) -> str:
    rows = f"{result.n_rows:,} {ROWS_IN_WORDS[find_row_source(result)]}"
    rows += "" if result.n_groups is None else f" in {count(result.n_groups, 'group')}"
    trees = count(result.n_trees, "tree")
    if result.per_fold is not None:
        trees += f" in {count(len(result.per_fold), 'fold')}"
    return f"{result.measure}, {result.task}, {trees}, {rows}"


def _make_top_table(result: ImportanceResult) -> pd.DataFrame:
    """The top features as text: percentages if there are any, then scores and ranks."""
    order, percent = result.order[:_N_SHOWN], find_percent(result)
    shown, unit = find_shown(result, percent), find_unit(result.values.tolist())
    columns = {"feature": [in_one_line(name) for name in result.feature_names[order].tolist()]}
    if percent is not None:
        columns[name_percent_column(percent)] = align(_pick(shown.write_values(), order))
    if result.inference_unavailable is None:
        columns["95% CI"] = _pick(shown.write_intervals(), order)
        columns["p-value"] = [format_p_value(p_value) for p_value in result.p_value[order].tolist()]
        columns[""] = [STARS.get(verdict, "") for verdict in classify_features(result, _ALPHA)[order].tolist()]
    columns[unit.name("importance")] = [unit.write(value) for value in result.values[order].tolist()]
    columns["rank"] = result.frame()["rank"][:_N_SHOWN].astype(str).tolist()
    columns["biased rank"] = result.frame()["mdi_rank"][:_N_SHOWN].astype(str).tolist()
    return pd.DataFrame(columns)


def _pick(texts: list[str], order: NDArray[np.int64]) -> list[str]:
    return [texts[j] for j in order.tolist()]


def _write_notes(result: ImportanceResult) -> list[str]:
    notes = []
    if result.inference_unavailable is None and result.select(_ALPHA).any():
        percent, has_small = find_percent(result), SIGNIFICANT_SMALL in classify_features(result, _ALPHA)
        small = f"; (*) significant, but less than {SMALL:g}% of {percent.base}" if percent and has_small else ""
        notes.append(f"* significant (adjusted p-value at most {_ALPHA:g}){small}.")
    n_hidden = len(result.values) - _N_SHOWN
    if n_hidden > 0:
        notes.append(f"{count(n_hidden, 'more feature')}; see .frame().")
    if result.skipped_weight > 0:
        notes.append(describe_skipped(result))
    return [*notes, *map(in_one_line, result.notes)]
