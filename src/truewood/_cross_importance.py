"""`cross_importance()`: models that are refit fold by fold, and scored on the rows that each of them did not see."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, StratifiedKFold, check_cv
from sklearn.utils import _safe_indexing, indexable

from truewood._arguments import (
    check_estimator,
    check_length,
    check_n_jobs,
    check_type,
    count_rows,
    read_contributions,
    read_flag,
)
from truewood._formatting import list_names
from truewood._importance import find_backend, importance
from truewood._inputs.row_arrays import read_groups, take_named
from truewood._inputs.target import read_sample_weight
from truewood._measures.registry import AUTO, get_measure
from truewood._progress import show_progress
from truewood._refitting import name_weight
from truewood._results.importance_result import ImportanceResult
from truewood._rows.evaluation_rows import UNSEEN
from truewood._rows.folds import read_folds
from truewood._scoring.joined_folds import join_folds
from truewood._scoring.results import check_measure

# More of the split weight than this without unseen rows says that folds are too small.
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
    inference: bool = True,
    contributions: bool = False,
    params: Mapping[str, Any] | None = None,
    n_jobs: int | None = None,
    random_state: Any = None,
    target: Any = None,
    progress: bool = True,
) -> ImportanceResult:
    """Score features by cross-validation: refit per fold, and score on the fold that the model did not see.

    For boosting without a test set to spare, and any other tree model: every row is held out once, where a single
    split has a part of them only. Scores are means over folds, of models of this kind on data of this kind.

    Parameters
    ----------
    estimator : object or dict
        What to fit: a tree model, or a Pipeline or search that ends in one, as `importance` takes them. It is cloned
        for each fold, so that preprocessing is fit within folds, too. Or what scikit-learn's
        ``cross_validate(..., return_estimator=True, return_indices=True)`` returned for the same X and y: then nothing
        is fit.
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        All rows.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs), or str
        Their target, or the name of its column in X.
    cv : int, splitter or iterable, default=None
        Which rows are held out, as in scikit-learn: a number of folds, a splitter, or pairs of row numbers for the fit
        and for scoring. None is 5 folds; with a number, folds have classes in the same shares, and keep `groups`
        together. scikit-learn does not shuffle rows unless the splitter says so.
    measure : str, default="auto"
        One of `measures()`, see `importance`.
    sample_weight : array-like of shape (n_rows,) or str, default=None
        Weights of the rows, in the fit and when they score, or the name of their column in X.
    feature_groups : dict or sequence, default=None
        Columns whose scores are summed, as in `importance`.
    groups : array-like of shape (n_rows,) or str, default=None
        Rows that belong together, such as those of a patient, or the name of their column in X: no fold may part them.
        The splitter gets them as its groups, and errors are those of sums over groups.
    inference : bool, default=True
        Whether to add standard errors and p-values.
    contributions : bool, default=False
        Whether the result also keeps what each row contributes to each score, an array of shape (n_rows, n_features);
        `compare` pairs rows by it. Needs `inference`.
    params : dict, default=None
        More arguments of the estimator's fit, such as ``{"model__categorical_feature": [0]}``; of those with an entry
        for each row the fit gets its rows.
    n_jobs : int, default=None
        Number of folds at a time, in processes, as in scikit-learn; -1 means all cores.
    random_state : int, RandomState instance or None, default=None
        Seed of ``measure="permutation"``; the estimator and the splitter have their own.
    target : array-like of shape (n_rows,) or (n_rows, n_scores), or callable, default=None
        For boosted trees, what rows are scored by, as in `importance`. By default the negative gradient of the loss at
        the best constant of the rows that the fold holds out.
    progress : bool, default=True
        Whether to show a progress bar, where the output is a terminal.

    Returns
    -------
    ImportanceResult
        Means over folds, weighted by the rows that score them; `per_fold` has the scores of each, `per_tree` those of
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
    check_n_jobs(n_jobs)
    inference = read_flag(inference, "inference")
    contributions = read_contributions(contributions, inference)
    if not isinstance(estimator, Mapping):
        check_estimator(estimator)
    if params is not None:
        check_type(params, Mapping, "params", "a dict")
    if find_backend(X) is not None:
        raise TypeError(f"cross_importance needs a table in memory, which fits can take, got X as {type(X).__name__}.")
    X, y, sample_weight, groups = take_named(X, y=y, sample_weight=sample_weight, groups=groups)
    n_rows = count_rows(X)
    for name, given in (("y", y), ("target", target)):
        if name == "y" or not (given is None or callable(given)):
            check_length(given, n_rows, name)
    X, y = indexable(X, y)
    weight, codes = read_sample_weight(sample_weight, n_rows), read_groups(groups, n_rows)
    models = None
    if isinstance(estimator, Mapping):
        if cv is not None or params is not None:
            raise ValueError("cv and params are for fits; results of cross_validate hold models that are fit already.")
        models, train, test = _read_cv_results(estimator)
        folds = read_folds(train, test, n_rows, codes, "estimator['indices']")
    else:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The groups parameter is ignored")  # that folds keep them is checked
            splits = list(_choose_splitter(cv, estimator, y, groups).split(X, y, groups))
        folds = read_folds([in_bag for in_bag, _ in splits], [unseen for _, unseen in splits], n_rows, codes, "cv")
    has_errors = measure == AUTO or get_measure(measure).why_no_inference is None
    options = {
        "measure": measure,
        "feature_groups": feature_groups,
        "inference": inference,
        "contributions": inference and (has_errors or contributions),
        "random_state": random_state,
    }
    fold = _Fold(estimator, X, y, weight, dict(params or {}), target, options)
    results, messages = [], dict[str, None]()
    with show_progress("folds", total=len(folds.test), is_wanted=progress) as update:
        steps = Parallel(n_jobs=n_jobs, return_as="generator")(
            delayed(fold.run)(train, test, None if models is None else models[k])
            for k, (train, test) in enumerate(zip(folds.train, folds.test, strict=True))
        )
        for result, heard in steps:
            results.append(result)
            messages |= dict.fromkeys(heard)
            update(len(results))
    for text in messages:
        warnings.warn(text, UserWarning, stacklevel=2)
    joined = join_folds(results, folds, weight, codes, inference, contributions)
    if joined.skipped_weight > _MUCH_SKIPPED:
        warnings.warn(
            f"{joined.skipped_weight:.0%} of split weight had no unseen rows in its fold, and is not scored: take "
            "fewer folds, of more rows.",
            UserWarning,
            stacklevel=2,
        )
    return joined


