"""Scores of all trees: with one call of the engine if it fuses scoring, or step by step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from truewood._engines.selection import get_engine, keep_engine
from truewood._inference.moments import InfluenceBlock
from truewood._measures.hazards import NodeHazards, allocate_life_tables
from truewood._measures.registry import Measure
from truewood._measures.splits import take_column
from truewood._scoring.fused import find_fused_scoring, score_fused
from truewood._scoring.influence import OrderedInfluence
from truewood._scoring.inputs import ScoringInputs
from truewood._scoring.mdi_plus import MOST_VALUES, fit_ridges
from truewood._scoring.node_means import read_with_means
from truewood._scoring.permutation import permute_columns
from truewood._scoring.scores_by_tree import ScoresByTree, score_sums

# Maximum number of nodes, and of rows times trees, in a batch; a single tree may be larger.
_BATCH_NODES = 1 << 15
_BATCH_ROWS = 1 << 20

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
    fused = None if column is not None else find_fused_scoring(inputs, measure)
    if fused is not None:
        return score_fused(fused, inputs, measure, influence, n_threads)
    ordered = None if influence is None else OrderedInfluence(inputs, influence)
    most_trees = max(1, _BATCH_ROWS // inputs.data.n_rows)
    if measure.part_score is not None:
        most_trees = max(1, MOST_VALUES // (inputs.data.n_rows * inputs.tree_model.n_features))
    score_batch = keep_engine(_score_batch)  # here, as joblib may ask for the next batch from a thread of its own
    parts = Parallel(n_jobs=n_threads, require="sharedmem")(
        delayed(score_batch)(inputs, measure, number, trees, seeds, penalties, ordered, column)
        for number, trees in enumerate(inputs.tree_model.split_trees(most_nodes=_BATCH_NODES, most_trees=most_trees))
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
