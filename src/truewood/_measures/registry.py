"""The list of all measures."""

from __future__ import annotations

from truewood._measures.mdi import MDI
from truewood._measures.mdi_oob import MDI_OOB
from truewood._measures.measure import Measure
from truewood._measures.naive_oob import NAIVE_OOB
from truewood._measures.permutation import PERMUTATION
from truewood._measures.sobol_mda import SOBOL_MDA
from truewood._measures.ufi import UFI
from truewood._measures.ufi_centered import UFI_CENTERED

MEASURES: dict[str, Measure] = {
    measure.name: measure for measure in (UFI, UFI_CENTERED, MDI, MDI_OOB, NAIVE_OOB, PERMUTATION, SOBOL_MDA)
}

# The name that stands for the measure which fits the model, see `choose_measure`.
AUTO = "auto"

# What `corrected_importance` gives: no measure of a model, but scores that results hold and pictures name.
_CORRECTED = Measure(
    name="corrected",
    summary="mdi less that of permuted copies of the columns (Sandri & Zuccolotto)",
    title="pseudo-data corrected importance",
)
OF_RESULTS = MEASURES | {_CORRECTED.name: _CORRECTED}


def get_measure(name: str) -> Measure:
    """The measure whose scores a result holds."""
    return OF_RESULTS[name]


def choose_measure(name: str, *, scores_classes: bool, needs_linear: bool, is_weighted: bool) -> Measure | None:
    """The measure of a name that fits the trees; None where there is none for trees that need one linear in the target.

    "auto" is "ufi" for classes. For numbers it is the shift-free form: as published, a feature that moves only the size
    of the noise would score above zero. Where rows count differently it is "mdi_oob": a weighted mean of the few rows
    at a small node is biased towards the light ones, and its sums are not.
    """
    if name == AUTO and is_weighted:
        return MDI_OOB
    if name == AUTO:
        return UFI if scores_classes else UFI_CENTERED
    if not needs_linear:
        return MEASURES[name]
    linear = MEASURES[name].linear
    return None if linear is None else MEASURES[linear]


def measures() -> dict[str, str]:
    """Names of the measures that `importance` takes, with a line on each.

    Examples
    --------
    >>> import truewood as tw
    >>> tw.measures()["mdi_oob"]
    'mean decrease in impurity on unseen rows (Li et al.)'
    """
    automatic = {
        AUTO: "ufi for classes, ufi_centered for numbers and boosted trees, mdi_oob for weighted rows; the default"
    }
    return automatic | {name: measure.summary for name, measure in MEASURES.items()}
