"""`SavedModel`: a fitted model with its columns, classes, category levels and predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._engines.records import RowLists
from truewood._inputs.tables import read_features
from truewood._pipelines.spark_stages import SparkPipeline
from truewood.adapters import SparkModel, open_model
from truewood.adapters._spark_model import read_spark_model
from truewood.tabular._errors import UnusableModelError

# CatBoost losses with a log link.
_LOG_LINKS = ("Poisson", "Tweedie", "LogLinQuantile")


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A fitted model and the input it expects.

    Parameters
    ----------
    model : object
        The model, as `importance` accepts it.
    library : {"XGBoost", "LightGBM", "CatBoost", "Spark", "estimator"}
        The library; "estimator" is anything with the scikit-learn API.
    columns : list of str, or None
        Column names in order; None if the model does not know them.
    n_columns : int
        Number of columns.
    classes : ndarray or None
        Class labels; None for regression.
    predict : callable
        ``predict(X)`` returns numbers or class probabilities; see `predict_probabilities`.
    levels : dict
        Categorical columns and their levels; None for levels that the model does not list.
    spell : callable
        ``spell(name)`` returns a column name as the model spells it.
    """

    model: Any
    library: str
    columns: list[str] | None
    n_columns: int
    classes: NDArray[Any] | None
    predict: Callable[[pd.DataFrame], Any]
    levels: dict[str, Sequence[Any] | None]
    spell: Callable[[str], str] = str

    @property
    def name(self) -> str:
        """Class name of the model in its library."""
        return self.model.name if isinstance(self.model, SparkModel) else type(self.model).__name__

    def predict_probabilities(self, X: pd.DataFrame) -> NDArray[np.float64]:
        """Predict numbers, or probabilities with a column per class."""
        values = np.asarray(self.predict(X), dtype=np.float64)
        if self.classes is None or values.ndim == 2:
            return values
        if len(self.classes) == 2:
            return np.column_stack([1.0 - values, values])
        return np.asarray(values[:, np.newaxis] == np.arange(len(self.classes)), dtype=np.float64)


def view_model(model: Any) -> SavedModel:
    """View a fitted model of any library."""
    library, class_name = type(model).__module__.partition(".")[0], type(model).__name__
    if isinstance(model, SparkModel):
        return view_spark(model)
    if library == "pyspark":
        return view_spark(read_spark_model(model))
    if library == "catboost":
        return view_catboost(model)
    if class_name == "Booster" and library == "xgboost":
        return view_xgboost(model)
    if class_name == "Booster" and library == "lightgbm":
        return view_lightgbm(model)
    return view_estimator(model)


def view_estimator(model: Any) -> SavedModel:
    """View a fitted estimator with the scikit-learn API."""
    if not hasattr(model, "predict") or not hasattr(model, "n_features_in_"):
        missing, remedy = ("n_features_in_", "; call its fit first") if hasattr(model, "predict") else ("predict", "")
        raise UnusableModelError(
            f"must be a fitted model with the scikit-learn API, but this {type(model).__name__} has no "
            f"{missing}{remedy}."
        )
    names = getattr(model, "feature_names_in_", None)
    classes = getattr(model, "classes_", None)
    return SavedModel(
        model=model,
        library="estimator",
        columns=None if names is None else [str(name) for name in names],
        n_columns=int(model.n_features_in_),
        classes=None if classes is None else np.asarray(classes),
        predict=model.predict if classes is None else model.predict_proba,
        levels={},
    )


def view_xgboost(booster: Any, n_iterations: int = 0) -> SavedModel:
    """View an XGBoost Booster that predicts with the first iterations; 0 for all."""
    from truewood.adapters._xgboost import read_levels

    levels = read_levels(booster)
    if levels is None:
        raise UnusableModelError(
            "has categorical columns but does not store their levels; score it with truewood.importance()."
        )
    return _view_booster(booster, "XGBoost", partial(_predict_xgboost, booster, n_iterations), levels)


def _predict_xgboost(booster: Any, n_iterations: int, X: pd.DataFrame) -> Any:
    import xgboost

    matrix = xgboost.DMatrix(X, enable_categorical=True)
    return booster.predict(matrix, iteration_range=(0, n_iterations))


