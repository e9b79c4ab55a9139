"""Picture of a permutation test: scores beside those of the same model on permuted targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from truewood.formulas.registry import get_measure
from truewood.result.drawing import MUTED, UNBIASED, head, make_key, name_rows, prepare
from truewood.result.fonts import give_fonts
from truewood.words import count, format_p_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]


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
