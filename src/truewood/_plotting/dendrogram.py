"""The tree of correlated columns as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.cluster.hierarchy import dendrogram

from truewood._plotting.style import MUTED, find_height, give_fonts, make_axes, name_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from truewood._correlated_groups import CorrelatedGroups

# Okabe and Ito's colours, one group after the other.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")


def draw_dendrogram(groups: CorrelatedGroups, ax: Axes | None) -> Axes:
    """Draw the tree; see `CorrelatedGroups.plot`."""
    n_columns, n_groups = len(groups.column_names), len(groups.several)
    if ax is None:
        ax = make_axes(find_height(n_columns))
    ax.spines[["top", "right", "left"]].set_visible(False)
    order = list(range(n_columns))
    if n_columns > 1:
        tree = dendrogram(groups.linkage, color_threshold=groups.cut, above_threshold_color="C0", no_plot=True)
        order = tree["leaves"]
        for places, distances, colour in zip(tree["icoord"], tree["dcoord"], tree["color_list"], strict=True):
            number = int(colour[1:])  # C0 above the threshold, then C1, C2, ... for one group after the other
            ax.plot(
                1.0 - np.array(distances),
                (np.array(places) - 5.0) / 10.0,  # scipy has leaves at 5, 15, 25, ...
                color=_COLOURS[number % len(_COLOURS)] if number else MUTED,
                linewidth=1.8 if number else 1.0,
            )
    ax.axvline(groups.threshold, color="black", linewidth=0.8, linestyle="--")
    ax.set_xlim(1.0, 0.0)
    name_rows(ax, [groups.column_names[leaf] for leaf in order])
    ax.set_xlabel("strength of the relation, on average:\nSpearman's correlation in size, or Cramér's V")
    title = f"{n_groups} group{'s' * (n_groups != 1)}" if n_groups else "No group"
    ax.set_title(f"{title} of correlated columns at {groups.threshold:g} (dashed)", fontsize="large")
    give_fonts(ax)
    return ax
