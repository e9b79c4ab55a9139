"""The HTML that notebooks show for results: a heading, a table with bars, notes and caveats, without scripts.

Plain HTML is what Jupyter, VS Code and exported pages all show, offline and before a notebook is trusted. Colors are
those of the page, in light and dark themes, except for bars and marks. All text is escaped here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from truewood._formatting import in_one_line

if TYPE_CHECKING:
    from truewood._results.caveats import Caveat

# Bars and marks that are visible on white and on black.
_POSITIVE, _NEGATIVE, _SEVERE = "#0072B2", "#E69F00", "#D55E00"
_PALE = 0.35
_BAR = (
    '<div style="width:8em;max-width:18vw"{}><div style="width:{:.1f}%;min-width:1px;height:0.8em;background:{};'
    'opacity:{:g}"></div></div>'
)
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
        f'<th style="text-align:{side}">{escape(in_one_line(name))}</th>'
        for name, side in zip(columns, sides, strict=True)
    ]
    rows = [
        [
            f'<td style="text-align:{side};white-space:{space}">{escape(in_one_line(text))}</td>'
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


def draw_bars(values: Sequence[float], are_clear: Sequence[bool], *, signed: bool = False) -> list[str]:
    """Draw a bar for each value, relative to the largest, pale if it is not clear.

    Negative values have no bar or, if `signed`, one of another color. Hovering over a bar shows its value.
    """
    lengths = [abs(value) if signed else max(value, 0.0) for value in values]
    most = max(lengths, default=0.0)
    return [
        _BAR.format(
            f' title="{value:.4g}"',
            100 * length / most if most > 0 else 0.0,
            _NEGATIVE if value < 0 else _POSITIVE,
            1 if is_clear else _PALE,
        )
        for value, length, is_clear in zip(values, lengths, are_clear, strict=True)
    ]


def _write_caveat(caveat: Caveat) -> str:
    # The text form lists some of the items after a colon.
    heading, _, text = str(caveat).partition(": ")
    mark = f";border-left:3px solid {_SEVERE};padding-left:0.6em" if caveat.is_severe else ""
    return _PARAGRAPH.format(mark, f"<b>{escape(in_one_line(heading))}:</b> {escape(in_one_line(text))}")
