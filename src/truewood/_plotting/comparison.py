"""Plot of the differences between two results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from truewood._formatting import INTERVALS, shorten
from truewood._plotting.style import (
    BIASED,
    MUTED,
    UNBIASED,
    find_font_size,
    label_rows,
    make_legend_entry,
    open_axes,
    set_title,
)
from truewood._results.comparison_text import classify_differences, name_differences, summarize_differences
from truewood._results.summary import (
    NOT_SIGNIFICANT,
    name_measure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from truewood._results.comparison import Comparison


def draw_differences(comparison: Comparison, *, top: int | None, ax: Axes | None, alpha: float) -> Axes:
    """Plot the differences between two results; see `Comparison.plot`."""
    n_features = len(comparison.difference)
    with open_axes(n_features, top, ax) as (n_shown, ax):
        order = comparison.order[:n_shown]
        positions, difference = np.arange(n_shown), comparison.difference[order]
        is_found = classify_differences(comparison, alpha)[order] != NOT_SIGNIFICANT
        low, high = comparison.interval()
        colors = np.where(is_found, np.where(difference > 0, UNBIASED, BIASED), MUTED)
        size = min(7.0, 0.7 * (find_font_size(ax, n_shown) or 3.0))
        ax.hlines(positions, low[order], high[order], color=colors, linewidth=1.2)
        fills = np.where(is_found, colors, "white")
        ax.scatter(difference, positions, s=size**2, c=fills, edgecolors=colors.tolist(), zorder=3)
        ax.axvline(0, color="black", linewidth=0.8)
        ax.locator_params(axis="x", nbins=5)
        label_rows(ax, [str(comparison.feature_names[j]) for j in order])
        a, b = (shorten(name, 24) for name in comparison.names)
        ax.set_xlabel(f"importance, {a} minus {b}\n{name_measure(comparison)}", parse_math=False)
        higher, lower = name_differences(comparison)
        legend = [
            make_legend_entry(higher, UNBIASED, "o"),
            make_legend_entry(lower, BIASED, "o"),
            make_legend_entry(NOT_SIGNIFICANT, MUTED, "o", fill="white"),
            make_legend_entry(INTERVALS, MUTED, "", has_line=True),
        ]
        set_title(ax, summarize_differences(comparison, alpha, with_names=False), n_shown, n_features, legend)
    return ax
