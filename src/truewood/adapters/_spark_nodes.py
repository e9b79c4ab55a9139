"""Conversion of Spark's tree nodes, in the format of saved models, to a `TreeEnsemble`.

Nodes are numbered from the root down, left before right. A row goes left if ``x <= threshold``, in float64, so NaN goes
right. A categorical split stores the smaller of its two sets, and every value that is not in this set, including NaN
and categories absent from the training data, goes to the other side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._inputs.target import TargetKind
from truewood._trees.categories import Categories
from truewood._trees.ensemble import TreeEnsemble
from truewood.adapters._spark_model import BOOSTED, SparkModel

# Fields of a node, named as in Spark. Lists are concatenated, and "#" + name holds the length of each list.
NUMBERS = ("treeID", "id", "prediction", "rawCount", "leftChild", "rightChild", "featureIndex", "numCategories")
LISTS = ("impurityStats", "leftCategoriesOrThreshold")

_Columns = Mapping[str, NDArray[Any]]


def add_trees(
    model: SparkModel, nodes: _Columns, *, n_features: int, n_classes: int, tree_weight: NDArray[np.float64]
) -> SparkModel:
    """Add trees, and the number of training rows at each node, to a model.

    Parameters
    ----------
    model : SparkModel
        The model, without trees.
    nodes : mapping
        The fields `NUMBERS` and `LISTS` of nodes in any order.
    n_features : int
        Number of elements of the features vector.
    n_classes : int
        Number of classes of a classifier; 0 for a regressor.
    tree_weight : ndarray of shape (n_trees,)
        Weight of each tree in boosting.
    """
    is_additive = model.name in BOOSTED
    n_classes = 0 if is_additive else n_classes  # boosting fits regression trees
    order = np.lexsort((nodes["id"], nodes["treeID"]))
    tree_of, node_id, prediction, counts, left, right, feature, n_categories = (nodes[name][order] for name in NUMBERS)
    n_trees = len(tree_weight)
    if not np.array_equal(np.unique(tree_of), np.arange(n_trees)):
        raise ValueError(f"it has {n_trees} trees, and nodes of some of them are missing")
    n_nodes = np.bincount(tree_of)
    offset = np.concatenate([[0], np.cumsum(n_nodes)])
    start = np.repeat(offset[:-1], n_nodes)
    if not np.array_equal(node_id, np.arange(offset[-1]) - start):
        raise ValueError("nodes of its trees are missing or duplicated")
    is_split = left >= 0
    left, right = (np.where(is_split, child + start, -1) for child in (left, right))
    by_category = is_split & (n_categories >= 0)
    splits = np.flatnonzero(by_category)
    threshold, lists = _read_splits(nodes, order, is_split & ~by_category, splits)
    sets, is_right = _choose_sets(lists, n_categories[splits])
    # In a TreeEnsemble the stored set goes left.
    swapped = splits[is_right]
    left[swapped], right[swapped] = right[swapped], left[swapped]
    weight, value, root_impurity = _read_values(nodes, order, n_classes, offset)
    if is_additive:
        value = (prediction * np.repeat(tree_weight, n_nodes))[:, np.newaxis]
        root_impurity = np.full(n_trees, np.nan)
    ensemble = TreeEnsemble(
        feature=np.where(is_split, feature, 0),
        threshold=threshold,
        left=left,
        right=right,
        missing_left=np.zeros(len(left), dtype=np.bool_),
        weight=weight,
        value=value,
        offset=offset,
        root_impurity=root_impurity,
        n_features=n_features,
        kind=TargetKind((np.arange(n_classes),)) if n_classes else TargetKind(),
        statistic="leaf" if is_additive else "mean",
        x_dtype="float64",
        categories=Categories.from_lists(len(left), splits.tolist(), sets),
        column=np.zeros(n_trees, dtype=np.int32) if is_additive else None,
        is_additive=is_additive,
    )
    return replace(model, trees=ensemble, node_counts=counts)


def _read_splits(
    nodes: _Columns, order: NDArray[np.intp], has_threshold: NDArray[np.bool_], splits: NDArray[np.intp]
) -> tuple[NDArray[np.float64], list[NDArray[Any]]]:
    """Threshold of each node, and the categories that go left at each categorical split."""
    numbers, lengths = nodes["leftCategoriesOrThreshold"], nodes["#leftCategoriesOrThreshold"]
    end = np.cumsum(lengths)[order]
    start = end - lengths[order]
    if ((end - start)[has_threshold] != 1).any():
        raise ValueError("its splits on numbers must have one threshold each")
    threshold = np.zeros(len(order))
    threshold[has_threshold] = numbers[start[has_threshold]]
    return threshold, [numbers[start[node] : end[node]] for node in splits.tolist()]


def _choose_sets(lists: list[NDArray[Any]], n_categories: NDArray[Any]) -> tuple[list[list[int]], NDArray[np.bool_]]:
    """The set that Spark stores for each categorical split, and whether it goes right."""
    sets, is_right = [], []
    for listed, number in zip(lists, n_categories.tolist(), strict=True):
        goes_left = set(listed.astype(np.int64).tolist())
        is_right.append(len(goes_left) > number // 2)
        sets.append(sorted(set(range(number)) - goes_left if is_right[-1] else goes_left))
    return sets, np.array(is_right, dtype=np.bool_)


def _read_values(
    nodes: _Columns, order: NDArray[np.intp], n_classes: int, offset: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Weight and mean of each node, impurity of each root, from class weights or (weight, sum, sum of squares)."""
    width = n_classes or 3
    if (nodes["#impurityStats"] != width).any():
        raise ValueError(f"its nodes must have {width} impurityStats each")
    stats = nodes["impurityStats"].reshape(-1, width)[order]
    weight = stats.sum(axis=1) if n_classes else stats[:, 0]
    value = (stats if n_classes else stats[:, 1:2]) / weight[:, np.newaxis]
    roots = offset[:-1]
    squares = 1.0 if n_classes else stats[roots, 2] / weight[roots]
    impurity: NDArray[np.float64] = squares - (value[roots] ** 2).sum(axis=1)
    return weight, value, impurity
