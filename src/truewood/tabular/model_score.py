"""Scoring a fitted model with the rows that judge it: importances, skill, and the verdict."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from truewood.estimators.cross_validation import cross_importance
from truewood.formulas.registry import measures
from truewood.front_door import importance
from truewood.result.correlated_groups import CorrelatedGroups, correlated_groups
from truewood.result.importance_result import ImportanceResult
from truewood.tabular.errors import TableError
from truewood.tabular.fitting import Fitted
from truewood.tabular.judgement import judge_model
from truewood.tabular.messages import Messages
from truewood.tabular.skill import measure_skill
from truewood.tabular.table_score import ColumnSummary, TableScore


@dataclass(frozen=True)
class Scoring:
    """How to score: the measure and its seed, what to keep, threads, and the p-value that is called significant."""

    measure: str
    contributions: bool
    group_correlated: float | None
    alpha: float
    random_state: int
    n_jobs: int | None

    def __post_init__(self) -> None:
        if self.measure not in measures():
            raise TableError(f"must be one of {', '.join(measures())}, got {self.measure!r}.", "measure")
        if self.group_correlated is not None and not 0 < self.group_correlated < 1:
            raise TableError(f"must be a number between 0 and 1, got {self.group_correlated}.", "group_correlated")
        if not 0 < self.alpha < 1:
            raise TableError(f"must be a number between 0 and 1, got {self.alpha}.", "alpha")


def score_model(
    fitted: Fitted,
    *,
    model_name: str,
    columns: list[ColumnSummary],
    rows_in_words: str,
    scoring: Scoring,
    messages: Messages,
    may_be_too_deep: bool,
) -> TableScore:
    """Score a fitted model, and say how far to trust the scores.

    Parameters
    ----------
    fitted : Fitted
        The model, and the rows that judge it.
    model_name, columns : str, list of ColumnSummary
        As of `TableScore`.
    rows_in_words : str
        Which rows judge the model.
    scoring : Scoring
        How to score.
    messages : Messages
        Hears warnings and the verdict.
    may_be_too_deep : bool
        Whether nothing but the number of rows limits the depth of the trees.
    """
    groups = None
    if scoring.group_correlated is not None:
        groups = correlated_groups(fitted.X, threshold=scoring.group_correlated)
        messages.add(groups.describe())
    result = _compute_importance(fitted, scoring, groups, messages)
    skill = measure_skill(
        fitted.y, fitted.predicted, fitted.classes, fitted.weight, rows_in_words, row_groups=fitted.row_groups
    )
    judge_model(skill, result.total_p_value, messages, alpha=scoring.alpha, may_be_too_deep=may_be_too_deep)
    return TableScore(
        result=result,
        X=fitted.X,
        model=fitted.model,
        model_name=model_name,
        columns=columns,
        skill=skill,
        groups=groups,
        messages=list(messages.messages),
        warnings=list(messages.warnings),
    )


def _compute_importance(
    fitted: Fitted, scoring: Scoring, groups: CorrelatedGroups | None, messages: Messages
) -> ImportanceResult:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        options: dict[str, Any] = {
            "measure": scoring.measure,
            "sample_weight": fitted.weight,
            "row_groups": fitted.row_groups,
            "groups": groups,
            "inference": "rows" if scoring.contributions else True,
            "random_state": scoring.random_state,
        }
        if fitted.rows == "folds":
            training, test = zip(*fitted.splits, strict=True)
            fits = {"estimator": fitted.model, "indices": {"train": training, "test": test}}
            result = cross_importance(fits, fitted.X, fitted.y, **options, progress=False)
        else:
            result = importance(fitted.model, fitted.X, fitted.y, **options, rows=fitted.rows, n_jobs=scoring.n_jobs)
    for text in dict.fromkeys(str(warning.message) for warning in caught if warning.category is UserWarning):
        messages.warn(text)
    return result
