"""`Engine`: what sends rows down trees, and which engine is in use."""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from truewood._arguments import is_choice
from truewood._exceptions import NativeEngineWarning
from truewood._formatting import quote
from truewood._inputs.device_arrays import is_on_device, take_from_device
from truewood._inputs.tables import FeatureMatrix
from truewood._inputs.target import Target, TargetKind
from truewood._trees.ensemble import TreeArrays, TreeEnsemble
from truewood._trees.node_sums import NodeSums, RowTerms

ENGINE_VARIABLE = "TRUEWOOD_ENGINE"
ENGINES = ("native", "numpy", "cuda")
# Influence values that are held at a time in the host's memory.
MOST_INFLUENCE_VALUES = 1 << 25

P = ParamSpec("P")
T = TypeVar("T")
Floats = NDArray[np.float64]

# The rows of each tree: None where every row evaluates every tree; seeds of bags and a number of draws; a bag for each
# tree; or for each tree its evaluation rows, with the weights of all rows in both roles where influence is computed.
RowsOfTrees = (
    None
    | tuple[NDArray[np.uint32], int]
    | list[NDArray[np.int64]]
    | list[tuple[NDArray[np.int64], Floats | None, Floats | None]]
)


class Engine(ABC):
    """Sends rows down trees: leaves, sums at nodes, the influence of single rows, and all of that fused.

    All engines give the same numbers; the native and the numpy engine give the same bits.
    """

    name: str
    # Whether X may stay on a GPU.
    reads_device_rows = False
    # Whether `score_trees` is available. It has the formulas of all measures with row terms.
    can_fuse = False
    # Makes zeros where fused scoring adds influence fastest.
    make_zeros: Callable[..., Any] = staticmethod(np.zeros)

    @abstractmethod
    def draw_bag(self, seed: int, n_draws: int, n_rows: int) -> NDArray[np.int64]:
        """Draw the bag of a seed, as numpy's ``RandomState(seed).randint(0, n_rows, n_draws)`` does."""

    @abstractmethod
    def list_oob_rows(self, bag: NDArray[Any], n_rows: int) -> NDArray[np.int64]:
        """Rows that are not in a bag, ascending."""

    @abstractmethod
    def find_leaves(
        self, ensemble: TreeEnsemble, matrix: FeatureMatrix, rows: RowLists, n_threads: int = 1
    ) -> NDArray[np.int32]:
        """Leaf of each listed row in the tree it is listed for, shape (n,), as positions in the ensemble's arrays."""

    @abstractmethod
    def find_swapped_leaves(
        self, ensemble: TreeEnsemble, matrix: FeatureMatrix, rows: NDArray[np.int64], donors: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        """Leaves in an ensemble of one tree with one column at a time taken from the donor row, (n, n_features)."""

    @abstractmethod
    def sum_leaves(
        self,
        ensemble: TreeEnsemble,
        leaves: NDArray[np.int32],
        rows: RowLists,
        target: Target,
        row_weight: Floats | None,
    ) -> NodeSums:
        """Sum rows at their leaves, chunk by chunk in row order, and from there up to the roots."""

    @abstractmethod
    def sum_nodes(
        self,
        ensemble: TreeEnsemble,
        matrix: FeatureMatrix,
        target: Target,
        row_weight: Floats | None,
        n_threads: int = 1,
    ) -> NodeSums:
        """Sum every row at the nodes of all trees; squares are not summed for additive trees."""

    @abstractmethod
    def add_influence(
        self,
        ensemble: TreeEnsemble,
        matrix: FeatureMatrix,
        target: Target,
        row_weight: Floats | None,
        terms: RowTerms,
        tree_weight: Floats,
        out: Floats,
        n_threads: int = 1,
    ) -> None:
        """Add to `out` the influence of every row on each feature, over all trees, shape (n_rows, n_features)."""

    @abstractmethod
    def add_path_influence(
        self,
        ensemble: TreeEnsemble,
        leaves: NDArray[np.int32],
        rows: RowLists,
        weight: Floats,
        target: Target,
        terms: RowTerms,
        out: Floats,
    ) -> None:
        """Add to `out` the influence of listed rows on each feature, (n_rows, n_features), given their leaves.

        That is the weight of a row times its terms at the nodes on its path, summed from the root down. `weight` is
        parallel to the list; a row is listed at most once for a tree.
        """

    @abstractmethod
    def add_sobol_projection(
        self,
        ensemble: TreeEnsemble,
        matrix: FeatureMatrix,
        target: Target,
        *,
        in_bag: RowLists,
        in_bag_weight: Floats,
        evaluation: RowLists,
        prediction: Floats,
        tree_weight: Floats,
        group_of: NDArray[np.int32],
        out: Floats,
        n_threads: int = 1,
    ) -> None:
        """Add to `out` how predictions for evaluation rows change without each group of columns.

        Parameters
        ----------
        ensemble, matrix, target
            The trees, all rows, and their target.
        in_bag : RowLists
            In-bag rows of each tree, ascending.
        in_bag_weight : ndarray of shape (n_in_bag,)
            Their weights, parallel to the list.
        evaluation : RowLists
            Evaluation rows of each tree.
        prediction : ndarray of shape (n_evaluation, n_columns)
            What the tree predicts for these, minus the target's origin.
        tree_weight : ndarray of shape (n_trees,)
            How much each tree counts.
        group_of : ndarray of int32, shape (n_features,)
            The group of each column; negative where no group is projected out.
        out : ndarray of shape (n_rows, n_groups, n_columns)
            Where predictions without the group minus predictions with it are added.
        n_threads : int
            Number of threads.
        """

    @abstractmethod
    def sum_row_products(
        self,
        eval_influence: Floats,
        inbag_influence: Floats | None,
        is_scoring: NDArray[np.bool_],
        total_weight: float,
        mean: Floats,
        bags: NDArray[np.float32] | None,
        n_threads: int = 1,
    ) -> RowProducts:
        """Sum products of influence over rows, each divided by `total_weight` and minus `mean`.

        Both influences have shape (n_rows, n_columns), `is_scoring` selects the rows that count, and `bags` holds the
        weights of rows in the bags of some trees, shape (n_bags, n_rows).
        """

    def score_trees(
        self,
        trees: TreeEnsemble | list[TreeArrays],
        kind: TargetKind,
        matrix: FeatureMatrix,
        target: Target,
        *,
        rows: RowsOfTrees,
        row_weight: Floats | None,
        criterion: SplitCriterion,
        tree_weight: Floats | None = None,
        influence: InfluenceBuffers | None = None,
        n_threads: int = 1,
    ) -> FusedScores:
        """Fused scoring: evaluation rows, leaves, sums, scores and influence of some trees in one call.

        Parameters
        ----------
        trees : TreeEnsemble or list of TreeArrays
            The trees, with training means at their nodes.
        kind : TargetKind
            What they predict.
        matrix : FeatureMatrix
            All rows.
        target : ClassTarget or NumberTarget
            What the trees are scored by.
        rows : RowsOfTrees
            The evaluation rows of each tree.
        row_weight : ndarray of shape (n_rows,), or None
            Weights of evaluation rows.
        criterion : SplitCriterion
            How splits are scored.
        tree_weight : ndarray of shape (n_trees,), or None
            How much each tree counts, for influence.
        influence : InfluenceBuffers or None
            Where the influence of rows is added; None where it is not needed.
        n_threads : int
            Number of threads.
        """
        raise NotImplementedError(f"the {self.name} engine has no fused scoring.")

    def take_rows(self, X: Any, reason: str = "") -> Any:
        """X where this engine reads it; `reason` ends the warning that it was copied."""
        return take_from_device(X, f"the engine {self.name!r}{reason}")

    @property
    def most_influence_values(self) -> int:
        """Most influence values to hold at a time in arrays of `make_zeros`."""
        return MOST_INFLUENCE_VALUES

    def limit_fused(self, kind: TargetKind, n_rows: int) -> tuple[int, int]:  # noqa: ARG002
        """Most nodes of one fused call, and most trees whose bags it draws."""
        return sys.maxsize, sys.maxsize

    def keep_device(self) -> Callable[[], AbstractContextManager[Any]]:
        """Return what another thread enters to use the device in use here."""
        return nullcontext


@dataclass(frozen=True, eq=False)
class RowLists:
    """Rows listed for each of some trees.

    Parameters
    ----------
    index : ndarray of int64, shape (n,)
        Row numbers, those of the first tree first. A row may be listed several times.
    offset : ndarray of int64, shape (n_trees + 1,)
        Tree t takes ``index[offset[t]:offset[t + 1]]``.
    """

    index: NDArray[np.int64]
    offset: NDArray[np.int64]

    @classmethod
    def join(cls, lists: list[NDArray[np.int64]]) -> RowLists:
        """Concatenate the lists of several trees."""
        index = lists[0] if len(lists) == 1 else np.concatenate(lists)
        return cls(np.ascontiguousarray(index, dtype=np.int64), np.cumsum([0, *map(len, lists)], dtype=np.int64))

    @classmethod
    def of_every_row(cls, n_rows: int, n_trees: int) -> RowLists:
        """List all rows for each tree."""
        index = np.tile(np.arange(n_rows, dtype=np.int64), n_trees)
        return cls(index, np.arange(n_trees + 1, dtype=np.int64) * n_rows)

    def of_tree(self, tree: int) -> NDArray[np.int64]:
        """Rows of one tree."""
        return self.index[self.offset[tree] : self.offset[tree + 1]]


@dataclass(frozen=True, eq=False)
class RowProducts:
    """Sums over rows of products of their influence; see `Moments`.

    In formulas, phi is the influence of a row on trees that it evaluates and psi the influence on trees that it was
    in bag for.

    Parameters
    ----------
    eval_eval, eval_inbag, inbag_inbag : ndarray of shape (n_columns,)
        Sums of phi phi, phi psi and psi psi by column.
    eval_sum : ndarray of shape (n_columns,)
        Sums of phi itself, minus its mean: zero, except for rounding, over all rows of a score.
    total_eval_eval, total_eval_inbag : float
        The same for the influence on the sum of all columns.
    K, L : ndarray of shape (n_bags, n_columns)
        Sums of d phi and of d psi, where d is the weight of a row in the bag relative to its mean over bags, minus 1.
    d_d : ndarray of shape (n_bags,)
        Sums of d^2.
    n_inbag : int
        Number of rows that are in any bag.
    """

    eval_eval: Floats
    eval_inbag: Floats
    inbag_inbag: Floats
    eval_sum: Floats
    total_eval_eval: float
    total_eval_inbag: float
    K: Floats
    L: Floats
    d_d: Floats
    n_inbag: int


@dataclass(frozen=True)
class SplitCriterion:
    """How splits are scored.

    Parameters
    ----------
    formula : {"ufi", "ufi_centered", "mdi_oob"}
        The formula, by the name of its module in `truewood._measures`.
    skips : bool
        Whether a split counts only when evaluation rows reach both children.
    scale : float
        The score of a perfect split in units of the impurity it removes.
    is_additive : bool
        Whether values of nodes add up to a raw score.
    """

    formula: str
    skips: bool
    scale: float
    is_additive: bool


@dataclass(frozen=True, eq=False)
class InfluenceBuffers:
    """Where fused scoring adds the influence of single rows, those from `first` on.

    Parameters
    ----------
    eval_influence : array of shape (n_rows, n_features)
        On trees that the rows evaluate; of `Engine.make_zeros`, or in the host's memory.
    inbag_influence : array of shape (n_rows, n_features), or None
        On trees that the rows were in bag for; None where no row was in bag.
    bags : array of float32, shape (n_bags, n_rows), or None
        Weights of rows in the bags of the first of the trees.
    first : int
        The first row.
    """

    eval_influence: Any
    inbag_influence: Any
    bags: Any
    first: int


@dataclass(frozen=True, eq=False)
class FusedScores:
    """Scores, (n_trees, n_features, n_outputs), their magnitude, (n_trees, n_features), and numbers by tree."""

    scores: Floats
    mdi: Floats
    counted_mdi: Floats
    magnitude: Floats
    split_weight: Floats
    skipped_weight: Floats
    evaluation_weight: Floats
    evaluation_impurity: Floats

    @classmethod
    def zeros(cls, n_trees: int, n_features: int, n_outputs: int) -> FusedScores:
        """Make room for the scores of some trees."""
        by_tree, by_feature = (n_trees,), (n_trees, n_features)
        shapes = [(*by_feature, n_outputs)] * 3 + [by_feature] + [by_tree] * 4
        return cls(*map(np.zeros, shapes))


class BrokenTreeError(ValueError):
    """A tree that cannot be walked or scored; reading it says why."""


_in_use: ContextVar[Engine | None] = ContextVar("engine", default=None)


def get_engine() -> Engine:
    """Return the engine in use: the caller's, else the one that the environment names or allows."""
    return _in_use.get() or resolve_engine()


@contextmanager
def use_engine(engine: Engine | str | None) -> Iterator[None]:
    """Use an engine within; None leaves the choice as it is."""
    if engine is None:
        engine = _in_use.get()
    elif not isinstance(engine, Engine):
        engine = resolve_engine(engine)
    token = _in_use.set(engine)
    try:
        yield
    finally:
        _in_use.reset(token)


def keep_engine(function: Callable[P, T]) -> Callable[P, T]:
    """Return the same function for other threads, to run with the engine, and the device, in use here."""
    engine = get_engine()
    enter_device = engine.keep_device()

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        with use_engine(engine), enter_device():
            return function(*args, **options)

    return call


def place_rows(X: Any, asked: str) -> tuple[Any, Engine]:
    """X where the engine reads it, and the engine: the one asked for; "auto" takes the GPU where X is there already."""
    is_free, problem = is_choice(asked, ["auto"]), None
    if is_free and is_on_device(X) and ENGINE_VARIABLE not in os.environ:
        problem = _find_cuda_problem()
        if problem is None:
            return X, resolve_engine("cuda")
    engine = get_engine() if is_free else resolve_engine(asked)
    return engine.take_rows(X, "" if problem is None else f", as {problem}"), engine


def resolve_engine(asked: str | None = None) -> Engine:
    """Return the engine of a name, or without one that of TRUEWOOD_ENGINE, else native where it is installed."""
    name, source = asked, "engine"
    if name is None:
        name, source = os.environ.get(ENGINE_VARIABLE, "native" if has_native_engine() else "numpy"), ENGINE_VARIABLE
    if not is_choice(name, ENGINES):
        raise ValueError(f"{source} must be one of {', '.join(map(repr, ENGINES))}, got {quote(name)}.")
    if name != "numpy" and not has_native_engine():
        raise ValueError(f"{source} is {quote(name)}, but the compiled kernel is not installed.")
    if name == "cuda" and (problem := _find_cuda_problem()) is not None:
        raise ValueError(f"{source} is 'cuda', but {problem}.")
    if not has_native_engine():
        _warn_once()
    return _make_engine(name)


@cache
def _make_engine(name: str) -> Engine:
    # Here, as CuPy and the kernel need not be installed.
    if name == "cuda":
        from truewood._engines.cuda_engine import CudaEngine

        return CudaEngine()
    if name == "native":
        from truewood._engines.native_engine import NativeEngine

        return NativeEngine()
    from truewood._engines.numpy_engine import NumpyEngine

    return NumpyEngine()


def has_native_engine() -> bool:
    """Whether the compiled kernel is installed."""
    return importlib.util.find_spec("truewood._engines._kernel") is not None


def _find_cuda_problem() -> str | None:
    """Why the GPU cannot be used, as the rest of a sentence; None where it can."""
    if not has_native_engine():
        return "the compiled kernel is not installed"
    from truewood._engines.cuda_device import find_problem

    return find_problem()


def describe_engines() -> dict[str, str]:
    """The engine in use, and the GPU or why it is not used."""
    from truewood._engines.cuda_device import describe_device, find_problem

    problem = find_problem()
    return {
        "engine": get_engine().name,
        "GPU": describe_device() if problem is None else f"not used: {problem}",
    }


@cache
def _warn_once() -> None:
    warnings.warn(
        "the compiled kernel is not installed, the slower numpy engine is in use; to change that, install a C++17 "
        "compiler and reinstall truewood.",
        NativeEngineWarning,
        stacklevel=3,
    )
