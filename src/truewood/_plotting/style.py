"""What plots share: colors, axes as high as their rows need, names, titles, legends and fonts."""

from __future__ import annotations

import textwrap
import warnings
from functools import cache
from operator import index
from typing import TYPE_CHECKING, Any

from truewood._formatting import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colorbar import Colorbar
    from matplotlib.lines import Line2D


# Okabe and Ito's colours, told apart with any kind of colour vision.
UNBIASED = "#0072B2"
BIASED = "#E69F00"
MUTED = "#777777"
FAINT = "#D6E8F4"
SMALL = "#7FB8DA"

# Room between title and drawing for a legend, in points.
PAD = 26
# Letters are not drawn smaller than this, in points: rows that leave less room get no names.
_SMALLEST_LETTERS = 4.0
_MOST_NAMED = 400
# Size of a bar of colours, in inches.
_TALLEST_BAR, _WIDTH_OF_BAR = 4.0, 0.15


def prepare(n_features: int, height: float | None, top: int | None, ax: Axes | None) -> tuple[int, Axes]:
    """Number of features to draw, and where; by default as high as that many rows need."""
    if top is not None and index(top) < 1:
        raise ValueError(f"top must be at least 1, or None for all features, got {top}.")
    n_shown = n_features if top is None else min(index(top), n_features)
    if ax is None:
        ax = make_axes(height or find_height(n_shown))
    elif not hasattr(ax, "spines"):
        raise TypeError(f"ax must be an Axes of matplotlib, got {type(ax).__name__}.")
    ax.spines[["top", "right"]].set_visible(False)
    return n_shown, ax


def find_height(n_shown: int) -> float:
    """Height of a figure with a row for each feature, in inches."""
    return max(2.8, 1.6 + (0.28 if n_shown <= 40 else 0.15) * n_shown) if n_shown <= _MOST_NAMED else 4.5


def make_axes(height: float) -> Axes:
    """A figure of its own, not pyplot's: nothing to close, no global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.subplots()


def set_title(ax: Axes, title: str, n_shown: int, n_features: int, legend: list[Line2D]) -> None:
    """Say what is seen, how much of all that is, and below that what the colours mean."""
    if n_shown < n_features:
        title += f"\nthe {n_shown} most important of {n_features} are shown"
    head(ax, title, legend)


def head(ax: Axes, title: str, legend: list[Line2D]) -> None:
    """Write a title, and a legend below it."""
    ax.set_title(title, fontsize="large", pad=PAD if legend else 8)
    if legend:
        # Above the rows and not among them: there is no corner that no bar or line can reach.
        place: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "borderaxespad": 0.2}
        ax.legend(handles=legend, ncols=len(legend), frameon=False, fontsize="small", **place)


def make_key(label: str, colour: str, marker: str = "s", *, edge: str | None = None, has_line: bool = False) -> Line2D:
    """An entry of a legend."""
    from matplotlib.lines import Line2D

    style: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": "-" if has_line else "none"}
    return Line2D([], [], markeredgecolor=edge or colour, label=label, **style)


def find_letter_size(ax: Axes, n_shown: int) -> float:
    """Size of letters, in points, for which rows do not overlap; 0 where they would be too small to read."""
    row = 72 * _measure_height(ax) / n_shown
    size = min(10.0, 0.85 * row)
    return size if size >= _SMALLEST_LETTERS else 0.0


def _measure_height(ax: Axes) -> float:
    """Height of the drawing in inches."""
    return float(ax.bbox.transformed(ax.figure.dpi_scale_trans.inverted()).height)


def add_colour_bar(ax: Axes, colours: ScalarMappable, **options: Any) -> Colorbar:
    """Say what colours mean, in a bar beside the top of a picture, which may be tall."""
    height = min(_TALLEST_BAR, _measure_height(ax))
    shrink, aspect = height / _measure_height(ax), height / _WIDTH_OF_BAR
    return ax.figure.colorbar(colours, ax=ax, shrink=shrink, aspect=aspect, anchor=(0.0, 1.0), pad=0.02, **options)


def name_rows(ax: Axes, names: list[str]) -> None:
    """Name the rows of a picture from top to bottom, where there is room."""
    ax.set_ylim(len(names) - 0.4, -0.6)
    size = find_letter_size(ax, len(names))
    if not size:
        ax.set_ylabel("place")
        return
    ax.set_yticks(range(len(names)), [shorten(name) for name in names], parse_math=False, fontsize=size)
    ax.tick_params(axis="y", length=0)


def wrap(text: str) -> str:
    """Text in lines that a picture has room for, with numbers and their units in one line."""
    return "\n".join(textwrap.wrap(text.replace(" %", "\N{NO-BREAK SPACE}%"), 76))


def give_fonts(ax: Axes) -> None:
    """Give the texts of a picture fonts that have their letters; a warning names letters that no font has."""
    from matplotlib.font_manager import FontProperties, findfont
    from matplotlib.text import Text

    texts = [text for text in ax.findobj(Text) if isinstance(text, Text)]
    letters = {letter for text in texts for letter in text.get_text() if ord(letter) > 127 and letter.isprintable()}
    missing = letters - _list_letters(findfont(FontProperties()))
    if not missing:
        return
    families = []
    for family, path in _list_fonts():
        found = missing & _list_letters(path)
        if found:
            families.append(family)
            missing -= found
        if not missing:
            break
    for text in texts:
        text.set_fontfamily([*text.get_fontfamily(), *families])
    if missing:
        shown = "".join(sorted(missing)[:10])
        warnings.warn(
            f"no installed font has the letters {shown}, which are drawn as boxes; install one that does, such as "
            "Noto Sans.",
            UserWarning,
            stacklevel=4,
        )


@cache
def _list_fonts() -> list[tuple[str, str]]:
    """Upright fonts by family, those without serifs first."""
    from matplotlib.font_manager import fontManager

    entries = [entry for entry in fontManager.ttflist if entry.style == "normal" and entry.name != "Last Resort"]
    return [(entry.name, entry.fname) for entry in sorted(entries, key=lambda entry: "Sans" not in entry.name)]


@cache
def _list_letters(path: str) -> frozenset[str]:
    from matplotlib.ft2font import FT2Font

    return frozenset(map(chr, FT2Font(path).get_charmap()))
