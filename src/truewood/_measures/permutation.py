"""Permutation importance, tree by tree (Breiman 2001)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from truewood._inputs.target import ClassTarget, Target
from truewood._measures.measure import Measure
from truewood._measures.splits import Floats
from truewood._trees.ensemble import TreeEnsemble


def increase_loss(
    trees: TreeEnsemble, leaves: NDArray[np.int32], swapped: NDArray[np.int32], target: Target, weight: Floats
) -> Floats:
    """Increase of a tree's loss when one column is permuted, eq. (p): weighted sum over rows, (n_features, n_outputs).

    Parameters
    ----------
    trees : TreeEnsemble
        The tree, with the values it predicts by.
    leaves : ndarray of shape (n,)
        Leaf of each row.
    swapped : ndarray of shape (n, n_features)
        Leaf of each row with one column permuted.
    target : ClassTarget or NumberTarget
        The target of these rows. The loss is 0/1 for classes and squared error for numbers.
    weight : ndarray of shape (n,)
        Weights of these rows.
    """
    increase = np.empty((swapped.shape[1], trees.kind.n_outputs))
    for o in range(trees.kind.n_outputs):
        before, after = _find_losses(trees, leaves, swapped, target, o)
        # Row after row, not a matrix product, whose order of additions depends on the machine.
        increase[:, o] = (weight[:, np.newaxis] * (after - before[:, np.newaxis])).sum(axis=0)
    return increase


def _find_losses(
    trees: TreeEnsemble, leaves: NDArray[np.int32], swapped: NDArray[np.int32], target: Target, output: int
) -> tuple[Floats, Floats]:
    """Losses of an output with the columns as they are, shape (n,), and with one permuted, shape (n, n_features)."""
    if isinstance(target, ClassTarget):
        first = trees.kind.first_column[output]
        prediction = trees.value[:, first : first + len(trees.kind.classes[output])].argmax(axis=1)
        code = target.codes[:, output]
        before = (prediction[leaves] != code).astype(np.float64)
        return before, (prediction[swapped] != code[:, np.newaxis]).astype(np.float64)
    number, value = target.numbers[:, output], trees.value[:, output] - target.origin[output]
    return (number - value[leaves]) ** 2, (number[:, np.newaxis] - value[swapped]) ** 2


PERMUTATION = Measure(
    name="permutation",
    summary="increase of each tree's loss when a column is permuted (Breiman)",
    title="permutation importance",
    loss_increase=increase_loss,
    skips=False,
    why_no_inference="has rows that depend on each other, as they exchange values",
    unit={"classification": "increase in error rate", "regression": "increase in squared error"},
    tasks_with_share=("regression",),  # an error rate is no part of Gini's impurity
)
