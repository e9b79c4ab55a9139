"""What single rows contribute to the scores, and sums of their products: all that standard errors need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._engines.row_products import RowProducts
from truewood._engines.selection import get_engine
from truewood._inputs.feature_groups import Grouping, add_groups
from truewood._inputs.row_arrays import sum_groups

Floats = NDArray[np.float64]


# Bags whose weights differ by less than this are the same bag.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Contributions:
    """What a block of rows contributes to the scores of single columns, times the sum of the trees' weights.

    Both influences and `bags` may be arrays of the engine, on a GPU.

    Parameters
    ----------
    eval_influence : ndarray of shape (n_rows, n_columns)
        What the rows add to trees that they evaluate: phi.
    inbag_influence : ndarray of shape (n_rows, n_columns), or None
        What they add to trees that they were in bag for: psi; None where only evaluation rows were passed.
    is_scoring : ndarray of bool, shape (n_rows,)
        Which of them score any tree, or may.
    n_scoring : int
        Number of all rows that do, in this block and in others.
    bags : ndarray of float32, shape (n_first, n_rows), or None
        For the first trees, the weight of each row in the tree's fit; None without `inbag_influence`.
    size : ndarray of float64, shape (n_rows,), or None
        Where these are groups of rows, the number of rows of each that score any tree; None where each is one row.
    """

    eval_influence: Floats
    inbag_influence: Floats | None
    is_scoring: NDArray[np.bool_]
    n_scoring: int
    bags: NDArray[np.float32] | None
    size: Floats | None = None


def sum_contributions_by_group(blocks: Iterable[Contributions], groups: NDArray[np.int64]) -> Contributions:
    """What groups of rows contribute: sums over their rows that score, which may be in several blocks.

    Parameters
    ----------
    blocks : iterable of Contributions
        What all rows contribute, one block after the other.
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
                summed = sum_groups(values[block.is_scoring], own, n_groups)
                parts[name] = parts[name] + summed if name in parts else summed
    bags = np.ascontiguousarray(parts["bags"].T) if "bags" in parts else None
    return Contributions(parts["eval"], parts.get("inbag"), size > 0, n_scoring, bags, size)


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
    mdi : ndarray of shape (n_groups,)
        What the same splits score on the rows that grew them.
    magnitude : ndarray of shape (n_groups,)
        Size of what is added up to the scores, which rounding errors are in proportion to.
    """

    values: Floats
    per_tree: Floats
    tree_weight: Floats
    mdi: Floats
    magnitude: Floats

    def spread(self, n_first: int) -> Floats:
        """Scores of the first trees less the model's, times how much these trees count, shape (n_first, n_groups)."""
        return _spread_trees(self.values, self.per_tree[:n_first], self.tree_weight[:n_first])

    @property
    def N(self) -> Floats:  # noqa: N802
        """Forest noise, see `find_forest_noise`."""
        return find_forest_noise(self.values, self.per_tree, self.tree_weight)

    @property
    def total_N(self) -> float:  # noqa: N802
        """Forest noise of the sum of all scores."""
        return float(_sum_squares(self.spread(len(self.tree_weight)).sum(axis=1), self.tree_weight))


def find_forest_noise(values: Floats, per_tree: Floats, tree_weight: Floats) -> Floats:
    """Variance of the scores because the forest is one of many that could be grown on the same data.

    Parameters
    ----------
    values, per_tree, tree_weight : ndarray
        As of `TreeScores`.
    """
    return _sum_squares(_spread_trees(values, per_tree, tree_weight), tree_weight)


def _spread_trees(values: Floats, per_tree: Floats, tree_weight: Floats) -> Floats:
    share = tree_weight[:, np.newaxis] / tree_weight.sum()
    spread: Floats = share * np.where(share > 0, per_tree - values, 0.0)
    return spread


def _sum_squares(spread: Floats, tree_weight: Floats) -> Floats:
    own = float(((tree_weight / tree_weight.sum()) ** 2).sum())
    return sum_products(spread, spread) / max(1.0 - own, own)


@dataclass(frozen=True, eq=False)
class Moments(RowProducts):
    """Sums over rows of products of contributions, each less its mean; those of disjoint rows add up by ``+``.

    Of phi, what rows add where they score trees, and psi, what they add where they grew trees; psi is 0 where only
    unseen rows were passed. L is what a tree's score owes to its bag if rows only move means.

    Parameters
    ----------
    C_C : ndarray of shape (n_groups,)
        Sums over rows of squares of C, the mean over trees of d times the score less the model's; 0 where bags are not
        asked for.
    """

    C_C: Floats

    def __add__(self, other: Moments) -> Moments:
        return Moments(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    @property
    def r(self) -> float:
        """Variance of the weight of rows in bags, as a share of its mean: 1 for bootstrap samples of all rows."""
        r = float(self.d_d.mean()) / self.n_inbag if self.n_inbag else 0.0
        return r if r > _ROUNDING else 0.0


def measure_moments(
    contributions: Contributions,
    scores: TreeScores,
    grouping: Grouping,
    *,
    with_bags: bool = False,
    count: Floats | None = None,
    n_threads: int = 1,
) -> Moments:
    """Sums over some rows.

    Parameters
    ----------
    contributions : Contributions
        What these rows contribute to the scores of single columns.
    scores : TreeScores
        The scores of groups of columns.
    grouping : Grouping
        Columns that are scored together.
    with_bags : bool
        Whether to measure C, what each row does to the scores by its weight in the bags.
    count : ndarray of shape (n_rows,), or None
        Number of rows that each of these unseen rows stands for; None where that is itself.
    n_threads : int
        Number of threads.
    """
    weight, n_groups = float(scores.tree_weight.sum()), len(scores.values)
    phi = add_groups(contributions.eval_influence, grouping)
    psi = None if contributions.inbag_influence is None else add_groups(contributions.inbag_influence, grouping)
    bags, is_scoring = contributions.bags, contributions.is_scoring
    mean = scores.values / contributions.n_scoring
    if contributions.size is not None:
        others = np.maximum(contributions.size - 1.0, 0.0)[:, np.newaxis] * (weight * mean)
        phi, psi = phi - others, None if psi is None else psi - others
    if count is not None:
        phi = weight * (np.sqrt(count)[:, np.newaxis] * (phi / weight - mean) + mean)
    products = get_engine().sum_row_products(phi, psi, is_scoring, weight, mean, bags, n_threads)
    if count is not None:
        products = replace(products, eval_sum=(np.sqrt(count)[:, np.newaxis] * (phi / weight - mean)).sum(axis=0))
    C_C = np.zeros(n_groups)
    if with_bags and bags is not None:
        C = _vary_with_bags(bags[:, is_scoring], scores)
        C_C = sum_products(C, C)
    return Moments(**vars(products), C_C=C_C)


def _vary_with_bags(bags: NDArray[np.float32], scores: TreeScores) -> Floats:
    """C, shape (n_rows, n_groups)."""
    mean = np.mean(bags, axis=0, dtype=np.float64)
    rate: Floats = np.divide(1.0, mean, out=np.zeros_like(mean), where=mean > 0)
    C = np.zeros((bags.shape[1], len(scores.values)))
    for bag, spread in zip(bags, scores.spread(len(bags)), strict=True):
        C += ((bag - mean) * rate)[:, np.newaxis] * spread
    return C


def sum_products(a: Floats, b: Floats) -> Floats:
    """Sum over rows; not a matrix product, whose order of additions depends on the machine."""
    summed: Floats = (a * b).sum(axis=0)
    return summed
