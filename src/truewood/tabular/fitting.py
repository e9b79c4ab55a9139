"""Fitting a model to a table: a forest with its out-of-bag rows, or boosting with a held-out part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import GroupShuffleSplit, train_test_split
from sklearn.pipeline import Pipeline

from truewood.compat import WEIGHTS_ARE_DRAWN, draw_bag
from truewood.rows.bag_weights import choose_bag_size
from truewood.tabular.columns import Column
from truewood.tabular.encoding import make_encoder
from truewood.tabular.errors import TableError
from truewood.tabular.settings import FitSettings
from truewood.tabular.target_column import Target

_FORESTS = {
    "random-forest": {"classification": RandomForestClassifier, "regression": RandomForestRegressor},
    "extra-trees": {"classification": ExtraTreesClassifier, "regression": ExtraTreesRegressor},
}
# Breiman's leaves; of more rows than these in larger ones, to keep time and memory within bounds.
_LEAF_SIZE = {"classification": 1, "regression": 5}
_ROWS_OF_LEAF_SIZE = 50_000
# A forest grows in so many steps at most, so that there is progress to show.
_STEPS = 25

# Takes the number of trees so far, and of all trees.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model with the rows that judge it.

    Parameters
    ----------
    model : object
        What `importance` takes: encoder and model in a pipeline, or a saved model.
    X : DataFrame
        The rows: those of the fit where the model has out-of-bag rows, the held-out ones where not.
    y : ndarray of shape (n_rows,)
        Their target.
    weight : ndarray of shape (n_rows,), or None
        Their weights.
    row_groups : ndarray of shape (n_rows,), or None
        Their groups, where rows belong together.
    rows : {"oob", "heldout"}
        Which of both.
    predicted : ndarray of shape (n_rows,) or (n_rows, n_classes)
        Predictions for these rows by trees that never saw them; NaN where there is no such tree.
    classes : ndarray or None
        The labels in y; None for regression.
    """

    model: Any
    X: pd.DataFrame
    y: NDArray[Any]
    weight: NDArray[np.float64] | None
    row_groups: NDArray[np.int64] | None
    rows: str
    predicted: NDArray[np.float64]
    classes: NDArray[Any] | None


def fit_model(
    columns: list[Column],
    X: pd.DataFrame,
    target: Target,
    weight: NDArray[np.float64] | None,
    row_groups: NDArray[np.int64] | None,
    *,
    settings: FitSettings,
    progress: Progress,
) -> Fitted:
    """Fit the encoder and the model that the settings ask for.

    Parameters
    ----------
    columns : list of Column
        The columns to use.
    X : DataFrame
        Their values.
    target : Target
        What to predict.
    weight : ndarray of shape (n_rows,), or None
        Weights of the rows.
    row_groups : ndarray of shape (n_rows,), or None
        Groups of the rows; boosting holds whole groups out.
    settings : FitSettings
        The model.
    progress : callable
        Takes the number of trees so far, and of all trees.
    """
    if not settings.is_forest:
        return _fit_boosting(columns, X, target, weight, row_groups, settings, progress)
    if row_groups is not None:
        raise TableError(
            "a forest draws its bags row by row, so that rows of a group would be on both sides; take boosting, which "
            "holds whole groups out: model='xgboost' or model='lightgbm'.",
            "row_groups",
        )
    return _fit_forest(columns, X, target, weight, settings, progress)


