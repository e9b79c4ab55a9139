"""Use of scikit-learn beyond its public API, and differences between its releases, in one place."""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray

SKLEARN_VERSION = tuple(map(int, sklearn.__version__.split(".")[:2]))
# Since then weights are the probabilities of draws; before, they multiplied the number of draws of a row.
WEIGHTS_ARE_DRAWN = SKLEARN_VERSION >= (1, 9)
# Before, trees routed missing values differently in prediction and training (scikit-learn/scikit-learn#32351).
MISSING_IS_TRUSTED = SKLEARN_VERSION >= (1, 8)


@contextmanager
def keep_warning_filters() -> Iterator[None]:
    """Keep the warning filters of this process while forests are fit in threads.

    Since scikit-learn 1.7 these threads overwrite each other's filters, which are global. They may leave none behind,
    and then every task of a forest warns that filters are missing (scikit-learn/scikit-learn#32631).
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # several threads would overwrite each other's filters here, too
        return
    with warnings.catch_warnings(record=True) as caught:
        yield
    for issued in caught:
        if "`sklearn.utils.parallel.delayed` should be used with" not in str(issued.message):
            warnings.warn_explicit(issued.message, issued.category, issued.filename, issued.lineno)


def count_training_rows(ensemble: Any) -> int:
    """Number of rows that a forest or Bagging was fit on."""
    return int(ensemble._n_samples)


def draw_bag(forest: Any, tree: int) -> NDArray[Any]:
    """Training rows of one tree: the public `estimators_samples_` of a forest that has only this tree."""
    alone = copy.copy(forest)
    alone.estimators_ = [forest.estimators_[tree]]
    bag: NDArray[Any] = alone.estimators_samples_[0]
    return bag


def draw_unrecorded_bag(forest: Any, tree: int, n_rows: int, n_drawn: int) -> NDArray[Any]:
    """Training rows of one tree of a forest that does not record the numbers of rows and draws."""
    completed = copy.copy(forest)
    completed._n_samples, completed._n_samples_bootstrap, completed._sample_weight = n_rows, n_drawn, None
    return draw_bag(completed, tree)


def find_draw_weights(ensemble: Any) -> NDArray[np.float64] | None:
    """Weights by which a forest or Bagging drew rows into its bags; None if all rows had the same probability."""
    weight = getattr(ensemble, "_sample_weight", None) if WEIGHTS_ARE_DRAWN else None
    return None if weight is None else np.asarray(weight, dtype=np.float64)


def count_draws(ensemble: Any) -> int:
    """Number of draws per bag of a forest or Bagging."""
    return int(ensemble._max_samples if hasattr(ensemble, "_max_samples") else ensemble._n_samples_bootstrap)


def draw_bagging_bag(bagging: Any, tree: int) -> NDArray[Any]:
    """Training rows of one tree of a Bagging ensemble."""
    alone = copy.copy(bagging)
    alone._seeds = bagging._seeds[tree : tree + 1]
    bag: NDArray[Any] = alone.estimators_samples_[0]
    return bag


def has_all_bagging_bags(bagging: Any) -> bool:
    """Whether the seeds of all bags are recorded: a warm start keeps those of its last trees only."""
    return len(bagging._seeds) == len(bagging.estimators_)


def add_stages(model: Any, X: NDArray[np.float32]) -> NDArray[np.float64]:
    """Raw scores of GradientBoosting, shape (n_rows, n_scores), minus those of a non-constant initial estimator."""
    raw: NDArray[np.float64] = model._raw_predict(X)
    first = model._raw_predict_init(X)
    return raw if not np.ptp(first, axis=0).any() else raw - first


def add_predictors(model: Any, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Raw scores of HistGradientBoosting, shape (n_rows, n_scores); X is encoded."""
    known, row_of = list_known_categories(model)
    X = np.ascontiguousarray(X)
    stages = [[tree.predict(X, known, row_of, n_threads=1) for tree in stage] for stage in model._predictors]
    raw: NDArray[np.float64] = np.sum(stages, axis=0).T + model._baseline_prediction
    return raw


def list_predictors(model: Any) -> list[Any]:
    """The trees of HistGradientBoosting, stage by stage; their nodes are structured arrays."""
    return [predictor for stage in model._predictors for predictor in stage]


def list_known_categories(model: Any) -> tuple[NDArray[np.uint32], NDArray[Any]]:
    """Categories that HistGradientBoosting was fit on, as bitsets, and the bitset of each column."""
    known, row_of = model._bin_mapper.make_known_categories_bitsets()
    return known, row_of


def encode_categories(model: Any, X: Any) -> NDArray[Any]:
    """X as encoded by `predict` of HistGradientBoosting, categories before numbers."""
    encoded: NDArray[Any] = model._preprocess_X(X, reset=False)
    return encoded


def list_nodes(tree: Any) -> NDArray[Any]:
    """Nodes of an inner tree of scikit-learn, as a structured array."""
    nodes: NDArray[Any] = tree.__getstate__()["nodes"][: tree.node_count]
    return nodes


def count_categories(tree: Any) -> NDArray[np.int64]:
    """Number of categories of each column of an inner tree, negative for columns of numbers."""
    counts: NDArray[np.int64] = tree._n_categories
    return counts


def list_tree_categories(tree: Any) -> list[NDArray[Any]]:
    """Categories that a fitted tree knows, one array per categorical column."""
    known: list[NDArray[Any]] = tree._categorical_encoder.categories_
    return known


def encode_tree_categories(model: Any, X: Any) -> NDArray[np.float32]:
    """X as encoded by `predict` of a tree or a forest with categorical features."""
    options = {"check_input": True} if hasattr(model, "tree_") else {}
    encoded: NDArray[np.float32] = model._validate_X_predict(X, **options)
    return encoded
