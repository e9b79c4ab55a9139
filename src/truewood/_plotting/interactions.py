"""Plots of interactions: a ranked list, a heat map of all pairs, and the joint effect of one pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from truewood._arguments import is_choice
from truewood._formatting import INTERVALS, count, format_p_value, quote, shorten
from truewood._plotting.style import (
    BIASED,
    FAINT,
    MUTED,
    UNBIASED,
    WIDTH,
    add_color_bar,
    find_font_size,
    label_rows,
    make_legend_entry,
    open_axes,
    set_title,
    wrap_title,
)
from truewood._results.interactions_text import name_predicted
from truewood._results.pair_surfaces import FEWEST_ROWS, PairSurface, read_surface
from truewood._results.summary import name_variation_in

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from truewood._results.interactions import Interactions

_KINDS = ("bar", "heatmap", "surface", "curves")
_EMPTY = "#EEEEEE"
# Cells of a heat map show numbers if there are not more features.
_MAX_NUMBERED = 10
# Inches for labels and color bar, by which a heat map is wider than high.
_BESIDE_HEATMAP = 1.6
# Characters of all levels that fit below an axis side by side.
_MOST_CHARACTERS = 48


def draw(
    result: Interactions,
    kind: str,
    *,
    pair: tuple[int | str, int | str] | None,
    output: int | str | None,
    top: int | None,
    ax: Axes | None,
    alpha: float,
) -> Axes:
    """Draw one kind of plot; see `Interactions.plot`."""
    if not is_choice(kind, _KINDS):
        raise ValueError(f"kind must be one of {', '.join(map(repr, _KINDS))}, got {quote(kind)}.")
    if kind in ("surface", "curves"):
        surface = read_surface(result, pair, output)
        with open_axes(1, None, ax, 4.5) as (_, ax):
            (_draw_surface if kind == "surface" else _draw_curves)(result, surface, ax, alpha)
    elif kind == "heatmap":
        n_features = len(np.unique(result.pairs))
        n_most = n_features if top is None else min(top, n_features)
        height = max(3.6, 1.6 + 0.3 * n_most)
        with open_axes(n_features, top, ax, height, min(WIDTH, height + _BESIDE_HEATMAP)) as (n_shown, ax):
            _draw_heatmap(result, n_shown, ax, alpha)
    else:
        with open_axes(len(result.values), top, ax) as (n_shown, ax):
            _draw_bars(result, n_shown, ax, alpha)
    return ax


def _name_pair(result: Interactions, number: int, most: int = 24) -> str:
    first, second = (shorten(str(result.feature_names[j]), most) for j in result.pairs[number])
    return f"{first} × {second}"


def _find_significant(result: Interactions, alpha: float) -> NDArray[np.bool_]:
    if result.inference_unavailable is not None:
        return np.zeros(len(result.values), dtype=np.bool_)
    return result.select(alpha)


def _draw_bars(result: Interactions, n_shown: int, ax: Axes, alpha: float) -> None:
    order = result.order[:n_shown]
    has_share = not np.isnan(result.share).any()
    factor = 100.0 / result.impurity if has_share else 1.0
    positions, scores = np.arange(n_shown), factor * result.values[order]
    ax.barh(positions, scores, color=FAINT, height=0.5)
    ax.use_sticky_edges = False  # leaves a margin for points at zero
    is_found, legend = _find_significant(result, alpha)[order], []
    colors = np.where(is_found, UNBIASED, MUTED)
    fills = np.where(is_found, UNBIASED, "white")
    title = f"{count(len(result.values), 'pair')} of features"
    if result.inference_unavailable is None:
        low, high = (factor * end[order] for end in result.interval())
        ax.hlines(positions, low, high, color=colors, linewidth=1.2)
        is_withheld = result.is_withheld[order]
        fills = np.where(is_withheld, FAINT, fills)
        n_found = int(np.count_nonzero(result.select(alpha)))
        verb = "interacts" if n_found == 1 else "interact"
        title = f"{n_found} of {count(len(result.values), 'pair')} of features {verb} significantly"
        legend = [
            make_legend_entry("significant", UNBIASED, "o"),
            make_legend_entry("not significant", MUTED, "o", fill="white"),
            make_legend_entry(INTERVALS, MUTED, "", has_line=True),
        ]
        if is_withheld.any():
            legend.append(make_legend_entry("too dependent to test", MUTED, "o", fill=FAINT))
    size = min(7.0, 0.7 * (find_font_size(ax, n_shown) or 3.0))
    ax.scatter(scores, positions, s=size**2, c=fills.tolist(), edgecolors=colors.tolist(), zorder=3)
    ax.axvline(0, color="black", linewidth=0.8)
    ax.spines["left"].set_visible(False)
    ax.locator_params(axis="x", nbins=5)
    label_rows(ax, [_name_pair(result, k) for k in order.tolist()])
    ax.set_xlabel(f"{_name_unit(result)} explained by the joint effect")
    set_title(ax, wrap_title(title), n_shown, n_shown, legend)
    if n_shown < len(result.values):
        title = f"{ax.get_title()}\ntop {n_shown} shown"
        ax.set_title(title, fontsize="large", pad=26 if legend else 8, parse_math=False)


def _name_unit(result: Interactions) -> str:
    if np.isnan(result.share).any():
        return f"score on the {result.scale} scale"
    return f"share of {name_variation_in()} (%)"


def _draw_heatmap(result: Interactions, n_shown: int, ax: Axes, alpha: float) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    matrix = result.matrix("values" if np.isnan(result.share).any() else "share").to_numpy()
    found = np.zeros(matrix.shape, dtype=np.bool_)
    first, second = result.pairs[_find_significant(result, alpha)].T
    found[first, second] = found[second, first] = True
    best = np.nanmax(np.where(np.isnan(matrix), -np.inf, matrix), axis=1)
    shown = np.argsort(-best, kind="stable")[:n_shown]
    has_share = not np.isnan(result.share).any()
    values = (100.0 if has_share else 1.0) * matrix[np.ix_(shown, shown)]
    colors = LinearSegmentedColormap.from_list("scores", [BIASED, "white", UNBIASED]).with_extremes(bad=_EMPTY)
    largest = float(np.nanmax(np.abs(values))) if np.isfinite(values).any() else 1.0
    image = ax.imshow(values, cmap=colors, vmin=-largest, vmax=largest, aspect="equal", interpolation="nearest")
    size = min(find_font_size(ax, n_shown), 8.0)
    for (row, column), score in np.ndenumerate(values):
        is_found = found[shown[row], shown[column]]
        if n_shown <= _MAX_NUMBERED and np.isfinite(score):
            style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": size or 6.0}
            style["color"] = "white" if abs(score) > 0.6 * largest else "black"
            style["fontweight"] = "bold" if is_found else "normal"
            ax.text(column, row, f"{np.round(score, 2) + 0.0:.2f}" if has_share else f"{score:.2g}", **style)
        elif is_found:
            ax.plot(column, row, marker="*", color="black", markersize=max(0.6 * size, 3.0))
    names = [shorten(str(result.feature_names[j]), 24) for j in shown]
    ax.set_yticks(range(n_shown), names, parse_math=False, fontsize=size or 6.0)
    turned: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    ax.set_xticks(range(n_shown), names, parse_math=False, fontsize=size or 6.0, **turned)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    add_color_bar(ax, image, label=_name_unit(result))
    mark = "bold" if n_shown <= _MAX_NUMBERED else "*"
    title = "Interactions of pairs of features"
    if result.inference_unavailable is None:
        title += f"\n{mark}: adjusted p-value at most {alpha:g}"
    set_title(ax, title, n_shown, len(np.unique(result.pairs)), [])


def _write_title(result: Interactions, surface: PairSurface, alpha: float, what: str) -> str:
    """Name the pair, and describe its test in a few words."""
    names = " × ".join(shorten(str(result.feature_names[j]), 24) for j in surface.features)
    title = f"{what} of {names}" + ("" if surface.output is None else f' for "{shorten(surface.output, 24)}"')
    if result.inference_unavailable is not None:
        return title
    if result.is_withheld[surface.number]:
        return f"{title}\ntoo dependent to test"
    adjusted = float(result.adjusted_p_value()[surface.number])
    words = "significant" if adjusted <= alpha else "not significant"
    return f"{title}\n{words}, adjusted p-value {format_p_value(adjusted)}"


def _draw_surface(result: Interactions, surface: PairSurface, ax: Axes, alpha: float) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    colors = LinearSegmentedColormap.from_list("effects", [BIASED, "white", UNBIASED]).with_extremes(bad=_EMPTY)
    largest = float(np.nanmax(np.abs(surface.joint))) or 1.0
    shown = np.ma.masked_invalid(surface.joint.T)
    style: dict[str, Any] = {"aspect": "auto", "origin": "lower", "interpolation": "nearest"}
    image = ax.imshow(shown, cmap=colors, vmin=-largest, vmax=largest, **style)
    (x_name, y_name), (x, y) = _name_axes(result, surface), surface.write_levels()
    are_long = sum(map(len, x)) > _MOST_CHARACTERS
    turned: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if are_long else {}
    ax.set_xticks(range(len(x)), [shorten(text, 24) for text in x], parse_math=False, **turned)
    ax.set_yticks(range(len(y)), [shorten(text, 24) for text in y], parse_math=False)
    ax.set_xlabel(x_name, parse_math=False)
    ax.set_ylabel(y_name, parse_math=False)
    ax.tick_params(length=0)
    add_color_bar(ax, image, label=f"joint effect on the {name_predicted(result)}")
    set_title(ax, _write_title(result, surface, alpha, "Joint effect"), 1, 1, [])


def _draw_curves(result: Interactions, surface: PairSurface, ax: Axes, alpha: float) -> None:
    from matplotlib import colormaps

    (x_name, level_name), x, (x_texts, levels) = _name_axes(result, surface), surface.levels[0], surface.write_levels()
    for k, level in enumerate(levels):
        color = colormaps["viridis"](0.9 * k / max(len(levels) - 1, 1))
        is_shown = surface.n_rows[:, k] >= FEWEST_ROWS
        label = f"{shorten(level_name, 20)}: {shorten(level, 24)}"
        ax.plot(x[is_shown], surface.combined[is_shown, k], color=color, linewidth=1.8, label=label)
        ax.scatter(x[is_shown], surface.observed[is_shown, k], color=color, s=14, alpha=0.6)
    if surface.are_named[0]:
        turned: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
        ax.set_xticks(x, [shorten(text, 24) for text in x_texts], parse_math=False, **turned)
    ax.set_xlabel(x_name, parse_math=False)
    ax.set_ylabel(f"effect of both on the {name_predicted(result)}")
    ax.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    points = "\nlines: model, points: evaluation rows" if np.isfinite(surface.observed).any() else ""
    set_title(ax, _write_title(result, surface, alpha, "Effect") + points, 1, 1, [])


def _name_axes(result: Interactions, surface: PairSurface) -> tuple[str, str]:
    first, second = (shorten(str(result.feature_names[j])) for j in surface.features)
    return first, second
