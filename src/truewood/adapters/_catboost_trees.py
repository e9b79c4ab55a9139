"""The trees in CatBoost's JSON export.

Nodes of a symmetric tree are numbered level by level, so that its leaves come last, in CatBoost's order. Nodes of other
trees are numbered in preorder, left before right.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from truewood._inputs.target import TargetKind
from truewood._trees.ensemble import TreeEnsemble


class Columns(NamedTuple):
    """The columns of X."""

    names: list[str] | None
    numeric: list[int]
    categorical: list[int]


def read_columns(info: dict[str, Any]) -> Columns:
    """Read the names and indices of the columns."""
    numeric, categorical = info.get("float_features", []), info.get("categorical_features", [])
    names = {column["flat_feature_index"]: column["feature_id"] for column in [*numeric, *categorical]}
    return Columns(
        [names[j] for j in sorted(names)] if any(names.values()) else None,
        [column["flat_feature_index"] for column in numeric],
        [column["flat_feature_index"] for column in categorical],
    )


class SplitTable(NamedTuple):
    """All splits of a model, indexed by CatBoost's split number."""

    feature: NDArray[np.int32]
    mark: NDArray[np.float64]  # the border, or the hash of the category that goes right
    missing_left: NDArray[np.bool_]
    n_features: int
    combined: tuple[str, ...]


def read_split_table(info: dict[str, Any], columns: Columns) -> SplitTable:
    """Read splits in CatBoost's order: on numbers, on single categories, on statistics of categories (CTRs)."""
    n_columns = len(columns.numeric) + len(columns.categorical)
    place = {"float_feature_index": columns.numeric, "cat_feature_index": columns.categorical}
    combined: dict[tuple[int, ...], int] = {}
    splits: list[tuple[int, float, bool]] = []
    for column in info.get("float_features", []):
        # "AsIs" compares NaN with the border, which is false, so NaN goes left.
        missing_left = column["nan_value_treatment"] != "AsTrue"
        splits += [(column["flat_feature_index"], border, missing_left) for border in column["borders"]]
    for column in info.get("categorical_features", []):
        splits += [(column["flat_feature_index"], value, True) for value in column.get("values", [])]
    for ctr in info.get("ctrs", []):
        used = sorted({place[key][element[key]] for element in ctr["elements"] for key in place if key in element})
        feature = used[0] if len(used) == 1 else combined.setdefault(tuple(used), n_columns + len(combined))
        splits += [(feature, border, True) for border in ctr["borders"]]
    names = columns.names or [f"x{j}" for j in range(n_columns)]
    return SplitTable(
        np.array([split[0] for split in splits], dtype=np.int32),
        np.array([split[1] for split in splits], dtype=np.float64),
        np.array([split[2] for split in splits], dtype=np.bool_),
        n_columns + len(combined),
        tuple(" & ".join(names[j] for j in used) for used in combined),
    )


class _Tree(NamedTuple):
    """The nodes of a tree; leaves are in the order of CatBoost's export."""

    left: NDArray[np.int32]
    right: NDArray[np.int32]
    split: NDArray[np.int64]  # index into the split table, -1 at leaves
    weight: NDArray[np.float64]
    leaf_value: NDArray[np.float64]  # (n_leaves, n_scores)


def read_trees(dump: dict[str, Any], table: SplitTable, name: str) -> TreeEnsemble:
    """Read all trees, with additive contributions to the raw scores as leaf values."""
    listed: list[Any] = []
    if "trees" in dump:
        trees = [_read_nonsymmetric(tree, listed) for tree in dump["trees"]]
    elif all("leaf_weights" in tree for tree in dump["oblivious_trees"]):
        trees = [_read_symmetric(tree, listed) for tree in dump["oblivious_trees"]]
    else:
        raise ValueError(
            f"{name} has no leaf weights because it was not loaded from a .cbm or .json file; load it from such a file."
        )
    _check_splits(listed, table, name)
    split = np.concatenate([tree.split for tree in trees])
    is_leaf = split < 0
    offset = np.cumsum([0, *(len(tree.split) for tree in trees)])
    start = np.repeat(offset[:-1], np.diff(offset))
    left, right = (np.concatenate([tree[side] for tree in trees]) for side in (0, 1))
    leaf_value = np.concatenate([tree.leaf_value for tree in trees])
    value = np.zeros((len(split), leaf_value.shape[1]))
    value[is_leaf] = leaf_value * dump["scale_and_bias"][0]
    # CatBoost compares in float32, whatever precision the export prints.
    threshold = table.mark.astype(np.float32).astype(np.float64)
    return TreeEnsemble(
        feature=_take(table.feature, split),
        threshold=_take(threshold, split),
        left=np.where(is_leaf, -1, left + start),
        right=np.where(is_leaf, -1, right + start),
        missing_left=_take(table.missing_left, split),
        weight=np.concatenate([tree.weight for tree in trees]),
        value=value,
        offset=offset,
        root_impurity=np.full(len(trees), np.nan),
        n_features=table.n_features,
        kind=TargetKind((), value.shape[1]),
        statistic="leaf",
        is_additive=True,
    )


