"""`Measure`: all that is to be known of a measure, in one entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from truewood._inputs.target import Target, TargetKind
from truewood._trees.ensemble import TreeEnsemble
from truewood._trees.node_sums import NodeSums
from truewood._trees.row_terms import BothTerms

Floats = NDArray[np.float64]
Split = Callable[[TreeEnsemble, NodeSums], Floats]
Terms = Callable[[TreeEnsemble, NodeSums, int | None], BothTerms]
ForestLoss = Callable[[TargetKind, Floats, Floats], Floats]
Increase = Callable[[TreeEnsemble, NDArray[np.int32], NDArray[np.int32], Target, Floats], Floats]

_DECREASE = {
    "classification": "decrease in Gini impurity",
    "regression": "decrease in squared error",
    "survival": "decrease in variance of martingale residuals",
}


@dataclass(frozen=True)
class Measure:
    """A measure of importance.

    Parameters
    ----------
    name : str
        What users call it by.
    summary : str
        What it is, in a line.
    title : str
        What pictures and reports call it.
    split_score : callable or None
        ``split_score(trees, sums)``: the contribution of each split to the score of its feature, shape (n_splits,
        n_outputs), in the order of `TreeEnsemble.splits`. None for a measure that looks at leaves or at predictions.
    row_terms : callable or None
        ``row_terms(trees, sums, column)``: the same score, or the part that one column of the target has in it, as a
        sum over rows; None where it is no such sum.
    loss_increase : callable or None
        For a measure that looks at leaves: ``loss_increase(trees, leaves, swapped, target, weight)``.
    forest_loss : callable or None
        For a measure that looks at predictions of all trees together, with columns projected out:
        ``forest_loss(kind, residual, lost)``. Its scores are shares of the target's impurity.
    why_no_inference : str or None
        Why it has no standard errors and p-values, as the rest of a sentence that begins with the measure.
    skips : bool
        Whether a split counts only when both children hold unseen rows.
    uses_unseen : bool
        Whether unseen rows matter at all.
    regression_scale : float
        The score of a perfect split in units of the variance it removes.
    linear : str or None
        The measure that takes its place where scores have to be linear in the target: of trees whose values add up to a
        raw score, and of trees that compare hazards; None where there is none.
    unit : dict of str
        What scores are measured in, by task.
    tasks_with_share : tuple of str
        Tasks whose scores are parts of the target's impurity.
    """

    name: str
    summary: str
    title: str
    split_score: Split | None = None
    row_terms: Terms | None = None
    loss_increase: Increase | None = None
    forest_loss: ForestLoss | None = None
    why_no_inference: str | None = None
    skips: bool = True
    uses_unseen: bool = True
    regression_scale: float = 1.0
    linear: str | None = None
    unit: dict[str, str] = field(default_factory=lambda: _DECREASE)
    tasks_with_share: tuple[str, ...] = ("classification", "regression")

    @property
    def is_given_others(self) -> bool:
        """Whether scores say what the model loses without a feature, given the others, not what its splits do."""
        return self.forest_loss is not None

    def find_scale(self, kind: TargetKind) -> float:
        """The score of a perfect split in units of the impurity it removes."""
        return 1.0 if kind.is_classification else self.regression_scale
