"""What an engine does, and which one is in use."""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache, wraps
from typing import Any, ParamSpec, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from truewood.arguments import is_choice
from truewood.data.tables import FeatureMatrix
from truewood.data.target import Target
from truewood.engines.row_lists import RowLists
from truewood.engines.row_products import RowProducts
from truewood.trees.ensemble import TreeEnsemble
from truewood.trees.node_sums import NodeSums
from truewood.trees.row_terms import RowTerms
from truewood.words import quote

ENGINE_VARIABLE = "TRUEWOOD_ENGINE"
ENGINES = ("native", "numpy", "cuda")

_chosen: ContextVar[str | None] = ContextVar("engine", default=None)

P = ParamSpec("P")
T = TypeVar("T")
Floats = NDArray[np.float64]


class NativeEngineWarning(UserWarning):
    """The compiled kernel is not installed, so the slower numpy engine is in use."""


class Engine(Protocol):
    """What an engine module offers."""

    def list_unseen(self, bag: NDArray[Any], n_rows: int) -> NDArray[np.int64]:
        """Rows that are not in a bag, ascending."""

    def find_leaves(
        self, ensemble: TreeEnsemble, matrix: FeatureMatrix, rows: RowLists, n_threads: int = 1
    ) -> NDArray[np.int32]:
        """Leaf of each listed row in the tree it is listed for, shape (n,), as positions in the ensemble's arrays."""

    def find_swapped_leaves(
        self, ensemble: TreeEnsemble, matrix: FeatureMatrix, rows: NDArray[np.int64], donors: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        """Leaves in an ensemble of one tree with one column at a time taken from the donor row, (n, n_features)."""

    def project_out(
        self,
        ensemble: TreeEnsemble,
        matrix: FeatureMatrix,
        grown: RowLists,
        grown_weight: Floats,
        unseen: RowLists,
        own: Floats,
        tree_weight: Floats,
        target: Target,
        group_of: NDArray[np.int32],
        out: Floats,
        n_threads: int = 1,
    ) -> None:
        """Add to `out` what trees say of unseen rows without each group of columns, less what they say with it.

        `out` has shape (n_rows, n_groups, n_columns). `grown` lists the rows that grew each tree, ascending, and
        `grown_weight` goes along with it; `own` is what the tree says of each of the rows in `unseen`, less the
        target's origin. `group_of` is the group of each column, negative for columns that are not asked for.
        """

    def sum_leaves(
        self,
        ensemble: TreeEnsemble,
        leaves: NDArray[np.int32],
        rows: RowLists,
        target: Target,
        row_weight: Floats | None,
    ) -> NodeSums:
        """Sum rows at their leaves, chunk by chunk in row order, and from there up to the roots."""

    def sum_nodes(
        self,
        ensemble: TreeEnsemble,
        matrix: FeatureMatrix,
        target: Target,
        row_weight: Floats | None,
        n_threads: int = 1,
    ) -> NodeSums:
        """Sums of every row at the nodes of all trees; squares are not summed for additive trees."""

    def contribute(
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
        """Add to `out` what every row contributes to each feature, over all trees, shape (n_rows, n_features)."""

    def add_terms(
        self,
        ensemble: TreeEnsemble,
        leaves: NDArray[np.int32],
        rows: RowLists,
        weight: Floats,
        target: Target,
        terms: RowTerms,
        out: Floats,
    ) -> None:
        """Add to `out` what listed rows contribute to each feature, shape (n_rows, n_features), given their leaves.

        `weight` goes along with the list; a row is listed once for a tree.
        """

    def sum_row_products(
        self,
        phi: Floats,
        psi: Floats | None,
        is_scoring: NDArray[np.bool_],
        total_weight: float,
        mean: Floats,
        bags: NDArray[np.float32] | None,
        n_threads: int = 1,
    ) -> RowProducts:
        """Sums over rows of products of what they contribute, each divided by `total_weight` and less `mean`.

        `phi` and `psi` have shape (n_rows, n_columns), `is_scoring` says which rows count, and `bags` are the weights
        of rows in the bags of some trees, shape (n_bags, n_rows).
        """


def has_native_engine() -> bool:
    """Whether the compiled kernel is installed."""
    return importlib.util.find_spec("truewood.engines._kernel") is not None


@contextmanager
def use_engine(name: str | None) -> Iterator[None]:
    """Take an engine for all that is done within; None leaves the choice as it is."""
    token = _chosen.set(_chosen.get() if name is None else name)
    try:
        yield
    finally:
        _chosen.reset(token)


def keep_engine(function: Callable[P, T]) -> Callable[P, T]:
    """The same function, to be called in another thread with the engine, and the GPU, that is in use here."""
    name = _chosen.get()
    enter_device: Callable[[], AbstractContextManager[Any]] = nullcontext
    if engine_name() == "cuda":
        from truewood.engines.cuda_device import keep_device

        enter_device = keep_device()

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        with use_engine(name), enter_device():
            return function(*args, **options)

    return call


def engine_name() -> str:
    """Name of the engine in use: the caller's, else that of TRUEWOOD_ENGINE, else native where it is installed."""
    name, source = _chosen.get(), "engine"
    if name is None:
        name, source = os.environ.get(ENGINE_VARIABLE, "native" if has_native_engine() else "numpy"), ENGINE_VARIABLE
    if not is_choice(name, ENGINES):
        raise ValueError(f"{source} must be one of {', '.join(map(repr, ENGINES))}, got {quote(name)}.")
    if name != "numpy" and not has_native_engine():
        raise ValueError(f"{source} is {quote(name)}, but the compiled kernel is not installed.")
    if name == "cuda":
        from truewood.engines.cuda_device import find_problem

        problem = find_problem()
        if problem is not None:
            raise ValueError(f"{source} is 'cuda', but {problem}.")
    return name


def get_engine() -> Engine:
    """Return the engine in use."""
    name = engine_name()
    if name == "cuda":
        from truewood.engines import cuda_engine

        return cuda_engine
    if name == "native":
        from truewood.engines import native_engine

        return native_engine
    if not has_native_engine():
        _warn_once()
    from truewood.engines import numpy_engine

    return numpy_engine


@cache
def _warn_once() -> None:
    warnings.warn(
        "the compiled kernel is not installed, the slower numpy engine is in use; to change that, install a C++17 "
        "compiler and reinstall truewood.",
        NativeEngineWarning,
        stacklevel=4,
    )
