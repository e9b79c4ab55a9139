"""`cross_interactions()`: pairs of features of models that are refit for each fold, on its held-out rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import indexable
from sklearn.utils.parallel import Parallel, delayed

from truewood._arguments import check_estimator, check_length, check_n_jobs, count_rows, is_count, read_feature_list
from truewood._engines.selection import place_rows, use_engine
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
from truewood._inputs.groups import read_groups
from truewood._inputs.table_types import bring_to_host, take_from_device, take_named
from truewood._inputs.target import read_sample_weight
from truewood._progress import show_progress
from truewood._refitting import needs_validation_rows
from truewood._results.interactions import Interactions
from truewood._rows.copies import encode_table, find_copies
from truewood._scoring.fold_pairs import FoldPairs, check_n_pairs, find_fold_pairs, join_fold_pairs
from truewood._sklearn_compat import keep_warning_filters
from truewood._streaming.open_source import check_in_memory
from truewood.adapters import open_model


def cross_interactions(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = None,
    features: Sequence[int | str] | None = None,
    max_pairs: int = 500,
    sample_weight: Any = None,
    feature_groups: Any = None,
    groups: Any = None,
    params: Mapping[str, Any] | None = None,
    validation_fraction: float = VALIDATION_FRACTION,
    n_jobs: int | None = None,
    progress: bool = True,
    engine: str = "auto",
) -> Interactions:
    """Score pairs of features by cross-validation: refit for each fold, and score on its held-out rows.

    Use it for boosting without a separate test set, or for any other tree model. By default, every row is held out
    once.

    Parameters
    ----------
    estimator : object or dict
        A tree model, a Pipeline that ends in one, or a search such as GridSearchCV; it is cloned and fit for each fold.
        Or the output of ``cross_validate(..., return_estimator=True, return_indices=True)``, whose models are used as
        they are.
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        All rows.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs), or str
        The target, or the name of its column in X.
    cv : int, splitter or iterable, default=None
        How to split the rows, as in `cross_importance`; each row may be held out at most once.
    features : sequence of int or str, default=None
        Names or indices of features; only pairs of these are scored, as in `interactions`. None means all features.
    max_pairs : int, default=500
        Maximum number of pairs to score. More pairs raise an error; increase the limit or pass `features`. Unlike
        `interactions`, this function cannot choose pairs on training rows, because every row is scored in one of the
        folds.
    sample_weight : array-like of shape (n_rows,) or str, default=None
        Weights of the rows, in the fit and in the scores, or the name of their column in X.
    feature_groups : dict or sequence, default=None
        Columns that form one feature, as in `importance`.
    groups : array-like of shape (n_rows,) or str, default=None
        Clusters of rows, as in `cross_importance`: no fold may split a cluster.
    params : dict, default=None
        Additional arguments of the estimator's fit, as in `cross_importance`.
    validation_fraction : float, default=0.1
        Share of each fold's training rows to set aside for early stopping, as in `cross_importance`.
    n_jobs : int, default=None
        Number of processes, each running one fold at a time, as in scikit-learn; -1 means all cores.
    progress : bool, default=True
        Whether to show a progress bar if the output is a terminal.
    engine : {"auto", "native", "numpy", "cuda"}, default="auto"
        Implementation that routes the rows through the trees, as in `interactions`.

    Returns
    -------
    Interactions
        Scores over all held-out rows, with ``rows="folds"``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> import truewood as tw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 4))
    >>> y = X[:, 0] + X[:, 1] + X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=400)
    >>> result = tw.cross_interactions(HistGradientBoostingRegressor(max_iter=50), X, y)
    >>> result.pairs[result.order[0]].tolist()
    [0, 1]
    """
    n_threads = check_n_jobs(n_jobs)
    if not isinstance(estimator, Mapping):
        check_estimator(estimator)
    if not is_count(max_pairs, 1):
        raise ValueError(f"max_pairs must be a whole number above 0, got {quote(max_pairs)}.")
    if params is not None:
        check_params(params)
    check_validation_fraction(validation_fraction)
    listed = read_feature_list(features)
    if listed is not None:
        check_n_pairs(len(listed) * (len(listed) - 1) // 2, int(max_pairs))
    check_in_memory(X, "cross_interactions")
    X, y, sample_weight, groups = take_named(X, y=y, sample_weight=sample_weight, groups=groups)
    X, chosen = place_rows(X, engine)
    X = take_from_device(X, "cross_interactions")
    y, sample_weight, groups = map(bring_to_host, (y, sample_weight, groups))
    n_rows = count_rows(X)
    check_length(y, n_rows, "y")
    X, y = indexable(X, y)
    weight, codes = read_sample_weight(sample_weight, n_rows), read_groups(groups, n_rows)
    matrix, invalid = encode_table(X), None
    copies, models = find_copies(matrix, n_threads), None
    if isinstance(estimator, Mapping):
        models, folds = read_cv_results(estimator, cv, params, n_rows, codes)
    else:
        folds = split_rows(cv, estimator, X, y, groups, codes, copies)
    if copies is not None:
        folds = leave_out_copies(folds, copies, can_keep=models is None and codes is None)
    tests = np.concatenate(folds.test)
    if len(np.unique(tests)) < len(tests):
        raise ValueError("cv must hold out each row at most once, got repeated folds; pass a number of folds.")
    params = dict(params or {})
    stops_early = models is None and needs_validation_rows(estimator, params)
    fits = FoldFits(estimator, X, y, weight, params, codes, validation_fraction if stops_early else None)
    options = {"features": listed, "max_pairs": int(max_pairs), "feature_groups": feature_groups}

    def run(train: NDArray[np.int64], test: NDArray[np.int64], model: Any | None) -> tuple[FoldPairs, list[str]]:
        model = fits.fit(train) if model is None else model
        with use_engine(chosen), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            own = None if weight is None else weight[test]
            found = find_fold_pairs(model, take_rows(X, test), take_rows(y, test), own, **options)
        return found, [str(warning.message) for warning in caught if warning.category is UserWarning]

    parts, messages = [], dict[str, None]()
    with keep_warning_filters(), show_progress("folds", total=len(folds.test), is_wanted=progress) as update:
        steps = Parallel(n_jobs=n_jobs, return_as="generator")(
            delayed(run)(train, test, None if models is None else models[k])
            for k, (train, test) in enumerate(zip(folds.train, folds.test, strict=True))
        )
        for part, issued in steps:
            parts.append(part)
            messages |= dict.fromkeys(issued)
            update(len(parts))
    for text in messages:
        warn(text)
    if open_model(parts[0].model).target.kind.is_classification:
        invalid = find_synthetic_rows(matrix, y, n_threads)
    with use_engine(chosen):
        joined = join_fold_pairs(parts, folds, weight, codes, copies, invalid, n_threads)
    if stops_early:
        joined = replace(joined, notes=(*joined.notes, describe_validation(validation_fraction)))
    return joined
