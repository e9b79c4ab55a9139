"""`score_table`: infer the types of columns, fit a model, and compute importances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from truewood._arguments import check_type, is_choice
from truewood._formatting import ROWS_IN_WORDS, quote
from truewood._progress import show_nothing
from truewood.tabular._checks.cost import Cost, choose_sample
from truewood.tabular._checks.leaks import leave_out_leaks
from truewood.tabular._checks.performance import warn_of_duplicates
from truewood.tabular._columns.columns import Column, check_finite, describe_columns, join_used, take_rows
from truewood.tabular._columns.dtype_overrides import list_dropped, read_columns, read_dtypes
from truewood.tabular._columns.encoders import count_encoded
from truewood.tabular._columns.identifiers import warn_of_groups
from truewood.tabular._columns.roles import read_roles
from truewood.tabular._columns.target_column import (
    check_survival_settings,
    find_outcome,
    name_time_to_event,
    read_group_column,
    read_weight,
)
from truewood.tabular._errors import TableError
from truewood.tabular._files.reading import is_many_files, name_data, open_table
from truewood.tabular._messages import Messages, read_messages
from truewood.tabular._models.boosters import Progress
from truewood.tabular._models.fitting import fit_model, is_out_of_bag
from truewood.tabular._models.scoring import Scoring, score_model
from truewood.tabular._models.settings import FitSettings
from truewood.tabular._table_score import ColumnSummary, TableScore

_TASKS = ("classification", "regression")


def score_table(
    table: Any,
    target: str,
    *,
    task: str | None = None,
    drop: str | Iterable[str] = (),
    keep: str | Iterable[str] = (),
    dtypes: Mapping[str, str] | None = None,
    sample_weight: str | None = None,
    groups: str | None = None,
    event: str | None = None,
    settings: FitSettings | None = None,
    measure: str = "auto",
    contributions: bool = False,
    interactions: bool = False,
    group_correlated: float | None = None,
    alpha: float = 0.05,
    engine: str = "auto",
    messages: Messages | None = None,
    progress: Progress | None = None,
) -> TableScore:
    """Score how well each column of a table predicts the target: infer column types, fit a model, and score it.

    Parameters
    ----------
    table : data frame, path or FileContent
        A pandas, polars, pyarrow or other data frame that narwhals supports, or a CSV, TSV, Parquet, Feather or JSON
        lines file (each may be gzipped), or an Excel file (.xlsx).
    target : str
        The column to predict; rows with a missing value in it are not used.
    task : {"classification", "regression"}, default=None
        The task; None infers it from the target.
    drop : str or iterable of str, default=()
        Columns to drop.
    keep : str or iterable of str, default=()
        Columns to use even if they look like identifiers, target leakage or free text. By default, such columns are
        left out, with a message or, for leakage and for columns that seem to identify groups of rows, a warning.
    dtypes : dict of str to str, default=None
        Types of columns, instead of the inferred ones: "number", "category", "date", or "date:FORMAT" such as
        "date:%d.%m.%Y"; "text" and "drop" leave the column out. Values that cannot be read as the type become missing.
        If none can be read, or if no known format fits all values of a "date", an error is raised.
    sample_weight : str, default=None
        The column of row weights.
    groups : str, default=None
        The column of group labels, such as patient IDs; it is not used as a feature. Groups are held out as a whole;
        forests are then scored by cross-validation, too, unless ``test_size`` is given.
    event : str, default=None
        The column of event indicators: true or 1 for an event, false or 0 for censoring, or 2 and 1 as in R. The target
        is then the time to the event or to censoring, and the model a survival forest of scikit-survival.
    settings : FitSettings, default=None
        The model to fit; None means a random forest of 500 trees.
    measure : str, default="auto"
        The importance measure; see `truewood.measures`.
    contributions : bool, default=False
        Whether to keep the contribution of each row, which `truewood.compare` needs for results on the same rows.
    interactions : bool, default=False
        Whether to test which pairs of features work together; see `truewood.interactions`. Models that are scored by
        cross-validation are refit for this, and can have at most 500 pairs.
    group_correlated : float, default=None
        Score columns together if their average rank correlation is at least this; see `truewood.correlated_groups`.
    alpha : float, default=0.05
        Significance level of the check that the model is better than chance.
    engine : {"auto", "native", "numpy", "cuda"}, default="auto"
        Implementation that routes the rows through the trees, as in `truewood.importance`.
    messages : Messages, default=None
        Receives messages and warnings as they arise.
    progress : callable, default=None
        ``progress(n_done, n_trees)`` is called while the model is fit.

    Returns
    -------
    TableScore
        Importances, fitted model and column types. Reasons to doubt the scores, such as a model that is no better than
        chance or duplicate rows, are in `warnings`, a list of str; no Python warnings are issued.

    Raises
    ------
    TableError
        If the input cannot be used; the attribute `argument` names the argument to change.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from truewood.tabular import FitSettings, score_table
    >>> patients = load_diabetes(as_frame=True, scaled=False).frame
    >>> score = score_table(patients, "target", settings=FitSettings(n_estimators=100))
    >>> score.result.frame()["feature"][:2].tolist(), score.warnings
    (['bmi', 's5'], [])
    """
    if task is not None and not is_choice(task, _TASKS):
        raise TableError(f"must be one of {', '.join(_TASKS)}, got {quote(task)}.", "task")
    if is_many_files(table):
        raise TableError(
            f"{table} is a folder or glob, but a model can be fit only to a single file; pass one file, or score a "
            "saved model.",
            "table",
        )
    settings = FitSettings() if settings is None else settings
    check_type(settings, FitSettings, "settings", "FitSettings")
    messages = read_messages(messages)
    settings.check_installed()
    scoring = Scoring(
        measure=measure,
        contributions=contributions,
        group_correlated=group_correlated,
        alpha=alpha,
        random_state=settings.random_state,
        n_jobs=settings.n_jobs,
        interactions=interactions,
        engine=engine,
    )
    if event is not None:
        check_survival_settings(settings, sample_weight, groups, interactions=scoring.interactions)
    if not settings.is_forest:
        scoring.refuse_training_rows("To score out-of-bag rows instead, use {model}.", model="random-forest")
    elif not is_out_of_bag(settings, groups):
        given = {"groups": groups, "cv": settings.cv, "test_size": settings.test_size}
        held_out = {name: value for name, value in given.items() if value is not None}
        names = " and ".join(f"{{{name}}}" for name in held_out)
        scoring.refuse_training_rows(f"To score out-of-bag rows instead, leave out {names}.", **held_out)
    roles = read_roles(target, sample_weight=sample_weight, groups=groups, event=event, drop=drop, keep=keep)
    whole = open_table(table, roles, messages)
    dtypes = read_dtypes(dtypes, list(map(str, whole)), roles.target)
    roles = replace(roles, drop=(*roles.drop, *list_dropped(dtypes)))
    has_target, outcome = find_outcome(whole, roles, task, dtypes, messages)
    rows = whole[has_target].reset_index(drop=True)
    weight = read_weight(rows, roles.sample_weight)
    # Types are inferred from all rows: identifiers have gaps if rows are left out.
    columns = take_rows(read_columns(roles.choose_features(whole), roles.keep, dtypes), has_target)
    check_finite(columns)
    columns = leave_out_leaks(columns, outcome, roles.target, roles.keep, messages)
    X = _use_columns(columns, messages)
    if roles.groups is None:
        warn_of_groups(columns, outcome.task, messages)
    warn_of_duplicates(X, messages)
    used = [column for column in columns if column.is_used]
    group_of = read_group_column(rows, roles.groups)
    n_classes = len(np.unique(outcome.y)) if outcome.task == "classification" else 1
    cost = Cost(settings, outcome.task, *count_encoded(used, X), n_classes, is_out_of_bag(settings, group_of))
    chosen = choose_sample(cost, outcome.y, group_of, messages)
    if chosen is not None:
        X, outcome = X.iloc[chosen].reset_index(drop=True), replace(outcome, y=outcome.y[chosen])
        weight = None if weight is None else weight[chosen]
        group_of = None if group_of is None else np.unique(group_of[chosen], return_inverse=True)[1]
    fitted = fit_model(used, X, outcome, weight, group_of, settings=settings, progress=progress or show_nothing)
    score = score_model(
        fitted,
        model_name=settings.model,
        columns=[ColumnSummary(column.name, column.dtype, column.is_used, column.note) for column in columns],
        rows_in_words=ROWS_IN_WORDS[fitted.rows],
        scoring=scoring,
        messages=messages,
        may_be_too_deep=settings.is_forest and settings.max_depth is None,
    )
    return replace(score, target=target if event is None else name_time_to_event(target, event), data=name_data(table))


def _use_columns(columns: list[Column], messages: Messages) -> pd.DataFrame:
    """Build the table of used columns, and report all columns."""
    for line in describe_columns(columns):
        messages.add(line)
    X = join_used(columns)
    if X.empty:
        raise TableError("no column is left to predict the target; keep at least one feature column.", "table")
    return X
