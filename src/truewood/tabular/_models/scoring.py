"""Score a fitted model on its evaluation rows: importances, performance and directions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._arguments import check_n_jobs, is_choice, is_fraction, read_flag
from truewood._correlated_groups import CorrelatedGroups, correlated_groups
from truewood._cross_importance import cross_importance
from truewood._cross_interactions import cross_interactions
from truewood._engines.selection import AUTO, resolve_engine
from truewood._explain import explain
from truewood._formatting import quote
from truewood._importance import importance
from truewood._interactions import interactions
from truewood._measures.registry import get_measure, measures
from truewood._message import Message, get_message
from truewood._results.explanation import Explanation
from truewood._results.importance_result import ImportanceResult
from truewood._results.interactions import Interactions
from truewood.adapters import open_model
from truewood.tabular._checks.performance import check_quality, measure_performance
from truewood.tabular._errors import TableError
from truewood.tabular._messages import Messages
from truewood.tabular._models.fitting import Fitted
from truewood.tabular._table_score import ColumnSummary, TableScore

# Maximum number of rows to explain; a larger table is sampled.
_MOST_EXPLAINED = 2_000
# Scores are split by class if the number of classes is in this range; two classes share every score equally.
_FEWEST_CLASSES, _MOST_CLASSES = 3, 12
# Cross-validation scores all pairs of features: every row is scored, so none is left to choose pairs on.
_MOST_PAIRS = 500
# Threshold of `group_correlated` that a message suggests.
_GROUPED = 0.7


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """Scoring options: see `score_table`."""

    measure: str
    contributions: bool
    group_correlated: float | None
    alpha: float
    random_state: int
    n_jobs: int | None
    interactions: bool
    engine: str

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
        read_flag(self.interactions, "interactions")
        check_n_jobs(self.n_jobs)
        if not is_choice(self.engine, [AUTO]):
            resolve_engine(self.engine)  # refuse what is not installed before the fit

    def refuse_training_rows(self, hint: str = "", **suggestion: Any) -> None:
        """Refuse a measure that needs in-bag rows, for a model that is scored on held-out rows; see `Message`."""
        if self.measure != AUTO and get_measure(self.measure).needs_training_rows:
            text = (
                f"{self.measure} needs the in-bag rows of each tree, but this model is scored on held-out rows; choose "
                "another measure."
            )
            raise TableError(Message(text, hint, **suggestion), "measure")


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
    """Score a fitted model, and check how far the scores can be trusted.

    Parameters
    ----------
    fitted : Fitted
        The model and its evaluation rows.
    model_name : str
        The name of the model.
    columns : list of ColumnSummary
        The type of each column.
    rows_in_words : str
        The evaluation rows, in words.
    scoring : Scoring
        Scoring options.
    messages : Messages
        Receives warnings.
    may_be_too_deep : bool
        Whether the depth of the trees is unlimited.
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
        interactions=_test_pairs(fitted, scoring, feature_groups, messages) if scoring.interactions else None,
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
            "engine": scoring.engine,
        }
        if fitted.rows == "folds":
            training, test = zip(*fitted.splits, strict=True)
            fits = {"estimator": fitted.model, "indices": {"train": training, "test": test}}
            result = cross_importance(fits, fitted.X, fitted.y, **options, progress=False)
        else:
            options |= {"rows": fitted.rows, "per_class": _has_scores_by_class(fitted, scoring.measure)}
            result = importance(fitted.model, fitted.X, fitted.y, **options, n_jobs=scoring.n_jobs)
    _pass_on(caught, messages, messages.warn)
    return result


def _has_scores_by_class(fitted: Fitted, measure: str) -> bool:
    """Whether to split scores by class: a pass over the trees for each class."""
    if fitted.classes is None or not _FEWEST_CLASSES <= len(fitted.classes) <= _MOST_CLASSES:
        return False
    return measure == "auto" or get_measure(measure).split_score is not None


