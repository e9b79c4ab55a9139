"""Scores of all trees: by the engine's fused scoring, or a batch at a time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from truewood._arguments import check_n_jobs
from truewood._engines.fused_scoring import (
    Bags,
    BrokenTreeError,
    EveryRow,
    InfluenceBuffers,
    ListedRows,
    SeededBags,
    SplitCriterion,
    TreeRows,
)
from truewood._engines.row_lists import RowLists
from truewood._engines.selection import get_engine, keep_engine
from truewood._measures.hazards import NodeHazards, make_room
from truewood._measures.mdi import score_splits as score_mdi
from truewood._measures.measure import Measure
from truewood._measures.splits import add_features, find_magnitude, find_skipped, take_column
from truewood._scoring.influence import InfluenceAccumulator, weigh_evaluation, weigh_in_bag
from truewood._scoring.inputs import ScoringInputs
from truewood._scoring.node_means import read_with_means, root_impurity
from truewood._scoring.permuting import permute_columns
from truewood._trees.ensemble import TreeArrays, TreeEnsemble
from truewood._trees.node_sums import NodeSums
from truewood.adapters import BagSeeds, TreeModel

# Nodes, and rows times trees, of a batch; a single tree may be larger.
_BATCH_NODES = 1 << 15
_BATCH_ROWS = 1 << 20
# The same for fused scoring, where trees have to be read and rows have to be listed.
_FUSED_NODES = 1 << 18
_BATCH_WEIGHTS = 1 << 22

Seeds = NDArray[np.int64] | None
Floats = NDArray[np.float64]


def score_trees(
    inputs: ScoringInputs,
    measure: Measure,
    *,
    influence: InfluenceAccumulator | None = None,
    column: int | None = None,
    seeds: Seeds = None,
    n_jobs: int | None = None,
) -> Scores:
    """Score all trees of a model.

    Parameters
    ----------
    inputs : ScoringInputs
        Model and rows.
    measure : Measure
        What to score by.
    influence : InfluenceAccumulator or None
        Where to add the influence of single rows; None where it is not needed.
    column : int or None
        The column of the target, such as a class, whose part of the scores is wanted; None for all of them.
    seeds : ndarray of int, shape (n_trees,), or None
        Seeds of a measure that permutes columns.
    n_jobs : int or None
        Number of threads.
    """
    if column is None and can_fuse(inputs, measure):
        return Scores.join(list(score_fused(inputs, measure, influence, check_n_jobs(n_jobs))))
    most_trees = max(1, _BATCH_ROWS // inputs.data.n_rows)
    score_batch = keep_engine(_score_batch)  # here, as joblib may ask for the next batch from a thread of its own
    parts = Parallel(n_jobs=n_jobs, require="sharedmem")(
        delayed(score_batch)(inputs, measure, number, trees, seeds, influence, column)
        for number, trees in enumerate(
            split_trees(inputs.tree_model.n_nodes, most_nodes=_BATCH_NODES, most_trees=most_trees)
        )
    )
    return Scores.join(parts)


def _compare_hazards(ensemble: TreeEnsemble, sums: NodeSums) -> NodeHazards:
    """Trees and sums by the hazards that are known: of training rows, or of evaluation rows for raw scores."""
    compare = NodeHazards.of_unseen_rows if ensemble.is_additive else NodeHazards.of_training_rows
    return compare(ensemble, sums)


def _score_batch(
    inputs: ScoringInputs,
    measure: Measure,
    number: int,
    trees: range,
    seeds: Seeds,
    influence: InfluenceAccumulator | None,
    column: int | None,
) -> Scores:
    """Score some trees, and add the influence of single rows."""
    try:
        ensemble = read_with_means(inputs, trees)
        rows = RowLists.join([inputs.evaluation_rows.unseen(tree) for tree in trees])
        leaves = inputs.tree_model.find_leaves(trees, ensemble, inputs.data.matrix, rows)
        with_room = make_room(ensemble) if inputs.compares_hazards else ensemble
        sums = get_engine().sum_leaves(with_room, leaves, rows, inputs.data.target, inputs.row_weight)
        hazards = _compare_hazards(ensemble, sums) if inputs.compares_hazards else None
        if hazards is not None:
            ensemble, sums = hazards.trees, hazards.sums
        if influence is not None and measure.row_terms is not None:
            terms = measure.row_terms(ensemble, sums, column)
            influence.add(number, trees, ensemble, rows, terms if hazards is None else hazards.spread(terms))
    except BaseException:  # Ctrl-C too
        if influence is not None:
            influence.give_up()
        raise
    permuted = None
    if measure.split_score is None:
        permuted = permute_columns(inputs, measure, trees, ensemble, rows, seeds)
    if column is not None:
        ensemble, sums = take_column(ensemble, sums, column)
    largest = inputs.data.target.find_largest(ensemble.kind.n_columns)
    return score_sums(inputs.tree_model, measure, ensemble, sums, largest, permuted)


def can_fuse(inputs: ScoringInputs, measure: Measure) -> bool:
    """Whether the engine can fuse scoring: it has the formulas of measures with row terms, and must find the leaves."""
    return (
        get_engine().can_fuse
        and measure.row_terms is not None
        and not inputs.compares_hazards
        and not inputs.tree_model.finds_leaves
    )


def score_fused(
    inputs: ScoringInputs, measure: Measure, influence: InfluenceAccumulator | None, n_threads: int
) -> Iterator[Scores]:
    """Score all trees, run by run, and add the influence of single rows."""
    in_place = inputs.tree_model.find_tree_arrays() if _has_means(inputs) else None
    seeds = _find_seeds(inputs, with_rows=influence is not None)
    needs_lists = inputs.evaluation_rows.name == "lists" or (inputs.evaluation_rows.name == "oob" and seeds is None)
    most_nodes = sys.maxsize if in_place is not None else _FUSED_NODES
    most_trees = max(1, _BATCH_WEIGHTS // inputs.data.n_rows) if needs_lists else inputs.tree_model.n_trees
    for trees in split_trees(inputs.tree_model.n_nodes, most_nodes=most_nodes, most_trees=most_trees):
        rows: TreeRows = EveryRow()
        if needs_lists:
            rows = _list_rows(inputs, trees, with_rows=influence is not None)
        elif seeds is not None:
            rows = SeededBags(seeds.seeds[trees.start : trees.stop], seeds.n_draws)
        if in_place is None:
            yield _score(inputs, measure, trees, read_with_means(inputs, trees), rows, influence, n_threads)
            continue
        try:
            yield _score(inputs, measure, trees, in_place[trees.start : trees.stop], rows, influence, n_threads)
        except BrokenTreeError:
            for tree in trees:  # raises an error that says what is wrong
                inputs.tree_model.read(range(tree, tree + 1))
            raise


def _has_means(inputs: ScoringInputs) -> bool:
    """Whether nodes hold training means: values of honest trees are replaced by means of the splitting rows."""
    training = inputs.tree_model.training
    return not (inputs.evaluation_rows.are_training and training is not None and training.is_honest)


def _find_seeds(inputs: ScoringInputs, *, with_rows: bool) -> BagSeeds | None:
    """Seeds of the bags, where the first and the last bag drawn are the library's own; None to list the bags."""
    training, n_rows = inputs.tree_model.training, inputs.data.n_rows
    if inputs.evaluation_rows.name != "oob" or training is None or training.bag_seeds is None:
        return None
    if with_rows and not training.weighs_by_count(inputs.data.weight is not None):
        return None
    found, draw_bag = training.bag_seeds, get_engine().draw_bag
    if len(found.seeds) != inputs.tree_model.n_trees or not 0 < n_rows < 1 << 31:
        return None
    for tree in (0, inputs.tree_model.n_trees - 1):
        if not np.array_equal(draw_bag(int(found.seeds[tree]), found.n_draws, n_rows), training.list_bag(tree, n_rows)):
            return None
    return found


