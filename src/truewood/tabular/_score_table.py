"""Scoring the columns of a table: `score_table` understands them, fits a model, and scores it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from truewood._arguments import check_type, is_choice
from truewood._formatting import ROWS_IN_WORDS, quote
from truewood._progress import show_nothing
from truewood.tabular._checks.cost import Cost, choose_rows
from truewood.tabular._checks.duplicates import warn_of_duplicates
from truewood.tabular._checks.leaks import warn_of_leaks
from truewood.tabular._columns.columns import Column, check_finite, describe, take_rows
from truewood.tabular._columns.dtype_overrides import list_dropped, read_columns, read_dtypes
from truewood.tabular._columns.encoding import count_encoded
from truewood.tabular._columns.identifiers import warn_of_units
from truewood.tabular._columns.roles import read_roles
from truewood.tabular._columns.target import check_survival_settings, find_target, read_group_column, read_weight
from truewood.tabular._errors import TableError
from truewood.tabular._files.tables import open_table
from truewood.tabular._messages import Messages, read_messages
from truewood.tabular._models.boosters import Progress
from truewood.tabular._models.fitting import fit_model, is_out_of_bag
from truewood.tabular._models.many_files import is_many_files
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
    group_correlated: float | None = None,
    alpha: float = 0.05,
    messages: Messages | None = None,
    progress: Progress | None = None,
) -> TableScore:
    """Find out which columns of a table tell about one of them: understand the columns, fit a model, and score it.

    Parameters
    ----------
    table : data frame, path or FileContent
        A data frame of pandas, polars, pyarrow or another library that narwhals knows, or a CSV, TSV, Parquet,
        Feather or JSON lines file, also with .gz, or an Excel file (.xlsx).
    target : str
        The column to predict; rows without it are not used.
    task : {"classification", "regression"}, default=None
        What the target is; None is as it looks.
    drop : str or iterable of str, default=()
        Columns to leave out.
    keep : str or iterable of str, default=()
        Columns to use though they look like identifiers or free text.
    dtypes : dict of str to str, default=None
        What columns are to be read as, whatever they look like: "number", "category", "date", "date:FORMAT" such as
        "date:%d.%m.%Y", "text" or "drop", which are left out. Values that do not fit are missing.
    sample_weight : str, default=None
        The column with weights of the rows.
    groups : str, default=None
        The column that says which rows belong together, such as a patient; it is no feature. Models are
        judged by folds that keep these rows together, forests, too: their bags would part them.
    event : str, default=None
        The column that says whether there was an event, by true and false, 0 and 1, or 1 and 2: the target then is the
        time until it, or until the row was lost from sight, and a survival forest of scikit-survival is fit.
    settings : FitSettings, default=None
        The model to fit; None is a random forest of 500 trees.
    measure : str, default="auto"
        What to compute; see `truewood.measures`.
    contributions : bool, default=False
        Whether to keep what each row adds to the scores, which `truewood.compare` needs for results of the same rows.
    group_correlated : float, default=None
        Score columns together that correlate so strongly, see `truewood.correlated_groups`; None is each for itself.
    alpha : float, default=0.05
        p-values above this are no evidence that the model is better than chance.
    messages : Messages, default=None
        Hears messages and warnings as they come.
    progress : callable, default=None
        ``progress(n_done, n_trees)`` is called while the model is fit.

    Returns
    -------
    TableScore
        Scores, fitted model and what was understood. Whatever makes the scores doubtful, such as a model that predicts
        no better than chance or duplicates among the rows, is in its `warnings`, a list of str, and is not issued as a
        Python warning.

    Raises
    ------
    TableError
        If the input cannot be used; its attribute `argument` says which argument to change.

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
            f"{table} is read in batches, and no model is fit to such; pass one file, or a model that is fit already.",
            "table",
        )
    settings = FitSettings() if settings is None else settings
    check_type(settings, FitSettings, "settings", "FitSettings")
    messages = read_messages(messages)
    settings.check_installed()
    if event is not None:
        check_survival_settings(settings, sample_weight, groups)
    scoring = Scoring(measure, contributions, group_correlated, alpha, settings.random_state, settings.n_jobs)
    roles = read_roles(target, sample_weight=sample_weight, groups=groups, event=event, drop=drop, keep=keep)
    whole = open_table(table, roles, messages)
    dtypes = read_dtypes(dtypes, list(map(str, whole)), roles.target)
    roles = replace(roles, drop=(*roles.drop, *list_dropped(dtypes)))
    has_target, goal = find_target(whole, roles, task, dtypes, messages)
    rows = whole[has_target].reset_index(drop=True)
    weight = read_weight(rows, roles.sample_weight)
    # Kinds are found in all rows: names of rows have gaps where rows are left out.
    columns = take_rows(read_columns(roles.choose_features(whole), roles.keep, dtypes), has_target)
    check_finite(columns)
    X = _use_columns(columns, messages)
    if roles.groups is None:
        warn_of_units(X, messages)
    warn_of_leaks(X, goal, roles.target, messages)
    warn_of_duplicates(X, goal.values, messages)
    used = [column for column in columns if column.is_used]
    group_of = read_group_column(rows, roles.groups)
    n_classes = len(np.unique(goal.y)) if goal.task == "classification" else 1
    cost = Cost(settings, goal.task, *count_encoded(used, X), n_classes, is_out_of_bag(settings, group_of))
    chosen = choose_rows(cost, goal.y, group_of, messages)
    if chosen is not None:
        X, goal = X.iloc[chosen].reset_index(drop=True), replace(goal, y=goal.y[chosen])
        weight = None if weight is None else weight[chosen]
        group_of = None if group_of is None else np.unique(group_of[chosen], return_inverse=True)[1]
    fitted = fit_model(used, X, goal, weight, group_of, settings=settings, progress=progress or show_nothing)
    return score_model(
        fitted,
        model_name=settings.model,
        columns=[ColumnSummary(column.name, column.dtype, column.is_used, column.note) for column in columns],
        rows_in_words=ROWS_IN_WORDS[fitted.rows],
        scoring=scoring,
        messages=messages,
        may_be_too_deep=settings.is_forest and settings.max_depth is None,
    )


def _use_columns(columns: list[Column], messages: Messages) -> pd.DataFrame:
    """The table of the columns that are used, and messages of what became of the others."""
    for line in describe(columns):
        messages.add(line)
    used = {column.name: column.values for column in columns if column.is_used}
    if not used:
        raise TableError("no column is left to predict the target with.", "table")
    return pd.DataFrame(used)
