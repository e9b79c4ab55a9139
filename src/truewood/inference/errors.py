"""Standard errors from what each row contributes to the scores, without refitting.

For rows that a fixed model never saw, contributions are independent, and their spread is the standard error. Out of
bag, a row has two roles: it scores some trees (phi) and helped to grow the others (psi).

Is a score zero? Then every phi has mean zero, given the other rows, and the spread is that of phi, but two rows also
vary together: each scores trees that the other grew. That part is the sum of phi psi.

How large is it? Then the spread over data sets is that of both roles together. psi is what a row does to the means at
the nodes; it also decides which splits there are. How much that adds, the bags tell: trees that a row grew have other
scores than trees that it did not. docs/inference.md has the formulas, with the letters that are used here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truewood.data.groups import Grouping, add_groups
from truewood.inference.contributions import BagEffect, Contributions

Floats = NDArray[np.float64]

# Fewer rows than this say too little about their spread.
_FEWEST_ROWS = 20


@dataclass(frozen=True, eq=False)
class TreeScores:
    """Scores of a model and of its trees.

    Parameters
    ----------
    values : ndarray of shape (n_groups,)
        The scores: sums of contributions over all rows, divided by the sum of `tree_weight`.
    per_tree : ndarray of shape (n_trees, n_groups)
        Scores by tree.
    tree_weight : ndarray of shape (n_trees,)
        How much each tree counts, 0 for trees without unseen rows; for trees that add up, all of it is 1.
    """

    values: Floats
    per_tree: Floats
    tree_weight: Floats

    @property
    def N(self) -> Floats:  # noqa: N802
        """Variance of the scores because the forest is one of many that could be grown on the same data."""
        share = self.tree_weight / self.tree_weight.sum()
        spread = np.where(share[:, np.newaxis] > 0, self.per_tree - self.values, 0.0)
        own = float((share**2).sum())
        return _sum_products(share[:, np.newaxis] * spread, share[:, np.newaxis] * spread) / max(1.0 - own, own)


@dataclass(frozen=True, eq=False)
class Errors:
    """How far scores may be off.

    Parameters
    ----------
    test_error : ndarray of shape (n_features,)
        Spread of a score around zero if the feature says nothing.
    std_error : ndarray of shape (n_features,)
        Spread of a score around its expectation.
    total_error : float
        Spread of the sum of all scores around zero if no feature says anything.
    """

    test_error: Floats
    std_error: Floats
    total_error: float


def find_problem(contributions: Contributions) -> str | None:
    """Why errors cannot be measured; None where they can."""
    if contributions.n_scoring >= _FEWEST_ROWS:
        return None
    return f"it takes at least {_FEWEST_ROWS} rows that score the model, got {contributions.n_scoring}"


def measure_errors(contributions: Contributions, scores: TreeScores, grouping: Grouping) -> Errors:
    """How far scores may be off.

    Parameters
    ----------
    contributions : Contributions
        What rows contribute to the scores of single columns.
    scores : TreeScores
        The scores of groups of columns.
    grouping : Grouping
        Columns that are scored together.
    """
    chosen, n_scoring = contributions.is_scoring, contributions.n_scoring
    total_weight, mean = scores.tree_weight.sum(), scores.values / n_scoring
    phi = add_groups(contributions.phi[chosen], grouping) / total_weight - mean
    # Measured rows stand for all that score.
    scale = n_scoring / len(phi)
    if contributions.psi is None or contributions.bag_effect is None:
        spread = np.sqrt(scale * _sum_products(phi, phi))
        total = phi.sum(axis=1)
        return Errors(spread, spread, float(np.sqrt(scale * _sum_products(total, total))))
    psi = add_groups(contributions.psi[chosen], grouping) / total_weight - mean
    bag_effect = BagEffect(add_groups(contributions.bag_effect.L, grouping) / total_weight, contributions.bag_effect.r)
    both = phi + _find_g(phi, psi, bag_effect, scores, n_scoring) * psi
    return Errors(
        test_error=np.sqrt(scale * _test_variance(phi, psi)),
        std_error=np.sqrt(scale * _sum_products(both, both) + scores.N),
        total_error=float(np.sqrt(scale * _test_variance(phi.sum(axis=1), psi.sum(axis=1)))),
    )


def _test_variance(phi: Floats, psi: Floats) -> Floats:
    """Variance around zero: of what rows say where they are unseen, and of pairs that score each other's trees."""
    return _sum_products(phi, phi) + np.maximum(_sum_products(phi, psi), 0.0)


def _find_g(phi: Floats, psi: Floats, bag_effect: BagEffect, scores: TreeScores, n_scoring: int) -> Floats:
    """How much a row does to a score by growing trees, as a multiple of what it does to the means at their nodes.

    That is the slope of the trees' scores over L, less what is there for other reasons: a row also scores the trees
    that it did not grow, and psi has a part from each tree itself. The slope is noisy when trees are few; it goes
    above 1 by no more than it can be told from noise (James & Stein).
    """
    L, r, N = bag_effect.L, bag_effect.r, scores.N
    first = slice(len(L))
    tree_weight = scores.tree_weight
    share = tree_weight[first, np.newaxis] / tree_weight[first].sum()
    covariance = _sum_products(share * L, np.where(share > 0, scores.per_tree[first] - scores.values, 0.0))
    variance = r * _sum_products(psi, psi)
    slope = covariance + _sum_products(phi, psi) - r * N * len(psi) / n_scoring
    is_used = variance > 0
    excess = np.divide(slope, variance, out=np.ones_like(slope), where=is_used) - 1.0
    noise = N * tree_weight.sum() / tree_weight[first].sum()
    error = np.divide(noise, variance, out=np.zeros_like(slope), where=is_used)
    is_above = excess**2 > error
    kept = 1.0 - np.divide(error, excess**2, out=np.ones_like(slope), where=is_above)
    return 1.0 + np.maximum(excess, 0.0) * np.where(is_above, kept, 0.0)


def _sum_products(a: Floats, b: Floats) -> Floats:
    """Sum over rows; not a matrix product, whose order of additions depends on the machine."""
    summed: Floats = (a * b).sum(axis=0)
    return summed
