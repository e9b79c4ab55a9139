"""The HTML that notebooks show for results: a heading, a table with a small chart, notes and caveats, without scripts.

Plain HTML is what Jupyter, VS Code and exported pages all show, offline and before a notebook is trusted. Colors are
those of the page, in light and dark themes, except for bars and marks. All text is escaped here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from truewood._formatting import CI, INTERVALS, in_one_line

if TYPE_CHECKING:
    from truewood._results.caveats import Caveat

# Bars and marks that are visible on white and on black.
_POSITIVE, _NEGATIVE, _SEVERE = "#0072B2", "#E69F00", "#D55E00"
_PALE = 0.35
# A bar, and below it a line for an interval. Without positioning, which notebooks that are not trusted drop.
_CHART = '<div style="width:8em;max-width:18vw" title="{}">{}</div>'
_BAR = '<div style="margin-left:{:.1f}%;width:{:.1f}%;min-width:1px;height:0.6em;background:{};opacity:{:g}"></div>'
_LINE = '<div style="margin-left:{:.1f}%;width:{:.1f}%;border-top:2px solid;opacity:0.6"></div>'
_CELL = '<{0} style="text-align:{1};white-space:{2};padding:0.15em 0.6em">{3}</{0}>'
# Intervals are cut off at this multiple of the largest value, so that bars stay visible next to wide ones.
_LONGEST = 2.0
LINES = f"Lines below the bars: {INTERVALS}."
_PARAGRAPH = '<p style="max-width:60em;margin:0.4em 0{}">{}</p>'


def write_view(title: str, header: str, table: str, notes: Sequence[str] = (), caveats: Sequence[Caveat] = ()) -> str:
    """Write a view: what the object is, its table as HTML, then notes and caveats."""
    heading = _PARAGRAPH.format("", f"<b>{escape(title)}</b>: {escape(in_one_line(header))}")
    lines = [_PARAGRAPH.format("", escape(in_one_line(note))) for note in notes]
    return "\n".join([heading, table, *lines, *map(_write_caveat, caveats)])


def write_table(columns: Mapping[str, Sequence[str]], drawn: Sequence[str] | None = None, *, n_names: int = 1) -> str:
    """Write columns of text as a table.

    Parameters
    ----------
    columns : dict of str to sequence of str
        Texts by heading.
    drawn : sequence of str, default=None
        HTML for a column after the first, such as bars.
    n_names : int, default=1
        Number of columns that hold names, aligned left, before those of numbers.
    """
    sides = ["left" if k < n_names else "right" for k in range(len(columns))]
    spaces = ["normal" if k < n_names else "nowrap" for k in range(len(columns))]
    head = [
        _CELL.format("th", side, "normal", escape(in_one_line(name))) for name, side in zip(columns, sides, strict=True)
    ]
    rows = [
        [
            _CELL.format("td", side, space, escape(in_one_line(text)))
            for text, side, space in zip(texts, sides, spaces, strict=True)
        ]
        for texts in zip(*columns.values(), strict=True)
    ]
    if drawn is not None:
        head.insert(1, "<th></th>")
        for cells, drawing in zip(rows, drawn, strict=True):
            cells.insert(1, f"<td>{drawing}</td>")
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    table = f"<table><thead><tr>{''.join(head)}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div style="overflow-x:auto">{table}</div>'  # a wide table scrolls on its own on a narrow screen


def draw_bars(
    values: Sequence[float],
    are_clear: Sequence[bool],
    intervals: tuple[Sequence[float], Sequence[float]] | None = None,
) -> list[str]:
    """Draw a bar from zero for each value on a common scale, and a line for its interval; hovering shows the numbers.

    Parameters
    ----------
    values : sequence of float
        The values; bars of negative ones have another color.
    are_clear : sequence of bool
        Whether a bar is drawn in full color or pale.
    intervals : tuple of (low, high), default=None
        Ends of the interval of each value.
    """
    lows, highs = (values, values) if intervals is None else intervals
    ends = [0.0, *(number for number in (*values, *lows, *highs) if math.isfinite(number))]
    longest = _LONGEST * max(map(abs, values), default=0.0)
    left, right = max(min(ends), -longest), min(max(ends), longest)

    def place(start: float, end: float) -> tuple[float, float]:
        """Margin and width of a part, in percent."""
        if right <= left:
            return 0.0, 0.0
        first, last = (100 * (min(max(x, left), right) - left) / (right - left) for x in (start, end))
        return first, last - first

    charts = []
    for value, low, high, is_clear in zip(values, lows, highs, are_clear, strict=True):
        color, opacity = _NEGATIVE if value < 0 else _POSITIVE, 1 if is_clear else _PALE
        text, chart = f"{value:.4g}", _BAR.format(*place(min(value, 0.0), max(value, 0.0)), color, opacity)
        if intervals is not None and not math.isnan(high - low):
            text += f" ({CI} {low:.4g} to {high:.4g})"
            chart += _LINE.format(*place(low, high))
        charts.append(_CHART.format(text, chart))
    return charts


def _write_caveat(caveat: Caveat) -> str:
    # The text form lists some of the items after a colon.
    heading, _, text = str(caveat).partition(": ")
    mark = f";border-left:3px solid {_SEVERE};padding-left:0.6em" if caveat.is_severe else ""
    return _PARAGRAPH.format(mark, f"<b>{escape(in_one_line(heading))}:</b> {escape(in_one_line(text))}")
