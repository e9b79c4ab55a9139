"""Dendrogram of correlated columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.cluster.hierarchy import dendrogram

from truewood._formatting import count
from truewood._plotting.style import MUTED, label_rows, open_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from truewood._correlated_groups import CorrelatedGroups

# The Okabe-Ito palette, one color per group.
_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")


def draw_dendrogram(groups: CorrelatedGroups, ax: Axes | None) -> Axes:
    """Plot the dendrogram; see `CorrelatedGroups.plot`."""
    n_columns, n_groups = len(groups.column_names), len(groups.several)
    with open_axes(n_columns, None, ax) as (_, ax):
        ax.spines["left"].set_visible(False)
        order = list(range(n_columns))
        if n_columns > 1:
            tree = dendrogram(groups.linkage, color_threshold=groups.cut, above_threshold_color="C0", no_plot=True)
            order = tree["leaves"]
            for positions, distances, color in zip(tree["icoord"], tree["dcoord"], tree["color_list"], strict=True):
                number = int(color[1:])  # C0 above the threshold, then C1, C2, ... for each group
                ax.plot(
                    1.0 - np.array(distances),
                    (np.array(positions) - 5.0) / 10.0,  # scipy places leaves at 5, 15, 25, ...
                    color=_COLORS[number % len(_COLORS)] if number else MUTED,
                    linewidth=1.8 if number else 1.0,
                )
        ax.axvline(groups.threshold, color="black", linewidth=0.8, linestyle="--")
        ax.set_xlim(1.0, 0.0)
        label_rows(ax, [groups.column_names[leaf] for leaf in order])
        ax.set_xlabel("average absolute Spearman correlation, or Cramér's V for categories")
        title = f"{count(n_groups, 'group')}" if n_groups else "No groups"
        ax.set_title(f"{title} of correlated columns (threshold {groups.threshold:g}, dashed)", fontsize="large")
    return ax
