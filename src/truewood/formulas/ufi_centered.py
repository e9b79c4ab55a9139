"""Unbiased feature importance in its shift-free form."""

from __future__ import annotations

import numpy as np

from truewood.formulas.measure import Measure
from truewood.formulas.splits import (
    Floats,
    average_all_rows,
    centre,
    find_counted,
    keep_column,
    make_terms,
    multiply,
    weigh_roots,
)
from truewood.trees.ensemble import TreeEnsemble
from truewood.trees.node_sums import NodeSums
from truewood.trees.row_terms import BothTerms


def score_splits(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Sum over children of omega_c (v_c - v_m) . (v'_c - v_m)."""
    value = centre(trees, sums)
    mean = sums.mean
    parent = value[trees.splits]
    score = np.zeros((len(trees.splits), trees.kind.n_outputs))
    for child in trees.split_children:
        products = trees.kind.sum_columns((value[child] - parent) * (mean[child] - parent))
        score += trees.omega[child, np.newaxis] * products
    return score


def make_row_terms(trees: TreeEnsemble, sums: NodeSums, column: int | None = None) -> BothTerms:
    """For phi (v_c - v_m) . y omega_c / n'_c, for psi (v'_c - vbar'_m) . y / W.

    vbar'_m is the mean of v' over the children, weighted as in training. In both, y is less a mean at the split, which
    changes no score. `column` is a class, if only its part is asked for.
    """
    up, value, mean = trees.parent, centre(trees, sums), sums.mean
    left, right = trees.split_children
    both = trees.omega[left] + trees.omega[right]
    share = np.divide(trees.omega[left], both, out=np.zeros(len(both)), where=both > 0)[:, np.newaxis]
    middle = mean.copy()
    middle[trees.splits] = share * mean[left] + (1.0 - share) * mean[right]
    nothing, is_counted = np.zeros(len(up)), find_counted(trees, sums)
    both_terms = []
    for all_steps, origin in (
        ((trees.omega / sums.divisor)[:, np.newaxis] * (value - value[up]), average_all_rows(trees, sums)[up]),
        ((mean - middle[up]) / weigh_roots(trees)[:, np.newaxis], value[up]),
    ):
        step = keep_column(trees, all_steps, column)
        both_terms.append(make_terms(trees, step, nothing, -multiply(step, origin), is_counted))
    return BothTerms(*both_terms)


UFI_CENTERED = Measure(
    name="ufi_centered",
    summary="unbiased feature importance in its shift-free form",
    title="unbiased importance (centred UFI)",
    split_score=score_splits,
    row_terms=make_row_terms,
    linear="ufi_centered",
)
