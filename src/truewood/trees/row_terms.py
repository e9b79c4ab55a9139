"""What one row adds to the scores of the splits on its path, as numbers at the nodes.

A row of weight s that comes to a node adds s (linear . y + square |y|^2 + constant) to the score of the split above.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ClassTerms:
    """What a row adds at each node on its path; zero at roots and below splits that do not count.

    Parameters
    ----------
    by_class : ndarray of shape (n_nodes, n_columns)
        All that a row of the class adds; of several outputs, what they add together is summed.
    """

    by_class: Floats


@dataclass(frozen=True, eq=False)
class NumberTerms:
    """What a row adds at each node on its path; zero at roots and below splits that do not count.

    Parameters
    ----------
    linear : ndarray of shape (n_nodes, n_columns)
        Times the target less its origin.
    square : ndarray of shape (n_nodes,)
        Times the squared target less its origin.
    constant : ndarray of shape (n_nodes,)
        Times one.
    """

    linear: Floats
    square: Floats
    constant: Floats


RowTerms = ClassTerms | NumberTerms


@dataclass(frozen=True, eq=False)
class BothTerms:
    """What rows add to the scores of some trees, in both of their roles.

    Parameters
    ----------
    unseen : ClassTerms or NumberTerms
        For rows that score a tree: phi is the sum of these over trees.
    training : ClassTerms or NumberTerms
        For rows that grew it: psi is the sum of these over trees.
    """

    unseen: RowTerms
    training: RowTerms
