"""Mean decrease in impurity on unseen rows (Li et al. 2019)."""

from __future__ import annotations

import numpy as np

from truewood.formulas.measure import Measure
from truewood.formulas.splits import Floats, centre, make_terms
from truewood.trees.ensemble import TreeEnsemble
from truewood.trees.node_sums import NodeSums
from truewood.trees.row_terms import BothTerms


def score_splits(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Sum over children of omega'_c v_c . v'_c less omega'_m v_m . v'_m, omega' the unseen share.

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


def make_row_terms(trees: TreeEnsemble, sums: NodeSums) -> BothTerms:
    """For phi (v_c - v_m) . (y - v_root) / n'_root, for psi y . (r_c / w_c - r_m / w_m).

    r is the sum of the unseen rows' targets less v_root, as a share of n'_root, and w the training weight of a node.
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
        make_terms(trees, step, nothing, -(step * origin).sum(axis=1), is_counted),
        make_terms(trees, per_weight - per_weight[up], nothing, nothing, is_counted),
    )


MDI_OOB = Measure(
    name="mdi_oob",
    summary="mean decrease in impurity on unseen rows (Li et al.)",
    title="mean decrease in impurity, unseen rows",
    split_score=score_splits,
    row_terms=make_row_terms,
    skips=False,
    additive="mdi_oob",
)
