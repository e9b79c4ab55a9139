"""`Measure`, the entry of each measure, and the choice of the measure that fits a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._formatting import quote
from truewood._inputs.target import Target, TargetKind
from truewood._measures.prediction_measures import (
    increase_permutation_loss,
    increase_projected_loss,
    multiply_parts,
)
from truewood._measures.split_measures import (
    make_mdi_oob_terms,
    make_ufi_centered_terms,
    make_ufi_terms,
    score_loss_oob,
    score_mdi,
    score_mdi_oob,
    score_ufi,
    score_ufi_centered,
)
from truewood._trees.ensemble import TreeEnsemble
from truewood._trees.node_sums import BothTerms, NodeSums
from truewood.adapters import TreeModel

Floats = NDArray[np.float64]
SplitScore = Callable[[TreeEnsemble, NodeSums], Floats]
MakeTerms = Callable[[TreeEnsemble, NodeSums, int | None], BothTerms]
ForestLoss = Callable[[TargetKind, Floats, Floats], Floats]
PartScore = Callable[[Floats, Floats, Floats], Floats]
LossIncrease = Callable[[TreeEnsemble, NDArray[np.int32], NDArray[np.int32], Target, Floats], Floats]

# The name that stands for the measure that fits the model, see `find_measure`.
AUTO = "auto"
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
        The name that users pass.
    summary : str
        One line that describes it.
    title : str
        Its name in plots and reports.
    split_score : callable or None
        ``split_score(trees, sums)``: the contribution of each split to the score of its feature, shape (n_splits,
        n_outputs), in the order of `TreeEnsemble.splits`. None for a measure of leaves or predictions.
    row_terms : callable or None
        ``row_terms(trees, sums, column)``: the same score, or the part of one column of the target, as a sum over
        rows; None if it is not such a sum.
    loss_increase : callable or None
        For a measure of leaves: ``loss_increase(trees, leaves, swapped, target, weight)``.
    forest_loss : callable or None
        For a measure of the predictions of all trees together, with columns projected out:
        ``forest_loss(kind, residual, lost)``. Its scores are shares of the target's impurity.
    part_score : callable or None
        For a measure of each feature's part in a regression per tree: ``part_score(y, parts, weight)``, by row.
    why_no_inference : str or None
        Why it has no standard errors and p-values: a predicate whose subject is the measure.
    skips : bool
        Whether a split counts only when evaluation rows reach both children.
    uses_evaluation_rows : bool
        Whether the score depends on evaluation rows.
    regression_scale : float
        The score of a perfect split in units of the variance it removes.
    linear : str or None
        The measure to use instead when scores must be linear in the target: for trees that add up to a raw score and
        for trees that compare hazards; None if there is none.
    unit : dict of str
        The unit of the scores, by task.
    tasks_with_share : tuple of str
        Tasks for which scores are shares of the target's impurity.
    """

    name: str
    summary: str
    title: str
    split_score: SplitScore | None = None
    row_terms: MakeTerms | None = None
    loss_increase: LossIncrease | None = None
    forest_loss: ForestLoss | None = None
    part_score: PartScore | None = None
    why_no_inference: str | None = None
    skips: bool = True
    uses_evaluation_rows: bool = True
    regression_scale: float = 1.0
    linear: str | None = None
    unit: dict[str, str] = field(default_factory=lambda: _DECREASE)
    tasks_with_share: tuple[str, ...] = ("classification", "regression")

    @property
    def needs_training_rows(self) -> bool:
        """Whether scoring needs the in-bag rows of each tree, not just what the tree stores of them."""
        return self.forest_loss is not None or self.part_score is not None

    @property
    def is_given_others(self) -> bool:
        """Whether a score is the model's loss without a feature, given the others, and not the sum over its splits."""
        return self.forest_loss is not None

    @property
    def is_loss_increase(self) -> bool:
        """Whether a score is the loss added by permuting a feature; such scores do not add up to a whole."""
        return self.loss_increase is not None

    def find_scale(self, kind: TargetKind) -> float:
        """The score of a perfect split in units of the impurity it removes."""
        return 1.0 if kind.is_classification else self.regression_scale


