"""What one row adds to the scores of the splits on its path, as numbers at the nodes.

A row of weight s that reaches a node adds s (linear . y + square |y|^2 + constant) to the score of the split above.
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
        All that a row of the class adds; for several outputs, the sum of what they add.
    """

    by_class: Floats


@dataclass(frozen=True, eq=False)
class NumberTerms:
    """What a row adds at each node on its path; zero at roots and below splits that do not count.

    Parameters
    ----------
    linear : ndarray of shape (n_nodes, n_columns)
        Times the target minus its origin.
    square : ndarray of shape (n_nodes,)
        Times the squared target minus its origin.
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
    evaluation : ClassTerms or NumberTerms
        For evaluation rows of a tree: phi, the evaluation influence, is the sum of these over trees.
    in_bag : ClassTerms or NumberTerms
        For its in-bag rows: psi, the in-bag influence, is the sum of these over trees.
    """

    evaluation: RowTerms
    in_bag: RowTerms
