"""The nearest rows with the same label in numpy, with the operations of the kernel in the same order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._engines.records import RowNeighbors

Floats = NDArray[np.float64]

# The same value as in the kernel, so that both add in the same order.
_BLOCK_ROWS = 4096


def find_neighbors(
    values: NDArray[Any], columns: NDArray[np.int64], labels: Floats, tested: NDArray[np.int64], n_nearest: int
) -> RowNeighbors:
    """Find the rows nearest to each tested row; see `Engine.find_neighbors`."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return _find_neighbors(values, columns, labels, tested, n_nearest)


def _find_neighbors(
    values: NDArray[Any], columns: NDArray[np.int64], labels: Floats, tested: NDArray[np.int64], n_nearest: int
) -> RowNeighbors:
    found = RowNeighbors.allocate(len(tested), len(columns), n_nearest)
    for label in np.unique(labels[tested]):
        spread, largest = _measure_spread(values, columns, labels == label)
        for k in np.flatnonzero(labels[tested] == label).tolist():
            found.spread[k], found.largest[k] = spread, largest
    for k, row in enumerate(tested.tolist()):
        if not (found.spread[k] > 0).all():
            continue
        listed = np.flatnonzero(labels == labels[row])
        squares = np.zeros(len(listed))
        for column, spread in zip(columns, found.spread[k], strict=True):
            scaled = values[:, column].astype(np.float64) / spread
            squares += (scaled[listed] - scaled[row]) ** 2
        nearest = listed[np.argsort(squares, kind="stable")[:n_nearest]]
        found.n_found[k] = len(nearest)
        found.nearest[k, : len(nearest)] = nearest
    return found


def _measure_spread(
    values: NDArray[Any], columns: NDArray[np.int64], is_own: NDArray[np.bool_]
) -> tuple[Floats, float]:
    """Standard deviations of columns among some rows, and the largest value scaled by them; by blocks of all rows."""
    n, mean, squares, largest = 0.0, np.zeros(len(columns)), np.zeros(len(columns)), np.zeros(len(columns))
    for start in range(0, len(values), _BLOCK_ROWS):
        part = slice(start, start + _BLOCK_ROWS)
        block = values[part][is_own[part]][:, columns].astype(np.float64)
        if not len(block):
            continue
        n_here = float(len(block))
        # From the first row to the last; np.sum adds in another order.
        own = np.cumsum(block, axis=0)[-1] / n_here
        own_squares = np.cumsum((block - own) ** 2, axis=0)[-1]
        step, total = own - mean, n + n_here
        squares = squares + (own_squares + step * step * (n * n_here / total))
        mean = mean + step * (n_here / total)
        largest = np.fmax(largest, np.fmax.reduce(np.abs(block), axis=0))
        n = total
    spread = np.sqrt(squares / n)
    return spread, float(np.fmax.reduce(largest / spread, initial=0.0))
