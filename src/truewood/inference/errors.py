"""Standard errors, tests and intervals from what each row contributes to the scores, without refitting.

For rows that a fixed model never saw, contributions are independent, and their spread is the standard error. Out of
bag, a row has two roles: it scores some trees (phi) and helped to grow the others (psi).

Is a score zero? Then every phi has mean zero, given the other rows, and the spread is that of phi, but two rows also
vary together: each scores trees that the other grew. That part is the sum of phi psi.

How large is it? Then the spread over data sets is that of both roles together. psi is what a row does to the means at
the nodes; it also decides which splits there are. How much that adds, the bags tell: trees that a row grew have other
scores than trees that it did not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from truewood.data.groups import Grouping, add_groups
from truewood.scoring.contributions import Contributions

Floats = NDArray[np.float64]

# Fewer rows than this say too little about their spread.
_FEWEST_ROWS = 20


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


def measure_errors(
    contributions: Contributions, grouping: Grouping, values: Floats, per_tree: Floats, tree_weight: Floats
) -> Errors | str:
    """How far scores may be off, or why that cannot be said.

    Parameters
    ----------
    contributions : Contributions
        What rows contribute to the scores of single columns.
    grouping : Grouping
        Columns that are scored together.
    values : ndarray of shape (n_groups,)
        The scores: sums of contributions over all rows, divided by the sum of `tree_weight`.
    per_tree : ndarray of shape (n_trees, n_groups)
        Scores by tree.
    tree_weight : ndarray of shape (n_trees,)
        How much each tree counts, 0 for trees without unseen rows; for trees that add up, all of it is 1.
    """
    n_rows, chosen = contributions.n_scoring, contributions.is_scoring
    if n_rows < _FEWEST_ROWS:
        return f"it takes at least {_FEWEST_ROWS} rows that score the model, got {n_rows}"
    total_weight, mean = tree_weight.sum(), values / n_rows
    phi = add_groups(contributions.unseen[chosen], grouping) / total_weight - mean
    scale = n_rows / len(phi)
    if contributions.training is None:
        spread = np.sqrt(scale * _sum_products(phi, phi))
        total = phi.sum(axis=1)
        return Errors(spread, spread, float(np.sqrt(scale * _sum_products(total, total))))
    psi = add_groups(contributions.training[chosen], grouping) / total_weight - mean
    noise = _forest_noise(values, per_tree, tree_weight)
    growth = _growth_rate(contributions, grouping, phi, psi, values, per_tree, tree_weight, noise)
    both = phi + growth * psi
    return Errors(
        test_error=np.sqrt(scale * _test_variance(phi, psi)),
        std_error=np.sqrt(scale * _sum_products(both, both) + noise),
        total_error=float(np.sqrt(scale * _test_variance(phi.sum(axis=1), psi.sum(axis=1)))),
    )


def _test_variance(phi: Floats, psi: Floats) -> Floats:
    """Variance around zero: of what rows say where they are unseen, and of pairs that score each other's trees."""
    return _sum_products(phi, phi) + np.maximum(_sum_products(phi, psi), 0.0)


def _forest_noise(values: Floats, per_tree: Floats, tree_weight: Floats) -> Floats:
    """Variance of the scores because the forest is one of many that could be grown on the same data."""
    share = tree_weight / tree_weight.sum()
    spread = np.where(share[:, np.newaxis] > 0, per_tree - values, 0.0)
    own = float((share**2).sum())
    return _sum_products(share[:, np.newaxis] * spread, share[:, np.newaxis] * spread) / max(1.0 - own, own)


