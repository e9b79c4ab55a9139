"""Adapters: how truewood reads the trees of a fitted model.

An adapter is a module with a function ``open_model(model) -> TreeModel``, chosen by the model's class and imported when
such a model appears. `register_adapter` or an installed package adds one; `truewood.testing.check_adapter` checks it.
"""

from truewood._exceptions import AdapterError
from truewood._inputs.losses import Loss
from truewood._inputs.tables import InputSpec
from truewood._inputs.target import TargetKind
from truewood._trees.categories import Categories
from truewood._trees.ensemble import TreeArrays, TreeEnsemble
from truewood.adapters._registry import open_model, register_adapter, to_ensemble
from truewood.adapters._spark_model import SparkModel
from truewood.adapters._spark_saved import load_spark_model
from truewood.adapters._training_record import BagSeeds, InBagRows, TrainingRecord, WeightedDraws
from truewood.adapters._tree_model import ReferencePredictor, TargetSpec, TreeModel, TreeReader

__all__ = [
    "AdapterError",
    "BagSeeds",
    "Categories",
    "InBagRows",
    "InputSpec",
    "Loss",
    "ReferencePredictor",
    "SparkModel",
    "TargetKind",
    "TargetSpec",
    "TrainingRecord",
    "TreeArrays",
    "TreeEnsemble",
    "TreeModel",
    "TreeReader",
    "WeightedDraws",
    "load_spark_model",
    "open_model",
    "register_adapter",
    "to_ensemble",
]


def __dir__() -> list[str]:
    return list(__all__)
