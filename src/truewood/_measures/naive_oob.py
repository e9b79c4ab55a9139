"""The plain correction, which over-corrects: impurity of the unseen rows around the training means."""

from __future__ import annotations

import numpy as np

from truewood._measures.measure import Measure
from truewood._measures.splits import Floats, centre, children_less_parent
from truewood._trees.ensemble import TreeEnsemble
from truewood._trees.node_sums import NodeSums


def score_splits(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Delta' alone, with H'(m) = mean of |y' - v_m|^2 over the unseen rows."""
    value = centre(trees, sums)
    node = sums.mean_square + trees.kind.sum_columns(value * (value - 2.0 * sums.mean))
    return -children_less_parent(trees, trees.omega[:, np.newaxis] * node)


NAIVE_OOB = Measure(
    name="naive_oob",
    summary="impurity decrease of unseen rows around training means; over-corrects",
    title="impurity decrease of unseen rows (over-corrected)",
    split_score=score_splits,
    why_no_inference="is not zero on average for a useless feature",
)