def choose_leaf_size(task: str, n_rows: int) -> int:
    """Smallest number of rows in the leaf of a forest."""
    return _LEAF_SIZE[task] * -(-n_rows // _ROWS_OF_LEAF_SIZE)


def _fit_forest(
    columns: list[Column],
    X: pd.DataFrame,
    target: Target,
    weight: NDArray[np.float64] | None,
    settings: FitSettings,
    progress: Progress,
) -> Fitted:
    """Fit encoder and forest, which has out-of-bag rows."""
    encoder = make_encoder(columns)
    encoded = encoder.fit_transform(X).astype(np.float32)
    forest = _FORESTS[settings.model][target.task](
        max_depth=settings.max_depth,
        min_samples_leaf=choose_leaf_size(target.task, len(X)),
        bootstrap=True,
        max_samples=_choose_bag_size(weight, target),
        warm_start=True,  # grows on where it stopped
        n_jobs=settings.n_jobs,
        random_state=settings.random_state,
    )
    for n_trees in np.unique(np.linspace(0, settings.count_trees(), _STEPS + 1).astype(int))[1:]:
        forest.set_params(n_estimators=int(n_trees)).fit(encoded, target.y, sample_weight=weight)
        progress(int(n_trees), settings.count_trees())
    forest.set_params(warm_start=False)
    predicted = _predict_oob(forest, encoded, settings.n_jobs)
    pipeline = Pipeline([("columns", encoder), ("model", forest)])
    classes = forest.classes_ if target.task == "classification" else None
    return Fitted(pipeline, X, target.y, weight, None, "oob", predicted, classes)


def _choose_bag_size(weight: NDArray[np.float64] | None, target: Target) -> int | None:
    """Number of draws for a bag; None for as many as there are rows, unless weights would put a class into all bags."""
    if weight is None or not WEIGHTS_ARE_DRAWN or target.task == "regression":
        return None
    return choose_bag_size(weight, np.unique(target.y, return_inverse=True)[1])


def _predict_oob(forest: Any, encoded: NDArray[np.float32], n_jobs: int | None) -> NDArray[np.float64]:
    """Mean predictions of the trees that did not see a row, NaN where all did."""
    is_classifier = hasattr(forest, "classes_")
    width = (len(forest.classes_),) if is_classifier else ()
    total, count = np.zeros((len(encoded), *width)), np.zeros(len(encoded))

    def predict(tree: int) -> tuple[NDArray[Any], NDArray[np.float64]]:
        is_unseen = np.ones(len(encoded), dtype=np.bool_)
        is_unseen[draw_bag(forest, tree)] = False
        rows, fitted = np.flatnonzero(is_unseen), forest.estimators_[tree]
        return rows, (fitted.predict_proba if is_classifier else fitted.predict)(encoded[rows])

    for rows, values in Parallel(n_jobs=n_jobs, require="sharedmem", return_as="generator")(
        delayed(predict)(tree) for tree in range(len(forest.estimators_))
    ):
        total[rows] += values
        count[rows] += 1
    count[count == 0] = np.nan
    return total / (count[:, np.newaxis] if is_classifier else count)


def _fit_boosting(
    columns: list[Column],
    X: pd.DataFrame,
    target: Target,
    weight: NDArray[np.float64] | None,
    row_groups: NDArray[np.int64] | None,
    settings: FitSettings,
    progress: Progress,
) -> Fitted:
    """Fit encoder and boosted trees to a part of the rows, and hold the others out."""
    is_classifier = target.task == "classification"
    # XGBoost knows classes by their numbers only.
    classes, y = np.unique(target.y, return_inverse=True) if is_classifier else (None, target.y)
    training, test = _split(y, classes, row_groups, settings)
    encoder = make_encoder(columns)
    encoded = encoder.fit_transform(X.iloc[training])
    make = _make_xgboost if settings.model == "xgboost" else _make_lightgbm
    model, fit_options = make(is_classifier, settings, progress)
    model.fit(encoded, y[training], sample_weight=None if weight is None else weight[training], **fit_options)
    if settings.model == "xgboost":
        model.set_params(callbacks=None)  # which cannot be pickled
    pipeline, unseen = Pipeline([("columns", encoder), ("model", model)]), X.iloc[test].reset_index(drop=True)
    predicted = (pipeline.predict_proba if is_classifier else pipeline.predict)(unseen)
    return Fitted(
        pipeline,
        unseen,
        y[test],
        None if weight is None else weight[test],
        None if row_groups is None else row_groups[test],
        "heldout",
        np.asarray(predicted, dtype=np.float64),
        None if classes is None else np.arange(len(classes)),
    )


def _split(
    y: NDArray[Any], classes: NDArray[Any] | None, row_groups: NDArray[np.int64] | None, settings: FitSettings
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows to fit and rows to judge: the classes in the same shares, or whole groups."""
    if row_groups is not None:
        return _split_groups(y, classes, row_groups, settings)
    if classes is not None and np.bincount(y).min() < 2:
        rare = classes[np.bincount(y).argmin()]
        raise TableError(
            f"{settings.model} holds rows out and needs two rows of each class, got one of {str(rare)!r}; "
            "model='random-forest' can do without.",
            "model",
        )
    rows = np.arange(len(y))
    stratify = None if classes is None else y
    training, test = train_test_split(
        rows, test_size=settings.test_size, random_state=settings.random_state, stratify=stratify
    )
    return np.sort(training), np.sort(test)


def _split_groups(
    y: NDArray[Any], classes: NDArray[Any] | None, row_groups: NDArray[np.int64], settings: FitSettings
) -> tuple[NDArray[Any], NDArray[Any]]:
    if row_groups.max() == 0:
        raise TableError("it takes two groups of rows, one to fit and one to judge, got one.", "row_groups")
    halves = GroupShuffleSplit(1, test_size=settings.test_size, random_state=settings.random_state)
    training, test = next(halves.split(row_groups, groups=row_groups))
    if classes is not None and len(np.unique(y[training])) < len(classes):
        absent = classes[np.setdiff1d(y, y[training])[0]]
        raise TableError(
            f"no row of class {str(absent)!r} is in the groups that the model is fit to; it is in too few groups.",
            "row_groups",
        )
    return training, test


def _make_xgboost(is_classifier: bool, settings: FitSettings, progress: Progress) -> tuple[Any, dict[str, Any]]:
    import xgboost

    class Report(xgboost.callback.TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            del model, evals_log
            progress(epoch + 1, settings.count_trees())
            return False

    make = xgboost.XGBClassifier if is_classifier else xgboost.XGBRegressor
    model = make(
        n_estimators=settings.count_trees(),
        learning_rate=0.1,
        max_depth=settings.max_depth,
        n_jobs=settings.n_jobs,
        random_state=settings.random_state,
        callbacks=[Report()],
        verbosity=0,
    )
    return model, {}


def _make_lightgbm(is_classifier: bool, settings: FitSettings, progress: Progress) -> tuple[Any, dict[str, Any]]:
    import lightgbm

    make = lightgbm.LGBMClassifier if is_classifier else lightgbm.LGBMRegressor
    model = make(
        n_estimators=settings.count_trees(),
        learning_rate=0.1,
        max_depth=-1 if settings.max_depth is None else settings.max_depth,
        n_jobs=settings.n_jobs,
        random_state=settings.random_state,
        verbose=-1,
    )
    return model, {"callbacks": [lambda env: progress(env.iteration + 1, settings.count_trees())]}
