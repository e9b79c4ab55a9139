"""Surfaces of pairs of features: means in the cells of both, for plots and reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from truewood._arguments import find_index
from truewood._formatting import format_number, list_names, quote
from truewood._read_only import make_read_only, restore_read_only

if TYPE_CHECKING:
    from truewood._results.interactions import Interactions

Floats = NDArray[np.float64]

# Cells with fewer rows are not drawn as points of a curve.
FEWEST_ROWS = 2


@dataclass(frozen=True, eq=False)
class JointSurfaces:
    """Joint effects on a grid of the values of two features: means over the evaluation rows in each cell.

    Attributes
    ----------
    pairs : ndarray of int64, shape (n_surfaces,)
        Index of each pair in the result.
    levels : ndarray of shape (n_features, n_cells)
        Mean value of each feature in each of its cells. Numeric features are binned at quantiles, and so are dates (in
        seconds since 1970). The cells of a categorical feature are its most frequent levels, numbered from 0. NaN for
        cells that do not exist, and for features that combine several columns.
    level_names : ndarray of str, shape (n_features, n_cells)
        Names of the levels of categorical columns, and dates; empty for numbers.
    joint : ndarray of shape (n_surfaces, n_outputs, n_cells, n_cells)
        Mean joint effect on each class or output: the part of the prediction that only the two features together add.
        NaN for empty cells.
    combined : ndarray of shape (n_surfaces, n_outputs, n_cells, n_cells)
        Mean of all that the two features add to the prediction, separately and together.
    observed : ndarray of shape (n_surfaces, n_outputs, n_cells, n_cells)
        Mean of the target minus the prediction without the two features; NaN if the model predicts a raw score that is
        not in units of the target.
    n_rows : ndarray of int64, shape (n_surfaces, n_cells, n_cells)
        Number of evaluation rows in each cell.
    """

    pairs: NDArray[np.int64]
    levels: Floats
    level_names: NDArray[np.str_]
    joint: Floats
    combined: Floats
    observed: Floats
    n_rows: NDArray[np.int64]

    def __post_init__(self) -> None:
        make_read_only(self)

    __setstate__ = restore_read_only


@dataclass(frozen=True, eq=False)
class PairSurface:
    """Means in the cells of two features, for one column of the prediction; the first axis is the first feature.

    Parameters
    ----------
    number : int
        Index of the pair in the result.
    features : tuple of (int, int)
        Indices of the two features.
    levels : tuple of two ndarray
        Mean value of each cell, as in `JointSurfaces`.
    level_names : tuple of two list of str
        Names of the cells; empty for numbers.
    joint, combined, observed, n_rows : ndarray of shape (n_cells_1, n_cells_2)
        As in `JointSurfaces`.
    output : str or None
        Name of the column of the prediction; None for a single number.
    """

    number: int
    features: tuple[int, int]
    levels: tuple[Floats, Floats]
    level_names: tuple[list[str], list[str]]
    joint: Floats
    combined: Floats
    observed: Floats
    n_rows: NDArray[np.int64]
    output: str | None

    @property
    def are_named(self) -> tuple[bool, bool]:
        """Whether the cells of each feature have names, as levels and dates do."""
        return any(self.level_names[0]), any(self.level_names[1])

    @property
    def are_categories(self) -> tuple[bool, bool]:
        """Whether the cells of each feature are levels without a scale."""
        first, second = (
            is_named and np.array_equal(levels, np.arange(len(levels)))
            for is_named, levels in zip(self.are_named, self.levels, strict=True)
        )
        return first, second

    def write_levels(self) -> tuple[list[str], list[str]]:
        """Write the levels of both features: names, or numbers in three or more digits."""
        first, second = (
            [
                name or (f"{number:.3g}" if abs(number) < 1e3 else format_number(number))
                for number, name in zip(numbers.tolist(), names, strict=True)
            ]
            for numbers, names in zip(self.levels, self.level_names, strict=True)
        )
        return first, second

    def swap(self) -> PairSurface:
        """Return the surface with the features in the other order."""
        means = (self.joint.T, self.combined.T, self.observed.T, self.n_rows.T)
        return PairSurface(
            self.number, self.features[::-1], self.levels[::-1], self.level_names[::-1], *means, self.output
        )


def read_surface(
    result: Interactions, pair: tuple[int | str, int | str] | None, output: int | str | None
) -> PairSurface:
    """Find the surface of a pair, with the features in the order given."""
    if pair is not None and (not isinstance(pair, tuple | list) or len(pair) != 2):
        raise ValueError(f"pair must be two names or indices of features, got {quote(pair)}.")
    number = int(result.order[0]) if pair is None else result.find_pair(*pair)
    first, second = result.pairs[number].tolist()
    names = result.feature_names[[first, second]].tolist()
    surfaces, column = result.surfaces, _find_column(result, output)
    places = [] if surfaces is None else np.flatnonzero(surfaces.pairs == number).tolist()
    if surfaces is None or not places:
        raise ValueError(
            f"the result has no surface of {list_names(names)}, only of the pairs with the highest scores; call "
            f"interactions with features={names!r}."
        )
    x, y = (own[~np.isnan(own)] for own in surfaces.levels[[first, second]])
    if not len(x) or not len(y):
        raise ValueError(
            f"a surface needs features of a single column each, got {list_names(names)}; choose another pair."
        )
    shown = (slice(len(x)), slice(len(y)))
    joint, combined, observed = (
        numbers[places[0], column][shown] for numbers in (surfaces.joint, surfaces.combined, surfaces.observed)
    )
    surface = PairSurface(
        number,
        (first, second),
        (x, y),
        (surfaces.level_names[first, : len(x)].tolist(), surfaces.level_names[second, : len(y)].tolist()),
        joint,
        combined,
        observed,
        surfaces.n_rows[places[0]][shown],
        None if result.output_names is None else str(result.output_names[column]),
    )
    return surface.swap() if pair is not None and pair[0] in (second, names[1]) else surface


def _find_column(result: Interactions, output: int | str | None) -> int:
    names = [] if result.output_names is None else result.output_names.tolist()
    if not names and output in (None, 0):
        return 0
    found = len(names) - 1 if output is None else find_index(output, names)
    if found is not None:
        return found
    listed = f"the index or name of one of {list_names(names)}" if names else "None, because there is one output"
    raise ValueError(f"output must be {listed}, got {quote(output)}.")
