"""Unbiased feature importance in its shift-free form."""

from __future__ import annotations

import numpy as np

from truewood._measures.measure import Measure
from truewood._measures.splits import (
    Floats,
    average_all_rows,
    centre,
    find_counted,
    find_steps,
    keep_column,
    make_terms,
    multiply,
    multiply_steps,
    weigh_roots,
)
from truewood._trees.ensemble import TreeEnsemble
from truewood._trees.node_sums import NodeSums
from truewood._trees.row_terms import BothTerms


def score_splits(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Sum over children of omega_c (v_c - v_m) . (v'_c - v_m).

    As v_m is the weighted mean of v_l and v_r, that is a (v_l - v_r) . (v'_l - v'_r), a = omega_l omega_r / (omega_l +
    omega_r).
    """
    return multiply_steps(trees, centre(trees, sums), sums.mean)


def make_row_terms(trees: TreeEnsemble, sums: NodeSums, column: int | None = None) -> BothTerms:
    """For phi (v_c - v_m) . y omega_c / n'_c, for psi (v'_c - vbar'_m) . y / W.

    vbar'_m is the mean of v' over the children, weighted as in training. In both, y is less a mean at the split, which
    changes no score. `column` is a class, if only its part is asked for.
    """
    up, value, is_counted = trees.parent, centre(trees, sums), find_counted(trees, sums)
    nothing = np.zeros(len(up))
    both_terms = []
    for all_steps, origin in (
        ((trees.omega / sums.divisor)[:, np.newaxis] * find_steps(trees, value), average_all_rows(trees, sums)),
        (find_steps(trees, sums.mean) / weigh_roots(trees)[:, np.newaxis], value),
    ):
        step = keep_column(trees, all_steps, column)
        both_terms.append(make_terms(trees, step, nothing, -multiply(step, origin[up]), is_counted))
    return BothTerms(*both_terms)


UFI_CENTERED = Measure(
    name="ufi_centered",
    summary="unbiased feature importance in its shift-free form",
    title="unbiased importance (centred UFI)",
    split_score=score_splits,
    row_terms=make_row_terms,
    linear="ufi_centered",
)
