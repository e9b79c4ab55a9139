"""Sums over rows of what they contribute: all that errors need, so that rows can be worked through in blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truewood.data.groups import Grouping, add_groups
from truewood.inference.contributions import Contributions

Floats = NDArray[np.float64]


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
        return sum_products(share[:, np.newaxis] * spread, share[:, np.newaxis] * spread) / max(1.0 - own, own)


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
    L : ndarray of shape (n_first, n_groups)
        For the first trees, what their scores owe to their bags if rows only move means: sums over rows of psi times
        how much more weight the row has in this tree than on average, as a share of that.
    bag_variance : float
        Variance of that share over trees, summed over the rows that grew any tree.
    n_grown : int
        Number of these rows.
    """

    phi_phi: Floats
    phi_psi: Floats
    psi_psi: Floats
    total_phi_phi: float
    total_phi_psi: float
    L: Floats
    bag_variance: float
    n_grown: int

    def __add__(self, other: Moments) -> Moments:
        return Moments(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    @property
    def r(self) -> float:
        """Variance of the weight of rows in bags, as a share of its mean: 1 for bootstrap samples of all rows."""
        return self.bag_variance / self.n_grown if self.n_grown else 0.0


def measure_moments(contributions: Contributions, scores: TreeScores, grouping: Grouping) -> Moments:
    """Sums over some rows.

    Parameters
    ----------
    contributions : Contributions
        What these rows contribute to the scores of single columns.
    scores : TreeScores
        The scores of groups of columns.
    grouping : Grouping
        Columns that are scored together.
    """
    total_weight, mean = scores.tree_weight.sum(), scores.values / contributions.n_scoring
    phi = add_groups(contributions.phi[contributions.is_scoring], grouping) / total_weight - mean
    psi, L, bag_variance, n_grown = np.zeros_like(phi), np.zeros((0, phi.shape[1])), 0.0, 0
    if contributions.psi is not None:
        psi = add_groups(contributions.psi[contributions.is_scoring], grouping) / total_weight - mean
        L, bag_variance, n_grown = _measure_bags(psi, [w[contributions.is_scoring] for w in contributions.bag_weights])
    total = phi.sum(axis=1)
    return Moments(
        phi_phi=sum_products(phi, phi),
        phi_psi=sum_products(phi, psi),
        psi_psi=sum_products(psi, psi),
        total_phi_phi=float(sum_products(total, total)),
        total_phi_psi=float(sum_products(total, psi.sum(axis=1))),
        L=L,
        bag_variance=bag_variance,
        n_grown=n_grown,
    )


def _measure_bags(psi: Floats, bag_weights: list[NDArray[np.float32]]) -> tuple[Floats, float, int]:
    """L of the first trees, and the variance of rows' weights in their bags with the number of rows."""
    n_trees, mean, variance = len(bag_weights), np.zeros(len(psi)), np.zeros(len(psi))
    for weight in bag_weights:
        mean += weight / n_trees
    for weight in bag_weights:
        variance += (weight - mean) ** 2 / n_trees  # exactly 0 for a single tree
    is_grown = mean > 0
    rate = np.divide(1.0, mean, out=np.zeros_like(mean), where=is_grown)
    by_group = np.ascontiguousarray(psi.T)
    L = np.empty((n_trees, len(by_group)))
    for weight, out in zip(bag_weights, L, strict=True):
        np.einsum("ji,i->j", by_group, weight * rate - is_grown, out=out)  # a matrix product depends on the machine
    return L, float((variance * rate**2)[is_grown].sum()), int(np.count_nonzero(is_grown))


def sum_products(a: Floats, b: Floats) -> Floats:
    """Sum over rows; not a matrix product, whose order of additions depends on the machine."""
    summed: Floats = (a * b).sum(axis=0)
    return summed
