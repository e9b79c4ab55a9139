"""Refitting estimators: seeds for unseeded ones, their sample_weight argument, validation rows for early stopping."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline

from truewood._arguments import check_seed

# Seeds are smaller than this, which every library accepts.
N_SEEDS = np.iinfo(np.int32).max
# Parameters of XGBoost, LightGBM and CatBoost that stop a fit by the score on validation rows.
_STOPPING = (
    "early_stopping_rounds",
    "early_stopping_round",
    "early_stopping",
    "n_iter_no_change",
    "od_type",
    "od_pval",
    "od_wait",
)


def set_seeds(estimator: Any, random_state: Any) -> Any:
    """Seed an estimator, and its parts, if they have no seed."""
    parameters = sorted(estimator.get_params().items())
    unseeded = [name for name, value in parameters if name.rpartition("__")[2] == "random_state" and value is None]
    rng = check_seed(random_state)
    return estimator.set_params(**{name: rng.randint(N_SEEDS) for name in unseeded})


def name_weight(estimator: Any) -> str:
    """The fit argument for weights: a pipeline expects it prefixed by the name of its last step."""
    return f"{find_model(estimator)[0]}sample_weight"


def find_model(estimator: Any) -> tuple[str, Any]:
    """The model at the end of pipelines and searches, and the prefix of its fit arguments."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        prefix, model = find_model(last)
        return "" if _is_routed() else f"{name}__{prefix}", model
    if isinstance(estimator, GridSearchCV | RandomizedSearchCV):
        return find_model(estimator.estimator)
    return "", estimator


def _is_routed() -> bool:
    """Whether steps of a pipeline request their fit arguments, instead of finding them by a prefix."""
    return bool(get_config()["enable_metadata_routing"])


def needs_validation_rows(estimator: Any, params: Mapping[str, Any]) -> bool:
    """Whether a fit stops early and needs validation rows for that; scikit-learn's models split off their own.

    Parameters
    ----------
    estimator : object
        A model, a pipeline that ends in one, or a search over these.
    params : dict
        Arguments of its fit.
    """
    prefix, model = find_model(estimator)
    if not hasattr(model, "fit") or "eval_set" not in signature(model.fit).parameters:
        return False
    given = model.get_params() | {name.removeprefix(prefix): value for name, value in params.items()}
    callbacks = [type(callback).__name__ for callback in given.get("callbacks") or ()]
    return any(given.get(name) for name in _STOPPING) or any("EarlyStopping" in name for name in callbacks)


def list_validation_params(
    estimator: Any, params: Mapping[str, Any], train: tuple[Any, Any], validation: tuple[Any, Any], weight: Any
) -> dict[str, Any]:
    """Fit arguments that pass validation rows to the model at the end of an estimator.

    Parameters
    ----------
    estimator : object
        A model, a pipeline that ends in one, or a search over a model. The steps before the model are fit to the
        training rows, and encode the validation rows.
    params : dict
        Arguments of the fit to the training rows.
    train, validation : tuple of (X, y)
        Rows to fit to, and rows to stop by.
    weight : array-like or None
        Weights of the validation rows.
    """
    prefix, model = find_model(estimator)
    table, y = validation
    if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
        encoder = clone(estimator[:-1])
        if _is_routed():
            earlier = encoder.get_metadata_routing().consumes("fit", params)
        else:
            earlier = [name for name in params if not name.startswith(f"{estimator.steps[-1][0]}__")]
        table = encoder.fit(*train, **{name: params[name] for name in earlier}).transform(table)
    elif not isinstance(estimator, Pipeline) and isinstance(getattr(estimator, "estimator", None), Pipeline):
        raise ValueError(
            "estimator, which stops early, must be a model, a Pipeline that ends in one, or a search over a model, got "
            f"{type(estimator).__name__} over a Pipeline; put the search into the Pipeline, or turn off early stopping."
        )
    names = signature(model.fit).parameters
    listed: dict[str, Any] = {"eval_X": table, "eval_y": y} if "eval_X" in names else {"eval_set": [(table, y)]}
    if "sample_weight_eval_set" in names:
        listed["verbose"] = False  # XGBoost prints the score of each round otherwise
    if weight is not None:
        weights = ("sample_weight_eval_set", "eval_sample_weight")
        listed |= {name: [weight] for name in weights if name in names}
    return {f"{prefix}{name}": value for name, value in listed.items()}
