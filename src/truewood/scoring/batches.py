"""Scores of all trees, a batch at a time: route the unseen rows, sum them at the nodes, apply the measure."""

from __future__ import annotations

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray

from truewood.engines.engine import get_engine
from truewood.engines.row_lists import RowLists
from truewood.formulas.hazards import NodeHazards, make_room
from truewood.formulas.mdi import score_splits as score_mdi
from truewood.formulas.measure import Measure
from truewood.formulas.splits import add_features, find_skipped
from truewood.scoring.collector import Collector
from truewood.scoring.job import Job
from truewood.scoring.node_means import read_with_means, root_impurity
from truewood.scoring.permuting import permute_columns
from truewood.scoring.scores import Scores, place_outputs, split_trees
from truewood.scoring.whole_forest import score_whole_forest, takes_whole_way
from truewood.trees.ensemble import TreeEnsemble
from truewood.trees.node_sums import NodeSums

# What one step holds at a time; a single tree may be larger.
_BATCH_NODES = 1 << 15
_BATCH_ROWS = 1 << 20

Seeds = NDArray[np.int64] | None


def score_trees(
    job: Job, measure: Measure, *, collector: Collector | None = None, seeds: Seeds = None, n_jobs: int | None = None
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
    seeds : ndarray of int, shape (n_trees,), or None
        Seeds of a measure that permutes columns.
    n_jobs : int or None
        Number of threads.
    """
    if takes_whole_way(job, measure):
        return Scores.join(list(score_whole_forest(job, measure, collector, effective_n_jobs(n_jobs))))
    most_trees = max(1, _BATCH_ROWS // job.data.n_rows)
    parts = Parallel(n_jobs=n_jobs, require="sharedmem")(
        delayed(_score_batch)(job, measure, number, trees, seeds, collector)
        for number, trees in enumerate(split_trees(job.view.n_nodes, most_nodes=_BATCH_NODES, most_trees=most_trees))
    )
    return Scores.join(parts)


def _compare_hazards(ensemble: TreeEnsemble, sums: NodeSums) -> NodeHazards:
    """Trees and sums by the hazards that are known: of training rows, or of unseen ones for trees of raw scores."""
    compare = NodeHazards.of_unseen_rows if ensemble.is_additive else NodeHazards.of_training_rows
    return compare(ensemble, sums)


def _score_batch(
    job: Job, measure: Measure, number: int, trees: range, seeds: Seeds, collector: Collector | None
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
            terms = measure.row_terms(ensemble, sums)
            collector.add(number, trees, ensemble, rows, terms if hazards is None else hazards.spread(terms))
    except BaseException:  # Ctrl-C too
        if collector is not None:
            collector.give_up()
        raise
    biased_splits = score_mdi(ensemble, sums)
    counted = biased = add_features(ensemble, biased_splits)
    omega = ensemble.omega[ensemble.splits]
    is_counted = np.ones(len(omega), dtype=np.bool_)
    if measure.split_score is None:
        scores = permute_columns(job, measure, trees, ensemble, rows, seeds)
    elif not measure.uses_unseen:
        scores = biased
    else:
        if measure.skips:
            is_counted = ~find_skipped(ensemble, sums)
        scores = add_features(ensemble, measure.split_score(ensemble, sums) * is_counted[:, np.newaxis])
        counted = add_features(ensemble, biased_splits * is_counted[:, np.newaxis]) * measure.find_scale(ensemble.kind)
    impurity = ensemble.root_impurity
    if np.isnan(impurity).any() and not job.view.is_additive:
        impurity = np.where(np.isnan(impurity), root_impurity(ensemble, sums), impurity)
    n_scores = job.view.target.n_scores
    return Scores(
        scores=place_outputs(ensemble.column, scores, n_scores),
        mdi=place_outputs(ensemble.column, biased, n_scores),
        counted_mdi=place_outputs(ensemble.column, counted, n_scores),
        impurity=impurity,
        split_weight=_add_by_tree(ensemble, omega),
        skipped_weight=_add_by_tree(ensemble, np.where(is_counted, 0.0, omega)),
        is_left_out=(sums.weight[ensemble.offset[:-1]] <= 0) & measure.uses_unseen,
    )


def _add_by_tree(ensemble: TreeEnsemble, of_splits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum over the splits of each tree, shape (n_trees,)."""
    tree = np.searchsorted(ensemble.offset, ensemble.splits, side="right") - 1
    return np.bincount(tree, weights=of_splits, minlength=ensemble.n_trees).astype(np.float64, copy=False)
