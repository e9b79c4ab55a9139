"""`Moments`: sums over rows of products of their influence on the scores, and bounds of their rounding errors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._engines.records import RowProducts
from truewood._engines.selection import get_engine
from truewood._inputs.groups import Grouping, sum_feature_groups, sum_row_groups

Floats = NDArray[np.float64]

# Relative difference up to which numbers that were computed in different ways count as the same.
SAME = 1e-12
# Rounding errors as a share of the magnitude of the summands: a few units in the last place.
ROUNDING = 2.0**-49
# Rounding errors below this share of the scores are harmless.
_SMALL = 2.0**-20
_FAR_BELOW = 2.0**-10


@dataclass(frozen=True, eq=False)
class InfluenceBlock:
    """Influence of a block of rows, or of groups of rows, on the scores of single columns, over all trees.

    It is not divided by the sum of the trees' weights. Scoring adds to the influence arrays and to `bags`, which may be
    on a GPU.

    Parameters
    ----------
    eval_influence : ndarray of shape (n_rows, n_columns)
        Influence on trees that the rows evaluate: phi.
    inbag_influence : ndarray of shape (n_rows, n_columns), or None
        Influence on trees that they were in bag for: psi; None if only evaluation rows were passed.
    is_scoring : ndarray of bool, shape (n_rows,)
        Which of them evaluate any tree, or may.
    n_scoring : int
        Number of all rows that do, in this and all other blocks.
    bags : ndarray of float32, shape (n_first, n_rows), or None
        In-bag weight of each row for the first trees; None without `inbag_influence`.
    size : ndarray of float64, shape (n_rows,), or None
        For groups of rows, the number of rows of each that evaluate any tree; None for single rows.
    first : int
        Number of the first row.
    """

    eval_influence: Floats
    inbag_influence: Floats | None
    is_scoring: NDArray[np.bool_]
    n_scoring: int
    bags: NDArray[np.float32] | None
    size: Floats | None = None
    first: int = 0


def sum_influence_by_group(blocks: Iterable[InfluenceBlock], groups: NDArray[np.int64]) -> InfluenceBlock:
    """Influence of groups of rows: sums over their evaluation rows, which may be in several blocks.

    Parameters
    ----------
    blocks : iterable of InfluenceBlock
        Influence of all rows, in blocks.
    groups : ndarray of int64, shape (n_rows,)
        The group of each row.
    """
    n_groups, start, n_scoring = int(groups.max()) + 1, 0, 0
    size, parts = np.zeros(n_groups), dict[str, NDArray[Any]]()
    for block in blocks:
        own = groups[start : start + len(block.eval_influence)][block.is_scoring]
        start, n_scoring = start + len(block.eval_influence), block.n_scoring
        size += np.bincount(own, minlength=n_groups)
        bags = None if block.bags is None else block.bags.T
        for name, values in (("eval", block.eval_influence), ("inbag", block.inbag_influence), ("bags", bags)):
            if values is not None:
                summed = sum_row_groups(values[block.is_scoring], own, n_groups)
                parts[name] = parts[name] + summed if name in parts else summed
    bags = np.ascontiguousarray(parts["bags"].T) if "bags" in parts else None
    return InfluenceBlock(parts["eval"], parts.get("inbag"), size > 0, n_scoring, bags, size)


@dataclass(frozen=True, eq=False)
class GroupingScores:
    """Scores of one grouping of the columns into features: of the model and of its trees.

    Parameters
    ----------
    values : ndarray of shape (n_features,)
        The scores: sums of influence over all rows, divided by the sum of `tree_weight`.
    per_tree : ndarray of shape (n_trees, n_features)
        Scores by tree.
    tree_weight : ndarray of shape (n_trees,)
        Weight of each tree, 0 for trees without evaluation rows; a single 1 for additive trees.
    mdi : ndarray of shape (n_features,)
        Scores of the same splits on the in-bag rows.
    magnitude : ndarray of shape (n_features,)
        Size of the summands of the scores, which bounds rounding errors.
    """

    values: Floats
    per_tree: Floats
    tree_weight: Floats
    mdi: Floats
    magnitude: Floats

    def weigh_deviations(self, n_first: int) -> Floats:
        """Scores of the first trees minus the model's, times the shares of these trees, shape (n_first, n_features)."""
        return _weigh_deviations(self.values, self.per_tree[:n_first], self.tree_weight[:n_first])

    @cached_property
    def forest_noise(self) -> tuple[Floats, float]:
        """Forest noise of each score, and of the sum of all scores, see `find_forest_noise`."""
        return find_forest_noise(self.values, self.per_tree, self.tree_weight)


def find_forest_noise(values: Floats, per_tree: Floats, tree_weight: Floats) -> tuple[Floats, float]:
    """Variance of the scores over forests grown on the same data, for each score and for the sum of all scores.

    Parameters
    ----------
    values, per_tree, tree_weight : ndarray
        As in `GroupingScores`.
    """
    deviations = _weigh_deviations(values, per_tree, tree_weight)
    own = float(((tree_weight / tree_weight.sum()) ** 2).sum())
    total, divisor = deviations.sum(axis=1), max(1.0 - own, own)
    return sum_products(deviations, deviations) / divisor, float(sum_products(total, total) / divisor)


def _weigh_deviations(values: Floats, per_tree: Floats, tree_weight: Floats) -> Floats:
    share = tree_weight[:, np.newaxis] / tree_weight.sum()
    weighted: Floats = share * np.where(share > 0, per_tree - values, 0.0)
    return weighted


