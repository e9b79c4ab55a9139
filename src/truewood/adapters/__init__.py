"""From fitted models to trees: one module per library, chosen by the class path, imported when such a model appears.

An adapter is a module with a function ``open_model(model) -> ModelView``.
"""

from truewood.adapters.agreement import check_agreement
from truewood.adapters.errors import AdapterError
from truewood.adapters.registry import open_model, register_adapter, to_ensemble
from truewood.adapters.spark_folder import load_spark_model
from truewood.adapters.spark_model import SparkModel, find_spark_pipeline, read_spark_model, take_from_session
from truewood.adapters.training import BagSeeds, Training, TrainingRows, WeightedDraws
from truewood.adapters.view import Library, ModelView, TargetForm, TreeReader
from truewood.data.tables import TableForm

__all__ = [
    "AdapterError",
    "BagSeeds",
    "Library",
    "ModelView",
    "SparkModel",
    "TableForm",
    "TargetForm",
    "Training",
    "TrainingRows",
    "TreeReader",
    "WeightedDraws",
    "check_agreement",
    "find_spark_pipeline",
    "load_spark_model",
    "open_model",
    "read_spark_model",
    "register_adapter",
    "take_from_session",
    "to_ensemble",
]
