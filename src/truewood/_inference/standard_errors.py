"""Standard errors from the contributions of rows to the scores, without refitting.

Held-out rows. The model is fixed and contributions are independent: their spread is the standard error.

Out-of-bag rows. A row has two roles: it evaluates some trees (phi) and is in bag for the others. In bag, it moves the
means at the nodes (psi) and takes part in the choice of splits; a is both effects together. To test whether a score is
zero, every phi has mean zero given the other rows, and the variance is that of phi, plus a covariance: two rows each
evaluate trees that the other is in bag for. That covariance is the sum of phi a, and it can be estimated from the bags:
trees with a row in bag have different scores than trees without it. The size of a score varies over data sets by both
roles together, phi + a. Estimating a for each row takes more trees than most models have, so g psi replaces it unless
bags are requested. docs/theory/standard_errors.md has the formulas, with the letters used here.

Folds. Given the models, the contributions phi of a fold's rows have mean zero; but models are random as well: two rows
in different folds each evaluate a model trained on the other, so their contributions are correlated. A sum over pairs
of rows that includes each pair twice has twice the variance of the sum over rows that phi alone shows. For the size of
a score, a row counts as much by training models as by evaluating them, phi + phi. docs/theory/folds.md has
measurements.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truewood._inference.moments import GroupingScores, Moments, drop_rounding, sum_products

Floats = NDArray[np.float64]

# Minimum numbers of rows, and of groups of rows, for an estimate of their variance.
_FEWEST_ROWS = 20
_FEWEST_GROUPS = 20
# Share of standard errors that may come from the randomness of the trees.
TREE_NOISE = 0.05
# Minimum forest noise as a share of the sum of phi^2, which bounds the weight of a single feature.
_LEAST_NOISE = 0.02
# Features with less than this share of the median gain are too rarely used to estimate how variances grow with scores.
_LEAST_GAIN = 1e-3
# Minimum variance at a score of zero as a share of the mean variance.
_LEAST_INTERCEPT = 0.05
CLUSTER_REMEDY = (
    "p-values are withheld; score more groups, or split large ones into parts that do not depend on each other"
)


@dataclass(frozen=True, eq=False)
class Errors:
    """Standard errors of scores.

    Parameters
    ----------
    null_std_error : ndarray of shape (n_features,)
        Standard error of a score under the null hypothesis that the feature does not matter.
    std_error : ndarray of shape (n_features,)
        Standard error of a score around its expectation.
    total_error : float
        Standard error of the sum of all scores if no feature matters.
    tree_noise : ndarray of shape (n_features,)
        Share of `null_std_error` that more trees would remove; NaN if the trees are taken as given.
    """

    null_std_error: Floats
    std_error: Floats
    total_error: float
    tree_noise: Floats


def find_row_shortage(n_scoring: int) -> str | None:
    """Why errors are unavailable, given the number of evaluation rows; None if they are available."""
    if n_scoring >= _FEWEST_ROWS:
        return None
    return f"standard errors need at least {_FEWEST_ROWS} evaluation rows, got {n_scoring}"


def measure_errors(
    moments: Moments,
    scores: GroupingScores,
    n_rows: int,
    *,
    with_bags: bool = False,
    correction: float = 1.0,
    has_few_informative: bool = False,
) -> Errors:
    """Measure the standard errors of scores.

    Parameters
    ----------
    moments : Moments
        Sums over the contributions of all rows.
    scores : GroupingScores
        The scores.
    n_rows : int
        Number of rows passed.
    with_bags : bool
        Whether `std_error` includes the full effect of in-bag rows, as estimated from the bags.
    correction : float
        Factor of the variances, see `find_cluster_correction`.
    has_few_informative : bool
        Whether few rows determine the target's variance, so that scores are strongly skewed.
    """
    variance = np.append(moments.eval_eval, moments.total_eval_eval)
    if moments.n_inbag:
        variance = variance + np.maximum(_estimate_role_covariance(moments, scores), 0.0)
    variance = drop_rounding(variance, np.append(scores.magnitude, scores.magnitude.sum()), n_rows)
    tested = np.sqrt(variance)
    if moments.n_inbag:
        tested = _correct_skewness(variance, moments, scores, has_few_informative=has_few_informative)
    spread = variance[:-1]
    if moments.n_inbag:
        both = _estimate_variance(moments, scores, with_bags=with_bags)
        spread = np.maximum(spread, drop_rounding(both, scores.magnitude, n_rows))
    tested = np.sqrt(correction) * tested
    return Errors(
        null_std_error=tested[:-1],
        std_error=np.sqrt(correction * spread),
        total_error=float(tested[-1]),
        tree_noise=_find_tree_noise(variance[:-1], moments, scores),
    )


def _find_tree_noise(variance: Floats, moments: Moments, scores: GroupingScores) -> Floats:
    """Share of the standard errors that comes from the forest noise, given the variances; NaN for held-out rows."""
    if moments.r == 0:
        return np.full(len(variance), np.nan)
    noise = np.minimum(scores.forest_noise[0], variance)
    return 1.0 - np.sqrt(1.0 - np.divide(noise, variance, out=np.zeros_like(noise), where=variance > 0))


def average_tree_noise(tree_noise: Floats, null_std_error: Floats, values: Floats) -> float:
    """Share of the standard errors of useless features that more trees would remove; NaN if it is unknown.

    The ratio of variances summed over features: ratios of single features are too noisy where few trees use a feature.
    Features that matter have larger variances, and less of them is forest noise, so they count less.
    """
    is_used = null_std_error > 0
    error, kept = null_std_error[is_used], (1.0 - tree_noise[is_used]) ** 2
    if not is_used.any():
        return np.nan
    weight = (error / error.max()) ** 2 / (1.0 + (values[is_used] / error) ** 2)
    return float(1.0 - np.sqrt((weight * kept).sum() / weight.sum()))


def count_trees_needed(average_noise: float, n_trees: int) -> int | None:
    """Number of trees with which the average `tree_noise` is `TREE_NOISE`, given that of `n_trees` trees.

    The forest noise is inversely proportional to the number of trees. None if `average_noise` is NaN.
    """
    kept, wanted = (1.0 - average_noise) ** 2, (1.0 - TREE_NOISE) ** 2
    if not kept > 0:  # unknown, or nothing but noise
        return None
    return int(np.ceil(n_trees * (1.0 / kept - 1.0) / (1.0 / wanted - 1.0)))


def count_trees_for_bags(moments: Moments, scores: GroupingScores, is_significant: NDArray[np.bool_]) -> int:
    """Number of trees needed to estimate the variance of significant scores from bags to within 50%."""
    if moments.r == 0:
        return 2
    variance = _estimate_variance(moments, scores, with_bags=False)
    noise = np.sqrt(2.0 * moments.n_inbag) * scores.forest_noise[0] / moments.r
    ratio = np.divide(2.0 * noise, variance, out=np.zeros_like(noise), where=is_significant & (variance > 0))
    return int(np.ceil(len(scores.per_tree) * ratio.max(initial=0.0)))


def _estimate_role_covariance(moments: Moments, scores: GroupingScores) -> Floats:
    """Sums of phi a, for each group and in total; at least those of phi psi, which is a part of a.

    The covariance of a row's in-bag weights and the trees' scores is r a - phi: an in-bag row does not evaluate the
    tree. Its sum of products with phi includes noise from each tree, N, and so does the sum of squares of phi, about
    the same: the two cancel. With few trees the sum of a single feature is noisy, see `_fit_role_covariance`.
    """
    least: Floats = np.append(moments.eval_inbag, moments.total_eval_inbag)
    if moments.r == 0:  # one tree, or the same bag again
        return least
    deviations, (noise, total_noise) = scores.weigh_deviations(len(moments.K)), scores.forest_noise
    total, total_K, total_squares = deviations.sum(axis=1), moments.K.sum(axis=1), np.array([moments.total_eval_eval])
    C_eval = sum_products(deviations, moments.K)
    of_groups = _fit_role_covariance(C_eval, moments.eval_eval, noise, scores.values, moments.r)
    of_total = _fit_role_covariance(
        sum_products(total, total_K)[np.newaxis],
        total_squares,
        total_noise,
        scores.values.sum(keepdims=True),
        moments.r,
    )
    return np.maximum(np.append(of_groups, of_total), least)


def _fit_role_covariance(C_eval: Floats, squares: Floats, noise: Floats | float, values: Floats, r: float) -> Floats:
    """Sums of phi a as a multiple, the same for all features, of the part of sums of phi^2 that is not forest noise.

    Of two rows, each evaluates trees that the other is in bag for. Were the two effects equal on average over trees,
    the multiple would be 1; it is smaller if few rows carry the information, as those of a rare class, because they
    compete for the same splits. The measured sums have a variance of N sum(phi^2) / r, which gives their weight in the
    regression; features that matter count less, and the value 1 counts as one measurement of variance 1. A feature that
    matters has less forest noise than it would have otherwise, so it gets the typical share of the useless ones.

    Parameters
    ----------
    C_eval : ndarray of shape (n_features,)
        Sums of C phi, see `Moments`.
    squares : ndarray of shape (n_features,)
        Sums of phi^2.
    noise : ndarray of shape (n_features,) or float
        Forest noise of the scores, N.
    values : ndarray of shape (n_features,)
        Scores.
    r : float
        Variance of in-bag weights over their mean.
    """
    fitted, is_used = np.zeros_like(squares), squares > 0
    own = squares[is_used]
    share = np.maximum(own - np.broadcast_to(noise, squares.shape)[is_used], 0.0) / own
    measured, useless = (C_eval[is_used] / own + 1.0) / r, 1.0 / (1.0 + values[is_used] ** 2 / own)
    precision = useless * r / np.maximum(1.0 - share, _LEAST_NOISE)
    multiple = (1.0 + (precision * share * measured).sum()) / (1.0 + (precision * share**2).sum())
    typical = (useless * share).sum() / max(float(useless.sum()), _LEAST_NOISE)
    fitted[is_used] = max(float(multiple), 0.0) * (useless * share + (1.0 - useless) * typical) * own
    return fitted


def _correct_skewness(
    variance: Floats, moments: Moments, scores: GroupingScores, *, has_few_informative: bool
) -> Floats:
    """Errors, for each group and in total, by which scores of useless features are nearly standard normal.

    Apart from the forest noise N, such a score behaves like a chi-square variable minus its expectation D: when
    evaluation rows agree with the splits by chance, so do the in-bag rows, and the variance is larger than average by
    a factor of 1 + score / D. The square root of a chi-square variable is nearly normal (Fisher); that is the score
    in units of the mean of the two errors. D is at most the gain of the splits on their in-bag rows, which count 1 + r
    times in their own bag. Part of the gain comes from nodes too small to matter for other rows; where few rows are
    informative, that is nearly all of it.
    """
    values, gain = scores.values, (scores.mdi - scores.values) / (1.0 + moments.r)
    noise, total_noise = scores.forest_noise
    values, D = np.append(values, values.sum()), np.maximum(np.append(gain, gain.sum()), 0.0)
    common = np.maximum(variance - np.append(noise, total_noise), 0.0)
    explained = values * np.divide(common, variance, out=np.zeros_like(common), where=variance > 0)
    useless = np.divide(variance, variance + values**2, out=np.zeros_like(common), where=variance > 0)
    if has_few_informative:
        D[:-1] *= _fit_share_of_gain(common[:-1], explained[:-1], D[:-1], useless[:-1])
    sum_of_squares = np.maximum(explained, -0.75 * D) + D  # far below zero the approximation fails
    ratio = np.divide(D, sum_of_squares, out=np.ones_like(D), where=D > 0)
    on_average = variance - common + common * ratio
    errors: Floats = (np.sqrt(variance) + np.sqrt(on_average)) / 2.0
    return errors


def _fit_share_of_gain(common: Floats, explained: Floats, gain: Floats, useless: Floats) -> float:
    """The share of the gain that is D, the same for all features: at most 1, and 1 if there are too few features.

    The variance grows with the score by a factor of 1 + score / D. Both in units of the gain, the share is the ratio of
    intercept and slope of a regression over the features. The slope minus its standard error is used.

    Parameters
    ----------
    common : ndarray of shape (n_features,)
        Variances without forest noise.
    explained : ndarray of shape (n_features,)
        Scores, times the share of `common` in the variance.
    gain : ndarray of shape (n_features,)
        Gains of the splits on their in-bag rows.
    useless : ndarray of shape (n_features,)
        How much each feature counts: less if it matters.
    """
    is_used = (useless > 0) & (gain > 0)
    if not is_used.any():
        return 1.0
    is_used &= gain > _LEAST_GAIN * np.median(gain[is_used])
    gain, weight = gain[is_used], useless[is_used]
    x, y, n = explained[is_used] / gain, common[is_used] / gain**2, float(weight.sum())
    mean_x, mean_y = (weight * x).sum() / n, (weight * y).sum() / n
    squares = (weight * (x - mean_x) ** 2).sum()
    if n <= 2.0 or not squares > 0:
        return 1.0
    slope = (weight * (x - mean_x) * (y - mean_y)).sum() / squares
    left = (weight * (y - mean_y - slope * (x - mean_x)) ** 2).sum() / (n - 2.0)
    lowest, intercept = slope - np.sqrt(left / squares), max(mean_y - slope * mean_x, _LEAST_INTERCEPT * mean_y)
    return float(intercept / lowest) if lowest > intercept else 1.0


def _estimate_variance(moments: Moments, scores: GroupingScores, *, with_bags: bool) -> Floats:
    """Variance of the scores over data sets; at least that of rows that matter as much in bag as in evaluation."""
    g, N = _estimate_g(moments, scores), scores.forest_noise[0]
    both = moments.eval_eval + 2.0 * g * moments.eval_inbag + g**2 * moments.inbag_inbag
    if moments.r > 0:
        both = np.maximum(both, 4.0 * (moments.eval_eval - N))
    if with_bags and moments.r > 0:
        deviations, r = scores.weigh_deviations(len(moments.K)), moments.r
        # Each tree adds its own square to the apparent effect of its bag.
        C_C = moments.C_C - sum_products(deviations**2, moments.d_d[:, np.newaxis])
        C_eval = sum_products(deviations, moments.K)
        a_a = (C_C + 2.0 * C_eval + moments.eval_eval + N) / r**2
        both = np.maximum(both, moments.eval_eval + 2.0 * (C_eval + moments.eval_eval) / r + a_a)
    return np.maximum(both, 0.0) + N


def _estimate_g(moments: Moments, scores: GroupingScores) -> Floats:
    """Effect of an in-bag row on a score as a multiple of its effect through the means at the nodes.

    That is the slope of the trees' scores over L, minus its other causes: a row also evaluates the trees that it is
    not in bag for, and psi includes noise from each tree. The slope is noisy with few trees, so its excess over 1 is
    shrunk (James & Stein).
    """
    L, r, N = moments.L, moments.r, scores.forest_noise[0]
    tree_weight = scores.tree_weight
    covariance = sum_products(L, scores.weigh_deviations(len(L)))
    variance = r * moments.inbag_inbag
    slope = covariance + moments.eval_inbag - r * N
    is_used = variance > 0
    excess = np.divide(slope, variance, out=np.ones_like(slope), where=is_used) - 1.0
    noise = N * tree_weight.sum() / tree_weight[: len(L)].sum()
    error = np.divide(noise, variance, out=np.zeros_like(slope), where=is_used)
    is_above = excess**2 > error
    kept = 1.0 - np.divide(error, excess**2, out=np.ones_like(slope), where=is_above)
    return 1.0 + np.maximum(excess, 0.0) * np.where(is_above, kept, 0.0)


def measure_fold_errors(
    contributions: Floats, per_fold: Floats, *, reciprocity: float, test_per_train: float
) -> Errors:
    """Measure the standard errors of means over folds.

    Parameters
    ----------
    contributions : ndarray of shape (n_rows, n_features)
        Contributions of held-out rows, or groups of rows, minus the mean of their fold.
    per_fold : ndarray of shape (n_folds, n_features)
        Scores by fold.
    reciprocity : float
        Share of a test row's training rows that are themselves tested by a model trained on that row: 1 for k-fold
        cross-validation, 0 if only later rows are held out.
    test_per_train : float
        Number of test rows over number of training rows.
    """
    squares = np.append((contributions**2).sum(axis=0), (contributions.sum(axis=1) ** 2).sum())
    tested = np.sqrt((1.0 + reciprocity) * squares)
    spread = (1.0 + reciprocity) ** 2 * squares[:-1]
    if len(per_fold) > 1:
        # Variance between folds, with the correction of Nadeau & Bengio (2003) for models that share rows.
        varied = (1.0 / len(per_fold) + test_per_train) * per_fold.var(axis=0, ddof=1)
        spread = np.where(spread > 0, np.maximum(spread, varied), 0.0)
    unknown = np.full(len(spread), np.nan)
    return Errors(
        null_std_error=tested[:-1], std_error=np.sqrt(spread), total_error=float(tested[-1]), tree_noise=unknown
    )


def find_cluster_shortage(size: Floats) -> str | None:
    """Why errors are unavailable, given the number of evaluation rows of each group; None if they are available."""
    n_groups = _count_groups(size)
    if n_groups >= _FEWEST_GROUPS:
        return None
    found = np.count_nonzero(size)
    as_few = f", which count as {n_groups:.1f} because they differ in size" if n_groups < found - 0.05 else ""
    return f"standard errors need at least {_FEWEST_GROUPS} groups of evaluation rows, got {found}{as_few}"


def find_cluster_correction(size: Floats) -> float:
    """Factor of cluster-robust variances that corrects them for few clusters, given the size of each group.

    A sum of squares around a mean is smaller than the variance by the factor (n - 1) / n, and Student's distribution
    is wider than the normal one, by (n - 1) / (n - 3) in variance. Neither is corrected for single rows, so this is
    the ratio of groups to rows: 1 for groups of one row.
    """
    n_groups, n_rows = max(_count_groups(size), _FEWEST_GROUPS), max(float(size.sum()), _FEWEST_GROUPS)
    return n_groups * (n_rows - 3.0) / (n_rows * (n_groups - 3.0))


def _count_groups(size: Floats) -> float:
    """Effective number of groups: of equal groups with the same precision (Kish)."""
    return float(size.sum() ** 2 / (size**2).sum()) if size.any() else 0.0
