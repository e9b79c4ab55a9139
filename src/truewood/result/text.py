"""What a terminal and a notebook show of a result: a line about it, the first features, and what else to know."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import numpy as np

from truewood.words import ROWS_IN_WORDS, count, in_one_line

if TYPE_CHECKING:
    import pandas as pd

    from truewood.result.importance_result import ImportanceResult

_N_SHOWN = 10


def write_text(result: ImportanceResult) -> str:
    """Text for a terminal."""
    table = _take_first(result).to_string(index=False, float_format=_format_number)
    return "\n".join(filter(None, [f"ImportanceResult: {_summarise(result)}", table, _write_note(result)]))


def write_html(result: ImportanceResult) -> str:
    """HTML for a notebook."""
    table = _take_first(result).to_html(index=False, float_format=_format_number, border=0)
    heading = f"<p><b>ImportanceResult</b>: {html.escape(_summarise(result))}</p>"
    note = _write_note(result)
    return "\n".join(filter(None, [heading, table, note and f"<p>{html.escape(note)}</p>"]))


def _summarise(result: ImportanceResult) -> str:
    trees = f"{result.n_trees} tree{'s' * (result.n_trees != 1)}"
    if result.per_fold is not None:
        trees += f" in {count(len(result.per_fold), 'fold')}"
    groups = "" if result.n_row_groups is None else f" in {count(result.n_row_groups, 'group')}"
    return f"{result.measure}, {result.task}, {trees}, {result.n_rows} {ROWS_IN_WORDS[result.rows]}{groups}"


def _take_first(result: ImportanceResult) -> pd.DataFrame:
    frame = result.frame().head(_N_SHOWN).drop(columns="share" if np.isnan(result.share).all() else [])
    return frame.assign(feature=frame["feature"].map(in_one_line))


def _format_number(number: float) -> str:
    return f"{number:.4g}"


def _write_note(result: ImportanceResult) -> str:
    notes = list(map(in_one_line, result.notes))
    if result.skipped_weight > 0:
        notes.insert(0, f"{result.skipped_weight:.1%} of split weight had no unseen rows.")
    n_hidden = len(result.values) - _N_SHOWN
    if n_hidden > 0:
        notes.insert(0, f"{n_hidden} more features; all of them in .frame().")
    return " ".join(notes)
