"""A result in words: the text and HTML that a terminal and a notebook show, and which ranks are certain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._formatting import (
    CI,
    ROWS_IN_WORDS,
    align,
    count,
    enumerate_names,
    find_unit,
    format_p_value,
    in_one_line,
)
from truewood._results.caveats import list_caveats
from truewood._results.notebook_view import LINES, draw_bars, write_table, write_view
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


def write_text(result: ImportanceResult) -> str:
    """Write a result as text for a terminal."""
    table = _make_top_table(result).to_string(index=False)
    return "\n".join([f"ImportanceResult: {_write_header(result)}", table, *_write_notes(result)])


def write_html(result: ImportanceResult) -> str:
    """Write a result as HTML for a notebook, with small bars and caveats."""
    table = _make_top_table(result)
    marks = table[""].tolist() if "" in table else ["*"] * len(table)
    order, intervals, shown = result.order[: len(table)], None, find_shown(result, find_percent(result))
    if result.inference_unavailable is None:
        intervals = shown.low[order].tolist(), shown.high[order].tolist()
    bars = draw_bars(shown.values[order].tolist(), [bool(mark) for mark in marks], intervals)
    caveats, notes = list_caveats(result, None), _write_legend(result)
    notes += [LINES] * (intervals is not None)
    skipped = describe_skipped(result)
    if result.skipped_weight > 0 and not any(caveat.text.startswith(skipped) for caveat in caveats):
        notes.append(skipped)
    columns: dict[str, list[str]] = {str(name): table[name].tolist() for name in table}
    return write_view("ImportanceResult", _write_header(result), write_table(columns, bars), notes, caveats)


def write_certain_top(result: ImportanceResult, alpha: float) -> str:
    """Write which features are the top k with confidence 1 - alpha, for the largest such k, or are among them."""
    _, worst = result.rank_sets(alpha)
    confidence, n_features = f"{100 * (1 - alpha):g}% simultaneous confidence", len(worst)
    n_top = max((k for k in range(1, n_features) if np.count_nonzero(worst <= k) == k), default=0)
    if not n_top and worst.min() == n_features:
        return f"With {confidence}, no feature can be ranked above any other."
    k = n_top or int(worst.min())
    named = enumerate_names([str(result.feature_names[j]) for j in result.order.tolist() if worst[j] <= k])
    if n_top:
        top = f"the top {k} features are" if k > 1 else "the top feature is"
        return f"With {confidence}, {top} {named}."
    verb = "is" if np.count_nonzero(worst == k) == 1 else "are"
    return f"With {confidence}, {named} {verb} among the top {k} features."


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
        columns[CI] = _pick(shown.write_intervals(), order)
        columns["p-value"] = [format_p_value(p_value) for p_value in result.p_value[order].tolist()]
        columns[""] = [STARS.get(verdict, "") for verdict in classify_features(result, _ALPHA)[order].tolist()]
    columns[unit.name("importance")] = [unit.write(value) for value in result.values[order].tolist()]
    table = result.frame()[:_N_SHOWN].astype(str)
    columns["rank"] = table["rank"].tolist()
    if "best_rank" in table:
        columns["possible ranks"] = [
            best if best == worst else f"{best} to {worst}"
            for best, worst in zip(table["best_rank"], table["worst_rank"], strict=True)
        ]
    columns["biased rank"] = table["mdi_rank"].tolist()
    return pd.DataFrame(columns)


def _pick(texts: list[str], order: NDArray[np.int64]) -> list[str]:
    return [texts[j] for j in order.tolist()]


def _write_notes(result: ImportanceResult) -> list[str]:
    skipped = [describe_skipped(result)] if result.skipped_weight > 0 else []
    return [*_write_legend(result), *skipped, *map(in_one_line, result.notes)]


def _write_legend(result: ImportanceResult) -> list[str]:
    """Explain the marks of the table and missing p-values, and count the features that it leaves out."""
    notes, percent = [], find_percent(result)
    if result.inference_unavailable is not None:
        notes.append(f"No p-values: {result.inference_unavailable}.")
    if result.inference_unavailable is None and result.select(_ALPHA).any():
        shown = classify_features(result, _ALPHA)[result.order[:_N_SHOWN]]
        has_small = SIGNIFICANT_SMALL in shown
        small = f"; (*) significant, but less than {SMALL:g}% of {percent.base}" if percent and has_small else ""
        notes.append(f"* significant (adjusted p-value at most {_ALPHA:g}){small}.")
    lowest = find_unit(result.values.tolist()).write(result.values[result.order[:_N_SHOWN]].min())
    if percent is not None and lowest.startswith("-"):
        notes.append(f"{name_percent_column(percent)}: negative values are shown as 0.")
    if "best_rank" in result.frame():
        notes.append("possible ranks: with 95% simultaneous confidence.")
    n_hidden = len(result.values) - _N_SHOWN
    if n_hidden > 0:
        notes.append(f"{count(n_hidden, 'more feature')}; see .frame().")
    return notes
