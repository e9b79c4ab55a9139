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
    '<div style="width:8em"{}><div style="width:{:.1f}%;min-width:1px;height:0.8em;background:{};opacity:{:g}">'
    "</div></div>"
)
_PARAGRAPH = '<p style="max-width:60em;margin:0.4em 0{}">{}</p>'


def write_view(title: str, header: str, table: str, notes: Sequence[str] = (), caveats: Sequence[Caveat] = ()) -> str:
    """Write a view: what the object is, its table as HTML, then notes and caveats."""
    heading = _PARAGRAPH.format("", f"<b>{escape(title)}</b>: {escape(in_one_line(header))}")
    lines = [_PARAGRAPH.format("", escape(in_one_line(note))) for note in notes]
    return "\n".join([heading, table, *lines, *map(_write_caveat, caveats)])


def write_table(columns: Mapping[str, Sequence[str]], drawn: Sequence[str] | None = None) -> str:
    """Write columns of text as a table, the first one aligned left; `drawn` is HTML for a column after the first."""
    names = list(columns)
    head = [f'<th style="text-align:{_align(k)}">{escape(in_one_line(name))}</th>' for k, name in enumerate(names)]
    rows = []
    for place, texts in enumerate(zip(*columns.values(), strict=True)):
        cells = [
            f'<td style="text-align:{_align(k)};white-space:{"normal" if k == 0 else "nowrap"}">'
            f"{escape(in_one_line(text))}</td>"
            for k, text in enumerate(texts)
        ]
        if drawn is not None:
            cells.insert(1, f"<td>{drawn[place]}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    if drawn is not None:
        head.insert(1, "<th></th>")
    # The wide table scrolls on its own on a narrow screen.
    return (
        f'<div style="overflow-x:auto"><table><thead><tr>{"".join(head)}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


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


def _align(column: int) -> str:
    return "right" if column else "left"


def _write_caveat(caveat: Caveat) -> str:
    # The text form lists some of the items after a colon.
    heading, _, text = str(caveat).partition(": ")
    mark = f";border-left:3px solid {_SEVERE};padding-left:0.6em" if caveat.is_severe else ""
    return _PARAGRAPH.format(mark, f"<b>{escape(in_one_line(heading))}:</b> {escape(in_one_line(text))}")
