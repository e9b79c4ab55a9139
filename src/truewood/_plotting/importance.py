"""Plots of an importance result: by feature, by tree and by class."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from truewood._arguments import check_type, is_choice
from truewood._formatting import INTERVALS, count, quote, shorten
from truewood._inference.p_values import adjust
from truewood._plotting.style import (
    BIASED,
    FAINT,
    MUTED,
    PAD,
    SMALL,
    UNBIASED,
    add_color_bar,
    find_font_size,
    label_rows,
    make_legend_entry,
    open_axes,
    set_title,
    wrap_title,
)
from truewood._results.importance_text import write_certain_top
from truewood._results.scores_with_errors import get_classes
from truewood._results.summary import (
    NOT_SIGNIFICANT,
    SIGNIFICANT,
    SIGNIFICANT_SMALL,
    classify_features,
    find_percent,
    find_shown,
    get_factor,
    name_axis,
    name_level,
    name_measure,
    name_variation_in,
    write_summary,
)
from truewood._results.trends import find_directions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from truewood._results.explanation import Explanation
    from truewood._results.importance_result import ImportanceResult


# Cells of the heat map show numbers if the font is at least this large and there are not more classes.
_MIN_NUMBER_SIZE = 6.0
_MAX_NUMBERED = 10
_MAX_DECIMALS = 9
# Classes that get a label, and characters of all labels that fit side by side.
_MAX_LABELED_CLASSES = 60
_MAX_CHARACTERS = 60


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
    """Draw one kind of plot; see `ImportanceResult.plot`."""
    if not is_choice(kind, _KINDS):
        raise ValueError(f"kind must be one of {', '.join(map(repr, _KINDS))}, got {quote(kind)}.")
    if title is not None:
        check_type(title, str, "title", "a str or None")
    with open_axes(len(result.values), top, ax, 4.5 if kind == "rank" else None) as (n_shown, ax):
        _KINDS[kind](result, n_shown, ax, alpha)
        directions = find_directions(result, explanation, alpha)
        if kind == "bar" and directions is not None:
            _write_directions(ax, [directions[j].text for j in result.order[:n_shown].tolist()])
        if title is not None:
            ax.set_title(f"{shorten(title, 80)}\n{ax.get_title()}", fontsize="large", pad=PAD, parse_math=False)
    return ax


def _draw_bars(result: ImportanceResult, n_shown: int, ax: Axes, alpha: float) -> None:
    order, percent = result.order[:n_shown].tolist(), find_percent(result)
    shown = find_shown(result, percent)
    positions, scores = np.arange(n_shown), shown.values[order]
    ax.barh(positions, scores, color=FAINT, height=0.5)
    ax.use_sticky_edges = False  # leaves a margin for points at zero
    size = min(7.0, 0.7 * (find_font_size(ax, n_shown) or 3.0))
    legend, colors, fills = [], np.full(n_shown, UNBIASED), np.full(n_shown, UNBIASED)
    title = wrap_title(write_summary(result, alpha, with_names=False))
    if result.inference_unavailable is None:
        verdicts = classify_features(result, alpha)[order]
        fills = np.select([verdicts == SIGNIFICANT, verdicts == SIGNIFICANT_SMALL], [UNBIASED, SMALL], "white")
        colors = np.where(verdicts == NOT_SIGNIFICANT, MUTED, UNBIASED)
        ax.hlines(positions, shown.low[order], shown.high[order], color=colors, linewidth=1.2)
        small = [make_legend_entry(SIGNIFICANT_SMALL, SMALL, "o", edge=UNBIASED)] * (percent is not None)
        legend = [
            make_legend_entry(SIGNIFICANT, UNBIASED, "o"),
            *small,
            make_legend_entry(NOT_SIGNIFICANT, MUTED, "o", fill="white"),
            make_legend_entry(INTERVALS, MUTED, "", has_line=True),
        ]
    ax.scatter(scores, positions, s=size**2, c=fills, edgecolors=colors.tolist(), zorder=3)
    ax.axvline(0, color="black", linewidth=0.8)
    ax.spines["left"].set_visible(False)
    ax.locator_params(axis="x", nbins=5)
    label_rows(ax, [str(result.feature_names[j]) for j in order])
    ax.set_xlabel(f"{name_axis(result, percent)}\n{name_measure(result)}")
    set_title(ax, title, n_shown, len(result.values), legend)


def _write_directions(ax: Axes, words: list[str]) -> None:
    """Write the directions to the right of the rows."""
    style: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "center", "color": MUTED}
    size = 0.9 * find_font_size(ax, len(words))
    for row, word in enumerate(words if size else []):
        ax.text(1.02, row, word, fontsize=size, parse_math=False, **style)


def _draw_rank_changes(result: ImportanceResult, n_shown: int, ax: Axes, _alpha: float) -> None:
    table = result.frame()
    rises = table["mdi_rank"].to_numpy() - table["rank"].to_numpy()
    n_moved = np.count_nonzero(np.abs(rises) > 1)
    table = table[:n_shown]
    rank, biased = table["rank"].to_numpy(), table["mdi_rank"].to_numpy()
    # Positions follow the order of the biased ranks, so that the top 20 of 200 features need only 20 rows.
    left = np.argsort(np.argsort(biased, kind="stable"), kind="stable")
    size = find_font_size(ax, n_shown)
    for k, name in enumerate(table["feature"]):
        color = MUTED if abs(rises[k]) <= 1 else (UNBIASED if rises[k] > 0 else BIASED)
        style: dict[str, Any] = {"linewidth": 0.16 * max(size, 3), "marker": "o", "markersize": 0.4 * size}
        ax.plot([0, 1], [left[k], k], color=color, clip_on=False, **style)
        if size:
            text: dict[str, Any] = {"va": "center", "fontsize": size, "parse_math": False}
            ax.text(-0.03, left[k], f"{shorten(name, 30)}  {biased[k]}", ha="right", **text)
            ax.text(1.03, k, f"{rank[k]}  {shorten(name, 30)}", ha="left", **text)
    ax.set_xlim(0, 1)
    ax.set_ylim(n_shown - 0.4, -0.6)
    ax.set_xticks([0, 1], ["biased rank (mdi)", f"rank by {result.measure}"])
    ax.set_yticks([])
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.tick_params(axis="x", length=0)
    verb = "changes" if n_moved == 1 else "change"
    title = f"{n_moved} of {len(rises)} features {verb} rank by more than 1 on evaluation rows"
    legend = [
        make_legend_entry(label, color, "o", has_line=True)
        for label, color in (("rises", UNBIASED), ("drops", BIASED), ("about the same", MUTED))
    ]
    set_title(ax, title, n_shown, len(result.values), legend)


def _take_scored_trees(result: ImportanceResult) -> NDArray[np.float64]:
    """Return the scores by tree, without trees that have none."""
    scored = result.per_tree[~np.isnan(result.per_tree).any(axis=1)]
    if not len(scored):
        raise ValueError(
            f"kind='box' needs scores by tree, but {quote(result.measure)} scores all trees together; use kind='bar'."
        )
    return scored


def _draw_boxes(result: ImportanceResult, n_shown: int, ax: Axes, _alpha: float) -> None:
    order, percent = result.order[:n_shown].tolist(), find_percent(result)
    scored, unit = (_take_scored_trees(result), "tree") if result.per_fold is None else (result.per_fold, "fold")
    largest = np.finfo(np.float32).max  # boxes of larger numbers, which a file may hold, would overflow
    shown = np.clip(get_factor(percent) * scored, -largest, largest)
    ax.boxplot(
        [shown[:, j] for j in order],
        positions=range(n_shown),
        orientation="horizontal",
        widths=0.6,
        flierprops={"marker": ".", "markersize": 3, "markeredgecolor": MUTED},
        medianprops={"color": UNBIASED, "linewidth": 1.8},
        manage_ticks=False,
    )
    ax.axvline(0, color="black", linewidth=0.8)
    ax.locator_params(axis="x", nbins=5)
    label_rows(ax, [str(result.feature_names[j]) for j in order])
    ax.set_xlabel(f"{name_measure(result)} by {unit}\n{name_axis(result, percent)}")
    set_title(ax, f"Distribution of scores over {count(len(scored), unit)}", n_shown, len(result.values), [])


def _draw_ranks(result: ImportanceResult, _n_shown: int, ax: Axes, _alpha: float) -> None:
    from matplotlib.ticker import MaxNLocator

    n_features = len(result.values)
    ranks = np.arange(1, n_features + 1)
    # As shares, because measures have different scales; relative to the largest score if there are no shares.
    if np.isnan(result.share).any():
        biased, own = (scores / scores.max() if scores.max() > 0 else scores for scores in (result.mdi, result.values))
        ax.set_ylabel("score (% of the largest)")
    else:
        biased, own = result.mdi / result.impurity, result.share
        ax.set_ylabel(f"share of {name_variation_in()} (%)")
    lines = ((biased, BIASED, "s", "biased importance (mdi)"), (own, UNBIASED, "o", name_measure(result)))
    for scores, color, marker, label in lines:
        ax.plot(
            ranks,
            100 * np.sort(scores)[::-1],
            color=color,
            marker=marker if n_features <= 50 else "",
            markersize=4,
            linewidth=1.4,
            label=label,
        )
    ax.axhline(0, color="black", linewidth=0.8)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("rank")
    ax.legend(frameon=False, loc="upper right")
    n_above = int(np.count_nonzero(result.values > 0))
    verb = "scores" if n_above == 1 else "score"
    set_title(ax, f"{n_above} of {n_features} features {verb} above zero", n_features, n_features, [])


def _draw_rank_sets(result: ImportanceResult, n_shown: int, ax: Axes, alpha: float) -> None:
    from matplotlib.ticker import MaxNLocator

    order, n_features = result.order[:n_shown], len(result.values)
    best, worst = (ranks[order] for ranks in result.rank_sets(alpha))
    positions, rank = np.arange(n_shown), result.frame()["rank"][:n_shown].to_numpy()
    size = min(7.0, 0.7 * (find_font_size(ax, n_shown) or 3.0))
    ax.hlines(positions, best, worst, color=SMALL, linewidth=0.8 * size)
    ax.scatter(rank, positions, s=size**2, c=UNBIASED, zorder=3)
    ax.set_xlim(0.5, n_features + 0.5)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.xaxis.grid(visible=True, color=FAINT)
    ax.set_axisbelow(True)
    label_rows(ax, [str(result.feature_names[j]) for j in order.tolist()])
    ax.set_xlabel(f"rank by {name_measure(result)}")
    legend = [
        make_legend_entry("rank of the score", UNBIASED, "o"),
        make_legend_entry(f"possible ranks ({100 * (1 - alpha):g}% confidence)", SMALL, "", has_line=True),
    ]
    set_title(ax, wrap_title(write_certain_top(result, alpha)), n_shown, n_features, legend)


def _draw_classes(result: ImportanceResult, n_shown: int, ax: Axes, alpha: float) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    classes, order, percent = get_classes(result), result.order[:n_shown].tolist(), find_percent(result)
    values = get_factor(percent) * classes.values
    shown = values[:, order].T
    largest = float(np.abs(values).max()) or 1.0
    colors = LinearSegmentedColormap.from_list("scores", [BIASED, "white", UNBIASED])
    image = ax.imshow(shown, cmap=colors, vmin=-largest, vmax=largest, aspect="auto", interpolation="nearest")
    title = "Importance of each feature for each class"
    is_found = np.zeros(shown.shape, dtype=np.bool_)
    if result.inference_unavailable is None:
        is_found = (adjust(classes.p_value.ravel(), "bh").reshape(shown.shape[1], -1) <= alpha)[:, order].T
        title += f"\nbold: significant ({name_level(alpha)})"
    size = min(find_font_size(ax, n_shown), 9.0)
    if size >= _MIN_NUMBER_SIZE and len(classes.names) <= _MAX_NUMBERED:
        n_decimals = min(max(0, 2 - int(np.floor(np.log10(largest)))), _MAX_DECIMALS)
        for (row, column), score in np.ndenumerate(shown):
            style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": size}
            style["color"] = "white" if abs(score) > 0.6 * largest else "black"
            style["fontweight"] = "bold" if is_found[row, column] else "normal"
            ax.text(column, row, f"{np.round(score, n_decimals) + 0.0:.{n_decimals}f}", **style)
    label_rows(ax, [str(result.feature_names[j]) for j in order])
    positions = range(len(classes.names)) if len(classes.names) <= _MAX_LABELED_CLASSES else []
    is_crowded = sum(len(name) for name in classes.names) > _MAX_CHARACTERS
    turned: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if is_crowded else {}
    ax.set_xticks(positions, [shorten(str(classes.names[k]), 24) for k in positions], parse_math=False, **turned)
    ax.tick_params(axis="x", length=0)
    ax.set_xlabel("class")
    add_color_bar(ax, image, label=name_axis(result, percent))
    set_title(ax, title, n_shown, len(result.values), [])


_KINDS: dict[str, Callable[[ImportanceResult, int, Axes, float], None]] = {
    "bar": _draw_bars,
    "compare": _draw_rank_changes,
    "box": _draw_boxes,
    "rank": _draw_ranks,
    "rank_sets": _draw_rank_sets,
    "classes": _draw_classes,
}
