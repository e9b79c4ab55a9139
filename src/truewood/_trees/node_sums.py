"""`NodeSums`, sums over the rows at each node, and `RowTerms`, the contribution of one row to the scores of splits.

A row of weight s that reaches a node adds s (linear . y + square |y|^2 + constant) to the score of the parent split.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from truewood._inputs.target import TargetKind
from truewood._trees.ensemble import TreeEnsemble

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NodeSums:
    """Sums over the rows that reach each node, from which scores of splits are computed.

    An engine computes them, and a measure is a function of a `TreeEnsemble` and its sums. Sums of the same trees over
    disjoint rows, with the same origin, can be added with ``+``.

    Parameters
    ----------
    weight : ndarray of float64, shape (n_nodes,)
        Sum of the rows' weights.
    total : ndarray of float64, shape (n_nodes, n_columns)
        Weighted sum of the target minus `origin`; for classes, the weight of each class.
    square : ndarray of float64, shape (n_nodes, n_outputs)
        Weighted sum of ``(target - origin) ** 2``; for classes, the weight.
    origin : ndarray of float64, shape (n_columns,)
        The number subtracted from the target.
    """

    weight: Floats
    total: Floats
    square: Floats
    origin: Floats

    @classmethod
    def unpack(
        cls, sums: NDArray[np.float64], kind: TargetKind, origin: NDArray[np.float64], *, counts_classes: bool
    ) -> NodeSums:
        """Split one array of sums into its parts.

        Parameters
        ----------
        sums : ndarray of shape (n_nodes, n_sums)
            Weight, sums of the columns and, if stored, sums of squares.
        kind : TargetKind
            The target.
        origin : ndarray of shape (n_columns,)
            The number subtracted from the target.
        counts_classes : bool
            Whether the columns are the weights of classes, so that sums of squares are equal to the weight.
        """
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
            raise ValueError(
                "only sums of the same trees with the same origin can be added, got totals of shapes "
                f"{self.total.shape} and {other.total.shape} with origins {self.origin} and {other.origin}; compute "
                "both for the same trees and origin."
            )
        return NodeSums(self.weight + other.weight, self.total + other.total, self.square + other.square, self.origin)

    def take(self, nodes: NDArray[np.int64]) -> NodeSums:
        """Sums of some of the nodes."""
        return NodeSums(self.weight[nodes], self.total[nodes], self.square[nodes], self.origin)

    @cached_property
    def divisor(self) -> Floats:
        """The weight, or 1 at nodes without any, shape (n_nodes,)."""
        return np.where(self.weight > 0, self.weight, 1.0)

    @property
    def mean(self) -> Floats:
        """Mean of the target minus `origin`, shape (n_nodes, n_columns); 0 at nodes without weight."""
        return self.total / self.divisor[:, np.newaxis]

    @property
    def mean_square(self) -> Floats:
        """Mean of ``(target - origin) ** 2``, shape (n_nodes, n_outputs); 0 at nodes without weight."""
        return self.square / self.divisor[:, np.newaxis]


def aggregate_to_root(ensemble: TreeEnsemble, leaf_sums: Floats) -> Floats:
    """Sums at all nodes, given those at the leaves: each inner node is the sum of its children."""
    sums = leaf_sums.copy()
    for level in reversed(ensemble.levels):
        sums[level] = sums[ensemble.left[level]] + sums[ensemble.right[level]]
    return sums


@dataclass(frozen=True, eq=False)
class ClassTerms:
    """Contribution of a row at each node on its path; zero at roots and below splits that are not scored.

    Parameters
    ----------
    by_class : ndarray of shape (n_nodes, n_columns)
        Contribution of a row of each class; contributions of several outputs add up.
    """

    by_class: Floats


@dataclass(frozen=True, eq=False)
class NumberTerms:
    """Contribution of a row at each node on its path; zero at roots and below splits that are not scored.

    Parameters
    ----------
    linear : ndarray of shape (n_nodes, n_columns)
        Coefficient of the target minus its origin.
    square : ndarray of shape (n_nodes,)
        Coefficient of the squared target minus its origin.
    constant : ndarray of shape (n_nodes,)
        Constant term.
    """

    linear: Floats
    square: Floats
    constant: Floats


RowTerms = ClassTerms | NumberTerms


@dataclass(frozen=True, eq=False)
class BothTerms:
    """Row terms for evaluation rows and for in-bag rows.

    Parameters
    ----------
    evaluation : ClassTerms or NumberTerms
        For evaluation rows of a tree: phi, the evaluation influence, is the sum of these over trees.
    in_bag : ClassTerms or NumberTerms
        For its in-bag rows: psi, the in-bag influence, is the sum of these over trees.
    """

    evaluation: RowTerms
    in_bag: RowTerms
