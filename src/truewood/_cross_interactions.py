"""`cross_interactions()`: pairs of features of models that are refit for each fold, on its held-out rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.utils import indexable

from truewood._arguments import check_estimator, check_length, check_n_jobs, count_rows, is_count
from truewood._engines.selection import place_rows, use_engine
from truewood._fold_fits import VALIDATION_FRACTION, FoldFits, check_params, leave_out_copies, split_rows, take_rows
from truewood._formatting import quote
from truewood._inputs.device_arrays import bring_to_host, take_from_device
from truewood._inputs.row_arrays import read_groups, take_named
from truewood._inputs.target import read_sample_weight
from truewood._refitting import needs_validation_rows
from truewood._results.interactions import Interactions
from truewood._rows.copies import find_copies_in_table
from truewood._scoring.fold_pairs import FoldPairs, find_fold_pairs, join_fold_pairs


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
    n_jobs: int | None = None,
    engine: str = "auto",
) -> Interactions:
    """Score pairs of features by cross-validation: refit for each fold, and score on its held-out rows.

    For boosting without a separate test set, and for any other tree model: every row is held out once.

    Parameters
    ----------
    estimator : object
        A tree model, or a Pipeline or search that ends in one; it is cloned and fit for each fold.
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        All rows.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs), or str
        The target, or the name of its column in X.
    cv : int, splitter or iterable, default=None
        How to split the rows, as in `cross_importance`; each row may be held out once.
    features, max_pairs
        As in `interactions`; with more than `max_pairs` pairs, `features` has to choose, because every row takes part
        in training some of the models.
    sample_weight : array-like of shape (n_rows,) or str, default=None
        Weights of the rows, in the fit and in the scores, or the name of their column in X.
    feature_groups : dict or sequence, default=None
        Columns that form one feature, as in `importance`.
    groups : array-like of shape (n_rows,) or str, default=None
        Clusters of rows, as in `cross_importance`: no fold may split a cluster.
    params : dict, default=None
        Additional arguments of the estimator's fit, as in `cross_importance`.
    n_jobs : int, default=None
        Number of processes, each running one fold at a time.
    engine : {"auto", "native", "numpy", "cuda"}, default="auto"
        What sends the rows down the trees, as in `interactions`.

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
    check_n_jobs(n_jobs)
    check_estimator(estimator)
    if not is_count(max_pairs, 1):
        raise ValueError(f"max_pairs must be a whole number above 0, got {quote(max_pairs)}.")
    if params is not None:
        check_params(params)
    X, y, sample_weight, groups = take_named(X, y=y, sample_weight=sample_weight, groups=groups)
    X, chosen = place_rows(X, engine)
    X, y = take_from_device(X, "cross_interactions"), bring_to_host(y)
    n_rows = count_rows(X)
    check_length(y, n_rows, "y")
    X, y = indexable(X, y)
    weight, codes = read_sample_weight(sample_weight, n_rows), read_groups(groups, n_rows)
    copies = find_copies_in_table(X)
    folds = split_rows(cv, estimator, X, y, groups, codes, copies)
    if copies is not None:
        folds = leave_out_copies(folds, copies)
    tests = np.concatenate(folds.test)
    if len(np.unique(tests)) < len(tests):
        raise ValueError("cv must hold out each row at most once, got repeated folds; pass cv=KFold().")
    params = dict(params or {})
    fraction = VALIDATION_FRACTION if needs_validation_rows(estimator, params) else None
    fits = FoldFits(estimator, X, y, weight, params, codes, fraction)
    options = {"features": features, "max_pairs": int(max_pairs), "feature_groups": feature_groups}

    def run(train: NDArray[np.int64], test: NDArray[np.int64]) -> FoldPairs:
        model = fits.fit(train)
        with use_engine(chosen):
            own = None if weight is None else weight[test]
            return find_fold_pairs(model, take_rows(X, test), take_rows(y, test), own, **options)

    parts = Parallel(n_jobs=n_jobs)(
        delayed(run)(train, test) for train, test in zip(folds.train, folds.test, strict=True)
    )
    with use_engine(chosen):
        return join_fold_pairs(parts, folds, weight, codes, copies)
