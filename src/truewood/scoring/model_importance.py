"""`importance()`: from a fitted model and rows to scores, top to bottom."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from truewood.adapters import ModelView, open_model
from truewood.data.groups import Grouping, add_groups, read_groups
from truewood.data.tables import read_features
from truewood.data.target import Target, centre_target, encode_target, pull_target, read_sample_weight, read_target
from truewood.formulas.measures import MEASURES
from truewood.inference.errors import measure_errors
from truewood.pipelines.grouping import group_columns
from truewood.pipelines.unwrapping import Unwrapped, unwrap
from truewood.result.importance_result import ImportanceResult
from truewood.rows.choice import Job, choose_rows
from truewood.scoring.batches import Scores, score_batch, split_into_batches
from truewood.scoring.contributions import Contributions


def importance(
    model: Any,
    X: Any,
    y: Any,
    *,
    rows: Any = "auto",
    measure: str = "ufi",
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
    measure : str, default="ufi"
        One of `measures()`. Boosted trees add up to a raw score, so that "ufi" means its shift-free form
        "ufi_centered" for them, and measures of a single tree's predictions do not apply.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows when they score. A model of scikit-learn before 1.9 that was fit with weights needs the
        same ones here with ``rows="oob"``, to recognise its training data.
    groups : dict or sequence, default=None
        Columns whose scores are summed, such as the dummy columns of one categorical feature: a dict from group name to
        columns, or the group name of each column. With a Pipeline these are the columns of X, before its preprocessing.
    inference : bool or "rows", default=True
        Whether to add standard errors and p-values, for the measures "ufi", "ufi_centered" and "mdi_oob". With "rows"
        the result also keeps what each row contributes to each score, an array of shape (n_rows, n_features).
    n_jobs : int, default=None
        Number of threads, as in scikit-learn; the result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of ``measure="permutation"``; the other measures have no randomness.
    target : array-like of shape (n_rows,) or (n_rows, n_scores), or callable, default=None
        For boosted trees, what pulls each row's raw score upwards, or a function that makes it of y; any number that
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
    if not isinstance(measure, str) or measure not in MEASURES:
        raise ValueError(f"measure must be one of {', '.join(MEASURES)}, got {measure!r}.")
    if not isinstance(inference, bool) and inference != "rows":
        raise ValueError(f"inference must be True, False or 'rows', got {inference!r}.")
    parts = unwrap(model, X, y, rows)
    view = open_model(parts.model)
    measure = _choose_measure(measure, view)
    matrix = read_features(parts.X, view.form)
    weight = read_sample_weight(sample_weight, matrix.n_rows)
    goal = _read_target(parts.y, target, view, weight, matrix.n_rows)
    columns = matrix.names if parts.encoding is None else np.asarray(parts.encoding.columns.names, dtype=np.str_)
    names = np.concatenate([columns, np.asarray(view.combined, dtype=np.str_)])
    grouping, notes = _read_groups(groups, names, parts, view)
    job = Job(view, matrix, goal, weight, choose_rows(rows, view, matrix, goal, weight))
    no_inference = _find_inference_problem(measure, inference)
    contributions = Contributions(job, len(names), keep_rows=inference == "rows") if no_inference is None else None

    seeds = np.empty(0, dtype=np.int64)
    if measure == "permutation":
        seeds = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=view.n_trees)
    batches = Parallel(n_jobs=n_jobs, require="sharedmem")(
        delayed(score_batch)(job, measure, number, trees, seeds, contributions)
        for number, trees in enumerate(split_into_batches(view, matrix.n_rows))
    )
    scored = Scores.join(batches)
    _check_kept(~scored.is_left_out)
    has_share = target is None and _is_in_units_of_impurity(measure, view)

    def make_result(grouping: Grouping) -> ImportanceResult:
        result = _make_result(job, measure, scored, grouping, has_share)
        if contributions is None:
            return replace(result, no_inference=no_inference)
        return _infer(result, contributions, grouping, view)

    result = replace(make_result(grouping), notes=notes)
    is_expandable = groups is not None or parts.encoding is not None
    return replace(result, columns=make_result(read_groups(None, names))) if is_expandable else result


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


def _infer(
    result: ImportanceResult, contributions: Contributions, grouping: Grouping, view: ModelView
) -> ImportanceResult:
    """Add standard errors, and the contributions themselves where they were asked for."""
    is_kept = ~np.isnan(result.per_tree).any(axis=1)
    tree_weight = np.ones(1) if view.is_additive else _tree_weights(view) * is_kept
    if contributions.has_all_rows:
        result = replace(result, contributions=add_groups(contributions.unseen, grouping) / tree_weight.sum())
    errors = measure_errors(contributions, grouping, result.values, result.per_tree, tree_weight)
    if isinstance(errors, str):
        return replace(result, no_inference=errors)
    return replace(result, **vars(errors))


def _find_inference_problem(measure: str, inference: bool | str) -> str | None:
    """Why there are no standard errors and p-values; None where there are."""
    if not inference:
        return "importance() was called with inference=False"
    reason = MEASURES[measure].why_no_inference
    if reason is None:
        return None
    problem = f"measure={measure!r} {reason}"
    if inference == "rows":
        raise ValueError(f"inference='rows' has nothing to give: {problem}.")
    return problem


def _choose_measure(asked: str, view: ModelView) -> str:
    """The measure under the name that fits the model."""
    if not view.is_additive:
        return asked
    chosen = MEASURES[asked].additive
    if chosen is None:
        fitting = ", ".join(repr(name) for name, measure in MEASURES.items() if measure.additive)
        raise ValueError(f"measure={asked!r} is not defined for trees that add up, as in {view.name}; use {fitting}.")
    return chosen


def _is_in_units_of_impurity(measure: str, view: ModelView) -> bool:
    """Whether scores can be shares of the target's impurity."""
    if view.is_additive:
        return view.loss is not None and view.loss.is_natural
    return measure != "permutation" or not view.kind.is_classification  # an error rate is no part of Gini's impurity


