"""Fused scoring: one call of the engine for the leaves, sums, scores and influence of a batch of trees."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from truewood._engines.engine import ScoreFused
from truewood._engines.records import (
    Bags,
    BrokenTreeError,
    EveryRow,
    InfluenceBuffers,
    ListedRows,
    SeededBags,
    SplitCriterion,
    TreeRows,
)
from truewood._engines.selection import get_engine
from truewood._inference.moments import InfluenceBlock
from truewood._inputs.target import TargetKind
from truewood._measures.registry import Measure
from truewood._scoring.inputs import ScoringInputs, weigh_evaluation, weigh_in_bag
from truewood._scoring.node_means import read_with_means
from truewood._scoring.scores_by_tree import ScoresByTree, place_outputs
from truewood._trees.ensemble import TreeArrays, TreeEnsemble
from truewood.adapters import TreeModel

# Maximum number of nodes, and of rows times trees, in a batch, if trees have to be read and rows have to be listed.
_BATCH_NODES = 1 << 18
_BATCH_ROWS = 1 << 22


def find_fused_scoring(inputs: ScoringInputs, measure: Measure) -> ScoreFused | None:
    """How the engine scores these trees in one call; None if it scores them step by step, or has to do more."""
    if inputs.compares_hazards or inputs.tree_model.finds_leaves:
        return None
    return get_engine().find_fused_scoring(measure.name)


def score_fused(
    fused: ScoreFused, inputs: ScoringInputs, measure: Measure, influence: InfluenceBlock | None, n_threads: int
) -> ScoresByTree:
    """Score all trees, batch by batch, and add the influence of single rows."""
    parts = []
    for trees, batch, rows in _read_batches(inputs, with_influence=influence is not None):
        try:
            parts.append(_score_batch(fused, inputs, measure, trees, batch, rows, influence, n_threads))
        except BrokenTreeError:
            for tree in trees:  # raises an error that says what is wrong
                inputs.tree_model.read(range(tree, tree + 1))
            raise
    return ScoresByTree.join(parts)


def _read_batches(
    inputs: ScoringInputs, *, with_influence: bool
) -> Iterator[tuple[range, TreeEnsemble | list[TreeArrays], TreeRows]]:
    """Read trees and their rows, batch by batch; `with_influence` says whether rows need weights for influence."""
    tree_model, evaluation_rows, n_rows = inputs.tree_model, inputs.evaluation_rows, inputs.data.n_rows
    training = tree_model.training if evaluation_rows.are_training else None
    # Nodes of honest trees hold other means than those of the rows that chose the splits.
    in_place = None if training is not None and training.is_honest else tree_model.find_tree_arrays()
    is_counted = training is not None and training.weighs_by_count(inputs.data.weight is not None)
    bag_seeds = evaluation_rows.bag_seeds if is_counted or not with_influence else None
    needs_lists = evaluation_rows.name != "heldout" and bag_seeds is None
    most_nodes = math.inf if in_place is not None else _BATCH_NODES
    most_trees = max(1, _BATCH_ROWS // n_rows) if needs_lists else math.inf
    for trees in tree_model.split_trees(most_nodes=most_nodes, most_trees=most_trees):
        rows: TreeRows = EveryRow()
        if needs_lists:
            rows = _list_rows(inputs, trees, with_influence=with_influence)
        elif bag_seeds is not None:
            rows = SeededBags(bag_seeds.seeds[trees.start : trees.stop], bag_seeds.n_draws)
        batch = read_with_means(inputs, trees) if in_place is None else in_place[trees.start : trees.stop]
        yield trees, batch, rows


def _list_rows(inputs: ScoringInputs, trees: range, *, with_influence: bool) -> TreeRows:
    """Bags, if in-bag weights follow from these; else the evaluation rows, and the weights of rows in their roles."""
    training, n_rows, are_training = inputs.tree_model.training, inputs.data.n_rows, inputs.evaluation_rows.are_training
    are_all_oob = inputs.evaluation_rows.are_all_oob
    if are_all_oob and training and (not with_influence or training.weighs_by_count(inputs.data.weight is not None)):
        return Bags([training.list_bag(tree, n_rows).astype(np.int64, copy=False) for tree in trees])
    rows = [inputs.evaluation_rows.of_tree(tree) for tree in trees]
    if not with_influence:
        return ListedRows(rows)
    in_bag = [weigh_in_bag(inputs, tree) for tree in trees] if are_training else None
    return ListedRows(rows, [weigh_evaluation(inputs, own) for own in rows], in_bag)


def _score_batch(
    fused: ScoreFused,
    inputs: ScoringInputs,
    measure: Measure,
    trees: range,
    batch: TreeEnsemble | list[TreeArrays],
    rows: TreeRows,
    influence: InfluenceBlock | None,
    n_threads: int,
) -> ScoresByTree:
    """Score a batch of trees with one call of the engine."""
    tree_model = inputs.tree_model
    if isinstance(batch, TreeEnsemble):
        kind, impurity, column = batch.kind, batch.root_impurity, batch.column
    else:
        kind, column = tree_model.target.kind, None
        impurity = np.fromiter((tree.root_impurity for tree in batch), np.float64, len(batch))
    buffers = None
    if influence is not None:
        bags = None if influence.bags is None else influence.bags[trees.start : trees.stop]
        buffers = InfluenceBuffers(influence.eval_influence, influence.inbag_influence, bags, influence.first)
    tree_weight = tree_model.tree_weight
    found = fused(
        batch,
        kind,
        inputs.data.matrix,
        inputs.data.target,
        rows=rows,
        row_weight=inputs.row_weight,
        criterion=find_criterion(measure, kind, tree_model),
        tree_weight=None if tree_weight is None else tree_weight[trees.start : trees.stop],
        influence=buffers,
        n_threads=n_threads,
    )
    if not tree_model.is_additive:
        impurity = np.where(np.isnan(impurity), found.evaluation_impurity, impurity)
    n_scores = tree_model.target.n_scores
    return ScoresByTree(
        scores=place_outputs(column, found.scores, n_scores),
        mdi=place_outputs(column, found.mdi, n_scores),
        counted_mdi=place_outputs(column, found.counted_mdi, n_scores),
        magnitude=found.magnitude,
        impurity=impurity,
        split_weight=found.split_weight,
        skipped_weight=found.skipped_weight,
        is_left_out=found.evaluation_weight <= 0,
    )


def find_criterion(measure: Measure, kind: TargetKind, tree_model: TreeModel) -> SplitCriterion:
    """How engines score splits."""
    if measure.row_terms is None:
        raise ValueError(f"measure={measure.name!r} has no contributions of rows.")
    scale = measure.find_scale(kind)
    return SplitCriterion(measure.name, measure.skips, scale, tree_model.is_additive, measure.row_terms)
