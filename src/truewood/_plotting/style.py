"""Shared parts of plots: colors, axes with a row per feature, labels, titles, legends and fonts."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

from truewood._arguments import is_count
from truewood._exceptions import warn
from truewood._formatting import quote, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colorbar import Colorbar
    from matplotlib.lines import Line2D


# The Okabe-Ito palette, distinguishable with any kind of color vision.
UNBIASED = "#0072B2"
BIASED = "#E69F00"
MUTED = "#777777"
FAINT = "#D6E8F4"
SMALL = "#7FB8DA"

# Width of a figure, in inches.
WIDTH = 8.0
# Space between title and axes for a legend, in points.
PAD = 26
# Rows that leave no space for letters of this size, in points, get no labels.
_MIN_FONT_SIZE = 4.0
_MAX_LABELED = 400
# Characters per line of a title.
_TITLE_WIDTH = 76
# Size of a color bar, in inches.
_MAX_BAR_HEIGHT, _BAR_WIDTH = 4.0, 0.15


@contextmanager
def open_axes(
    n_features: int, top: int | None, ax: Axes | None, height: float | None = None, width: float = WIDTH
) -> Iterator[tuple[int, Axes]]:
    """Yield the number of features to show, and the axes: those given, or those of a new pyplot figure.

    A new figure has a row per feature unless `height` is given. It is closed if drawing fails; otherwise a notebook
    would show it half drawn.
    """
    if top is not None and not is_count(top, 1):
        raise ValueError(f"top must be a whole number of at least 1, or None for all, got {quote(top)}.")
    n_shown = n_features if top is None else min(int(top), n_features)
    if ax is not None and not hasattr(ax, "spines"):
        raise TypeError(f"ax must be a matplotlib Axes, got {type(ax).__name__}; create one with plt.subplots().")
    with nullcontext(ax) if ax is not None else _open_figure(width, height or find_height(n_shown)) as axes:
        axes.spines[["top", "right"]].set_visible(False)
        yield n_shown, axes
        _set_fallback_fonts(axes)


@contextmanager
def _open_figure(width: float, height: float) -> Iterator[Axes]:
    """Yield the axes of a new pyplot figure; close it if drawing fails."""
    import matplotlib.pyplot as plt
    from matplotlib.transforms import blended_transform_factory

    figure, ax = plt.subplots(figsize=(width, height), layout="constrained")
    try:
        yield ax
        # Center title and legend in the figure, because long names of features leave little space above the axes.
        across_figure = blended_transform_factory(figure.transFigure, ax.transAxes)
        ax.title.set_transform(across_figure + ax.titleOffsetTrans)  # type: ignore[attr-defined]
        legend = ax.get_legend()
        if legend is not None and legend.get_bbox_to_anchor().y0 > ax.bbox.y1 - 1:  # above the axes, not in or beside
            legend.set_bbox_to_anchor((0.5, 1.0), transform=across_figure)
    except BaseException:
        plt.close(figure)
        raise


def find_height(n_shown: int) -> float:
    """Height of a figure with one row per feature, in inches."""
    return max(2.8, 1.6 + (0.28 if n_shown <= 40 else 0.15) * n_shown) if n_shown <= _MAX_LABELED else 4.5


def set_title(ax: Axes, title: str, n_shown: int, n_features: int, legend: list[Line2D]) -> None:
    """Set a title with the number of features shown, and a legend below it."""
    title = title.removesuffix(".")
    if n_shown < n_features:
        title += f"\ntop {n_shown} of {n_features} features"
    ax.set_title(title, fontsize="large", pad=PAD if legend else 8, parse_math=False)
    if legend:
        # Above the rows, because bars and lines may reach every corner of the axes.
        place: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "borderaxespad": 0.2}
        ax.legend(handles=legend, ncols=len(legend), frameon=False, fontsize="small", **place)


def make_legend_entry(
    label: str,
    color: str,
    marker: str = "s",
    *,
    edge: str | None = None,
    fill: str | None = None,
    has_line: bool = False,
) -> Line2D:
    """Create a legend entry."""
    from matplotlib.lines import Line2D

    style: dict[str, Any] = {"color": color, "marker": marker, "linestyle": "-" if has_line else "none"}
    return Line2D([], [], markeredgecolor=edge or color, markerfacecolor=fill or color, label=label, **style)


def find_font_size(ax: Axes, n_shown: int) -> float:
    """Find the font size, in points, at which rows do not overlap; 0 if that is too small to read."""
    row = 72 * _measure_height(ax) / n_shown
    size = min(10.0, 0.85 * row)
    return size if size >= _MIN_FONT_SIZE else 0.0


def _measure_height(ax: Axes) -> float:
    """Height of the axes in inches."""
    return float(ax.bbox.transformed(ax.figure.dpi_scale_trans.inverted()).height)


def add_color_bar(ax: Axes, colors: ScalarMappable, **options: Any) -> Colorbar:
    """Add a color bar next to the top of a plot, which may be tall."""
    height = min(_MAX_BAR_HEIGHT, _measure_height(ax))
    shrink, aspect = height / _measure_height(ax), height / _BAR_WIDTH
    return ax.figure.colorbar(colors, ax=ax, shrink=shrink, aspect=aspect, anchor=(0.0, 1.0), pad=0.02, **options)


def label_rows(ax: Axes, names: list[str]) -> None:
    """Label the rows of a plot from top to bottom if there is space."""
    ax.set_ylim(len(names) - 0.4, -0.6)
    size = find_font_size(ax, len(names))
    if not size:
        ax.set_ylabel("rank")
        return
    ax.set_yticks(range(len(names)), [shorten(name) for name in names], parse_math=False, fontsize=size)
    ax.tick_params(axis="y", length=0)


def wrap_title(text: str) -> str:
    """Break text into lines of similar length that fit above a plot."""
    n_lines = len(textwrap.wrap(text, _TITLE_WIDTH))
    longest = min(max(map(len, text.split(" "))), _TITLE_WIDTH)
    widths = range(longest, _TITLE_WIDTH + 1)
    width = next(width for width in widths if len(textwrap.wrap(text, width)) <= n_lines)
    return "\n".join(textwrap.wrap(text, width))


def _set_fallback_fonts(ax: Axes) -> None:
    """Add fonts that have the characters of a plot; warn about characters that no installed font has."""
    from matplotlib.font_manager import FontProperties, findfont
    from matplotlib.text import Text

    texts = [text for text in ax.findobj(Text) if isinstance(text, Text)]
    characters = {mark for text in texts for mark in text.get_text() if ord(mark) > 127 and mark.isprintable()}
    missing = characters - _list_characters(findfont(FontProperties()))
    if not missing:
        return
    families = []
    for family, path in _list_fonts():
        found = missing & _list_characters(path)
        if found:
            families.append(family)
            missing -= found
        if not missing:
            break
    for text in texts:
        text.set_fontfamily([*text.get_fontfamily(), *families])
    if missing:
        shown = "".join(sorted(missing)[:10])
        warn(
            f"no installed font has the characters {shown}, which are drawn as boxes; install a font that has them, "
            "such as Noto Sans."
        )


@cache
def _list_fonts() -> list[tuple[str, str]]:
    """List upright fonts with their files, sans-serif families first."""
    from matplotlib.font_manager import fontManager

    entries = [entry for entry in fontManager.ttflist if entry.style == "normal" and entry.name != "Last Resort"]
    return [(entry.name, entry.fname) for entry in sorted(entries, key=lambda entry: "Sans" not in entry.name)]


@cache
def _list_characters(path: str) -> frozenset[str]:
    from matplotlib.ft2font import FT2Font

    return frozenset(map(chr, FT2Font(path).get_charmap()))
