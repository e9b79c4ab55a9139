"""Survival splits: life tables at nodes become means of one number, the residual from the hazard of the split node.

A row's residual at a split m is its events minus the expected events: the sum over intervals of d - q_m n. d and n are
its life table, and q_m is the hazard at m, events over numbers at risk, of the training rows if they are available and
else of the evaluation rows. Within m, a feature that does not affect the event time leaves the mean residual at zero,
no matter when rows are censored; residuals from the root's hazard would not, once another split has changed the hazard
of m. The sums of residuals at the children are the numerators of the log-rank test.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from truewood._inputs.life_tables import N_INTERVALS
from truewood._inputs.target import TargetKind
from truewood._measures.splits import Floats
from truewood._trees.ensemble import TreeEnsemble
from truewood._trees.node_sums import BothTerms, NodeSums, NumberTerms, RowTerms


def allocate_life_tables(trees: TreeEnsemble) -> TreeEnsemble:
    """The same trees with space for the mean life table of each node."""
    kind = TargetKind((), 2 * N_INTERVALS)
    return replace(trees, value=np.zeros((len(trees.feature), kind.n_columns)), kind=kind, column=None)


@dataclass(frozen=True, eq=False)
class NodeHazards:
    """Trees and sums of residuals, and the hazards behind them.

    A node holds the sum over the splits above it, so a node minus its parent is the mean residual at the split. The
    impurity of a root is the variance of its residuals, the sum over intervals of the events times 1 - q.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees with a single value at each node.
    sums : NodeSums
        Sums of the evaluation rows.
    at_parent : ndarray of shape (n_nodes, n_intervals)
        Hazard of each node's parent; for roots, their own.
    shift : ndarray of shape (n_nodes,)
        The number that residuals at the split above are added to.
    at_risk : ndarray of shape (n_nodes, n_intervals), or None
        Numbers at risk behind the hazards, if these are hazards of the evaluation rows.
    """

    trees: TreeEnsemble
    sums: NodeSums
    at_parent: Floats
    shift: Floats
    at_risk: Floats | None = None

    @classmethod
    def of_training_rows(cls, trees: TreeEnsemble, sums: NodeSums) -> NodeHazards:
        """Use the hazards of the training rows, given trees with their mean life tables as values."""
        at_parent, residual, variance = _compare(trees, trees.value)
        value = _add_downwards(trees, residual)
        scored = replace(trees, value=value[:, np.newaxis], root_impurity=variance, kind=TargetKind())
        shift = value[trees.parent]
        return cls(
            scored, _sum_numbers(sums, _find_residuals(sums.total, at_parent) + sums.weight * shift), at_parent, shift
        )

    @classmethod
    def of_evaluation_rows(cls, trees: TreeEnsemble, sums: NodeSums) -> NodeHazards:
        """Use the hazards of the evaluation rows, given trees with raw scores as values."""
        at_parent, residual, variance = _compare(trees, sums.mean)
        mean = _add_downwards(trees, residual)
        scored = replace(trees, root_impurity=variance, column=None)
        at_risk = sums.total[:, N_INTERVALS:]
        return cls(scored, _sum_numbers(sums, sums.weight * mean), at_parent, mean[trees.parent], at_risk)

    def spread(self, terms: BothTerms) -> BothTerms:
        """Convert terms of residuals to terms of life tables."""
        return BothTerms(self._spread(terms.evaluation), self._spread(terms.in_bag))

    def _spread(self, terms: RowTerms) -> NumberTerms:
        if not isinstance(terms, NumberTerms):
            raise TypeError(f"life tables must be numbers, got {type(terms).__name__}.")
        by_event = np.broadcast_to(terms.linear, self.at_parent.shape)
        if self.at_risk is not None:
            by_event = by_event - self._average_at_risk(terms.linear)
        constant = terms.constant + terms.linear[:, 0] * self.shift
        return NumberTerms(np.hstack([by_event, -by_event * self.at_parent]), terms.square, constant)

    def _average_at_risk(self, linear: Floats) -> Floats:
        """Effect of a row on the residuals of the others through the hazard: the mean of a term over those at risk.

        The effects sum to zero over the rows at a node.
        """
        trees, at_risk = self.trees, self.at_risk
        if at_risk is None:
            raise ValueError("the hazards are not those of the evaluation rows.")
        left, right = trees.split_children
        pulled = np.zeros_like(at_risk)
        pulled[trees.splits] = linear[left] * at_risk[left] + linear[right] * at_risk[right]
        return np.divide(pulled, at_risk, out=np.zeros_like(pulled), where=at_risk > 0)[trees.parent]


def _compare(trees: TreeEnsemble, mean: Floats) -> tuple[Floats, Floats, Floats]:
    """Hazards of parents, mean residuals from these, and the variance of residuals at roots, given mean life tables."""
    events, at_risk = np.hsplit(mean, 2)
    hazard = np.divide(events, at_risk, out=np.zeros_like(events), where=at_risk > 0)
    at_parent = hazard[trees.parent]
    return at_parent, _find_residuals(mean, at_parent), (events * (1.0 - hazard))[trees.offset[:-1]].sum(axis=1)


def _find_residuals(tables: Floats, hazard: Floats) -> Floats:
    """Events minus those expected by the hazard, shape (n_nodes,)."""
    events, at_risk = np.hsplit(tables, 2)
    residual: Floats = (events - hazard * at_risk).sum(axis=1)
    return residual


def _add_downwards(trees: TreeEnsemble, number: Floats) -> Floats:
    """Sum over each node and all nodes above it; the numbers at roots are zero."""
    added = number.copy()
    for level in trees.levels:
        for children in (trees.left[level], trees.right[level]):
            added[children] += added[level]
    return added


def _sum_numbers(sums: NodeSums, total: Floats) -> NodeSums:
    unknown = np.full((len(total), 1), np.nan)  # squares of residuals do not follow from sums of life tables
    return NodeSums(sums.weight, total[:, np.newaxis], unknown, np.zeros(1))