@dataclass(frozen=True, eq=False)
class Moments(RowProducts):
    """Sums over rows of products of influence, each minus its mean; those of disjoint rows add up by ``+``.

    phi is the influence of rows on trees that they evaluate, psi that on trees that they were in bag for; psi is 0 if
    only held-out rows were passed. L is the effect of a tree's bag on its score if rows only move node means.

    Parameters
    ----------
    C_C : ndarray of shape (n_features,)
        Sums over rows of squares of C, the mean over trees of d times the score minus the model's; 0 unless bags are
        requested.
    """

    C_C: Floats

    def __add__(self, other: Moments) -> Moments:
        return Moments(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    @property
    def r(self) -> float:
        """Variance of in-bag weights over their mean: 1 for bootstrap samples of all rows, 0 for identical bags."""
        r = float(self.d_d.mean()) / self.n_inbag if self.n_inbag else 0.0
        return r if r > SAME else 0.0


def measure_moments(
    block: InfluenceBlock,
    scores: GroupingScores,
    grouping: Grouping,
    *,
    with_bags: bool = False,
    count: Floats | None = None,
    n_threads: int = 1,
) -> Moments:
    """Sum products of influence over some rows.

    Parameters
    ----------
    block : InfluenceBlock
        Influence of these rows on the scores of single columns.
    scores : GroupingScores
        The scores of the features.
    grouping : Grouping
        Which columns form which feature.
    with_bags : bool
        Whether to measure C, the effect of each row on the scores by its in-bag weights.
    count : ndarray of shape (n_rows,), or None
        Number of rows that each of these held-out rows represents; None if that is one.
    n_threads : int
        Number of threads.
    """
    weight, n_features = float(scores.tree_weight.sum()), len(scores.values)
    eval_influence = sum_feature_groups(block.eval_influence, grouping)
    inbag_influence = None if block.inbag_influence is None else sum_feature_groups(block.inbag_influence, grouping)
    bags, is_scoring = block.bags, block.is_scoring
    mean = scores.values / block.n_scoring
    if block.size is not None:
        others = np.maximum(block.size - 1.0, 0.0)[:, np.newaxis] * (weight * mean)
        eval_influence = eval_influence - others
        inbag_influence = None if inbag_influence is None else inbag_influence - others
    root = None if count is None else np.sqrt(count)[:, np.newaxis]
    if root is not None:
        eval_influence = weight * (root * (eval_influence / weight - mean) + mean)
    products = get_engine().sum_row_products(eval_influence, inbag_influence, is_scoring, weight, mean, bags, n_threads)
    if root is not None:
        products = replace(products, eval_sum=(root * (eval_influence / weight - mean)).sum(axis=0))
    C_C = np.zeros(n_features)
    if with_bags and bags is not None:
        C = _vary_with_bags(bags[:, is_scoring], scores)
        C_C = sum_products(C, C)
    return Moments(**vars(products), C_C=C_C)


def _vary_with_bags(bags: NDArray[np.float32], scores: GroupingScores) -> Floats:
    """C, shape (n_rows, n_features)."""
    mean = np.mean(bags, axis=0, dtype=np.float64)
    rate: Floats = np.divide(1.0, mean, out=np.zeros_like(mean), where=mean > 0)
    C = np.zeros((bags.shape[1], len(scores.values)))
    for bag, deviation in zip(bags, scores.weigh_deviations(len(bags)), strict=True):
        C += ((bag - mean) * rate)[:, np.newaxis] * deviation
    return C


def sum_products(a: Floats, b: Floats) -> Floats:
    """Sum products over rows, without a matrix product: its order of additions depends on the machine."""
    summed: Floats = (a * b).sum(axis=0)
    return summed


def drop_rounding(variance: Floats, magnitude: Floats, n_rows: int = 1) -> Floats:
    """Set variances to zero that are within the rounding errors of their summands.

    Parameters
    ----------
    variance : ndarray of shape (n_features,)
        Sums of squares over rows.
    magnitude : ndarray of shape (n_features,)
        Size of the summands over all rows.
    n_rows : int
        Number of rows, with independent rounding errors.
    """
    return np.where(variance > (ROUNDING * magnitude) ** 2 / max(n_rows, 1), variance, 0.0)


def find_unresolved(variance: Floats, magnitude: Floats, size: Floats, n_rows: int) -> int | None:
    """The first feature whose variance is lost in rounding errors that matter for its scores, or None.

    Parameters
    ----------
    variance : ndarray of shape (n_features,)
        Sums over rows of squared contributions, each minus its mean.
    magnitude : ndarray of shape (n_features,)
        Size of the summands of the scores.
    size : ndarray of shape (n_features,)
        Size of the largest possible scores of the feature's splits.
    n_rows : int
        Number of rows.
    """
    is_rounded = drop_rounding(variance, magnitude, n_rows) == 0
    # Far below the bound, rows contribute nothing.
    is_near = drop_rounding(variance, _FAR_BELOW * magnitude, n_rows) > 0
    is_lost = is_rounded & is_near & (ROUNDING * magnitude > _SMALL * size)
    return int(np.argmax(is_lost)) if is_lost.any() else None


def find_mismatch(residual: Floats, magnitude: Floats, n_rows: int) -> int | None:
    """The first feature with row contributions that do not sum to its score; None if all do.

    Parameters
    ----------
    residual : ndarray of shape (n_features,)
        Sums of contributions over all rows minus the scores.
    magnitude : ndarray of shape (n_features,)
        Size of the summands of the scores.
    n_rows : int
        Number of rows; rounding errors grow with its square root.
    """
    is_off = ~(np.abs(residual) <= ROUNDING * np.sqrt(max(n_rows, 1)) * magnitude)
    return int(np.argmax(is_off)) if is_off.any() else None
