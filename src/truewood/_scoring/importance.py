"""Scores of a fitted model from a table in memory, top to bottom."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._arguments import check_n_jobs, check_seed, read_contributions, read_flag, read_inference
from truewood._formatting import quote
from truewood._inference.influence import (
    Contributions,
    Moments,
    TreeScores,
    measure_moments,
    sum_contributions_by_group,
)
from truewood._inference.standard_errors import correct_for_clusters, count_trees, find_cluster_problem, find_problem
from truewood._inputs.feature_groups import Grouping, add_groups
from truewood._measures.measure import Measure
from truewood._pipelines.final_estimator import extract_final_estimator
from truewood._results.importance_result import ImportanceResult
from truewood._results.scores_with_errors import ClassScores
from truewood._rows.bag_weights import warn_of_rare_classes
from truewood._scoring.influence import InfluenceAccumulator, count_bags, split_rows
from truewood._scoring.inputs import ScoringInputs, make_scoring_inputs
from truewood._scoring.projecting import score_projected
from truewood._scoring.results import (
    Metadata,
    add_errors,
    check_measure,
    find_groupings,
    find_inference_problem,
    find_measure,
    join_results,
    make_results,
    make_tree_scores,
)
from truewood._scoring.trees import Scores, can_fuse, score_trees
from truewood.adapters import open_model

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
    feature_groups: Any,
    groups: Any,
    inference: bool | str,
    contributions: bool,
    n_jobs: int | None,
    random_state: Any,
    target: Any,
    per_class: bool,
) -> ImportanceResult:
    """Score a model on a table in memory; see `importance`, from which it is called."""
    check_measure(measure)
    n_threads = check_n_jobs(n_jobs)
    inference, per_class = read_inference(inference, "bags"), read_flag(per_class, "per_class")
    contributions = read_contributions(contributions, inference)
    parts = extract_final_estimator(model, X, y, rows)
    tree_model = open_model(parts.model)
    if tree_model.why_no_heldout is not None and not (isinstance(rows, str) and rows in ("auto", "oob")):
        raise ValueError(f"rows must be 'oob' for {tree_model.name}, which {tree_model.why_no_heldout}.")
    inputs = make_scoring_inputs(
        tree_model,
        parts.X,
        parts.y,
        rows=rows,
        sample_weight=sample_weight,
        groups=groups,
        target=target,
        n_threads=n_threads,
    )
    metadata = _make_metadata(inputs)
    chosen = find_measure(measure, metadata)
    if inputs.draws is not None and chosen.uses_unseen:
        warn_of_rare_classes(inputs.data.target, inputs.draws, stacklevel=4)
    groupings, notes = find_groupings(feature_groups, inputs.data.matrix.names, parts.encoding, tree_model)
    for doubt in (parts.warning, inputs.doubt):
        if doubt is not None:
            warnings.warn(doubt, UserWarning, stacklevel=3)
            notes = (*notes, doubt)
    inference_unavailable = find_inference_problem(chosen, inference, contributions=contributions)
    if inference == "bags" and not inputs.evaluation_rows.are_training:
        raise ValueError("inference='bags' is for rows that grew trees, as out of bag; use inference=True.")
    seeds = _draw_seeds(random_state, tree_model.n_trees) if chosen.loss_increase is not None else None
    class_names = name_classes(metadata, chosen) if per_class else None
    if chosen.forest_loss is not None:
        if inputs.data.matrix.is_on_device:
            raise ValueError(
                f"measure={quote(measure)} needs X in the host's memory, got X on the GPU; pass a numpy array."
            )
        return join_results(
            score_projected(inputs, chosen, groupings, inference, inference_unavailable, contributions, n_threads),
            notes,
        )

    def score(column: int | None = None) -> list[ImportanceResult]:
        run = partial(score_trees, inputs, chosen, column=column, seeds=seeds, n_jobs=n_jobs)
        takes_all = column is None and inference is True and not contributions and inputs.groups is None
        is_fused = takes_all and can_fuse(inputs, chosen)
        return _score(
            metadata,
            chosen,
            inputs,
            groupings,
            run,
            inference,
            inference_unavailable,
            contributions,
            n_threads,
            is_fused,
        )

    results = score()
    if class_names is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they have been given for all classes together
            results = add_classes(results, class_names, score)
    return join_results(results, notes)


def _score(
    metadata: Metadata,
    measure: Measure,
    inputs: ScoringInputs,
    groupings: list[Grouping],
    run: Callable[..., Scores],
    inference: bool | str,
    inference_unavailable: str | None,
    contributions: bool,
    n_threads: int,
    is_fused: bool,
) -> list[ImportanceResult]:
    """Results of each grouping, with errors where there are; `run` scores all trees, of all classes or of one.

    `is_fused` says whether the influence of rows stays with the engine until it is summed.
    """
    with_bags, n_features = inference == "bags", inputs.tree_model.n_features
    blocks = (
        []
        if inference_unavailable is not None
        else split_rows(inputs, n_features, with_bags=with_bags, is_fused=is_fused)
    )
    n_first = count_bags(inputs, with_bags=with_bags)
    collect = partial(InfluenceAccumulator, inputs, n_features=n_features, n_first=n_first, is_fused=is_fused)
    influence = collect(blocks[0]) if blocks else None
    scores = run(influence=influence)
    results = make_results(metadata, measure, scores, groupings, stacklevel=5)
    if influence is None:
        return [replace(result, inference_unavailable=inference_unavailable) for result in results]
    collected = _collect(influence, (collect(rows) for rows in blocks[1:]), run)
    tree_scores = make_tree_scores(results, scores, groupings, inputs.tree_model)
    return _infer(results, tree_scores, groupings, collected, inputs.groups, inference, contributions, n_threads)


def _make_metadata(inputs: ScoringInputs) -> Metadata:
    weight, is_additive = inputs.row_weight, inputs.tree_model.is_additive and not inputs.compares_hazards
    return Metadata(
        tree_model=inputs.tree_model,
        rows=inputs.evaluation_rows.name,
        n_rows=inputs.data.n_rows,
        is_weighted=weight is not None and bool(np.ptp(weight[weight > 0]) > 0),  # no weight is no row
        target_variance=_find_target_variance(inputs) if is_additive else np.nan,
        has_own_target=inputs.has_own_target,
        compares_hazards=inputs.compares_hazards,
        groups=inputs.groups,
    )


def _draw_seeds(random_state: Any, n_trees: int) -> NDArray[np.int64]:
    seeds: NDArray[np.int64] = check_seed(random_state).randint(np.iinfo(np.int32).max, size=n_trees)
    return seeds


def _find_target_variance(inputs: ScoringInputs) -> float:
    """Variance of the target of additive trees, which is centred, summed over raw scores."""
    return float(np.average(inputs.data.target.encoded**2, axis=0, weights=inputs.row_weight).sum())


def _collect(
    first: InfluenceAccumulator, others: Iterator[InfluenceAccumulator], run: Callable[..., Scores]
) -> Iterator[Contributions]:
    """Contributions of one block of rows after the other; the first has been collected with the scores."""
    yield first.finish()
    for influence in others:
        run(influence=influence)
        yield influence.finish()


def _infer(
    results: list[ImportanceResult],
    scores: list[TreeScores],
    groupings: list[Grouping],
    collected: Iterator[Contributions],
    groups: NDArray[np.int64] | None,
    inference: bool | str,
    contributions: bool,
    n_threads: int,
) -> list[ImportanceResult]:
    """Add standard errors, and the contributions themselves where they were asked for."""
    moments: list[list[Moments]] = [[] for _ in results]
    phi: list[list[NDArray[np.float64]]] = [[] for _ in results]
    with_bags, problem, widening = inference == "bags", None, 1.0
    if contributions:
        collected = _keep_rows(collected, scores, groupings, phi)
    for block in collected if groups is None else [sum_contributions_by_group(collected, groups)]:
        problem = find_problem(block.n_scoring)
        if block.size is not None:
            problem, widening = find_cluster_problem(block.size), correct_for_clusters(block.size)
        for own, score, grouping in zip(moments, scores, groupings, strict=True):
            own.append(measure_moments(block, score, grouping, with_bags=with_bags, n_threads=n_threads))
    if contributions:
        results = [
            replace(result, contributions=np.concatenate(own), groups=groups)
            for result, own in zip(results, phi, strict=True)
        ]
    summed = [reduce(add, own) for own in moments]
    results = add_errors(results, summed, scores, problem, with_bags=with_bags, widening=widening)
    if with_bags and results[0].inference_unavailable is None:
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
            own.append(add_groups(block.eval_influence, grouping) / score.tree_weight.sum())
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


def name_classes(metadata: Metadata, measure: Measure) -> NDArray[np.str_]:
    """Names of the classes that scores are sums over, or an error that says why they are none."""
    tree_model = metadata.tree_model
    kind = tree_model.target.kind
    if not kind.is_classification or not (tree_model.target.is_y or tree_model.is_additive):
        raise ValueError(f"per_class=True needs a classifier, but {tree_model.name} predicts numbers.")
    if measure.split_score is None:
        raise ValueError(
            f"per_class=True has nothing to give: measure={measure.name!r} is no sum over classes; use 'ufi'."
        )
    if tree_model.is_additive and tree_model.target.n_scores != kind.n_columns:
        raise ValueError(
            f"per_class=True needs a raw score for each class, but {tree_model.name} has {tree_model.target.n_scores} "
            f"for {kind.n_columns} classes, so that there is nothing to divide."
        )
    return kind.column_names


def add_classes(
    results: Sequence[ImportanceResult],
    class_names: NDArray[np.str_],
    score: Callable[[int], Sequence[ImportanceResult]],
) -> list[ImportanceResult]:
    """Results of each grouping with the parts of all classes, given the results of a class, ``score(column)``."""
    by_class = [score(column) for column in range(len(class_names))]
    return [
        replace(
            result,
            classes=ClassScores(
                class_names,
                values=np.stack([one.values for one in own]),
                std_error=np.stack([one.std_error for one in own]),
                null_std_error=np.stack([one.null_std_error for one in own]),
            ),
        )
        for result, *own in zip(results, *by_class, strict=True)
    ]
