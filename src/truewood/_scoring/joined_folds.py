"""Join the results of folds: means over folds, with standard errors from all held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._exceptions import warn
from truewood._formatting import count
from truewood._inference.standard_errors import (
    CLUSTER_REMEDY,
    find_cluster_correction,
    find_cluster_shortage,
    find_row_shortage,
    measure_fold_errors,
)
from truewood._inputs.groups import sum_row_groups
from truewood._results.importance_result import ImportanceResult
from truewood._rows.copies import Copies
from truewood._rows.dependent_rows import warn_of_dependent_rows
from truewood._rows.folds import Folds

Floats = NDArray[np.float64]


def join_folds(
    results: Sequence[ImportanceResult],
    folds: Folds,
    sample_weight: Floats | None,
    groups: NDArray[np.int64] | None,
    inference: bool,
    contributions: bool,
    *,
    target: Floats,
    copies: Copies | None = None,
    invalid: str | None = None,
) -> ImportanceResult:
    """Join results of held-out rows, one for each fold.

    Parameters
    ----------
    results : sequence of ImportanceResult
        Results on the held-out rows of each fold, with contributions if errors are needed.
    folds : Folds
        The folds.
    sample_weight : ndarray of shape (n_rows,), or None
        Weights of the rows.
    groups : ndarray of int64, shape (n_rows,), or None
        The group of each row; None if rows are not grouped.
    inference, contributions : bool
        Whether to add standard errors, and whether to keep contributions.
    target : ndarray of shape (n_rows, n_outputs)
        The target, to recognize rows that are sorted by it; classes as numbers.
    copies : Copies or None
        Rows that are copies of each other; None if there are none.
    invalid : str or None
        Why errors are unavailable, if that is known already.
    """
    for name in ("measure", "task"):
        found = {getattr(result, name) for result in results}
        if len(found) > 1:
            remedy = "pass one of them as measure=" if name == "measure" else "pass models of one kind"
            raise ValueError(f"folds must have the same {name}, got {', '.join(sorted(found))}; {remedy}.")
    join = partial(_join, folds, sample_weight, groups, copies, contributions, invalid)
    joined = join(results, target)
    if all(result.columns is not None for result in results):
        joined = replace(joined, columns=join([result.expand() for result in results]))
    notes = [note for result in results for note in result.notes]
    if invalid is not None and not inference:
        notes.append(f"Scores are unreliable: {invalid}.")
    n_never = folds.n_rows - int(np.count_nonzero(folds.is_held_out))
    if copies is not None:
        notes.append(copies.describe(are_training=True))
    if n_never:
        notes.append(f"Never held out, and used for training only: {count(n_never, 'row')} of {folds.n_rows:,}.")
    return replace(joined, notes=tuple(dict.fromkeys(notes)))


def _join(
    folds: Folds,
    sample_weight: Floats | None,
    groups: NDArray[np.int64] | None,
    copies: Copies | None,
    contributions: bool,
    invalid: str | None,
    results: Sequence[ImportanceResult],
    target: Floats | None = None,
) -> ImportanceResult:
    """Means over folds of all fields of the results, with standard errors."""
    results, share = _match_features(results), folds.weigh(sample_weight)
    first, per_fold = results[0], np.stack([result.values for result in results])
    if len({len(result.per_output) for result in results}) > 1:
        raise ValueError("folds must have the same classes, but some lack a class; pass cv=StratifiedKFold().")

    def mean(name: str) -> Any:
        return np.tensordot(share, np.stack([getattr(result, name) for result in results]), axes=1)

    impurity = share * [result.impurity for result in results]
    shares, is_varied = np.stack([result.share for result in results]), impurity > 0
    joined = ImportanceResult(
        values=mean("values"),
        # The mean score as a share of the mean impurity: if y does not vary, scores are zero and shares are undefined.
        share=impurity[is_varied] @ shares[is_varied] / impurity.sum() if is_varied.any() else shares[0],
        per_tree=np.concatenate([result.per_tree for result in results]),
        per_output=mean("per_output"),
        per_fold=per_fold,
        mdi=mean("mdi"),
        impurity=float(impurity.sum()),
        feature_names=first.feature_names,
        measure=first.measure,
        task=first.task,
        rows="folds",
        n_rows=folds.n_rows,
        n_groups=None if groups is None else int(groups.max()) + 1,
        skipped_weight=float(mean("skipped_weight")),
        is_additive=first.is_additive,
    )
    if first.contributions is None:
        return replace(joined, inference_unavailable=first.inference_unavailable)
    is_scoring = folds.is_held_out if sample_weight is None else folds.is_held_out & (sample_weight > 0)
    has_residuals = first.residual_contributions is not None
    of_rows, centered = _place_rows(folds, share, is_scoring, results, "contributions", "std_error")
    of_residuals, varied = of_rows, centered
    if has_residuals:
        names = ("residual_contributions", "residual_std_error")
        of_residuals, varied = _place_rows(folds, share, is_scoring, results, *names)
    if contributions:
        joined = replace(joined, contributions=of_rows, groups=groups)
        joined = replace(joined, residual_contributions=of_residuals) if has_residuals else joined
    problem = invalid or find_row_shortage(int(np.count_nonzero(is_scoring)))
    if groups is None and target is not None:
        is_taken = is_scoring if copies is None else is_scoring & copies.is_first
        parts = [rows[is_taken[rows]] for rows in folds.test]
        warn_of_dependent_rows(centered, first.feature_names, target, parts)
    clusters = copies.groups if groups is None and copies is not None else groups
    if clusters is not None:
        n_clusters = int(clusters.max()) + 1
        size = np.bincount(clusters[is_scoring], minlength=n_clusters).astype(np.float64)
        correction = np.sqrt(find_cluster_correction(size))
        centered, varied = (correction * sum_row_groups(own, clusters, n_clusters) for own in (centered, varied))
        problem = invalid or find_cluster_shortage(size)
        if problem not in (None, invalid) and target is not None and groups is not None:
            warn(f"{problem}; {CLUSTER_REMEDY}.")
    if problem is not None:
        return replace(joined, inference_unavailable=problem)
    measure = partial(
        measure_fold_errors,
        per_fold=per_fold,
        reciprocity=folds.measure_reciprocity(share),
        test_per_train=folds.test_per_train,
    )
    joined = replace(joined, **vars(measure(centered)))
    if not has_residuals:
        return joined
    error = measure(varied).null_std_error
    return replace(joined, residual_values=of_residuals.sum(axis=0), residual_std_error=error)


def _place_rows(
    folds: Folds,
    share: Floats,
    is_scoring: NDArray[np.bool_],
    results: Sequence[ImportanceResult],
    name: str,
    error: str,
) -> tuple[Floats, Floats]:
    """Contributions of all rows to the mean over folds, and the same minus the mean of their fold.

    `name` is the field that has them, and `error` that of the standard errors of a fold.
    """
    placed, centered = (np.zeros((folds.n_rows, len(results[0].values))) for _ in range(2))
    for rows, result, part in zip(folds.test, results, share, strict=True):
        own, scoring = part * np.asarray(getattr(result, name)), is_scoring[rows]
        np.add.at(placed, rows, own)
        varied = own[scoring] - own.sum(axis=0) / np.count_nonzero(scoring)
        is_rounded = getattr(result, error) == 0 if getattr(result, error) is not None else False
        np.add.at(centered, rows[scoring], np.where(is_rounded, 0.0, varied))
    return placed, centered


def _match_features(results: Sequence[ImportanceResult]) -> list[ImportanceResult]:
    """Results with the features of all folds: a column that a fold's pipeline does not output scores 0 there."""
    if all(result.feature_names.tolist() == results[0].feature_names.tolist() for result in results):
        return list(results)
    names = list(dict.fromkeys(name for result in results for name in result.feature_names.tolist()))
    return [_place(result, names) for result in results]


def _place(result: ImportanceResult, names: list[str]) -> ImportanceResult:
    """A result with its features at the positions of `names`, and zeros elsewhere."""
    places = [names.index(name) for name in result.feature_names.tolist()]

    def spread(values: Floats) -> Floats:
        placed = np.zeros((*values.shape[:-1], len(names)))
        placed[..., places] = values
        return placed

    def spread_given(values: Floats | None) -> Floats | None:
        return None if values is None else spread(values)

    return replace(
        result,
        feature_names=np.array(names, dtype=np.str_),
        values=spread(result.values),
        share=spread(result.share),
        per_tree=spread(result.per_tree),
        per_output=spread(result.per_output),
        mdi=spread(result.mdi),
        std_error=spread(result.std_error),
        null_std_error=spread(result.null_std_error),
        tree_noise=spread(result.tree_noise),
        contributions=spread_given(result.contributions),
        residual_std_error=spread_given(result.residual_std_error),
        residual_contributions=spread_given(result.residual_contributions),
    )
