"""Columns projected out of trees: what these say of rows when they cannot ask for the columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood.data.tables import FeatureMatrix
from truewood.data.target import ClassTarget, Target
from truewood.engines.numpy_walk import goes_left, walk
from truewood.engines.row_lists import RowLists
from truewood.trees.ensemble import TreeEnsemble

Floats = NDArray[np.float64]
Members = NDArray[np.intp]
Nodes = NDArray[np.int64]


def project_out(
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
    n_threads: int = 1,  # noqa: ARG001
) -> None:
    """Add to `out` what unseen rows lose without each group of columns, shape (n_rows, n_groups, n_columns)."""
    for tree in range(ensemble.n_trees):
        weight = grown_weight[grown.offset[tree] : grown.offset[tree + 1]]
        before = own[unseen.offset[tree] : unseen.offset[tree + 1]]
        groups = np.unique(group_of[ensemble[tree : tree + 1].split_features])
        for group in groups[groups >= 0]:
            is_split = np.zeros(len(ensemble.feature), dtype=np.bool_)
            is_split[ensemble.splits] = group_of[ensemble.split_features] == group
            cells = _Cells(ensemble, tree, matrix, grown.of_tree(tree), weight, unseen.of_tree(tree), target, is_split)
            for place, mean in cells.settle():
                lost = tree_weight[tree] * (mean - before[place])
                np.add.at(out, (unseen.of_tree(tree)[place], group), lost)


class _Cells:
    """Rows that a tree cannot tell apart where some of its splits lead to both of their children.

    Rows of a tree are numbered: those that grew it, ascending, and behind them the unseen ones. A cell is a set of
    nodes and the rows that carry it.
    """

    def __init__(
        self,
        ensemble: TreeEnsemble,
        tree: int,
        matrix: FeatureMatrix,
        grown: NDArray[np.int64],
        grown_weight: Floats,
        unseen: NDArray[np.int64],
        target: Target,
        is_split: NDArray[np.bool_],
    ) -> None:
        self._ensemble, self._tree, self._is_split = ensemble, tree, is_split
        self._values = matrix.take(np.concatenate([grown, unseen]))
        self._n_grown, self._weight, self._target = len(grown), grown_weight, target.take(grown)

    def settle(self) -> Iterator[tuple[Members, Floats]]:
        """Unseen rows that come to such a split, a cell at a time, by their places among the unseen, and their mean."""
        at = walk(self._ensemble, self._tree, self._values, self._is_split)
        first = np.unique(at[self._is_split[at]])
        cells = [(np.array([node]), np.flatnonzero(at == node)) for node in first]
        while cells:
            nodes, members = cells.pop()
            grown = members[members < self._n_grown]
            if not len(grown):  # of weight 0 all of them
                continue
            mean, has_leaves_only = self._average(grown), (self._ensemble.left[nodes] < 0).all()
            if len(grown) == 1 or has_leaves_only:  # cells within that of a single row have its mean, too
                yield self._list_unseen(members), mean
                continue
            for next_nodes, part in self._go_on(nodes, members):
                if part.min() < self._n_grown:
                    cells.append((next_nodes, part))
                else:  # no training row goes along
                    yield self._list_unseen(part), mean

    def _go_on(self, nodes: Nodes, members: Members) -> Iterator[tuple[Nodes, Members]]:
        """The cells that a cell falls into on the next level."""
        left, right = self._ensemble.left[nodes], self._ensemble.right[nodes]
        stays, takes_both = left < 0, self._is_split[nodes]
        chosen = np.flatnonzero(~stays & ~takes_both)
        x = self._values[members[:, np.newaxis], self._ensemble.feature[nodes[chosen]]]
        is_left = goes_left(self._ensemble, np.broadcast_to(nodes[chosen], x.shape), x)
        parts: dict[bytes, list[int]] = {}
        for place, way in enumerate(is_left):
            parts.setdefault(way.tobytes(), []).append(place)
        both = [nodes[stays], left[takes_both], right[takes_both]]
        for part in parts.values():
            child = np.where(is_left[part[0]], left[chosen], right[chosen])
            yield np.concatenate([*both, child]), members[part]

    def _list_unseen(self, members: Members) -> Members:
        return members[members >= self._n_grown] - self._n_grown

    def _average(self, grown: Members) -> Floats:
        """Mean of the target of training rows, shape (n_columns,), summed one after the other."""
        weight, target = self._weight[grown], self._target
        total = _add(weight)
        if not isinstance(target, ClassTarget):
            return np.array([_add(weight * numbers) / total for numbers in target.numbers[grown].T])
        sums = [
            np.bincount(codes, weights=weight, minlength=len(labels))
            for codes, labels in zip(target.codes[grown].T, target.kind.classes, strict=True)
        ]
        mean: Floats = np.concatenate(sums) / total
        return mean


def _add(numbers: Floats) -> Any:
    return np.cumsum(numbers)[-1]
