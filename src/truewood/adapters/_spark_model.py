"""`SparkModel`: a Spark ML model outside of Spark, from a saved folder or from a session."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from truewood._trees.ensemble import TreeEnsemble

FORESTS = ("RandomForestClassificationModel", "RandomForestRegressionModel")
TREES = ("DecisionTreeClassificationModel", "DecisionTreeRegressionModel")
BOOSTED = ("GBTClassificationModel", "GBTRegressionModel")
TREE_MODELS = (*FORESTS, *TREES, *BOOSTED)


@dataclass(frozen=True, eq=False)
class SparkModel:
    """A fitted stage of Spark ML: its settings, and what it has learned.

    Parameters
    ----------
    name : str
        Its class, without the package.
    version : str
        The version of Spark that saved it, or of the session that has it.
    params : dict
        Its params by name, defaults included.
    learned : dict, optional
        What it has learned, under Spark's own names: "labelsArray" of a StringIndexerModel, "categorySizes" of a
        OneHotEncoderModel.
    trees : TreeEnsemble or None, default=None
        Its trees, with node k of Spark as node k; None for a stage that has none.
    node_counts : ndarray of int64, shape (n_nodes,), or None, default=None
        Number of training rows at each node.
    stages : tuple of SparkModel, default=()
        The stages of a PipelineModel.
    live : object or None, default=None
        The model in a Spark session; None if it was loaded from a folder.
    """

    name: str
    version: str
    params: dict[str, Any]
    learned: dict[str, Any] = field(default_factory=dict)
    trees: TreeEnsemble | None = None
    node_counts: Any = None
    stages: tuple[SparkModel, ...] = ()
    live: Any = None

    def __getstate__(self) -> dict[str, Any]:
        # Session objects cannot be pickled; stages of other libraries, such as XGBoost, are plain Python.
        is_python = self.live is not None and not type(self.live).__module__.startswith("pyspark.")
        return {**self.__dict__, "live": self.live if is_python else None}

    def __repr__(self) -> str:
        inside = "" if self.trees is None else f", {self.trees!r}"
        inside += f", {len(self.stages)} stages" if self.stages else ""
        return f"SparkModel({self.name}, Spark {self.version}{inside})"


def read_spark_model(model: Any) -> SparkModel:
    """Read a fitted Spark ML stage, from a session or already loaded."""
    if isinstance(model, SparkModel):
        return model
    from truewood.adapters._spark_session import read_live

    return read_live(model)


def take_from_session(model: Any) -> Any:
    """Convert a fitted pyspark.ml stage to a `SparkModel`; return any other model unchanged."""
    return read_spark_model(model) if type(model).__module__.startswith("pyspark.ml.") else model
