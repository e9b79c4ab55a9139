"""From fitted models to trees: one module per library, chosen by the class path, imported when such a model appears.

An adapter is a module with a function ``open_model(model) -> ModelView``.
"""

from truewood.adapters.errors import AdapterError
from truewood.adapters.registry import open_model, register_adapter, to_ensemble
from truewood.adapters.training import Training, TrainingRows, WeightedDraws
from truewood.adapters.view import ModelView, TargetForm, TreeReader
from truewood.data.tables import TableForm

__all__ = [
    "AdapterError",
    "ModelView",
    "TableForm",
    "TargetForm",
    "Training",
    "TrainingRows",
    "TreeReader",
    "WeightedDraws",
    "open_model",
    "register_adapter",
    "to_ensemble",
]
