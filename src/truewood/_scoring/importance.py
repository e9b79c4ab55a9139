"""Scores of a fitted model on a table in memory, top to bottom."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._arguments import check_n_jobs, check_seed, is_choice, read_flag, read_inference
from truewood._exceptions import warn
from truewood._formatting import quote
from truewood._inference.moments import (
    GroupingScores,
    InfluenceBlock,
    Moments,
    measure_moments,
    sum_influence_by_group,
)
from truewood._inference.standard_errors import (
    CLUSTER_REMEDY,
    count_trees_for_bags,
    find_cluster_correction,
    find_cluster_shortage,
    find_row_shortage,
)
from truewood._inputs.groups import Grouping, sum_feature_groups
from truewood._inputs.table_types import bring_to_host
from truewood._measures.registry import SOBOL_MDA, Measure, check_measure, find_inference_problem, find_measure
from truewood._pipelines.final_estimator import extract_final_estimator
from truewood._results.importance_result import ImportanceResult
from truewood._results.scores_with_errors import ClassScores
from truewood._rows.dependent_rows import MOST_ROWS, warn_of_dependent_rows
from truewood._scoring.influence import allocate_influence
from truewood._scoring.inputs import (
    ScoringInputs,
    check_training_rows,
    describe_informative_rows,
    describe_rows,
    find_invalid_rows,
    has_few_informative,
    make_scoring_inputs,
    refuse_heldout,
)
from truewood._scoring.mdi_plus import choose_penalties
from truewood._scoring.residual_test import add_residual_test, find_residual_problem
from truewood._scoring.results import (
    Metadata,
    add_errors,
    find_groupings,
    join_results,
    make_grouping_scores,
    make_results,
)
from truewood._scoring.scores_by_tree import ScoresByTree
from truewood._scoring.sobol_mda import score_projected
from truewood._scoring.trees import score_trees
from truewood.adapters import TreeModel, open_model

Floats = NDArray[np.float64]

# Intervals matter for features with at most this p-value.
_SIGNIFICANT = 0.05


def score_in_memory(
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
    check_heldout: bool = True,
    check_rows: bool = True,
) -> ImportanceResult:
    """Score a model on a table in memory; for the arguments see `importance` and `make_scoring_inputs`."""
    check_measure(measure)
    if groups is not None and measure == SOBOL_MDA.name:  # before any remedy that this measure does not have
        raise ValueError(
            f"groups cannot be combined with measure={quote(measure)}, which treats rows as independent; leave groups "
            "out, or use another measure."
        )
    n_threads, per_class = check_n_jobs(n_jobs), read_flag(per_class, "per_class")
    inference, contributions = read_inference(inference, contributions, "bags", "residual")
    final = extract_final_estimator(model, X, y, rows)
    tree_model = open_model(final.model)
    if not is_choice(rows, ("auto", "oob")):
        refuse_heldout(tree_model)
    inputs = make_scoring_inputs(
        tree_model,
        final.X,
        final.y,
        rows=rows,
        sample_weight=sample_weight,
        groups=groups,
        target=target,
        n_threads=n_threads,
        check_heldout=check_heldout,
        check_rows=check_rows,
    )
    chosen = _choose_measure(measure, inputs)
    groupings, notes = find_groupings(feature_groups, inputs.data.matrix.names, final.encoding, tree_model)
    notes = (*notes, *_describe_inputs(inputs, chosen, final.warning, may_have_stopped=check_heldout))
    plan = _plan_inference(inputs, chosen, inference, contributions, check_rows, n_threads)
    if not plan.unavailable and not plan.invalid:
        notes = (*notes, *describe_informative_rows(inputs))
    if plan.unavailable and plan.invalid:
        notes = (*notes, f"Scores are unreliable: {plan.invalid}.")
    class_names = _name_classes(tree_model, chosen) if per_class else None
    if chosen.forest_loss is not None:
        problem = plan.unavailable or plan.invalid
        results = score_projected(inputs, chosen, groupings, inference, problem, contributions, n_threads)
    else:
        results = _score_by_tree(inputs, chosen, groupings, plan, class_names, random_state, n_threads)
    return join_results(results, notes)


@dataclass(frozen=True)
class _InferencePlan:
    """Which inference to run, and why it is unavailable.

    Parameters
    ----------
    kind : bool, "bags" or "residual"
        The argument `inference`.
    contributions : bool
        Whether to return the contributions of rows.
    unavailable : str or None
        Why no errors are computed: the caller or the measure excludes them.
    invalid : str or None
        Why the rows allow no errors.
    check_rows : bool
        Whether to check how rows depend on each other.
    """

    kind: bool | str
    contributions: bool
    unavailable: str | None
    invalid: str | None
    check_rows: bool


def _choose_measure(name: str, inputs: ScoringInputs) -> Measure:
    """The measure that fits the model and the weights of the rows."""
    weight = inputs.row_weight
    is_weighted = weight is not None and bool(np.ptp(weight[weight > 0]) > 0)
    measure = find_measure(name, inputs.tree_model, compares_hazards=inputs.compares_hazards, is_weighted=is_weighted)
    if measure.needs_training_rows:
        check_training_rows(inputs, measure.name)
    if measure.forest_loss is not None and inputs.data.matrix.is_on_device:
        raise ValueError(f"measure={quote(name)} needs X in the host's memory, got X on the GPU; pass a numpy array.")
    return measure


def _describe_inputs(
    inputs: ScoringInputs, measure: Measure, warning: str | None, *, may_have_stopped: bool
) -> Iterator[str]:
    """Sentences about the rows, after a warning for each reason why scores may be misleading."""
    for caveat in (warning, inputs.caveat):
        if caveat is not None:
            warn(caveat)
            yield caveat
    if measure.uses_evaluation_rows:
        yield from describe_rows(inputs, may_have_stopped=may_have_stopped)


def _plan_inference(
    inputs: ScoringInputs,
    measure: Measure,
    inference: bool | str,
    contributions: bool,
    check_rows: bool,
    n_threads: int,
) -> _InferencePlan:
    """Find out why inference is unavailable, and refuse kinds that the measure or the rows do not allow."""
    unavailable = find_inference_problem(measure, inference, contributions=contributions)
    invalid = find_invalid_rows(inputs, n_threads, check_rows=check_rows) if measure.uses_evaluation_rows else None
    if invalid is not None:
        withheld = "scores are unreliable" if unavailable else "standard errors and p-values are withheld"
        warn(f"{withheld}: {invalid}.")
    if inference == "bags" and not inputs.evaluation_rows.are_training:
        raise ValueError("inference='bags' needs out-of-bag rows, got other rows; pass rows='oob', or inference=True.")
    if inference == "residual" and measure.forest_loss is None:
        problem = find_residual_problem(inputs, measure)
        if problem is not None:
            raise ValueError(f"inference='residual' is unavailable: {problem}; use inference=True.")
    return _InferencePlan(inference, contributions, unavailable, invalid, check_rows)


def _score_by_tree(
    inputs: ScoringInputs,
    measure: Measure,
    groupings: list[Grouping],
    plan: _InferencePlan,
    class_names: NDArray[np.str_] | None,
    random_state: Any,
    n_threads: int,
) -> list[ImportanceResult]:
    """Results of each grouping for a measure that scores tree by tree, with those of each class if these are named."""
    score = partial(score_trees, inputs, measure, n_threads=n_threads)
    if measure.loss_increase is not None:
        n_trees = inputs.tree_model.n_trees
        score = partial(score, seeds=check_seed(random_state).randint(np.iinfo(np.int32).max, size=n_trees))
    if measure.part_score is not None:
        score = partial(score, penalties=choose_penalties(inputs, n_threads))
    score_column = partial(_score_column, score, inputs, measure, groupings, plan, n_threads)
    results = score_column()
    if class_names is None:
        return results
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # issued for all classes together already
        return _add_classes(results, class_names, score_column)


def _score_column(
    score: Callable[..., ScoresByTree],
    inputs: ScoringInputs,
    measure: Measure,
    groupings: list[Grouping],
    plan: _InferencePlan,
    n_threads: int,
    column: int | None = None,
) -> list[ImportanceResult]:
    """Results of each grouping for one column of the target, such as a class; None for all of them."""
    metadata = _make_metadata(inputs)
    if plan.unavailable is not None:
        results = make_results(metadata, measure, score(column=column), groupings)
        return [replace(result, inference_unavailable=plan.unavailable) for result in results]
    is_summed = column is None and plan.kind is True and not plan.contributions and inputs.clusters is None
    blocks = allocate_influence(inputs, measure, with_bags=plan.kind == "bags", is_summed=is_summed)

    def fill(block: InfluenceBlock) -> InfluenceBlock:
        score(column=column, influence=block)
        return block

    # Several blocks only if influence or bags of all rows are too large; each costs a pass over all trees.
    first = next(blocks)
    scores = score(column=column, influence=first)
    results = make_results(metadata, measure, scores, groupings)
    grouping_scores = make_grouping_scores(results, scores, groupings, inputs.tree_model)
    filled: Iterable[InfluenceBlock] = chain([first], map(fill, blocks))
    if plan.check_rows and inputs.groups is None and column is None:
        filled = _check_order(filled, groupings[0], inputs)
    results, moments = _add_inference(results, grouping_scores, groupings, filled, inputs, plan, n_threads, column)
    if plan.kind != "residual" or column is not None:
        return results
    return add_residual_test(
        results,
        grouping_scores,
        moments,
        groupings,
        first,
        inputs,
        measure,
        with_contributions=plan.contributions,
        n_threads=n_threads,
    )


def _make_metadata(inputs: ScoringInputs) -> Metadata:
    tree_model, target_variance = inputs.tree_model, np.nan
    if tree_model.is_additive and not inputs.compares_hazards:
        # The target of additive trees is centered.
        squares = np.average(inputs.data.target.encoded**2, axis=0, weights=inputs.row_weight)
        target_variance = float(squares.sum())
    return Metadata(
        tree_model=tree_model,
        rows=inputs.evaluation_rows.name,
        n_rows=inputs.data.n_rows,
        target_variance=target_variance,
        has_own_target=inputs.has_own_target,
        compares_hazards=inputs.compares_hazards,
        n_groups=None if inputs.groups is None else int(inputs.groups.max()) + 1,
    )


def _add_inference(
    results: list[ImportanceResult],
    scores: list[GroupingScores],
    groupings: list[Grouping],
    blocks: Iterable[InfluenceBlock],
    inputs: ScoringInputs,
    plan: _InferencePlan,
    n_threads: int,
    column: int | None,
) -> tuple[list[ImportanceResult], list[Moments]]:
    """Add standard errors unless these are unavailable, and contributions if requested; and return sums over rows."""
    moments: list[list[Moments]] = [[] for _ in results]
    kept: list[list[Floats]] = [[] for _ in results]
    with_bags, invalid, problem, correction = plan.kind == "bags", plan.invalid, None, 1.0
    clusters = inputs.clusters
    if plan.contributions:
        blocks = _keep_contributions(blocks, scores, groupings, kept)
    for block in blocks if clusters is None else [sum_influence_by_group(blocks, clusters)]:
        problem = invalid or find_row_shortage(block.n_scoring)
        if block.size is not None:
            problem, correction = invalid or find_cluster_shortage(block.size), find_cluster_correction(block.size)
        for own, score, grouping in zip(moments, scores, groupings, strict=True):
            own.append(measure_moments(block, score, grouping, with_bags=with_bags, n_threads=n_threads))
    if plan.contributions:
        pairs = zip(results, kept, strict=True)
        results = [replace(result, contributions=np.concatenate(own), groups=inputs.groups) for result, own in pairs]
    if problem is not None and problem != invalid and inputs.groups is not None and plan.check_rows:
        warn(f"{problem}; {CLUSTER_REMEDY}.")
    summed = [reduce(add, own) for own in moments]
    results = add_errors(
        results,
        summed,
        scores,
        problem,
        with_bags=with_bags,
        correction=correction,
        has_few_informative=column is None and has_few_informative(inputs),
    )
    if with_bags and results[0].inference_unavailable is None:
        n_needed = count_trees_for_bags(summed[0], scores[0], results[0].p_value <= _SIGNIFICANT)
        if n_needed > results[0].n_trees:
            warn(
                f"inference='bags' needs about {n_needed} trees for precise standard errors of these scores, got "
                f"{results[0].n_trees}; intervals are rough."
            )
    return results, summed


def _keep_contributions(
    blocks: Iterable[InfluenceBlock], scores: list[GroupingScores], groupings: list[Grouping], kept: list[list[Floats]]
) -> Iterable[InfluenceBlock]:
    """Pass blocks on, and keep the contributions of their rows to the scores of each grouping."""
    for block in blocks:
        for own, score, grouping in zip(kept, scores, groupings, strict=True):
            own.append(sum_feature_groups(block.eval_influence, grouping) / score.tree_weight.sum())
        yield block


def _check_order(
    blocks: Iterable[InfluenceBlock], grouping: Grouping, inputs: ScoringInputs
) -> Iterable[InfluenceBlock]:
    """Pass blocks on, and warn if the first one shows that rows depend on their neighbors."""
    for block in blocks:
        if block.first == 0:
            found = sum_feature_groups(bring_to_host(block.eval_influence[:MOST_ROWS]), grouping)
            is_taken, target = block.is_scoring[:MOST_ROWS], inputs.data.target.take_range(0, len(found)).encoded
            if inputs.copies is not None:
                is_taken = is_taken & inputs.copies.is_first[: len(found)]
            warn_of_dependent_rows(found[is_taken], grouping.names, target[is_taken])
        yield block


def _name_classes(tree_model: TreeModel, measure: Measure) -> NDArray[np.str_]:
    """Names of the classes that scores are sums over, or an error if they are not such sums."""
    kind = tree_model.target.kind
    if not kind.is_classification or not (tree_model.target.is_y or tree_model.is_additive):
        raise ValueError(f"per_class=True needs a classifier, got {tree_model.name}; leave per_class out.")
    if measure.split_score is None and measure.part_score is None:
        raise ValueError(
            f"per_class=True is unavailable: measure={measure.name!r} is not a sum over classes; use 'ufi'."
        )
    if tree_model.is_additive and tree_model.target.n_scores != kind.n_columns:
        raise ValueError(
            f"per_class=True needs a raw score for each class, but {tree_model.name} has {tree_model.target.n_scores} "
            f"for {kind.n_columns} classes; leave per_class out."
        )
    return kind.column_names


def _add_classes(
    results: Sequence[ImportanceResult],
    class_names: NDArray[np.str_],
    score_column: Callable[[int], Sequence[ImportanceResult]],
) -> list[ImportanceResult]:
    """Results of each grouping with the scores of all classes, where ``score_column(column)`` gives those of one."""
    by_class = [score_column(column) for column in range(len(class_names))]
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
