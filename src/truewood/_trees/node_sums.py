"""`NodeSums`: what rows say at the nodes of trees, as sums that can be added up in any order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from truewood._inputs.target import TargetKind
from truewood._trees.ensemble import TreeEnsemble


@dataclass(frozen=True, eq=False)
class NodeSums:
    """Sums over the rows that reach each node.

    Sums of the same trees over disjoint rows, with the same origin, merge by ``+``.

    Parameters
    ----------
    weight : ndarray of float64, shape (n_nodes,)
        Sum of the rows' weights.
    total : ndarray of float64, shape (n_nodes, n_columns)
        Weighted sum of the target less `origin`; for classes, the weight of each class.
    square : ndarray of float64, shape (n_nodes, n_outputs)
        Weighted sum of the squared target less `origin`; for classes, the weight.
    origin : ndarray of float64, shape (n_columns,)
        What was subtracted from the target.
    """

    weight: NDArray[np.float64]
    total: NDArray[np.float64]
    square: NDArray[np.float64]
    origin: NDArray[np.float64]

    @classmethod
    def unpack(
        cls, sums: NDArray[np.float64], kind: TargetKind, origin: NDArray[np.float64], *, counts_classes: bool
    ) -> NodeSums:
        """Split one array of shape (n_nodes, n_sums): weight, sums of the columns and, if stored, sums of squares."""
        weight, total = sums[:, 0].copy(), np.ascontiguousarray(sums[:, 1 : 1 + kind.n_columns])
        if counts_classes:
            square = np.broadcast_to(weight[:, np.newaxis], (len(weight), kind.n_outputs))
        elif sums.shape[1] == 1 + kind.n_columns:
            square = np.zeros_like(total)
        else:
            square = np.ascontiguousarray(sums[:, 1 + kind.n_columns :])
        return cls(weight, total, square, origin)

    def __add__(self, other: NodeSums) -> NodeSums:
        if self.total.shape != other.total.shape or not np.array_equal(self.origin, other.origin):
            raise ValueError("only sums of the same trees with the same origin can be added.")
        return NodeSums(self.weight + other.weight, self.total + other.total, self.square + other.square, self.origin)

    def take(self, nodes: NDArray[np.int64]) -> NodeSums:
        """Sums of some of the nodes."""
        return NodeSums(self.weight[nodes], self.total[nodes], self.square[nodes], self.origin)

    @cached_property
    def divisor(self) -> NDArray[np.float64]:
        """The weight, or 1 where there is none, shape (n_nodes,)."""
        return np.where(self.weight > 0, self.weight, 1.0)

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean of the target less `origin`, shape (n_nodes, n_columns); 0 where no weight is."""
        return self.total / self.divisor[:, np.newaxis]

    @property
    def mean_square(self) -> NDArray[np.float64]:
        """Mean of the squared target less `origin`, shape (n_nodes, n_outputs); 0 where no weight is."""
        return self.square / self.divisor[:, np.newaxis]


def aggregate_to_root(ensemble: TreeEnsemble, leaf_sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fill in the inner nodes: each is the sum of its left and its right child."""
    sums = leaf_sums.copy()
    for level in reversed(ensemble.levels):
        sums[level] = sums[ensemble.left[level]] + sums[ensemble.right[level]]
    return sums
