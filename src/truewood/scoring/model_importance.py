"""`importance()`: from a fitted model and rows to scores, top to bottom."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from truewood.adapters import ModelView, open_model
from truewood.data.groups import Grouping, add_groups, read_groups
from truewood.formulas.measure import Measure
from truewood.formulas.registry import MEASURES, choose_measure, measures
from truewood.inference.contributions import Contributions
from truewood.inference.errors import count_trees, find_problem, measure_errors
from truewood.inference.moments import Moments, TreeScores, measure_moments
from truewood.pipelines.grouping import group_columns
from truewood.pipelines.unwrapping import Unwrapped, unwrap
from truewood.result.importance_result import ImportanceResult
from truewood.rows.bag_weights import warn_of_rare_classes
from truewood.scoring.averaging import average, average_biased, weigh_trees
from truewood.scoring.batches import score_trees
from truewood.scoring.collector import Collector, count_bags, split_rows
from truewood.scoring.job import Job, make_job
from truewood.scoring.scores import Scores

# A feature whose p-value is at most this is one whose interval matters.
_FOUND = 0.05


def importance(
    model: Any,
    X: Any,
    y: Any,
    *,
    rows: Any = "auto",
    measure: str = "auto",
    sample_weight: Any = None,
    groups: Any = None,
    inference: bool | str = True,
    n_jobs: int | None = None,
    random_state: Any = None,
    target: Any = None,
) -> ImportanceResult:
    """Score the features of a fitted tree model on rows its trees never saw.

    Parameters
    ----------
    model : object
        A fitted tree, forest or boosted model, a `TreeEnsemble`, or a scikit-learn Pipeline that ends in such a model:
        its preprocessing is run on X, and encoded columns are scored together as the column of X they derive from. A
        search over settings stands for its best model.
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        The rows: the training data for ``rows="oob"``, unseen data for ``rows="heldout"``.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Their target.
    rows : {"auto", "oob", "heldout"} or sequence of array-like, default="auto"
        Which rows score a tree: those left out of its bag, all of them, or a list of row numbers (or a mask) for each
        tree. "auto" means "oob", and is an error for a model that has no recorded bags.
    measure : str, default="auto"
        One of `measures()`. "auto" is "ufi" for classes, its shift-free form "ufi_centered" for numbers and for boosted
        trees, and "mdi_oob" where rows have different weights, all on the scale of the usual importance. Boosted trees
        add up to a raw score and survival trees compare hazards, so that "ufi" means "ufi_centered" for them too, and
        measures of a single tree's predictions do not apply.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows when they score. A model of scikit-learn before 1.9 that was fit with weights needs the
        same ones here with ``rows="oob"``, to recognise its training data.
    groups : dict or sequence, default=None
        Columns whose scores are summed, such as the dummy columns of one categorical feature: a dict from group name to
        columns, or the group name of each column. With a Pipeline these are the columns of X, before its preprocessing.
    inference : bool, "rows" or "bags", default=True
        Whether to add standard errors and p-values, for the measures "ufi", "ufi_centered" and "mdi_oob". With "rows"
        the result also keeps what each row contributes to each score, an array of shape (n_rows, n_features). With
        "bags", out of bag, standard errors and intervals count all that rows do by deciding which splits there are, as
        where a feature matters only together with another; that takes many trees, and a warning says how many.
    n_jobs : int, default=None
        Number of threads, as in scikit-learn; the result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of ``measure="permutation"``; the other measures have no randomness.
    target : array-like of shape (n_rows,) or (n_rows, n_scores), or callable, default=None
        For boosted trees, the target of each row's raw score, or a function that makes it of y; any number that
        follows from the row's y alone will do. By default the negative gradient of the model's loss at the best
        constant; ranking and custom objectives have no such default.

    Returns
    -------
    ImportanceResult
        Scores by feature and by tree. A feature without predictive power scores zero on average, so scores may be
        negative; they are never clipped or normalised.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import truewood as tw
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> forest = RandomForestClassifier(random_state=0).fit(X, y)
    >>> tw.importance(forest, X, y).frame()["feature"][:2].tolist()
    ['petal length (cm)', 'petal width (cm)']
    """
    if not isinstance(measure, str) or measure not in measures():
        raise ValueError(f"measure must be one of {', '.join(measures())}, got {measure!r}.")
    if not isinstance(inference, bool) and inference not in ("rows", "bags"):
        raise ValueError(f"inference must be True, False, 'rows' or 'bags', got {inference!r}.")
    parts = unwrap(model, X, y, rows)
    view = open_model(parts.model)
    n_threads = effective_n_jobs(n_jobs)
    job = make_job(view, parts.X, parts.y, rows=rows, sample_weight=sample_weight, target=target, n_threads=n_threads)
    chosen = _choose_measure(measure, job)
    if job.draws is not None and chosen.uses_unseen:
        warn_of_rare_classes(job.data.target, job.draws, stacklevel=3)
    names = _name_features(job, parts)
    grouping, notes = _read_groups(groups, names, parts, view)
    if job.doubt is not None:
        warnings.warn(job.doubt, UserWarning, stacklevel=2)
        notes = (*notes, job.doubt)
    groupings = [grouping] if groups is None and parts.encoding is None else [grouping, read_groups(None, names)]
    no_inference = _find_inference_problem(chosen, inference)
    if inference == "bags" and not job.choice.are_training:
        raise ValueError("inference='bags' is for rows that grew trees, as out of bag; use inference=True.")
    seeds = _draw_seeds(random_state, view.n_trees) if chosen.loss_increase is not None else None
    run = partial(score_trees, job, chosen, seeds=seeds, n_jobs=n_jobs)
    with_bags = inference == "bags"
    blocks = [] if no_inference is not None else split_rows(job, len(names), with_bags=with_bags)
    collect = partial(Collector, job, n_features=len(names), n_first=count_bags(job, with_bags=with_bags))
    collector = collect(blocks[0]) if blocks else None
    scores = run(collector=collector)
    _warn_of_left_out(scores.is_left_out)
    results = [_average(job, chosen, scores, columns) for columns in groupings]
    if collector is None:
        results = [replace(result, no_inference=no_inference) for result in results]
    else:
        collected = _collect(collector, (collect(rows) for rows in blocks[1:]), run)
        is_kept = ~scores.is_left_out
        counted_mdi = [average(add_groups(scores.counted_mdi, columns), view, is_kept).values for columns in groupings]
        tree_weight = np.ones(1) if view.is_additive else weigh_trees(view) * is_kept
        tree_scores = [
            TreeScores(result.values, result.per_tree, tree_weight, own)
            for result, own in zip(results, counted_mdi, strict=True)
        ]
        results = _infer(results, tree_scores, groupings, collected, inference, n_threads)
    return replace(results[0], notes=notes, columns=results[1] if len(results) > 1 else None)


def _choose_measure(asked: str, job: Job) -> Measure:
    """The measure that fits the model and the rows."""
    view, weight = job.view, job.row_weight
    scores_classes = view.target.is_y and view.target.kind.is_classification and not view.is_additive
    is_weighted = weight is not None and bool(np.ptp(weight[weight > 0]) > 0)  # no weight is no row
    needs_linear = view.is_additive or job.compares_hazards
    chosen = choose_measure(asked, scores_classes=scores_classes, needs_linear=needs_linear, is_weighted=is_weighted)
    if chosen is None:
        fitting = ", ".join(repr(name) for name, measure in MEASURES.items() if measure.linear)
        what = "add up" if view.is_additive else "compare hazards"
        raise ValueError(f"measure={asked!r} is not defined for trees that {what}, as in {view.name}; use {fitting}.")
    return chosen


def _name_features(job: Job, parts: Unwrapped) -> NDArray[np.str_]:
    """Names of what trees split on: encoded columns, and what the model itself makes of several columns."""
    columns = job.data.matrix.names
    if parts.encoding is not None:
        columns = np.asarray(parts.encoding.columns.names, dtype=np.str_)
    return np.concatenate([columns, np.asarray(job.view.combined, dtype=np.str_)])


def _read_groups(
    groups: Any, names: NDArray[np.str_], parts: Unwrapped, view: ModelView
) -> tuple[Grouping, tuple[str, ...]]:
    """Groups of the columns that the trees read, and what there is to say about them."""
    if parts.encoding is None:
        grouping, notes = read_groups(groups, names), tuple[str, ...]()
    else:
        grouping, notes = group_columns(parts.encoding, view.combined, groups)
    if parts.warning is None:
        return grouping, notes
    warnings.warn(parts.warning, UserWarning, stacklevel=3)
    return grouping, (*notes, parts.warning)


def _find_inference_problem(measure: Measure, inference: bool | str) -> str | None:
    """Why there are no standard errors and p-values; None where there are."""
    if not inference:
        return "importance() was called with inference=False"
    if measure.why_no_inference is None:
        return None
    problem = f"measure={measure.name!r} {measure.why_no_inference}"
    if isinstance(inference, str):
        raise ValueError(f"inference={inference!r} has nothing to give: {problem}.")
    return problem


def _draw_seeds(random_state: Any, n_trees: int) -> NDArray[np.int64]:
    seeds: NDArray[np.int64] = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=n_trees)
    return seeds


def _warn_of_left_out(is_left_out: NDArray[np.bool_]) -> None:
    """Say how many trees no row can score; all of them would be an error."""
    if is_left_out.all():
        raise ValueError("no tree has a row it never saw; pass such rows with rows='heldout'.")
    if is_left_out.any():
        warnings.warn(
            f"{np.count_nonzero(is_left_out)} of {len(is_left_out)} trees have no unseen row and were left out of the "
            "mean.",
            UserWarning,
            stacklevel=3,
        )


def _average(job: Job, measure: Measure, scores: Scores, grouping: Grouping) -> ImportanceResult:
    """Sum within groups, average over trees and outputs, and add what a reader needs to know."""
    view, is_kept = job.view, ~scores.is_left_out
    averages = average(add_groups(scores.scores, grouping), view, is_kept)
    has_impurity = job.compares_hazards or not view.is_additive
    impurity = float(scores.impurity[is_kept].mean()) if has_impurity else _find_target_variance(job)
    task, split_weight = view.target.kind.task, scores.split_weight.sum()
    return ImportanceResult(
        values=averages.values,
        share=_find_share(averages.values, impurity, job, measure),
        per_tree=averages.per_tree,
        per_output=averages.per_output,
        mdi=average_biased(add_groups(scores.mdi, grouping), view),
        impurity=impurity,
        feature_names=grouping.names,
        measure=measure.name,
        task=task,
        rows=job.choice.name,
        n_rows=job.data.n_rows,
        skipped_weight=float(scores.skipped_weight.sum() / split_weight) if split_weight > 0 else 0.0,
        is_additive=view.is_additive,
    )


def _find_share(values: NDArray[np.float64], impurity: float, job: Job, measure: Measure) -> NDArray[np.float64]:
    """Scores as parts of the target's impurity; NaN where they are none."""
    form = job.view.target
    if job.view.is_additive:
        has_share = not job.has_own_target and form.loss is not None and form.loss.in_target_units
    else:
        has_share = form.kind.task in measure.tasks_with_share
    scale = measure.find_scale(form.kind)
    return values / (scale * impurity) if has_share and impurity > 0 else np.full(len(values), np.nan)


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
    inference: bool | str,
    n_threads: int,
) -> list[ImportanceResult]:
    """Add standard errors, and the contributions themselves where they were asked for."""
    moments: list[list[Moments]] = [[] for _ in results]
    phi: list[list[NDArray[np.float64]]] = [[] for _ in results]
    n_scoring, with_bags = 0, inference == "bags"
    for block in collected:
        n_scoring += int(np.count_nonzero(block.is_scoring))
        for k, grouping in enumerate(groupings):
            moments[k].append(measure_moments(block, scores[k], grouping, with_bags=with_bags, n_threads=n_threads))
            if inference == "rows":
                phi[k].append(add_groups(block.phi, grouping) / scores[k].tree_weight.sum())
    if inference == "rows":
        results = [replace(result, contributions=np.concatenate(own)) for result, own in zip(results, phi, strict=True)]
    problem = find_problem(n_scoring)
    if problem is not None:
        return [replace(result, no_inference=problem) for result in results]
    scale = float(np.abs(results[0].mdi).max())
    summed = [reduce(add, own) for own in moments]
    errors = [measure_errors(own, score, scale, with_bags=with_bags) for own, score in zip(summed, scores, strict=True)]
    results = [replace(result, **vars(own)) for result, own in zip(results, errors, strict=True)]
    if with_bags:
        _warn_of_few_trees(results[0], count_trees(summed[0], scores[0], results[0].p_value <= _FOUND))
    return results


def _warn_of_few_trees(result: ImportanceResult, n_needed: int) -> None:
    """Say how many trees it takes to tell from bags how far scores may be off."""
    if n_needed > result.n_trees:
        warnings.warn(
            f"inference='bags' takes about {n_needed} trees to tell the errors of these scores well, and the model has "
            f"{result.n_trees}; intervals are rough.",
            UserWarning,
            stacklevel=4,
        )
