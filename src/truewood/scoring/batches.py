"""Scores of all trees, a batch at a time: route the unseen rows, sum them at the nodes, apply the measure."""

from __future__ import annotations

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from truewood.arguments import check_n_jobs
from truewood.engines.engine import get_engine, keep_engine
from truewood.engines.row_lists import RowLists
from truewood.formulas.hazards import NodeHazards, make_room
from truewood.formulas.measure import Measure
from truewood.formulas.splits import take_column
from truewood.scoring.collector import Collector
from truewood.scoring.job import Job
from truewood.scoring.node_means import read_with_means
from truewood.scoring.permuting import permute_columns
from truewood.scoring.scores import Scores, split_trees
from truewood.scoring.sums import score_sums
from truewood.scoring.whole_forest import score_whole_forest, takes_whole_way
from truewood.trees.ensemble import TreeEnsemble
from truewood.trees.node_sums import NodeSums

# What one step holds at a time; a single tree may be larger.
_BATCH_NODES = 1 << 15
_BATCH_ROWS = 1 << 20

Seeds = NDArray[np.int64] | None


def score_trees(
    job: Job,
    measure: Measure,
    *,
    collector: Collector | None = None,
    column: int | None = None,
    seeds: Seeds = None,
    n_jobs: int | None = None,
) -> Scores:
    """Score all trees of a model.

    Parameters
    ----------
    job : Job
        Model and rows.
    measure : Measure
        What to score by.
    collector : Collector or None
        Where to add what single rows contribute; None where that is not asked for.
    column : int or None
        The column of the target, such as a class, whose part of the scores is asked for; None for all of them.
    seeds : ndarray of int, shape (n_trees,), or None
        Seeds of a measure that permutes columns.
    n_jobs : int or None
        Number of threads.
    """
    if column is None and takes_whole_way(job, measure):
        return Scores.join(list(score_whole_forest(job, measure, collector, check_n_jobs(n_jobs))))
    most_trees = max(1, _BATCH_ROWS // job.data.n_rows)
    score_batch = keep_engine(_score_batch)  # here, as joblib may ask for the next batch from a thread of its own
    parts = Parallel(n_jobs=n_jobs, require="sharedmem")(
        delayed(score_batch)(job, measure, number, trees, seeds, collector, column)
        for number, trees in enumerate(split_trees(job.view.n_nodes, most_nodes=_BATCH_NODES, most_trees=most_trees))
    )
    return Scores.join(parts)


def _compare_hazards(ensemble: TreeEnsemble, sums: NodeSums) -> NodeHazards:
    """Trees and sums by the hazards that are known: of training rows, or of unseen ones for trees of raw scores."""
    compare = NodeHazards.of_unseen_rows if ensemble.is_additive else NodeHazards.of_training_rows
    return compare(ensemble, sums)


def _score_batch(
    job: Job,
    measure: Measure,
    number: int,
    trees: range,
    seeds: Seeds,
    collector: Collector | None,
    column: int | None,
) -> Scores:
    """Score some trees, and add what single rows contribute to that."""
    try:
        ensemble = read_with_means(job, trees)
        rows = RowLists.join([job.choice.unseen(tree) for tree in trees])
        leaves = job.view.find_leaves(trees, ensemble, job.data.matrix, rows)
        with_room = make_room(ensemble) if job.compares_hazards else ensemble
        sums = get_engine().sum_leaves(with_room, leaves, rows, job.data.target, job.row_weight)
        hazards = _compare_hazards(ensemble, sums) if job.compares_hazards else None
        if hazards is not None:
            ensemble, sums = hazards.trees, hazards.sums
        if collector is not None and measure.row_terms is not None:
            terms = measure.row_terms(ensemble, sums, column)
            collector.add(number, trees, ensemble, rows, terms if hazards is None else hazards.spread(terms))
    except BaseException:  # Ctrl-C too
        if collector is not None:
            collector.give_up()
        raise
    permuted = None
    if measure.split_score is None:
        permuted = permute_columns(job, measure, trees, ensemble, rows, seeds)
    if column is not None:
        ensemble, sums = take_column(ensemble, sums, column)
    largest = job.data.target.find_largest(ensemble.kind.n_columns)
    return score_sums(job.view, measure, ensemble, sums, largest, permuted)
