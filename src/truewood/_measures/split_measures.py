"""Formulas of the measures that score single splits, and what each row adds to these scores.

`splits.py` explains the notation and the equation names. In the row terms, phi is the influence of a row on trees that
it evaluates, and psi its influence on trees that it was in bag for. `column` selects the part of one class.
"""

from __future__ import annotations

import numpy as np

from truewood._measures.splits import (
    Floats,
    center,
    dot_columns,
    find_counted_nodes,
    find_steps,
    keep_column,
    make_terms,
    multiply_steps,
    predict_evaluation_means,
    subtract_parent,
    weigh_roots,
)
from truewood._trees.ensemble import TreeEnsemble
from truewood._trees.node_sums import BothTerms, NodeSums


def score_mdi(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Split improvement on the in-bag rows, eq. (di): omega_m H(m) - omega_l H(l) - omega_r H(r).

    H is 1 - |v|^2 for classes and the variance for numbers. As v_m and the mean square are weighted means of the
    children's, that is sum_c omega_c |v_c - v_m|^2.
    """
    value = center(trees, sums)
    return multiply_steps(trees, value, value)


def score_loss_oob(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Delta' alone, with H'(m) = mean of |y' - v_m|^2 over the evaluation rows: their loss if m predicts v_m.

    Li et al.'s "naive-oob" is another quantity: the impurity of the evaluation rows around their own means.
    """
    value = center(trees, sums)
    node = sums.mean_square + trees.kind.sum_columns(value * (value - 2.0 * sums.mean))
    return -subtract_parent(trees, trees.omega[:, np.newaxis] * node)


def score_ufi(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """UFI as published, eqs. (pi), (delta_c), (ut) for classes and (utr) for numbers.

    Classes: H'(m) = 1 - v_m . v'_m. Numbers: Delta + Delta' with H'(m) = q'_m - 2 v'_m v_m + v_m^2; the squares of v
    cancel against Delta, which leaves omega (2 v v' - q') at the children minus the same at m.
    """
    node = trees.kind.sum_columns(center(trees, sums) * sums.total)
    if not trees.kind.is_classification:
        node = 2.0 * node - sums.square
    return subtract_parent(trees, (trees.omega / sums.divisor)[:, np.newaxis] * node)


def make_ufi_terms(trees: TreeEnsemble, sums: NodeSums, column: int | None = None) -> BothTerms:
    """For phi y . (v_c omega_c / n'_c - v_m omega_m / n'_m), for psi y . (v'_c - v'_m) / W.

    No score changes when a number is subtracted from all evaluation targets at a split and, for numbers, from its
    means. Terms use y minus its expectation at the split: far from it, the numbers of rows at the nodes would add to
    the variance of contributions, but not to that of the score.
    """
    up, mean, rate = trees.parent, sums.mean, trees.omega / sums.divisor
    value, origin = center(trees, sums), predict_evaluation_means(trees, sums)[up]
    nothing, w_root = np.zeros(len(rate)), weigh_roots(trees)
    if trees.kind.is_classification:
        weighted = rate[:, np.newaxis] * value
        step = keep_column(trees, weighted - weighted[up], column)
        evaluation = (step, nothing, -dot_columns(step, origin))
        moved = keep_column(trees, mean - mean[up], column)
        in_bag = (moved / w_root[:, np.newaxis], nothing, nothing)
    else:
        square, by_square = np.cumsum(sums.mean_square, axis=1)[:, -1], rate[up] - rate
        step = 2.0 * (rate[:, np.newaxis] * (value - origin) - rate[up, np.newaxis] * (value[up] - origin))
        evaluation = (
            step - 2.0 * by_square[:, np.newaxis] * origin,
            by_square,
            by_square * dot_columns(origin, origin) - dot_columns(step, origin),
        )
        in_bag = (2.0 * (mean - mean[up]) / w_root[:, np.newaxis], nothing, (square[up] - square) / w_root)
    is_counted = find_counted_nodes(trees, sums)
    return BothTerms(make_terms(trees, *evaluation, is_counted), make_terms(trees, *in_bag, is_counted))


def score_ufi_centered(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """UFI in its shift-free form: sum over children of omega_c (v_c - v_m) . (v'_c - v_m).

    As v_m is the weighted mean of v_l and v_r, that is a (v_l - v_r) . (v'_l - v'_r), a = omega_l omega_r / (omega_l +
    omega_r).
    """
    return multiply_steps(trees, center(trees, sums), sums.mean)


def make_ufi_centered_terms(trees: TreeEnsemble, sums: NodeSums, column: int | None = None) -> BothTerms:
    """For phi (v_c - v_m) . y omega_c / n'_c, for psi (v'_c - vbar'_m) . y / W.

    vbar'_m is the mean of v' over the children, weighted as in training. Both use y minus a number at the split, which
    changes no score.
    """
    up, value, is_counted = trees.parent, center(trees, sums), find_counted_nodes(trees, sums)
    nothing = np.zeros(len(up))
    both_terms = []
    for all_steps, origin in (
        ((trees.omega / sums.divisor)[:, np.newaxis] * find_steps(trees, value), predict_evaluation_means(trees, sums)),
        (find_steps(trees, sums.mean) / weigh_roots(trees)[:, np.newaxis], value),
    ):
        step = keep_column(trees, all_steps, column)
        both_terms.append(make_terms(trees, step, nothing, -dot_columns(step, origin[up]), is_counted))
    return BothTerms(*both_terms)


def score_mdi_oob(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Sum over children of omega'_c v_c . v'_c minus omega'_m v_m . v'_m, omega' the share of evaluation rows.

    The target is centered at the mean of the evaluation rows at the tree's root: at the training mean, a useless
    feature would score by the distance of the two, as with class weights. As omega'_m v'_m = sum_c omega'_c v'_c, a
    child contributes omega'_c (v_c - v_m) . v'_c.
    """
    value = center(trees, sums)
    share = _center_evaluation(trees, sums) / _repeat_root_weight(trees, sums)
    parent = value[trees.splits]
    score = np.zeros((len(trees.splits), trees.kind.n_outputs))
    for child in trees.split_children:
        score += trees.kind.sum_columns((value[child] - parent) * share[child])
    return score


def make_mdi_oob_terms(trees: TreeEnsemble, sums: NodeSums, column: int | None = None) -> BothTerms:
    """For phi (v_c - v_m) . (y - v'_root) / n'_root, for psi y . (r_c / w_c - r_m / w_m).

    r is the sum of the evaluation targets minus v'_root, as a share of n'_root, and w the training weight of a node.
    With a `column`, psi uses y minus the training mean at the split, which changes no score: r sums to zero over all
    classes, but not in one.
    """
    up, value = trees.parent, center(trees, sums)
    origin, n_evaluation = _repeat_root_mean(trees, sums), _repeat_root_weight(trees, sums)
    share = _center_evaluation(trees, sums) / n_evaluation
    per_weight = share / np.where(trees.weight > 0, trees.weight, 1.0)[:, np.newaxis]
    step, in_bag = (keep_column(trees, part - part[up], column) for part in (value, per_weight))
    step, nothing = step / n_evaluation, np.zeros(len(up))
    is_counted = up != np.arange(len(up))
    return BothTerms(
        make_terms(trees, step, nothing, -dot_columns(step, origin), is_counted),
        make_terms(trees, in_bag, nothing, nothing if column is None else -dot_columns(in_bag, value[up]), is_counted),
    )


def _repeat_root_mean(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Mean of the evaluation rows at each node's root, shape (n_nodes, n_columns)."""
    return np.broadcast_to(trees.repeat_for_nodes(sums.mean[trees.offset[:-1]]), sums.total.shape)


def _repeat_root_weight(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Weight of the evaluation rows at each node's root, or 1 without any, shape (n_nodes, 1)."""
    return np.broadcast_to(trees.repeat_for_nodes(sums.divisor[trees.offset[:-1]]), sums.weight.shape)[:, np.newaxis]


def _center_evaluation(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Sum of the evaluation targets minus their mean at the root, shape (n_nodes, n_columns)."""
    return sums.total - sums.weight[:, np.newaxis] * _repeat_root_mean(trees, sums)