UFI = Measure(
    name="ufi",
    summary="unbiased feature importance (Zhou & Hooker)",
    title="unbiased importance (UFI)",
    split_score=score_ufi,
    row_terms=make_ufi_terms,
    regression_scale=2.0,
    linear="ufi_centered",
)
UFI_CENTERED = Measure(
    name="ufi_centered",
    summary="unbiased feature importance that does not change if a constant is added to the target",
    title="unbiased importance (centered UFI)",
    split_score=score_ufi_centered,
    row_terms=make_ufi_centered_terms,
    linear="ufi_centered",
)
MDI = Measure(
    name="mdi",
    summary="mean decrease in impurity on the training rows; biased",
    title="mean decrease in impurity (biased)",
    split_score=score_mdi,
    skips=False,
    uses_evaluation_rows=False,
    linear="mdi",
    why_no_inference="uses no evaluation rows, and is not zero for a useless feature",
)
MDI_OOB = Measure(
    name="mdi_oob",
    summary="mean decrease in impurity on evaluation rows (Li et al.)",
    title="mean decrease in impurity, evaluation rows",
    split_score=score_mdi_oob,
    row_terms=make_mdi_oob_terms,
    skips=False,
    linear="mdi_oob",
)
MDI_PLUS_OOB = Measure(
    name="mdi_plus_oob",
    summary="covariance of the target with the feature's part of the prediction by a ridge regression on each tree's "
    "splits and columns (MDI+, Agarwal et al.); needs the training data",
    title="MDI+, evaluation rows",
    part_score=multiply_parts,
    skips=False,
)
LOSS_OOB = Measure(
    name="loss_oob",
    summary="decrease in squared error or Brier score on evaluation rows; biased downward",
    title="decrease in loss on evaluation rows (biased downward)",
    split_score=score_loss_oob,
    why_no_inference="is not zero on average for a useless feature",
)
PERMUTATION = Measure(
    name="permutation",
    summary="increase in each tree's loss when a column is permuted (Breiman)",
    title="permutation importance",
    loss_increase=increase_permutation_loss,
    skips=False,
    why_no_inference="shuffles values between rows, so that the rows are no longer independent",
    unit={"classification": "increase in error rate", "regression": "increase in squared error"},
    tasks_with_share=("regression",),  # an error rate is not a share of the Gini impurity
)
SOBOL_MDA = Measure(
    name="sobol_mda",
    summary="increase in the forest's loss without a column, given the others (Sobol-MDA, Bénard et al.); "
    "needs the training data",
    title="importance given the others (Sobol-MDA)",
    forest_loss=increase_projected_loss,
    skips=False,
    unit={
        "classification": "increase in Brier score, share of Gini impurity",
        "regression": "increase in squared error, share of variance",
    },
)
# Scores of `corrected_importance`, which results hold and plots name; `importance` does not accept it.
_CORRECTED = Measure(
    name="corrected",
    summary="mdi minus that of permuted copies of the columns (Sandri & Zuccolotto)",
    title="pseudo-data corrected importance",
)

MEASURES: dict[str, Measure] = {
    measure.name: measure
    for measure in (UFI, UFI_CENTERED, MDI, MDI_OOB, MDI_PLUS_OOB, LOSS_OOB, PERMUTATION, SOBOL_MDA)
}
OF_RESULTS = MEASURES | {_CORRECTED.name: _CORRECTED}


def get_measure(name: str) -> Measure:
    """The measure behind the scores of a result."""
    return OF_RESULTS[name]


def measures() -> dict[str, str]:
    """List the measures of `importance`, with a one-line summary of each.

    Returns
    -------
    dict of str to str
        Summaries by name.

    Examples
    --------
    >>> import truewood as tw
    >>> tw.measures()["mdi_oob"]
    'mean decrease in impurity on evaluation rows (Li et al.)'
    """
    automatic = {
        AUTO: "default; ufi for classification, ufi_centered for regression, survival and boosting, mdi_oob for "
        "weighted rows"
    }
    return automatic | {name: measure.summary for name, measure in MEASURES.items()}


def check_measure(measure: Any) -> None:
    """Refuse anything but the name of a measure."""
    if not isinstance(measure, str) or (measure != AUTO and measure not in MEASURES):
        raise ValueError(f"measure must be one of {', '.join(map(repr, measures()))}, got {quote(measure)}.")


def find_measure(name: str, tree_model: TreeModel, *, compares_hazards: bool, is_weighted: bool) -> Measure:
    """The measure that fits the model and the rows.

    "auto" is "ufi" for classes. For numbers it is "ufi_centered", because with the published form a feature that
    affects only the size of the noise would score above zero. With unequal weights it is "mdi_oob", because the
    weighted mean of the few rows at a small node is biased toward rows of small weight, but sums are not.

    Parameters
    ----------
    name : str
        A name that `check_measure` accepts.
    tree_model : TreeModel
        The model.
    compares_hazards : bool
        Whether splits are scored by the hazards of their nodes.
    is_weighted : bool
        Whether the weights of rows differ.
    """
    if name == AUTO and is_weighted:
        return MDI_OOB
    target, is_additive = tree_model.target, tree_model.is_additive
    if name == AUTO:
        return UFI if target.is_y and target.kind.is_classification and not is_additive else UFI_CENTERED
    chosen = MEASURES[name]
    if not is_additive and not compares_hazards:
        return chosen
    if chosen.linear is None:
        linear = ", ".join(repr(name) for name, measure in MEASURES.items() if measure.linear)
        trees = "boosted trees" if is_additive else "survival trees"
        raise ValueError(f"measure={quote(name)} is not defined for {trees} ({tree_model.name}); use one of {linear}.")
    return MEASURES[chosen.linear]


def find_inference_problem(measure: Measure, inference: bool | str, *, contributions: bool = False) -> str | None:
    """Why standard errors and p-values are unavailable; None if they are available."""
    if not inference:
        return "inference=False was passed; pass inference=True"
    if measure.why_no_inference is None:
        return None
    problem = f"measure={measure.name!r} {measure.why_no_inference}; use measure='auto'"
    if isinstance(inference, str) or contributions:
        argument = "contributions=True" if contributions else f"inference={quote(inference)}"
        raise ValueError(f"{argument} is unavailable: {problem}.")
    return problem
