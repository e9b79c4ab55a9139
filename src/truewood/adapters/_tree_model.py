"""`TreeModel`: what an adapter declares about a fitted model; all access to its trees is validated here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import InitVar, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._engines.records import RowLists
from truewood._engines.selection import get_engine
from truewood._exceptions import AdapterError
from truewood._inputs.losses import Loss
from truewood._inputs.tables import FeatureMatrix, InputSpec
from truewood._inputs.target import TargetKind
from truewood._trees.ensemble import TreeArrays, TreeEnsemble
from truewood.adapters._training_record import TrainingRecord


@dataclass(frozen=True, eq=False)
class TargetSpec:
    """The form of y, and how it becomes the target of the trees.

    Parameters
    ----------
    kind : TargetKind
        What the model predicts: the form of y.
    loss : Loss or None, default=None
        How y becomes the target of the trees; None if the trees were fit to y itself.
    why_no_loss : str or None, default=None
        Why no target can be computed from y, for a model without a `loss` whose trees were not fit to y.
    n_scores : int, default=1
        Number of columns of the target that `loss` computes, i.e. of raw scores per row.
    read_y : callable or None, default=None
        ``read_y(y)`` converts y to the form of `kind`, if the library uses another form.
    find_caveat : callable or None, default=None
        ``find_caveat(matrix, y)`` returns a sentence for the user on why scores may be misleading, or None;
        `matrix.values` has the rows as the trees read them, and y is the output of `read_y`.
    """

    kind: TargetKind
    loss: Loss | None = None
    why_no_loss: str | None = None
    n_scores: int = 1
    read_y: Callable[[Any], Any] | None = None
    find_caveat: Callable[[FeatureMatrix, Any], str | None] | None = None

    @property
    def is_y(self) -> bool:
        """Whether the trees were fit to y itself."""
        return self.loss is None and self.why_no_loss is None


@dataclass(frozen=True, eq=False)
class ReferencePredictor:
    """Leaves and predictions of the model's own library, to verify the trees that were read.

    Parameters
    ----------
    name, version : str
        The library, for messages.
    add_values : callable or None, default=None
        ``add_values(trees, values)`` returns the library's own sum of the values of a range of trees, shape (n_rows,
        n_columns). For additive trees, the range contains all trees, and the sum may differ by a constant per column.
    find_leaves : callable or None, default=None
        ``find_leaves(trees, values)`` returns the library's own leaves, shape (n_rows, n_trees), in any numbering.
    """

    name: str
    version: str
    add_values: Callable[[range, Any], NDArray[Any]] | None = None
    find_leaves: Callable[[range, Any], NDArray[Any]] | None = None


@dataclass(frozen=True, eq=False)
class TreeReader:
    """How to read the trees of a model.

    Parameters
    ----------
    n_nodes : ndarray of int, shape (n_trees,)
        Number of nodes of each tree.
    read : callable
        ``read(trees)`` returns a range of trees as a `TreeEnsemble`, so that a large forest is never in memory twice.
    is_additive : bool, default=False
        Whether the values of the trees add up to a raw score, rather than each being an estimate of the target.
    tree_weight : ndarray of shape (n_trees,), or None, default=None
        Weight of each tree in the mean; None if all are equal.
    find_leaves : callable or None, default=None
        ``find_leaves(trees, values)`` returns the leaf of each row in each tree of a range, shape (n_rows, n_trees), as
        node numbers within the tree, for a library that has to route rows itself.
    combined : tuple of str, default=()
        Names of features that combine several columns; their indices follow those of the columns. Only for a library
        that finds leaves itself.
    library : ReferencePredictor or None, default=None
        Leaves and predictions of the library itself; None if they are unavailable.
    find_tree_arrays : callable or None, default=None
        ``find_tree_arrays()`` returns views of the library's arrays for all trees, which must store training means, or
        None if trees have to be read. None if they always have to be read.
    """

    n_nodes: NDArray[np.int64]
    read: Callable[[range], TreeEnsemble]
    is_additive: bool = False
    tree_weight: NDArray[np.float64] | None = None
    find_leaves: Callable[[range, Any], NDArray[Any]] | None = None
    combined: tuple[str, ...] = ()
    library: ReferencePredictor | None = None
    find_tree_arrays: Callable[[], list[TreeArrays] | None] | None = None

    @classmethod
    def of_ensemble(cls, ensemble: TreeEnsemble, **parts: Any) -> TreeReader:
        """Create a reader of an ensemble; the other arguments are those of `TreeReader`."""
        return cls(
            n_nodes=np.diff(ensemble.offset),
            read=lambda trees: ensemble[trees.start : trees.stop],
            is_additive=ensemble.is_additive,
            **parts,
        )


@dataclass(frozen=True, eq=False)
class TreeModel:
    """A fitted model. Trees and leaves are validated each time they are read, because the kernel trusts them.

    Parameters
    ----------
    table : InputSpec
        The table it expects.
    target : TargetSpec
        The form of y, and how it becomes the target of the trees.
    reader : TreeReader
        How to read its trees; only this class uses it.
    training : TrainingRecord or None, default=None
        What it records about its training data.
    why_no_bags : str, optional
        Why there are no bags, and if possible a remedy: a predicate whose subject is the model's name, such as
        "does not record its bags".
    why_no_heldout : str or None, default=None
        Why the model cannot be scored on held-out rows, a predicate like `why_no_bags`; None if it can. Needed
        if nodes store no means of the target, which are then computed from the training data.
    has_predictions : bool, default=True
        Whether the values of leaves are predictions; if not, predictions cannot be explained.
    is_stopped_early : bool, default=False
        Whether the number of trees was chosen on validation rows.

    Attributes
    ----------
    name : str
        The model's class, for messages.
    n_nodes, tree_weight, is_additive, combined, library
        As in `TreeReader`.
    n_trees : int
        Number of trees.
    n_features : int
        Number of features that trees may split on: the columns, and combinations of them.
    finds_leaves : bool
        Whether the library finds leaves itself.
    has_bags : bool
        Whether the rows of each tree's bag are known.
    """

    table: InputSpec
    target: TargetSpec
    reader: InitVar[TreeReader]
    training: TrainingRecord | None = None
    why_no_bags: str = "does not record the rows in each tree's bootstrap sample"
    why_no_heldout: str | None = None
    has_predictions: bool = True
    is_stopped_early: bool = False

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
            "_read_one": lru_cache(maxsize=4)(reader.read),  # several checks read the same trees
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)
        self._check_reader()

    def _check_reader(self) -> None:
        """Raise an error if the reader is inconsistent."""
        n_nodes, tree_weight = self.n_nodes, self.tree_weight
        if self.table.n_features is None:
            raise self._contradict("must declare the number of columns the model was fit on")
        if n_nodes.ndim != 1 or not len(n_nodes) or n_nodes.dtype.kind not in "iu" or n_nodes.min() < 1:
            raise self._contradict("must declare the number of nodes of at least one tree, each with at least one node")
        if tree_weight is not None and not (
            tree_weight.shape == n_nodes.shape and np.isfinite(tree_weight).all() and tree_weight.min() >= 0
        ):
            raise self._contradict("must declare a tree weight that is finite and not negative for each tree")
        if not self.finds_leaves and (self.combined or self.table.dtype is None):
            raise self._contradict(
                "must set TreeReader.find_leaves, because its trees split on more than columns of numbers"
            )

    def _contradict(self, problem: str) -> AdapterError:
        return AdapterError(f"the adapter of {self.name} {problem}.")

    def split_trees(
        self, *, most_nodes: float, most_trees: float = math.inf, trees: range | None = None
    ) -> Iterator[range]:
        """Split a range of trees, all by default, into batches of limited size; a single tree may be larger."""
        trees = range(self.n_trees) if trees is None else trees
        start, size = trees.start, 0
        for tree in trees:
            own = int(self.n_nodes[tree])
            if tree > start and (size + own > most_nodes or tree - start == most_trees):
                yield range(start, tree)
                start, size = tree, 0
            size += own
        yield range(start, trees.stop)

    def read(self, trees: range) -> TreeEnsemble:
        """Read a range of trees; raise an error if they contradict the adapter, because engines trust them."""
        ensemble = self._read_one(trees) if len(trees) == 1 else self._reader.read(trees)
        if not np.array_equal(np.diff(ensemble.offset), self.n_nodes[trees.start : trees.stop]):
            raise self._contradict("reads trees whose numbers of nodes differ from those it declares")
        if ensemble.n_features != self.n_features:
            raise self._contradict(f"reads trees over {ensemble.n_features} columns, but declares {self.n_features}")
        if self.table.dtype not in (None, ensemble.x_dtype):
            raise self._contradict(f"reads trees that compare {ensemble.x_dtype}, but declares {self.table.dtype}")
        if ensemble.is_additive != self.is_additive:
            raise self._contradict("must declare the model additive if and only if its trees are")
        self._check_columns(ensemble)
        return ensemble

    def find_tree_arrays(self) -> list[TreeArrays] | None:
        """Views of the library's arrays for all trees; None if trees have to be read. Engines validate them."""
        find, n_columns = self._reader.find_tree_arrays, self.target.kind.n_columns
        trees = None if find is None else find()
        if trees is None:
            return None
        for tree, n_nodes in zip(trees, self.n_nodes, strict=True):
            if len(tree.feature) != n_nodes or tree.value.shape != (n_nodes, n_columns):
                raise self._contradict(
                    f"must give arrays of {n_nodes} nodes and {n_columns} columns of values, as it declares, got "
                    f"{len(tree.feature)} nodes and values of shape {tree.value.shape}"
                )
        return trees

    def _check_columns(self, ensemble: TreeEnsemble) -> None:
        """Raise an error if trees predict other target columns than declared."""
        if self.target.is_y and not self.is_additive:
            kind = self.target.kind
            is_right = list(map(len, ensemble.kind.classes)) == list(map(len, kind.classes))
            n_columns = kind.n_columns
        else:
            is_right, n_columns = not ensemble.kind.is_classification, self.target.n_scores
        if ensemble.column is None:
            is_right = is_right and ensemble.kind.n_columns == n_columns
        else:
            is_right = is_right and int(ensemble.column.max()) < n_columns
        if not is_right:
            raise self._contradict(
                f"reads trees whose target does not have the {n_columns} columns or the classes it declares"
            )

    def find_leaves(
        self, trees: range, ensemble: TreeEnsemble, matrix: FeatureMatrix, rows: RowLists, n_threads: int = 1
    ) -> NDArray[np.int32]:
        """Leaf of each listed row, shape (n,): from the engine, or from the library if it finds leaves itself.

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
        n_threads : int, default=1
            Number of threads of the engine.
        """
        if not self.finds_leaves:
            return get_engine().find_leaves(ensemble, matrix, rows, n_threads)
        found = self._find_library_leaves(trees, ensemble, matrix.values)
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
        """Leaves of `rows` in one tree, each column in turn taken from the row in `donors`, shape (n, n_features)."""
        if not self.finds_leaves:
            return get_engine().find_swapped_leaves(ensemble, matrix, rows, donors)
        if not isinstance(matrix.values, np.ndarray):
            raise ValueError(
                f"measure='permutation' needs numbers in X, but {self.name} reads X in its own format; "
                "use another measure."
            )
        trees, values, donated = range(tree, tree + 1), matrix.values[rows], matrix.values[donors]
        leaves = np.repeat(self._find_library_leaves(trees, ensemble, values), ensemble.n_features, axis=1)
        for feature in np.unique(ensemble.split_features):
            swapped = values.copy()
            swapped[:, feature] = donated[:, feature]
            leaves[:, feature] = self._find_library_leaves(trees, ensemble, swapped)[:, 0]
        return leaves.astype(np.int32)

    def _find_library_leaves(self, trees: range, ensemble: TreeEnsemble, values: Any) -> NDArray[np.int64]:
        """Leaf of every row according to the library, as node numbers within the tree, shape (n_rows, n_trees)."""
        if self._reader.find_leaves is None:
            raise self._contradict("must set TreeReader.find_leaves to find leaves in the library")
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
            raise self._contradict("finds nodes that are not leaves")
        return found
