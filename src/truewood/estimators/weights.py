"""By which name weights of rows reach the model within an estimator."""

from __future__ import annotations

from typing import Any

from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline


def name_weight(estimator: Any) -> str:
    """The name by which weights reach the model: a pipeline passes them on by the name of its step."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return f"{name}__{name_weight(last)}"
    if isinstance(estimator, GridSearchCV | RandomizedSearchCV):
        return name_weight(estimator.estimator)
    return "sample_weight"
