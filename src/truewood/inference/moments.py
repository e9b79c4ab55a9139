"""Sums over rows of what they contribute: all that errors need, so that rows can be worked through in blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truewood.data.groups import Grouping, add_groups
from truewood.inference.contributions import Contributions

Floats = NDArray[np.float64]

# Bags whose weights differ by less than this are the same bag.
_ROUNDING = 1e-12


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
    """

    values: Floats
    per_tree: Floats
    tree_weight: Floats
    mdi: Floats

    def spread(self, n_first: int) -> Floats:
        """Scores of the first trees less the model's, times how much these trees count, shape (n_first, n_groups)."""
        share = self.tree_weight[:n_first, np.newaxis] / self.tree_weight[:n_first].sum()
        spread: Floats = share * np.where(share > 0, self.per_tree[:n_first] - self.values, 0.0)
        return spread

    @property
    def N(self) -> Floats:  # noqa: N802
        """Variance of the scores because the forest is one of many that could be grown on the same data."""
        return self._square(self.spread(len(self.tree_weight)))

    @property
    def total_N(self) -> float:  # noqa: N802
        """The same of the sum of all scores."""
        return float(self._square(self.spread(len(self.tree_weight)).sum(axis=1)))

    def _square(self, spread: Floats) -> Floats:
        own = float(((self.tree_weight / self.tree_weight.sum()) ** 2).sum())
        return sum_products(spread, spread) / max(1.0 - own, own)


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over rows of products of contributions, each less its mean; those of disjoint rows add up by ``+``.

    Parameters
    ----------
    phi_phi, phi_psi, psi_psi : ndarray of shape (n_groups,)
        Of phi, what rows add where they score trees, and psi, what they add where they grew trees; psi is 0 where only
        unseen rows were passed.
    total_phi_phi, total_phi_psi : float
        The same of the sums over all groups.
    K, L : ndarray of shape (n_first, n_groups)
        For the first trees, sums over rows of phi and of psi times d, how much more weight a row has in this tree than
        on average, as a share of that. L is what a tree's score owes to its bag if rows only move means.
    d_d : ndarray of shape (n_first,)
        For the first trees, sums over rows of squares of d.
    C_C : ndarray of shape (n_groups,)
        Sums over rows of squares of C, the mean over trees of d times the score less the model's; 0 where bags are not
        asked for.
    n_grown : int
        Number of rows that grew any of these trees.
    """

    phi_phi: Floats
    phi_psi: Floats
    psi_psi: Floats
    total_phi_phi: float
    total_phi_psi: float
    K: Floats
    L: Floats
    d_d: Floats
    C_C: Floats
    n_grown: int

    def __add__(self, other: Moments) -> Moments:
        return Moments(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    @property
    def r(self) -> float:
        """Variance of the weight of rows in bags, as a share of its mean: 1 for bootstrap samples of all rows."""
        r = float(self.d_d.mean()) / self.n_grown if self.n_grown else 0.0
        return r if r > _ROUNDING else 0.0


def measure_moments(
    contributions: Contributions, scores: TreeScores, grouping: Grouping, *, with_bags: bool = False
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
    """
    total_weight, mean = scores.tree_weight.sum(), scores.values / contributions.n_scoring
    phi = add_groups(contributions.phi[contributions.is_scoring], grouping) / total_weight - mean
    psi, n_grown = np.zeros_like(phi), 0
    K, L, C = np.zeros((0, phi.shape[1])), np.zeros((0, phi.shape[1])), np.zeros_like(phi[:0])
    d_d = np.zeros(0)
    if contributions.psi is not None:
        psi = add_groups(contributions.psi[contributions.is_scoring], grouping) / total_weight - mean
        d, n_grown = _compare_bags([weight[contributions.is_scoring] for weight in contributions.bag_weights])
        K, L, d_d = _project(d, phi), _project(d, psi), np.array([float((own**2).sum()) for own in d])
        if with_bags:
            C = _vary_with_bags(d, scores)
    total = phi.sum(axis=1)
    return Moments(
        phi_phi=sum_products(phi, phi),
        phi_psi=sum_products(phi, psi),
        psi_psi=sum_products(psi, psi),
        total_phi_phi=float(sum_products(total, total)),
        total_phi_psi=float(sum_products(total, psi.sum(axis=1))),
        K=K,
        L=L,
        d_d=d_d,
        C_C=sum_products(C, C),
        n_grown=n_grown,
    )


def _compare_bags(bag_weights: list[NDArray[np.float32]]) -> tuple[list[Floats], int]:
    """For each tree, how much more weight rows have in its bag than on average; and the number of rows in any bag."""
    mean = np.mean(bag_weights, axis=0, dtype=np.float64)
    is_grown = mean > 0
    rate: Floats = np.divide(1.0, mean, out=np.zeros_like(mean), where=is_grown)
    return [(weight - mean) * rate for weight in bag_weights], int(np.count_nonzero(is_grown))


def _project(d: list[Floats], contributions: Floats) -> Floats:
    """For each tree, the sum over rows of d times their contributions."""
    by_group = np.ascontiguousarray(contributions.T)
    # Not a matrix product, whose order of additions depends on the machine.
    return np.array([np.einsum("ji,i->j", by_group, own) for own in d])


def _vary_with_bags(d: list[Floats], scores: TreeScores) -> Floats:
    """C, shape (n_rows, n_groups)."""
    C = np.zeros((len(d[0]), len(scores.values)))
    for own, spread in zip(d, scores.spread(len(d)), strict=True):
        C += own[:, np.newaxis] * spread
    return C


def sum_products(a: Floats, b: Floats) -> Floats:
    """Sum over rows; not a matrix product, whose order of additions depends on the machine."""
    summed: Floats = (a * b).sum(axis=0)
    return summed
