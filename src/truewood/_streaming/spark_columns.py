"""The columns of a Spark DataFrame that a model takes, including columns of vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from truewood._formatting import count, enumerate_names, quote
from truewood._pipelines.final_estimator import find_spark_pipeline
from truewood._streaming.model import Part, StreamingModel
from truewood._streaming.passes import choose_columns, make_part
from truewood.adapters import SparkModel


@dataclass(frozen=True)
class Columns:
    """Columns by role.

    Parameters
    ----------
    features : list of str
        Names of the features: columns, or elements of the vectors.
    vector : str or None
        The column that holds the features as vectors; None if each feature has its own column.
    targets, weights : list of str
        Target and weight columns.
    """

    features: list[str]
    vector: str | None
    targets: list[str]
    weights: list[str]

    @property
    def names(self) -> list[str]:
        """All columns of the frame, without duplicates."""
        features = self.features if self.vector is None else [self.vector]
        return list(dict.fromkeys([*features, *self.targets, *self.weights]))

    def without_features(self) -> Columns:
        """The target and weight columns only."""
        return replace(self, features=[], vector=None)

    def select(self, frame: Any) -> Any:
        """A frame with only these columns, with vectors as arrays; `read` restores the names.

        Some Spark functions refuse certain names, such as names with a dot.
        """
        places = [f"c{place}" for place in range(len(self.names))]
        chosen = frame.select(*(f"`{name.replace('`', '``')}`" for name in self.names)).toDF(*places)
        if self.vector is None or not _is_vector(frame, self.vector):
            return chosen
        from pyspark.ml.functions import vector_to_array

        place = places[self.names.index(self.vector)]
        return chosen.withColumn(place, vector_to_array(chosen[place]))

    def read(self, table: Any) -> Part:
        """Features, target and weights of an Arrow table of rows that `select` returned."""
        table = table.rename_columns(self.names)
        if self.vector is None:
            return make_part("", table, self.features, self.targets, self.weights)
        part = make_part("", table, [], self.targets, self.weights)
        return part._replace(X=_expand(table[self.vector], self.vector, self.features))


def find_columns(model: StreamingModel, frame: Any, targets: list[str], weights: list[str]) -> Columns:
    """The columns that a model takes: by its feature names, a column of vectors, or all others in their order."""
    given = [name for name in frame.columns if name not in (*targets, *weights)]
    vector = _find_vector(model.fitted)
    if vector not in given:
        vector = given[0] if len(given) == 1 else None
    spec = model.tree_model.table
    if vector is not None and (_is_vector(frame, vector) or _is_array(frame, vector)):
        names = (
            spec.names if spec.names is not None else _read_element_names(frame, vector, model.tree_model.n_features)
        )
        return Columns([str(name) for name in names], vector, targets, weights)
    features = choose_columns(model, frame.columns, [*targets, *weights])
    return Columns(features, None, targets, weights)


def _find_vector(model: Any) -> str | None:
    """The column of vectors that a Spark model is set to take."""
    pipeline = find_spark_pipeline(model)
    if pipeline is not None:
        return pipeline.features[0] if pipeline.inputs is None else None
    if isinstance(model, SparkModel):
        return str(model.params["featuresCol"])
    if hasattr(model, "getFeaturesCol"):  # such as XGBoost's
        return str(model.getFeaturesCol())
    return None


def _is_vector(frame: Any, name: str) -> bool:
    return type(frame.schema[name].dataType).__name__ == "VectorUDT"


def _is_array(frame: Any, name: str) -> bool:
    return type(frame.schema[name].dataType).__name__ == "ArrayType"


def _read_element_names(frame: Any, vector: str, n_elements: int) -> list[str]:
    """Names that Spark's VectorAssembler stored with the column, or positions."""
    kinds = frame.schema[vector].metadata.get("ml_attr", {}).get("attrs", {}).values()
    known = {element["idx"]: element.get("name") for kind in kinds for element in kind}
    names = [known.get(place) for place in range(n_elements)]
    is_whole = None not in names and len(set(names)) == n_elements
    return [str(name) for name in names] if is_whole else [f"{vector}[{place}]" for place in range(n_elements)]


def _expand(column: Any, name: str, features: list[str]) -> pd.DataFrame:
    """An Arrow column of arrays as a table with one column per element."""
    lists = column.combine_chunks()
    n_elements = np.unique(lists.drop_null().value_lengths().to_numpy(zero_copy_only=False))
    got = [f"vectors of {count(n, 'element')}" for n in n_elements.tolist() if n != len(features)]
    got += ["missing vectors"] if lists.null_count else []
    if got:
        raise ValueError(
            f"column {quote(name)} must hold vectors of {len(features)} elements, as the model expects, got "
            f"{enumerate_names(got)}."
        )
    values = lists.flatten().to_numpy(zero_copy_only=False).reshape(-1, len(features))
    return pd.DataFrame(values, columns=features)
