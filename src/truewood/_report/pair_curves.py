"""The effect of a pair of features as HTML: a curve per level, or a table of two categories. User text is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from truewood._formatting import Unit, find_unit
from truewood._results.interactions_text import name_predicted
from truewood._results.pair_surfaces import FEWEST_ROWS, PairSurface, read_surface

if TYPE_CHECKING:
    from truewood._results.interactions import Interactions

# Size of the picture in units of its view box, and the space for labels left, above and below.
_WIDTH, _HEIGHT = 420, 210
_LEFT, _TOP, _BOTTOM = 58, 8, 22


def draw_pair(interactions: Interactions, number: int) -> str:
    """Draw what both features of a pair add to the prediction; empty if the result has no surface of the pair."""
    surface = _choose_surface(interactions, number)
    if surface is None:
        return ""
    shown = np.where(surface.n_rows >= FEWEST_ROWS, surface.combined, np.nan)
    unit = find_unit(shown[~np.isnan(shown)].tolist())
    names = interactions.feature_names[list(surface.features)].tolist()
    draw = _write_cells if all(surface.are_categories) else _draw_curves
    drawn, how = draw(surface, shown, unit, names)
    on = name_predicted(interactions)
    on += "" if surface.output is None else f' for "{surface.output}"'
    power = f", in units of 1e{unit.exponent}" if unit.exponent else ""
    caption = f"Mean effect of {names[0]} and {names[1]} on the {on}{power}: {how}"
    return f'<figure class="pair">{drawn}<figcaption>{escape(caption)}</figcaption></figure>'


def _choose_surface(interactions: Interactions, number: int) -> PairSurface | None:
    """Read the surface of the output with the largest joint effect, a category second."""
    surfaces = interactions.surfaces
    places = [] if surfaces is None else np.flatnonzero(surfaces.pairs == number).tolist()
    if surfaces is None or not places or np.isnan(surfaces.levels[interactions.pairs[number], 0]).any():
        return None
    sizes = np.nansum(surfaces.joint[places[0]] ** 2 * surfaces.n_rows[places[0]], axis=(1, 2))
    first, second = interactions.pairs[number].tolist()
    # Two classes have the same effects with opposite signs; the second is the one that other parts show.
    output = None if len(sizes) <= 2 else int(np.argmax(sizes))
    surface = read_surface(interactions, (first, second), output)
    return surface.swap() if surface.are_categories[0] and not surface.are_categories[1] else surface


def _draw_curves(surface: PairSurface, effects: np.ndarray, unit: Unit, names: list[str]) -> tuple[str, str]:
    """Draw a curve over the first feature for each level of the second, with a legend, and describe it."""
    x, (ends, levels) = surface.levels[0], surface.write_levels()
    low, high = min(0.0, float(np.nanmin(effects))), max(0.0, float(np.nanmax(effects)))

    def place(value: float, effect: float) -> tuple[float, float]:
        across = (value - x[0]) / ((x[-1] - x[0]) or 1.0)
        down = (high - effect) / ((high - low) or 1.0)
        return _LEFT + 8 + (_WIDTH - _LEFT - 16) * across, _TOP + (_HEIGHT - _TOP - _BOTTOM) * down

    curves, legend = [], [f"<li>{escape(names[1])}:</li>"]
    for k, level in enumerate(levels):
        known = ~np.isnan(effects[:, k])
        points = [place(*pair) for pair in zip(x[known].tolist(), effects[known, k].tolist(), strict=True)]
        line = " ".join(f"{left:.1f},{top:.1f}" for left, top in points)
        dots = "".join(f'<circle cx="{left:.1f}" cy="{top:.1f}" r="3"/>' for left, top in points)
        curves.append(f'<g class="line-{k}"><polyline points="{line}"/>{dots}</g>')
        legend.append(f'<li class="line-{k}">{escape(level)}</li>')
    zero = place(x[0], 0.0)[1]
    marks = [end for end in (low, high) if end]
    if all(abs(place(x[0], end)[1] - zero) > 16 for end in marks):
        marks.append(0.0)
    labels = [_write_label(_LEFT - 6, place(x[0], end)[1] + 4, "end", unit.write(end, sign="+")) for end in marks]
    labels.append(_write_label(_LEFT, _HEIGHT - 5, "start", ends[0]))
    labels.append(_write_label(_WIDTH - 4, _HEIGHT - 5, "end", ends[-1]))
    drawn = (
        f'<svg class="curve" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(" and ".join(names))}">'
        f'<line class="zero" x1="{_LEFT}" x2="{_WIDTH}" y1="{zero:.1f}" y2="{zero:.1f}"/>{"".join(curves)}'
        f'{"".join(labels)}</svg><ul class="legend">{"".join(legend)}</ul>'
    )
    kind = "level" if surface.are_categories[1] else "range"
    label = "" if surface.are_categories[1] else " (labels: mean of the range)"
    return drawn, (
        f"{names[0]} from left to right, one line per {kind} of {names[1]}{label}. Lines would be parallel if "
        "the two features did not interact."
    )


def _write_label(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text x="{x:.1f}" y="{min(max(y, 12.0), _HEIGHT):.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _write_cells(surface: PairSurface, effects: np.ndarray, unit: Unit, names: list[str]) -> tuple[str, str]:
    """Write the effects of two categories as a table, and describe it."""
    rows, columns = surface.write_levels()
    head = "".join(f"<td>{escape(level)}</td>" for level in columns)
    body = ""
    for level, numbers in zip(rows, effects.tolist(), strict=True):
        cells = "".join(f"<td>{unit.write(number, sign='+')}</td>" for number in numbers)
        body += f'<tr><th scope="row">{escape(level)}</th>{cells}</tr>'
    return (
        f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>",
        f"a row per level of {names[0]}, a column per level of {names[1]}. The difference between two rows would be "
        "the same in each column if the two features did not interact.",
    )
