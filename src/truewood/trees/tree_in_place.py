"""`TreeInPlace`: the arrays of one tree where the library has them."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray


class TreeInPlace(NamedTuple):
    """One tree as the library holds it, in arrays of any stride; children are numbers of nodes, negative at leaves.

    The kernel reads each number once, and checks it then as `TreeEnsemble` would.

    Parameters
    ----------
    feature, left, right : ndarray of int32 or int64, shape (n_nodes,)
        As in `TreeEnsemble`.
    threshold, weight : ndarray of float64, shape (n_nodes,)
        As there.
    missing_left : ndarray of bool or uint8, shape (n_nodes,)
        As there.
    value : ndarray of float64, shape (n_nodes, n_columns)
        Training means at the nodes.
    root_impurity : float
        As in `TreeEnsemble`.
    """

    feature: NDArray[Any]
    threshold: NDArray[Any]
    left: NDArray[Any]
    right: NDArray[Any]
    missing_left: NDArray[Any]
    weight: NDArray[Any]
    value: NDArray[Any]
    root_impurity: float
