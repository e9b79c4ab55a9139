"""Scores of all trees, batch by batch: by the engine's fused scoring, or step by step."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

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
from truewood._engines.selection import get_engine, keep_engine
from truewood._inference.moments import InfluenceBlock
from truewood._inputs.target import TargetKind
from truewood._measures.hazards import NodeHazards, allocate_life_tables
from truewood._measures.registry import Measure
from truewood._measures.split_measures import score_mdi
from truewood._measures.splits import find_magnitude, find_skipped_splits, sum_by_feature, take_column
from truewood._scoring.influence import OrderedInfluence
from truewood._scoring.inputs import ScoringInputs, weigh_evaluation, weigh_in_bag
from truewood._scoring.mdi_plus import MOST_VALUES, fit_ridges
from truewood._scoring.node_means import find_root_impurity, read_with_means
from truewood._scoring.permutation import permute_columns
from truewood._trees.ensemble import TreeArrays, TreeEnsemble
from truewood._trees.node_sums import NodeSums
from truewood.adapters import BagSeeds, TreeModel

# Largest number of nodes, and of rows times trees, in a batch; a single tree may be larger.
_BATCH_NODES = 1 << 15
_BATCH_ROWS = 1 << 20
# The same for fused scoring, if trees have to be read and rows have to be listed.
_FUSED_NODES = 1 << 18
_FUSED_ROWS = 1 << 22

Seeds = NDArray[np.int64] | None
Floats = NDArray[np.float64]


def score_trees(
    inputs: ScoringInputs,
    measure: Measure,
    *,
    influence: InfluenceBlock | None = None,
    column: int | None = None,
    seeds: Seeds = None,
    penalties: Floats | None = None,
    n_threads: int = 1,
) -> ScoresByTree:
    """Score all trees of a model.

    Parameters
    ----------
    inputs : ScoringInputs
        Model and rows.
    measure : Measure
        How to score.
    influence : InfluenceBlock or None
        Where to add the influence of single rows; None if it is not needed.
    column : int or None
        The column of the target, such as a class, to score; None for all of them.
    seeds : ndarray of int, shape (n_trees,), or None
        Seeds of a measure that permutes columns.
    penalties : ndarray of shape (n_outputs,), or None
        Penalties of a measure with a regression per tree.
    n_threads : int
        Number of threads.
    """
    if column is None and can_fuse(inputs, measure):
        return ScoresByTree.join(list(_score_fused(inputs, measure, influence, n_threads)))
    ordered = None if influence is None else OrderedInfluence(inputs, influence)
    most_trees = max(1, _BATCH_ROWS // inputs.data.n_rows)
    if measure.part_score is not None:
        most_trees = max(1, MOST_VALUES // (inputs.data.n_rows * inputs.tree_model.n_features))
    score_batch = keep_engine(_score_batch)  # here, as joblib may ask for the next batch from a thread of its own
    parts = Parallel(n_jobs=n_threads, require="sharedmem")(
        delayed(score_batch)(inputs, measure, number, trees, seeds, penalties, ordered, column)
        for number, trees in enumerate(
            split_trees(inputs.tree_model.n_nodes, most_nodes=_BATCH_NODES, most_trees=most_trees)
        )
    )
    return ScoresByTree.join(parts)


def _score_batch(
    inputs: ScoringInputs,
    measure: Measure,
    number: int,
    trees: range,
    seeds: Seeds,
    penalties: Floats | None,
    influence: OrderedInfluence | None,
    column: int | None,
) -> ScoresByTree:
    """Score a batch of trees step by step, and add the influence of single rows."""
    try:
        ensemble, hazards = read_with_means(inputs, trees), None
        rows = inputs.evaluation_rows.of_trees(trees)
        leaves = inputs.tree_model.find_leaves(trees, ensemble, inputs.data.matrix, rows)
        summed = allocate_life_tables(ensemble) if inputs.compares_hazards else ensemble
        sums = get_engine().sum_leaves(summed, leaves, rows, inputs.data.target, inputs.row_weight)
        if inputs.compares_hazards:
            # Raw scores hold no hazards of the training rows.
            compare = NodeHazards.of_evaluation_rows if ensemble.is_additive else NodeHazards.of_training_rows
            hazards = compare(ensemble, sums)
            ensemble, sums = hazards.trees, hazards.sums
        ridges = None
        if measure.part_score is not None and penalties is not None:
            with_rows = influence is not None
            ridges = fit_ridges(
                inputs, measure.part_score, trees, ensemble, rows, penalties, column, with_rows=with_rows
            )
            if influence is not None:
                influence.add_values(number, trees, ridges.contributions)
        if influence is not None and measure.row_terms is not None:
            terms = measure.row_terms(ensemble, sums, column)
            influence.add(number, trees, ensemble, rows, terms if hazards is None else hazards.spread(terms))
    except BaseException:  # Ctrl-C too
        if influence is not None:
            influence.release()
        raise
    permuted = None if ridges is None else ridges.scores
    if measure.loss_increase is not None:
        permuted = permute_columns(inputs, measure, trees, ensemble, rows, seeds)
    if column is not None:
        ensemble, sums = take_column(ensemble, sums, column)
    largest = inputs.data.target.find_largest(ensemble.kind.n_columns)
    scores = score_sums(inputs.tree_model, measure, ensemble, sums, largest, permuted)
    return scores if ridges is None else replace(scores, counted_mdi=ridges.in_bag, magnitude=ridges.magnitude)


def can_fuse(inputs: ScoringInputs, measure: Measure) -> bool:
    """Whether the engine can fuse scoring: it has the formulas of measures with row terms, and must find the leaves."""
    return (
        get_engine().can_fuse
        and measure.row_terms is not None
        and not inputs.compares_hazards
        and not inputs.tree_model.finds_leaves
    )


def _score_fused(
    inputs: ScoringInputs, measure: Measure, influence: InfluenceBlock | None, n_threads: int
) -> Iterator[ScoresByTree]:
    """Score all trees, batch by batch, and add the influence of single rows."""
    for trees, batch, rows in read_fused_batches(inputs, with_influence=influence is not None):
        try:
            yield _score_fused_batch(inputs, measure, trees, batch, rows, influence, n_threads)
        except BrokenTreeError:
            for tree in trees:  # raises an error that says what is wrong
                inputs.tree_model.read(range(tree, tree + 1))
            raise


def read_fused_batches(
    inputs: ScoringInputs, *, with_influence: bool, with_inbag: bool = True
) -> Iterator[tuple[range, TreeEnsemble | list[TreeArrays], TreeRows]]:
    """Read trees and their rows as fused scoring takes them, batch by batch.

    Parameters
    ----------
    inputs : ScoringInputs
        Model and rows.
    with_influence : bool
        Whether rows need weights for influence.
    with_inbag : bool
        Whether in-bag rows need them, too.
    """
    tree_model, evaluation_rows, n_rows = inputs.tree_model, inputs.evaluation_rows, inputs.data.n_rows
    training = tree_model.training if evaluation_rows.are_training else None
    # Nodes of honest trees hold other means than those of the rows that chose the splits.
    in_place = None if training is not None and training.is_honest else tree_model.find_tree_arrays()
    bag_seeds = find_bag_seeds(inputs, with_inbag=with_influence and with_inbag)
    needs_lists = evaluation_rows.name != "heldout" and bag_seeds is None
    most_nodes = sys.maxsize if in_place is not None else _FUSED_NODES
    most_trees = max(1, _FUSED_ROWS // n_rows) if needs_lists else tree_model.n_trees
    for trees in split_trees(tree_model.n_nodes, most_nodes=most_nodes, most_trees=most_trees):
        rows: TreeRows = EveryRow()
        if needs_lists:
            rows = _list_rows(inputs, trees, with_influence=with_influence, with_inbag=with_inbag)
        elif bag_seeds is not None:
            rows = SeededBags(bag_seeds.seeds[trees.start : trees.stop], bag_seeds.n_draws)
        batch = read_with_means(inputs, trees) if in_place is None else in_place[trees.start : trees.stop]
        yield trees, batch, rows


def find_bag_seeds(inputs: ScoringInputs, *, with_inbag: bool) -> BagSeeds | None:
    """Seeds of the bags, if they reproduce the first and the last bag of the library; None to list the bags."""
    training, n_rows, n_trees = inputs.tree_model.training, inputs.data.n_rows, inputs.tree_model.n_trees
    if not inputs.evaluation_rows.are_all_oob or training is None or training.bag_seeds is None:
        return None
    if with_inbag and not training.weighs_by_count(inputs.data.weight is not None):
        return None
    found, draw_bag = training.bag_seeds, get_engine().draw_bag
    if len(found.seeds) != n_trees or not 0 < n_rows < 1 << 31:
        return None
    for tree in (0, n_trees - 1):
        if not np.array_equal(draw_bag(int(found.seeds[tree]), found.n_draws, n_rows), training.list_bag(tree, n_rows)):
            return None
    return found


def _list_rows(inputs: ScoringInputs, trees: range, *, with_influence: bool, with_inbag: bool) -> TreeRows:
    """Bags, if in-bag weights follow from these; else the evaluation rows, and the weights of rows in their roles."""
    training, n_rows, are_training = inputs.tree_model.training, inputs.data.n_rows, inputs.evaluation_rows.are_training
    are_all_oob = inputs.evaluation_rows.are_all_oob
    needs_weights = with_influence and with_inbag
    if are_all_oob and training and (not needs_weights or training.weighs_by_count(inputs.data.weight is not None)):
        return Bags([training.list_bag(tree, n_rows).astype(np.int64, copy=False) for tree in trees])
    rows = [inputs.evaluation_rows.of_tree(tree) for tree in trees]
    if not with_influence:
        return ListedRows(rows)
    in_bag = [weigh_in_bag(inputs, tree) for tree in trees] if are_training and with_inbag else None
    return ListedRows(rows, [weigh_evaluation(inputs, own) for own in rows], in_bag)


def _score_fused_batch(
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
    found = get_engine().score_fused(
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
    """How fused scoring scores splits."""
    return SplitCriterion(measure.name, measure.skips, measure.find_scale(kind), tree_model.is_additive)


@dataclass(frozen=True, eq=False)
class ScoresByTree:
    """Scores of a batch of trees; the first axis is the tree."""

    scores: Floats  # (n_trees, n_features, n_outputs)
    mdi: Floats  # (n_trees, n_features, n_outputs)
    counted_mdi: Floats  # the same of the splits that count, on the scale of the scores
    magnitude: Floats  # (n_trees, n_features): size of the summands of scores, which bounds rounding errors
    impurity: Floats  # (n_trees,): of the root
    split_weight: Floats  # (n_trees,): sum over splits of their share of the training weight
    skipped_weight: Floats  # (n_trees,): the same of splits that do not count
    is_left_out: NDArray[np.bool_]  # (n_trees,): whether no row evaluates the tree

    @classmethod
    def join(cls, parts: list[ScoresByTree]) -> ScoresByTree:
        """Concatenate the scores of several batches."""
        if len(parts) == 1:
            return parts[0]
        names = cls.__dataclass_fields__
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def split_trees(n_nodes: NDArray[np.int64], *, most_nodes: float, most_trees: int) -> Iterator[range]:
    """Split trees into batches of limited size, given the size of each; a single tree may be larger."""
    start, size = 0, 0
    for tree, own in enumerate(n_nodes):
        if tree > start and (size + own > most_nodes or tree - start == most_trees):
            yield range(start, tree)
            start, size = tree, 0
        size += int(own)
    yield range(start, len(n_nodes))


def place_outputs(column: NDArray[np.int32] | None, scores: Floats, n_scores: int) -> Floats:
    """Scores of all outputs, for trees that predict one of them."""
    if column is None or n_scores == 1:
        return scores
    placed = np.zeros((*scores.shape[:2], n_scores))
    placed[np.arange(len(column)), :, column] = scores[:, :, 0]
    return placed


def score_sums(
    tree_model: TreeModel,
    measure: Measure,
    ensemble: TreeEnsemble,
    sums: NodeSums,
    largest: Floats,
    permuted: Floats | None = None,
) -> ScoresByTree:
    """Apply a measure to some trees.

    Parameters
    ----------
    tree_model : TreeModel
        The model of the trees.
    measure : Measure
        How to score.
    ensemble : TreeEnsemble
        The trees, with training means at their nodes.
    sums : NodeSums
        Sums of the evaluation rows there.
    largest : ndarray of shape (n_columns,)
        Largest absolute target by column.
    permuted : ndarray of shape (n_trees, n_features, n_outputs), or None
        The scores of a measure that sums at nodes do not determine.
    """
    split_mdi = score_mdi(ensemble, sums)
    counted_mdi = mdi = sum_by_feature(ensemble, split_mdi)
    omega = ensemble.omega[ensemble.splits]
    is_counted, magnitude = np.ones(len(omega), dtype=np.bool_), np.zeros(mdi.shape[:2])
    if measure.split_score is None:
        if permuted is None:
            raise ValueError(
                f"measure={measure.name!r} needs all rows at once, but X is read in parts; use another measure, or "
                "load X into memory."
            )
        scores = permuted
    elif not measure.uses_evaluation_rows:
        scores = mdi
    else:
        if measure.skips:
            is_counted = ~find_skipped_splits(ensemble, sums)
        scores = sum_by_feature(ensemble, measure.split_score(ensemble, sums) * is_counted[:, np.newaxis])
        counted_mdi = sum_by_feature(ensemble, split_mdi * is_counted[:, np.newaxis]) * measure.find_scale(
            ensemble.kind
        )
        sizes = find_magnitude(ensemble, sums, largest) * is_counted
        magnitude = sum_by_feature(ensemble, sizes[:, np.newaxis])[:, :, 0]
    impurity = ensemble.root_impurity
    if np.isnan(impurity).any() and not tree_model.is_additive:
        impurity = np.where(np.isnan(impurity), find_root_impurity(ensemble, sums), impurity)
    n_scores = tree_model.target.n_scores
    return ScoresByTree(
        scores=place_outputs(ensemble.column, scores, n_scores),
        mdi=place_outputs(ensemble.column, mdi, n_scores),
        counted_mdi=place_outputs(ensemble.column, counted_mdi, n_scores),
        magnitude=magnitude,
        impurity=impurity,
        split_weight=_add_by_tree(ensemble, omega),
        skipped_weight=_add_by_tree(ensemble, np.where(is_counted, 0.0, omega)),
        is_left_out=(sums.weight[ensemble.offset[:-1]] <= 0) & measure.uses_evaluation_rows,
    )


def _add_by_tree(ensemble: TreeEnsemble, of_splits: Floats) -> Floats:
    """Sum over the splits of each tree, shape (n_trees,)."""
    tree = np.searchsorted(ensemble.offset, ensemble.splits, side="right") - 1
    return np.bincount(tree, weights=of_splits, minlength=ensemble.n_trees).astype(np.float64, copy=False)
