"""treelite's Model, which also covers cuML and every other library that treelite imports.

A treelite model stores neither column names nor class labels nor a loss. Classes are numbered from 0, and the loss is
the usual one for the postprocessor that converts raw scores to predictions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import treelite
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from truewood._formatting import quote
from truewood._inputs import losses
from truewood._inputs.tables import InputSpec
from truewood._inputs.target import TargetKind
from truewood._trees.categories import Categories
from truewood._trees.ensemble import TreeEnsemble
from truewood.adapters._tree_model import ReferencePredictor, TargetSpec, TreeModel, TreeReader

_NAME = "treelite.Model"
# Enum values of treelite's serialization format.
_BINARY, _REGRESSION, _MULTICLASS, _RANKING, _ISOLATION = range(5)
_CATEGORICAL_NODE = 2
_LESS, _LESS_OR_EQUAL, _GREATER, _GREATER_OR_EQUAL = range(2, 6)

_Get = Callable[[str], NDArray[Any]]


def open_model(model: Any) -> TreeModel:
    """Read a treelite.Model."""
    if model.handle is None or not model.num_tree:
        raise NotFittedError(f"{_NAME} has no trees; load or build it first.")
    header = _Header.read(model)
    if header.task == _ISOLATION:
        raise TypeError(f"{_NAME} is an isolation forest and has no target to score its splits against.")
    ensemble = _read_trees(model, header)
    loss, why_no_loss = _find_loss(header)
    return TreeModel(
        table=InputSpec(_NAME, model.num_feature, dtype=model.input_type, takes_infinite=True, sparse_fill=np.nan),
        target=TargetSpec(_find_target_kind(header), loss=loss, why_no_loss=why_no_loss, n_scores=header.n_scores),
        reader=TreeReader.of_ensemble(
            ensemble,
            library=ReferencePredictor(
                "treelite",
                treelite.__version__,
                add_values=lambda _trees, values: treelite.gtil.predict(model, values, nthread=1, pred_margin=True),
                find_leaves=lambda _trees, values: treelite.gtil.predict_leaf(model, values, nthread=1),
            ),
        ),
        why_no_bags="does not record which rows its trees saw",
    )


@dataclass(frozen=True, eq=False)
class _Header:
    """Model-level fields; `target_id` and `class_id`, shape (n_trees,), are -1 for trees that predict all of them."""

    task: int
    postprocessor: str
    is_average: bool
    n_targets: int
    n_classes: int
    leaf_shape: tuple[int, int]
    target_id: NDArray[np.int32]
    class_id: NDArray[np.int32]

    @classmethod
    def read(cls, model: Any) -> _Header:
        get = model.get_header_accessor().get_field
        return cls(
            task=int(get("task_type")[0]),
            postprocessor=get("postprocessor"),
            is_average=bool(get("average_tree_output")[0]),
            n_targets=int(get("num_target")[0]),
            n_classes=int(get("num_class").max()),
            leaf_shape=tuple(get("leaf_vector_shape").tolist()),
            target_id=get("target_id").copy(),
            class_id=get("class_id").copy(),
        )

    @property
    def n_scores(self) -> int:
        """Number of raw scores: one per target and class, ordered by target."""
        return self.n_targets * self.n_classes

    def list_columns(self, tree: int) -> NDArray[np.int64]:
        """The raw scores that a tree adds to, in the order of its values."""
        columns = np.arange(self.n_scores).reshape(self.n_targets, self.n_classes)
        target, label = self.target_id[tree], self.class_id[tree]
        chosen = columns if target < 0 else columns[target : target + 1]
        return (chosen if label < 0 else chosen[:, label : label + 1]).ravel()


def _read_trees(model: Any, header: _Header) -> TreeEnsemble:
    trees = [model.get_tree_accessor(tree).get_field for tree in range(model.num_tree)]

    def join(name: str) -> NDArray[Any]:
        return np.concatenate([get(name) for get in trees])

    n_nodes = join("num_nodes").astype(np.int64)
    offset = np.concatenate([[0], np.cumsum(n_nodes)])
    left, right, operator = join("cleft"), join("cright"), join("cmp")
    is_leaf = left < 0
    is_categorical = join("node_type") == _CATEGORICAL_NODE
    is_numeric = ~is_leaf & ~is_categorical
    if not np.isin(operator[is_numeric], (_LESS, _LESS_OR_EQUAL, _GREATER, _GREATER_OR_EQUAL)).all():
        raise ValueError(f"{_NAME} must split by <, <=, > or >=, got a split by another operator.")
    # In a TreeEnsemble, x <= threshold and listed categories go left; swap children if treelite sends them right.
    is_swapped = np.where(is_categorical, join("category_list_right_child") > 0, operator >= _GREATER) & ~is_leaf
    left, right = np.where(is_swapped, right, left), np.where(is_swapped, left, right)
    is_strict = is_numeric & np.isin(operator, (_LESS, _GREATER_OR_EQUAL))
    threshold = join("threshold")
    threshold[is_strict] = np.nextafter(threshold[is_strict], threshold.dtype.type(-np.inf))
    value, column = _read_values(trees, header, is_leaf, offset)
    order, place = _order_nodes(left, right, offset)

    def find(child: NDArray[Any]) -> NDArray[Any]:
        found: NDArray[Any] = np.where(is_leaf, -1, place[child + np.repeat(offset[:-1], n_nodes)])[order]
        return found

    lists = [listed for get in trees if get("has_categorical_split")[0] for listed in _list_categories(get)]
    weight = _read_weight(trees, n_nodes)
    # A single-leaf tree may have no count; its weight does not matter, but must be positive.
    roots = weight[offset[:-1]]
    weight[offset[:-1]] = np.where((roots == 0) & is_leaf[offset[:-1]], max(roots.max(), 1.0), roots)
    return TreeEnsemble(
        feature=join("split_index")[order],
        threshold=threshold[order],
        left=find(left),
        right=find(right),
        missing_left=((join("default_left") > 0) != is_swapped)[order],
        weight=weight[order],
        value=value[order],
        offset=np.append(0, np.cumsum(place >= 0))[offset],
        root_impurity=np.full(len(trees), np.nan),
        n_features=model.num_feature,
        kind=TargetKind((), value.shape[1]),
        statistic="leaf",
        x_dtype=model.input_type,
        categories=Categories.from_lists(len(order), place[is_categorical].tolist(), lists),
        column=column,
        is_additive=True,
    )


def _order_nodes(left: NDArray[Any], right: NDArray[Any], offset: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Reachable nodes, ordered so that children follow their parents, and the position of each node among them.

    Most models are already in this order. Pruning can leave unreachable nodes, and models built by hand can have any
    order.
    """
    every_node = np.arange(offset[-1])
    start = np.repeat(offset[:-1], np.diff(offset))
    is_inner = left >= 0
    is_ordered = (np.minimum(left, right) > every_node - start) | ~is_inner
    if is_ordered.all() and 2 * np.count_nonzero(is_inner) == len(every_node) - (len(offset) - 1):
        return every_node, every_node
    depth = np.full(len(every_node), -1)
    frontier, level = offset[:-1], 0
    while len(frontier):
        depth[frontier] = level
        inner = frontier[is_inner[frontier]]
        children = np.concatenate([left[inner], right[inner]]) + np.tile(start[inner], 2)
        frontier, level = children[depth[children] < 0], level + 1
    order = np.flatnonzero(depth >= 0)
    if not is_ordered[order].all():
        order = order[np.lexsort((depth[order], start[order]))]
    place = np.full(len(every_node), -1)
    place[order] = np.arange(len(order))
    return order, place


