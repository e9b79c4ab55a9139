"""Bags drawn by weight: out-of-bag rows are weighted by the inverse of their probability of being out of bag.

Rows with a large weight, such as those of a rare class in a balanced forest, are in nearly every bag, so hardly any of
them are out of bag. Weighted by 1 / P(out of bag), the out-of-bag rows represent the data again.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from truewood._formatting import count, quote
from truewood._inputs.tables import RowData
from truewood._inputs.target import ClassTarget, Target
from truewood.adapters import WeightedDraws

Floats = NDArray[np.float64]

# Minimum number of evaluation rows of a class for valid tests: in all trees, and per tree. Found by simulation
# (docs/calibration.md, rare classes and class weights).
_FEWEST_IN_ALL = 250
_FEWEST_PER_TREE = 0.5
# A number per tree that is enough for any forest.
_ENOUGH_OOB = 5.0
# Minimum number of equally weighted rows, as a share of all rows, that count as much as the weighted ones.
_LEAST_EQUAL_SHARE = 0.2
# Class shares that differ by more than this many standard errors do not differ by chance.
_BY_CHANCE = 5.0
# Weights of rows that are in nearly every bag are limited to the inverse of this.
_LEAST_PROBABILITY = 1e-9


def weigh_by_probability(data: RowData, draws: WeightedDraws) -> Floats:
    """Weights of evaluation rows, shape (n_rows,): their own over their probability of being out of bag."""
    weight = np.ones(data.n_rows) if data.weight is None else data.weight
    probability = draws.oob_probability
    # Scaled so that an out-of-bag row counts about once on average.
    scaled: Floats = weight * probability.mean() / np.maximum(probability, _LEAST_PROBABILITY)
    return scaled


def match_classes(target: ClassTarget, row_weight: Floats, in_bags: Floats, square: float) -> Floats:
    """Weights that give classes the shares they have in the bags, shape (n_rows,).

    A forest with class weights or balanced bags predicts those shares. On rows with other class shares, its
    predictions are biased, and splits on noise reduce some of that bias. If the shares in the bags differ from those
    of the rows by chance only, weights stay unchanged.

    Parameters
    ----------
    target : ClassTarget
        Classes of the rows.
    row_weight : ndarray of shape (n_rows,)
        Weights of evaluation rows.
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
    """Number of draws per bag that leaves out rows of every class; None if as many draws as rows already do so.

    Parameters
    ----------
    weight : ndarray of shape (n_rows,)
        Weights of the draws.
    classes : ndarray of int, shape (n_rows,)
        Number of each row's class.
    """
    draws = WeightedDraws(weight, len(weight))
    return _count_third(draws, classes) if _find_rarest(draws.oob_probability, classes)[1] < _ENOUGH_OOB else None


def find_class_shortage(
    target: Target, n_trees: int, probability: Floats, draws: WeightedDraws | None, uncopied: Floats | None = None
) -> str | None:
    """Why errors are unavailable: trees are evaluated on too few rows of a class; None if they are available.

    A class that has few rows in the first place is not short of evaluation rows.

    Parameters
    ----------
    target : Target
        The target.
    n_trees : int
        Number of trees.
    probability : ndarray of shape (n_rows,)
        Share of trees that each row evaluates.
    draws : WeightedDraws or None
        How rows were drawn into bags, if that was by weight; otherwise bags hold copies of rows.
    uncopied : ndarray of shape (n_rows,), or None
        Share of trees that each row would evaluate if it had no copies; None if no row has any.
    """
    if not isinstance(target, ClassTarget):
        return None
    fewest = min(max(_FEWEST_IN_ALL / n_trees, _FEWEST_PER_TREE), _ENOUGH_OOB)
    for codes, labels in zip(target.codes.T, target.kind.classes, strict=True):
        rarest, n_evaluated = _find_rarest(probability, codes)
        if uncopied is not None and draws is None and uncopied[codes == rarest].sum() < fewest:
            continue
        if n_evaluated < fewest:
            cause = "bootstrap samples contain copies of the other rows of this class"
            remedy = "remove the copies, and pass class_weight='balanced_subsample' for balanced classes"
            if draws is not None:
                cause = "rows were drawn into bootstrap samples in proportion to their weights"
                remedy = _find_remedy(draws, codes, fewest)
            return (
                f"a tree is evaluated on {n_evaluated:.2g} rows of class {quote(labels[rarest].item())} on average, "
                f"fewer than the {fewest:.2g} needed with {count(n_trees, 'tree')}, because {cause}; {remedy}, or pass "
                "rows='heldout' and rows that the model never saw"
            )
    return None


def find_weight_shortage(draws: WeightedDraws) -> str | None:
    """Why errors of numbers are unavailable: a few rows are in every bag and outweigh the others; None if they do not.

    Nodes then represent these rows, which evaluate no tree. Rows of a class do so, too, but there are enough of them to
    represent the class, see `find_class_shortage`.
    """
    n_rows, n_equal = len(draws.weight), float(draws.weight.sum() ** 2 / (draws.weight**2).sum())
    if n_equal >= _LEAST_EQUAL_SHARE * n_rows:
        return None
    return (
        f"a few rows outweigh all others, so they are in almost every bootstrap sample: the {n_rows:,} rows count as "
        f"{n_equal:.1f} rows of equal weight, fewer than {100 * _LEAST_EQUAL_SHARE:.0f}%; pass rows='heldout' and rows "
        "that the model never saw"
    )


def _find_rarest(probability: Floats, classes: NDArray[np.integer]) -> tuple[int, float]:
    """The class with the fewest evaluation rows per tree on average, and how many."""
    n_evaluated = np.bincount(classes, weights=probability)
    rarest = int(np.where(np.bincount(classes) > 0, n_evaluated, np.inf).argmin())
    return rarest, float(n_evaluated[rarest])


def _find_remedy(draws: WeightedDraws, classes: NDArray[np.integer], fewest: float) -> str:
    """How to fit the forest so that a tree is evaluated on enough rows of every class."""
    n_draws = _count_third(draws, classes)
    n_evaluated = _find_rarest(replace(draws, n_draws=n_draws).oob_probability, classes)[1]
    if n_evaluated < _FEWEST_PER_TREE:
        return "merge this class with another one"
    trees = f" and at least {math.ceil(_FEWEST_IN_ALL / n_evaluated)} trees" if n_evaluated < fewest else ""
    return f"fit with max_samples={n_draws}{trees} to leave out more rows"


def _count_third(draws: WeightedDraws, classes: NDArray[np.integer]) -> int:
    """Number of draws that leaves out about a third of the rows of the class that is drawn most often."""
    mean = np.bincount(classes, weights=draws.weight) / np.maximum(np.bincount(classes), 1)
    return max(1, round(float(draws.weight.sum() / mean.max())))
