"""Bags that were drawn by weight: out-of-bag rows count by the inverse of their probability to be there.

Rows of large weight, such as those of a rare class in a balanced forest, are in nearly every bag. Left as they are, the
rows outside would hold hardly any of them; weighed by 1 / P(out of the bag) they have the mix of the data again.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from truewood._formatting import quote
from truewood._inputs.target import ClassTarget, Target
from truewood._rows.training_check import RowData
from truewood.adapters import WeightedDraws

Floats = NDArray[np.float64]

# Rows of a class that a tree leaves out on average: fewer say too little about the class.
_FEWEST_UNSEEN = 5
# Mixes of classes that differ by more than so many standard errors do not differ by chance.
_BY_CHANCE = 5.0
# Rows that hardly any bag leaves out do not count by more than the inverse of this.
_LEAST_PROBABILITY = 1e-9


def weigh_by_probability(data: RowData, draws: WeightedDraws) -> Floats:
    """Weights of rows when they score, shape (n_rows,): their own over their probability to be out of a bag."""
    weight = np.ones(data.n_rows) if data.weight is None else data.weight
    probability = draws.oob_probability
    # Scaled so that an unseen row counts about once on average.
    scaled: Floats = weight * probability.mean() / np.maximum(probability, _LEAST_PROBABILITY)
    return scaled


def match_classes(target: ClassTarget, row_weight: Floats, in_bags: Floats, square: float) -> Floats:
    """Weights of rows by which classes have the mix that they have in the bags, shape (n_rows,).

    A forest with class weights or balanced bags predicts classes of that mix. Judged by the mix of the data, its
    predictions are far off, and splits on noise make up for some of that. Where the mix of the bags is that of the
    rows, but for what draws do by chance, weights stay as they are.

    Parameters
    ----------
    target : ClassTarget
        Classes of the rows.
    row_weight : ndarray of shape (n_rows,)
        Weights of rows when they score.
    in_bags : ndarray of shape (n_rows,)
        Weight of each row in all bags together.
    square : float
        Sum of the squares of all weights in bags.
    """
    matched = row_weight
    for codes, labels in zip(target.codes.T, target.kind.classes, strict=True):
        mix, own = (np.bincount(codes, weights=part, minlength=len(labels)) for part in (in_bags, row_weight))
        total = mix.sum()
        mix, own = mix / total, own / own.sum()
        error = np.sqrt(own * (1.0 - own) * square) / total
        if (np.abs(mix - own) > _BY_CHANCE * error).any():
            matched = matched * np.divide(mix, own, out=np.zeros_like(mix), where=own > 0)[codes]
    return matched


def choose_bag_size(weight: Floats, classes: NDArray[np.integer]) -> int | None:
    """Number of draws for bags of as many classes as can be judged; None where as many draws as rows will do.

    Parameters
    ----------
    weight : ndarray of shape (n_rows,)
        Weights that rows are drawn by.
    classes : ndarray of int, shape (n_rows,)
        Number of each row's class.
    """
    draws = WeightedDraws(weight, len(weight))
    return _count_third(draws, classes) if _find_rarest(draws, classes)[1] < _FEWEST_UNSEEN else None


def warn_of_rare_classes(target: Target, draws: WeightedDraws, *, stacklevel: int) -> None:
    """Warn where bags leave out too few rows of a class to say anything about it."""
    if not isinstance(target, ClassTarget):
        return
    for codes, labels in zip(target.codes.T, target.kind.classes, strict=True):
        rarest, n_unseen = _find_rarest(draws, codes)
        if n_unseen < _FEWEST_UNSEEN:
            warnings.warn(
                f"bags were drawn by weight, and a tree leaves out {n_unseen:.1f} rows of class "
                f"{quote(labels[rarest].item())} on average, fewer than {_FEWEST_UNSEEN}, so that scores and "
                "p-values say "
                f"little; fit with max_samples={_count_third(draws, codes)}, which leaves out more, or pass rows the "
                "model never saw and rows='heldout'.",
                UserWarning,
                stacklevel=stacklevel,
            )
            return


def _find_rarest(draws: WeightedDraws, classes: NDArray[np.integer]) -> tuple[int, float]:
    """The class of which a bag leaves out fewest rows on average, and how many."""
    unseen = np.bincount(classes, weights=draws.oob_probability)
    rarest = int(np.where(np.bincount(classes) > 0, unseen, np.inf).argmin())
    return rarest, float(unseen[rarest])


def _count_third(draws: WeightedDraws, classes: NDArray[np.integer]) -> int:
    """Number of draws that leave out about a third of the rows of the class that is drawn most often."""
    mean = np.bincount(classes, weights=draws.weight) / np.maximum(np.bincount(classes), 1)
    return max(1, round(float(draws.weight.sum() / mean.max())))
