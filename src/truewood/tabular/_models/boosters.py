"""Fit boosted trees of any library and report progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from truewood._arguments import check_n_jobs
from truewood.tabular._models.settings import FitSettings

# ``progress(n_done, n_trees)``
Progress = Callable[[int, int], None]

_LEARNING_RATE = 0.1
# scikit-learn bins all rows again at each step.
_STEPS = 5


def fit_booster(
    encoded: NDArray[np.float64],
    y: NDArray[Any],
    weight: NDArray[np.float64] | None,
    task: str,
    settings: FitSettings,
    progress: Progress,
) -> Any:
    """Fit boosted trees.

    Parameters
    ----------
    encoded : ndarray of shape (n_rows, n_columns)
        The encoded rows.
    y : ndarray of shape (n_rows,)
        The target; integer codes for classes.
    weight : ndarray of shape (n_rows,), or None
        Row weights.
    task : {"classification", "regression"}
        The task.
    settings : FitSettings
        The model.
    progress : callable
        ``progress(n_done, n_trees)`` is called as trees are grown.
    """
    return _FITS[settings.model](encoded, y, weight, task == "classification", settings, progress)


def _fit_xgboost(
    encoded: Any, y: Any, weight: Any, is_classifier: bool, settings: FitSettings, progress: Progress
) -> Any:
    import xgboost

    class Report(xgboost.callback.TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            del model, evals_log
            progress(epoch + 1, settings.count_trees())
            return False

    model = (xgboost.XGBClassifier if is_classifier else xgboost.XGBRegressor)(
        n_estimators=settings.count_trees(),
        learning_rate=_LEARNING_RATE,
        max_depth=settings.max_depth,
        n_jobs=settings.n_jobs,
        random_state=settings.random_state,
        callbacks=[Report()],
        verbosity=0,
    )
    model.fit(encoded, y, sample_weight=weight)
    return model.set_params(callbacks=None)  # they cannot be pickled


def _fit_lightgbm(
    encoded: Any, y: Any, weight: Any, is_classifier: bool, settings: FitSettings, progress: Progress
) -> Any:
    import lightgbm

    leaves: dict[str, Any] = (
        {} if settings.min_samples_leaf is None else {"min_child_samples": settings.min_samples_leaf}
    )
    model = (lightgbm.LGBMClassifier if is_classifier else lightgbm.LGBMRegressor)(
        n_estimators=settings.count_trees(),
        learning_rate=_LEARNING_RATE,
        max_depth=-1 if settings.max_depth is None else settings.max_depth,
        n_jobs=settings.n_jobs,
        random_state=settings.random_state,
        verbose=-1,
        **leaves,
    )
    report = [lambda env: progress(env.iteration + 1, settings.count_trees())]
    return model.fit(encoded, y, sample_weight=weight, callbacks=report)


def _fit_catboost(
    encoded: Any, y: Any, weight: Any, is_classifier: bool, settings: FitSettings, progress: Progress
) -> Any:
    import catboost

    class Report:
        def after_iteration(self, info: Any) -> bool:
            progress(info.iteration, settings.count_trees())
            return True  # continue

    model = (catboost.CatBoostClassifier if is_classifier else catboost.CatBoostRegressor)(
        n_estimators=settings.count_trees(),
        learning_rate=_LEARNING_RATE,
        max_depth=settings.max_depth,
        thread_count=check_n_jobs(settings.n_jobs),
        random_seed=settings.random_state,
        allow_writing_files=False,
        verbose=0,
    )
    return model.fit(encoded, y, sample_weight=weight, callbacks=[Report()])


def _fit_hist_gradient_boosting(
    encoded: Any, y: Any, weight: Any, is_classifier: bool, settings: FitSettings, progress: Progress
) -> Any:
    leaves: dict[str, Any] = (
        {} if settings.min_samples_leaf is None else {"min_samples_leaf": settings.min_samples_leaf}
    )
    model = (HistGradientBoostingClassifier if is_classifier else HistGradientBoostingRegressor)(
        learning_rate=_LEARNING_RATE,
        max_depth=settings.max_depth,
        early_stopping=False,  # it would hold out rows, and only in large tables
        random_state=settings.random_state,
        warm_start=True,  # adds trees to the existing ones
        **leaves,
    )
    n_trees = settings.count_trees()
    with threadpool_limits(check_n_jobs(settings.n_jobs), user_api="openmp"):
        for n_grown in np.unique(np.linspace(0, n_trees, _STEPS + 1).astype(int))[1:]:
            model.set_params(max_iter=int(n_grown)).fit(encoded, y, sample_weight=weight)
            progress(int(n_grown), n_trees)
    return model.set_params(warm_start=False)


_FITS: dict[str, Callable[..., Any]] = {
    "xgboost": _fit_xgboost,
    "lightgbm": _fit_lightgbm,
    "catboost": _fit_catboost,
    "hist-gradient-boosting": _fit_hist_gradient_boosting,
}
