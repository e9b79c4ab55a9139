"""Plot of a permutation test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from truewood._formatting import count, state_p_value
from truewood._measures.registry import get_measure
from truewood._plotting.style import (
    MUTED,
    UNBIASED,
    label_rows,
    make_legend_entry,
    open_axes,
    set_title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from truewood._permutation_test import PermutationTestResult


def draw_permutation_test(test: PermutationTestResult, *, top: int | None, ax: Axes | None) -> Axes:
    """Plot the scores and the null distribution; see `PermutationTestResult.plot`."""
    values, null, p_value = test.values, test.null, test.p_value
    with open_axes(len(values), top, ax) as (n_shown, ax):
        order = np.argsort(-values, kind="stable")[:n_shown]
        positions = np.arange(n_shown)
        ax.plot(null[:, order].ravel(), np.tile(positions, len(null)), "|", color=MUTED, markersize=8, alpha=0.4)
        ax.plot(values[order], positions, "o", color=UNBIASED, markersize=6)
        for position, j in enumerate(order):
            text = state_p_value(p_value[j])
            ax.text(
                1.01, position, text, transform=ax.get_yaxis_transform(), va="center", fontsize="small", color=MUTED
            )
        ax.axvline(0, color="black", linewidth=0.8)
        ax.locator_params(axis="x", nbins=5)
        label_rows(ax, test.feature_names[order].tolist())
        ax.set_xlabel(get_measure(test.measure).title)
        title = f"Scores and {count(len(null), 'permutation')} of the target"
        legend = [make_legend_entry("score", UNBIASED, "o"), make_legend_entry("permuted target", MUTED, "|")]
        set_title(ax, title, n_shown, len(values), legend)
    return ax
