"""Plots of an importance result, by feature, by tree and by class, and of a permutation test."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from truewood._arguments import check_type, is_choice
from truewood._formatting import count, format_p_value, quote, shorten
from truewood._inference.p_values import adjust
from truewood._measures.registry import get_measure
from truewood._plotting.style import (
    BIASED,
    FAINT,
    MUTED,
    PAD,
    SMALL,
    UNBIASED,
    add_colour_bar,
    find_letter_size,
    give_fonts,
    head,
    make_key,
    name_rows,
    prepare,
    set_title,
    wrap,
)
from truewood._results.summary import (
    FOUND,
    FOUND_SMALL,
    NO_SIGN,
    find_percent,
    judge_features,
    name_axis,
    name_level,
    name_measure,
    name_unit,
    write_summary,
)
from truewood._results.trends import find_directions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from truewood._results.explanation import Explanation
    from truewood._results.importance_result import ImportanceResult


# Cells have numbers where they are large enough for them.
_SMALLEST_NUMBERS = 6.0
_MOST_NUMBERED = 10
_MOST_DECIMALS = 9
# Classes, and letters of their names side by side, that a picture has room for.
_MOST_NAMED_CLASSES = 60
_MOST_LETTERS = 60
Floats = NDArray[np.float64]


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
    if not is_choice(kind, _KINDS):
        raise ValueError(f"kind must be one of {', '.join(_KINDS)}, got {quote(kind)}.")
    if title is not None:
        check_type(title, str, "title", "a str or None")
    n_shown, ax = prepare(len(result.values), 4.5 if kind == "rank" else None, top, ax)
    _KINDS[kind](result, n_shown, ax, alpha)
    directions = find_directions(result, explanation, alpha)
    if kind == "bar" and directions is not None:
        _write_directions(ax, [directions[j].word for j in result.order[:n_shown].tolist()])
    if title is not None:
        ax.set_title(f"{shorten(title, 80)}\n{ax.get_title()}", fontsize="large", pad=PAD, parse_math=False)
    give_fonts(ax)
    return ax


def _draw_bars(result: ImportanceResult, n_shown: int, ax: Axes, alpha: float) -> None:
    order, percent = result.order[:n_shown].tolist(), find_percent(result)
    factor = 1.0 if percent is None else percent.factor
    places, scores = np.arange(n_shown), factor * result.values[order]
    ax.barh(places, scores, color=FAINT, height=0.5)
    size = min(7.0, 0.7 * (find_letter_size(ax, n_shown) or 3.0))
    legend, colours, fills = [], np.full(n_shown, UNBIASED), np.full(n_shown, UNBIASED)
    title = f"Features by {name_measure(result)}"
    if result.inference_unavailable is None:
        verdicts = judge_features(result, alpha)[order]
        fills = np.select([verdicts == FOUND, verdicts == FOUND_SMALL], [UNBIASED, SMALL], "white")
        colours = np.where(verdicts == NO_SIGN, MUTED, UNBIASED)
        low, high = (factor * end[order] for end in result.interval())
        ax.hlines(places, low, high, color=colours, linewidth=1.2)
        title = wrap(write_summary(result, alpha, with_names=False))
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
    set_title(ax, title, n_shown, len(result.values), legend)


def _write_directions(ax: Axes, words: list[str]) -> None:
    """Beside the rows, in a column of their own."""
    place: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "center", "color": MUTED}
    size = 0.9 * find_letter_size(ax, len(words))
    for row, word in enumerate(words if size else []):
        ax.text(1.02, row, word, fontsize=size, parse_math=False, **place)


def _draw_comparison(result: ImportanceResult, n_shown: int, ax: Axes, _alpha: float) -> None:
    table = result.frame()
    rises = table["mdi_rank"].to_numpy() - table["rank"].to_numpy()
    n_moved = np.count_nonzero(np.abs(rises) > 1)
    table = table[:n_shown]
    rank, biased = table["rank"].to_numpy(), table["mdi_rank"].to_numpy()
    # Drawn in the order of the biased ranks, not at them: the top 20 of 200 features need 20 lines.
    left = np.argsort(np.argsort(biased, kind="stable"), kind="stable")
    size = find_letter_size(ax, n_shown)
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
    set_title(ax, title, n_shown, len(result.values), legend)


def _take_scored_trees(result: ImportanceResult) -> NDArray[np.float64]:
    """Scores by tree, of trees that have some."""
    scored = result.per_tree[~np.isnan(result.per_tree).any(axis=1)]
    if not len(scored):
        raise ValueError(
            f"kind='box' needs scores by tree, and {quote(result.measure)} scores all trees together; use 'bar'."
        )
    return scored


def _draw_boxes(result: ImportanceResult, n_shown: int, ax: Axes, _alpha: float) -> None:
    order = result.order[:n_shown].tolist()
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
    set_title(ax, f"How scores differ between the {len(scored)} {parts}s", n_shown, len(result.values), [])


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
    set_title(ax, f"{n_above} of {n_features} features score above zero", n_features, n_features, [])


def draw_classes(result: ImportanceResult, n_shown: int, ax: Axes, alpha: float) -> None:
    """Draw the parts that classes have in the scores; see `ImportanceResult.plot`."""
    from matplotlib.colors import LinearSegmentedColormap

    parts, order = result.require_classes(), result.order[:n_shown].tolist()
    shown = parts.values[:, order].T
    most = float(np.abs(parts.values).max()) or 1.0
    colours = LinearSegmentedColormap.from_list("parts", [BIASED, "white", UNBIASED])
    image = ax.imshow(shown, cmap=colours, vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
    title = "What each feature tells of each class"
    is_found = np.zeros(shown.shape, dtype=np.bool_)
    if result.inference_unavailable is None:
        is_found = (adjust(parts.p_value.ravel(), "bh").reshape(parts.values.shape) <= alpha)[:, order].T
        title += f"\nbold: significant ({name_level(alpha)})"
    size = min(find_letter_size(ax, n_shown), 9.0)
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
    set_title(ax, title, n_shown, len(result.values), [])


def draw_null(
    values: Floats,
    null: Floats,
    p_value: Floats,
    feature_names: NDArray[np.str_],
    measure: str,
    *,
    top: int | None,
    ax: Axes | None,
) -> Axes:
    """Draw scores, shape (n_features,), on those on permuted targets, shape (n_permutations, n_features)."""
    n_shown, ax = prepare(len(values), None, top, ax)
    order = np.argsort(-values, kind="stable")[:n_shown]
    places = np.arange(n_shown)
    ax.plot(null[:, order].ravel(), np.tile(places, len(null)), "|", color=MUTED, markersize=8, alpha=0.4)
    ax.plot(values[order], places, "o", color=UNBIASED, markersize=6)
    for place, j in enumerate(order):
        beside = f"p = {format_p_value(p_value[j])}"
        ax.text(1.01, place, beside, transform=ax.get_yaxis_transform(), va="center", fontsize="small", color=MUTED)
    ax.axvline(0, color="black", linewidth=0.8)
    ax.locator_params(axis="x", nbins=5)
    name_rows(ax, feature_names[order].tolist())
    ax.set_xlabel(get_measure(measure).title)
    title = f"Scores beside those of {count(len(null), 'permuted target')}"
    if n_shown < len(values):
        title += f"\nthe {n_shown} most important of {len(values)} are shown"
    head(ax, title, [make_key("score", UNBIASED, "o"), make_key("on permuted targets", MUTED, "|")])
    give_fonts(ax)
    return ax


_KINDS: dict[str, Callable[[ImportanceResult, int, Axes, float], None]] = {
    "bar": _draw_bars,
    "compare": _draw_comparison,
    "box": _draw_boxes,
    "rank": _draw_ranks,
    "classes": draw_classes,
}
