"""Mean decrease in impurity on unseen rows (Li et al. 2019)."""

from __future__ import annotations

import numpy as np

from truewood._measures.measure import Measure
from truewood._measures.splits import Floats, centre, keep_column, make_terms, multiply
from truewood._trees.ensemble import TreeEnsemble
from truewood._trees.node_sums import NodeSums
from truewood._trees.row_terms import BothTerms


def score_splits(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Sum over children of omega'_c v_c . v'_c less omega'_m v_m . v'_m, omega' the unseen share.

    The target is centred at the mean of the unseen rows at the tree's root: at the training mean, a useless feature
    would score by how far the two are apart, as with class weights. As omega'_m v'_m = sum_c omega'_c v'_c, a child
    contributes omega'_c (v_c - v_m) . v'_c.
    """
    value = centre(trees, sums)
    share = _centre_unseen(trees, sums) / _repeat_root_weight(trees, sums)
    parent = value[trees.splits]
    score = np.zeros((len(trees.splits), trees.kind.n_outputs))
    for child in trees.split_children:
        score += trees.kind.sum_columns((value[child] - parent) * share[child])
    return score


def make_row_terms(trees: TreeEnsemble, sums: NodeSums, column: int | None = None) -> BothTerms:
    """For phi (v_c - v_m) . (y - v'_root) / n'_root, for psi y . (r_c / w_c - r_m / w_m).

    r is the sum of the unseen rows' targets less v'_root, as a share of n'_root, and w the training weight of a node.
    `column` is a class, if only its part is asked for. psi then has y less the training mean at the split, which
    changes no score: r sums to zero over all classes, but not in one.
    """
    up, value = trees.parent, centre(trees, sums)
    origin, n_unseen = _repeat_root_mean(trees, sums), _repeat_root_weight(trees, sums)
    share = _centre_unseen(trees, sums) / n_unseen
    per_weight = share / np.where(trees.weight > 0, trees.weight, 1.0)[:, np.newaxis]
    step, in_bag = (keep_column(trees, part - part[up], column) for part in (value, per_weight))
    step, nothing = step / n_unseen, np.zeros(len(up))
    is_counted = up != np.arange(len(up))
    return BothTerms(
        make_terms(trees, step, nothing, -multiply(step, origin), is_counted),
        make_terms(trees, in_bag, nothing, nothing if column is None else -multiply(in_bag, value[up]), is_counted),
    )


def _repeat_root_mean(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Mean of the unseen rows at each node's root, shape (n_nodes, n_columns)."""
    return np.broadcast_to(trees.repeat_for_nodes(sums.mean[trees.offset[:-1]]), sums.total.shape)


def _repeat_root_weight(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Weight of the unseen rows at each node's root, or 1 where there are none, shape (n_nodes, 1)."""
    return np.broadcast_to(trees.repeat_for_nodes(sums.divisor[trees.offset[:-1]]), sums.weight.shape)[:, np.newaxis]


def _centre_unseen(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Sum of the unseen rows' targets less their mean at the root, shape (n_nodes, n_columns)."""
    return sums.total - sums.weight[:, np.newaxis] * _repeat_root_mean(trees, sums)


MDI_OOB = Measure(
    name="mdi_oob",
    summary="mean decrease in impurity on unseen rows (Li et al.)",
    title="mean decrease in impurity, unseen rows",
    split_score=score_splits,
    row_terms=make_row_terms,
    skips=False,
    linear="mdi_oob",
)