@dataclass(frozen=True, eq=False)
class _Fold:
    """What every fold fits and scores."""

    estimator: Any
    X: Any
    y: Any
    weight: NDArray[np.float64] | None
    params: dict[str, Any]
    target: Any
    options: dict[str, Any]

    def run(
        self, train: NDArray[np.int64], test: NDArray[np.int64], model: Any | None
    ) -> tuple[ImportanceResult, list[str]]:
        """Fit to some rows, unless the model is given, and score the model on others; with what there is to warn of."""
        rows = "heldout"
        if model is None:
            rows, model = UNSEEN, clone(self.estimator)  # folds have no row in common
            model.fit(_take(self.X, train), _take(self.y, train), **self._list_params(train))
        is_listed = self.target is not None and not callable(self.target)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = importance(
                model,
                _take(self.X, test),
                _take(self.y, test),
                rows=rows,
                sample_weight=None if self.weight is None else self.weight[test],
                target=_take(self.target, test) if is_listed else self.target,
                **self.options,
            )
        return result, [str(warning.message) for warning in caught if warning.category is UserWarning]

    def _list_params(self, train: NDArray[np.int64]) -> dict[str, Any]:
        """Arguments of a fit to some rows."""
        n_rows = len(self.y)
        params = {
            name: _take(value, train) if _has_rows(value, n_rows) else value for name, value in self.params.items()
        }
        if self.weight is not None:
            params[name_weight(self.estimator)] = self.weight[train]
        return params


def _take(values: Any, rows: NDArray[np.int64]) -> Any:
    """Some rows of what scikit-learn takes as a table or target."""
    return _safe_indexing(values, rows)


def _has_rows(value: Any, n_rows: int) -> bool:
    """Whether an argument has an entry for each row."""
    return hasattr(value, "__len__") and not isinstance(value, str | Mapping) and len(value) == n_rows


def _choose_splitter(cv: Any, estimator: Any, y: Any, groups: Any) -> Any:
    """The splitter, which keeps groups together where only a number of folds was asked for."""
    splitter = check_cv(5 if cv is None else cv, y, classifier=is_classifier(estimator))
    if groups is None or not (cv is None or isinstance(cv, Integral)):
        return splitter
    keep_groups = StratifiedGroupKFold if isinstance(splitter, StratifiedKFold) else GroupKFold
    return keep_groups(splitter.n_splits)


def _read_cv_results(results: Mapping[str, Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """Models of `cross_validate`, with the rows that they were fit to and those that were held out."""
    models, indices = results.get("estimator"), results.get("indices")
    if models is None or indices is None:
        raise ValueError(
            "estimator must be a model, or what cross_validate(..., return_estimator=True, return_indices=True) "
            f"returned, got a {type(results).__name__} with {list_names(list(map(str, results)))}."
        )
    return list(models), list(indices["train"]), list(indices["test"])
