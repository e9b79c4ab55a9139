"""`TreeEnsemble`: trees as flat, validated arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from truewood._formatting import count, list_names, quote
from truewood._inputs.target import TargetKind
from truewood._read_only import copy_integers, make_read_only
from truewood._trees.categories import Categories

_DTYPES: dict[str, Any] = {
    "feature": np.int32,
    "threshold": np.float64,
    "left": np.int32,
    "right": np.int32,
    "missing_left": np.bool_,
    "weight": np.float64,
    "value": np.float64,
    "offset": np.int64,
    "root_impurity": np.float64,
}
_STATISTICS = ("mean", "median", "clipped mean", "leaf")


@dataclass(frozen=True, eq=False)
class TreeEnsemble:
    """The nodes of one or more trees, one after the other.

    A row goes left where ``x <= threshold``, or where x is one of the split's categories, else right; a missing x goes
    left where `missing_left` is True. Children come after their parent. Arrays are read-only.

    Parameters
    ----------
    feature : ndarray of int32, shape (n_nodes,)
        Column that a node splits on; ignored at leaves.
    threshold : ndarray of float64, shape (n_nodes,)
        Largest value that goes left; ignored at leaves.
    left, right : ndarray of int32, shape (n_nodes,)
        Positions of the children in these arrays, -1 at leaves.
    missing_left : ndarray of bool, shape (n_nodes,)
        Whether missing values go left.
    weight : ndarray of float64, shape (n_nodes,)
        Training weight of the node.
    value : ndarray of float64, shape (n_nodes, n_columns)
        The node's estimate of the target: class proportions, or numbers.
    offset : ndarray of int64, shape (n_trees + 1,)
        Tree t owns the nodes from ``offset[t]`` up to ``offset[t + 1]``; the first of them is its root.
    root_impurity : ndarray of float64, shape (n_trees,)
        Training impurity at the root (Gini or variance, mean over outputs); NaN if unknown.
    n_features : int
        Number of columns of the data.
    kind : TargetKind
        What the trees predict.
    statistic : {"mean", "median", "clipped mean", "leaf"}, default="mean"
        What the library stored as `value`; "leaf" if only leaves have one. If it is not the mean, scoring replaces it
        with the mean of the training rows or, if these are not passed, with the weighted mean of the leaves below.
    x_dtype : {"float32", "float64"}, default="float32"
        The type in which x is compared with thresholds.
    categories : Categories or None, default=None
        Which nodes split on categories, and which categories go left, see `truewood.adapters.Categories`; None if all
        splits have thresholds. The category of a value of x is its integer part.
    column : ndarray of int32, shape (n_trees,), or None, default=None
        For trees with a single value per node, the column of the target that each tree predicts: its class, or its
        output. None if values have all columns.
    is_additive : bool, default=False
        Whether the values of the trees add up to a raw score, rather than each being an estimate of the target.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> import truewood as tw
    >>> tree = DecisionTreeRegressor().fit([[0.0], [1.0]], [10.0, 20.0])
    >>> float(tw.to_ensemble(tree).threshold[0])
    0.5
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    weight: NDArray[np.float64]
    value: NDArray[np.float64]
    offset: NDArray[np.int64]
    root_impurity: NDArray[np.float64]
    n_features: int
    kind: TargetKind
    statistic: str = "mean"
    x_dtype: str = "float32"
    categories: Categories | None = None
    column: NDArray[np.int32] | None = None
    is_additive: bool = False

    def __post_init__(self) -> None:
        for name, dtype in _DTYPES.items():
            given = getattr(self, name)
            # The kernel trusts the validated structure, so no one else may hold a reference to it.
            is_structure = np.issubdtype(dtype, np.integer)
            read = copy_integers(name, given, dtype) if is_structure else np.require(given, dtype, ["C", "A", "E"])
            object.__setattr__(self, name, read)
        if self.column is not None:
            object.__setattr__(self, "column", copy_integers("column", self.column, np.int32))
        make_read_only(self)
        self._check()

    def _check(self) -> None:
        if not isinstance(self.n_features, int | np.integer) or self.n_features < 1:
            raise ValueError(f"n_features must be a whole number above 0, got {quote(self.n_features)}.")
        if self.feature.ndim != 1 or self.offset.ndim != 1:
            raise ValueError(
                f"feature and offset must have one dimension, got shapes {self.feature.shape} and {self.offset.shape}."
            )
        n_nodes = len(self.feature)
        for name in ("threshold", "left", "right", "missing_left", "weight"):
            if getattr(self, name).shape != (n_nodes,):
                raise ValueError(f"{name} must have shape ({n_nodes},), got {getattr(self, name).shape}.")
        if self.value.shape != (n_nodes, self.kind.n_columns):
            raise ValueError(f"value must have shape ({n_nodes}, {self.kind.n_columns}), got {self.value.shape}.")
        if (
            len(self.offset) < 2
            or self.offset[0] != 0
            or self.offset[-1] != n_nodes
            or (np.diff(self.offset) < 1).any()
        ):
            raise ValueError(
                f"offset must rise from 0 to the number of nodes, {n_nodes}, with at least one node per tree, got "
                f"{list_names(list(map(str, self.offset)), 5)}."
            )
        if self.root_impurity.shape != (self.n_trees,):
            raise ValueError(f"root_impurity must have shape ({self.n_trees},), got {self.root_impurity.shape}.")
        if self.statistic not in _STATISTICS:
            raise ValueError(f"statistic must be one of {', '.join(_STATISTICS)}, got {quote(self.statistic)}.")
        if self.x_dtype not in ("float32", "float64"):
            raise ValueError(f"x_dtype must be 'float32' or 'float64', got {quote(self.x_dtype)}.")
        if self.categories is not None and self.categories.node_set.shape != (n_nodes,):
            raise ValueError(f"categories must describe all {n_nodes} nodes, got {self.categories.node_set.shape}.")
        if self.column is not None and (self.column.shape != (self.n_trees,) or self.column.min() < 0):
            raise ValueError(
                f"column must hold the position of a target column, 0 or larger, for each of the {self.n_trees} trees, "
                f"got {list_names(list(map(str, self.column)), 5)}."
            )
        if self.column is not None and not (self.is_additive and self.kind.n_columns == 1):
            raise ValueError(
                f"column is only for additive trees with one value per node, got is_additive={self.is_additive} and "
                f"{self.kind.n_columns} values; leave it out."
            )
        if self.is_additive and self.kind.is_classification:
            raise ValueError(
                "kind must be a TargetKind without classes for additive trees, because their values are raw scores."
            )
        self._check_structure(n_nodes)
        roots = self.weight[self.offset[:-1]]
        if not (self.weight.min() >= 0 and roots.min() > 0 and np.isfinite(self.weight.sum())):
            raise ValueError(
                f"weight must be finite, not negative, and positive at roots, got {self.weight.min():g} to "
                f"{self.weight.max():g}, and at least {roots.min():g} at roots."
            )
        if not np.isfinite(self.value.sum()):
            raise ValueError("value must be finite, got NaN or infinite values.")

    def _check_structure(self, n_nodes: int) -> None:
        splits = self.splits
        if (is_odd := (self.left < 0) != (self.right < 0)).any():
            node = int(is_odd.argmax())
            raise ValueError(
                f"left and right must both be -1 at leaves, got {self.left[node]} and {self.right[node]} at node "
                f"{node}."
            )
        used = self.split_features
        if len(splits) and (used.min() < 0 or used.max() >= self.n_features):
            raise ValueError(
                f"feature must lie in 0..{self.n_features - 1} at splits, got {used.min()} to {used.max()}."
            )
        if (is_odd := np.isnan(self.threshold[splits])).any():
            raise ValueError(f"threshold must not be NaN at splits, got NaN at node {splits[is_odd.argmax()]}.")
        left, right = self.split_children
        if len(splits) and max(left.max(), right.max()) >= n_nodes:
            raise ValueError(
                f"left and right must be positions of nodes, up to {n_nodes - 1}, got {max(left.max(), right.max())}."
            )
        # If there are as many distinct children as child slots and as non-root nodes, each of these has one parent.
        is_child = np.zeros(n_nodes, dtype=np.bool_)
        is_child[left] = True
        is_child[right] = True
        every_node_once = 2 * len(splits) == n_nodes - self.n_trees == np.count_nonzero(is_child)
        if not every_node_once or is_child[self.offset[:-1]].any():
            n_named = np.bincount(np.concatenate([left, right]), minlength=n_nodes)
            n_named[self.offset[:-1]] += 1
            node = int((n_named != 1).argmax())
            raise ValueError(
                "left and right must name every node but the roots exactly once, got "
                + (f"node {node} too often." if n_named[node] else f"no parent of node {node}.")
            )
        if (is_odd := (left <= splits) | (right <= splits)).any():
            raise ValueError(f"children must come after their parent, got one before node {splits[is_odd.argmax()]}.")
        end = np.repeat(self.offset[1:], np.diff(self.offset))[splits] if self.n_trees > 1 else self.offset[-1]
        if (is_odd := (left >= end) | (right >= end)).any():
            raise ValueError(
                f"children must belong to their parent's tree, got one of another tree at node "
                f"{splits[is_odd.argmax()]}."
            )

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.offset) - 1

    @cached_property
    def splits(self) -> NDArray[np.intp]:
        """Positions of the inner nodes, ascending."""
        return np.flatnonzero(self.left >= 0)

    @cached_property
    def split_children(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Left and right children of `splits`."""
        return self.left[self.splits].astype(np.intp), self.right[self.splits].astype(np.intp)

    @cached_property
    def parent(self) -> NDArray[np.intp]:
        """Position of each node's parent, shape (n_nodes,); a root is its own."""
        parent = np.arange(len(self.left))
        for children in self.split_children:
            parent[children] = self.splits
        return parent

    @property
    def split_features(self) -> NDArray[np.int32]:
        """Column that each split uses, in the order of the nodes, without leaves."""
        return self.feature[self.splits]

    @cached_property
    def omega(self) -> NDArray[np.float64]:
        """Training weight as a share of the weight at the tree's root, shape (n_nodes,)."""
        roots: NDArray[np.float64] = self.repeat_for_nodes(self.weight[self.offset[:-1]])
        return self.weight / roots

    def repeat_for_nodes(self, per_tree: NDArray[Any]) -> NDArray[Any]:
        """Repeat the entry of each tree for its nodes, shape (n_nodes, ...), or (1, ...) for a single tree."""
        return per_tree if self.n_trees == 1 else np.repeat(per_tree, np.diff(self.offset), axis=0)

    @cached_property
    def levels(self) -> list[NDArray[np.intp]]:
        """Inner nodes by depth, roots first."""
        levels = []
        frontier: NDArray[np.intp] = self.offset[:-1].astype(np.intp)
        while len(inner := frontier[self.left[frontier] >= 0]):
            levels.append(inner)
            frontier = np.concatenate([self.left[inner], self.right[inner]])
        return levels

    def with_means(
        self,
        value: NDArray[np.float64],
        root_impurity: NDArray[np.float64],
        weight: NDArray[np.float64] | None = None,
    ) -> TreeEnsemble:
        """Return the same trees with means as node values and, if given, other weights."""
        weight = self.weight if weight is None else weight
        return replace(self, value=value, weight=weight, root_impurity=root_impurity, statistic="mean")

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickle through __init__, which validates the arrays and makes them read-only.
        return TreeEnsemble, tuple(getattr(self, part.name) for part in fields(self))

    def __repr__(self) -> str:
        sizes = (self.n_trees, "tree"), (len(self.feature), "node"), (self.n_features, "feature")
        counts = ", ".join(count(number, noun) for number, noun in sizes)
        return f"TreeEnsemble({counts}, {self.kind.task}, {count(self.kind.n_outputs, 'output')})"

    def __getitem__(self, trees: slice) -> TreeEnsemble:
        """Return a range of trees as an ensemble of its own; the ensemble itself for all trees."""
        start, stop, step = trees.indices(self.n_trees)
        if step != 1 or stop <= start:
            raise IndexError("trees must be a slice of step 1 that holds at least one tree.")
        if stop - start == self.n_trees:
            return self
        first, end = self.offset[start], self.offset[stop]
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("feature", "threshold", "left", "right", "missing_left", "weight", "value"):
            parts[name] = parts[name][first:end]
        for name in ("left", "right"):
            parts[name] = np.where(parts[name] < 0, -1, parts[name] - first)
        parts["offset"] = self.offset[start : stop + 1] - first
        parts["root_impurity"] = self.root_impurity[start:stop]
        if self.categories is not None:
            parts["categories"] = self.categories[first:end]
        if self.column is not None:
            parts["column"] = self.column[start:stop]
        return TreeEnsemble(**parts)


class TreeArrays(NamedTuple):
    """One tree as its library stores it, in arrays of any stride; children are node numbers, negative at leaves.

    The kernel reads each number once, and validates it as `TreeEnsemble` does.

    Parameters
    ----------
    feature, left, right : ndarray of int32 or int64, shape (n_nodes,)
        As in `TreeEnsemble`.
    threshold, weight : ndarray of float64, shape (n_nodes,)
        As in `TreeEnsemble`.
    missing_left : ndarray of bool or uint8, shape (n_nodes,)
        As in `TreeEnsemble`.
    value : ndarray of float64, shape (n_nodes, n_columns)
        Training means at the nodes.
    root_impurity : float
        As in `TreeEnsemble`.
    """

    feature: NDArray[Any]
    threshold: NDArray[Any]
    left: NDArray[Any]
    right: NDArray[Any]
    missing_left: NDArray[Any]
    weight: NDArray[Any]
    value: NDArray[Any]
    root_impurity: float
