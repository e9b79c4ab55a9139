"""Spark ML's trees, forests and boosted trees, from a session or a saved folder.

Spark does not record the in-bag rows of a tree, so its forests can only be scored on held-out rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from truewood._formatting import quote
from truewood._inputs import losses
from truewood._inputs.losses import Floats, Loss, OfMean
from truewood._inputs.tables import InputSpec, read_features
from truewood._inputs.target import Target, TargetKind
from truewood._trees.ensemble import TreeEnsemble
from truewood.adapters._spark_model import BOOSTED, FORESTS, TREE_MODELS, TREES, SparkModel, read_spark_model
from truewood.adapters._training_record import InBagRows, TrainingRecord
from truewood.adapters._tree_model import ReferencePredictor, TargetSpec, TreeModel, TreeReader

_NOT_A_CATEGORY = -1.0


def open_model(model: Any) -> TreeModel:
    """Read a fitted pyspark.ml tree model, or one loaded by `load_spark_model`."""
    model = read_spark_model(model)
    ensemble = model.trees
    if ensemble is None:
        raise TypeError(f"model must be one of {', '.join(TREE_MODELS)} of Spark ML, got {model.name}.")
    loss, why_no_loss = _find_loss(model) if ensemble.is_additive else (None, None)
    is_classifier = model.name == "GBTClassificationModel"
    return TreeModel(
        table=_make_input_spec(model.name, ensemble),
        target=TargetSpec(
            TargetKind((np.arange(2),)) if is_classifier else ensemble.kind, loss=loss, why_no_loss=why_no_loss
        ),
        reader=TreeReader.of_ensemble(ensemble, library=None if model.live is None else _make_reference(model)),
        training=_record_training(model, ensemble),
        why_no_bags=_WHY_NO_BAGS[model.name],
    )


_WHY_NO_BAGS = {
    **dict.fromkeys(FORESTS, "does not record which rows a tree saw"),
    **dict.fromkeys(TREES, "was fit on all training rows"),
    **dict.fromkeys(BOOSTED, "fits each tree to the residuals of the trees before it, so there are no out-of-bag rows"),
}


def _logistic() -> Loss:
    """Spark's loss 2 log(1 + exp(-2 y F)) with y = -1 or 1. Target: four times the class, 0 or 1, minus its mean."""
    of_mean = OfMean(lambda y: 4.0 * y)
    return Loss(of_mean.make_target, of_mean=of_mean)


_LOSSES = {"squared": losses.squared_error, "absolute": losses.absolute_error, "logistic": _logistic}


def _find_loss(model: SparkModel) -> tuple[Loss | None, str | None]:
    name = model.params.get("lossType")
    if name in _LOSSES:
        return _LOSSES[name](), None
    return None, f"truewood has no target for lossType={quote(name)} of {model.name}"


def _make_input_spec(name: str, ensemble: TreeEnsemble) -> InputSpec:
    spec = InputSpec(name, ensemble.n_features, dtype="float64", takes_infinite=True)
    if ensemble.categories is None:
        return spec
    by_category = np.flatnonzero(ensemble.categories.node_set >= 0)
    columns = np.unique(ensemble.feature[by_category])

    def encode(X: Any) -> Any:
        """Replace fractions such as 1.5, which match no category in Spark, because engines would truncate them."""
        values = read_features(X, spec).values.copy()
        if sparse.issparse(values):
            is_fraction = np.isin(values.indices, columns) & (values.data % 1 != 0)
            values.data[is_fraction] = _NOT_A_CATEGORY
            return values
        categories = values[:, columns]
        categories[categories % 1 != 0] = _NOT_A_CATEGORY
        values[:, columns] = categories
        return values

    return InputSpec(name, ensemble.n_features, dtype="float64", takes_infinite=True, encode=encode)


def _make_reference(model: SparkModel) -> ReferencePredictor:
    """Spark's own leaves and, for boosted trees, raw predictions, one row per call."""
    from pyspark.ml.linalg import Vectors

    def call(method: str, values: NDArray[Any]) -> list[Any]:
        return [getattr(model.live, method)(Vectors.dense(row)) for row in values]

    def find_leaves(trees: range, values: NDArray[Any]) -> NDArray[Any]:
        leaves = np.array([np.atleast_1d(found) for found in call("predictLeaf", values)])
        return leaves[:, trees.start : trees.stop]

    def add_values(_trees: range, values: NDArray[Any]) -> NDArray[Any]:
        if model.name == "GBTRegressionModel":
            return np.array(call("predict", values))
        return np.array([raw[1] for raw in call("predictRaw", values)])

    return ReferencePredictor("Spark", model.version, add_values if model.name in BOOSTED else None, find_leaves)


def _record_training(model: SparkModel, ensemble: TreeEnsemble) -> TrainingRecord | None:
    """Training record if every tree was fit on all rows, otherwise None; weights are not recorded."""
    uses_every_row = model.name in TREES or (
        model.name in FORESTS and not model.params.get("bootstrap", True) and model.params["subsamplingRate"] == 1.0
    )
    n_rows = int(model.node_counts[0])
    if not uses_every_row or n_rows < 1:
        return None

    def training_rows(_tree: int, target: Target, _sample_weight: Floats | None) -> InBagRows:
        return InBagRows(np.arange(target.n_rows), np.ones(target.n_rows))

    return TrainingRecord(
        n_rows=n_rows,
        node_counts=lambda tree: model.node_counts[ensemble.offset[tree] : ensemble.offset[tree + 1]],
        training_rows=training_rows,
        has_weights=False,
    )
