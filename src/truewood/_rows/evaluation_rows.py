"""Which rows evaluate which tree: out-of-bag rows, held-out rows, or the caller's own lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._engines.records import RowLists
from truewood._engines.selection import get_engine, keep_engine
from truewood._exceptions import TrainingRowsError
from truewood._formatting import quote
from truewood._inputs.tables import FeatureMatrix, RowData
from truewood._inputs.target import NumberTarget
from truewood._rows.copies import Copies
from truewood._rows.training_check import have_leaf_weights, have_training_sums, is_training_data
from truewood._trees.node_sums import NodeSums, aggregate_to_root
from truewood.adapters import BagSeeds, TrainingRecord, TreeModel

_MOST_CHECKED = 20
_REFIT = "to score features or pairs without such rows, refit it per fold with cross_importance or cross_interactions"


@dataclass(frozen=True, eq=False)
class EvaluationRows:
    """The evaluation rows of each tree, found on demand.

    Parameters
    ----------
    name : {"oob", "heldout", "lists"}
        Where they come from.
    of_tree : callable
        ``of_tree(tree)`` gives the row numbers for a tree.
    are_training : bool
        Whether the rows are the training data, so that a row evaluates some trees and is in bag for others.
    copies : Copies or None
        Rows that are copies of each other, if a row does not evaluate trees with a copy of it in their bag; None if
        there are no copies.
    bag_seeds : BagSeeds or None
        Seeds of the bags, if the rows are all rows outside these bags; None if bags have to be listed.
    """

    name: str
    of_tree: Callable[[int], NDArray[np.int64]]
    are_training: bool = False
    copies: Copies | None = None
    bag_seeds: BagSeeds | None = None

    def of_trees(self, trees: range) -> RowLists:
        """Rows of several trees."""
        return RowLists.join([self.of_tree(tree) for tree in trees])

    @property
    def are_all_oob(self) -> bool:
        """Whether each tree is evaluated on all rows that are not in its bag."""
        return self.name == "oob" and self.copies is None


def choose_evaluation_rows(
    rows: Any, tree_model: TreeModel, data: RowData, n_threads: int = 1, *, check_heldout: bool = True
) -> EvaluationRows:
    """Read the argument `rows` of `importance`, and check that the data matches it.

    Parameters
    ----------
    rows : str or sequence of array-like
        The argument of `importance`.
    tree_model : TreeModel
        The model.
    data : RowData
        All rows.
    n_threads : int
        Number of threads.
    check_heldout : bool
        Whether to refuse held-out rows that look like the training data. New rows that happen to fall into the same
        leaves look so, too; pass False if rows are known to be held out.
    """
    if isinstance(rows, str) and rows in ("auto", "oob"):
        return _choose_oob(rows, tree_model, data, n_threads)
    if isinstance(rows, str):
        if rows != "heldout":
            raise ValueError(f"rows must be 'auto', 'oob', 'heldout' or one list of rows per tree, got {quote(rows)}.")
        if check_heldout:
            _refuse_training(tree_model, data, n_threads)
        list_rows = cache(partial(np.arange, data.n_rows, dtype=np.int64))
        return EvaluationRows("heldout", lambda _tree: list_rows())
    return _choose_lists(rows, tree_model, data, n_threads)


def leave_out_copies(evaluation_rows: EvaluationRows, copies: Copies, tree_model: TreeModel) -> EvaluationRows:
    """Leave out rows that have a copy in a tree's bag, as far as bags are known."""
    training, n_rows = tree_model.training, len(copies.groups)
    if training is None or not evaluation_rows.are_training:
        return evaluation_rows

    def list_uncopied(tree: int) -> NDArray[np.int64]:
        return copies.drop_copies(evaluation_rows.of_tree(tree), training.list_bag(tree, n_rows))

    return replace(evaluation_rows, of_tree=list_uncopied, copies=copies, bag_seeds=None)