def _take(of_splits: NDArray[Any], split: NDArray[np.int64]) -> NDArray[Any]:
    """Values of `of_splits` at each node's split; 0 at leaves."""
    return np.append(of_splits, np.zeros(1, dtype=of_splits.dtype))[split]


def _read_symmetric(tree: dict[str, Any], listed: list[Any]) -> _Tree:
    splits = tree["splits"] or []
    listed += splits
    depth = len(splits)
    leaf_weight = np.array(tree["leaf_weights"], dtype=np.float64)
    left, right, level = _complete_tree(depth)
    # Bit k of a leaf index is set if the row is above the border of split k.
    levels = [leaf_weight.reshape(-1, 1 << k).sum(axis=0) for k in range(depth)]
    return _Tree(
        left,
        right,
        np.array([*(split["split_index"] for split in splits), -1])[level],
        np.concatenate([*levels, leaf_weight]),
        np.reshape(tree["leaf_values"], (1 << depth, -1)),
    )


@cache
def _complete_tree(depth: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Children and level of each node; below node i of level k are the leaves with i as their lowest k bits."""
    level = np.repeat(np.arange(depth + 1), 1 << np.arange(depth + 1))
    first = (1 << level) - 1
    left = 2 * first + 1 + np.arange(len(level)) - first
    is_leaf = level == depth
    return (
        np.where(is_leaf, -1, left).astype(np.int32),
        np.where(is_leaf, -1, left + first + 1).astype(np.int32),
        level,
    )


def _read_nonsymmetric(root: dict[str, Any], listed: list[Any]) -> _Tree:
    """Read a tree of any shape in preorder, left before right."""
    children: tuple[list[int], list[int]] = ([], [])
    split: list[int] = []
    weight: list[float] = []
    leaf_value: list[Any] = []
    stack: list[tuple[dict[str, Any], int, int]] = [(root, -1, 0)]
    while stack:
        node, parent, side = stack.pop()
        number = len(split)
        if parent >= 0:
            children[side][parent] = number
        for own in children:
            own.append(-1)
        if "split" in node:
            listed.append(node["split"])
            split.append(node["split"]["split_index"])
            weight.append(0.0)
            stack += [(node["right"], number, 1), (node["left"], number, 0)]
        else:
            split.append(-1)
            weight.append(node["weight"])
            leaf_value.append(node["value"])
    left, right = children
    for number in range(len(split) - 1, -1, -1):
        if split[number] >= 0:
            weight[number] = weight[left[number]] + weight[right[number]]
    return _Tree(
        np.array(left, dtype=np.int32),
        np.array(right, dtype=np.int32),
        np.array(split),
        np.array(weight, dtype=np.float64),
        np.reshape(leaf_value, (len(leaf_value), -1)),
    )


def _check_splits(listed: list[Any], table: SplitTable, name: str) -> None:
    """Check split numbers against the table, because only its number identifies the feature of a CTR split."""
    number = np.array([split["split_index"] for split in listed], dtype=np.int64)
    mark = np.array([split["border"] if "border" in split else split["value"] for split in listed], dtype=np.float64)
    if len(number) and (number.max() >= len(table.mark) or (table.mark[number] != mark).any()):
        raise ValueError(f"the export of {name} does not show which features its splits use; please report this.")