def _list_rows(inputs: ScoringInputs, trees: range, *, with_rows: bool) -> TreeRows:
    """Bags, where weights in the fit follow from these; else the evaluation rows, and weights in both roles."""
    training, n_rows = inputs.tree_model.training, inputs.data.n_rows
    follows = training is not None and (not with_rows or training.weighs_by_count(inputs.data.weight is not None))
    if inputs.evaluation_rows.name == "oob" and training is not None and follows:
        return Bags([training.list_bag(tree, n_rows).astype(np.int64, copy=False) for tree in trees])
    rows = [inputs.evaluation_rows.unseen(tree) for tree in trees]
    if not with_rows:
        return ListedRows(rows)
    in_bag = [weigh_in_bag(inputs, tree) for tree in trees] if inputs.evaluation_rows.are_training else None
    return ListedRows(rows, [weigh_evaluation(inputs, own) for own in rows], in_bag)


def _score(
    inputs: ScoringInputs,
    measure: Measure,
    trees: range,
    ensemble: TreeEnsemble | list[TreeArrays],
    rows: TreeRows,
    influence: InfluenceAccumulator | None,
    n_threads: int,
) -> Scores:
    if isinstance(ensemble, TreeEnsemble):
        kind, impurity, column = ensemble.kind, ensemble.root_impurity, ensemble.column
    else:
        kind, impurity, column = (
            inputs.tree_model.target.kind,
            np.array([tree.root_impurity for tree in ensemble]),
            None,
        )
    criterion = SplitCriterion(measure.name, measure.skips, measure.find_scale(kind), inputs.tree_model.is_additive)
    tree_weight = inputs.tree_model.tree_weight
    buffers = None
    if influence is not None:
        bags = None if influence.bags is None else influence.bags[trees.start : trees.stop]
        buffers = InfluenceBuffers(
            influence.eval_influence, influence.inbag_influence, bags, first=int(influence.rows[0])
        )
    found = get_engine().score_trees(
        ensemble,
        kind,
        inputs.data.matrix,
        inputs.data.target,
        rows=rows,
        row_weight=inputs.row_weight,
        criterion=criterion,
        tree_weight=None if tree_weight is None else tree_weight[trees.start : trees.stop],
        influence=buffers,
        n_threads=n_threads,
    )
    if not inputs.tree_model.is_additive:
        impurity = np.where(np.isnan(impurity), found.evaluation_impurity, impurity)
    n_scores = inputs.tree_model.target.n_scores
    return Scores(
        scores=place_outputs(column, found.scores, n_scores),
        mdi=place_outputs(column, found.mdi, n_scores),
        counted_mdi=place_outputs(column, found.counted_mdi, n_scores),
        magnitude=found.magnitude,
        impurity=impurity,
        split_weight=found.split_weight,
        skipped_weight=found.skipped_weight,
        is_left_out=found.evaluation_weight <= 0,
    )


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of a run of trees; the first axis is the tree."""

    scores: Floats  # (n_trees, n_features, n_outputs)
    mdi: Floats  # (n_trees, n_features, n_outputs)
    counted_mdi: Floats  # the same for splits that count, on the scale of the scores
    magnitude: Floats  # (n_trees, n_features): size of the summands of scores, which bounds rounding errors
    impurity: Floats
    split_weight: Floats
    skipped_weight: Floats
    is_left_out: NDArray[np.bool_]

    @classmethod
    def join(cls, parts: list[Scores]) -> Scores:
        """Concatenate the scores of several runs."""
        names = cls.__dataclass_fields__
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def split_trees(n_nodes: NDArray[np.int64], *, most_nodes: float, most_trees: int) -> Iterator[range]:
    """Runs of trees that are small enough together, given the sizes of all; a single tree may be larger."""
    start, size = 0, 0
    for tree, own in enumerate(n_nodes):
        if tree > start and (size + own > most_nodes or tree - start == most_trees):
            yield range(start, tree)
            start, size = tree, 0
        size += int(own)
    yield range(start, len(n_nodes))


def place_outputs(column: NDArray[np.int32] | None, scores: Floats, n_scores: int) -> Floats:
    """Scores by all outputs, for trees that predict one of them."""
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
) -> Scores:
    """Apply a measure to some trees.

    Parameters
    ----------
    tree_model : TreeModel
        The model that the trees belong to.
    measure : Measure
        What to score by.
    ensemble : TreeEnsemble
        The trees, with training means at their nodes.
    sums : NodeSums
        Sums of the evaluation rows there.
    largest : ndarray of shape (n_columns,)
        Largest absolute target by column.
    permuted : ndarray of shape (n_trees, n_features, n_outputs), or None
        The scores, for a measure that sums at nodes do not determine.
    """
    biased_splits = score_mdi(ensemble, sums)
    counted = biased = add_features(ensemble, biased_splits)
    omega = ensemble.omega[ensemble.splits]
    is_counted, magnitude = np.ones(len(omega), dtype=np.bool_), np.zeros(biased.shape[:2])
    if measure.split_score is None:
        if permuted is None:
            raise ValueError(f"measure={measure.name!r} looks at single rows, and sums of rows do not give it.")
        scores = permuted
    elif not measure.uses_unseen:
        scores = biased
    else:
        if measure.skips:
            is_counted = ~find_skipped(ensemble, sums)
        scores = add_features(ensemble, measure.split_score(ensemble, sums) * is_counted[:, np.newaxis])
        counted = add_features(ensemble, biased_splits * is_counted[:, np.newaxis]) * measure.find_scale(ensemble.kind)
        sizes = find_magnitude(ensemble, sums, largest) * is_counted
        magnitude = add_features(ensemble, sizes[:, np.newaxis])[:, :, 0]
    impurity = ensemble.root_impurity
    if np.isnan(impurity).any() and not tree_model.is_additive:
        impurity = np.where(np.isnan(impurity), root_impurity(ensemble, sums), impurity)
    n_scores = tree_model.target.n_scores
    return Scores(
        scores=place_outputs(ensemble.column, scores, n_scores),
        mdi=place_outputs(ensemble.column, biased, n_scores),
        counted_mdi=place_outputs(ensemble.column, counted, n_scores),
        magnitude=magnitude,
        impurity=impurity,
        split_weight=_add_by_tree(ensemble, omega),
        skipped_weight=_add_by_tree(ensemble, np.where(is_counted, 0.0, omega)),
        is_left_out=(sums.weight[ensemble.offset[:-1]] <= 0) & measure.uses_unseen,
    )


def _add_by_tree(ensemble: TreeEnsemble, of_splits: Floats) -> Floats:
    """Sum over the splits of each tree, shape (n_trees,)."""
    tree = np.searchsorted(ensemble.offset, ensemble.splits, side="right") - 1
    return np.bincount(tree, weights=of_splits, minlength=ensemble.n_trees).astype(np.float64, copy=False)
