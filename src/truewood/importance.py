"""`importance()`: from a fitted model and rows to scores, top to bottom."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from truewood.adapters import ModelView, open_model
from truewood.ensemble import TreeEnsemble
from truewood.frames import add_groups, read_features, read_groups
from truewood.inference import Contributions, Grouping, Job
from truewood.measures import MEASURES, add_features, find_skipped, mdi, permutation
from truewood.node_sums import NodeSums
from truewood.result import ImportanceResult
from truewood.routing import RowLists, find_leaves, get_engine
from truewood.row_terms import ROW_TERMS
from truewood.rows import choose_rows
from truewood.target import Target, encode_target, pull_target, read_sample_weight, read_target
from truewood.training import average_leaves, recompute_means, root_impurity

# What one step holds at a time; a single tree may be larger.
_BATCH_NODES = 1 << 15
_BATCH_ROWS = 1 << 20
_BLOCK_LEAVES = 1 << 20


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
        A fitted tree, forest or boosted model, or a `TreeEnsemble`.
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
        same ones here with ``rows="oob"``, to recognise its training job.
    groups : dict or sequence, default=None
        Columns whose scores are summed, such as the dummy columns of one categorical feature: a dict from group name to
        columns, or the group name of each column.
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
    view = open_model(model)
    measure = _choose_measure(measure, view)
    matrix = read_features(X, view.form)
    weight = read_sample_weight(sample_weight, matrix.n_rows)
    goal = _read_target(y, target, view, weight)
    if goal.n_rows != matrix.n_rows:
        raise ValueError(f"X and y must have the same number of rows, got {matrix.n_rows} and {goal.n_rows}.")
    names, group_of = read_groups(groups, np.concatenate([matrix.names, np.asarray(view.combined, dtype=np.str_)]))
    grouping = Grouping(names, group_of.astype(np.int32))
    job = Job(view, matrix, goal, weight, choose_rows(rows, view, matrix, goal, weight))
    no_inference = _find_inference_problem(measure, inference)
    contributions = Contributions(job, grouping, keep_rows=inference == "rows") if no_inference is None else None

    seeds = np.empty(0, dtype=np.int64)
    if measure == "permutation":
        seeds = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=view.n_trees)
    parts = Parallel(n_jobs=n_jobs, require="sharedmem")(
        delayed(_score_batch)(job, measure, number, trees, seeds, contributions)
        for number, trees in enumerate(_split_into_batches(view, matrix.n_rows))
    )
    has_share = target is None and (not view.is_additive or (view.loss is not None and view.loss.is_natural))
    result = _make_result(job, measure, _Scores.join(parts), grouping, has_share)
    return replace(result, no_inference=no_inference) if contributions is None else _infer(result, contributions, view)


def _infer(result: ImportanceResult, contributions: Contributions, view: ModelView) -> ImportanceResult:
    """Add standard errors, and the contributions themselves where they were asked for."""
    is_kept = ~np.isnan(result.per_tree).any(axis=1)
    total_weight = 1.0 if view.is_additive else float(_tree_weights(view)[is_kept].sum())
    if contributions.has_all_rows:
        result = replace(result, contributions=contributions.unseen / total_weight)
    errors = contributions.measure(result.values, total_weight)
    if isinstance(errors, str):
        return replace(result, no_inference=errors)
    return replace(result, test_error=errors.test_error, std_error=errors.std_error)


def _find_inference_problem(measure: str, inference: bool | str) -> str | None:
    """Why there are no standard errors and p-values; None where there are."""
    if not inference:
        return "importance() was called with inference=False"
    if measure in ROW_TERMS:
        return None
    problem = f"measure={measure!r} is not a sum of contributions of unseen rows"
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


def _read_target(y: Any, own: Any, view: ModelView, weight: NDArray[np.float64] | None) -> Target:
    """What the trees are scored by: y itself, what the loss makes of it, or the caller's own numbers."""
    if own is not None:
        if not view.is_additive:
            raise ValueError(f"target is for boosted trees; {view.name} is scored by y, so pass what you want as y.")
        return read_target(own, y, weight, view.n_scores)
    if view.why_no_loss is not None:
        raise ValueError(f"{view.why_no_loss}; pass target=, a number per row or a function that makes it of y.")
    given = y if view.read_y is None else view.read_y(y)
    if view.loss is None:
        return encode_target(given, view.kind, _find_origin(view))
    encoded = encode_target(given, view.kind, np.zeros(view.kind.n_columns))
    if weight is not None and len(weight) != encoded.n_rows:
        raise ValueError(f"X and y must have the same number of rows, got {len(weight)} and {encoded.n_rows}.")
    return pull_target(encoded, view.loss, weight, view.n_scores)


