"""Score the columns of a table: infer their types, fit or load a model, and compute importances."""

from truewood.tabular._checks.performance import ModelPerformance
from truewood.tabular._describe_table import ColumnDescription, describe_table
from truewood.tabular._errors import TableError
from truewood.tabular._files.reading import FileContent
from truewood.tabular._messages import Messages
from truewood.tabular._models.settings import FitSettings
from truewood.tabular._score_saved_model import score_saved_model
from truewood.tabular._score_table import score_table
from truewood.tabular._table_score import ColumnSummary, TableScore

__all__ = [
    "ColumnDescription",
    "ColumnSummary",
    "FileContent",
    "FitSettings",
    "Messages",
    "ModelPerformance",
    "TableError",
    "TableScore",
    "describe_table",
    "score_saved_model",
    "score_table",
]


def __dir__() -> list[str]:
    return list(__all__)
