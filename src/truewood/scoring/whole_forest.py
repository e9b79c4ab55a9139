"""Scores of all trees by the kernel's whole way: trees where they lie, or read in batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from truewood.adapters import BagSeeds
from truewood.engines.engine import engine_name
from truewood.engines.whole_way import (
    BrokenTreeError,
    Contributed,
    RowsOfTrees,
    Rule,
    draw_bag,
    score_whole,
)
from truewood.formulas.measure import Measure
from truewood.scoring.collector import Collector, weigh_training, weigh_unseen
from truewood.scoring.job import Job
from truewood.scoring.node_means import read_with_means
from truewood.scoring.scores import Scores, place_outputs, split_trees
from truewood.trees.ensemble import TreeEnsemble
from truewood.trees.tree_in_place import TreeInPlace

# What is read at a time, where trees or rows have to be; a single tree may be larger.
_BATCH_NODES = 1 << 18
_BATCH_WEIGHTS = 1 << 22
# On the GPU, which holds nodes, sums, terms and bags of a batch; of sums and terms the host holds a copy.
_DEVICE_NODES = 1 << 22
_DEVICE_WEIGHTS = 1 << 28


def takes_whole_way(job: Job, measure: Measure) -> bool:
    """Whether the kernel can do it all: it has the formulas that have terms of rows, and finds leaves of its own."""
    return (
        engine_name() in ("native", "cuda")
        and measure.row_terms is not None
        and not job.compares_hazards
        and not job.view.finds_leaves
    )


def score_whole_forest(job: Job, measure: Measure, collector: Collector | None, n_threads: int) -> Iterator[Scores]:
    """Score all trees, a run of them after the other, and add what single rows contribute to the collector."""
    in_place = job.view.find_in_place() if _has_means(job) else None
    seeds = _find_seeds(job, with_rows=collector is not None)
    needs_lists = job.choice.name == "lists" or (job.choice.name == "oob" and seeds is None)
    most_nodes: float = _BATCH_NODES if in_place is None else np.inf
    most_trees = max(1, _BATCH_WEIGHTS // job.data.n_rows) if needs_lists else job.view.n_trees
    if engine_name() == "cuda":
        most_nodes = min(most_nodes, _DEVICE_NODES // max(1, job.view.target.kind.n_columns // 2))
        most_trees = max(1, min(most_trees, _DEVICE_WEIGHTS // job.data.n_rows)) if seeds is not None else most_trees
    for trees in split_trees(job.view.n_nodes, most_nodes=most_nodes, most_trees=most_trees):
        rows: RowsOfTrees = None
        if needs_lists:
            rows = _list_rows(job, trees, with_rows=collector is not None)
        elif seeds is not None:
            rows = (seeds.seeds[trees.start : trees.stop], seeds.n_draws)
        if in_place is None:
            yield _score(job, measure, trees, read_with_means(job, trees), rows, collector, n_threads)
            continue
        try:
            yield _score(job, measure, trees, in_place[trees.start : trees.stop], rows, collector, n_threads)
        except BrokenTreeError:
            for tree in trees:  # says what is wrong
                job.view.read(range(tree, tree + 1))
            raise


def _has_means(job: Job) -> bool:
    """Whether values of nodes stay as they are: those of honest trees are replaced by means of the splitting rows."""
    training = job.view.training
    return not (job.choice.are_training and training is not None and training.is_honest)


def _find_seeds(job: Job, *, with_rows: bool) -> BagSeeds | None:
    """What the bags are drawn from, where the first and the last bag are the library's own; None to list the bags."""
    training, n_rows = job.view.training, job.data.n_rows
    if job.choice.name != "oob" or training is None or training.bag_seeds is None:
        return None
    if with_rows and not training.weighs_by_count(job.data.weight is not None):
        return None
    found = training.bag_seeds
    if len(found.seeds) != job.view.n_trees or not 0 < n_rows < 1 << 31:
        return None
    for tree in (0, job.view.n_trees - 1):
        if not np.array_equal(draw_bag(int(found.seeds[tree]), found.n_draws, n_rows), training.list_bag(tree, n_rows)):
            return None
    return found


def _list_rows(job: Job, trees: range, *, with_rows: bool) -> RowsOfTrees:
    """Bags, where weights in the fit follow from these; else the rows that score, and weights of both roles."""
    training, n_rows = job.view.training, job.data.n_rows
    follows = training is not None and (not with_rows or training.weighs_by_count(job.data.weight is not None))
    if job.choice.name == "oob" and training is not None and follows:
        return [training.list_bag(tree, n_rows).astype(np.int64, copy=False) for tree in trees]
    listed = []
    for tree in trees:
        rows = job.choice.unseen(tree)
        unseen = weigh_unseen(job, rows) if with_rows else None
        grown = weigh_training(job, tree) if with_rows and job.choice.are_training else None
        listed.append((rows, unseen, grown))
    return listed


def _score(
    job: Job,
    measure: Measure,
    trees: range,
    ensemble: TreeEnsemble | list[TreeInPlace],
    rows: RowsOfTrees,
    collector: Collector | None,
    n_threads: int,
) -> Scores:
    if isinstance(ensemble, TreeEnsemble):
        kind, impurity, column = ensemble.kind, ensemble.root_impurity, ensemble.column
    else:
        kind, impurity, column = job.view.target.kind, np.array([tree.root_impurity for tree in ensemble]), None
    rule = Rule(measure.name, measure.skips, measure.find_scale(kind), job.view.is_additive)
    tree_weight = job.view.tree_weight
    contributed = None
    if collector is not None:
        bags = None if collector.bags is None else collector.bags[trees.start : trees.stop]
        contributed = Contributed(collector.phi, collector.psi, bags, int(collector.rows[0]))
    found = score_whole(
        ensemble,
        kind,
        job.data.matrix,
        rows,
        job.data.target,
        job.row_weight,
        rule,
        None if tree_weight is None else tree_weight[trees.start : trees.stop],
        contributed,
        n_threads,
    )
    if not job.view.is_additive:
        impurity = np.where(np.isnan(impurity), found.unseen_impurity, impurity)
    n_scores = job.view.target.n_scores
    return Scores(
        scores=place_outputs(column, found.scores, n_scores),
        mdi=place_outputs(column, found.mdi, n_scores),
        counted_mdi=place_outputs(column, found.counted_mdi, n_scores),
        magnitude=found.magnitude,
        impurity=impurity,
        split_weight=found.split_weight,
        skipped_weight=found.skipped_weight,
        is_left_out=found.unseen_weight <= 0,
    )
