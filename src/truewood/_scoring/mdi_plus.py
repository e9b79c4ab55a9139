"""MDI+ on evaluation rows: each feature's part in a ridge regression per tree.

The regression of a tree is fit on its in-bag rows alone. A feature's part of the prediction is the sum over its stumps
and its linear term; its score is the covariance of this part with the target over the rows that the tree never saw.

All trees share one penalty, the one with which their average predicts the evaluation rows best. Cross-validation within
the in-bag rows would choose far too small a penalty, because the splits were chosen to fit these rows. Regressions on
all rows, as in the paper, would be invalid for clustered or copied rows: the tree's splits never saw a row, but its
coefficients would have seen others of the same cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from truewood._engines.records import RowLists
from truewood._engines.selection import keep_engine
from truewood._measures.registry import PartScore
from truewood._scoring.inputs import ScoringInputs
from truewood._scoring.tree_ridge import fit_tree
from truewood._trees.ensemble import TreeEnsemble

Floats = NDArray[np.float64]

# Penalties as shares of the number of in-bag rows.
_PENALTIES = tuple(10.0 ** (k / 2) for k in range(-10, 3))
# Maximum number of values (by row, column and class) in a batch of trees that waits for its turn.
MOST_VALUES = 1 << 22


@dataclass(frozen=True, eq=False)
class RidgeScores:
    """Scores of some trees, with what each row adds to them.

    Parameters
    ----------
    scores : ndarray of shape (n_trees, n_features, n_outputs)
        Scores on the evaluation rows.
    in_bag : ndarray of shape (n_trees, n_features, n_outputs)
        The same on the in-bag rows.
    magnitude : ndarray of shape (n_trees, n_features)
        Size of the summands of the scores.
    contributions : list of (RowValues, RowValues), or None
        For each tree, contributions of the evaluation rows to the mean over outputs, and the effect of in-bag rows on
        it through the regression; None for a tree without evaluation rows or splits.
    """

    scores: Floats
    in_bag: Floats
    magnitude: Floats
    contributions: list[tuple[RowValues, RowValues] | None]


@dataclass(frozen=True, eq=False)
class RowValues:
    """Values of some rows for some columns, shape (n_rows, n_columns)."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: Floats


def choose_penalties(inputs: ScoringInputs, n_jobs: int | None) -> Floats:
    """The penalty of each output with the lowest error of the average over trees on evaluation rows, (n_outputs,).

    It is one of a few numbers, chosen by all rows and trees together, so a useless feature still scores zero on
    average. Ties are resolved in favor of the largest penalty.
    """
    tree_model, kind, n_rows = inputs.tree_model, inputs.tree_model.target.kind, inputs.data.n_rows

    def predict(tree: int) -> tuple[NDArray[np.int64], Floats] | None:
        ensemble = tree_model.read(range(tree, tree + 1))
        fit = fit_tree(inputs, tree, ensemble, inputs.evaluation_rows.of_tree(tree))
        return None if fit is None else (fit.evaluation.rows, fit.predict(_PENALTIES))

    total, n_trees = np.zeros((n_rows, len(_PENALTIES), kind.n_columns)), np.zeros(n_rows)
    predict_here = keep_engine(predict)
    predictions = Parallel(n_jobs=n_jobs, require="sharedmem", return_as="generator")(
        delayed(predict_here)(tree) for tree in range(tree_model.n_trees)
    )
    for tree, found in enumerate(predictions):
        if found is not None:
            rows, predicted = found
            weight = 1.0 if tree_model.tree_weight is None else tree_model.tree_weight[tree]
            total[rows] += weight * predicted
            n_trees[rows] += weight
    rows = np.flatnonzero(n_trees)
    if len(rows) == 0:
        return np.full(kind.n_outputs, _PENALTIES[-1])
    row_weight = np.ones(len(rows)) if inputs.row_weight is None else inputs.row_weight[rows]
    y = inputs.data.target.take(rows).vectors[:, np.newaxis]
    residual = y - total[rows] / n_trees[rows, np.newaxis, np.newaxis]
    error = kind.sum_columns(_measure_variance(residual, row_weight))
    penalties: Floats = np.array(_PENALTIES)[len(_PENALTIES) - 1 - error[::-1].argmin(axis=0)]
    return penalties


def _measure_variance(residual: Floats, weight: Floats) -> Floats:
    """Weighted variance over rows, the first axis."""
    share = (weight / weight.sum())[:, np.newaxis, np.newaxis]
    variance: Floats = (share * (residual - (share * residual).sum(axis=0)) ** 2).sum(axis=0)
    return variance


def fit_ridges(
    inputs: ScoringInputs,
    part_score: PartScore,
    trees: range,
    ensemble: TreeEnsemble,
    evaluation: RowLists,
    penalties: Floats,
    column: int | None,
    *,
    with_rows: bool,
) -> RidgeScores:
    """Score some trees.

    Parameters
    ----------
    inputs : ScoringInputs
        Model and rows.
    part_score : callable
        The measure's formula.
    trees : range
        Which trees.
    ensemble : TreeEnsemble
        These trees.
    evaluation : RowLists
        Their evaluation rows.
    penalties : ndarray of shape (n_outputs,)
        The penalty of each output.
    column : int or None
        The column of the target, such as a class, to score; None for all of them.
    with_rows : bool
        Whether to compute contributions of rows.
    """
    kind = inputs.tree_model.target.kind
    n_outputs, bounds = kind.n_outputs, kind.column_bounds
    shape = (len(trees), ensemble.n_features, n_outputs)
    found = RidgeScores(np.zeros(shape), np.zeros(shape), np.zeros(shape[:2]), [None] * len(trees))
    for k, tree in enumerate(trees):
        fit = fit_tree(inputs, tree, ensemble[k : k + 1], evaluation.of_tree(k))
        if fit is None:
            continue
        columns, in_bag, own = fit.columns, fit.in_bag, fit.evaluation
        eval_influence = np.zeros((len(own.rows), len(columns)))
        inbag_influence = np.zeros((len(in_bag.rows), len(columns)))
        for output in range(n_outputs):
            solver = fit.factorize(float(penalties[output]))
            for c in range(bounds[output], bounds[output + 1]):
                if column is not None and c != column:
                    continue
                parts, parts_in_bag = fit.predict_parts(solver, c)
                products = part_score(own.y[:, c], parts, own.weight / own.weight.sum())
                gained = part_score(in_bag.y[:, c], parts_in_bag, in_bag.weight / in_bag.weight.sum())
                found.scores[k, columns, output] += products.sum(axis=0)
                found.in_bag[k, columns, output] += gained.sum(axis=0)
                found.magnitude[k, columns] += np.abs(products).sum(axis=0) / n_outputs
                if with_rows:
                    eval_influence += products / n_outputs
                    inbag_influence += fit.measure_influence(solver, c) / n_outputs
        if with_rows:
            found.contributions[k] = (
                RowValues(own.rows, columns, eval_influence),
                RowValues(in_bag.rows, columns, inbag_influence),
            )
    return found
