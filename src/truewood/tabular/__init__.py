"""From a table to understood columns, a fitted or loaded model and its scores, without the command line."""

from truewood.tabular.description import ColumnDescription, describe_table
from truewood.tabular.errors import TableError
from truewood.tabular.files import FileContent
from truewood.tabular.messages import Messages
from truewood.tabular.saved_model_importance import score_saved_model
from truewood.tabular.settings import FitSettings
from truewood.tabular.skill import Skill
from truewood.tabular.table_importance import score_table
from truewood.tabular.table_score import ColumnSummary, TableScore

__all__ = [
    "ColumnDescription",
    "ColumnSummary",
    "FileContent",
    "FitSettings",
    "Messages",
    "Skill",
    "TableError",
    "TableScore",
    "describe_table",
    "score_saved_model",
    "score_table",
]
