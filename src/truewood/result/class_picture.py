"""A picture of scores by class, as a heat map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from truewood.inference.multiplicity import adjust
from truewood.result.drawing import BIASED, UNBIASED, add_colour_bar, find_letter_size, name_rows, set_title
from truewood.result.headline import name_level, name_unit
from truewood.words import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from truewood.result.importance_result import ImportanceResult

# Cells have numbers where they are large enough for them.
_SMALLEST_NUMBERS = 6.0
_MOST_NUMBERED = 10
_MOST_DECIMALS = 9
# Classes, and letters of their names side by side, that a picture has room for.
_MOST_NAMED_CLASSES = 60
_MOST_LETTERS = 60


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
    if result.no_inference is None:
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
