"""The residual test: is a feature useful, with what the other features predict taken out of the target?

The score of feature j is the sum over rows and splits on j of a coefficient times y: what other features explain of y
counts as noise. P_j f is the prediction in which splits on j send a row both ways, so it does not depend on the row's
own value of j. The residual test replaces y by y - b P_j f, where b is the slope of y over the prediction f on the
evaluation rows. If a useless feature is independent of the others, the expectation of the sum stays zero and its
variance is smaller. If it is correlated with them, the test is closer to asking whether j adds information
to that of the others. docs/inference.md compares the two tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from truewood._engines.engine import MOST_INFLUENCE_VALUES
from truewood._engines.records import ListedRows
from truewood._engines.selection import get_engine
from truewood._inference.moments import GroupingScores, InfluenceBlock, Moments, measure_moments, sum_influence_by_group
from truewood._inference.standard_errors import find_cluster_correction, measure_errors
from truewood._inputs.groups import Grouping, sum_feature_groups
from truewood._inputs.table_types import take_from_device
from truewood._measures.registry import Measure
from truewood._results.importance_result import ImportanceResult
from truewood._scoring.fused import find_criterion
from truewood._scoring.inputs import ScoringInputs, has_few_informative, weigh_evaluation
from truewood._scoring.joint_effects import find_main_effects
from truewood._scoring.node_means import read_with_means
from truewood._scoring.path_values import count_columns
from truewood._scoring.results import weigh_trees

Floats = NDArray[np.float64]

# Nodes, and rows times trees, of a batch; a single tree may be larger.
_BATCH_NODES = 1 << 16
_BATCH_ROWS = 1 << 18


def find_residual_problem(inputs: ScoringInputs, measure: Measure) -> str | None:
    """Why the residual test is unavailable; None if it is available."""
    tree_model, kind = inputs.tree_model, inputs.tree_model.target.kind
    if inputs.compares_hazards:
        return "the splits of survival trees compare hazards"
    if measure.row_terms is None:
        return f"measure={measure.name!r} is not a sum over splits"
    weight = inputs.row_weight
    if inputs.draws is not None or (weight is not None and np.ptp(weight[weight > 0]) > 0):
        return "rows have different weights, which may depend on the target"
    if measure.name == "mdi_oob":
        return "measure='mdi_oob' centers y at the mean of each tree's evaluation rows"
    if measure.name == "ufi" and not kind.is_classification:
        return "measure='ufi' uses the squares of y for regression, unlike 'ufi_centered'"
    if tree_model.finds_leaves:
        return f"only {tree_model.name} itself can send rows down its trees"
    n_values = inputs.data.n_rows * tree_model.n_features * count_columns(tree_model)
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
    *,
    with_contributions: bool,
    n_threads: int,
) -> list[ImportanceResult]:
    """Results with the statistic of the residual test and its standard error, if inference is available.

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
    with_contributions : bool
        Whether to keep the contributions of rows to the statistic.
    n_threads : int
        Number of threads.
    """
    if results[0].inference_unavailable is not None and not with_contributions:
        return list(results)
    matrix, tested = inputs.data.matrix, []
    if matrix.is_on_device:
        matrix = replace(matrix, values=take_from_device(matrix.values, "the residual test"))
        inputs = replace(inputs, data=replace(inputs.data, matrix=matrix))
    for result, score, own, grouping in zip(results, scores, moments, groupings, strict=True):
        residual = _find_residuals(inputs, grouping, block.is_scoring, n_threads)
        of_columns = np.ascontiguousarray(residual[:, :, grouping.group_of])
        phi, by_column = _sum_residuals(inputs, measure, of_columns, n_threads)
        if with_contributions:
            contributions = sum_feature_groups(phi, grouping) / score.tree_weight.sum()
            result = replace(result, residual_contributions=contributions)
        if result.inference_unavailable is not None:
            tested.append(result)
            continue
        per_tree = sum_feature_groups(by_column, grouping)
        share = score.tree_weight / score.tree_weight.sum()
        values = per_tree.sum(axis=0) if len(share) == 1 else (share[:, np.newaxis] * per_tree).sum(axis=0)
        replaced = GroupingScores(values, per_tree, score.tree_weight, score.mdi, score.magnitude)
        rows = replace(block, eval_influence=phi, inbag_influence=None if block.bags is None else phi)
        correction = 1.0
        if inputs.clusters is not None:
            rows = sum_influence_by_group([rows], inputs.clusters)
            correction = find_cluster_correction(rows.size) if rows.size is not None else 1.0
        found = measure_moments(rows, replaced, grouping, n_threads=n_threads)
        # Gain on in-bag rows and influence through node means are taken in proportion to the squares.
        ratio = np.divide(found.eval_eval, own.eval_eval, out=np.zeros_like(values), where=own.eval_eval > 0)
        found = replace(found, eval_inbag=ratio * own.eval_inbag)
        replaced = replace(replaced, mdi=values + ratio * (score.mdi - score.values))
        few = has_few_informative(inputs)
        errors = measure_errors(found, replaced, result.n_rows, correction=correction, has_few_informative=few)
        tested.append(replace(result, residual_values=values, residual_std_error=errors.null_std_error))
    return tested


def _find_residuals(inputs: ScoringInputs, grouping: Grouping, is_scoring: NDArray[np.bool_], n_threads: int) -> Floats:
    """Residuals y - b P_j f minus their means over the evaluation rows, shape (n_rows, n_columns, n_groups)."""
    y, n_rows = inputs.data.target.vectors, inputs.data.n_rows
    prediction, main, is_evaluated = find_main_effects(inputs, grouping, n_threads)
    row_weight = np.ones(n_rows) if inputs.row_weight is None else inputs.row_weight
    counted = row_weight * (is_scoring & is_evaluated)
    share = (counted / counted.sum())[:, np.newaxis]
    y, prediction = y - (share * y).sum(axis=0), prediction - (share * prediction).sum(axis=0)
    products, squares = (share * y * prediction).sum(), (share * prediction**2).sum()
    slope = max(float(products / squares), 0.0) if squares > 0 else 0.0
    # y - b P_j f = (y - b f) + b (f - P_j f)
    residual = np.moveaxis(main, 2, 1) * slope
    residual += (y - slope * prediction)[:, :, np.newaxis]
    residual -= np.einsum("i,icg->cg", share[:, 0], residual)
    return residual


def _sum_residuals(inputs: ScoringInputs, measure: Measure, residual: Floats, n_threads: int) -> tuple[Floats, Floats]:
    """Contributions of rows with the residual in place of y, (n_rows, n_features), and by tree, (n_trees, n_features).

    `residual` has shape (n_rows, n_columns, n_features).
    """
    tree_model = inputs.tree_model
    by_row, by_tree = np.zeros((len(residual), residual.shape[2])), np.zeros((tree_model.n_trees, residual.shape[2]))
    tree_weight = weigh_trees(tree_model)
    most_trees = max(1, _BATCH_ROWS // inputs.data.n_rows)
    for trees in tree_model.split_trees(most_nodes=_BATCH_NODES, most_trees=most_trees):
        ensemble = read_with_means(inputs, trees)
        lists = [inputs.evaluation_rows.of_tree(tree) for tree in trees]
        get_engine().add_residuals(
            ensemble,
            inputs.data.matrix,
            inputs.data.target,
            rows=ListedRows(lists, [weigh_evaluation(inputs, listed) for listed in lists]),
            row_weight=inputs.row_weight,
            criterion=find_criterion(measure, ensemble.kind, tree_model),
            tree_weight=tree_weight[trees.start : trees.stop],
            residual=residual,
            by_row=by_row,
            by_tree=by_tree[trees.start : trees.stop],
            n_threads=n_threads,
        )
    return by_row, by_tree
