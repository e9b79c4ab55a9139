"""Scoring the columns of a table: `score_table` fits a model, `score_saved_model` takes one that is fit already."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood.rows.errors import TrainingRowsError
from truewood.tabular.boosters import Progress
from truewood.tabular.columns import Column, check_finite, describe, take_rows
from truewood.tabular.cost import Cost, choose_rows
from truewood.tabular.duplicates import count_duplicates
from truewood.tabular.encoding import count_encoded
from truewood.tabular.engines import score_on_engine
from truewood.tabular.errors import TableError
from truewood.tabular.fitting import Fitted, fit_model, is_out_of_bag
from truewood.tabular.identifiers import find_units, warn_of_units
from truewood.tabular.leaks import warn_of_leaks
from truewood.tabular.many_files import is_many_files, score_many_files
from truewood.tabular.messages import Messages
from truewood.tabular.model_files import open_model
from truewood.tabular.model_score import Scoring, score_model
from truewood.tabular.model_tables import match_target, prepare_table
from truewood.tabular.roles import read_roles
from truewood.tabular.saved_models import SavedModel
from truewood.tabular.settings import FitSettings
from truewood.tabular.survival_target import check_survival_settings, read_survival_target
from truewood.tabular.table_score import ColumnSummary, TableScore
from truewood.tabular.tables import open_table
from truewood.tabular.target_column import find_rows_with_target, read_groups, read_target, read_weight
from truewood.tabular.wanted_kinds import check_kinds, choose_task, list_dropped, read_columns
from truewood.words import ROWS_IN_WORDS

_TASKS = ("classification", "regression")


def score_table(
    table: Any,
    target: str,
    *,
    task: str | None = None,
    drop: str | Iterable[str] = (),
    keep: str | Iterable[str] = (),
    kinds: Mapping[str, str] | None = None,
    sample_weight: str | None = None,
    row_groups: str | None = None,
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
    kinds : dict of str to str, default=None
        What columns are to be read as, whatever they look like: "number", "category", "date", "date:FORMAT" such as
        "date:%d.%m.%Y", "text" or "drop", which are left out. Values that do not fit are missing.
    sample_weight : str, default=None
        The column with weights of the rows.
    row_groups : str, default=None
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
    >>> score = score_table(patients, "target", settings=FitSettings(n_trees=100))
    >>> score.result.frame()["feature"][:2].tolist(), score.warnings
    (['bmi', 's5'], [])
    """
    if task is not None and task not in _TASKS:
        raise TableError(f"must be one of {', '.join(_TASKS)}, got {task!r}.", "task")
    if is_many_files(table):
        raise TableError(
            f"{table} is read in batches, and no model is fit to such; pass one file, or a model that is fit already.",
            "table",
        )
    settings, messages = settings or FitSettings(), messages or Messages()
    settings.check_installed()
    if event is not None:
        check_survival_settings(settings, sample_weight, row_groups)
    scoring = Scoring(measure, contributions, group_correlated, alpha, settings.random_state, settings.n_jobs)
    kinds = kinds or {}
    roles = read_roles(target, sample_weight=sample_weight, row_groups=row_groups, event=event, drop=drop, keep=keep)
    whole = open_table(table, roles, messages)
    check_kinds(kinds, list(map(str, whole)), roles.target)
    roles = replace(roles, drop=(*roles.drop, *list_dropped(kinds)))
    has_target = find_rows_with_target(whole, roles.target, messages)
    if roles.event is not None:
        has_target &= find_rows_with_target(whole, roles.event, messages)
    rows = whole[has_target].reset_index(drop=True)
    if roles.event is None:
        goal = read_target(rows[roles.target], roles.target, task or choose_task(kinds, roles.target), messages)
    else:
        goal = read_survival_target(rows, roles.target, roles.event, messages)
    weight = read_weight(rows, roles.sample_weight)
    # Kinds are found in all rows: names of rows have gaps where rows are left out.
    columns = take_rows(read_columns(roles.choose_features(whole), roles.keep, kinds), has_target)
    check_finite(columns)
    X = _use_columns(columns, messages)
    if roles.row_groups is None:
        warn_of_units(X, messages)
    numbers = replace(goal, task="regression", y=goal.y["time"]) if goal.task == "survival" else goal
    warn_of_leaks(X.drop(columns=find_units(X)), numbers, roles.target, messages)
    _warn_of_duplicates(X, numbers.y, messages)
    used = [column for column in columns if column.is_used]
    groups = read_groups(rows, roles.row_groups)
    n_classes = len(np.unique(goal.y)) if goal.task == "classification" else 1
    cost = Cost(settings, goal.task, *count_encoded(used, X), n_classes, is_out_of_bag(settings, groups))
    chosen = choose_rows(cost, goal.y, groups, messages)
    if chosen is not None:
        X, goal = X.iloc[chosen].reset_index(drop=True), replace(goal, y=goal.y[chosen])
        weight = None if weight is None else weight[chosen]
        groups = None if groups is None else np.unique(groups[chosen], return_inverse=True)[1]
    fitted = fit_model(used, X, goal, weight, groups, settings=settings, progress=progress or _ignore_progress)
    return score_model(
        fitted,
        model_name=settings.model,
        columns=[ColumnSummary(column.name, column.kind, column.is_used, column.note) for column in columns],
        rows_in_words=ROWS_IN_WORDS[fitted.rows],
        scoring=scoring,
        messages=messages,
        may_be_too_deep=settings.is_forest and settings.max_depth is None,
    )


