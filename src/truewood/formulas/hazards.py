"""Splits of survival trees: life tables at nodes become means of one number, by the hazard of the node that is split.

A row's residual at a split m is its events less those expected of it: the sum over intervals of d - q_m n. d and n are
its life table, and q_m is the hazard of the training rows at m, their events over their numbers at risk. Within m, a
feature that does not move the time of the event leaves the mean residual at zero whenever rows are censored; residuals
of the root's hazard would not, as soon as another split has made the hazard of m another one. The sums of the training
rows' residuals at the children are the numerators of the log-rank test that such trees choose their splits by.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from truewood.data.target import TargetKind
from truewood.formulas.splits import Floats
from truewood.trees.ensemble import TreeEnsemble
from truewood.trees.node_sums import NodeSums
from truewood.trees.row_terms import BothTerms, NumberTerms, RowTerms


@dataclass(frozen=True, eq=False)
class NodeHazards:
    """The hazards that rows are compared with on their way down some trees.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees with a single value at each node: the sum over the splits above of the mean residual, so that a node
        less its parent is the mean residual of its training rows at the split. The impurity of a root is the variance
        of its residuals, the sum over intervals of the events times 1 - q.
    at_parent : ndarray of shape (n_nodes, n_intervals)
        Hazard of each node's parent; of roots, their own.
    """

    trees: TreeEnsemble
    at_parent: Floats

    @classmethod
    def of_means(cls, trees: TreeEnsemble) -> NodeHazards:
        """From trees whose values are the mean life tables of the training rows."""
        events, at_risk = np.hsplit(trees.value, 2)
        hazard = np.divide(events, at_risk, out=np.zeros_like(events), where=at_risk > 0)
        at_parent = hazard[trees.parent]
        value = (events - at_parent * at_risk).sum(axis=1)
        for level in trees.levels:
            for children in (trees.left[level], trees.right[level]):
                value[children] += value[level]
        roots = trees.offset[:-1]
        variance = (events * (1.0 - hazard))[roots].sum(axis=1)
        one_value = replace(trees, value=value[:, np.newaxis], root_impurity=variance, kind=TargetKind())
        return cls(one_value, at_parent)

    def sum_residuals(self, sums: NodeSums) -> NodeSums:
        """Sums of life tables as sums of residuals at the split above, on the scale of the trees' values."""
        events, at_risk = np.hsplit(sums.total, 2)
        total = (events - self.at_parent * at_risk).sum(axis=1) + sums.weight * self._find_shift()
        nothing = np.full((len(total), 1), np.nan)  # squares of residuals do not follow from sums of life tables
        return NodeSums(sums.weight, total[:, np.newaxis], nothing, np.zeros(1))

    def spread(self, terms: BothTerms) -> BothTerms:
        """Terms of residuals as terms of life tables."""
        return BothTerms(self._spread(terms.unseen), self._spread(terms.training))

    def _spread(self, terms: RowTerms) -> NumberTerms:
        if not isinstance(terms, NumberTerms):
            raise TypeError(f"life tables are numbers, got {type(terms).__name__}.")
        events = np.broadcast_to(terms.linear, self.at_parent.shape)
        constant = terms.constant + terms.linear[:, 0] * self._find_shift()
        return NumberTerms(np.hstack([events, -terms.linear * self.at_parent]), terms.square, constant)

    def _find_shift(self) -> Floats:
        """Value of each node's parent, shape (n_nodes,); of roots, their own, which is zero."""
        shift: Floats = self.trees.value[self.trees.parent, 0]
        return shift
