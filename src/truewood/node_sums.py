"""`NodeSums`: what rows say at the nodes of trees, as sums that can be added up in any order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truewood.ensemble import TreeEnsemble


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

    def __add__(self, other: NodeSums) -> NodeSums:
        if self.total.shape != other.total.shape or not np.array_equal(self.origin, other.origin):
            raise ValueError("only sums of the same trees with the same origin can be added.")
        return NodeSums(
            self.weight + other.weight, self.total + other.total, self.square + other.square, self.origin
        )

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean of the target less `origin`, shape (n_nodes, n_columns); 0 where no weight is."""
        return _divide(self.total, self.weight)

    @property
    def mean_square(self) -> NDArray[np.float64]:
        """Mean of the squared target less `origin`, shape (n_nodes, n_outputs); 0 where no weight is."""
        return _divide(self.square, self.weight)


def _divide(sums: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    return sums / np.where(weight > 0, weight, 1.0)[:, np.newaxis]


def add_up(ensemble: TreeEnsemble, leaf_sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fill in the inner nodes: each is the sum of its left and its right child."""
    sums = leaf_sums.copy()
    for level in reversed(ensemble.levels):
        sums[level] = sums[ensemble.left[level]] + sums[ensemble.right[level]]
    return sums
