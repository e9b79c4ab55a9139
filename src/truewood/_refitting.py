"""Refitting estimators: seeds for unseeded ones, the name of their sample_weight argument, and fits on folds."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    RandomizedSearchCV,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

from truewood._arguments import check_seed

# Seeds are smaller than this, which every library accepts.
N_SEEDS = np.iinfo(np.int32).max


def set_seeds(estimator: Any, random_state: Any) -> Any:
    """Seed an estimator, and its parts, if they have no seed."""
    parameters = sorted(estimator.get_params().items())
    unseeded = [name for name, value in parameters if name.rpartition("__")[2] == "random_state" and value is None]
    rng = check_seed(random_state)
    return estimator.set_params(**{name: rng.randint(N_SEEDS) for name in unseeded})


def name_weight(estimator: Any) -> str:
    """The fit argument for weights: a pipeline expects it prefixed by the name of its last step."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return f"{name}__{name_weight(last)}"
    if isinstance(estimator, GridSearchCV | RandomizedSearchCV):
        return name_weight(estimator.estimator)
    return "sample_weight"


def fit_fold(
    estimator: Any,
    X: Any,
    y: Any,
    train: NDArray[np.int64],
    weight: NDArray[np.float64] | None,
    params: Mapping[str, Any],
) -> Any:
    """Fit a clone on the training rows of a fold; arguments with an entry for each row are split like X."""
    n_rows = len(y)
    options = {name: take_rows(value, train) if _has_rows(value, n_rows) else value for name, value in params.items()}
    if weight is not None:
        options[name_weight(estimator)] = weight[train]
    return clone(estimator).fit(take_rows(X, train), take_rows(y, train), **options)


def take_rows(values: Any, rows: NDArray[np.int64]) -> Any:
    """Some rows of a table or target in any container that scikit-learn supports."""
    return _safe_indexing(values, rows)


def _has_rows(value: Any, n_rows: int) -> bool:
    """Whether an argument has an entry for each row."""
    return hasattr(value, "__len__") and not isinstance(value, str | Mapping) and len(value) == n_rows


def choose_splitter(cv: Any, estimator: Any, y: Any, groups: Any) -> Any:
    """The splitter; one that keeps groups together if `cv` is only a number of folds."""
    splitter = check_cv(5 if cv is None else cv, y, classifier=is_classifier(estimator))
    if groups is None or not (cv is None or isinstance(cv, Integral)):
        return splitter
    keep_groups = StratifiedGroupKFold if isinstance(splitter, StratifiedKFold) else GroupKFold
    return keep_groups(splitter.n_splits)
