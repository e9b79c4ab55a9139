"""Saved models of Spark ML: what they tell of their columns and classes, and their predictions without Spark."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._engines.row_lists import RowLists
from truewood._inputs.tables import read_features
from truewood._pipelines.spark_stages import SparkPipeline
from truewood.adapters import SparkModel, open_model
from truewood.tabular._errors import UnusableModelError
from truewood.tabular._models.saved_model import SavedModel


def view_spark(model: SparkModel) -> SavedModel:
    """A tree model of Spark ML, or a PipelineModel that has one."""
    pipeline = SparkPipeline(model) if model.stages else None
    trees = model if pipeline is None else pipeline.model
    if trees.trees is None:
        raise UnusableModelError(f"is a model of Spark ML without trees that truewood reads, {trees.name}.")
    inputs = None if pipeline is None else pipeline.inputs
    return SavedModel(
        model=model,
        library="Spark",
        columns=inputs,
        n_columns=trees.trees.n_features if inputs is None else len(inputs),
        classes=_find_classes(trees, None if pipeline is None else pipeline.labels),
        predict=partial(_predict, trees, None if inputs is None else pipeline),
        levels={},
    )


def _find_classes(trees: SparkModel, labels: list[str] | None) -> NDArray[Any] | None:
    kind = open_model(trees).target.kind
    if not kind.is_classification:
        return None
    if labels is None:
        return kind.classes[0]
    # The labels of numbers are texts to Spark.
    numbers = pd.to_numeric(pd.Series(labels, dtype=object), errors="coerce").to_numpy()
    return np.asarray(labels) if np.isnan(numbers).any() else numbers


def _predict(model: SparkModel, pipeline: SparkPipeline | None, X: pd.DataFrame) -> NDArray[np.float64]:
    """Numbers, or probabilities: means over trees, or what their sum stands for where they are boosted."""
    view = open_model(model)
    matrix = read_features(X if pipeline is None else pipeline.run(X)[0], view.table)
    rows = RowLists.join([np.arange(matrix.n_rows)])
    summed = np.zeros((matrix.n_rows, view.read(range(1)).kind.n_columns))
    for tree in range(view.n_trees):
        trees = range(tree, tree + 1)
        ensemble = view.read(trees)
        summed += ensemble.value[view.find_leaves(trees, ensemble, matrix, rows)]
    if not view.is_additive:
        summed /= view.n_trees
        return summed if view.target.kind.is_classification else summed[:, 0]
    return 1.0 / (1.0 + np.exp(-2.0 * summed[:, 0])) if view.target.kind.is_classification else summed[:, 0]
