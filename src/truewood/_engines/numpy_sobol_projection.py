"""Sobol projection: predictions of trees that cannot use a group of columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._engines.numpy_walk import goes_left, walk
from truewood._inputs.tables import FeatureMatrix
from truewood._inputs.target import ClassTarget, Target
from truewood._trees.ensemble import TreeEnsemble

Floats = NDArray[np.float64]
Members = NDArray[np.intp]
Nodes = NDArray[np.int64]


def project_tree(
    ensemble: TreeEnsemble,
    tree: int,
    matrix: FeatureMatrix,
    target: Target,
    in_bag: NDArray[np.int64],
    in_bag_weight: Floats,
    evaluation: NDArray[np.int64],
    group_of: NDArray[np.int32],
) -> Iterator[tuple[Any, Members, Floats]]:
    """Iterate over predictions of a tree without each group: the group, positions of evaluation rows, their mean."""
    groups = np.unique(group_of[ensemble[tree : tree + 1].split_features])
    for group in groups[groups >= 0]:
        is_split = np.zeros(len(ensemble.feature), dtype=np.bool_)
        is_split[ensemble.splits] = group_of[ensemble.split_features] == group
        cells = _Cells(ensemble, tree, matrix, in_bag, in_bag_weight, evaluation, target, is_split)
        for place, mean in cells.settle():
            yield group, place, mean


class _Cells:
    """Cells of rows that a tree cannot distinguish if some of its splits lead to both children.

    The rows of a tree are its in-bag rows, ascending, followed by its evaluation rows. A cell is a set of nodes and the
    rows that reach all of them.
    """

    def __init__(
        self,
        ensemble: TreeEnsemble,
        tree: int,
        matrix: FeatureMatrix,
        in_bag: NDArray[np.int64],
        in_bag_weight: Floats,
        evaluation: NDArray[np.int64],
        target: Target,
        is_split: NDArray[np.bool_],
    ) -> None:
        self._ensemble, self._tree, self._is_split = ensemble, tree, is_split
        self._values = matrix.take(np.concatenate([in_bag, evaluation]))
        self._n_in_bag, self._weight, self._target = len(in_bag), in_bag_weight, target.take(in_bag)

    def settle(self) -> Iterator[tuple[Members, Floats]]:
        """Iterate over cells: positions of evaluation rows that reach such a split, and the cell's training mean."""
        at = walk(self._ensemble, self._tree, self._values, self._is_split)
        first = np.unique(at[self._is_split[at]])
        cells = [(np.array([node]), np.flatnonzero(at == node)) for node in first]
        while cells:
            nodes, members = cells.pop()
            in_bag = members[members < self._n_in_bag]
            if not len(in_bag):  # all in-bag rows of the cell have weight 0
                continue
            mean, has_leaves_only = self._average(in_bag), (self._ensemble.left[nodes] < 0).all()
            if len(in_bag) == 1 or has_leaves_only:  # cells within the cell of a single in-bag row have the same mean
                yield self._list_evaluation_rows(members), mean
                continue
            for next_nodes, part in self._descend(nodes, members):
                if part.min() < self._n_in_bag:
                    cells.append((next_nodes, part))
                else:  # no in-bag row takes the same path
                    yield self._list_evaluation_rows(part), mean

    def _descend(self, nodes: Nodes, members: Members) -> Iterator[tuple[Nodes, Members]]:
        """Split a cell into cells on the next level."""
        left, right = self._ensemble.left[nodes], self._ensemble.right[nodes]
        stays, takes_both = left < 0, self._is_split[nodes]
        chosen = np.flatnonzero(~stays & ~takes_both)
        x = self._values[members[:, np.newaxis], self._ensemble.feature[nodes[chosen]]]
        is_left = goes_left(self._ensemble, np.broadcast_to(nodes[chosen], x.shape), x)
        parts: dict[bytes, list[int]] = {}
        for place, directions in enumerate(is_left):
            parts.setdefault(directions.tobytes(), []).append(place)
        both = [nodes[stays], left[takes_both], right[takes_both]]
        for part in parts.values():
            child = np.where(is_left[part[0]], left[chosen], right[chosen])
            yield np.concatenate([*both, child]), members[part]

    def _list_evaluation_rows(self, members: Members) -> Members:
        return members[members >= self._n_in_bag] - self._n_in_bag

    def _average(self, in_bag: Members) -> Floats:
        """Average the target of in-bag rows, shape (n_columns,), in order."""
        weight, target = self._weight[in_bag], self._target
        total = _add(weight)
        if not isinstance(target, ClassTarget):
            return np.array([_add(weight * numbers) / total for numbers in target.numbers[in_bag].T])
        sums = [
            np.bincount(codes, weights=weight, minlength=len(labels))
            for codes, labels in zip(target.codes[in_bag].T, target.kind.classes, strict=True)
        ]
        mean: Floats = np.concatenate(sums) / total
        return mean


def _add(numbers: Floats) -> Any:
    return np.cumsum(numbers)[-1]
