"""Fitting a model for the command line: a forest with its out-of-bag rows, or boosting with a held-out part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline

from truewood.compat import draw_bag
from truewood.tabular.columns import Column
from truewood.tabular.encoding import make_encoder
from truewood.tabular.target_column import Target

FORESTS = {
    "random-forest": {"classification": RandomForestClassifier, "regression": RandomForestRegressor},
    "extra-trees": {"classification": ExtraTreesClassifier, "regression": ExtraTreesRegressor},
}
BOOSTERS = ("xgboost", "lightgbm")
MODELS = (*FORESTS, *BOOSTERS)
# Forests only get steadier with more trees; boosting overfits.
DEFAULT_TREES = {name: 500 if name in FORESTS else 200 for name in MODELS}
DEFAULT_TEST_SIZE = 0.25
# Breiman's leaves; of more rows than these in larger ones, to keep time and memory within bounds.
_LEAF_SIZE = {"classification": 1, "regression": 5}
_ROWS_OF_LEAF_SIZE = 50_000
# A forest grows in so many steps at most, for the progress bar.
_STEPS = 25

Progress = Callable[[int], None]


@dataclass(frozen=True)
class FitOptions:
    """What the user chose: the model's name, size and seed, threads, and the part held out for boosting."""

    model: str
    trees: int
    max_depth: int | None
    seed: int
    jobs: int
    test_size: float


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
    rows: str
    predicted: NDArray[np.float64]
    classes: NDArray[Any] | None


def check_installed(model: str) -> None:
    """Refuse a model whose library is not there."""
    if model in BOOSTERS and find_spec(model) is None:
        raise ValueError(f"--model {model} needs {model}, which is not installed: pip install 'truewood[{model}]'.")


def choose_leaf_size(task: str, n_rows: int) -> int:
    """Smallest number of rows in the leaf of a forest."""
    return _LEAF_SIZE[task] * -(-n_rows // _ROWS_OF_LEAF_SIZE)


def fit_forest(
    columns: list[Column],
    X: pd.DataFrame,
    target: Target,
    weight: NDArray[np.float64] | None,
    options: FitOptions,
    progress: Progress,
) -> Fitted:
    """Fit encoder and forest, which has out-of-bag rows; `progress` takes the number of trees so far."""
    encoder = make_encoder(columns)
    encoded = encoder.fit_transform(X).astype(np.float32)
    forest = FORESTS[options.model][target.task](
        max_depth=options.max_depth,
        min_samples_leaf=choose_leaf_size(target.task, len(X)),
        bootstrap=True,
        warm_start=True,  # grows on where it stopped, so that there is progress to show
        n_jobs=options.jobs,
        random_state=options.seed,
    )
    for n_trees in np.unique(np.linspace(0, options.trees, _STEPS + 1).astype(int))[1:]:
        forest.set_params(n_estimators=int(n_trees)).fit(encoded, target.y, sample_weight=weight)
        progress(int(n_trees))
    predicted = _predict_oob(forest, encoded, options.jobs)
    pipeline = Pipeline([("columns", encoder), ("model", forest)])
    classes = forest.classes_ if target.task == "classification" else None
    return Fitted(pipeline, X, target.y, weight, "oob", predicted, classes)


def _predict_oob(forest: Any, encoded: NDArray[np.float32], n_jobs: int) -> NDArray[np.float64]:
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


def fit_boosting(
    columns: list[Column],
    X: pd.DataFrame,
    target: Target,
    weight: NDArray[np.float64] | None,
    options: FitOptions,
    progress: Progress,
) -> Fitted:
    """Fit encoder and boosted trees to a part of the rows and hold the others out; arguments as of `fit_forest`."""
    is_classifier = target.task == "classification"
    # XGBoost knows classes by their numbers only.
    classes, y = np.unique(target.y, return_inverse=True) if is_classifier else (None, target.y)
    training, test = _split(y, classes, options)
    encoder = make_encoder(columns)
    encoded = encoder.fit_transform(X.iloc[training])
    make = _make_xgboost if options.model == "xgboost" else _make_lightgbm
    model, fit_options = make(is_classifier, options, progress)
    model.fit(encoded, y[training], sample_weight=None if weight is None else weight[training], **fit_options)
    pipeline, unseen = Pipeline([("columns", encoder), ("model", model)]), X.iloc[test].reset_index(drop=True)
    predicted = (pipeline.predict_proba if is_classifier else pipeline.predict)(unseen)
    return Fitted(
        pipeline,
        unseen,
        y[test],
        None if weight is None else weight[test],
        "heldout",
        np.asarray(predicted, dtype=np.float64),
        None if classes is None else np.arange(len(classes)),
    )


def _split(y: NDArray[Any], classes: NDArray[Any] | None, options: FitOptions) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows to fit and rows to judge, the classes in the same shares."""
    if classes is not None and np.bincount(y).min() < 2:
        rare = classes[np.bincount(y).argmin()]
        raise ValueError(
            f"--model {options.model} holds rows out and needs two rows of each class, got one of {str(rare)!r}; "
            "--model random-forest can do without."
        )
    rows = np.arange(len(y))
    stratify = None if classes is None else y
    training, test = train_test_split(rows, test_size=options.test_size, random_state=options.seed, stratify=stratify)
    return np.sort(training), np.sort(test)


def _make_xgboost(is_classifier: bool, options: FitOptions, progress: Progress) -> tuple[Any, dict[str, Any]]:
    import xgboost

    class Report(xgboost.callback.TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            del model, evals_log
            progress(epoch + 1)
            return False

    make = xgboost.XGBClassifier if is_classifier else xgboost.XGBRegressor
    model = make(
        n_estimators=options.trees,
        learning_rate=0.1,
        max_depth=options.max_depth,
        n_jobs=options.jobs,
        random_state=options.seed,
        callbacks=[Report()],
        verbosity=0,
    )
    return model, {}


def _make_lightgbm(is_classifier: bool, options: FitOptions, progress: Progress) -> tuple[Any, dict[str, Any]]:
    import lightgbm

    make = lightgbm.LGBMClassifier if is_classifier else lightgbm.LGBMRegressor
    model = make(
        n_estimators=options.trees,
        learning_rate=0.1,
        max_depth=-1 if options.max_depth is None else options.max_depth,
        n_jobs=options.jobs,
        random_state=options.seed,
        verbose=-1,
    )
    return model, {"callbacks": [lambda env: progress(env.iteration + 1)]}
