"""Bags that were drawn by weight: out-of-bag rows count by the inverse of their probability to be there.

Rows of large weight, such as those of a rare class in a balanced forest, are in nearly every bag. Left as they are, the
rows outside would hold hardly any of them; weighed by 1 / P(out of the bag) they have the mix of the data again.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from truewood.adapters import WeightedDraws
from truewood.data.target import ClassTarget, Target
from truewood.rows.row_data import RowData

Floats = NDArray[np.float64]

# Rows of a class that a tree leaves out on average: fewer say too little about the class.
_FEWEST_UNSEEN = 5
# Rows that hardly any bag leaves out do not count by more than the inverse of this.
_LEAST_PROBABILITY = 1e-9


def weigh_by_probability(data: RowData, draws: WeightedDraws) -> Floats:
    """Weights of rows when they score, shape (n_rows,): their own over their probability to be out of a bag."""
    weight = np.ones(data.n_rows) if data.weight is None else data.weight
    probability = draws.oob_probability
    # Scaled so that an unseen row counts about once on average.
    scaled: Floats = weight * probability.mean() / np.maximum(probability, _LEAST_PROBABILITY)
    return scaled


def choose_n_draws(weight: Floats, classes: NDArray[np.integer] | None = None) -> int:
    """Number of draws for a bag that leaves out about a third of the rows that are drawn most often.

    Parameters
    ----------
    weight : ndarray of shape (n_rows,)
        Weights that rows are drawn by.
    classes : ndarray of int, shape (n_rows,), or None
        Number of each row's class: then it is the class of largest mean weight whose rows are left out; without
        classes, the rows as they are drawn.
    """
    if classes is None:
        typical = float((weight**2).sum() / weight.sum())
    else:
        n_rows = np.bincount(classes)
        typical = float((np.bincount(classes, weights=weight) / np.maximum(n_rows, 1)).max())
    return max(1, int(weight.sum() / typical))


def warn_of_rare_classes(target: Target, draws: WeightedDraws, *, stacklevel: int) -> None:
    """Warn where bags leave out too few rows of a class to say anything about it."""
    if not isinstance(target, ClassTarget):
        return
    probability = draws.oob_probability
    for output, labels in enumerate(target.kind.classes):
        codes = target.codes[:, output]
        unseen = np.bincount(codes, weights=probability, minlength=len(labels))
        rarest = int(np.where(np.bincount(codes, minlength=len(labels)) > 0, unseen, np.inf).argmin())
        if unseen[rarest] < _FEWEST_UNSEEN:
            warnings.warn(
                f"bags were drawn by weight, and a tree leaves out {unseen[rarest]:.1f} rows of class "
                f"{labels[rarest].item()!r} on average, fewer than {_FEWEST_UNSEEN}, so that scores and p-values say "
                f"little; fit with max_samples={choose_n_draws(draws.weight, codes)}, which leaves out more, or "
                "pass rows the model never saw and rows='heldout'.",
                UserWarning,
                stacklevel=stacklevel,
            )
            return