def score_saved_model(
    saved_model: str | os.PathLike[str] | Any,
    table: Any,
    target: str,
    *,
    drop: str | Iterable[str] = (),
    sample_weight: str | None = None,
    row_groups: str | None = None,
    trust_pickle: bool = False,
    measure: str = "auto",
    contributions: bool = False,
    group_correlated: float | None = None,
    alpha: float = 0.05,
    random_state: int = 0,
    n_jobs: int | None = None,
    engine: str = "local",
    address: str | None = None,
    messages: Messages | None = None,
    progress: Progress | None = None,
) -> TableScore:
    """Score a model that is fit already on a table that it has not seen.

    Parameters
    ----------
    saved_model : path or object
        A file of XGBoost (.json, .ubj), LightGBM (.txt), CatBoost (.cbm, .json), skops or pickle, the folder of a saved
        model of Spark ML, or a model of these libraries or of scikit-learn that is loaded already.
    table : data frame, path or FileContent
        As of `score_table`; a text file is read as `pandas.read_csv` does. Columns that the model does not have are not
        used. A folder or glob of Parquet or Arrow files is read in batches, and need not fit into memory.
    target : str
        The column that the model predicts; rows without it are not used.
    drop : str or iterable of str, default=()
        Columns to leave out.
    sample_weight : str, default=None
        The column with weights of the rows.
    row_groups : str, default=None
        The column that says which rows belong together, such as a patient; it is no feature.
    trust_pickle : bool, default=False
        Whether to open a file though it is a pickle, which can run any program.
    measure : str, default="auto"
        What to compute; see `truewood.measures`.
    contributions : bool, default=False
        Whether to keep what each row adds to the scores, which `truewood.compare` needs for results of the same rows.
    group_correlated : float, default=None
        Score columns together that correlate so strongly, see `truewood.correlated_groups`; None is each for itself.
    alpha : float, default=0.05
        p-values above this are no evidence that the model is better than chance.
    random_state : int, default=0
        Seed of ``measure="permutation"``.
    n_jobs : int, default=None
        Number of threads, as in scikit-learn; those of Dask and Spark have their own.
    engine : {"local", "dask", "spark"}, default="local"
        What reads Parquet files: this process, or a cluster, for which `table` is where the files are, as its workers
        see it.
    address : str, default=None
        Of the scheduler of Dask, or the master of Spark, such as "spark://host:7077", or "sc://host" for Connect; None
        is this machine, or what Spark is set to.
    messages : Messages, default=None
        Hears messages and warnings as they come.
    progress : callable, default=None
        ``progress(n_done, n_rows)`` is called while rows are read in batches.

    Returns
    -------
    TableScore
        Scores and what belongs to them; warnings as of `score_table`, and of levels that the model does not know.

    Raises
    ------
    TableError
        If the input cannot be used; its attribute `argument` says which argument to change.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from truewood.tabular import score_saved_model
    >>> patients = load_diabetes(as_frame=True, scaled=False).frame
    >>> X, y = patients[:300].drop(columns="target"), patients["target"][:300]
    >>> forest = RandomForestRegressor(random_state=0).fit(X, y)
    >>> score_saved_model(forest, patients[300:], "target").result.frame()["feature"][:2].tolist()
    ['s5', 'bmi']
    """
    messages = messages or Messages()
    scoring = Scoring(measure, contributions, group_correlated, alpha, random_state, n_jobs)
    saved = open_model(saved_model, trust_pickle=trust_pickle)
    messages.add(_describe_model(saved_model, saved))
    roles = read_roles(target, sample_weight=sample_weight, row_groups=row_groups, drop=drop)
    if row_groups is not None and (engine != "local" or is_many_files(table)):
        raise TableError("it needs a table in memory, and these rows are read in parts; pass one file.", "row_groups")
    if engine != "local":
        return _score_unseen(
            partial(
                score_on_engine,
                saved,
                table,
                roles,
                engine=engine,
                address=address,
                scoring=scoring,
                messages=messages,
            )
        )
    if is_many_files(table):
        return _score_unseen(
            partial(
                score_many_files,
                saved,
                table,
                roles,
                scoring=scoring,
                progress=progress or _ignore_progress,
                messages=messages,
            )
        )
    rows = open_table(table, roles, messages, is_for_model=True)
    rows = rows[find_rows_with_target(rows, roles.target, messages)].reset_index(drop=True)
    y = match_target(saved, rows[roles.target], roles.target)
    weight, groups = read_weight(rows, roles.sample_weight), read_groups(rows, roles.row_groups)
    X = prepare_table(saved, roles.choose_features(rows), messages)
    _warn_of_duplicates(X, y, messages)
    return _score_unseen(
        partial(
            score_model,
            Fitted(saved.model, X, y, weight, groups, "heldout", _predict(saved, X), saved.classes),
            model_name=saved.name,
            columns=[ColumnSummary(str(column), str(X[column].dtype), is_used=True) for column in X],
            rows_in_words="the rows of the table",
            scoring=scoring,
            messages=messages,
            may_be_too_deep=False,
        )
    )


