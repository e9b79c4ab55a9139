"""Fit a model to a table: a forest with out-of-bag rows, or models with held-out folds or a held-out part."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import Pipeline

from truewood._rows.bag_weights import choose_bag_size
from truewood._sklearn_compat import WEIGHTS_ARE_DRAWN, draw_bag, keep_warning_filters
from truewood.tabular._columns.columns import Column
from truewood.tabular._columns.encoders import make_encoder
from truewood.tabular._columns.target_column import Outcome
from truewood.tabular._models.boosters import Progress, fit_booster
from truewood.tabular._models.settings import FitSettings
from truewood.tabular._models.splitting import split_rows

_FORESTS = {
    "random-forest": {"classification": RandomForestClassifier, "regression": RandomForestRegressor},
    "extra-trees": {"classification": ExtraTreesClassifier, "regression": ExtraTreesRegressor},
}
# A forest is fit in at most this many steps, to report progress.
_STEPS = 25


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model with its evaluation rows.

    Parameters
    ----------
    model : object
        What `importance` accepts: a pipeline of encoder and model, or a saved model; a list of these for folds.
    X : DataFrame
        The rows: all of them for out-of-bag rows and folds, otherwise the held-out rows.
    y : ndarray of shape (n_rows,)
        The target.
    weight : ndarray of shape (n_rows,), or None
        Row weights.
    groups : ndarray of shape (n_rows,), or None
        Groups of rows.
    rows : {"oob", "folds", "heldout"}
        The kind of evaluation rows.
    predicted : ndarray of shape (n_rows,) or (n_rows, n_classes)
        Out-of-bag or held-out predictions; NaN if there are none.
    classes : ndarray or None
        Class labels in y; None for regression.
    splits : list of (ndarray, ndarray)
        Training and test rows of each fold.
    labels : ndarray of shape (n_classes,), or None
        The labels that integer codes in y stand for; None if y has labels or numbers.
    """

    model: Any
    X: pd.DataFrame
    y: NDArray[Any]
    weight: NDArray[np.float64] | None
    groups: NDArray[np.int64] | None
    rows: str
    predicted: NDArray[np.float64]
    classes: NDArray[Any] | None
    splits: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = field(default_factory=list)
    labels: NDArray[Any] | None = None


def fit_model(
    columns: list[Column],
    X: pd.DataFrame,
    target: Outcome,
    weight: NDArray[np.float64] | None,
    groups: NDArray[np.int64] | None,
    *,
    settings: FitSettings,
    progress: Progress,
) -> Fitted:
    """Fit the encoder and the model.

    Parameters
    ----------
    columns : list of Column
        The columns to use.
    X : DataFrame
        The values of the columns.
    target : Outcome
        The target.
    weight : ndarray of shape (n_rows,), or None
        Row weights.
    groups : ndarray of shape (n_rows,), or None
        Groups of rows, which are held out together.
    settings : FitSettings
        The model.
    progress : callable
        ``progress(n_done, n_trees)`` is called as trees are grown.
    """
    if is_out_of_bag(settings, groups):
        return _fit_out_of_bag(columns, X, target, weight, settings, progress)
    return _fit_held_out(columns, X, target, weight, groups, settings, progress)


def is_out_of_bag(settings: FitSettings, groups: object | None) -> bool:
    """Whether a forest is fit to all rows and scored on out-of-bag rows."""
    return settings.is_forest and groups is None and settings.cv is None and settings.test_size is None


def _fit_out_of_bag(
    columns: list[Column],
    X: pd.DataFrame,
    target: Outcome,
    weight: NDArray[np.float64] | None,
    settings: FitSettings,
    progress: Progress,
) -> Fitted:
    """Fit encoder and forest to all rows."""
    encoder = make_encoder(columns)
    encoded = encoder.fit_transform(X).astype(np.float32)
    forest = _grow_forest(
        encoded, target.y, weight, target.task, settings, progress, max_samples=_choose_bag_size(weight, target)
    )
    predicted = _predict_oob(forest, encoded, settings.n_jobs)
    pipeline = Pipeline([("columns", encoder), ("model", forest)])
    classes = forest.classes_ if target.task == "classification" else None
    return Fitted(pipeline, X, target.y, weight, None, "oob", predicted, classes)


def _grow_forest(
    encoded: NDArray[np.float32],
    y: NDArray[Any],
    weight: NDArray[np.float64] | None,
    task: str,
    settings: FitSettings,
    progress: Progress,
    *,
    max_samples: int | None = None,
) -> Any:
    """Grow a forest in steps."""
    make, options = _choose_forest(settings.model, task)
    forest = make(
        **options,
        max_depth=settings.max_depth,
        max_features=settings.choose_max_features(task),
        min_samples_leaf=settings.choose_leaf_size(task, len(encoded)),
        bootstrap=True,
        max_samples=max_samples,
        warm_start=True,  # adds trees to the existing ones
        n_jobs=settings.n_jobs,
        random_state=settings.random_state,
    )
    n_trees = settings.count_trees()
    progress(0, n_trees)
    for n_grown in np.unique(np.linspace(0, n_trees, _STEPS + 1).astype(int))[1:]:
        with keep_warning_filters():
            forest.set_params(n_estimators=int(n_grown)).fit(encoded, y, sample_weight=weight)
        progress(int(n_grown), n_trees)
    return forest.set_params(warm_start=False)


