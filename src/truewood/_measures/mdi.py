"""Mean decrease in impurity on the training rows: the usual, biased importance."""

from __future__ import annotations

from truewood._measures.measure import Measure
from truewood._measures.splits import Floats, centre, multiply_steps
from truewood._trees.ensemble import TreeEnsemble
from truewood._trees.node_sums import NodeSums


def score_splits(trees: TreeEnsemble, sums: NodeSums) -> Floats:
    """Split improvement on the training rows, eq. (di): omega_m H(m) - omega_l H(l) - omega_r H(r).

    H is 1 - |v|^2 for classes and the variance for numbers. As v_m and the mean square are weighted means of the
    children's, that is sum_c omega_c |v_c - v_m|^2.
    """
    value = centre(trees, sums)
    return multiply_steps(trees, value, value)


MDI = Measure(
    name="mdi",
    summary="mean decrease in impurity on the training rows; biased",
    title="mean decrease in impurity (biased)",
    split_score=score_splits,
    skips=False,
    uses_unseen=False,
    linear="mdi",
    why_no_inference="uses no unseen rows, and is not zero for a useless feature",
)