def _read_target(y: Any, own: Any, view: ModelView, weight: NDArray[np.float64] | None, n_rows: int) -> Target:
    """What the trees are scored by: y itself, what the loss makes of it, or the caller's own numbers."""
    if own is not None:
        if not view.is_additive:
            raise ValueError(f"target is for boosted trees; {view.name} is scored by y, so pass what you want as y.")
        given = read_target(own, y, view.n_scores)
        _check_rows("target", given, n_rows)
        return centre_target(given, weight)
    if view.why_no_loss is not None:
        raise ValueError(f"{view.why_no_loss}; pass target=, a number per row or a function that makes it of y.")
    origin = _find_origin(view) if view.loss is None else np.zeros(view.kind.n_columns)
    encoded = encode_target(y if view.read_y is None else view.read_y(y), view.kind, origin)
    _check_rows("y", encoded, n_rows)
    return encoded if view.loss is None else pull_target(encoded, view.loss, weight)


def _check_rows(name: str, target: Target, n_rows: int) -> None:
    if target.n_rows != n_rows:
        raise ValueError(f"X and {name} must have the same number of rows, got {n_rows} and {target.n_rows}.")


def _find_origin(view: ModelView) -> NDArray[np.float64]:
    """A typical target, known from the model alone: the mean at the first root."""
    if view.kind.is_classification:
        return np.zeros(view.kind.n_columns)
    root: NDArray[np.float64] = view.read(range(1)).value[0].copy()
    return root


def _check_kept(is_kept: NDArray[np.bool_]) -> None:
    """Say how many trees no row can score; all of them would be an error."""
    if not is_kept.any():
        raise ValueError("no tree has a row it never saw; pass such rows with rows='heldout'.")
    if not is_kept.all():
        warnings.warn(
            f"{np.count_nonzero(~is_kept)} of {len(is_kept)} trees have no unseen row and were left out of the mean.",
            UserWarning,
            stacklevel=3,
        )


def _make_result(
    job: Job,
    measure: str,
    scored: Scores,
    grouping: Grouping,
    has_share: bool,
) -> ImportanceResult:
    """Average over outputs and trees, sum within groups, and add what a reader needs to know."""
    kept = ~scored.is_left_out
    grouped = add_groups(scored.scores, grouping)
    grouped[~kept] = np.nan
    biased = add_groups(scored.mdi, grouping)
    share_of, mdi_share_of = _weigh_trees(job.view, kept), _weigh_trees(job.view, np.ones_like(kept))
    # Outputs are averaged where each is predicted by every tree, and added up where raw scores are.
    n_averaged = 1 if job.view.is_additive else grouped.shape[2]
    per_output = (share_of[kept, np.newaxis, np.newaxis] * grouped[kept]).sum(axis=0).T
    values = per_output.sum(axis=0) / n_averaged
    scale = 1.0 if job.view.kind.is_classification else MEASURES[measure].regression_scale
    impurity = _spread_target(job) if job.view.is_additive else float(scored.impurity[kept].mean())
    split_weight = scored.split_weight.sum()
    return ImportanceResult(
        values=values,
        share=values / (scale * impurity) if has_share and impurity > 0 else np.full(len(values), np.nan),
        per_tree=grouped.sum(axis=2) / n_averaged,
        per_output=per_output,
        mdi=(mdi_share_of[:, np.newaxis] * biased.sum(axis=2)).sum(axis=0) / n_averaged,
        impurity=impurity,
        feature_names=grouping.names,
        measure=measure,
        task=job.view.kind.task,
        rows=job.choice.name,
        n_rows=job.matrix.n_rows,
        skipped_weight=float(scored.skipped_weight.sum() / split_weight) if split_weight > 0 else 0.0,
        is_additive=job.view.is_additive,
    )


def _weigh_trees(view: ModelView, kept: NDArray[np.bool_]) -> NDArray[np.float64]:
    """What each tree counts for in the model's score, shape (n_trees,): the same, or its own weight, or all of it."""
    if view.is_additive:
        return np.ones(view.n_trees)
    weight = _tree_weights(view)
    share: NDArray[np.float64] = np.where(kept, weight, 0.0) / weight.sum(where=kept)
    return share


def _tree_weights(view: ModelView) -> NDArray[np.float64]:
    return np.ones(view.n_trees) if view.tree_weight is None else view.tree_weight


def _spread_target(job: Job) -> float:
    """Variance of the target of additive trees, which is centred, summed over raw scores."""
    numbers = np.empty((0, 0)) if job.target.numbers is None else job.target.numbers
    return float(np.average(numbers**2, axis=0, weights=job.row_weight).sum())
