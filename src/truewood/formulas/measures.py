"""The measures: one function per published formula, over training nodes and the sums of unseen rows.

Each takes trees and sums and gives the contribution of every split to the score of the feature it splits on, shape
(n_splits, n_outputs), in the order of `TreeEnsemble.splits`. Equation names are those of Zhou & Hooker, "Unbiased
Measurement of Feature Importance in Tree-Based Methods". Notation: omega is a node's share of the training weight, v
its training mean, v' and q' mean and mean square of the unseen rows there, m a split and c its children l, r.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truewood.data.target import Target
from truewood.trees.ensemble import TreeEnsemble
from truewood.trees.node_sums import NodeSums

Floats = NDArray[np.float64]


def mdi(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Split improvement on the training rows, eq. (di): omega_m H(m) - omega_l H(l) - omega_r H(r).

    H is 1 - |v|^2 for classes and the variance for numbers. As v_m and the mean square are weighted means of the
    children's, all but the squares of v cancel.
    """
    value = centre(trees, sums)
    return _children_less_parent(trees, trees.omega[:, np.newaxis] * trees.kind.sum_columns(value * value))


def ufi(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Unbiased feature importance, eqs. (pi), (delta_c), (ut) for classes and (utr) for numbers.

    Classes: H'(m) = 1 - v_m . v'_m. Numbers: Delta + Delta' with H'(m) = q'_m - 2 v'_m v_m + v_m^2; the squares of v
    cancel against Delta, which leaves omega (2 v v' - q') at the children less the same at m.
    """
    node = trees.kind.sum_columns(centre(trees, sums) * sums.total)
    if not trees.kind.is_classification:
        node = 2.0 * node - sums.square
    return _children_less_parent(trees, (trees.omega / sums.divisor)[:, np.newaxis] * node)


def ufi_centered(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """The shift-free form: sum over children of omega_c (v_c - v_m) . (v'_c - v_m)."""
    value = centre(trees, sums)
    mean = sums.mean
    parent = value[trees.splits]
    score = np.zeros((len(trees.splits), trees.kind.n_outputs))
    for child in trees.split_children:
        products = trees.kind.sum_columns((value[child] - parent) * (mean[child] - parent))
        score += trees.omega[child, np.newaxis] * products
    return score


def mdi_oob(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Li et al. 2019: sum over children of omega'_c v_c . v'_c less omega'_m v_m . v'_m, omega' the unseen share.

    The target is centred at the training mean of the tree's root; that of additive trees has mean zero already. As
    omega'_m v'_m = sum_c omega'_c v'_c, a child contributes omega'_c (v_c - v_m) . v'_c.
    """
    value = centre(trees, sums)
    roots = trees.offset[:-1]
    centred = sums.total
    if not trees.is_additive:
        centred = centred - sums.weight[:, np.newaxis] * trees.spread(value[roots])
    n_unseen = trees.spread(np.where(sums.weight[roots] > 0, sums.weight[roots], 1.0))
    share = centred / np.broadcast_to(n_unseen, sums.weight.shape)[:, np.newaxis]
    parent = value[trees.splits]
    score = np.zeros((len(trees.splits), trees.kind.n_outputs))
    for child in trees.split_children:
        score += trees.kind.sum_columns((value[child] - parent) * share[child])
    return score


def naive_oob(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """The one that over-corrects: Delta' alone, H'(m) = mean of |y' - v_m|^2 over the unseen rows."""
    value = centre(trees, sums)
    node = sums.mean_square + trees.kind.sum_columns(value * (value - 2.0 * sums.mean))
    return -_children_less_parent(trees, trees.omega[:, np.newaxis] * node)


def centre(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Node values less the sums' origin, which is zero for classes."""
    if trees.kind.is_classification:
        return trees.value
    # A scalar for a single output: numpy is slow to broadcast along a short axis.
    return trees.value - (sums.origin[0] if trees.kind.n_outputs == 1 else sums.origin)


def _children_less_parent(trees: TreeEnsemble, node: Floats) -> Floats:
    left, right = trees.split_children
    return np.take(node, left, axis=0) + np.take(node, right, axis=0) - np.take(node, trees.splits, axis=0)


def permutation(
    trees: TreeEnsemble,
    leaves: NDArray[np.int32],
    swapped: NDArray[np.int32],
    rows: NDArray[np.int64],
    target: Target,
    row_weight: Floats,
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
    rows : ndarray of shape (n,)
        The rows.
    target : Target
        The target of all rows. The loss is 0/1 for classes and squared error for numbers.
    row_weight : ndarray of shape (n,)
        Weights of these rows.
    """
    kind = trees.kind
    increase = np.empty((swapped.shape[1], kind.n_outputs))
    for o in range(kind.n_outputs):
        if target.codes is not None:
            columns = slice(kind.first_column[o], kind.first_column[o] + len(kind.classes[o]))
            prediction = trees.value[:, columns].argmax(axis=1)
            code = target.codes[rows, o]
            before = (prediction[leaves] != code).astype(np.float64)
            after = (prediction[swapped] != code[:, np.newaxis]).astype(np.float64)
        elif target.numbers is not None:
            number, value = target.numbers[rows, o], trees.value[:, o] - target.origin[o]
            before = (number - value[leaves]) ** 2
            after = (number[:, np.newaxis] - value[swapped]) ** 2
        # Row after row, not a matrix product, whose order of additions depends on the machine.
        increase[:, o] = (row_weight[:, np.newaxis] * (after - before[:, np.newaxis])).sum(axis=0)
    return increase


@dataclass(frozen=True)
class Measure:
    """A measure by name.

    Parameters
    ----------
    summary : str
        What it is, in a line.
    contributions : callable or None
        Contribution of each split; None for `permutation`, which looks at leaves.
    skips : bool
        Whether a split counts only when both children hold unseen rows.
    uses_unseen : bool
        Whether unseen rows matter at all.
    regression_scale : float
        The score of a perfect split in units of the variance it removes.
    additive : str or None
        The measure that scores trees whose values add up to a raw score; None where there is none.
    why_no_inference : str or None
        Why it has no standard errors and p-values, as the rest of a sentence that begins with the measure.
    """

    summary: str
    contributions: Callable[[TreeEnsemble, NodeSums], Floats] | None
    skips: bool = True
    uses_unseen: bool = True
    regression_scale: float = 1.0
    additive: str | None = None
    why_no_inference: str | None = None


MEASURES = {
    "ufi": Measure("unbiased feature importance (Zhou & Hooker)", ufi, regression_scale=2.0, additive="ufi_centered"),
    "ufi_centered": Measure(
        "unbiased feature importance in its shift-free form", ufi_centered, additive="ufi_centered"
    ),
    "mdi": Measure(
        "mean decrease in impurity on the training rows; biased",
        mdi,
        skips=False,
        uses_unseen=False,
        additive="mdi",
        why_no_inference="uses no unseen rows, and is not zero for a useless feature",
    ),
    "mdi_oob": Measure(
        "mean decrease in impurity on unseen rows (Li et al.)", mdi_oob, skips=False, additive="mdi_oob"
    ),
    "naive_oob": Measure(
        "impurity decrease of unseen rows around training means; over-corrects",
        naive_oob,
        why_no_inference="is not zero on average for a useless feature",
    ),
    "permutation": Measure(
        "increase of each tree's loss when a column is permuted (Breiman)",
        None,
        skips=False,
        why_no_inference="has rows that depend on each other, as they exchange values",
    ),
}


def measures() -> dict[str, str]:
    """Names of the measures that `importance` takes, with a line on each.

    Examples
    --------
    >>> import truewood as tw
    >>> tw.measures()["mdi_oob"]
    'mean decrease in impurity on unseen rows (Li et al.)'
    """
    return {name: measure.summary for name, measure in MEASURES.items()}


def find_skipped(trees: TreeEnsemble, sums: NodeSums) -> NDArray[np.bool_]:
    """Which splits have a child without unseen rows, shape (n_splits,)."""
    left, right = trees.split_children
    is_empty = sums.weight <= 0
    return is_empty[left] | is_empty[right]


def add_features(trees: TreeEnsemble, contributions: Floats) -> Floats:
    """Sum contributions of splits by tree and feature, shape (n_trees, n_features, n_outputs)."""
    cell = trees.split_features.astype(np.int64)
    if trees.n_trees > 1:
        cell += np.repeat(np.arange(trees.n_trees) * trees.n_features, np.diff(trees.offset))[trees.splits]
    scores = [
        np.bincount(cell, weights=contributions[:, o], minlength=trees.n_trees * trees.n_features)
        for o in range(trees.kind.n_outputs)
    ]
    return np.stack(scores, axis=-1, dtype=np.float64).reshape(trees.n_trees, trees.n_features, trees.kind.n_outputs)
