"""A picture of the differences of two results, and which of them differ, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from truewood._formatting import shorten
from truewood._plotting.style import (
    BIASED,
    MUTED,
    UNBIASED,
    find_letter_size,
    give_fonts,
    head,
    make_key,
    name_rows,
    prepare,
)
from truewood._results.summary import name_level, name_measure, name_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from truewood._results.comparison import Comparison


def draw_differences(comparison: Comparison, *, top: int | None, ax: Axes | None, alpha: float) -> Axes:
    """Draw the differences of two results; see `Comparison.plot`."""
    n_features = len(comparison.difference)
    n_shown, ax = prepare(n_features, None, top, ax)
    order = comparison.order[:n_shown]
    places, difference, is_found = np.arange(n_shown), comparison.difference[order], find_differing(comparison, alpha)
    low, high = comparison.interval()
    colours = np.where(is_found[order], np.where(difference > 0, UNBIASED, BIASED), MUTED)
    size = min(7.0, 0.7 * (find_letter_size(ax, n_shown) or 3.0))
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