def _read_values(
    trees: list[_Get], header: _Header, is_leaf: NDArray[np.bool_], offset: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.int32] | None]:
    """Leaf values, (n_nodes, n_scores) and None, or (n_nodes, 1) and the raw score that each tree contributes to."""
    columns = [header.list_columns(tree) for tree in range(len(trees))]
    n_trees_of = np.bincount(np.concatenate(columns), minlength=header.n_scores)
    is_scalar = header.leaf_shape == (1, 1)
    value = np.zeros((len(is_leaf), 1 if is_scalar else header.n_scores))
    for tree, (get, chosen) in enumerate(zip(trees, columns, strict=True)):
        leaves = np.flatnonzero(is_leaf[offset[tree] : offset[tree + 1]])
        vectors = get("leaf_vector")
        if len(vectors):
            added = vectors[get("leaf_vector_begin")[leaves].astype(np.int64)[:, np.newaxis] + np.arange(len(chosen))]
        else:
            added = get("leaf_value")[leaves][:, np.newaxis]
        scale = n_trees_of[chosen] if header.is_average else 1
        value[np.ix_(offset[tree] + leaves, [0] if is_scalar else chosen)] = added / scale
    return value, np.concatenate(columns).astype(np.int32) if is_scalar else None


def _read_weight(trees: list[_Get], n_nodes: NDArray[Any]) -> NDArray[np.float64]:
    """Hessian sums, which are weighted counts for scikit-learn trees, or else counts."""
    for name in ("sum_hess", "data_count"):
        is_present = np.concatenate([get(f"{name}_present") for get in trees])
        if len(is_present) == n_nodes.sum() and is_present.all():
            return np.concatenate([get(name) for get in trees]).astype(np.float64)
    raise ValueError(
        f"{_NAME} must store data_count or sum_hess of every node, to weight its splits, but has neither; import it "
        "from a library that stores them."
    )


def _list_categories(get: _Get) -> list[list[int]]:
    """The listed categories of each categorical split of a tree."""
    nodes = np.flatnonzero(get("node_type") == _CATEGORICAL_NODE)
    listed = get("category_list").tolist()
    begin, end = get("category_list_begin")[nodes], get("category_list_end")[nodes]
    return [listed[first:last] for first, last in zip(begin.tolist(), end.tolist(), strict=True)]


def _find_target_kind(header: _Header) -> TargetKind:
    if header.task == _MULTICLASS:
        return TargetKind((np.arange(header.n_classes),) * header.n_targets, header.n_targets)
    if header.task == _BINARY and header.n_targets == 1:
        return TargetKind((np.arange(2),))
    return TargetKind((), header.n_targets)


def _find_loss(header: _Header) -> tuple[losses.Loss | None, str | None]:
    """The usual loss for the postprocessor, or the reason that it is unknown."""
    if header.task == _RANKING:
        return None, f"{_NAME} is a ranking model, whose loss is not a sum over rows"
    if header.n_classes > 1:
        if header.n_targets > 1:
            return (
                None,
                f"{_NAME} has {header.n_targets} targets of several classes each, for which truewood has no loss",
            )
        if header.postprocessor in ("softmax", "multiclass_ova", "identity_multiclass"):
            return losses.softmax(header.n_classes), None
    elif header.postprocessor in _LOSSES:
        return _LOSSES[header.postprocessor](), None
    return None, f"the postprocessor {quote(header.postprocessor)} of {_NAME} does not determine its loss"


_LOSSES: dict[str, Callable[[], losses.Loss]] = {
    "identity": losses.squared_error,
    "sigmoid": losses.logistic,
    "exponential": losses.poisson,
}