def _test_pairs(
    fitted: Fitted, scoring: Scoring, feature_groups: CorrelatedGroups | None, messages: Messages
) -> Interactions:
    options: dict[str, Any] = {
        "sample_weight": fitted.weight,
        "groups": fitted.groups,
        "feature_groups": feature_groups,
        "engine": scoring.engine,
    }
    n_features = fitted.X.shape[1] if feature_groups is None else len(feature_groups)
    n_pairs = n_features * (n_features - 1) // 2
    if fitted.rows == "folds" and n_pairs > _MOST_PAIRS:
        raise TableError(
            Message(
                f"cross-validation scores all pairs of columns, at most {_MOST_PAIRS}, got {n_pairs:,}.",
                "Use fewer columns, or hold out rows instead with {test_size}.",
                test_size=0.3,
            ),
            "interactions",
        )
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if fitted.rows == "folds":
                # In this process: the app can end it, but not the processes that it starts.
                options |= {"cv": fitted.splits, "max_pairs": _MOST_PAIRS}
                found = cross_interactions(fitted.model[0], fitted.X, fitted.y, **options)
            else:
                options |= {"rows": fitted.rows, "n_jobs": scoring.n_jobs}
                found = interactions(fitted.model, fitted.X, fitted.y, **options)
    except (ValueError, TypeError) as error:
        raise TableError(get_message(error), "interactions") from error
    _pass_on(caught, messages, messages.add)  # they say nothing about the scores of features
    return found


def _pass_on(caught: list[warnings.WarningMessage], messages: Messages, add: Callable[[str], None]) -> None:
    """Add the warnings of a call as messages or warnings, except those that there are already."""
    shown = [warning.message for warning in caught if warning.category is UserWarning]
    for message in dict.fromkeys(get_message(warning) for warning in shown if isinstance(warning, Warning)):
        if "feature_groups" in message.suggestion:  # tables have another argument for this
            hint = message.hint.replace("feature_groups", "group_correlated")
            message = Message(message.text, hint, group_correlated=_GROUPED)
        if str(message) not in map(str, messages.warnings):
            add(message)


def _explain(
    fitted: Fitted, scoring: Scoring, feature_groups: CorrelatedGroups | None, messages: Messages
) -> Explanation | None:
    """Explain predictions, of a sample if there are many rows; None if the model cannot be explained."""
    n_rows = len(fitted.X)
    sample = np.arange(n_rows)
    if n_rows > _MOST_EXPLAINED:
        sample = np.sort(np.random.default_rng(0).choice(n_rows, _MOST_EXPLAINED, replace=False))
        messages.add(
            f"directions are computed from {_MOST_EXPLAINED:,} of {n_rows:,} rows, sampled with random state 0"
        )
    options: dict[str, Any] = {"feature_groups": feature_groups, "n_jobs": scoring.n_jobs, "engine": scoring.engine}
    parts: list[tuple[Any, NDArray[np.int64], Any]] = [(fitted.model, sample, fitted.rows)]
    if fitted.rows == "folds":
        tested = [np.intersect1d(sample, test) for _, test in fitted.splits or ()]
        parts = [(model, rows, "heldout") for model, rows in zip(fitted.model, tested, strict=True) if len(rows)]
    elif fitted.rows == "oob" and len(sample) < n_rows:
        parts = [(fitted.model, sample, _list_evaluation_rows(fitted.model, sample, n_rows))]
    elif fitted.rows == "oob":
        options["sample_weight"] = fitted.weight
    with warnings.catch_warnings():
        # Rows without an explanation are in every bag, which the importances have reported.
        warnings.simplefilter("ignore", UserWarning)
        try:
            found = [
                explain(model, fitted.X.iloc[taken], fitted.y[taken], rows=rows, **options)
                for model, taken, rows in parts
            ]
        except TypeError as error:
            messages.add(f"directions are not available: {error}")
            return None
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(one, name) for one in found]) for name in ("values", "base_values", "data")
    }
    if fitted.labels is not None and found[0].output_names is not None:
        joined["output_names"] = fitted.labels.astype(str)
    if fitted.labels is not None and found[0].positive_class is not None:
        joined["positive_class"] = str(fitted.labels[1])
    return replace(found[0], **joined, target=None, rows=fitted.rows)


def _list_evaluation_rows(pipeline: Any, sample: NDArray[np.int64], n_rows: int) -> list[NDArray[np.bool_]]:
    """Find the out-of-bag rows of each tree within a sample of the training rows."""
    training: Any = open_model(pipeline[-1]).training
    return [~np.isin(sample, training.list_bag(tree, n_rows)) for tree in range(len(pipeline[-1].estimators_))]
