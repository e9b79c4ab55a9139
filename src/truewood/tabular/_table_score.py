"""The result of scoring a table: importances, the model they belong to, and how far to trust them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from truewood._correlated_groups import CorrelatedGroups
from truewood._formatting import ROWS_IN_WORDS, count, in_one_line
from truewood._results.explanation import Explanation
from truewood._results.importance_result import ImportanceResult
from truewood.tabular._checks.performance import ModelPerformance


@dataclass(frozen=True)
class ColumnSummary:
    """What a column was taken for.

    Parameters
    ----------
    name : str
        The name.
    dtype : str
        Such as "number", "category" or "identifier"; for a saved model the type of its values.
    is_used : bool
        Whether it is a feature.
    note : str or None
        What was assumed when it was read.
    """

    name: str
    dtype: str
    is_used: bool
    note: str | None = None


@dataclass(frozen=True, eq=False, repr=False)
class TableScore:
    """Scores of the columns of a table, and what belongs to them.

    Parameters
    ----------
    result : ImportanceResult
        The scores, with table, pictures and report.
    explanation : Explanation or None
        Which way each feature moved the prediction of the rows, or of 2,000 of them; None for models that cannot tell,
        and where rows were read in parts.
    X : DataFrame or None
        The columns as the model takes them: of the rows that scored it, or the first of them; None where Dask or Spark
        has read them.
    model : object
        The fitted model: a scikit-learn Pipeline of encoder and trees, of folds a list of these, or the saved model.
    model_name : str
        The name of the model, such as "random-forest".
    columns : list of ColumnSummary
        What each column that was looked at was taken for.
    performance : ModelPerformance or None
        How well the model predicts rows it never saw; None where that could not be measured.
    feature_groups : CorrelatedGroups or None
        Columns that were scored together, where that was asked for.
    messages : list of str
        What was done and assumed.
    warnings : list of str
        What makes the scores doubtful, such as a model that predicts no better than chance.
    """

    result: ImportanceResult
    explanation: Explanation | None
    X: pd.DataFrame | None
    model: Any
    model_name: str
    columns: list[ColumnSummary]
    performance: ModelPerformance | None
    feature_groups: CorrelatedGroups | None
    messages: list[str]
    warnings: list[str]

    def describe(self) -> str:
        """What was scored, in a line: model, trees, rows and measure."""
        result = self.result
        rows = f"{result.n_rows:,} {ROWS_IN_WORDS[result.rows]}"
        trees = count(result.n_trees, "tree")
        if result.per_fold is not None:
            trees += f" in {count(len(result.per_fold), 'fold')}"
        return f"{self.model_name}, {trees}, {rows}, {result.measure}"

    def __repr__(self) -> str:
        lines = [self.describe(), *map(str, [self.performance] * (self.performance is not None))]
        return "\n".join(map(in_one_line, [*lines, *(f"warning: {warning}" for warning in self.warnings)]))
