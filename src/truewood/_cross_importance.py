"""`cross_importance()`: models refit for each fold, and scored on its held-out rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import indexable
from sklearn.utils.parallel import Parallel, delayed

from truewood._arguments import (
    check_estimator,
    check_length,
    check_n_jobs,
    count_rows,
    read_inference,
)
from truewood._exceptions import warn
from truewood._fold_fits import (
    VALIDATION_FRACTION,
    FoldFits,
    check_params,
    check_validation_fraction,
    describe_validation,
    find_synthetic_rows,
    leave_out_copies,
    read_cv_results,
    split_rows,
    take_rows,
)
from truewood._formatting import quote
from truewood._importance import score_on_engine
from truewood._inputs.groups import read_groups
from truewood._inputs.table_types import bring_to_host, take_named
from truewood._inputs.target import read_sample_weight
from truewood._measures.registry import AUTO, check_measure, get_measure
from truewood._progress import show_progress
from truewood._refitting import needs_validation_rows
from truewood._results.importance_result import ImportanceResult
from truewood._rows.copies import encode_table, find_copies
from truewood._rows.folds import Folds
from truewood._scoring.joined_folds import join_folds
from truewood._sklearn_compat import keep_warning_filters
from truewood._streaming.open_source import check_in_memory

# If more than this share of the split weight has no test rows, folds are too small.
_MUCH_SKIPPED = 0.5


def cross_importance(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = None,
    measure: str = "auto",
    sample_weight: Any = None,
    feature_groups: Any = None,
    groups: Any = None,
    target: Any = None,
    inference: bool | str = True,
    contributions: bool = False,
    params: Mapping[str, Any] | None = None,
    validation_fraction: float = VALIDATION_FRACTION,
    n_jobs: int | None = None,
    random_state: Any = None,
    progress: bool = True,
    engine: str = "auto",
) -> ImportanceResult:
    """Score features by cross-validation: refit for each fold, and score on its held-out rows.

    Use it for boosting without a separate test set, or for any other tree model. By default, every row is held out
    once. Scores are means over folds, and describe models of this kind on data of this kind rather than a single fitted
    model.

    Parameters
    ----------
    estimator : object or dict
        A tree model, a Pipeline that ends in one, or a search such as GridSearchCV, as in `importance`. It is cloned
        and fit for each fold, including its preprocessing. Or the output of scikit-learn's ``cross_validate(...,
        return_estimator=True, return_indices=True)`` for the same X and y: then nothing is fit.
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        All rows.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs), or str
        The target, or the name of its column in X.
    cv : int, splitter or iterable, default=None
        How to split the rows, as in scikit-learn: a number of folds, a splitter, or pairs of training and test row
        numbers. None means 5 folds. With a number, folds are stratified by class, and rows are shuffled with a fixed
        seed, so that sorted rows cause no bias; with `groups`, folds keep groups together and nothing is shuffled. For
        rows that are ordered in time, pass `TimeSeriesSplit`: with shuffled rows, each model would be scored on rows
        whose neighbors in time it was trained on.
    measure : str, default="auto"
        One of `measures()`, see `importance`, except for "mdi_plus_oob" and "sobol_mda", which need in-bag rows.
    sample_weight : array-like of shape (n_rows,) or str, default=None
        Weights of the rows, in the fit and in the scores, or the name of their column in X.
    feature_groups : dict or sequence, default=None
        Columns whose scores are summed, as in `importance`.
    groups : array-like of shape (n_rows,) or str, default=None
        Clusters of rows, such as all rows of a patient: a label for each row, or the name of the label column in X. No
        fold may split a cluster. The splitter receives them as its groups, and standard errors are cluster-robust.
    target : array-like of shape (n_rows,) or (n_rows, n_scores), or callable, default=None
        For boosted trees, what the trees are scored against instead of y, as in `importance`. The default is the
        negative gradient of the loss at the best constant prediction for the held-out rows.
    inference : bool or "residual", default=True
        Whether to compute standard errors and p-values. With "residual", p-values test each feature on the part of the
        target that the other features leave unexplained, as in `importance`.
    contributions : bool, default=False
        Whether to keep the contribution of each row to each score, an array of shape (n_rows, n_features), which
        `compare` uses to pair rows. Needs `inference`.
    params : dict, default=None
        Additional arguments of the estimator's fit, such as ``{"model__categorical_feature": [0]}``. Arguments with an
        entry for each row are split like X. An ``eval_set`` raises an error, because it could contain rows of X.
    validation_fraction : float, default=0.1
        Share of each fold's training rows to set aside as validation rows for early stopping of XGBoost, LightGBM and
        CatBoost; the held-out rows of a fold are never used for that. Ignored unless the model stops early, for
        example because of ``early_stopping_rounds``.
    n_jobs : int, default=None
        Number of processes, each running one fold at a time, as in scikit-learn; -1 means all cores.
    random_state : int, RandomState instance or None, default=None
        Seed for ``measure="permutation"``; the estimator and the splitter have their own.
    progress : bool, default=True
        Whether to show a progress bar if the output is a terminal.
    engine : {"auto", "native", "numpy", "cuda"}, default="auto"
        Implementation that routes the rows through the trees, as in `importance`.

    Returns
    -------
    ImportanceResult
        Means over folds, weighted by their held-out rows; `per_fold` has the scores of each fold, `per_tree` those of
        the trees of all folds.

    Examples
    --------
    >>> import truewood as tw
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> result = tw.cross_importance(HistGradientBoostingRegressor(max_iter=30, random_state=0), X, y, cv=5)
    >>> result.frame()["feature"][:2].tolist(), result.per_fold.shape
    (['s5', 'bmi'], (5, 10))
    """
    check_measure(measure)
    n_threads = check_n_jobs(n_jobs)
    inference, contributions = read_inference(inference, contributions, "residual")
    has_inference = bool(inference)
    if not isinstance(estimator, Mapping):
        check_estimator(estimator)
    if measure != AUTO and get_measure(measure).needs_training_rows:
        raise ValueError(
            f"measure={quote(measure)} needs the in-bag rows of each tree, but folds score held-out rows; use another "
            "measure, or, for a forest, importance with rows='oob'."
        )
    if params is not None:
        check_params(params)
    check_validation_fraction(validation_fraction)
    check_in_memory(X, "cross_importance")
    X, y, sample_weight, groups = take_named(X, y=y, sample_weight=sample_weight, groups=groups)
    n_rows = count_rows(X)
    for name, given in (("y", y), ("target", target)):
        if name == "y" or not (given is None or callable(given)):
            check_length(given, n_rows, name)
    X, y = indexable(X, y)
    weight, codes = read_sample_weight(sample_weight, n_rows), read_groups(groups, n_rows)
    matrix = encode_table(bring_to_host(X))
    copies, models = find_copies(matrix, n_threads), None
    if isinstance(estimator, Mapping):
        source = "estimator['indices']"
        models, folds = read_cv_results(estimator, cv, params, n_rows, codes)
    else:
        source, folds = "cv", split_rows(cv, estimator, X, y, groups, codes, copies)
    if copies is not None:
        folds = leave_out_copies(folds, copies, can_keep=models is None and codes is None)
    has_errors = measure == AUTO or get_measure(measure).why_no_inference is None
    options = {
        "measure": measure,
        "feature_groups": feature_groups,
        "inference": inference,
        "contributions": has_inference and (has_errors or contributions),
        "random_state": random_state,
        "engine": engine,
    }
    params = dict(params or {})
    stops_early = models is None and needs_validation_rows(estimator, params)
    fits = FoldFits(estimator, X, y, weight, params, codes, validation_fraction if stops_early else None)
    fold = _Fold(fits, target, options)
    results, messages = [], dict[str, None]()
    with keep_warning_filters(), show_progress("folds", total=len(folds.test), is_wanted=progress) as update:
        steps = Parallel(n_jobs=n_jobs, return_as="generator")(
            delayed(fold.run)(train, test, None if models is None else models[k])
            for k, (train, test) in enumerate(zip(folds.train, folds.test, strict=True))
        )
        for result, issued in steps:
            results.append(result)
            messages |= dict.fromkeys(issued)
            update(len(results))
    for text in messages:
        warn(text)
    y = bring_to_host(y)
    target_values, invalid = _encode(y), None
    if results[0].task == "classification":
        invalid = find_synthetic_rows(matrix, y, n_threads, inference=has_inference)
    options = {"target": target_values, "copies": copies, "invalid": invalid}
    joined = join_folds(results, folds, weight, codes, has_inference, contributions, **options)
    if stops_early:
        joined = replace(joined, notes=(*joined.notes, describe_validation(validation_fraction)))
    _warn_of_folds(joined, folds, target_values, source)
    return joined


@dataclass(frozen=True, eq=False)
class _Fold:
    """Fits and scores a fold."""

    fits: FoldFits
    target: Any
    options: dict[str, Any]

    def run(
        self, train: NDArray[np.int64], test: NDArray[np.int64], model: Any | None
    ) -> tuple[ImportanceResult, list[str]]:
        """Fit a model on the training rows, unless it is given, and score it on the test rows; also return warnings."""
        is_given, weight = model is not None, self.fits.weight
        if model is None:
            model = self.fits.fit(train)
        is_listed = self.target is not None and not callable(self.target)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = score_on_engine(
                model,
                take_rows(self.fits.X, test),
                bring_to_host(take_rows(self.fits.y, test)),
                rows="heldout",
                sample_weight=None if weight is None else weight[test],
                groups=None,
                target=bring_to_host(take_rows(self.target, test)) if is_listed else self.target,
                n_jobs=None,
                per_class=False,
                check_heldout=is_given,  # otherwise, the split guarantees that rows are held out
                check_rows=False,  # checked for all folds together
                **self.options,
            )
        return result, [str(warning.message) for warning in caught if warning.category is UserWarning]


def _encode(y: Any) -> NDArray[np.float64]:
    """The target as numbers that are equal if the values are, shape (n_rows, n_outputs)."""
    values = np.asarray(y)
    if values.dtype.kind in "biuf":
        return values.reshape(len(values), -1).astype(np.float64)
    if values.dtype.names is not None:  # events and times
        return np.column_stack([values[name].astype(np.float64) for name in values.dtype.names])
    columns = pd.DataFrame(values.reshape(len(values), -1)).astype(str)
    return np.column_stack([pd.factorize(columns[name], sort=True)[0] for name in columns]).astype(np.float64)


def _warn_of_folds(joined: ImportanceResult, folds: Folds, target: NDArray[np.float64], source: str) -> None:
    """Warn about folds of sorted rows, and about folds that are too small."""
    separation = 0.0
    if joined.n_groups is None and folds.are_blocks:
        separation = max(folds.measure_separation(column) for column in target.T)
    if separation:
        warn(
            f"{source} holds out consecutive rows that differ from the rest: fold membership explains "
            f"{separation:.0%} of the target's variance. The rows appear to be sorted; shuffle them, as "
            "cv=KFold(5, shuffle=True, random_state=0) does, or pass cv=TimeSeriesSplit() if they are ordered in time."
        )
    elif joined.skipped_weight > _MUCH_SKIPPED:
        warn(
            f"{joined.skipped_weight:.0%} of splits (weighted by training rows) were not scored because no held-out "
            "row reached one of the two children; use fewer folds, and shuffle the rows if they are sorted "
            "(but not by time)."
        )