@dataclass(frozen=True, eq=False)
class _Scores:
    """What a batch of trees gives; the first axis is the tree."""

    scores: NDArray[np.float64]  # (n_trees, n_features, n_outputs)
    mdi: NDArray[np.float64]  # (n_trees, n_features, n_outputs)
    impurity: NDArray[np.float64]
    split_weight: NDArray[np.float64]
    skipped_weight: NDArray[np.float64]
    is_left_out: NDArray[np.bool_]

    @classmethod
    def join(cls, parts: list[_Scores]) -> _Scores:
        names = cls.__dataclass_fields__
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def _find_origin(view: ModelView) -> NDArray[np.float64]:
    """A typical target, known from the model alone: the mean at the first root."""
    if view.kind.is_classification:
        return np.zeros(view.kind.n_columns)
    root: NDArray[np.float64] = view.read(range(1)).value[0].copy()
    return root


def _split_into_batches(view: ModelView, n_rows: int) -> Iterator[range]:
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


def _score_batch(
    job: Job,
    measure: str,
    number: int,
    trees: range,
    seeds: NDArray[np.int64],
    contributions: Contributions | None,
) -> _Scores:
    """Score some trees, and add what single rows contribute to that."""
    try:
        ensemble = _read_batch(job, trees)
        rows = RowLists.join([job.choice.unseen(tree) for tree in trees])
        leaves = find_leaves(job.view, trees, ensemble, job.matrix, rows)
        sums = get_engine().sum_leaves(ensemble, leaves, rows, job.target, job.row_weight)
        if contributions is not None:
            contributions.add(number, trees, ensemble, ROW_TERMS[measure](ensemble, sums))
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
) -> _Scores:
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
    return _Scores(
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
        own = rows.index[rows.offset[k] : rows.offset[k + 1]]
        donors = np.random.default_rng(seeds[tree]).permutation(own)
        weight = np.ones(len(own)) if job.row_weight is None else job.row_weight[own]
        for start in range(0, len(own), block):
            part = slice(start, start + block)
            leaves = engine.find_leaves(one, job.matrix, RowLists.join([own[part]]))
            swapped = engine.find_swapped_leaves(one, job.matrix, own[part], donors[part])
            scores[k] += permutation(one, leaves, swapped, own[part], job.target, weight[part])
        scores[k] /= max(weight.sum(), np.finfo(np.float64).tiny)
    return scores


def _make_result(
    job: Job,
    measure: str,
    scored: _Scores,
    grouping: Grouping,
    has_share: bool,
) -> ImportanceResult:
    """Average over outputs and trees, sum within groups, and add what a reader needs to know."""
    kept = ~scored.is_left_out
    if not kept.any():
        raise ValueError("no tree has a row it never saw; pass such rows with rows='heldout'.")
    if not kept.all():
        warnings.warn(
            f"{np.count_nonzero(~kept)} of {len(kept)} trees have no unseen row and were left out of the mean.",
            UserWarning,
            stacklevel=3,
        )
    grouped = add_groups(scored.scores, grouping.group_of, len(grouping.names))
    grouped[~kept] = np.nan
    biased = add_groups(scored.mdi, grouping.group_of, len(grouping.names))
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
