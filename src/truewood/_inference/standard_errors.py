"""Standard errors from what each row contributes to the scores, without refitting.

For rows that a fixed model never saw, contributions are independent, and their spread is the standard error. Out of
bag, a row has two roles: it scores some trees (phi) and helped to grow the others. By that it moves the means at the
nodes (psi) and decides which splits there are; a is both together.

Is a score zero? Then every phi has mean zero, given the other rows, and the spread is that of phi, but two rows also
vary together: each scores trees that the other grew. That part is the sum of phi a. The bags tell it: trees that a row
grew have other scores than trees that it did not.

How large is it? Then the spread over data sets is that of both roles together, phi + a. How large a is row by row
takes more trees than most models have, so that g psi stands for it unless bags are asked for.
docs/theory/standard_errors.md has the formulas, with the letters that are used here.

Is a score zero? Given the models, contributions phi of a fold's rows have mean zero; but models are random, too: of two
rows in different folds each scores a model that the other grew, so that their contributions vary together. A sum over
pairs of rows, of which each pair is in it twice, has twice the variance of the sum over rows that phi alone tells of.

How large is it? Then a row counts by growing models as much as by scoring them, phi + phi. docs/theory/folds.md has
what was measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truewood._inference.influence import Moments, TreeScores, sum_products
from truewood._inference.rounding import drop_rounding

Floats = NDArray[np.float64]

# Fewer rows than this say too little about their spread.
_FEWEST_ROWS = 20


# Fewer groups than this say too little about their spread.
_FEWEST_GROUPS = 20


@dataclass(frozen=True, eq=False)
class Errors:
    """How far scores may be off.

    Parameters
    ----------
    null_std_error : ndarray of shape (n_features,)
        Spread of a score around zero if the feature says nothing.
    std_error : ndarray of shape (n_features,)
        Spread of a score around its expectation.
    total_error : float
        Spread of the sum of all scores around zero if no feature says anything.
    """

    null_std_error: Floats
    std_error: Floats
    total_error: float


def find_problem(n_scoring: int) -> str | None:
    """Why errors cannot be measured, given the number of rows that score; None where they can."""
    if n_scoring >= _FEWEST_ROWS:
        return None
    return f"it takes at least {_FEWEST_ROWS} rows that score the model, got {n_scoring}"


def measure_errors(
    moments: Moments, scores: TreeScores, n_rows: int, *, with_bags: bool = False, widening: float = 1.0
) -> Errors:
    """How far scores may be off.

    Parameters
    ----------
    moments : Moments
        Sums over all rows of what they contribute.
    scores : TreeScores
        The scores.
    n_rows : int
        Number of rows that were passed.
    with_bags : bool
        Whether `std_error` counts all that rows do by growing trees, as the bags tell it.
    widening : float
        What variances are multiplied by, see `correct_for_clusters`.
    """
    variance = np.append(moments.eval_eval, moments.total_eval_eval)
    if moments.n_inbag:
        variance = variance + np.maximum(_sum_phi_a(moments, scores), 0.0)
    variance = drop_rounding(variance, np.append(scores.magnitude, scores.magnitude.sum()), n_rows)
    tested = _straighten(variance, moments, scores) if moments.n_inbag else np.sqrt(variance)
    spread = variance[:-1]
    if moments.n_inbag:
        both = _spread_both(moments, scores, with_bags=with_bags)
        spread = np.maximum(spread, drop_rounding(both, scores.magnitude, n_rows))
    tested = np.sqrt(widening) * tested
    return Errors(null_std_error=tested[:-1], std_error=np.sqrt(widening * spread), total_error=float(tested[-1]))


def count_trees(moments: Moments, scores: TreeScores, is_found: NDArray[np.bool_]) -> int:
    """Number of trees from which bags tell the spread of some scores well: its variance within half of itself."""
    if moments.r == 0:
        return 2
    variance = _spread_both(moments, scores, with_bags=False)
    noise = np.sqrt(2.0 * moments.n_inbag) * scores.N / moments.r
    ratio = np.divide(2.0 * noise, variance, out=np.zeros_like(noise), where=is_found & (variance > 0))
    return int(np.ceil(len(scores.per_tree) * ratio.max(initial=0.0)))


def _sum_phi_a(moments: Moments, scores: TreeScores) -> Floats:
    """Sums of phi a, of each group and of all together; at least those of phi psi, which a always has.

    The covariance of a row's weight in the bags and the trees' scores is r a - phi: a row that is in the bag does not
    score. Its sum with phi has a part from each tree itself, N, and so has the sum of squares of phi, of about the
    same size: the two cancel. Of a single feature the sum is noisy where trees are few, as a multiple of the sum of
    phi^2 it hardly differs between the features of a model: the median of these multiples is used for all.
    """
    least: Floats = np.append(moments.eval_inbag, moments.total_eval_inbag)
    if moments.r == 0:  # one tree, or the same bag again
        return least
    spread, is_used = scores.spread(len(moments.K)), moments.eval_eval > 0
    of_groups = (sum_products(spread, moments.K) + moments.eval_eval)[is_used] / moments.eval_eval[is_used]
    multiple = float(np.median(of_groups)) if is_used.any() else 0.0
    total = sum_products(spread.sum(axis=1), moments.K.sum(axis=1)) + moments.total_eval_eval
    return np.maximum(np.append(multiple * moments.eval_eval, total) / moments.r, least)


def _straighten(variance: Floats, moments: Moments, scores: TreeScores) -> Floats:
    """Errors, of each group and of all together, in units of which scores of useless features are nearly normal.

    But for the forest noise N, such a score is like a chi-square less its expectation D: where unseen rows agree with
    the splits by chance, the rows that grew them agree more, too, and the variance is larger than on average, by
    1 + score / D. The square root of a chi-square is nearly normal (Fisher); that is the score in units of the mean of
    the two errors. D is what the splits gain where rows score trees that they grew themselves; in their own bag rows
    count 1 + r times.
    """
    values, gain = scores.values, (scores.mdi - scores.values) / (1.0 + moments.r)
    values, D = np.append(values, values.sum()), np.maximum(np.append(gain, gain.sum()), 0.0)
    common = np.maximum(variance - np.append(scores.N, scores.total_N), 0.0)
    explained = values * np.divide(common, variance, out=np.zeros_like(common), where=variance > 0)
    sum_of_squares = np.maximum(explained, -0.75 * D) + D  # far below zero there is nothing to tell
    ratio = np.divide(D, sum_of_squares, out=np.ones_like(D), where=D > 0)
    on_average = variance - common + common * ratio
    errors: Floats = (np.sqrt(variance) + np.sqrt(on_average)) / 2.0
    return errors


def _spread_both(moments: Moments, scores: TreeScores, *, with_bags: bool) -> Floats:
    """Variance of the scores over data sets."""
    g = _find_g(moments, scores)
    both = moments.eval_eval + 2.0 * g * moments.eval_inbag + g**2 * moments.inbag_inbag
    if with_bags and moments.r > 0:
        spread, r = scores.spread(len(moments.K)), moments.r
        # Each tree adds its own square to what its bag seems to explain.
        C_C = moments.C_C - sum_products(spread**2, moments.d_d[:, np.newaxis])
        C_phi = sum_products(spread, moments.K)
        a_a = (C_C + 2.0 * C_phi + moments.eval_eval + scores.N) / r**2
        both = np.maximum(both, moments.eval_eval + 2.0 * (C_phi + moments.eval_eval) / r + a_a)
    return np.maximum(both, 0.0) + scores.N


def _find_g(moments: Moments, scores: TreeScores) -> Floats:
    """How much a row does to a score by growing trees, as a multiple of what it does to the means at their nodes.

    That is the slope of the trees' scores over L, less what is there for other reasons: a row also scores the trees
    that it did not grow, and psi has a part from each tree itself. The slope is noisy when trees are few; it goes
    above 1 by no more than it can be told from noise (James & Stein).
    """
    L, r, N = moments.L, moments.r, scores.N
    tree_weight = scores.tree_weight
    covariance = sum_products(L, scores.spread(len(L)))
    variance = r * moments.inbag_inbag
    slope = covariance + moments.eval_inbag - r * N
    is_used = variance > 0
    excess = np.divide(slope, variance, out=np.ones_like(slope), where=is_used) - 1.0
    noise = N * tree_weight.sum() / tree_weight[: len(L)].sum()
    error = np.divide(noise, variance, out=np.zeros_like(slope), where=is_used)
    is_above = excess**2 > error
    kept = 1.0 - np.divide(error, excess**2, out=np.ones_like(slope), where=is_above)
    return 1.0 + np.maximum(excess, 0.0) * np.where(is_above, kept, 0.0)


def measure_fold_errors(phi: Floats, per_fold: Floats, *, both_roles: float, unseen_per_grown: float) -> Errors:
    """How far means over folds may be off.

    Parameters
    ----------
    phi : ndarray of shape (n_rows, n_features)
        What rows, or groups of rows, add to the scores where they are held out, less the mean of their fold.
    per_fold : ndarray of shape (n_folds, n_features)
        Scores by fold.
    both_roles : float
        Of the rows that grew the model that a row scores, the share that score a model which that row grew: 1 for
        k-fold cross-validation, 0 where later rows are held out only.
    unseen_per_grown : float
        Rows that score a model, as a multiple of those that grew it.
    """
    squares = np.append((phi**2).sum(axis=0), (phi.sum(axis=1) ** 2).sum())
    tested = np.sqrt((1.0 + both_roles) * squares)
    spread = (1.0 + both_roles) ** 2 * squares[:-1]
    if len(per_fold) > 1:
        # What folds vary, with the correction of Nadeau & Bengio (2003) for models that share rows.
        varied = (1.0 / len(per_fold) + unseen_per_grown) * per_fold.var(axis=0, ddof=1)
        spread = np.where(spread > 0, np.maximum(spread, varied), 0.0)
    return Errors(null_std_error=tested[:-1], std_error=np.sqrt(spread), total_error=float(tested[-1]))


def find_cluster_problem(size: Floats) -> str | None:
    """Why errors cannot be measured, given the number of rows of each group that score; None where they can."""
    n_groups = _count_groups(size)
    if n_groups >= _FEWEST_GROUPS:
        return None
    found = np.count_nonzero(size)
    as_few = f", which count as {n_groups:.1f} as they differ in size" if n_groups < found - 0.05 else ""
    return f"it takes at least {_FEWEST_GROUPS} groups of rows that score the model, got {found}{as_few}"


def correct_for_clusters(size: Floats) -> float:
    """What variances grow by because they are found from groups, not from as many rows, given the size of each group.

    A sum of squares around a mean is short of a variance by the factor (n - 1) / n, and Student's distribution is wider
    than the normal one, by (n - 1) / (n - 3) in variance. For rows neither is counted, so that here it is the ratio of
    groups to rows: 1 for groups of one row.
    """
    n_groups, n_rows = max(_count_groups(size), _FEWEST_GROUPS), max(float(size.sum()), _FEWEST_GROUPS)
    return n_groups * (n_rows - 3.0) / (n_rows * (n_groups - 3.0))


def _count_groups(size: Floats) -> float:
    """Number of groups of the same size that tell as much (Kish)."""
    return float(size.sum() ** 2 / (size**2).sum()) if size.any() else 0.0
