"""Formulas of the measures that compare predictions: permutation importance, Sobol-MDA and MDI+."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from truewood._inputs.target import ClassTarget, Target, TargetKind
from truewood._measures.splits import Floats
from truewood._trees.ensemble import TreeEnsemble


def increase_permutation_loss(
    trees: TreeEnsemble, leaves: NDArray[np.int32], swapped: NDArray[np.int32], target: Target, weight: Floats
) -> Floats:
    """Increase in a tree's loss when one column is permuted, eq. (p): weighted sum over rows, (n_features, n_outputs).

    Parameters
    ----------
    trees : TreeEnsemble
        The tree, with the values it predicts.
    leaves : ndarray of shape (n,)
        Leaf of each row.
    swapped : ndarray of shape (n, n_features)
        Leaf of each row with one column permuted.
    target : ClassTarget or NumberTarget
        The target of these rows. The loss is 0/1 for classes and squared error for numbers.
    weight : ndarray of shape (n,)
        Weights of these rows.
    """
    # A swap that leaves a row in its leaf changes no loss.
    row, feature = np.nonzero(swapped != leaves[:, np.newaxis])
    before, after, weight = leaves[row], swapped[row, feature], weight[row]
    increase = np.empty((swapped.shape[1], trees.kind.n_outputs))
    for o in range(trees.kind.n_outputs):
        find_loss = _make_loss(trees, target.take(row), o)
        # Row by row: the order of additions in a matrix product depends on the machine.
        added = weight * (find_loss(after) - find_loss(before))
        increase[:, o] = np.bincount(feature, weights=added, minlength=len(increase))
    return increase


def _make_loss(trees: TreeEnsemble, target: Target, output: int) -> Callable[[NDArray[np.int32]], Floats]:
    """A function that returns the losses of an output, given the leaf of each row of the target."""
    if isinstance(target, ClassTarget):
        first = trees.kind.first_column[output]
        prediction = trees.value[:, first : first + len(trees.kind.classes[output])].argmax(axis=1)
        code = target.codes[:, output]
        return lambda leaves: (prediction[leaves] != code).astype(np.float64)
    number, value = target.numbers[:, output], trees.value[:, output] - target.origin[output]
    return lambda leaves: (number - value[leaves]) ** 2


def increase_projected_loss(kind: TargetKind, residual: Floats, lost: Floats) -> Floats:
    """Increase in each row's squared error, or Brier score, without each group: (n_rows, n_groups, n_outputs).

    That is |y - m^(-j)|^2 - |y - m|^2.

    Parameters
    ----------
    kind : TargetKind
        What the model predicts.
    residual : ndarray of shape (n_rows, n_columns)
        y minus the forest's prediction m; classes are one-hot.
    lost : ndarray of shape (n_rows, n_groups, n_columns)
        The prediction without the group, m^(-j), minus m.
    """
    products = lost * (lost - 2.0 * residual[:, None, :])
    return kind.sum_columns(products.reshape(-1, kind.n_columns)).reshape(*lost.shape[:2], kind.n_outputs)


def multiply_parts(y: Floats, parts: Floats, weight: Floats) -> Floats:
    """What each row adds to the covariance of y and each feature's part of a prediction: (n_rows, n_features).

    That is weight (y - mean of y) (part - mean of the part).

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        A column of the target.
    parts : ndarray of shape (n_rows, n_features)
        The part of each feature in the prediction of that column.
    weight : ndarray of shape (n_rows,)
        Weights of the rows, which sum to one.
    """
    deviation = weight * (y - np.average(y, weights=weight))
    # Row by row: the order of additions in a matrix product depends on the machine.
    mean = (weight[:, np.newaxis] * parts).sum(axis=0)
    products: Floats = deviation[:, np.newaxis] * (parts - mean)
    return products