def view_lightgbm(booster: Any) -> SavedModel:
    """View a LightGBM Booster."""
    from truewood.adapters._lightgbm import read_levels

    levels = read_levels(booster)
    if levels is None:
        raise UnusableModelError(
            "has categorical columns but does not record which ones; score it with truewood.importance()."
        )
    return _view_booster(booster, "LightGBM", booster.predict, levels)


def _view_booster(
    booster: Any, library: str, predict: Callable[[pd.DataFrame], Any], levels: dict[str, Sequence[Any] | None]
) -> SavedModel:
    """View a model by what its adapter declares."""
    tree_model = open_model(booster)
    table, kind = tree_model.table, tree_model.target.kind
    return SavedModel(
        model=booster,
        library=library,
        columns=None if table.names is None else [str(name) for name in table.names],
        n_columns=int(table.n_features or 0),
        classes=kind.classes[0] if kind.is_classification else None,
        predict=predict,
        levels=levels,
        spell=table.spell,
    )


def view_catboost(model: Any) -> SavedModel:
    """View a CatBoost model."""
    names = [str(name) for name in model.feature_names_ or []]
    if not names:
        raise UnusableModelError("is a CatBoost model without columns; fit it and save it again.")
    classes = np.asarray(model.classes_)
    is_named = names != [str(j) for j in range(len(names))]
    kind = "Probability" if len(classes) else "RawFormulaVal"
    if str(model.get_all_params().get("loss_function")).partition(":")[0] in _LOG_LINKS:
        kind = "Exponent"
    return SavedModel(
        model=model,
        library="CatBoost",
        columns=names if is_named else None,
        n_columns=len(names),
        classes=classes if len(classes) else None,
        predict=lambda X: model.predict(X, prediction_type=kind),
        levels={names[j]: None for j in model.get_cat_feature_indices()},
    )


def view_spark(model: SparkModel) -> SavedModel:
    """View a Spark ML tree model, or a PipelineModel that contains one."""
    pipeline = SparkPipeline(model) if model.stages else None
    trees = model if pipeline is None else pipeline.model
    if trees.trees is None:
        raise UnusableModelError(
            f"is a Spark ML model without trees, a {trees.name}; pass a tree, a forest, boosted trees, or a "
            "PipelineModel that ends in one."
        )
    inputs = None if pipeline is None else pipeline.inputs
    return SavedModel(
        model=model,
        library="Spark",
        columns=inputs,
        n_columns=trees.trees.n_features if inputs is None else len(inputs),
        classes=_find_spark_classes(trees, None if pipeline is None else pipeline.labels),
        predict=partial(_predict_spark, trees, None if inputs is None else pipeline),
        levels={},
    )


def _find_spark_classes(trees: SparkModel, labels: list[str] | None) -> NDArray[Any] | None:
    kind = open_model(trees).target.kind
    if not kind.is_classification:
        return None
    if labels is None:
        return kind.classes[0]
    # Spark stores numeric labels as text.
    numbers = pd.to_numeric(pd.Series(labels, dtype=object), errors="coerce").to_numpy()
    return np.asarray(labels) if np.isnan(numbers).any() else numbers


def _predict_spark(model: SparkModel, pipeline: SparkPipeline | None, X: pd.DataFrame) -> NDArray[np.float64]:
    """Predict without Spark: the mean over trees, or the inverse link of their sum for boosted trees."""
    tree_model = open_model(model)
    matrix = read_features(X if pipeline is None else pipeline.run(X)[0], tree_model.table)
    rows = RowLists.join([np.arange(matrix.n_rows)])
    summed = np.zeros((matrix.n_rows, tree_model.read(range(1)).kind.n_columns))
    for tree in range(tree_model.n_trees):
        trees = range(tree, tree + 1)
        ensemble = tree_model.read(trees)
        summed += ensemble.value[tree_model.find_leaves(trees, ensemble, matrix, rows)]
    is_classifier = tree_model.target.kind.is_classification
    if not tree_model.is_additive:
        summed /= tree_model.n_trees
        return summed if is_classifier else summed[:, 0]
    return 1.0 / (1.0 + np.exp(-2.0 * summed[:, 0])) if is_classifier else summed[:, 0]