def _growth_rate(
    contributions: Contributions,
    grouping: Grouping,
    phi: Floats,
    psi: Floats,
    values: Floats,
    per_tree: Floats,
    tree_weight: Floats,
    noise: Floats,
) -> Floats:
    """How much a row does to a score by growing trees, as a multiple of what it does to the means at their nodes.

    That is the slope of the trees' scores over what they owe to their bags by psi alone, less what is there for other
    reasons: a row also scores the trees that it did not grow, and psi has a part from each tree itself. The slope is
    noisy when trees are few; it goes above 1 by no more than it can be told from noise (James & Stein).
    """
    response = contributions.response
    first = slice(len(response.by_tree))
    share = tree_weight[first, np.newaxis] / tree_weight[first].sum()
    owed = add_groups(response.by_tree, grouping) / tree_weight.sum()
    together = _sum_products(share * owed, np.where(share > 0, per_tree[first] - values, 0.0))
    variance = response.bag_variance * _sum_products(psi, psi)
    own = response.bag_variance * noise * len(psi) / contributions.n_scoring
    slope = together + _sum_products(phi, psi) - own
    is_used = variance > 0
    excess = np.divide(slope, variance, out=np.ones_like(slope), where=is_used) - 1.0
    slope_noise = noise * tree_weight.sum() / tree_weight[first].sum()
    error = np.divide(slope_noise, variance, out=np.zeros_like(slope), where=is_used)
    is_above = excess**2 > error
    kept = 1.0 - np.divide(error, excess**2, out=np.ones_like(slope), where=is_above)
    return 1.0 + np.maximum(excess, 0.0) * np.where(is_above, kept, 0.0)


def _sum_products(a: Floats, b: Floats) -> Floats:
    """Sum over rows; not a matrix product, whose order of additions depends on the machine."""
    summed: Floats = (a * b).sum(axis=0)
    return summed


def find_interval(values: Floats, test_error: Floats, std_error: Floats, level: float) -> tuple[Floats, Floats]:
    """Ends of the expected scores that agree with the scores found, shape (n_features,).

    An expected score agrees if the score is no further from it than z standard deviations (Wilson's way): of
    `test_error` at an expected score of zero, of `std_error` at the score that was found, and of variances in between
    on the line through these two. So the interval is above zero just where a test at this level says so. Where it
    does not, there is less and less to draw the line by.

    Parameters
    ----------
    values : ndarray of shape (n_features,)
        Scores.
    test_error, std_error : ndarray of shape (n_features,)
        How far they may be off, see `Errors`.
    level : float
        Share of data sets whose interval holds the expected score.
    """
    z = stats.norm.ppf(0.5 + level / 2)
    low, high = values - z * test_error, values + z * test_error
    least = np.maximum(values, z * test_error)
    grown = np.maximum(std_error**2 - test_error**2, 0.0) * np.maximum(values, 0.0)
    shift = z**2 / 2 * np.divide(grown, least**2, out=np.zeros_like(values), where=least > 0)
    half = np.sqrt((z * test_error) ** 2 + 2 * shift * values + shift**2)
    return np.where(low > 0, values + shift - half, low), np.where(high > 0, values + shift + half, high)


def adjust(p_value: Floats, correction: str | None) -> Floats:
    """Adjust p-values for testing many features at once.

    Parameters
    ----------
    p_value : ndarray of shape (n_features,)
        P-values of single tests.
    correction : {"bh", "by", "holm"} or None
        Benjamini & Hochberg (false discovery rate), Benjamini & Yekutieli (the same under any dependence), Holm
        (probability of any false discovery), or none.
    """
    if correction is None:
        return p_value.copy()
    if correction in ("bh", "by"):
        adjusted: Floats = stats.false_discovery_control(p_value, method=correction)
        return adjusted
    if correction != "holm":
        raise ValueError(f"correction must be 'bh', 'by', 'holm' or None, got {correction!r}.")
    order = np.argsort(p_value, kind="stable")
    stepped = np.maximum.accumulate(p_value[order] * np.arange(len(p_value), 0, -1))
    holm = np.empty_like(p_value)
    holm[order] = np.minimum(stepped, 1.0)
    return holm


# Fewer scores that are not positive than this say little about their distribution.
_FEWEST_MIRRORED = 20


def mirror(values: Floats) -> Floats:
    """P-values from the scores alone (Janitza et al. 2018): the null distribution is that of the non-positive ones.

    Parameters
    ----------
    values : ndarray of shape (n_features,)
        Scores.
    """
    negative, zero = values[values < 0], values[values == 0]
    if len(negative) + len(zero) < _FEWEST_MIRRORED:
        raise ValueError(
            f"mirrored p-values need at least {_FEWEST_MIRRORED} features whose score is not positive, got "
            f"{len(negative) + len(zero)}; use p_value, or permutation_test."
        )
    null = np.sort(np.concatenate([negative, zero, -negative]))
    n_below = np.searchsorted(null, values, side="left")
    shares: Floats = 1.0 - n_below / len(null)
    return shares
