"""Scores of runs of trees: route the unseen rows, sum them at the nodes, apply the measure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truewood.adapters import ModelView
from truewood.engines.engine import RowLists, find_leaves, get_engine
from truewood.formulas.measures import MEASURES, add_features, find_skipped, mdi, permutation
from truewood.formulas.row_terms import ROW_TERMS
from truewood.rows.choice import Job
from truewood.rows.guard import average_leaves, recompute_means, root_impurity
from truewood.scoring.contributions import Contributions
from truewood.trees.ensemble import TreeEnsemble
from truewood.trees.node_sums import NodeSums

# What one step holds at a time; a single tree may be larger.
_BATCH_NODES = 1 << 15
_BATCH_ROWS = 1 << 20
_BLOCK_LEAVES = 1 << 20


@dataclass(frozen=True, eq=False)
class Scores:
    """What a batch of trees gives; the first axis is the tree."""

    scores: NDArray[np.float64]  # (n_trees, n_features, n_outputs)
    mdi: NDArray[np.float64]  # (n_trees, n_features, n_outputs)
    impurity: NDArray[np.float64]
    split_weight: NDArray[np.float64]
    skipped_weight: NDArray[np.float64]
    is_left_out: NDArray[np.bool_]

    @classmethod
    def join(cls, parts: list[Scores]) -> Scores:
        """Put the scores of several batches behind each other."""
        names = cls.__dataclass_fields__
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def split_into_batches(view: ModelView, n_rows: int) -> Iterator[range]:
    """Runs of trees that are small enough together."""
    start, n_nodes = 0, 0
    most_trees = max(1, _BATCH_ROWS // n_rows)
    for tree, size in enumerate(view.n_nodes):
        if tree > start and (n_nodes + size > _BATCH_NODES or tree - start == most_trees):
            yield range(start, tree)
            start, n_nodes = tree, 0
        n_nodes += int(size)
    yield range(start, view.n_trees)


def _read_batch(job: Job, trees: range) -> TreeEnsemble:
    """The trees with training means at their nodes."""
    ensemble = job.view.read(trees)
    # What the kernel reads by these numbers; an adapter from outside may have them wrong.
    n_features = (job.view.form.n_features or 0) + len(job.view.combined)
    if ensemble.n_features != n_features or (
        ensemble.column is not None and ensemble.column.max() >= job.view.n_scores
    ):
        raise ValueError(f"the adapter of {job.view.name} gives trees of other columns than it says the model has.")
    training = job.view.training if job.choice.name == "oob" else None
    if ensemble.statistic == "mean" and (training is None or training.recall_growth is None):
        return ensemble
    if training is not None:
        return recompute_means(ensemble, trees, training, job.matrix, job.target, job.row_weight)
    return average_leaves(ensemble)


def score_batch(
    job: Job,
    measure: str,
    number: int,
    trees: range,
    seeds: NDArray[np.int64],
    contributions: Contributions | None,
) -> Scores:
    """Score some trees, and add what single rows contribute to that."""
    try:
        ensemble = _read_batch(job, trees)
        rows = RowLists.join([job.choice.unseen(tree) for tree in trees])
        leaves = find_leaves(job.view, trees, ensemble, job.matrix, rows)
        sums = get_engine().sum_leaves(ensemble, leaves, rows, job.target, job.row_weight)
        if contributions is not None:
            contributions.add(number, trees, ensemble, rows, ROW_TERMS[measure](ensemble, sums))
    except Exception:
        if contributions is not None:
            contributions.give_up()
        raise
    return _apply_measure(job, measure, trees, ensemble, rows, sums, seeds)


def _apply_measure(
    job: Job,
    measure: str,
    trees: range,
    ensemble: TreeEnsemble,
    rows: RowLists,
    sums: NodeSums,
    seeds: NDArray[np.int64],
) -> Scores:
    """Scores of some trees, from the sums of the unseen rows at their nodes."""
    formula = MEASURES[measure]
    biased = add_features(ensemble, mdi(ensemble, sums))
    split_weight, skipped_weight = ensemble.omega[ensemble.splits], 0.0
    if formula.contributions is None:
        scores = _permute(job, trees, ensemble, rows, seeds)
    elif not formula.uses_unseen:
        scores = biased
    else:
        contributions = formula.contributions(ensemble, sums)
        if formula.skips:
            skipped = find_skipped(ensemble, sums)
            contributions *= ~skipped[:, np.newaxis]
            skipped_weight = float(split_weight.sum(where=skipped))
        scores = add_features(ensemble, contributions)
    impurity = ensemble.root_impurity
    if np.isnan(impurity).any() and not job.view.is_additive:
        impurity = np.where(np.isnan(impurity), root_impurity(ensemble, sums), impurity)
    return Scores(
        scores=_place_outputs(ensemble, scores, job.view.n_scores),
        mdi=_place_outputs(ensemble, biased, job.view.n_scores),
        impurity=impurity,
        split_weight=np.array([split_weight.sum()]),
        skipped_weight=np.array([skipped_weight]),
        is_left_out=(sums.weight[ensemble.offset[:-1]] <= 0) & formula.uses_unseen,
    )


def _place_outputs(ensemble: TreeEnsemble, scores: NDArray[np.float64], n_scores: int) -> NDArray[np.float64]:
    """Scores by all outputs, of trees that speak of one of them."""
    if ensemble.column is None or n_scores == 1:
        return scores
    placed = np.zeros((*scores.shape[:2], n_scores))
    placed[np.arange(ensemble.n_trees), :, ensemble.column] = scores[:, :, 0]
    return placed


def _permute(
    job: Job, trees: range, means: TreeEnsemble, rows: RowLists, seeds: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Permutation scores, by blocks of rows: a tree's rows swap one column at a time with rows of the same tree."""
    engine = get_engine()
    ensemble = job.view.read(trees)  # with the values it predicts by
    if ensemble.statistic in ("mean", "leaf"):
        # Means where it has no such values, or where unseen rows gave honest trees theirs.
        ensemble = means
    scores = np.zeros((len(trees), ensemble.n_features, ensemble.kind.n_outputs))
    block = max(1, _BLOCK_LEAVES // ensemble.n_features)
    for k, tree in enumerate(trees):
        one = ensemble[k : k + 1]
        own = rows.of_tree(k)
        donors = np.random.default_rng(seeds[tree]).permutation(own)
        weight = np.ones(len(own)) if job.row_weight is None else job.row_weight[own]
        for start in range(0, len(own), block):
            part = slice(start, start + block)
            leaves = engine.find_leaves(one, job.matrix, RowLists.join([own[part]]))
            swapped = engine.find_swapped_leaves(one, job.matrix, own[part], donors[part])
            scores[k] += permutation(one, leaves, swapped, own[part], job.target, weight[part])
        scores[k] /= max(weight.sum(), np.finfo(np.float64).tiny)
    return scores
