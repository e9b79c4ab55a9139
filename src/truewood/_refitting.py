"""Refitting estimators: seeds for unseeded ones, and the name of their sample_weight argument."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline

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
