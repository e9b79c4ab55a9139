"""Scoring a fitted model with the rows that judge it: importances, performance, and the verdict."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._arguments import check_n_jobs, is_choice, is_fraction, read_flag
from truewood._correlated_groups import CorrelatedGroups, correlated_groups
from truewood._cross_importance import cross_importance
from truewood._explain import explain
from truewood._formatting import quote
from truewood._importance import importance
from truewood._measures.registry import measures
from truewood._results.explanation import Explanation
from truewood._results.importance_result import ImportanceResult
from truewood.adapters import open_model
from truewood.tabular._checks.performance import measure_performance
from truewood.tabular._checks.quality import check_quality
from truewood.tabular._errors import TableError
from truewood.tabular._messages import Messages
from truewood.tabular._models.fitting import Fitted
from truewood.tabular._table_score import ColumnSummary, TableScore

# Rows whose predictions are explained; of more, so many are drawn.
_MOST_EXPLAINED = 2_000


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
        if not is_choice(self.measure, measures()):
            raise TableError(f"must be one of {', '.join(measures())}, got {quote(self.measure)}.", "measure")
        if self.group_correlated is not None and not is_fraction(self.group_correlated):
            raise TableError(
                f"must be a number between 0 and 1, got {quote(self.group_correlated)}.", "group_correlated"
            )
        if not is_fraction(self.alpha):
            raise TableError(f"must be a number between 0 and 1, got {quote(self.alpha)}.", "alpha")
        read_flag(self.contributions, "contributions")
        check_n_jobs(self.n_jobs)


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
    feature_groups = None
    if scoring.group_correlated is not None:
        feature_groups = correlated_groups(fitted.X, threshold=scoring.group_correlated)
        messages.add(feature_groups.describe())
    result = _compute_importance(fitted, scoring, feature_groups, messages)
    performance = measure_performance(
        fitted.y, fitted.predicted, fitted.classes, fitted.weight, rows_in_words, groups=fitted.groups
    )
    check_quality(performance, result.total_p_value, messages, alpha=scoring.alpha, may_be_too_deep=may_be_too_deep)
    return TableScore(
        result=result,
        explanation=_explain(fitted, scoring, feature_groups, messages),
        X=fitted.X,
        model=fitted.model,
        model_name=model_name,
        columns=columns,
        performance=performance,
        feature_groups=feature_groups,
        messages=list(messages.messages),
        warnings=list(messages.warnings),
    )


def _compute_importance(
    fitted: Fitted, scoring: Scoring, feature_groups: CorrelatedGroups | None, messages: Messages
) -> ImportanceResult:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        options: dict[str, Any] = {
            "measure": scoring.measure,
            "sample_weight": fitted.weight,
            "groups": fitted.groups,
            "feature_groups": feature_groups,
            "contributions": scoring.contributions,
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


def _explain(
    fitted: Fitted, scoring: Scoring, feature_groups: CorrelatedGroups | None, messages: Messages
) -> Explanation | None:
    """Which way features move the predictions of some of the rows; None for models that cannot tell."""
    n_rows = len(fitted.X)
    sample = np.arange(n_rows)
    if n_rows > _MOST_EXPLAINED:
        sample = np.sort(np.random.default_rng(0).choice(n_rows, _MOST_EXPLAINED, replace=False))
        messages.add(f"directions are of {_MOST_EXPLAINED:,} of {n_rows:,} rows, drawn with seed 0")
    options: dict[str, Any] = {"feature_groups": feature_groups, "n_jobs": scoring.n_jobs}
    parts: list[tuple[Any, NDArray[np.int64], Any]] = [(fitted.model, sample, fitted.rows)]
    if fitted.rows == "folds":
        tested = [np.intersect1d(sample, test) for _, test in fitted.splits or ()]
        parts = [(model, rows, "heldout") for model, rows in zip(fitted.model, tested, strict=True) if len(rows)]
    elif fitted.rows == "oob" and len(sample) < n_rows:
        parts = [(fitted.model, sample, _list_evaluation_rows(fitted.model, sample, n_rows))]
    elif fitted.rows == "oob":
        options["sample_weight"] = fitted.weight
    with warnings.catch_warnings():
        # Which rows no tree left out is no news here.
        warnings.filterwarnings("ignore", r"\d+ of \d+ rows got no explanation", UserWarning)
        try:
            found = [
                explain(model, fitted.X.iloc[taken], fitted.y[taken], rows=rows, **options)
                for model, taken, rows in parts
            ]
        except TypeError as error:
            messages.add(f"no directions: {error}")
            return None
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(one, name) for one in found]) for name in ("values", "base_values", "data")
    }
    return replace(found[0], **joined, target=None, rows=fitted.rows)


def _list_evaluation_rows(pipeline: Any, sample: NDArray[np.int64], n_rows: int) -> list[NDArray[np.bool_]]:
    """Which rows of a sample of the training rows each tree of a forest has not seen."""
    training: Any = open_model(pipeline[-1]).training
    return [~np.isin(sample, training.list_bag(tree, n_rows)) for tree in range(len(pipeline[-1].estimators_))]