def _choose_forest(model: str, task: str) -> tuple[Any, dict[str, Any]]:
    """Choose the class of a forest and its extra parameters."""
    if task != "survival":
        return _FORESTS[model][task], {}
    from sksurv.ensemble import ExtraSurvivalTrees, RandomSurvivalForest

    # Without low_memory, each node would store the survival function at all times.
    return (RandomSurvivalForest if model == "random-forest" else ExtraSurvivalTrees), {"low_memory": True}


def _choose_bag_size(weight: NDArray[np.float64] | None, target: Outcome) -> int | None:
    """Choose `max_samples`; None for all rows, unless weights would put all rows of a class into every bag."""
    if weight is None or not WEIGHTS_ARE_DRAWN or target.task != "classification":
        return None
    return choose_bag_size(weight, np.unique(target.y, return_inverse=True)[1])


def _predict_oob(forest: Any, encoded: NDArray[np.float32], n_jobs: int | None) -> NDArray[np.float64]:
    """Average the out-of-bag predictions of each row; NaN if it is in every bag."""
    is_classifier = hasattr(forest, "classes_")
    width = (len(forest.classes_),) if is_classifier else ()
    total, count = np.zeros((len(encoded), *width)), np.zeros(len(encoded))

    def predict(tree: int) -> tuple[NDArray[Any], NDArray[np.float64]]:
        is_oob = np.ones(len(encoded), dtype=np.bool_)
        is_oob[draw_bag(forest, tree)] = False
        rows, fitted = np.flatnonzero(is_oob), forest.estimators_[tree]
        return rows, (fitted.predict_proba if is_classifier else fitted.predict)(encoded[rows])

    for rows, values in Parallel(n_jobs=n_jobs, require="sharedmem", return_as="generator")(
        delayed(predict)(tree) for tree in range(len(forest.estimators_))
    ):
        total[rows] += values
        count[rows] += 1
    count[count == 0] = np.nan
    return total / (count[:, np.newaxis] if is_classifier else count)


def _fit_held_out(
    columns: list[Column],
    X: pd.DataFrame,
    target: Outcome,
    weight: NDArray[np.float64] | None,
    groups: NDArray[np.int64] | None,
    settings: FitSettings,
    progress: Progress,
) -> Fitted:
    """Fit encoder and model to the training rows of each fold, or of a single split."""
    is_classifier = target.task == "classification"
    # XGBoost accepts classes as integer codes only.
    labels, y = np.unique(target.y, return_inverse=True) if is_classifier else (None, target.y)
    classes = None if labels is None else np.arange(len(labels))
    splits = split_rows(y, labels, groups, settings)
    n_trees, models = settings.count_trees(), []
    predicted = np.full((len(y), len(classes)) if classes is not None else len(y), np.nan)
    for k, (training, test) in enumerate(splits):
        model = _fit_pipeline(
            columns,
            X.iloc[training],
            y[training],
            None if weight is None else weight[training],
            target.task,
            settings,
            _count_on(progress, k * n_trees, len(splits) * n_trees),
        )
        held_out = X.iloc[test].reset_index(drop=True)
        predicted[test] = (model.predict_proba if is_classifier else model.predict)(held_out)
        models.append(model)
    if settings.count_folds() is not None:
        return Fitted(models, X, y, weight, groups, "folds", predicted, classes, splits, labels)
    return Fitted(
        models[0],
        held_out,
        y[test],
        None if weight is None else weight[test],
        None if groups is None else groups[test],
        "heldout",
        predicted[test],
        classes,
        labels=labels,
    )


def _count_on(progress: Progress, n_before: int, n_all: int) -> Progress:
    """Convert the progress of one of several fits to the progress of all."""
    return lambda n_done, _n_trees: progress(n_before + n_done, n_all)


def _fit_pipeline(
    columns: list[Column],
    X: pd.DataFrame,
    y: NDArray[Any],
    weight: NDArray[np.float64] | None,
    task: str,
    settings: FitSettings,
    progress: Progress,
) -> Pipeline:
    """Fit encoder and model to training rows."""
    encoder = make_encoder(columns)
    encoded = encoder.fit_transform(X)
    if settings.is_forest:
        model = _grow_forest(encoded.astype(np.float32), y, weight, task, settings, progress)
    else:
        model = fit_booster(encoded, y, weight, task, settings, progress)
    return Pipeline([("columns", encoder), ("model", model)])
