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

from truewood.inference.moments import Moments, TreeScores, sum_products

Floats = NDArray[np.float64]

# Fewer rows than this say too little about their spread.
_FEWEST_ROWS = 20
# Spreads that are so much smaller than scores are rounding errors.
_ROUNDING = 1e-12


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


def find_problem(n_scoring: int) -> str | None:
    """Why errors cannot be measured, given the number of rows that score; None where they can."""
    if n_scoring >= _FEWEST_ROWS:
        return None
    return f"it takes at least {_FEWEST_ROWS} rows that score the model, got {n_scoring}"


def measure_errors(moments: Moments, scores: TreeScores, scale: float) -> Errors:
    """How far scores may be off.

    Parameters
    ----------
    moments : Moments
        Sums over all rows of what they contribute.
    scores : TreeScores
        The scores.
    scale : float
        Size of a large score: where all unseen rows say the same, spreads are rounding errors of it, and count as 0.
    """
    least = (_ROUNDING * scale) ** 2
    # Of what rows say where they are unseen, and of pairs that score each other's trees.
    test_variance = moments.phi_phi + np.maximum(moments.phi_psi, 0.0)
    test_variance = np.where(test_variance > least, test_variance, 0.0)
    total_variance = moments.total_phi_phi + max(moments.total_phi_psi, 0.0)
    total_variance = total_variance if total_variance > least else 0.0
    if not moments.n_grown:
        return Errors(np.sqrt(test_variance), np.sqrt(test_variance), float(np.sqrt(total_variance)))
    g = _find_g(moments, scores)
    both = moments.phi_phi + 2.0 * g * moments.phi_psi + g**2 * moments.psi_psi
    return Errors(
        test_error=np.sqrt(test_variance),
        std_error=np.sqrt(np.maximum(both, 0.0) + scores.N),
        total_error=float(np.sqrt(total_variance)),
    )


def _find_g(moments: Moments, scores: TreeScores) -> Floats:
    """How much a row does to a score by growing trees, as a multiple of what it does to the means at their nodes.

    That is the slope of the trees' scores over L, less what is there for other reasons: a row also scores the trees
    that it did not grow, and psi has a part from each tree itself. The slope is noisy when trees are few; it goes
    above 1 by no more than it can be told from noise (James & Stein).
    """
    L, r, N = moments.L, moments.r, scores.N
    first, tree_weight = slice(len(L)), scores.tree_weight
    share = tree_weight[first, np.newaxis] / tree_weight[first].sum()
    covariance = sum_products(share * L, np.where(share > 0, scores.per_tree[first] - scores.values, 0.0))
    variance = r * moments.psi_psi
    slope = covariance + moments.phi_psi - r * N
    is_used = variance > 0
    excess = np.divide(slope, variance, out=np.ones_like(slope), where=is_used) - 1.0
    noise = N * tree_weight.sum() / tree_weight[first].sum()
    error = np.divide(noise, variance, out=np.zeros_like(slope), where=is_used)
    is_above = excess**2 > error
    kept = 1.0 - np.divide(error, excess**2, out=np.ones_like(slope), where=is_above)
    return 1.0 + np.maximum(excess, 0.0) * np.where(is_above, kept, 0.0)
