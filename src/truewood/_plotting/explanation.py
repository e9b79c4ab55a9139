"""Plots of an explanation for one output: beeswarm, dependence and waterfall."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._arguments import find_index, is_choice
from truewood._formatting import ROWS_IN_WORDS, count, find_unit, format_number, quote, shorten
from truewood._plotting.style import (
    BIASED,
    MUTED,
    UNBIASED,
    add_color_bar,
    label_rows,
    open_axes,
    set_title,
)
from truewood._results.trends import name_prediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from truewood._results.explanation import Explanation

KINDS = ("beeswarm", "dependence", "waterfall")
# Rows that are drawn as points, evenly spaced.
_MAX_POINTS = 2000
# Cells across a row of the beeswarm; points of one cell are spread vertically.
_N_CELLS = 100
_HALF_ROW = 0.38
_MAX_BINS = 20
_MIN_ROWS_PER_BIN = 10
_MAX_LEVELS = 20

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
    """Draw one kind of plot; see `Explanation.plot`."""
    if not is_choice(kind, KINDS):
        raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}, got {quote(kind)}.")
    is_explained = ~np.isnan(explanation.base_values)
    if not is_explained.any():
        raise ValueError(
            "no row has an explanation because every tree was trained on all of them; explain held-out rows instead."
        )
    size = np.abs(explanation.values[is_explained]).mean(axis=0)
    order = [int(j) for j in np.argsort(-size, kind="stable")]
    chosen = _find_row(row, is_explained) if kind == "waterfall" else 0
    height = 4.5 if kind == "dependence" else None
    with open_axes(len(order), top, ax, height) as (n_shown, ax):
        what = name_prediction(explanation, output_name)
        if kind == "dependence":
            _draw_dependence(explanation, _find_feature(explanation, feature, order[0]), output_name, ax)
        elif kind == "waterfall":
            _draw_waterfall(explanation, chosen, n_shown, what, ax)
        else:
            _draw_beeswarm(explanation, np.flatnonzero(is_explained), order[:n_shown], what, ax)
    return ax


def _find_feature(explanation: Explanation, feature: int | str | None, first: int) -> int:
    if feature is None:
        return first
    names = explanation.feature_names.tolist()
    found = find_index(feature, names)
    if found is not None:
        return found
    raise ValueError(f"feature must be the name or index of one of the {len(names)} features, got {quote(feature)}.")


def _find_row(row: int | None, is_explained: NDArray[np.bool_]) -> int:
    n_rows = len(is_explained)
    if row is None or isinstance(row, bool) or not 0 <= index(row) < n_rows:
        raise ValueError(
            f"row must be the index of a row, from 0 to {n_rows - 1}, for kind='waterfall', got {quote(row)}."
        )
    if not is_explained[index(row)]:
        raise ValueError(
            f"row must have an explanation, got {row}, which every tree was trained on; choose a row without NaN in "
            "base_values."
        )
    return index(row)


def _pick_points(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    return rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _MAX_POINTS)).astype(np.int64))]


def _read_numbers(column: NDArray[Any]) -> Floats | None:
    """Return a column as numbers; None if it is not numeric."""
    numbers = pd.Series(column).infer_objects()
    return numbers.to_numpy(dtype=np.float64) if pd.api.types.is_numeric_dtype(numbers) else None


def _spread(values: Floats, low: float, width: float) -> Floats:
    """Spread points with similar values vertically: offsets between -1 and 1."""
    cell = np.zeros(len(values), dtype=np.int64) if width == 0 else ((values - low) / width * _N_CELLS).astype(np.int64)
    order = np.argsort(cell, kind="stable")
    first = np.searchsorted(cell[order], cell[order], side="left")
    number = np.arange(len(values)) - first
    side = np.where(number % 2 == 0, 1, -1) * ((number + 1) // 2)
    offset = np.empty(len(values))
    offset[order] = side
    return offset / max(float(np.abs(offset).max()), 8.0)  # a few points stay near the middle


def _draw_beeswarm(explanation: Explanation, rows: NDArray[np.intp], order: list[int], what: str, ax: Axes) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    points = _pick_points(rows)
    shown = explanation.values[points][:, order]
    low, width = float(shown.min()), float(np.ptp(shown))
    colors = LinearSegmentedColormap.from_list("data", [UNBIASED, "#CCCCCC", BIASED])
    for position, j in enumerate(order):
        numbers = _read_numbers(explanation.data[points, j])
        style: dict[str, Any] = {"s": 7, "linewidths": 0, "rasterized": True}
        if numbers is None or np.isnan(numbers).all():
            style["color"] = MUTED
        else:
            # By rank; otherwise a few outliers would leave all other points with one color.
            style |= {"c": pd.Series(numbers).rank(pct=True).to_numpy(), "cmap": colors, "vmin": 0, "vmax": 1}
            style |= {"plotnonfinite": True}
        effects = shown[:, position]
        ax.scatter(effects, position + _HALF_ROW * _spread(effects, low, width), **style)
    ax.axvline(0, color="black", linewidth=0.8, zorder=0)
    ax.locator_params(axis="x", nbins=5)
    label_rows(ax, [str(explanation.feature_names[j]) for j in order])
    ax.set_xlabel(f"effect on the {what}", parse_math=False)
    bar = add_color_bar(ax, ScalarMappable(Normalize(0, 1), colors), ticks=[0, 1])
    bar.ax.set_yticklabels(["low", "high"])
    bar.set_label("feature value", labelpad=-12)
    bar.outline.set_visible(False)
    title = f"Effects of features on the {what}, {len(rows):,} {ROWS_IN_WORDS[explanation.rows]}"
    set_title(ax, title, len(order), len(explanation.feature_names), [])


def _draw_dependence(explanation: Explanation, j: int, output_name: str | None, ax: Axes) -> None:
    name, column = shorten(str(explanation.feature_names[j])), explanation.data[:, j]
    values, target = explanation.values[:, j], explanation.target
    is_known = ~np.isnan(values) & ~pd.isna(column)
    if not is_known.any():
        raise ValueError(
            f"kind='dependence' needs a feature that is a single column of the table, got {quote(name)}; "
            "choose another feature."
        )
    numbers = _read_numbers(column)
    if numbers is None:
        codes, levels = pd.factorize(pd.Series(column), sort=False)
        common = np.argsort(-np.bincount(codes[is_known], minlength=len(levels)), kind="stable")[:_MAX_LEVELS]
        position = np.full(len(levels), np.nan)
        position[common] = np.arange(len(common))
        numbers = np.where(codes >= 0, position[codes], np.nan)
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
    what = name_prediction(explanation, output_name)
    ax.set_ylabel(f"effect on the {what}", color=UNBIASED, parse_math=False)
    if target is not None:
        style = {"linestyle": "-" if bins is not numbers else "none"}
        _draw_means(explanation, pd.DataFrame({"x": numbers, "bin": bins})[is_known], output_name, style, ax)
    ax.set_title(f"Effect of {name} on the {what}", fontsize="large", parse_math=False)


def _find_bins(numbers: Floats, is_known: NDArray[np.bool_]) -> Floats:
    """Assign rows to bins of about the same number of rows, or one bin per value if there are few values."""
    known = numbers[is_known]
    levels = np.unique(known)
    n_bins = int(np.clip(len(known) // _MIN_ROWS_PER_BIN, 1, _MAX_BINS))
    if len(levels) > n_bins:
        levels = np.unique(np.quantile(known, np.arange(n_bins) / n_bins, method="lower"))
    bins = np.full(len(numbers), np.nan)
    bins[is_known] = np.searchsorted(levels, known, side="right") - 1
    return bins


def _draw_means(
    explanation: Explanation, table: pd.DataFrame, output_name: str | None, style: dict[str, Any], ax: Axes
) -> None:
    """Plot the mean of the target in each bin, minus the overall mean unless the effects are raw scores."""
    target = explanation.target
    if target is None:
        return
    means = table.assign(y=target[table.index]).groupby("bin").mean()
    is_class = output_name is not None and bool(np.isin(target, (0.0, 1.0)).all())
    what = "mean target"
    if output_name is not None:
        what = f'{"share of" if is_class else what + " for"} "{shorten(output_name, 24)}"'
    beside = ax
    if explanation.is_additive:
        # Raw scores and target may have different units.
        beside = ax.twinx()
        beside.spines[["top", "left"]].set_visible(False)
    else:
        means["y"] -= target.mean()
        what += f" minus overall {'mean' if output_name is None else 'share'}"
    beside.plot(means["x"], means["y"], color=BIASED, marker="o", markersize=5, linewidth=1.6, label=what, **style)
    if explanation.is_additive:
        beside.set_ylabel(what, color=BIASED)
    else:
        beside.legend(frameon=False, fontsize="small", loc="best")


def _draw_waterfall(explanation: Explanation, row: int, n_shown: int, what: str, ax: Axes) -> None:
    values, base = explanation.values[row], float(explanation.base_values[row])
    order = [int(j) for j in np.argsort(-np.abs(values), kind="stable")]
    shown, others = order[:n_shown], order[n_shown:]
    effects = [*values[shown].tolist(), *([float(values[others].sum())] if others else [])]
    names = [_label_feature(explanation, row, j) for j in shown]
    if others:
        names.append(f"{count(len(others), 'other feature')}")
    # From the base at the bottom up to the prediction at the top, next to the largest effect.
    ends = base + np.cumsum(effects[::-1])[::-1]
    starts = ends - effects
    size, unit = 8.0 if len(effects) <= 40 else 5.0, find_unit(effects)
    for position, (start, effect) in enumerate(zip(starts, effects, strict=True)):
        color = UNBIASED if effect >= 0 else BIASED
        ax.barh(position, effect, left=start, color=color, height=0.7)
        side = 1 if effect >= 0 else -1
        ax.annotate(
            unit.write(effect, sign="+"),
            (start + effect, position),
            xytext=(3 * side, 0),
            textcoords="offset points",
            ha="left" if side > 0 else "right",
            va="center",
            fontsize=size,
            color=color if effect >= 0 else "#8A5F00",
        )
        if position:
            ax.plot([start + effect] * 2, [position - 1 + 0.35, position - 0.35], color=MUTED, linewidth=0.7)
    low, high = min(base, *ends), max(base, *ends)
    margin = 0.14 * (high - low) or 1.0  # for the numbers next to the bars
    ax.set_xlim(low - margin, high + margin)
    ax.axvline(base, color=MUTED, linewidth=0.8, linestyle=":", zorder=0)
    ax.locator_params(axis="x", nbins=5)
    label_rows(ax, names)
    power = f"\nnumbers in 1e{unit.exponent}" if unit.exponent else ""
    ax.set_xlabel(what + power, parse_math=False)
    end = 0.0 if abs(ends[0]) < 1e-12 * (abs(base) + np.abs(effects).sum()) else ends[0]  # a rounding error
    title = f"Row {row}: {what} from {_write_prediction(base)} (base value) to {_write_prediction(end)}"
    ax.set_title(title, fontsize="large", parse_math=False)


def _write_prediction(value: float) -> str:
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e15 else f"{value:.4g}"


def _label_feature(explanation: Explanation, row: int, j: int) -> str:
    """Label a feature with its value in a row."""
    value, name = explanation.data[row, j], shorten(str(explanation.feature_names[j]), 24)
    if pd.isna(value):
        return name
    return f"{name} = {format_number(value)}" if isinstance(value, float) else f"{name} = {shorten(str(value), 12)}"
