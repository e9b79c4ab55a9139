"""Charts of mean effects as HTML: a curve from low to high values, or a bar per level. User text is always escaped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape

from truewood._formatting import INTERVALS, LEVEL, Unit, count, find_unit, format_number, format_range
from truewood._inference.p_values import find_critical_value
from truewood._results.trends import Direction

# Size of a curve in units of its view box, and the space for labels left and below.
_WIDTH, _HEIGHT = 420, 170
_LEFT, _TOP, _BOTTOM = 58, 8, 22
# Half the length of an interval, in standard errors.
_Z = find_critical_value(LEVEL)


def draw_effects(direction: Direction, prediction: str) -> str:
    """Draw the effects on a prediction as an HTML figure, with intervals of the means."""
    unit = find_unit([*direction.effects, *_find_ends(direction, -1), *_find_ends(direction, 1)])
    power = f", in units of 1e{unit.exponent}" if unit.exponent else ""
    drawn, by = (
        (_draw_levels(direction, unit), "level") if direction.levels else (_draw_curve(direction, unit), "value")
    )
    line = "lines" if direction.levels else "shaded"
    more = f"; not shown: {count(direction.n_more, 'less frequent level')}" if direction.n_more else ""
    single = f"; no interval for a {by} with 1 row" if any(map(math.isnan, direction.errors)) else ""
    caption = f"Mean effect on the {prediction} by {by}{power} ({line}: {INTERVALS} of the mean{single}{more})"
    return f"<figure>{drawn}<figcaption>{escape(caption)}.</figcaption></figure>"


def _find_ends(direction: Direction, sign: int) -> list[float]:
    """Ends of the intervals of mean effects; the mean itself for a single row."""
    pairs = zip(direction.effects, direction.errors, strict=True)
    return [effect if math.isnan(error) else effect + sign * _Z * error for effect, error in pairs]


def _draw_levels(direction: Direction, unit: Unit) -> str:
    """Draw a row per level: name, bar with its interval, effect and number of rows; the highest effect first."""
    low, high = _find_ends(direction, -1), _find_ends(direction, 1)
    first, last = min(0.0, *low), max(0.0, *high)
    rows = []
    for k in reversed(range(len(direction.levels))):
        bar = _draw_bar(direction.effects[k], low[k], high[k], (first, last))
        rows.append(
            f'<tr><th scope="row">{escape(direction.levels[k])}</th><td>{bar}</td>'
            f"<td>{escape(unit.write(direction.effects[k], sign='+'))}</td><td>{direction.counts[k]:,}</td></tr>"
        )
    head = "<thead><tr><th>level</th><td></td><td>effect</td><td>rows</td></tr></thead>"
    return f'<table class="levels">{head}<tbody>{"".join(rows)}</tbody></table>'


def _draw_bar(effect: float, low: float, high: float, limits: tuple[float, float]) -> str:
    def place(value: float) -> float:
        return 1 + 198 * (value - limits[0]) / ((limits[1] - limits[0]) or 1.0)

    start, end = sorted((place(0.0), place(effect)))
    return (
        '<svg viewBox="0 0 200 14" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="bar" x="{start:.1f}" y="2" width="{max(end - start, 0.5):.1f}" height="10"/>'
        f'<line class="range" x1="{place(low):.1f}" x2="{place(high):.1f}" y1="7" y2="7"/>'
        f'<line class="zero" x1="{place(0.0):.1f}" x2="{place(0.0):.1f}" y1="0" y2="14"/></svg>'
    )


def _draw_curve(direction: Direction, unit: Unit) -> str:
    low, high = _find_ends(direction, -1), _find_ends(direction, 1)
    bottom, top = min(0.0, *low), max(0.0, *high)
    first, last = direction.values[0], direction.values[-1]

    def place(value: float, effect: float) -> tuple[float, float]:
        x = _LEFT + 4 + (_WIDTH - _LEFT - 12) * (value - first) / (last - first)
        return x, _TOP + (_HEIGHT - _TOP - _BOTTOM) * (top - effect) / ((top - bottom) or 1.0)

    def join(effects: Sequence[float]) -> list[str]:
        points = (place(*pair) for pair in zip(direction.values, effects, strict=True))
        return [f"{x:.1f},{y:.1f}" for x, y in points]

    zero, labels = place(first, 0.0)[1], []
    # The label of zero gives way to that of an end nearby.
    marks = [mark for mark in (bottom, top) if mark != 0.0]
    if all(abs(place(first, mark)[1] - zero) > 16 for mark in marks):
        marks.append(0.0)
    for mark in marks:
        y = min(max(place(first, mark)[1] + 4, 14), _HEIGHT - _BOTTOM)
        labels.append(_write_label(_LEFT - 6, y, "end", unit.write(mark, sign="+")))
    ends = [_format_date(value) for value in (first, last)] if direction.is_date else format_range(first, last)
    labels.append(_write_label(_LEFT, _HEIGHT - 5, "start", ends[0]))
    labels.append(_write_label(_WIDTH - 4, _HEIGHT - 5, "end", ends[1]))
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>'
        for x, y in (place(*pair) for pair in zip(direction.values, direction.effects, strict=True))
    )
    text = ", ".join(
        f"{_format_date(value) if direction.is_date else format_number(value)}: {unit.write(effect, sign='+')}"
        for value, effect in zip(direction.values, direction.effects, strict=True)
    )
    return (
        f'<svg class="curve" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(text)}">'
        f'<polygon points="{" ".join(join(low) + join(high)[::-1])}"/>'
        f'<line class="zero" x1="{_LEFT}" x2="{_WIDTH}" y1="{zero:.1f}" y2="{zero:.1f}"/>'
        f'<polyline points="{" ".join(join(direction.effects))}"/>{dots}{"".join(labels)}</svg>'
    )


def _write_label(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _format_date(value: float) -> str:
    return datetime.fromtimestamp(value, UTC).date().isoformat()
