"""The residual test: is a feature useful, with what the other features predict taken out of the target?

The score of feature j is the sum over rows and splits on j of a coefficient times y: what other features explain of y
counts as noise. P_j f is the prediction in which splits on j send a row both ways, so it does not depend on the row's
own value of j. The residual test replaces y by y - b P_j f, where b is the slope of y over the prediction f on the
evaluation rows. If a useless feature is independent of the others, the expectation of the sum stays zero and its
variance is smaller. If it is correlated with them, the test is closer to asking whether j adds information
to that of the others. docs/inference.md compares the two tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from truewood._engines.engine import MOST_INFLUENCE_VALUES
from truewood._engines.row_lists import RowLists
from truewood._engines.selection import get_engine
from truewood._inference.moments import GroupingScores, InfluenceBlock, Moments, measure_moments, sum_influence_by_group
from truewood._inference.standard_errors import find_cluster_correction, measure_errors
from truewood._inputs.feature_groups import Grouping
from truewood._measures.registry import Measure
from truewood._results.importance_result import ImportanceResult
from truewood._scoring.inputs import ScoringInputs
from truewood._scoring.node_means import read_with_means
from truewood._scoring.results import weigh_trees
from truewood._scoring.trees import split_trees
from truewood._trees.ensemble import TreeEnsemble
from truewood._trees.node_sums import ClassTerms

Floats = NDArray[np.float64]

# Nodes, and rows times trees, of a batch; a single tree may be larger.
_BATCH_NODES = 1 << 16
_BATCH_ROWS = 1 << 18


def find_residual_problem(inputs: ScoringInputs, measure: Measure, groupings: Sequence[Grouping]) -> str | None:
    """Why the residual test is unavailable; None if it is available."""
    tree_model, kind = inputs.tree_model, inputs.tree_model.target.kind
    if inputs.compares_hazards:
        return "splits compare hazards"
    if measure.name == "ufi" and not kind.is_classification:
        return "measure='ufi' of numbers uses the squares of y"
    if tree_model.finds_leaves:
        return f"only {tree_model.name} itself can send rows down its trees"
    if inputs.data.matrix.is_on_device:
        return "X is on the GPU"
    if tree_model.target.n_scores > 1 and tree_model.is_additive:
        return "the model has several raw scores"
    n_values = inputs.data.n_rows * max(len(grouping.names) for grouping in groupings) * kind.n_columns
    if n_values > MOST_INFLUENCE_VALUES:
        return f"predictions without each feature ({n_values:,} numbers) do not fit into memory"
    return None


def add_residual_test(
    results: Sequence[ImportanceResult],
    scores: Sequence[GroupingScores],
    moments: Sequence[Moments],
    groupings: Sequence[Grouping],
    block: InfluenceBlock,
    inputs: ScoringInputs,
    measure: Measure,
    n_threads: int,
) -> list[ImportanceResult]:
    """Results with the statistic of the residual test and its standard error.

    Parameters
    ----------
    results, scores, moments, groupings : sequence
        Results with errors, scores of the model and of its trees, and sums over rows, for each grouping.
    block : InfluenceBlock
        Influence of all rows, in one block.
    inputs : ScoringInputs
        Model and rows.
    measure : Measure
        How splits are scored.
    n_threads : int
        Number of threads.
    """
    tested = []
    for result, score, own, grouping in zip(results, scores, moments, groupings, strict=True):
        residual = _find_residuals(inputs, grouping, block.is_scoring, n_threads)
        phi, per_tree = _sum_residuals(inputs, measure, grouping, residual, n_threads)
        share = score.tree_weight / score.tree_weight.sum()
        values = per_tree.sum(axis=0) if len(share) == 1 else (share[:, np.newaxis] * per_tree).sum(axis=0)
        single = Grouping(grouping.names, np.arange(len(grouping.names), dtype=np.int32))
        replaced = GroupingScores(values, per_tree, score.tree_weight, score.mdi, score.magnitude)
        rows = replace(block, eval_influence=phi, inbag_influence=None if block.bags is None else phi)
        correction = 1.0
        if inputs.clusters is not None:
            rows = sum_influence_by_group([rows], inputs.clusters)
            correction = find_cluster_correction(rows.size) if rows.size is not None else 1.0
        found = measure_moments(rows, replaced, single, n_threads=n_threads)
        # Gain on in-bag rows and influence through node means are taken in proportion to the squares.
        ratio = np.divide(found.eval_eval, own.eval_eval, out=np.zeros_like(values), where=own.eval_eval > 0)
        found = replace(found, eval_inbag=ratio * own.eval_inbag)
        replaced = replace(replaced, mdi=values + ratio * (score.mdi - score.values))
        errors = measure_errors(found, replaced, result.n_rows, correction=correction)
        tested.append(replace(result, residual_values=values, residual_std_error=errors.null_std_error))
    return tested


@dataclass(frozen=True, eq=False)
class _Batch:
    """Some trees, their evaluation rows, and the leaves of these rows."""

    trees: range
    ensemble: TreeEnsemble
    rows: RowLists
    leaves: NDArray[np.int32]


def _read_batches(inputs: ScoringInputs, n_threads: int) -> Iterator[_Batch]:
    tree_model, matrix = inputs.tree_model, inputs.data.matrix
    most_trees = max(1, _BATCH_ROWS // inputs.data.n_rows)
    for trees in split_trees(tree_model.n_nodes, most_nodes=_BATCH_NODES, most_trees=most_trees):
        ensemble = read_with_means(inputs, trees)
        rows = RowLists.join([inputs.evaluation_rows.of_tree(tree) for tree in trees])
        yield _Batch(trees, ensemble, rows, tree_model.find_leaves(trees, ensemble, matrix, rows, n_threads))


def _find_residuals(inputs: ScoringInputs, grouping: Grouping, is_scoring: NDArray[np.bool_], n_threads: int) -> Floats:
    """Residuals y - b P_j f minus their means over the evaluation rows, shape (n_rows, n_groups, n_columns)."""
    target, n_rows = inputs.data.target, inputs.data.n_rows
    y, tree_weight = target.vectors, weigh_trees(inputs.tree_model)
    prediction, change = np.zeros(y.shape), np.zeros((n_rows, len(grouping.names), y.shape[1]))
    total = np.zeros(n_rows)
    for batch in _read_batches(inputs, n_threads):
        own = tree_weight[batch.trees.start : batch.trees.stop]
        at_leaves = np.ascontiguousarray(batch.ensemble.value[batch.leaves])
        get_engine().add_marginal_projection(
            batch.ensemble,
            inputs.data.matrix,
            target,
            evaluation=batch.rows,
            prediction=at_leaves,
            tree_weight=own,
            group_of=grouping.group_of,
            out=change,
            n_threads=n_threads,
        )
        weight = np.repeat(own, np.diff(batch.rows.offset))
        total += np.bincount(batch.rows.index, weights=weight, minlength=n_rows)
        for column in range(y.shape[1]):
            weighted = weight * at_leaves[:, column]
            prediction[:, column] += np.bincount(batch.rows.index, weights=weighted, minlength=n_rows)
    if not inputs.tree_model.is_additive:
        divisor = np.where(total > 0, total, 1.0)[:, np.newaxis]
        prediction, change = prediction / divisor, change / divisor[:, np.newaxis]
    row_weight = np.ones(n_rows) if inputs.row_weight is None else inputs.row_weight
    counted = row_weight * (is_scoring & (total > 0))
    share = (counted / counted.sum())[:, np.newaxis]
    y, prediction = y - (share * y).sum(axis=0), prediction - (share * prediction).sum(axis=0)
    products, squares = (share * y * prediction).sum(), (share * prediction**2).sum()
    slope = max(float(products / squares), 0.0) if squares > 0 else 0.0
    residual = y[:, np.newaxis] - slope * (prediction[:, np.newaxis] + change)
    centered: Floats = residual - (share[:, np.newaxis] * residual).sum(axis=0)
    return centered


def _sum_residuals(
    inputs: ScoringInputs, measure: Measure, grouping: Grouping, residual: Floats, n_threads: int
) -> tuple[Floats, Floats]:
    """Contributions of rows with the residual in place of y, (n_rows, n_groups), and by tree, (n_trees, n_groups)."""
    n_rows, n_groups = residual.shape[:2]
    phi, per_tree = np.zeros((n_rows, n_groups)), np.zeros((inputs.tree_model.n_trees, n_groups))
    tree_weight = weigh_trees(inputs.tree_model)
    if measure.row_terms is None:
        raise ValueError(f"measure={measure.name!r} has no contributions of rows.")
    for batch in _read_batches(inputs, n_threads):
        ensemble, rows = batch.ensemble, batch.rows
        sums = get_engine().sum_leaves(ensemble, batch.leaves, rows, inputs.data.target, inputs.row_weight)
        terms = measure.row_terms(ensemble, sums, None).evaluation
        # Residuals of the classes of an output sum to zero, so the constants in the terms of classes do not matter.
        linear = terms.by_class if isinstance(terms, ClassTerms) else terms.linear
        tree = np.repeat(np.arange(len(batch.trees)), np.diff(rows.offset))
        weight = np.ones(len(rows.index)) if inputs.row_weight is None else inputs.row_weight[rows.index]
        node, row = batch.leaves.astype(np.int64), rows.index
        while len(node):
            parent = ensemble.parent[node]
            is_below = parent != node
            node, parent, row, tree, weight = (part[is_below] for part in (node, parent, row, tree, weight))
            group = grouping.group_of[ensemble.feature[parent]]
            added = weight * np.einsum("nc,nc->n", linear[node], residual[row, group])
            weighted = tree_weight[batch.trees.start + tree] * added
            phi += _sum_cells(row, group, weighted, phi.shape)
            per_tree[batch.trees.start : batch.trees.stop] += _sum_cells(
                tree, group, added, (len(batch.trees), n_groups)
            )
            node = parent
    return phi, per_tree


def _sum_cells(row: NDArray[np.int64], column: NDArray[np.int32], values: Floats, shape: tuple[int, ...]) -> Floats:
    """Sum values by row and column, in order."""
    cells = row * shape[1] + column
    summed: Floats = np.bincount(cells, weights=values, minlength=shape[0] * shape[1]).astype(np.float64, copy=False)
    return summed.reshape(shape)
