"""Which rows score which tree: out-of-bag rows, held-out rows, or the caller's own lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood.adapters import ModelView
from truewood.frames import FeatureMatrix
from truewood.routing import get_engine
from truewood.target import Target
from truewood.training import is_training_data


@dataclass(frozen=True, eq=False)
class RowChoice:
    """The unseen rows of each tree, found when they are asked for.

    Parameters
    ----------
    name : str
        "oob", "heldout" or "lists".
    unseen : callable
        ``unseen(tree)`` gives the tree's rows.
    """

    name: str
    unseen: Callable[[int], NDArray[np.int64]]


def choose_rows(
    rows: Any,
    view: ModelView,
    matrix: FeatureMatrix,
    target: Target,
    sample_weight: NDArray[np.float64] | None,
) -> RowChoice:
    """Read the argument `rows` of `importance`, and check that the data fits it."""
    if not isinstance(rows, str):
        return _choose_lists(rows, view.n_trees, matrix.n_rows)
    if rows == "auto":
        if view.bags is None:
            raise ValueError(
                f"rows='auto' needs recorded out-of-bag rows, but {view.name} {view.no_bags}; pass rows it never saw "
                "and rows='heldout'."
            )
        rows = "oob"
    if rows == "oob":
        return _choose_oob(view, matrix, target, sample_weight)
    if rows == "heldout":
        return _choose_heldout(view, matrix, target, sample_weight)
    raise ValueError(f"rows must be 'auto', 'oob', 'heldout' or one list of rows per tree, got {rows!r}.")


def _choose_oob(
    view: ModelView, matrix: FeatureMatrix, target: Target, sample_weight: NDArray[np.float64] | None
) -> RowChoice:
    bags = view.bags
    if bags is None:
        raise ValueError(
            f"rows='oob' needs recorded out-of-bag rows, but {view.name} {view.no_bags}; pass rows it never saw and "
            "rows='heldout'."
        )
    if bags.n_rows is not None and bags.n_rows != matrix.n_rows:
        raise ValueError(
            f"rows='oob' needs the {bags.n_rows} rows this forest was fit on, got {matrix.n_rows}; for other rows pass "
            "rows='heldout'."
        )
    if not all(is_training_data(view, tree, matrix, target, sample_weight) for tree in sorted({0, view.n_trees - 1})):
        raise ValueError(
            "rows='oob' needs X and y as this forest was fit on, in the same order, but these rows do not give the "
            "counts and means its trees have stored; for other rows pass rows='heldout', and if it was fit with "
            "sample_weight pass that too."
        )
    return RowChoice("oob", lambda tree: get_engine().list_unseen(bags.draw(tree), matrix.n_rows))


def _choose_heldout(
    view: ModelView, matrix: FeatureMatrix, target: Target, sample_weight: NDArray[np.float64] | None
) -> RowChoice:
    if view.n_nodes[0] > 1 and is_training_data(view, 0, matrix, target, sample_weight):
        remedy = f"{view.name} {view.no_bags}" if view.bags is None else "rows='oob' uses the ones each tree never saw"
        raise ValueError(f"rows='heldout' needs rows the model never saw, got the rows it was fit on; {remedy}.")
    every_row = np.arange(matrix.n_rows, dtype=np.int64)
    return RowChoice("heldout", lambda _tree: every_row)


def _choose_lists(rows: Any, n_trees: int, n_rows: int) -> RowChoice:
    try:
        lists = [np.asarray(list_) for list_ in rows]
    except TypeError as error:
        raise TypeError(
            f"rows must be 'auto', 'oob', 'heldout' or one list of rows per tree, got {type(rows).__name__}."
        ) from error
    if len(lists) != n_trees:
        raise ValueError(f"rows must hold one list per tree: {n_trees}, got {len(lists)}.")
    return RowChoice("lists", [_read_list(t, list_, n_rows) for t, list_ in enumerate(lists)].__getitem__)


def _read_list(tree: int, listed: NDArray[Any], n_rows: int) -> NDArray[np.int64]:
    if listed.dtype == np.bool_ and listed.shape == (n_rows,):
        return np.flatnonzero(listed)
    if listed.size == 0:
        return np.empty(0, dtype=np.int64)
    if listed.ndim != 1 or not np.issubdtype(listed.dtype, np.integer):
        raise ValueError(f"rows[{tree}] must be a list of row numbers or a mask of {n_rows} rows.")
    if listed.min() < 0 or listed.max() >= n_rows:
        raise ValueError(f"rows[{tree}] must hold row numbers from 0 to {n_rows - 1}.")
    return listed.astype(np.int64)
