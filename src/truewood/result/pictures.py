"""Pictures of a result. Each takes a result and draws on one Axes; nothing is computed anew but ranks and orders."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from truewood.inference.multiplicity import adjust
from truewood.result.direction import find_directions
from truewood.result.fonts import give_fonts
from truewood.result.headline import name_level, name_measure, name_unit, write_headline
from truewood.result.percent import FOUND, FOUND_SMALL, NO_SIGN, Percent, find_percent, judge_features
from truewood.words import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colorbar import Colorbar
    from matplotlib.lines import Line2D

    from truewood.result.comparison import Comparison
    from truewood.result.explanation import Explanation
    from truewood.result.importance_result import ImportanceResult

# Okabe and Ito's colours, told apart with any kind of colour vision.
UNBIASED = "#0072B2"
BIASED = "#E69F00"
MUTED = "#777777"
FAINT = "#D6E8F4"
SMALL = "#7FB8DA"

# Letters are not drawn smaller than this, in points: rows that leave less room get no names.
_SMALLEST_LETTERS = 4.0
_MOST_NAMED = 400
# Cells of a heat map have numbers where they are large enough for them.
_SMALLEST_NUMBERS = 6.0
_MOST_NUMBERED = 10
_MOST_DECIMALS = 9
# Classes, and letters of their names side by side, that a picture has room for.
_MOST_NAMED_CLASSES = 60
# Size of a bar of colours, in inches.
_TALLEST_BAR, _WIDTH_OF_BAR = 4.0, 0.15
_MOST_LETTERS = 60
# Room between title and drawing for a legend, in points.
_PAD = 26


def draw(
    result: ImportanceResult,
    kind: str,
    *,
    top: int | None,
    ax: Axes | None,
    alpha: float,
    title: str | None,
    explanation: Explanation | None,
) -> Axes:
    """Draw one kind of picture; see `ImportanceResult.plot`."""
    if kind not in _KINDS:
        raise ValueError(f"kind must be one of {', '.join(_KINDS)}, got {kind!r}.")
    n_shown, ax = prepare(len(result.values), 4.5 if kind == "rank" else None, top, ax)
    _KINDS[kind](result, n_shown, ax, alpha)
    directions = find_directions(result, explanation, alpha)
    if kind == "bar" and directions is not None:
        _write_directions(ax, [directions[j].word for j in _list_shown(result, n_shown)])
    if title is not None:
        ax.set_title(f"{shorten(title, 80)}\n{ax.get_title()}", fontsize="large", pad=_PAD, parse_math=False)
    give_fonts(ax)
    return ax


def prepare(n_features: int, height: float | None, top: int | None, ax: Axes | None) -> tuple[int, Axes]:
    """Number of features to draw, and where; by default as high as that many rows need."""
    if top is not None and index(top) < 1:
        raise ValueError(f"top must be at least 1, or None for all features, got {top}.")
    n_shown = n_features if top is None else min(index(top), n_features)
    if ax is None:
        ax = make_axes(height or find_height(n_shown))
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


def _list_shown(result: ImportanceResult, n_shown: int) -> list[int]:
    return [int(j) for j in result.order[:n_shown]]


def _set_title(ax: Axes, title: str, result: ImportanceResult, n_shown: int, legend: list[Line2D]) -> None:
    """Say what is seen, how much of all that is, and below that what the colours mean."""
    if n_shown < len(result.values):
        title += f"\nthe {n_shown} most important of {len(result.values)} are shown"
    head(ax, title, legend)


def head(ax: Axes, title: str, legend: list[Line2D]) -> None:
    """Write a title, and a legend below it."""
    ax.set_title(title, fontsize="large", pad=_PAD if legend else 8)
    if legend:
        # Above the rows and not among them: there is no corner that no bar or line can reach.
        place: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "borderaxespad": 0.2}
        ax.legend(handles=legend, ncols=len(legend), frameon=False, fontsize="small", **place)


def make_key(label: str, colour: str, marker: str = "s", *, edge: str | None = None, has_line: bool = False) -> Line2D:
    """An entry of a legend."""
    from matplotlib.lines import Line2D

    style: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": "-" if has_line else "none"}
    return Line2D([], [], markeredgecolor=edge or colour, label=label, **style)


def _find_letter_size(ax: Axes, n_shown: int) -> float:
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
    size = _find_letter_size(ax, len(names))
    if not size:
        ax.set_ylabel("place")
        return
    ax.set_yticks(range(len(names)), [shorten(name) for name in names], parse_math=False, fontsize=size)
    ax.tick_params(axis="y", length=0)


def _draw_bars(result: ImportanceResult, n_shown: int, ax: Axes, alpha: float) -> None:
    order, percent = _list_shown(result, n_shown), find_percent(result)
    factor = 1.0 if percent is None else percent.factor
    places, scores = np.arange(n_shown), factor * result.values[order]
    ax.barh(places, scores, color=FAINT, height=0.5)
    size = min(7.0, 0.7 * (_find_letter_size(ax, n_shown) or 3.0))
    legend, colours, fills = [], np.full(n_shown, UNBIASED), np.full(n_shown, UNBIASED)
    title = f"Features by {name_measure(result)}"
    if result.no_inference is None:
        verdicts = judge_features(result, alpha)[order]
        fills = np.select([verdicts == FOUND, verdicts == FOUND_SMALL], [UNBIASED, SMALL], "white")
        colours = np.where(verdicts == NO_SIGN, MUTED, UNBIASED)
        low, high = (factor * end[order] for end in result.interval())
        ax.hlines(places, low, high, color=colours, linewidth=1.2)
        title = wrap(write_headline(result, alpha, with_names=False))
        small = [make_key(FOUND_SMALL, SMALL, "o", edge=UNBIASED)] * (percent is not None)
        unclear = make_key(f"{NO_SIGN}, 95 % interval", MUTED, marker="o", has_line=True)
        unclear.set_markerfacecolor("white")
        legend = [make_key(FOUND, UNBIASED, marker="o", has_line=True), *small, unclear]
    ax.scatter(scores, places, s=size**2, c=fills, edgecolors=colours.tolist(), zorder=3)
    ax.axvline(0, color="black", linewidth=0.8)
    ax.spines["left"].set_visible(False)
    ax.locator_params(axis="x", nbins=5)
    name_rows(ax, [str(result.feature_names[j]) for j in order])
    ax.set_xlabel(f"{name_axis(result, percent)}\n{name_measure(result)}")
    _set_title(ax, title, result, n_shown, legend)


def _write_directions(ax: Axes, words: list[str]) -> None:
    """Beside the rows, in a column of their own."""
    place: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "center", "color": MUTED}
    size = 0.9 * _find_letter_size(ax, len(words))
    for row, word in enumerate(words if size else []):
        ax.text(1.02, row, word, fontsize=size, parse_math=False, **place)


def name_axis(result: ImportanceResult, percent: Percent | None) -> str:
    """Say what an axis of scores shows."""
    if percent is None:
        return name_unit(result)
    return f"share of {percent.of}, %" if percent.is_share else f"% of {percent.of} ({name_unit(result)})"


def wrap(text: str) -> str:
    """Text in lines that a picture has room for, with numbers and their units in one line."""
    return "\n".join(textwrap.wrap(text.replace(" %", "\N{NO-BREAK SPACE}%"), 76))


def _draw_comparison(result: ImportanceResult, n_shown: int, ax: Axes, _alpha: float) -> None:
    table = result.frame()
    rises = table["mdi_rank"].to_numpy() - table["rank"].to_numpy()
    n_moved = np.count_nonzero(np.abs(rises) > 1)
    table = table[:n_shown]
    rank, biased = table["rank"].to_numpy(), table["mdi_rank"].to_numpy()
    # Drawn in the order of the biased ranks, not at them: the top 20 of 200 features need 20 lines.
    left = np.argsort(np.argsort(biased, kind="stable"), kind="stable")
    size = _find_letter_size(ax, n_shown)
    for k, name in enumerate(table["feature"]):
        colour = MUTED if abs(rises[k]) <= 1 else (UNBIASED if rises[k] > 0 else BIASED)
        ax.plot([0, 1], [left[k], k], color=colour, linewidth=0.16 * max(size, 3), marker="o", markersize=0.4 * size)
        if size:
            text: dict[str, Any] = {"va": "center", "fontsize": size, "parse_math": False}
            ax.text(-0.03, left[k], f"{shorten(name, 30)}  {biased[k]}", ha="right", **text)
            ax.text(1.03, k, f"{rank[k]}  {shorten(name, 30)}", ha="left", **text)
    ax.set_xlim(0, 1)
    ax.set_ylim(n_shown - 0.4, -0.6)
    ax.set_xticks([0, 1], ["usual, biased rank", f"rank by {result.measure}"])
    ax.set_yticks([])
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.tick_params(axis="x", length=0)
    title = f"{n_moved} of {len(rises)} features move by more than one place when unseen rows judge"
    legend = [
        make_key(label, colour, marker="o", has_line=True)
        for label, colour in (("rises", UNBIASED), ("falls", BIASED), ("stays", MUTED))
    ]
    _set_title(ax, title, result, n_shown, legend)


def _take_scored_trees(result: ImportanceResult) -> NDArray[np.float64]:
    """Scores by tree, of trees that have some."""
    scored = result.per_tree[~np.isnan(result.per_tree).any(axis=1)]
    if not len(scored):
        raise ValueError(
            f"kind='box' needs scores by tree, and {result.measure!r} scores all trees together; use 'bar'."
        )
    return scored


def _draw_boxes(result: ImportanceResult, n_shown: int, ax: Axes, _alpha: float) -> None:
    order = _list_shown(result, n_shown)
    scored, parts = (_take_scored_trees(result), "tree") if result.per_fold is None else (result.per_fold, "fold")
    ax.boxplot(
        [scored[:, j] for j in order],
        positions=range(n_shown),
        orientation="horizontal",
        widths=0.6,
        flierprops={"marker": ".", "markersize": 3, "markeredgecolor": MUTED},
        medianprops={"color": UNBIASED, "linewidth": 1.8},
        manage_ticks=False,
    )
    ax.axvline(0, color="black", linewidth=0.8)
    ax.locator_params(axis="x", nbins=5)
    name_rows(ax, [str(result.feature_names[j]) for j in order])
    ax.set_xlabel(f"{name_measure(result)}:\n{name_unit(result)}, by {parts}")
    _set_title(ax, f"How scores differ between the {len(scored)} {parts}s", result, n_shown, [])


def _draw_ranks(result: ImportanceResult, _n_shown: int, ax: Axes, _alpha: float) -> None:
    from matplotlib.ticker import MaxNLocator

    n_features = len(result.values)
    places = np.arange(1, n_features + 1)
    # As shares, because scores of different measures have different scales; of the largest score where there are none.
    if np.isnan(result.share).any():
        biased, own = (scores / scores.max() if scores.max() > 0 else scores for scores in (result.mdi, result.values))
        ax.set_ylabel("score, % of the largest")
    else:
        biased, own = result.mdi / result.impurity, result.share
        ax.set_ylabel("share of the target's impurity, %")
    for scores, colour, marker, label in ((biased, BIASED, "s", "usual, biased (mdi)"), (own, UNBIASED, "o", None)):
        ax.plot(
            places,
            100 * np.sort(scores)[::-1],
            color=colour,
            marker=marker if n_features <= 50 else "",
            markersize=4,
            linewidth=1.4,
            label=label or name_measure(result),
        )
    ax.axhline(0, color="black", linewidth=0.8)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("place among the features")
    ax.legend(frameon=False, loc="upper right")
    n_above = int(np.count_nonzero(result.values > 0))
    _set_title(ax, f"{n_above} of {n_features} features score above zero", result, n_features, [])


def _draw_classes(result: ImportanceResult, n_shown: int, ax: Axes, alpha: float) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    parts, order = result.require_classes(), _list_shown(result, n_shown)
    shown = parts.values[:, order].T
    most = float(np.abs(parts.values).max()) or 1.0
    colours = LinearSegmentedColormap.from_list("parts", [BIASED, "white", UNBIASED])
    image = ax.imshow(shown, cmap=colours, vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
    title = "What each feature tells of each class"
    is_found = np.zeros(shown.shape, dtype=np.bool_)
    if result.no_inference is None:
        is_found = (adjust(parts.p_value.ravel(), "bh").reshape(parts.values.shape) <= alpha)[:, order].T
        title += f"\nbold: significant ({name_level(alpha)})"
    size = min(_find_letter_size(ax, n_shown), 9.0)
    if size >= _SMALLEST_NUMBERS and len(parts.names) <= _MOST_NUMBERED:
        n_decimals = min(max(0, 2 - int(np.floor(np.log10(most)))), _MOST_DECIMALS)
        for (row, column), part in np.ndenumerate(shown):
            colour = "white" if abs(part) > 0.6 * most else "black"
            weight = "bold" if is_found[row, column] else "normal"
            place: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": size}
            ax.text(
                column,
                row,
                f"{np.round(part, n_decimals) + 0.0:.{n_decimals}f}",
                color=colour,
                fontweight=weight,
                **place,
            )
    name_rows(ax, [str(result.feature_names[j]) for j in order])
    places = range(len(parts.names)) if len(parts.names) <= _MOST_NAMED_CLASSES else []
    is_crowded = sum(len(name) for name in parts.names) > _MOST_LETTERS
    turned: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if is_crowded else {}
    ax.set_xticks(places, [shorten(str(parts.names[k]), 24) for k in places], parse_math=False, **turned)
    ax.tick_params(axis="x", length=0)
    ax.set_xlabel("class")
    add_colour_bar(ax, image, label=name_unit(result))
    _set_title(ax, title, result, n_shown, [])


def draw_differences(comparison: Comparison, *, top: int | None, ax: Axes | None, alpha: float) -> Axes:
    """Draw the differences of two results; see `Comparison.plot`."""
    n_features = len(comparison.difference)
    n_shown, ax = prepare(n_features, None, top, ax)
    order = comparison.order[:n_shown]
    places, difference, is_found = np.arange(n_shown), comparison.difference[order], find_differing(comparison, alpha)
    low, high = comparison.interval()
    colours = np.where(is_found[order], np.where(difference > 0, UNBIASED, BIASED), MUTED)
    size = min(7.0, 0.7 * (_find_letter_size(ax, n_shown) or 3.0))
    ax.hlines(places, low[order], high[order], color=colours, linewidth=1.2)
    ax.scatter(
        difference,
        places,
        s=size**2,
        c=np.where(is_found[order], colours, "white"),
        edgecolors=colours.tolist(),
        zorder=3,
    )
    ax.axvline(0, color="black", linewidth=0.8)
    ax.locator_params(axis="x", nbins=5)
    name_rows(ax, [str(comparison.feature_names[j]) for j in order])
    a, b = (shorten(name, 24) for name in comparison.names)
    ax.set_xlabel(f"{name_measure(comparison)}, {a} less {b}:\n{name_unit(comparison)}", parse_math=False)
    title = f"{say_differing(is_found)} ({name_level(alpha)})"
    if n_shown < n_features:
        title += f"\nthe {n_shown} largest differences of {n_features} are shown"
    legend = [
        make_key(f"more in {a}", UNBIASED, marker="o", has_line=True),
        make_key(f"more in {b}", BIASED, marker="o", has_line=True),
        make_key("not significant, 95 % interval", MUTED, marker="o", has_line=True),
    ]
    legend[-1].set_markerfacecolor("white")
    head(ax, title, legend)
    give_fonts(ax)
    return ax


def find_differing(comparison: Comparison, alpha: float) -> NDArray[np.bool_]:
    """Which features differ at this false discovery rate, shape (n_features,)."""
    is_found: NDArray[np.bool_] = comparison.adjusted_p_value() <= alpha
    return is_found


def say_differing(is_found: NDArray[np.bool_]) -> str:
    """How many features differ, in words."""
    n_found, n_features = int(np.count_nonzero(is_found)), len(is_found)
    if not n_found:
        return "No feature can be shown to differ"
    return f"{n_found:,} of {n_features:,} feature{'s' * (n_features != 1)} differ{'s' * (n_found == 1)}"


_KINDS: dict[str, Callable[[ImportanceResult, int, Axes, float], None]] = {
    "bar": _draw_bars,
    "compare": _draw_comparison,
    "box": _draw_boxes,
    "rank": _draw_ranks,
    "classes": _draw_classes,
}
