"""Scores of a fitted model from a table in memory, top to bottom."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood.adapters import open_model
from truewood.arguments import check_n_jobs, check_seed, read_flag, read_inference
from truewood.data.groups import Grouping, add_groups
from truewood.engines.engine import engine_name
from truewood.formulas.measure import Measure
from truewood.inference.contributions import Contributions, sum_row_groups
from truewood.inference.errors import count_trees, find_problem
from truewood.inference.few_groups import find_problem_of_groups, widen_for_groups
from truewood.inference.moments import Moments, TreeScores, measure_moments
from truewood.pipelines.unwrapping import unwrap
from truewood.result.importance_result import ImportanceResult
from truewood.rows.bag_weights import warn_of_rare_classes
from truewood.scoring.batches import score_trees
from truewood.scoring.by_class import add_classes, name_classes
from truewood.scoring.collector import Collector, count_bags, split_rows
from truewood.scoring.job import Job, make_job
from truewood.scoring.projecting import score_projected
from truewood.scoring.results import (
    Facts,
    add_errors,
    check_measure,
    find_groupings,
    find_inference_problem,
    find_measure,
    join_results,
    make_results,
    make_tree_scores,
)
from truewood.scoring.scores import Scores
from truewood.scoring.whole_forest import takes_whole_way
from truewood.words import quote

# A feature whose p-value is at most this is one whose interval matters.
_FOUND = 0.05


def score_table(
    model: Any,
    X: Any,
    y: Any,
    *,
    rows: Any,
    measure: str,
    sample_weight: Any,
    groups: Any,
    row_groups: Any,
    inference: bool | str,
    n_jobs: int | None,
    random_state: Any,
    target: Any,
    per_class: bool,
) -> ImportanceResult:
    """Score a model on a table in memory; see `importance`, from which it is called."""
    check_measure(measure)
    n_threads = check_n_jobs(n_jobs)
    inference, per_class = read_inference(inference, "rows", "bags"), read_flag(per_class, "per_class")
    parts = unwrap(model, X, y, rows)
    view = open_model(parts.model)
    if view.why_no_heldout is not None and not (isinstance(rows, str) and rows in ("auto", "oob")):
        raise ValueError(f"rows must be 'oob' for {view.name}, which {view.why_no_heldout}.")
    job = make_job(
        view,
        parts.X,
        parts.y,
        rows=rows,
        sample_weight=sample_weight,
        row_groups=row_groups,
        target=target,
        n_threads=n_threads,
    )
    facts = _find_facts(job)
    chosen = find_measure(measure, facts)
    if job.draws is not None and chosen.uses_unseen:
        warn_of_rare_classes(job.data.target, job.draws, stacklevel=4)
    groupings, notes = find_groupings(groups, job.data.matrix.names, parts.encoding, view)
    for doubt in (parts.warning, job.doubt):
        if doubt is not None:
            warnings.warn(doubt, UserWarning, stacklevel=3)
            notes = (*notes, doubt)
    no_inference = find_inference_problem(chosen, inference)
    if inference == "bags" and not job.choice.are_training:
        raise ValueError("inference='bags' is for rows that grew trees, as out of bag; use inference=True.")
    seeds = _draw_seeds(random_state, view.n_trees) if chosen.loss_increase is not None else None
    class_names = name_classes(facts, chosen) if per_class else None
    if chosen.forest_loss is not None:
        if job.data.matrix.is_on_device:
            raise ValueError(
                f"measure={quote(measure)} needs X in the host's memory, got X on the GPU; pass a numpy array."
            )
        return join_results(score_projected(job, chosen, groupings, inference, no_inference, n_threads), notes)

    def score(column: int | None = None) -> list[ImportanceResult]:
        run = partial(score_trees, job, chosen, column=column, seeds=seeds, n_jobs=n_jobs)
        takes_all = column is None and inference is True and job.row_groups is None
        on_device = takes_all and engine_name() == "cuda" and takes_whole_way(job, chosen)
        return _score(facts, chosen, job, groupings, run, inference, no_inference, n_threads, on_device)

    results = score()
    if class_names is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they have been given for all classes together
            results = add_classes(results, class_names, score)
    return join_results(results, notes)


def _score(
    facts: Facts,
    measure: Measure,
    job: Job,
    groupings: list[Grouping],
    run: Callable[..., Scores],
    inference: bool | str,
    no_inference: str | None,
    n_threads: int,
    on_device: bool,
) -> list[ImportanceResult]:
    """Results of each grouping, with errors where there are; `run` scores all trees, of all classes or of one.

    `on_device` says whether contributions of rows stay on the GPU until they are summed.
    """
    with_bags, n_features = inference == "bags", job.view.n_features
    blocks = [] if no_inference is not None else split_rows(job, n_features, with_bags=with_bags, on_device=on_device)
    n_first = count_bags(job, with_bags=with_bags)
    collect = partial(Collector, job, n_features=n_features, n_first=n_first, on_device=on_device)
    collector = collect(blocks[0]) if blocks else None
    scores = run(collector=collector)
    results = make_results(facts, measure, scores, groupings, stacklevel=5)
    if collector is None:
        return [replace(result, no_inference=no_inference) for result in results]
    collected = _collect(collector, (collect(rows) for rows in blocks[1:]), run)
    tree_scores = make_tree_scores(results, scores, groupings, job.view)
    return _infer(results, tree_scores, groupings, collected, job.row_groups, inference, n_threads)


def _find_facts(job: Job) -> Facts:
    weight, is_additive = job.row_weight, job.view.is_additive and not job.compares_hazards
    return Facts(
        view=job.view,
        rows=job.choice.name,
        n_rows=job.data.n_rows,
        is_weighted=weight is not None and bool(np.ptp(weight[weight > 0]) > 0),  # no weight is no row
        target_variance=_find_target_variance(job) if is_additive else np.nan,
        has_own_target=job.has_own_target,
        compares_hazards=job.compares_hazards,
        row_groups=job.row_groups,
    )


def _draw_seeds(random_state: Any, n_trees: int) -> NDArray[np.int64]:
    seeds: NDArray[np.int64] = check_seed(random_state).randint(np.iinfo(np.int32).max, size=n_trees)
    return seeds


def _find_target_variance(job: Job) -> float:
    """Variance of the target of additive trees, which is centred, summed over raw scores."""
    return float(np.average(job.data.target.encoded**2, axis=0, weights=job.row_weight).sum())


def _collect(first: Collector, others: Iterator[Collector], run: Callable[..., Scores]) -> Iterator[Contributions]:
    """Contributions of one block of rows after the other; the first has been collected with the scores."""
    yield first.finish()
    for collector in others:
        run(collector=collector)
        yield collector.finish()


def _infer(
    results: list[ImportanceResult],
    scores: list[TreeScores],
    groupings: list[Grouping],
    collected: Iterator[Contributions],
    row_groups: NDArray[np.int64] | None,
    inference: bool | str,
    n_threads: int,
) -> list[ImportanceResult]:
    """Add standard errors, and the contributions themselves where they were asked for."""
    moments: list[list[Moments]] = [[] for _ in results]
    phi: list[list[NDArray[np.float64]]] = [[] for _ in results]
    with_bags, problem, widening = inference == "bags", None, 1.0
    if inference == "rows":
        collected = _keep_rows(collected, scores, groupings, phi)
    for block in collected if row_groups is None else [sum_row_groups(collected, row_groups)]:
        problem = find_problem(block.n_scoring)
        if block.size is not None:
            problem, widening = find_problem_of_groups(block.size), widen_for_groups(block.size)
        for own, score, grouping in zip(moments, scores, groupings, strict=True):
            own.append(measure_moments(block, score, grouping, with_bags=with_bags, n_threads=n_threads))
    if inference == "rows":
        results = [
            replace(result, contributions=np.concatenate(own), row_groups=row_groups)
            for result, own in zip(results, phi, strict=True)
        ]
    summed = [reduce(add, own) for own in moments]
    results = add_errors(results, summed, scores, problem, with_bags=with_bags, widening=widening)
    if with_bags and results[0].no_inference is None:
        _warn_of_few_trees(results[0], count_trees(summed[0], scores[0], results[0].p_value <= _FOUND))
    return results


def _keep_rows(
    collected: Iterator[Contributions],
    scores: list[TreeScores],
    groupings: list[Grouping],
    phi: list[list[NDArray[np.float64]]],
) -> Iterator[Contributions]:
    """Pass blocks on, and keep what their rows contribute to the scores of each grouping."""
    for block in collected:
        for own, score, grouping in zip(phi, scores, groupings, strict=True):
            own.append(add_groups(block.phi, grouping) / score.tree_weight.sum())
        yield block


def _warn_of_few_trees(result: ImportanceResult, n_needed: int) -> None:
    """Say how many trees it takes to tell from bags how far scores may be off."""
    if n_needed > result.n_trees:
        warnings.warn(
            f"inference='bags' takes about {n_needed} trees to tell the errors of these scores well, and the model has "
            f"{result.n_trees}; intervals are rough.",
            UserWarning,
            stacklevel=7,
        )
