"""`TableScore`: importances of the columns of a table, the model, and how far to trust them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from truewood._correlated_groups import CorrelatedGroups
from truewood._formatting import ROWS_IN_WORDS, count, in_one_line
from truewood._message import as_message
from truewood._results.explanation import Explanation
from truewood._results.importance_result import ImportanceResult
from truewood._results.interactions import Interactions
from truewood.tabular._checks.performance import ModelPerformance


@dataclass(frozen=True)
class ColumnSummary:
    """The type of a column.

    Parameters
    ----------
    name : str
        The name.
    dtype : str
        The inferred type, such as "number", "category" or "identifier", or "possible leak" for a column that nearly
        determines the target; for a saved model, the dtype of the data frame.
    is_used : bool
        Whether it is a feature.
    note : str or None, default=None
        What was assumed when it was read.
    """

    name: str
    dtype: str
    is_used: bool
    note: str | None = None


@dataclass(frozen=True, eq=False, repr=False)
class TableScore:
    """Importances of the columns of a table.

    Parameters
    ----------
    result : ImportanceResult
        The importances.
    explanation : Explanation or None
        The effect of each feature on the predictions for the rows, or for a sample of 2,000; None if the model cannot
        be explained or rows were read in parts.
    X : DataFrame or None
        The features of the evaluation rows, or of the first batch; None if Dask or Spark read the rows.
    model : object
        The fitted model: a scikit-learn Pipeline of encoder and trees, a list of them for folds, or the saved model.
    model_name : str
        The name of the model, such as "random-forest".
    columns : list of ColumnSummary
        The type of each column.
    performance : ModelPerformance or None
        How well the model predicts evaluation rows; None if that could not be measured.
    feature_groups : CorrelatedGroups or None
        Columns that were scored together, if `group_correlated` was given.
    messages : list of str
        What was done and assumed.
    warnings : list of str
        Reasons to doubt the scores, such as a model that is no better than chance.
    interactions : Interactions or None, default=None
        Which pairs of features work together; None unless requested.
    target : str or None, default=None
        Name of the target, for reports.
    data : str or None, default=None
        Name of the file with the table, for reports; None for a data frame.
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
    interactions: Interactions | None = None
    target: str | None = None
    data: str | None = None

    @property
    def notes(self) -> list[str]:
        """The messages for the report: `messages` without the model performance and without suggested arguments."""
        return [as_message(text).text for text in self.messages if text != str(self.performance)]

    def describe(self) -> str:
        """Describe model, trees, rows and measure in one line."""
        result = self.result
        rows = f"{result.n_rows:,} {ROWS_IN_WORDS[result.rows]}"
        trees = count(result.n_trees, "tree")
        if result.per_fold is not None:
            trees += f" in {count(len(result.per_fold), 'fold')}"
        return f"{self.model_name}, {trees}, {rows}, measure {result.measure}"

    def report(self, path: str | os.PathLike[str], *, title: str | None = None, alpha: float = 0.05) -> None:
        """Write the HTML report, with performance, notes and warnings.

        Parameters
        ----------
        path : str or path
            The file to write.
        title : str, default=None
            The heading; None means that of `ImportanceResult.report`.
        alpha : float, default=0.05
            Significance level for p-values adjusted by the Benjamini-Hochberg procedure.
        """
        write_score_report(self, path, title=title, alpha=alpha, render=str)

    def __repr__(self) -> str:
        lines = [*(f"warning: {warning}" for warning in self.warnings), self.describe()]
        return "\n".join(map(in_one_line, [*lines, *map(str, [self.performance] * (self.performance is not None))]))


def write_score_report(
    score: TableScore,
    path: str | os.PathLike[str],
    *,
    title: str | None,
    alpha: float = 0.05,
    render: Callable[[str], str],
) -> None:
    """Write the HTML report of a score; `render` writes warnings with the arguments that they suggest."""
    score.result.report(
        path,
        X=score.X,
        feature_groups=score.feature_groups,
        title=title,
        performance=None if score.performance is None else score.performance.describe(),
        notes=score.notes,
        warnings=list(map(render, score.warnings)),
        explanation=score.explanation,
        interactions=score.interactions,
        target=score.target,
        data=score.data,
        alpha=alpha,
    )
