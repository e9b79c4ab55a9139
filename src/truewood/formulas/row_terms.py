"""The measures row by row: what one row adds to the score of each split on its path.

Given the trees, a score is linear in the targets of the unseen rows, and given the unseen rows, in those of the
training rows. A row of weight s that goes from split m to child c adds s (linear_c . y + square_c |y|^2 + constant_c)
to the score of m's feature; summed over the unseen rows, or over the training rows, that is the score. Notation as in
`measures`; W is the training weight of the root.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truewood.formulas.measures import centre, find_skipped
from truewood.trees.ensemble import TreeEnsemble
from truewood.trees.node_sums import NodeSums

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RowTerms:
    """What a row adds at each node on its path; zero at roots and below splits that do not count.

    Parameters
    ----------
    linear : ndarray of shape (n_nodes, n_columns)
        Times the target less its origin; for classes, all that a row of the class adds.
    square : ndarray of shape (n_nodes,) or None
        Times the squared target less its origin; None for classes.
    constant : ndarray of shape (n_nodes,) or None
        Times one; None for classes.
    """

    linear: Floats
    square: Floats | None
    constant: Floats | None


@dataclass(frozen=True, eq=False)
class BothTerms:
    """What rows add to the scores of some trees, in both of their roles.

    Parameters
    ----------
    unseen : RowTerms
        For rows that score a tree.
    training : RowTerms
        For rows that grew it.
    """

    unseen: RowTerms
    training: RowTerms


def ufi_terms(trees: TreeEnsemble, sums: NodeSums) -> BothTerms:
    """Terms of `measures.ufi`: y . (v_c omega_c / n'_c - v_m omega_m / n'_m), and y . (v'_c - v'_m) / W.

    No score changes when a number is taken from all unseen targets at a split, for numbers also from its means. Terms
    have y less the mean at the split: far from it, numbers of rows at the nodes would add to the spread of
    contributions, but not to that of the score.
    """
    up, mean, rate = trees.parent, sums.mean, trees.omega / sums.divisor
    value, origin = centre(trees, sums), _middle(trees, sums)[up]
    nothing, w_root = np.zeros(len(rate)), _root_weight(trees)
    if trees.kind.is_classification:
        pull = rate[:, np.newaxis] * value
        step = pull - pull[up]
        unseen = (step, nothing, -(step * origin).sum(axis=1))
        training = ((mean - mean[up]) / w_root[:, np.newaxis], nothing, nothing)
    else:
        square, by_square = sums.mean_square.sum(axis=1), rate[up] - rate
        step = 2.0 * (rate[:, np.newaxis] * (value - origin) - rate[up, np.newaxis] * (value[up] - origin))
        unseen = (
            step - 2.0 * by_square[:, np.newaxis] * origin,
            by_square,
            by_square * (origin**2).sum(axis=1) - (step * origin).sum(axis=1),
        )
        training = (2.0 * (mean - mean[up]) / w_root[:, np.newaxis], nothing, (square[up] - square) / w_root)
    is_counted = _find_counted(trees, sums)
    return BothTerms(_finish(trees, *unseen, is_counted), _finish(trees, *training, is_counted))


def ufi_centered_terms(trees: TreeEnsemble, sums: NodeSums) -> BothTerms:
    """Terms of `measures.ufi_centered`.

    (v_c - v_m) . y omega_c / n'_c, and (v'_c - vbar'_m) . y / W, with vbar'_m the mean of v' over the children,
    weighted as in training. In both, y is less a mean at the split, which changes no score.
    """
    up, value, mean = trees.parent, centre(trees, sums), sums.mean
    left, right = trees.split_children
    both = trees.omega[left] + trees.omega[right]
    share = np.divide(trees.omega[left], both, out=np.zeros(len(both)), where=both > 0)[:, np.newaxis]
    middle = mean.copy()
    middle[trees.splits] = share * mean[left] + (1.0 - share) * mean[right]
    nothing, is_counted = np.zeros(len(up)), _find_counted(trees, sums)
    both_terms = []
    for step, origin in (
        ((trees.omega / sums.divisor)[:, np.newaxis] * (value - value[up]), _middle(trees, sums)[up]),
        ((mean - middle[up]) / _root_weight(trees)[:, np.newaxis], value[up]),
    ):
        both_terms.append(_finish(trees, step, nothing, -(step * origin).sum(axis=1), is_counted))
    return BothTerms(*both_terms)


def mdi_oob_terms(trees: TreeEnsemble, sums: NodeSums) -> BothTerms:
    """Terms of `measures.mdi_oob`.

    (v_c - v_m) . (y - v_root) / n'_root, and y . (r_c / w_c - r_m / w_m), r being the sum of the unseen rows' targets
    less v_root, as a share of n'_root.
    """
    up, value, roots = trees.parent, centre(trees, sums), trees.offset[:-1]
    at_root = np.zeros_like(value[roots]) if trees.is_additive else value[roots]
    origin = np.broadcast_to(trees.spread(at_root), value.shape)
    n_unseen = np.broadcast_to(trees.spread(sums.divisor[roots]), sums.weight.shape)[:, np.newaxis]
    share = (sums.total - sums.weight[:, np.newaxis] * origin) / n_unseen
    per_weight = share / np.where(trees.weight > 0, trees.weight, 1.0)[:, np.newaxis]
    step, nothing = (value - value[up]) / n_unseen, np.zeros(len(up))
    is_counted = up != np.arange(len(up))
    return BothTerms(
        _finish(trees, step, nothing, -(step * origin).sum(axis=1), is_counted),
        _finish(trees, per_weight - per_weight[up], nothing, nothing, is_counted),
    )


def _root_weight(trees: TreeEnsemble) -> Floats:
    """Training weight of each node's root, shape (n_nodes,)."""
    return np.broadcast_to(trees.spread(trees.weight[trees.offset[:-1]]), trees.weight.shape)


def _middle(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Mean of the target at each node, of all rows that reach it, shape (n_nodes, n_columns)."""
    value = centre(trees, sums)
    if trees.is_additive:
        return value  # in units of the raw score: training rows have no targets to average
    weight = trees.weight[:, np.newaxis]
    n_rows = weight + sums.weight[:, np.newaxis]
    return (weight * value + sums.total) / np.where(n_rows > 0, n_rows, 1.0)


def _find_counted(trees: TreeEnsemble, sums: NodeSums) -> NDArray[np.bool_]:
    """Nodes below a split that counts, shape (n_nodes,)."""
    is_counted = np.zeros(len(trees.feature), dtype=np.bool_)
    counted = ~find_skipped(trees, sums)
    for child in trees.split_children:
        is_counted[child] = counted
    return is_counted


def _finish(
    trees: TreeEnsemble, linear: Floats, square: Floats, constant: Floats, is_counted: NDArray[np.bool_]
) -> RowTerms:
    """Leave out what does not count, average over outputs, and give classes all in one."""
    factor = is_counted / (1.0 if trees.is_additive else trees.kind.n_outputs)
    linear = linear * factor[:, np.newaxis]
    if not trees.kind.is_classification:
        return RowTerms(linear, square * factor, constant * factor)
    n_first = len(trees.kind.classes[0])
    linear[:, :n_first] += (constant * factor)[:, np.newaxis]
    return RowTerms(linear, None, None)


# Measures that are sums of contributions of rows.
ROW_TERMS = {"ufi": ufi_terms, "ufi_centered": ufi_centered_terms, "mdi_oob": mdi_oob_terms}
