"""Ridge regression of the target on the splits of a tree and the columns that it splits on.

A split is a stump: a column that is zero outside the split's node and takes one value in each child, such that the
in-bag rows have mean zero and a sum of squares that is the node's weight. Stumps of a tree are orthogonal on its in-bag
rows, so only the few linear terms have to be solved for: with D the weights of the nodes, B the products of stumps and
linear terms, and C those of linear terms, the stumps are eliminated by S = C + penalty - B' (D + penalty)^-1 B.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from truewood._engines.records import RowLists
from truewood._formatting import quote
from truewood._inputs.groups import sum_row_groups
from truewood._scoring.inputs import ScoringInputs, weigh_evaluation, weigh_in_bag
from truewood._trees.ensemble import TreeEnsemble
from truewood._trees.node_sums import aggregate_to_root

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Rows:
    """Some rows of a tree: their numbers, leaves, weights, linear terms and targets."""

    rows: NDArray[np.int64]
    leaves: NDArray[np.int32]
    weight: Floats
    lines: Floats
    y: Floats


def fit_tree(
    inputs: ScoringInputs, tree: int, ensemble: TreeEnsemble, evaluation: NDArray[np.int64]
) -> TreeRidge | None:
    """The regression of one tree; None without splits or evaluation rows."""
    weights = weigh_evaluation(inputs, evaluation), weigh_in_bag(inputs, tree)
    if not all(weight.any() for weight in weights) or len(ensemble.splits) == 0:
        return None
    rows = [np.flatnonzero(weight) for weight in weights]
    own_weights = [weight[listed] for weight, listed in zip(weights, rows, strict=True)]
    own_weights = [weight * (len(weight) / weight.sum()) for weight in own_weights]
    leaves = [
        inputs.tree_model.find_leaves(range(tree, tree + 1), ensemble, inputs.data.matrix, RowLists.join([listed]))
        for listed in rows
    ]
    stumps = _Stumps(ensemble, leaves[1], own_weights[1])
    has_line, lines = _read_lines(inputs, stumps, rows, own_weights[1])
    y = [inputs.data.target.take(listed).vectors for listed in rows]
    first = y[1][:1]  # so that a constant target becomes exactly zero
    mean = np.average(y[1] - first, axis=0, weights=own_weights[1])
    own, in_bag = (_Rows(rows[k], leaves[k], own_weights[k], lines[k], y[k] - first - mean) for k in range(len(rows)))
    return TreeRidge(stumps, has_line, in_bag, own, (first + mean)[0])


class _Stumps:
    """The stumps of a tree, given its in-bag rows.

    Parameters
    ----------
    tree : TreeEnsemble
        A single tree with splits.
    leaves : ndarray of shape (n,)
        Leaves of its in-bag rows.
    weight : ndarray of shape (n,)
        Their weights, which sum to n.

    Attributes
    ----------
    columns : ndarray of shape (n_columns,)
        Columns of X that the tree splits on.
    place : ndarray of shape (n_splits,)
        Position of each split's column among them.
    node_weight : ndarray of shape (n_splits,)
        In-bag weight at the splits, 0 where a child has none: such a stump is zero.
    """

    def __init__(self, tree: TreeEnsemble, leaves: NDArray[np.int32], weight: Floats) -> None:
        self.tree = tree
        self.columns, self.place = np.unique(tree.split_features.astype(np.int64), return_inverse=True)
        left, right = tree.split_children
        at_nodes = self._sum_nodes(weight[:, np.newaxis], leaves)[:, 0]
        w_left, w_right = at_nodes[left], at_nodes[right]
        is_real = (w_left > 0) & (w_right > 0)
        ratio = np.sqrt(np.divide(w_right, w_left, out=np.zeros(len(left)), where=is_real))
        self._at_left = ratio[:, np.newaxis]
        self._at_right = -np.divide(1.0, ratio, out=np.zeros(len(left)), where=is_real)[:, np.newaxis]
        self.node_weight = np.where(is_real, w_left + w_right, 0.0)

    def _sum_nodes(self, values: Floats, leaves: NDArray[np.int32]) -> Floats:
        at_leaves = sum_row_groups(values, leaves.astype(np.int64), len(self.tree.left))
        return aggregate_to_root(self.tree, at_leaves)

    def project(self, values: Floats, leaves: NDArray[np.int32]) -> Floats:
        """Products of the stumps and of some columns, summed over rows, shape (n_splits, n_columns)."""
        at_nodes = self._sum_nodes(values, leaves)
        left, right = self.tree.split_children
        projected: Floats = self._at_left * at_nodes[left] + self._at_right * at_nodes[right]
        return projected

    def predict(self, coefficients: Floats, leaves: NDArray[np.int32]) -> Floats:
        """Sums over stumps times coefficients, shape (n_splits, n), for some rows: (n_rows, n)."""
        left, right = self.tree.split_children
        at_nodes = np.zeros((len(self.tree.left), coefficients.shape[1]))
        at_nodes[left], at_nodes[right] = self._at_left * coefficients, self._at_right * coefficients
        for level in self.tree.levels:
            at_nodes[self.tree.left[level]] += at_nodes[level]
            at_nodes[self.tree.right[level]] += at_nodes[level]
        return at_nodes[leaves]

    def spread(self, of_splits: Floats) -> Floats:
        """Numbers of the splits in the column of their feature, zeros elsewhere, shape (n_splits, n_columns)."""
        spread = np.zeros((len(of_splits), len(self.columns)))
        spread[np.arange(len(of_splits)), self.place] = of_splits
        return spread


def _read_lines(
    inputs: ScoringInputs, stumps: _Stumps, rows: Sequence[NDArray[np.int64]], weight: Floats
) -> tuple[NDArray[np.bool_], list[Floats]]:
    """Which columns of the stumps have a linear term, and the terms of evaluation and in-bag rows, (n_rows, n_lines).

    A term has mean zero on the in-bag rows, and the standard deviation of the largest stump of its column. A missing
    value takes the mean. Columns that the tree splits by category, and those with one value in the bag, have no term.
    """
    columns, has_line = stumps.columns, np.ones(len(stumps.columns), dtype=np.bool_)
    if stumps.tree.categories is not None:
        has_line[stumps.place[stumps.tree.categories.node_set[stumps.tree.splits] >= 0]] = False
    values = [inputs.data.matrix.take(listed, columns).astype(np.float64) for listed in rows]
    is_infinite = has_line & np.any([np.isinf(part).any(axis=0) for part in values], axis=0)
    if is_infinite.any():
        name = str(inputs.data.matrix.names[columns[int(np.argmax(is_infinite))]])
        raise ValueError(
            "X must not contain infinite values with measure='mdi_plus_oob', which is linear in X, got some in "
            f"{quote(name)}; replace them, or use another measure."
        )
    is_known = ~np.isnan(values[1])
    # From a known value, so that a constant becomes exactly zero; halved and divided by the largest, so that no number
    # is too large for a float.
    known = values[1][is_known.argmax(axis=0), np.arange(len(columns))]
    halves = [0.5 * part - 0.5 * known for part in values]
    size = np.where(is_known, np.abs(halves[1]), 0.0).max(axis=0)
    has_line &= size > 0
    is_known, size = is_known[:, has_line], size[has_line]
    scaled = [half[:, has_line] / size for half in halves]
    known_weight = weight[:, np.newaxis] * is_known
    mean = (known_weight * np.where(is_known, scaled[1], 0.0)).sum(axis=0) / known_weight.sum(axis=0)
    centered = [np.where(np.isnan(part), 0.0, part - mean) for part in scaled]
    largest = np.zeros(len(columns))
    np.maximum.at(largest, stumps.place, stumps.node_weight)
    factor = np.sqrt(largest[has_line] / (weight[:, np.newaxis] * centered[1] ** 2).sum(axis=0))
    return has_line, [part * factor for part in centered]


@dataclass(frozen=True, eq=False)
class _Solver:
    """The normal equations for one penalty, with the stumps eliminated.

    Parameters
    ----------
    inverse : ndarray of shape (n_splits, 1)
        1 / (D + penalty).
    stumps_of_lines : ndarray of shape (n_splits, n_lines)
        B.
    factor : ndarray of shape (n_lines, n_lines)
        Lower Cholesky factor of S.
    """

    inverse: Floats
    stumps_of_lines: Floats
    factor: Floats

    def solve(self, of_stumps: Floats, of_lines: Floats) -> tuple[Floats, Floats]:
        """Coefficients of stumps and lines, given the products of stumps and lines with some targets."""
        scaled, slopes = self.inverse * of_stumps, of_lines
        if len(slopes):
            slopes = linalg.cho_solve((self.factor, True), of_lines - self.stumps_of_lines.T @ scaled)
        steps: Floats = scaled - self.inverse * (self.stumps_of_lines @ slopes)
        return steps, slopes


class TreeRidge:
    """Ridge regression of the targets on the stumps of a tree and linear terms, on its in-bag rows.

    Parameters
    ----------
    stumps : _Stumps
        The stumps.
    has_line : ndarray of bool, shape (n_columns,)
        Which columns have a linear term.
    in_bag, evaluation : _Rows
        The in-bag rows and the evaluation rows; their targets are minus `mean`.
    mean : ndarray of shape (n_columns,)
        Mean of the targets of the in-bag rows.
    """

    def __init__(
        self, stumps: _Stumps, has_line: NDArray[np.bool_], in_bag: _Rows, evaluation: _Rows, mean: Floats
    ) -> None:
        self.columns, self.in_bag, self.evaluation = stumps.columns, in_bag, evaluation
        self._stumps, self._has_line, self._mean = stumps, has_line, mean
        weighted_y, weighted_lines = (
            in_bag.weight[:, np.newaxis] * in_bag.y,
            in_bag.weight[:, np.newaxis] * in_bag.lines,
        )
        self._of_stumps = stumps.project(weighted_y, in_bag.leaves)
        self._of_lines = in_bag.lines.T @ weighted_y
        self._stumps_of_lines = stumps.project(weighted_lines, in_bag.leaves)
        self._squares_of_lines = in_bag.lines.T @ weighted_lines

    def factorize(self, penalty: float) -> _Solver:
        """The normal equations with a penalty, given as a share of the number of in-bag rows."""
        penalty = penalty * len(self.in_bag.rows)
        inverse = 1.0 / (self._stumps.node_weight + penalty)[:, np.newaxis]
        halves = np.sqrt(inverse) * self._stumps_of_lines
        S = self._squares_of_lines - halves.T @ halves
        S[np.diag_indices_from(S)] += penalty
        return _Solver(inverse, self._stumps_of_lines, linalg.cholesky(S, lower=True) if len(S) else S)

    def predict(self, penalties: Sequence[float]) -> Floats:
        """Predictions for the evaluation rows with some penalties, shape (n_rows, n_penalties, n_columns)."""
        own, n_columns = self.evaluation, self.in_bag.y.shape[1]
        solved = [self.factorize(penalty).solve(self._of_stumps, self._of_lines) for penalty in penalties]
        steps, slopes = (np.hstack(part) for part in zip(*solved, strict=True))
        fitted = self._stumps.predict(steps, own.leaves) + own.lines @ slopes
        predicted: Floats = fitted.reshape(len(fitted), len(penalties), n_columns) + self._mean
        return predicted

    def predict_parts(self, solver: _Solver, column: int) -> tuple[Floats, Floats]:
        """Part of each feature in the predictions of a column, for evaluation and in-bag rows, (n_rows, n_features)."""
        of_column = slice(column, column + 1)
        steps, slopes = solver.solve(self._of_stumps[:, of_column], self._of_lines[:, of_column])
        coefficients = self._stumps.spread(steps[:, 0])
        evaluation, in_bag = (self._stumps.predict(coefficients, own.leaves) for own in (self.evaluation, self.in_bag))
        evaluation[:, self._has_line] += self.evaluation.lines * slopes[:, 0]
        in_bag[:, self._has_line] += self.in_bag.lines * slopes[:, 0]
        return evaluation, in_bag

    def measure_influence(self, solver: _Solver, column: int) -> Floats:
        """Effect of each in-bag row on the scores through the coefficients, shape (n_in_bag, n_features).

        The score of feature j is g_j . b, with b = (X'WX + penalty)^-1 X'Wy and g_j the products of its stumps and its
        line with the evaluation targets. A row adds w y x' (X'WX + penalty)^-1 g_j.
        """
        own, in_bag = self.evaluation, self.in_bag
        share = own.weight / own.weight.sum()
        weighted = (share * (own.y[:, column] - share @ own.y[:, column]))[:, np.newaxis]
        of_stumps = self._stumps.spread(self._stumps.project(weighted, own.leaves)[:, 0])
        of_lines = np.zeros((in_bag.lines.shape[1], len(self.columns)))
        of_lines[:, self._has_line] = np.diag((own.lines.T @ weighted)[:, 0])
        steps, slopes = solver.solve(of_stumps, of_lines)
        effect = self._stumps.predict(steps, in_bag.leaves) + in_bag.lines @ slopes
        influence: Floats = (in_bag.weight * in_bag.y[:, column])[:, np.newaxis] * effect
        return influence
