"""Which rows score which tree: out-of-bag rows, held-out rows, or the caller's own lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood.adapters import ModelView
from truewood.data.tables import FeatureMatrix
from truewood.data.target import NumberTarget
from truewood.engines.engine import get_engine, keep_engine
from truewood.engines.row_lists import RowLists
from truewood.rows.errors import TrainingRowsError
from truewood.rows.guard import have_training_sums, is_counted, is_training_data
from truewood.rows.row_data import RowData
from truewood.trees.node_sums import NodeSums, add_up
from truewood.words import quote

# What `rows` is where rows are known to be unseen: "heldout" without a look at whether they could be those of the fit,
# which new rows that fall into the same leaves look like.
UNSEEN = "unseen"
_MOST_WITNESSES = 20


@dataclass(frozen=True, eq=False)
class RowChoice:
    """The unseen rows of each tree, found when they are asked for.

    Parameters
    ----------
    name : str
        "oob", "heldout" or "lists".
    unseen : callable
        ``unseen(tree)`` gives the tree's rows.
    are_training : bool
        Whether rows are those of the fit, so that a row scores some trees and grew the others.
    """

    name: str
    unseen: Callable[[int], NDArray[np.int64]]
    are_training: bool = False


def choose_rows(rows: Any, view: ModelView, data: RowData, n_threads: int = 1) -> RowChoice:
    """Read the argument `rows` of `importance`, and check that the data fits it."""
    if isinstance(rows, str) and rows in ("auto", "oob"):
        return _choose_oob(rows, view, data, n_threads)
    if isinstance(rows, str) and rows not in ("heldout", UNSEEN):
        raise ValueError(f"rows must be 'auto', 'oob', 'heldout' or one list of rows per tree, got {quote(rows)}.")
    if isinstance(rows, str):
        if rows != UNSEEN:
            _refuse_training(view, data, n_threads)
        every_row = np.arange(data.n_rows, dtype=np.int64)
        return RowChoice("heldout", lambda _tree: every_row)
    return _choose_lists(rows, view, data, n_threads)


def choose_without_y(rows: Any, view: ModelView, matrix: FeatureMatrix, n_threads: int = 1) -> RowChoice:
    """Read the argument `rows` where y is not known: rows are held-out ones, as far as counts at leaves tell."""
    nothing = np.zeros((matrix.n_rows, view.read(range(1)).kind.n_columns))
    data = RowData(matrix, NumberTarget.of_numbers(nothing), None)
    if view.is_additive:
        return choose_rows(rows, view, data, n_threads)
    if not isinstance(rows, str) or rows != "heldout":
        if isinstance(rows, str) and not view.has_bags:
            return choose_rows(rows, view, data, n_threads)  # says what is wrong
        raise ValueError(
            f"rows={quote(rows)} needs y, to recognise the rows of the fit; pass it, or rows='heldout' for rows "
            "that the model never saw."
        )

    def find_sums(tree: int) -> NodeSums:
        trees = range(tree, tree + 1)
        ensemble = view.read(trees)
        leaves = view.find_leaves(trees, ensemble, matrix, RowLists.join([every_row]), n_threads)
        n_nodes = len(ensemble.left)
        count = add_up(ensemble, np.bincount(leaves, minlength=n_nodes).astype(np.float64))
        zeros = np.zeros((n_nodes, 1))
        return NodeSums(count, zeros, zeros, np.zeros(1))

    every_row = np.arange(matrix.n_rows, dtype=np.int64)
    # Where nodes hold no means of y, y is not needed to compare all that they do hold.
    is_known = view.why_no_heldout is not None and is_training_data(view, int(view.n_nodes.argmax()), data, n_threads)
    if is_known or have_training_sums(view, find_sums, matrix.n_rows, are_counts=True, has_y=False):
        raise TrainingRowsError("rows='heldout' needs rows the model never saw, got the rows it was fit on.")
    return RowChoice("heldout", lambda _tree: every_row)


def _choose_oob(asked: str, view: ModelView, data: RowData, n_threads: int) -> RowChoice:
    training = view.training
    if training is None or not training.has_bags:
        remedy = "pass rows it never saw and rows='heldout', or refit it per fold with cross_importance"
        if view.why_no_heldout is not None:
            remedy = f"for rows='heldout' it {view.why_no_heldout}"
        raise ValueError(
            f"rows={quote(asked)} needs recorded out-of-bag rows, but {view.name} {view.why_no_bags}; {remedy}."
        )
    if not training.fits(data.n_rows):
        least = "" if training.is_exact else "at least "
        raise ValueError(
            f"rows='oob' needs the {least}{training.n_rows} rows this forest was fit on, got {data.n_rows}"
            f"{_offer_heldout(view)}."
        )
    if not _are_training(view, _choose_witnesses(view), data, n_threads):
        raise ValueError(
            "rows='oob' needs X and y as this forest was fit on, in the same order, but these rows do not give the "
            f"counts and values its trees have stored{_offer_heldout(view)}; if it was fit with sample_weight pass it."
        )

    def list_unseen(tree: int) -> NDArray[np.int64]:
        return get_engine().list_unseen(training.list_bag(tree, data.n_rows), data.n_rows)

    return RowChoice("oob", list_unseen, are_training=True)


def _are_training(view: ModelView, witnesses: list[int], data: RowData, n_threads: int) -> bool:
    """Whether rows are those of the fit, as far as some trees can tell."""
    n_at_once = min(n_threads, len(witnesses))
    check = partial(is_training_data, view, data=data, n_threads=max(1, n_threads // n_at_once))
    if n_at_once == 1:
        return all(map(check, witnesses))
    with ThreadPoolExecutor(n_at_once) as pool:
        return all(pool.map(keep_engine(check), witnesses))


def _offer_heldout(view: ModelView) -> str:
    return "; for other rows pass rows='heldout'" if view.why_no_heldout is None else ""


def _choose_witnesses(view: ModelView) -> list[int]:
    """Trees that the data is checked with: the first, the last, and some that split on columns these do not."""
    witnesses = sorted({0, view.n_trees - 1})
    is_used = np.zeros(view.n_features, dtype=np.bool_)
    for tree in [*witnesses, *range(1, min(view.n_trees - 1, _MOST_WITNESSES))]:
        if is_used.all():
            break
        columns = view.read(range(tree, tree + 1)).split_features
        if tree not in witnesses and not is_used[columns].all():
            witnesses.append(tree)
        is_used[columns] = True
    return witnesses


def _refuse_training(view: ModelView, data: RowData, n_threads: int) -> None:
    """Refuse rows that the model was fit on as held-out ones."""
    largest = int(view.n_nodes.argmax())
    is_known = (
        is_counted(view, data, n_threads) if view.is_additive else is_training_data(view, largest, data, n_threads)
    )
    if view.n_nodes[largest] > 1 and is_known:
        remedy = "rows='oob' uses what each tree never saw"
        if not view.has_bags:
            remedy = (
                f"{view.name} {view.why_no_bags}; if they are new rows that fall into the same leaves, pass "
                "rows=[range(len(X))] * number of trees"
            )
        raise TrainingRowsError(f"rows='heldout' needs rows the model never saw, got the rows it was fit on; {remedy}.")


def _choose_lists(rows: Any, view: ModelView, data: RowData, n_threads: int) -> RowChoice:
    if not isinstance(rows, Iterable):
        raise TypeError(
            f"rows must be 'auto', 'oob', 'heldout' or one list of rows per tree, got {type(rows).__name__}."
        )
    given = list(rows)
    if len(given) != view.n_trees:
        raise ValueError(f"rows must hold one list per tree: {view.n_trees}, got {len(given)}.")
    lists = [_read_list(tree, listed, data.n_rows) for tree, listed in enumerate(given)]
    training = view.training
    has_bags, largest = training is not None and training.has_bags, int(view.n_nodes.argmax())
    are_training = has_bags and is_training_data(view, largest, data, n_threads)
    if training is not None and are_training:
        bags = (training.list_bag(tree, data.n_rows) for tree in range(view.n_trees))
        pairs = enumerate(zip(lists, bags, strict=True))
        seen = next((tree for tree, (listed, bag) in pairs if np.isin(listed, bag).any()), None)
        if seen is not None:
            raise ValueError(
                f"rows[{seen}] must hold rows that tree {seen} never saw, got some of its bag; rows='oob' takes others."
            )
    return RowChoice("lists", lists.__getitem__, are_training)


def _read_list(tree: int, given: Any, n_rows: int) -> NDArray[np.int64]:
    # As objects, a ragged list is an array that is refused below rather than an error of numpy's.
    listed = given if isinstance(given, np.ndarray) else np.array(given, dtype=object)
    if listed.dtype == object and listed.ndim == 1:
        listed = np.array(given)
    if listed.dtype == np.bool_ and listed.shape == (n_rows,):
        return np.flatnonzero(listed)
    if listed.size == 0:
        return np.empty(0, dtype=np.int64)
    if listed.ndim != 1 or not np.issubdtype(listed.dtype, np.integer):
        raise ValueError(f"rows[{tree}] must be a list of row numbers or a mask of {n_rows} rows.")
    if listed.min() < 0 or listed.max() >= n_rows:
        raise ValueError(f"rows[{tree}] must hold row numbers from 0 to {n_rows - 1}.")
    return listed.astype(np.int64)
