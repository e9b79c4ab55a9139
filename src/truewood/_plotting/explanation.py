"""Pictures of an explanation of one output: a swarm of points, one feature, or the way of one row."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._arguments import is_choice
from truewood._formatting import ROWS_IN_WORDS, count, quote, shorten
from truewood._plotting.style import (
    BIASED,
    MUTED,
    UNBIASED,
    add_colour_bar,
    find_height,
    give_fonts,
    make_axes,
    name_rows,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from truewood._results.explanation import Explanation

KINDS = ("beeswarm", "dependence", "waterfall")
# Rows that are drawn as points, evenly taken from all.
_MOST_POINTS = 2000
# Cells across a row of the swarm, within which points are put beside each other.
_N_CELLS = 100
_HALF_ROW = 0.38
_MOST_BINS = 20
_FEWEST_IN_BIN = 10
_MOST_LEVELS = 20

Floats = NDArray[np.float64]


def draw(
    explanation: Explanation,
    kind: str,
    output_name: str | None,
    *,
    feature: int | str | None,
    row: int | None,
    top: int | None,
    ax: Axes | None,
) -> Axes:
    """Draw one kind of picture; see `Explanation.plot`."""
    if not is_choice(kind, KINDS):
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {quote(kind)}.")
    if top is not None and index(top) < 1:
        raise ValueError(f"top must be at least 1, or None for all features, got {top}.")
    n_features = len(explanation.feature_names)
    n_shown = n_features if top is None else min(index(top), n_features)
    is_explained = ~np.isnan(explanation.base_values)
    if not is_explained.any():
        raise ValueError("there is nothing to draw: every tree saw every row.")
    size = np.abs(explanation.values[is_explained]).mean(axis=0)
    order = [int(j) for j in np.argsort(-size, kind="stable")]
    if kind == "dependence":
        ax = make_axes(4.5) if ax is None else ax
        _draw_dependence(explanation, _find_feature(explanation, feature, order[0]), output_name, ax)
    elif kind == "waterfall":
        place = _find_row(row, is_explained)
        ax = make_axes(find_height(n_shown + 1)) if ax is None else ax
        _draw_waterfall(explanation, place, n_shown, output_name, ax)
    else:
        ax = make_axes(find_height(n_shown)) if ax is None else ax
        _draw_swarm(explanation, np.flatnonzero(is_explained), order[:n_shown], output_name, ax)
    ax.spines[["top", "right"]].set_visible(False)
    give_fonts(ax)
    return ax


def _find_feature(explanation: Explanation, feature: int | str | None, first: int) -> int:
    if feature is None:
        return first
    names = explanation.feature_names.tolist()
    if isinstance(feature, str) and names.count(feature) == 1:
        return int(names.index(feature))
    if isinstance(feature, int | np.integer) and not isinstance(feature, bool) and 0 <= feature < len(names):
        return int(feature)
    raise ValueError(
        f"feature must be the name or the number of one of the {len(names)} features, got {quote(feature)}."
    )


def _find_row(row: int | None, is_explained: NDArray[np.bool_]) -> int:
    n_rows = len(is_explained)
    if row is None or isinstance(row, bool) or not 0 <= index(row) < n_rows:
        raise ValueError(
            f"row must be the number of a row, from 0 to {n_rows - 1}, for kind='waterfall', got {quote(row)}."
        )
    if not is_explained[index(row)]:
        raise ValueError(f"row must be one with an explanation, got {row}, which every tree saw.")
    return index(row)


def _name_values(explanation: Explanation, output_name: str | None) -> str:
    """What the values move."""
    what = explanation.name_prediction()
    return what if output_name is None else f"{what} of {shorten(output_name, 24)}"


def _pick_points(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    return rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _MOST_POINTS)).astype(np.int64))]


def _read_numbers(column: NDArray[Any]) -> Floats | None:
    """A column of numbers; None where it holds texts or other things."""
    numbers = pd.Series(column).infer_objects()
    return numbers.to_numpy(dtype=np.float64) if pd.api.types.is_numeric_dtype(numbers) else None


def _spread(values: Floats, low: float, width: float) -> Floats:
    """Places across a row, between -1 and 1: points whose values are near each other stand beside each other."""
    cell = np.zeros(len(values), dtype=np.int64) if width == 0 else ((values - low) / width * _N_CELLS).astype(np.int64)
    order = np.argsort(cell, kind="stable")
    first = np.searchsorted(cell[order], cell[order], side="left")
    number = np.arange(len(values)) - first
    side = np.where(number % 2 == 0, 1, -1) * ((number + 1) // 2)
    place = np.empty(len(values))
    place[order] = side
    return place / max(float(np.abs(place).max()), 8.0)  # a few points stay near the middle


def _draw_swarm(
    explanation: Explanation, rows: NDArray[np.intp], order: list[int], output_name: str | None, ax: Axes
) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    points = _pick_points(rows)
    shown = explanation.values[points][:, order]
    low, width = float(shown.min()), float(np.ptp(shown))
    colours = LinearSegmentedColormap.from_list("data", [UNBIASED, "#CCCCCC", BIASED])
    for place, j in enumerate(order):
        numbers = _read_numbers(explanation.data[points, j])
        style: dict[str, Any] = {"s": 7, "linewidths": 0, "rasterized": True}
        if numbers is None or np.isnan(numbers).all():
            style["color"] = MUTED
        else:
            # By rank, as a few far numbers would leave all others with one colour.
            style |= {"c": pd.Series(numbers).rank(pct=True).to_numpy(), "cmap": colours, "vmin": 0, "vmax": 1}
            style |= {"plotnonfinite": True}
        ax.scatter(shown[:, place], place + _HALF_ROW * _spread(shown[:, place], low, width), **style)
    ax.axvline(0, color="black", linewidth=0.8, zorder=0)
    ax.locator_params(axis="x", nbins=5)
    name_rows(ax, [str(explanation.feature_names[j]) for j in order])
    ax.set_xlabel(f"what splits on the feature did to the {_name_values(explanation, output_name)}")
    bar = add_colour_bar(ax, ScalarMappable(Normalize(0, 1), colours), ticks=[0, 1])
    bar.ax.set_yticklabels(["low", "high"])
    bar.set_label("value of the feature", labelpad=-12)
    bar.outline.set_visible(False)
    title = f"Which way features move the predictions of {len(rows):,} {ROWS_IN_WORDS[explanation.rows]}"
    if len(order) < len(explanation.feature_names):
        title += f"\nthe {len(order)} of {len(explanation.feature_names)} that move most are shown"
    ax.set_title(title, fontsize="large", pad=8)


def _draw_dependence(explanation: Explanation, j: int, output_name: str | None, ax: Axes) -> None:
    name, column = shorten(str(explanation.feature_names[j])), explanation.data[:, j]
    values, target = explanation.values[:, j], explanation.target
    is_known = ~np.isnan(values) & ~pd.isna(column)
    if not is_known.any():
        raise ValueError(
            f"feature {quote(name)} is no column of the table, so that there is nothing to draw it against."
        )
    numbers = _read_numbers(column)
    if numbers is None:
        codes, levels = pd.factorize(pd.Series(column), sort=False)
        common = np.argsort(-np.bincount(codes[is_known], minlength=len(levels)), kind="stable")[:_MOST_LEVELS]
        place = np.full(len(levels), np.nan)
        place[common] = np.arange(len(common))
        numbers = np.where(codes >= 0, place[codes], np.nan)
        is_known &= ~np.isnan(numbers)
        ax.set_xticks(range(len(common)), [shorten(str(levels[k]), 16) for k in common], rotation=45, ha="right")
        bins = numbers
        shift = 0.25 * _spread(values[is_known], float(values[is_known].min()), float(np.ptp(values[is_known])))
    else:
        bins, shift = _find_bins(numbers, is_known), np.zeros(np.count_nonzero(is_known))
    points = _pick_points(np.arange(len(shift)))
    at, heights = numbers[is_known] + shift, values[is_known]
    ax.scatter(at[points], heights[points], s=9, color=UNBIASED, alpha=0.5, linewidths=0, rasterized=True)
    ax.axhline(0, color="black", linewidth=0.8, zorder=0)
    ax.set_xlabel(name, parse_math=False)
    ax.set_ylabel(f"move of the {_name_values(explanation, output_name)}", color=UNBIASED)
    if target is not None:
        style = {"linestyle": "-" if bins is not numbers else "none"}
        _draw_means(explanation, pd.DataFrame({"x": numbers, "bin": bins})[is_known], output_name, style, ax)
    ax.set_title(f"What splits on {name} do", fontsize="large", parse_math=False)


def _find_bins(numbers: Floats, is_known: NDArray[np.bool_]) -> Floats:
    """Number of the bin of each row: bins of about as many rows each, or the values where there are few."""
    known = numbers[is_known]
    levels = np.unique(known)
    n_bins = int(np.clip(len(known) // _FEWEST_IN_BIN, 1, _MOST_BINS))
    if len(levels) > n_bins:
        levels = np.unique(np.quantile(known, np.arange(n_bins) / n_bins, method="lower"))
    bins = np.full(len(numbers), np.nan)
    bins[is_known] = np.searchsorted(levels, known, side="right") - 1
    return bins


def _draw_means(
    explanation: Explanation, table: pd.DataFrame, output_name: str | None, style: dict[str, Any], ax: Axes
) -> None:
    """Mean of the target in each bin of the rows of a table, less that of all rows where both are in the same units."""
    target = explanation.target
    if target is None:
        return
    means = table.assign(y=target[table.index]).groupby("bin").mean()
    what = "share of rows" if output_name is not None else "mean target"
    what += "" if output_name is None else f" of {shorten(output_name, 24)}"
    beside = ax
    if explanation.is_additive:
        # A raw score may be in other units than the target.
        beside = ax.twinx()
        beside.spines[["top", "left"]].set_visible(False)
    else:
        means["y"] -= target.mean()
        what += " less that of all rows"
    beside.plot(means["x"], means["y"], color=BIASED, marker="o", markersize=5, linewidth=1.6, label=what, **style)
    if explanation.is_additive:
        beside.set_ylabel(what, color=BIASED)
    else:
        beside.legend(frameon=False, fontsize="small", loc="best")


def _draw_waterfall(explanation: Explanation, row: int, n_shown: int, output_name: str | None, ax: Axes) -> None:
    values, base = explanation.values[row], float(explanation.base_values[row])
    order = [int(j) for j in np.argsort(-np.abs(values), kind="stable")]
    shown, others = order[:n_shown], order[n_shown:]
    moves = [*values[shown].tolist(), *([float(values[others].sum())] if others else [])]
    names = [_describe(explanation, row, j) for j in shown]
    if others:
        names.append(f"{count(len(others), 'other feature')}")
    # From the base at the bottom up to the prediction at the top, where the largest move is.
    ends = base + np.cumsum(moves[::-1])[::-1]
    starts = ends - moves
    size = 8.0 if len(moves) <= 40 else 5.0
    for place, (start, move) in enumerate(zip(starts, moves, strict=True)):
        colour = UNBIASED if move >= 0 else BIASED
        ax.barh(place, move, left=start, color=colour, height=0.7)
        side = 1 if move >= 0 else -1
        ax.annotate(
            f"{move:+.3g}",
            (start + move, place),
            xytext=(3 * side, 0),
            textcoords="offset points",
            ha="left" if side > 0 else "right",
            va="center",
            fontsize=size,
            color=colour if move >= 0 else "#8A5F00",
        )
        if place:
            ax.plot([start + move] * 2, [place - 1 + 0.35, place - 0.35], color=MUTED, linewidth=0.7)
    low, high = min(base, *ends), max(base, *ends)
    room = 0.14 * (high - low) or 1.0  # for numbers beside the bars
    ax.set_xlim(low - room, high + room)
    ax.axvline(base, color=MUTED, linewidth=0.8, linestyle=":", zorder=0)
    ax.locator_params(axis="x", nbins=5)
    name_rows(ax, names)
    ax.set_xlabel(f"{_name_values(explanation, output_name)}, from {base:.4g} before any split")
    ax.set_title(f"Row {row}: from {base:.4g} to {ends[0]:.4g}", fontsize="large")


def _describe(explanation: Explanation, row: int, j: int) -> str:
    """A feature with its value in a row."""
    value, name = explanation.data[row, j], shorten(str(explanation.feature_names[j]), 24)
    if pd.isna(value):
        return name
    return f"{name} = {value:.4g}" if isinstance(value, float) else f"{name} = {shorten(str(value), 12)}"