def _score_unseen(score: Callable[[], TableScore]) -> TableScore:
    """Score, with errors about the model and its training rows as errors about the arguments."""
    try:
        return score()
    except TypeError as error:  # not a tree model
        raise TableError(str(error), "saved_model") from error
    except TrainingRowsError as error:
        raise TableError(
            "the table holds the rows that the model was fit on, which cannot judge it; pass a table of rows it has "
            "never seen.",
            "saved_model",
        ) from error


def _use_columns(columns: list[Column], messages: Messages) -> pd.DataFrame:
    """The table of the columns that are used, and messages of what became of the others."""
    for line in describe(columns):
        messages.add(line)
    used = {column.name: column.values for column in columns if column.is_used}
    if not used:
        raise TableError("no column is left to predict the target with.", "table")
    return pd.DataFrame(used)


def _describe_model(saved_model: Any, saved: SavedModel) -> str:
    source = f"loaded {saved_model}" if isinstance(saved_model, str | os.PathLike) else "the model"
    task = "regression" if saved.classes is None else "classification"
    return f"{source}: {saved.name}, {task}"


def _predict(saved: SavedModel, X: pd.DataFrame) -> NDArray[np.float64]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return saved.predict_probabilities(X)
    except Exception as error:  # each library has exceptions of its own for tables it does not take
        reason = str(error).strip().partition("\n")[0]
        raise TableError(f"the model does not take this table: {reason}", "saved_model") from error


def _warn_of_duplicates(X: pd.DataFrame, y: NDArray[Any], messages: Messages) -> None:
    n_duplicates = count_duplicates(X, y)
    if n_duplicates:
        messages.warn(
            f"{n_duplicates:,} of {len(X):,} rows are duplicates of other rows, in all columns and the target; if they "
            "are the same observations again, scores and p-values are far too good: remove duplicates"
        )


def _ignore_progress(n_done: int, n_trees: int) -> None:
    """For callers that do not ask."""
