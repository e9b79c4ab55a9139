"""Pictures of a result. Each takes a result and draws on one Axes; nothing is computed anew but ranks and orders."""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from truewood.result import ImportanceResult

# Okabe and Ito's colours, told apart with any kind of colour vision.
UNBIASED = "#0072B2"
BIASED = "#E69F00"
_MUTED = "#777777"
_FAINT = "#A9CCE3"

_MEASURE_IN_WORDS = {
    "ufi": "unbiased importance (UFI)",
    "ufi_centered": "unbiased importance (centred UFI)",
    "mdi": "mean decrease in impurity (biased)",
    "mdi_oob": "mean decrease in impurity, unseen rows",
    "naive_oob": "impurity decrease of unseen rows (over-corrected)",
    "permutation": "permutation importance",
    "corrected": "pseudo-data corrected importance",
}


def draw(result: ImportanceResult, kind: str, *, top: int | None, ax: Axes | None) -> Axes:
    """Draw one kind of picture; see `ImportanceResult.plot`."""
    if kind not in _KINDS:
        raise ValueError(f"kind must be one of {', '.join(_KINDS)}, got {kind!r}.")
    if top is not None and index(top) < 1:
        raise ValueError(f"top must be at least 1, or None for all features, got {top}.")
    n_shown = len(result.values) if top is None else min(index(top), len(result.values))
    if ax is None:
        ax = _new_axes(kind, n_shown)
    _KINDS[kind](result, n_shown, ax)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _new_axes(kind: str, n_shown: int) -> Axes:
    # A figure of its own, not pyplot's: nothing to close, no global state.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    height = 4.5 if kind == "rank" else 1.4 + 0.28 * n_shown
    figure = Figure(figsize=(7.0, max(2.6, height)), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.subplots()


def _order(result: ImportanceResult, n_shown: int) -> list[int]:
    return [int(j) for j in np.argsort(-result.values, kind="stable")[:n_shown]]


def _title(result: ImportanceResult, n_shown: int) -> str:
    shown = "" if n_shown == len(result.values) else f" (top {n_shown} of {len(result.values)})"
    return f"{_MEASURE_IN_WORDS[result.measure]}{shown}"


def _name_rows(ax: Axes, names: list[str]) -> None:
    ax.set_yticks(range(len(names)), [_shorten(name) for name in names], parse_math=False)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)


def _shorten(name: str) -> str:
    return name if len(name) <= 40 else f"{name[:37]}..."


def _draw_bars(result: ImportanceResult, n_shown: int, ax: Axes) -> None:
    order = _order(result, n_shown)
    if result.no_inference is None:
        is_found = result.select()[order]
        low, high = (end[order] for end in result.interval())
        ax.barh(range(n_shown), result.values[order], color=np.where(is_found, UNBIASED, _FAINT), height=0.7)
        ax.hlines(range(n_shown), low, high, color="black", linewidth=1.0)
        note = "\nlines: 95 % intervals" + ("" if is_found.all() else "; pale: not significant (5 %, adjusted)")
    else:
        ax.barh(range(n_shown), result.values[order], color=UNBIASED, height=0.7)
        note = ""
    ax.axvline(0, color="black", linewidth=0.8)
    _name_rows(ax, [str(result.feature_names[j]) for j in order])
    ax.set_xlabel(_unit(result) + note)
    ax.set_title(_title(result, n_shown))


def _unit(result: ImportanceResult) -> str:
    if result.is_additive:
        return "covariance of raw score and target"
    if result.measure == "permutation":
        return "increase in error rate" if result.task == "classification" else "increase in squared error"
    return "decrease in Gini impurity" if result.task == "classification" else "decrease in squared error"


def _draw_comparison(result: ImportanceResult, n_shown: int, ax: Axes) -> None:
    table = result.frame()[:n_shown]
    rank, biased = table["rank"].to_numpy(), table["mdi_rank"].to_numpy()
    # Drawn in the order of the biased ranks, not at them: the top 20 of 200 features need 20 lines.
    left = np.argsort(np.argsort(biased, kind="stable"), kind="stable")
    for k, name in enumerate(map(_shorten, table["feature"])):
        rises = int(biased[k]) - int(rank[k])
        colour = _MUTED if abs(rises) <= 1 else (UNBIASED if rises > 0 else BIASED)
        ax.plot([0, 1], [left[k], k], color=colour, linewidth=1.6, marker="o", markersize=4)
        ax.text(-0.03, left[k], f"{name}  {biased[k]}", ha="right", va="center", parse_math=False)
        ax.text(1.03, k, f"{rank[k]}  {name}", ha="left", va="center", parse_math=False)
    ax.set_xlim(-0.9, 1.9)
    ax.set_ylim(n_shown - 0.3, -0.7)
    ax.set_xticks([0, 1], ["biased rank (mdi)", f"rank by {result.measure}"])
    ax.set_yticks([])
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.tick_params(axis="x", length=0)
    ax.set_title("What moves when unseen rows judge the splits")


def _draw_boxes(result: ImportanceResult, n_shown: int, ax: Axes) -> None:
    order = _order(result, n_shown)
    scored = result.per_tree[~np.isnan(result.per_tree).any(axis=1)]
    ax.boxplot(
        [scored[:, j] for j in order],
        positions=range(n_shown),
        orientation="horizontal",
        widths=0.6,
        flierprops={"marker": ".", "markersize": 3, "markeredgecolor": _MUTED},
        medianprops={"color": UNBIASED, "linewidth": 1.8},
        manage_ticks=False,
    )
    ax.axvline(0, color="black", linewidth=0.8)
    _name_rows(ax, [str(result.feature_names[j]) for j in order])
    ax.set_xlabel(f"{_unit(result)}, by tree ({len(scored)} trees)")
    ax.set_title(_title(result, n_shown))


def _draw_ranks(result: ImportanceResult, n_shown: int, ax: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    del n_shown
    n_features = len(result.values)
    places = np.arange(1, n_features + 1)
    # As shares, because scores of different measures have different scales.
    biased = result.mdi / result.impurity if result.impurity > 0 else np.full(n_features, np.nan)
    for scores, colour, label in ((biased, BIASED, "mdi (biased)"), (result.share, UNBIASED, result.measure)):
        ax.plot(places, 100 * np.sort(scores)[::-1], color=colour, marker=".", linewidth=1.2, label=label)
    ax.axhline(0, color="black", linewidth=0.8)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("rank")
    ax.set_ylabel("share of the target's impurity, %")
    ax.legend(frameon=False)
    ax.set_title(f"{n_features} features in falling order of score")


_KINDS: dict[str, Callable[[ImportanceResult, int, Axes], None]] = {
    "bar": _draw_bars,
    "compare": _draw_comparison,
    "box": _draw_boxes,
    "rank": _draw_ranks,
}
