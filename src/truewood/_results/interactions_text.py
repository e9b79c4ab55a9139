"""Interactions in words: the text and HTML that a terminal and a notebook show, the table, and a summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from truewood._formatting import CI, count, find_unit, format_p_value, format_percents, in_one_line
from truewood._results.notebook_view import LINES, draw_bars, write_table, write_view

if TYPE_CHECKING:
    from truewood._results.interactions import Interactions

_N_SHOWN = 10
_N_NAMED = 5
_ALPHA = 0.05


def write_text(interactions: Interactions) -> str:
    """Write interactions as text for a terminal."""
    table = make_pairs_table(interactions, _ALPHA, _N_SHOWN).to_string(index=False)
    return "\n".join([f"Interactions: {interactions.describe()}", table, *_write_notes(interactions)])


def write_html(interactions: Interactions) -> str:
    """Write interactions as HTML for a notebook, with small bars."""
    table = make_pairs_table(interactions, _ALPHA, _N_SHOWN)
    columns: dict[str, list[str]] = {str(name): table[name].tolist() for name in table}
    order, marks, notes = interactions.order[: len(table)], columns.get("", ["*"] * len(table)), []
    intervals = None
    if interactions.inference_unavailable is None:
        low, high = interactions.interval()
        intervals, notes = (low[order].tolist(), high[order].tolist()), [LINES]
    bars = draw_bars(interactions.values[order].tolist(), [bool(mark) for mark in marks], intervals)
    notes = [*_write_notes(interactions), *notes]
    return write_view("Interactions", interactions.describe(), write_table(columns, bars, n_names=2), notes)


def make_pairs_table(interactions: Interactions, alpha: float, top: int) -> pd.DataFrame:
    """Make the table of the pairs with the highest scores, as text; significant pairs have a star."""
    order = interactions.order[:top]
    names = [in_one_line(name) for name in interactions.feature_names.tolist()]
    first, second = ([names[j] for j in side] for side in interactions.pairs[order].T.tolist())
    unit = find_unit(interactions.values[order].tolist())
    heading, scale = unit.name("interaction"), 1.0
    if not np.isnan(interactions.share).any():
        heading, scale = "share %", 100.0 / interactions.impurity

    def write(numbers: np.ndarray) -> list[str]:
        listed = (scale * numbers[order]).tolist()
        return format_percents(listed) if heading == "share %" else [unit.write(number) for number in listed]

    columns = {"feature 1": first, "feature 2": second, heading: write(interactions.values)}
    if interactions.inference_unavailable is None:
        low, high = map(write, interactions.interval())
        is_withheld = interactions.is_withheld[order].tolist()
        adjusted = map(format_p_value, interactions.adjusted_p_value()[order].tolist())
        columns[CI] = ["–" if off else f"{a} to {b}" for off, a, b in zip(is_withheld, low, high, strict=True)]
        columns["adjusted p-value"] = [
            "withheld" if off else text for off, text in zip(is_withheld, adjusted, strict=True)
        ]
        columns[""] = ["*" if is_found else "" for is_found in interactions.select(alpha)[order].tolist()]
    return pd.DataFrame(columns)


def name_predicted(interactions: Interactions) -> str:
    """Name what effects add up to: a prediction or raw score."""
    return "prediction" if interactions.scale == "response" else interactions.scale


def summarize_pairs(interactions: Interactions, alpha: float) -> str:
    """State which pairs interact, in a sentence or two."""
    n_pairs = len(interactions.values)
    if interactions.inference_unavailable is not None:
        verb = "was" if n_pairs == 1 else "were"
        reason = interactions.inference_unavailable
        return f"{count(n_pairs, 'pair')} of features {verb} scored, without p-values: {reason}."
    tested = count(n_pairs - int(np.count_nonzero(interactions.is_withheld)), "pair")
    is_found = interactions.select(alpha)
    names = [interactions.name_pair(k) for k in interactions.order if is_found[k]]
    text = f"No evidence of interactions ({tested} of features tested)."
    if names:
        listed = "; ".join(names[:_N_NAMED])
        listed += f"; and {count(len(names) - _N_NAMED, 'more pair')}" if len(names) > _N_NAMED else ""
        text = f"{listed} interact" if len(names) == 1 else f"These pairs of features interact: {listed}"
        text += f" ({len(names):,} of {tested}, {alpha:.0%} false discovery rate)."
    return " ".join([text, *_describe_proxies(interactions, alpha), *_describe_withheld(interactions)])


def _describe_proxies(interactions: Interactions, alpha: float) -> list[str]:
    """Name the significant pairs that may only reflect another pair."""
    proxy_of, is_found = interactions.find_proxies(alpha), interactions.select(alpha)
    found = [k for k in interactions.order if is_found[k] and proxy_of[k] >= 0]
    if not found:
        return []
    named = [f"{interactions.name_pair(k)} (that of {interactions.name_pair(proxy_of[k])})" for k in found[:_N_NAMED]]
    if len(found) > _N_NAMED:
        named.append(f"and {count(len(found) - _N_NAMED, 'more pair')}")
    pairs = "This pair" if len(found) == 1 else "These pairs"
    return [f"{pairs} may only reflect the stronger interaction of a correlated feature: {'; '.join(named)}."]


def _describe_withheld(interactions: Interactions) -> list[str]:
    n_withheld = int(np.count_nonzero(interactions.is_withheld))
    if not n_withheld:
        return []
    return [
        f"P-values are withheld for {count(n_withheld, 'pair')} of features that depend too strongly on each other."
    ]


def _write_notes(interactions: Interactions) -> list[str]:
    if interactions.inference_unavailable is not None:
        notes = [f"No p-values: {interactions.inference_unavailable}."]
    else:
        star = f"* significant (adjusted p-value at most {_ALPHA:g})."
        notes = [*[star] * bool(interactions.select(_ALPHA).any())]
        notes += [*_describe_proxies(interactions, _ALPHA), *_describe_withheld(interactions)]
        if (interactions.interval()[1][interactions.order[:_N_SHOWN]] < 0).any():
            notes.append("Tests are one-sided: a score below zero is no evidence of an interaction.")
    n_hidden = len(interactions.values) - _N_SHOWN
    if n_hidden > 0:
        notes.append(f"{count(n_hidden, 'more pair')}; see .frame().")
    return [*notes, *map(in_one_line, interactions.notes)]
