"""`TreeModel`: what an adapter declares about a fitted model; all access to its trees is validated here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._engines.row_lists import RowLists
from truewood._engines.selection import get_engine
from truewood._exceptions import AdapterError
from truewood._inputs.losses import Loss
from truewood._inputs.tables import FeatureMatrix, InputSpec
from truewood._inputs.target import TargetKind
from truewood._trees.ensemble import TreeArrays, TreeEnsemble
from truewood.adapters._training_record import TrainingRecord


@dataclass(frozen=True, eq=False)
class TargetSpec:
    """What y is to a model, and how it becomes the target of its trees.

    Parameters
    ----------
    kind : TargetKind
        What the model predicts: what y is.
    loss : Loss or None
        How y becomes the target of the trees; None where the trees were fit to y itself.
    why_no_loss : str or None
        Why no target follows from y, for a model whose trees were not fit to y and that has no `loss`.
    n_scores : int
        Number of columns of the target that `loss` makes: of raw scores per row.
    read_y : callable or None
        ``read_y(y)`` gives y in the form of `kind`, where the library has a form of its own.
    find_doubt : callable or None
        ``find_doubt(matrix, y)`` says, given the rows and y as `read_y` gives it, why scores may not mean what they
        seem to, in a sentence for the caller; None where there is nothing to say.
    """

    kind: TargetKind
    loss: Loss | None = None
    why_no_loss: str | None = None
    n_scores: int = 1
    read_y: Callable[[Any], Any] | None = None
    find_doubt: Callable[[FeatureMatrix, Any], str | None] | None = None

    @property
    def is_y(self) -> bool:
        """Whether the trees were fit to y itself."""
        return self.loss is None and self.why_no_loss is None


@dataclass(frozen=True, eq=False)
class ReferencePredictor:
    """What a model's own library says of rows, to compare the trees with that were read.

    Parameters
    ----------
    name, version : str
        The library, for messages.
    add_values : callable or None
        ``add_values(trees, values)`` gives the library's own sum of the values of the trees of a range, shape (n_rows,
        n_columns). Of additive trees it is asked for all of them, and a constant per column does not matter.
    find_leaves : callable or None
        ``find_leaves(trees, values)`` gives the library's own leaves, shape (n_rows, n_trees), in any numbering.
    """

    name: str
    version: str
    add_values: Callable[[range, Any], NDArray[Any]] | None = None
    find_leaves: Callable[[range, Any], NDArray[Any]] | None = None


@dataclass(frozen=True, eq=False)
class TreeReader:
    """How the trees of a model are read.

    Parameters
    ----------
    n_nodes : ndarray of int, shape (n_trees,)
        Number of nodes of each tree.
    read : callable
        ``read(trees)`` gives the trees of a range as a `TreeEnsemble`, so that a large forest is never held twice.
    is_additive : bool
        Whether the trees' values add up to a raw score, rather than each being an estimate of the target.
    tree_weight : ndarray of shape (n_trees,), or None
        How much each tree counts in the mean; None where all count the same.
    find_leaves : callable or None
        ``find_leaves(trees, values)`` gives the leaf of each row in each tree of a range, shape (n_rows, n_trees), as
        node numbers within the tree, for a library that has to find them itself.
    combined : tuple of str
        Names of features that are made of several columns, which follow the columns in the numbering of features; only
        a library that finds leaves itself can have such.
    library : ReferencePredictor or None
        What the library itself says of rows; None where it cannot be asked.
    find_tree_arrays : callable or None
        ``find_tree_arrays(tree)`` gives a tree whose values are training means where it lies, and None where it has to
        be read; None where that holds for all trees.
    """

    n_nodes: NDArray[np.int64]
    read: Callable[[range], TreeEnsemble]
    is_additive: bool = False
    tree_weight: NDArray[np.float64] | None = None
    find_leaves: Callable[[range, Any], NDArray[Any]] | None = None
    combined: tuple[str, ...] = ()
    library: ReferencePredictor | None = None
    find_tree_arrays: Callable[[int], TreeArrays | None] | None = None

    @classmethod
    def of_ensemble(cls, ensemble: TreeEnsemble, **parts: Any) -> TreeReader:
        """Read from trees that have been read already, with the other parts of a reader."""
        return cls(
            n_nodes=np.diff(ensemble.offset),
            read=lambda trees: ensemble[trees.start : trees.stop],
            is_additive=ensemble.is_additive,
            **parts,
        )


@dataclass(frozen=True, eq=False)
class TreeModel:
    """A fitted model as truewood sees it. Trees and leaves are checked each time they are read: the kernel trusts them.

    Parameters
    ----------
    table : InputSpec
        The table it takes.
    target : TargetSpec
        What y is, and how it becomes the target of the trees.
    reader : TreeReader
        How its trees are read; only this class uses it.
    training : TrainingRecord or None
        What it remembers of the rows it was fit on.
    why_no_bags : str
        Why there are no bags, as the rest of a sentence that begins with the model's name.
    why_no_heldout : str or None
        Why only out-of-bag rows can score, as the rest of a sentence that begins with the model's name: it has no node
        means of its target, and only the training rows give them.
    has_predictions : bool
        Whether the values of leaves are what the trees predict; if not, predictions cannot be explained.

    Attributes
    ----------
    name : str
        The model's class, for messages.
    n_nodes, tree_weight, is_additive, combined, library
        As of `TreeReader`.
    n_trees : int
        Number of trees.
    n_features : int
        Number of features that trees may split on: the columns, and what is made of several of them.
    finds_leaves : bool
        Whether the library finds leaves itself.
    has_bags : bool
        Whether the rows of each tree's bag are known.
    """

    table: InputSpec
    target: TargetSpec
    reader: InitVar[TreeReader]
    training: TrainingRecord | None = None
    why_no_bags: str = "has no recorded bags"
    why_no_heldout: str | None = None
    has_predictions: bool = True

    name: str = field(init=False)
    n_nodes: NDArray[np.int64] = field(init=False)
    n_trees: int = field(init=False)
    n_features: int = field(init=False)
    is_additive: bool = field(init=False)
    tree_weight: NDArray[np.float64] | None = field(init=False)
    combined: tuple[str, ...] = field(init=False)
    finds_leaves: bool = field(init=False)
    library: ReferencePredictor | None = field(init=False)
    has_bags: bool = field(init=False)
    _reader: TreeReader = field(init=False)
    _read_one: Callable[[range], TreeEnsemble] = field(init=False)

    def __post_init__(self, reader: TreeReader) -> None:
        derived = {
            "name": self.table.model,
            "n_nodes": reader.n_nodes,
            "n_trees": len(reader.n_nodes),
            "n_features": (self.table.n_features or 0) + len(reader.combined),
            "is_additive": reader.is_additive,
            "tree_weight": reader.tree_weight,
            "combined": reader.combined,
            "finds_leaves": reader.find_leaves is not None,
            "library": reader.library,
            "has_bags": self.training is not None and self.training.has_bags,
            "_reader": reader,
            "_read_one": lru_cache(maxsize=4)(reader.read),  # several checks ask for the same trees
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)
        self._check_reader()

    def _check_reader(self) -> None:
        """Refuse what no tree could make good."""
        n_nodes, tree_weight = self.n_nodes, self.tree_weight
        if self.table.n_features is None:
            raise self._contradict("must say how many columns the model was fit on")
        if n_nodes.ndim != 1 or not len(n_nodes) or n_nodes.dtype.kind not in "iu" or n_nodes.min() < 1:
            raise self._contradict("must give the number of nodes of at least one tree, each with at least one node")
        if tree_weight is not None and not (
            tree_weight.shape == n_nodes.shape and np.isfinite(tree_weight).all() and tree_weight.min() >= 0
        ):
            raise self._contradict("must give each tree a weight that is finite and not negative")
        if not self.finds_leaves and (self.combined or self.table.dtype is None):
            raise self._contradict("must find leaves itself, as its trees do not split on columns of numbers alone")

    def _contradict(self, problem: str) -> AdapterError:
        return AdapterError(f"the adapter of {self.name} {problem}.")

    def read(self, trees: range) -> TreeEnsemble:
        """Read the trees of a range.

        Trees that contradict what the adapter says of the model are refused: engines read memory by their numbers.
        """
        ensemble = self._read_one(trees) if len(trees) == 1 else self._reader.read(trees)
        if not np.array_equal(np.diff(ensemble.offset), self.n_nodes[trees.start : trees.stop]):
            raise self._contradict("gives trees of other sizes than it says the model has")
        if ensemble.n_features != self.n_features:
            raise self._contradict(
                f"gives trees over {ensemble.n_features} columns, and says the model has {self.n_features}"
            )
        if self.table.dtype not in (None, ensemble.x_dtype):
            raise self._contradict(
                f"gives trees that compare {ensemble.x_dtype}, and says the model compares {self.table.dtype}"
            )
        if ensemble.is_additive != self.is_additive:
            raise self._contradict("must say of the model and of its trees alike whether they are additive")
        self._check_columns(ensemble)
        return ensemble

    def find_tree_arrays(self) -> list[TreeArrays] | None:
        """All trees where they lie; None where they have to be read. Engines check what they find there."""
        find = self._reader.find_tree_arrays
        if find is None:
            return None
        trees = []
        for tree, n_nodes in enumerate(self.n_nodes):
            found = find(tree)
            if found is None:
                return None
            if len(found.feature) != n_nodes or found.value.shape != (n_nodes, self.target.kind.n_columns):
                raise self._contradict("gives trees of other sizes than it says the model has")
            trees.append(found)
        return trees

    def _check_columns(self, ensemble: TreeEnsemble) -> None:
        """Refuse trees that speak of other columns of the target than there are."""
        if self.target.is_y and not self.is_additive:
            expected = [len(labels) for labels in self.target.kind.classes]
            is_right = [len(labels) for labels in ensemble.kind.classes] == expected
            n_columns = self.target.kind.n_columns
        else:
            is_right, n_columns = not ensemble.kind.is_classification, self.target.n_scores
        if ensemble.column is None:
            is_right = is_right and ensemble.kind.n_columns == n_columns
        else:
            is_right = is_right and int(ensemble.column.max()) < n_columns
        if not is_right:
            raise self._contradict(f"gives trees of another target than the {n_columns} columns it says the model has")

    def find_leaves(
        self, trees: range, ensemble: TreeEnsemble, matrix: FeatureMatrix, rows: RowLists, n_threads: int = 1
    ) -> NDArray[np.int32]:
        """Leaf of each listed row, shape (n,): from the engine, or from the library where it finds them itself.

        Parameters
        ----------
        trees : range
            Which trees.
        ensemble : TreeEnsemble
            These trees.
        matrix : FeatureMatrix
            All rows.
        rows : RowLists
            The rows to send down each tree.
        n_threads : int
            Number of threads of the engine.
        """
        if not self.finds_leaves:
            return get_engine().find_leaves(ensemble, matrix, rows, n_threads)
        found = self._ask_library(trees, ensemble, matrix.values)
        tree_of = np.repeat(np.arange(len(trees)), np.diff(rows.offset))
        return (found[rows.index, tree_of] + ensemble.offset[tree_of]).astype(np.int32)

    def find_swapped_leaves(
        self,
        tree: int,
        ensemble: TreeEnsemble,
        matrix: FeatureMatrix,
        rows: NDArray[np.int64],
        donors: NDArray[np.int64],
    ) -> NDArray[np.int32]:
        """Leaves in one tree with one column at a time taken from the donor row, shape (n, n_features)."""
        if not self.finds_leaves:
            return get_engine().find_swapped_leaves(ensemble, matrix, rows, donors)
        if not isinstance(matrix.values, np.ndarray):
            raise ValueError(f"columns of X cannot be permuted one by one in the form that {self.name} takes it in.")
        trees, values, donated = range(tree, tree + 1), matrix.values[rows], matrix.values[donors]
        leaves = np.repeat(self._ask_library(trees, ensemble, values), ensemble.n_features, axis=1)
        for feature in np.unique(ensemble.split_features):
            swapped = values.copy()
            swapped[:, feature] = donated[:, feature]
            leaves[:, feature] = self._ask_library(trees, ensemble, swapped)[:, 0]
        return leaves.astype(np.int32)

    def _ask_library(self, trees: range, ensemble: TreeEnsemble, values: Any) -> NDArray[np.int64]:
        """Leaf of every row, shape (n_rows, n_trees), within the tree, as the library finds it."""
        if self._reader.find_leaves is None:
            raise self._contradict("does not find leaves")
        found = np.asarray(self._reader.find_leaves(trees, values))
        shape = (values.shape[0], len(trees))
        if found.shape != shape or found.dtype.kind not in "iu":
            raise self._contradict(
                f"must find leaves as whole numbers of shape {shape}, got {found.dtype}, {found.shape}"
            )
        found = found.astype(np.int64)
        if found.size and not ((found >= 0) & (found < np.diff(ensemble.offset))).all():
            raise self._contradict("finds leaves that the trees do not have")
        if not (ensemble.left[found + ensemble.offset[:-1]] < 0).all():
            raise self._contradict("finds nodes that are no leaves")
        return found
