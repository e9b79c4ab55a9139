"""Unbiased feature importance, as Zhou & Hooker published it."""

from __future__ import annotations

import numpy as np

from truewood._measures.measure import Measure
from truewood._measures.splits import (
    Floats,
    average_all_rows,
    centre,
    children_less_parent,
    find_counted,
    keep_column,
    make_terms,
    multiply,
    weigh_roots,
)
from truewood._trees.ensemble import TreeEnsemble
from truewood._trees.node_sums import NodeSums
from truewood._trees.row_terms import BothTerms


def score_splits(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Eqs. (pi), (delta_c), (ut) for classes and (utr) for numbers.

    Classes: H'(m) = 1 - v_m . v'_m. Numbers: Delta + Delta' with H'(m) = q'_m - 2 v'_m v_m + v_m^2; the squares of v
    cancel against Delta, which leaves omega (2 v v' - q') at the children less the same at m.
    """
    node = trees.kind.sum_columns(centre(trees, sums) * sums.total)
    if not trees.kind.is_classification:
        node = 2.0 * node - sums.square
    return children_less_parent(trees, (trees.omega / sums.divisor)[:, np.newaxis] * node)


def make_row_terms(trees: TreeEnsemble, sums: NodeSums, column: int | None = None) -> BothTerms:
    """For phi y . (v_c omega_c / n'_c - v_m omega_m / n'_m), for psi y . (v'_c - v'_m) / W.

    No score changes when a number is taken from all unseen targets at a split, for numbers also from its means. Terms
    have y less the mean at the split: far from it, numbers of rows at the nodes would add to the spread of
    contributions, but not to that of the score. `column` is a class, if only its part is asked for.
    """
    up, mean, rate = trees.parent, sums.mean, trees.omega / sums.divisor
    value, origin = centre(trees, sums), average_all_rows(trees, sums)[up]
    nothing, w_root = np.zeros(len(rate)), weigh_roots(trees)
    if trees.kind.is_classification:
        weighted = rate[:, np.newaxis] * value
        step = keep_column(trees, weighted - weighted[up], column)
        unseen = (step, nothing, -multiply(step, origin))
        moved = keep_column(trees, mean - mean[up], column)
        training = (moved / w_root[:, np.newaxis], nothing, nothing)
    else:
        square, by_square = np.cumsum(sums.mean_square, axis=1)[:, -1], rate[up] - rate
        step = 2.0 * (rate[:, np.newaxis] * (value - origin) - rate[up, np.newaxis] * (value[up] - origin))
        unseen = (
            step - 2.0 * by_square[:, np.newaxis] * origin,
            by_square,
            by_square * multiply(origin, origin) - multiply(step, origin),
        )
        training = (2.0 * (mean - mean[up]) / w_root[:, np.newaxis], nothing, (square[up] - square) / w_root)
    is_counted = find_counted(trees, sums)
    return BothTerms(make_terms(trees, *unseen, is_counted), make_terms(trees, *training, is_counted))


UFI = Measure(
    name="ufi",
    summary="unbiased feature importance (Zhou & Hooker)",
    title="unbiased importance (UFI)",
    split_score=score_splits,
    row_terms=make_row_terms,
    regression_scale=2.0,
    linear="ufi_centered",
)