def choose_evaluation_rows_without_target(
    rows: Any, tree_model: TreeModel, matrix: FeatureMatrix, n_threads: int = 1
) -> EvaluationRows:
    """Read the argument `rows` without y: rows must be held out, as far as counts at leaves show."""
    zeros = np.zeros((matrix.n_rows, tree_model.read(range(1)).kind.n_columns))
    data = RowData(matrix, NumberTarget.of_numbers(zeros), None)
    if tree_model.is_additive:
        return choose_evaluation_rows(rows, tree_model, data, n_threads)
    if not isinstance(rows, str) or rows != "heldout":
        if isinstance(rows, str) and not tree_model.has_bags:
            return choose_evaluation_rows(rows, tree_model, data, n_threads)  # raises
        raise ValueError(
            f"rows={quote(rows)} needs y, to recognize the training data; pass y, or rows='heldout' for rows that the "
            "model never saw."
        )

    def find_sums(tree: int) -> NodeSums:
        trees = range(tree, tree + 1)
        ensemble = tree_model.read(trees)
        leaves = tree_model.find_leaves(trees, ensemble, matrix, RowLists.join([every_row]), n_threads)
        n_nodes = len(ensemble.left)
        count = aggregate_to_root(ensemble, np.bincount(leaves, minlength=n_nodes).astype(np.float64))
        zeros = np.zeros((n_nodes, 1))
        return NodeSums(count, zeros, zeros, np.zeros(1))

    every_row = np.arange(matrix.n_rows, dtype=np.int64)
    # If nodes hold no means of y, everything they do hold can be compared without y.
    is_known = tree_model.why_no_heldout is not None and is_training_data(
        tree_model, int(tree_model.n_nodes.argmax()), data, n_threads
    )
    if is_known or have_training_sums(tree_model, find_sums, matrix.n_rows, are_counts=True, has_y=False):
        raise TrainingRowsError(
            "rows='heldout' needs rows the model never saw, got its training data; pass other rows."
        )
    return EvaluationRows("heldout", lambda _tree: every_row)


def _choose_oob(asked: str, tree_model: TreeModel, data: RowData, n_threads: int) -> EvaluationRows:
    training = tree_model.training
    if training is None or not training.has_bags:
        remedy = f"pass rows='heldout' and rows that it never saw; {_REFIT}"
        if tree_model.why_no_heldout is not None:
            remedy = f"rows='heldout' is not possible either, because it {tree_model.why_no_heldout}"
        raise ValueError(
            f"rows={quote(asked)} needs recorded out-of-bag rows, but {tree_model.name} {tree_model.why_no_bags}; "
            f"{remedy}."
        )
    alternative = "; for other rows pass rows='heldout'" if tree_model.why_no_heldout is None else ""
    if not training.fits(data.n_rows):
        which = "the" if training.is_exact else "at least the"
        raise ValueError(
            f"rows='oob' needs {which} {training.n_rows} rows this forest was fit on, got {data.n_rows}{alternative}."
        )
    if not _is_training_sample(tree_model, data, n_threads):
        raise ValueError(
            "rows='oob' needs the X and y this forest was fit on, in the same order, but these rows do not reproduce "
            "the counts and values stored in its trees; if the fit used sample_weight, pass the same weights"
            f"{alternative}."
        )

    engine, n_rows, drawn = get_engine(), data.n_rows, find_bag_seeds(training, tree_model.n_trees, data.n_rows)

    def list_oob_rows(tree: int) -> NDArray[np.int64]:
        if drawn is None:
            return engine.list_oob_rows(training.list_bag(tree, n_rows), n_rows)
        return engine.list_oob_rows(engine.draw_bag(int(drawn.seeds[tree]), drawn.n_draws, n_rows), n_rows)

    return EvaluationRows("oob", list_oob_rows, are_training=True, bag_seeds=drawn)


def find_bag_seeds(training: TrainingRecord, n_trees: int, n_rows: int) -> BagSeeds | None:
    """Seeds of the bags, if the engine reproduces the library's first and last bag from them; None to list the bags."""
    found, draw_bag = training.bag_seeds, get_engine().draw_bag
    if found is None or len(found.seeds) != n_trees or not 0 < n_rows < 1 << 31:
        return None
    for tree in (0, n_trees - 1):
        if not np.array_equal(draw_bag(int(found.seeds[tree]), found.n_draws, n_rows), training.list_bag(tree, n_rows)):
            return None
    return found


