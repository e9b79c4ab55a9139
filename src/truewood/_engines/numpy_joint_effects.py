"""Joint effects of pairs of features: predictions in which splits on a feature send a row both ways.

For a leaf of value v, let a_q be 1 if a row agrees with all splits on feature q above the leaf and 0 otherwise, and w_q
the product of the shares of training weight along these splits. The joint effect of j and k is the sum over leaves of
v (a_j - w_j) (a_k - w_k) times the product of a_q over the other features, so only leaves that disagree with at most
two features of the row matter. The kernel does the same operations in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._engines.joint_effects import JointEffects, PairedFeatures
from truewood._engines.numpy_walk import goes_left
from truewood._trees.ensemble import TreeEnsemble

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


def add_tree(
    ensemble: TreeEnsemble,
    tree: int,
    values: NDArray[Any],
    rows: Numbers,
    share: Floats,
    leaf_value: Floats,
    features: PairedFeatures,
    out: JointEffects,
) -> None:
    """Add the effects of one tree for some rows, whose columns are `values`."""
    column = 0 if ensemble.column is None else int(ensemble.column[tree])
    walk = _Walk(ensemble, values, rows, share, leaf_value, column, features, out)
    nothing = np.full(len(rows), -1)
    pending = [_Visit(int(ensemble.offset[tree]), np.arange(len(rows)), nothing, nothing, {})]
    while pending:
        pending += reversed(walk.visit(pending.pop()))


@dataclass(frozen=True, eq=False)
class _Visit:
    """A node with rows; `first` and `second` are features that disagree with them, -1 if there is none.

    `path` has the features above the node, in order, with the products of their shares.
    """

    node: int
    at: Numbers
    first: Numbers
    second: Numbers
    path: dict[int, float]


@dataclass(frozen=True, eq=False)
class _Walk:
    ensemble: TreeEnsemble
    values: NDArray[Any]
    rows: Numbers
    share: Floats
    leaf_value: Floats
    column: int
    features: PairedFeatures
    out: JointEffects

    def visit(self, visit: _Visit) -> list[_Visit]:
        """Visit a node: add a leaf, or return the children to visit, from left to right."""
        node, at, first, second, path = visit.node, visit.at, visit.first, visit.second, visit.path
        if self.ensemble.left[node] < 0:
            self._add_leaf(node, self.rows[at], first, second, path)
            return []
        children = []
        split_column = self.ensemble.feature[node]
        feature = int(self.features.feature_of[split_column])
        is_left = goes_left(self.ensemble, np.full(len(at), node), self.values[at, split_column])
        for child, agrees in ((self.ensemble.left[node], is_left), (self.ensemble.right[node], ~is_left)):
            stays, below_first, below_second = agrees.copy(), first.copy(), second.copy()
            below = path
            if feature >= 0:
                is_known = (first == feature) | (second == feature)
                is_first = ~agrees & ~is_known & (first < 0)
                may_be_second = ~agrees & ~is_known & (first >= 0) & (second < 0)
                is_second = may_be_second & self._are_pairs(first, feature)
                below_first[is_first], below_second[is_second] = feature, feature
                stays |= is_known | is_first | is_second
                below = path | {feature: path.get(feature, 1.0) * float(self.share[child])}
            if stays.any():
                children.append(_Visit(int(child), at[stays], below_first[stays], below_second[stays], below))
        return children

    def _are_pairs(self, first: Numbers, feature: int) -> NDArray[np.bool_]:
        if not self.features.n_pairs:
            return np.zeros(len(first), dtype=np.bool_)
        asked: NDArray[np.bool_] = self.features.pair_of[first, feature] >= 0
        return asked

    def _add_leaf(self, node: int, rows: Numbers, first: Numbers, second: Numbers, path: dict[int, float]) -> None:
        value, out = self.leaf_value[node], self.out
        agree, one = rows[first < 0], (first >= 0) & (second < 0)
        self._add(out.prediction, (agree,), 1.0, value)
        listed = list(path.items())
        for b, (k, share) in enumerate(listed):
            self._add(out.main, (agree, k), 1.0 - share, value)
            for j, other in listed[:b]:
                self._add_pair(agree, j, k, (1.0 - other) * (1.0 - share), value)
        for j, share in listed:
            disagree = rows[one & (first == j)]
            self._add(out.main, (disagree, j), -share, value)
            for k, other in listed:
                if k != j:
                    self._add_pair(disagree, j, k, -(share * (1.0 - other)), value)
                    both = rows[(first == j) & (second == k)]
                    self._add_pair(both, j, k, share * other, value)

    def _add_pair(self, rows: Numbers, j: int, k: int, factor: float, value: Floats) -> None:
        number = int(self.features.pair_of[j, k]) if self.features.n_pairs else -1
        if number >= 0:
            self._add(self.out.joint, (rows, number), factor, value)

    def _add(self, out: Floats, place: tuple[Any, ...], factor: float, value: Floats) -> None:
        if len(place[0]):
            out[(*place, slice(self.column, self.column + len(value)))] += factor * value