def _is_training_sample(tree_model: TreeModel, data: RowData, n_threads: int) -> bool:
    """Whether rows are the training data, as far as a sample of trees shows.

    The sample is the first tree, the last one, and some that split on columns these do not split on.
    """
    sample = sorted({0, tree_model.n_trees - 1})
    is_used = np.zeros(tree_model.n_features, dtype=np.bool_)
    for tree in [*sample, *range(1, min(tree_model.n_trees - 1, _MOST_CHECKED))]:
        if is_used.all():
            break
        columns = tree_model.read(range(tree, tree + 1)).split_features
        if tree not in sample and not is_used[columns].all():
            sample.append(tree)
        is_used[columns] = True
    n_at_once = min(n_threads, len(sample))
    check = partial(is_training_data, tree_model, data=data, n_threads=max(1, n_threads // n_at_once))
    if n_at_once == 1:
        return all(map(check, sample))
    with ThreadPoolExecutor(n_at_once) as pool:
        return all(pool.map(keep_engine(check), sample))


def _refuse_training(tree_model: TreeModel, data: RowData, n_threads: int) -> None:
    """Refuse training rows as held-out rows."""
    largest = int(tree_model.n_nodes.argmax())
    is_known = (
        have_leaf_weights(tree_model, data, n_threads)
        if tree_model.is_additive
        else is_training_data(tree_model, largest, data, n_threads)
    )
    if tree_model.n_nodes[largest] > 1 and is_known:
        remedy = "pass rows='oob' to use each tree only for its out-of-bag rows"
        if not tree_model.has_bags:
            remedy = f"pass other rows; {_REFIT}"
        raise TrainingRowsError(
            f"rows='heldout' needs rows that this {tree_model.name} never saw, got its training data; {remedy}."
        )


def _choose_lists(rows: Any, tree_model: TreeModel, data: RowData, n_threads: int) -> EvaluationRows:
    if not isinstance(rows, Iterable):
        raise TypeError(
            f"rows must be 'auto', 'oob', 'heldout' or one list of rows per tree, got {type(rows).__name__}."
        )
    given = list(rows)
    if len(given) != tree_model.n_trees:
        raise ValueError(f"rows must contain one list for each of the {tree_model.n_trees} trees, got {len(given)}.")
    lists = [_read_list(tree, listed, data.n_rows) for tree, listed in enumerate(given)]
    training = tree_model.training
    has_bags, largest = training is not None and training.has_bags, int(tree_model.n_nodes.argmax())
    are_training = has_bags and is_training_data(tree_model, largest, data, n_threads)
    if training is not None and are_training:
        for tree, listed in enumerate(lists):
            if np.isin(listed, training.list_bag(tree, data.n_rows)).any():
                raise ValueError(
                    f"rows[{tree}] must contain only out-of-bag rows of tree {tree}, got some in-bag rows; for all "
                    "out-of-bag rows pass rows='oob'."
                )
    return EvaluationRows("lists", lists.__getitem__, are_training)


def _read_list(tree: int, given: Any, n_rows: int) -> NDArray[np.int64]:
    # As objects, so that a ragged list becomes an array that is refused below and not an error from numpy.
    listed = given if isinstance(given, np.ndarray) else np.array(given, dtype=object)
    if listed.dtype == object and listed.ndim == 1:
        listed = np.array(given)
    if listed.dtype == np.bool_ and listed.shape == (n_rows,):
        return np.flatnonzero(listed)
    if listed.size == 0:
        return np.empty(0, dtype=np.int64)
    if listed.ndim != 1 or not np.issubdtype(listed.dtype, np.integer):
        raise ValueError(
            f"rows[{tree}] must be a list of row numbers or a mask of {n_rows} rows, "
            f"got an array of {listed.dtype}, shape {listed.shape}."
        )
    if listed.min() < 0 or listed.max() >= n_rows:
        raise ValueError(
            f"rows[{tree}] must contain row numbers from 0 to {n_rows - 1}, got {listed.min()} to {listed.max()}."
        )
    return listed.astype(np.int64)


def check_group_bags(groups: NDArray[np.int64], evaluation_rows: EvaluationRows, tree_model: TreeModel) -> None:
    """Refuse groups with rows both in the bag of a tree and among its evaluation rows, as far as bags are known."""
    n_rows, n_groups = len(groups), int(groups.max()) + 1
    if tree_model.training is None or not evaluation_rows.are_training or n_groups == n_rows:
        return
    for tree in range(tree_model.n_trees):
        is_in_bag = np.zeros(n_groups, dtype=np.bool_)
        is_in_bag[groups[tree_model.training.list_bag(tree, n_rows)]] = True
        if is_in_bag[groups[evaluation_rows.of_tree(tree)]].any():
            raise ValueError(
                f"groups must be entirely in or entirely outside the bootstrap sample of a tree, but tree {tree} was "
                "trained on some rows of a group and is scored on others; use cross_importance or "
                "cross_interactions with cv=GroupKFold(), held-out groups with rows='heldout', or a forest that draws "
                "bootstrap samples by group."
            )
