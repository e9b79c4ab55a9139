"""Scoring a model that is fit already on a table: `score_saved_model`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._exceptions import TrainingRowsError
from truewood._progress import show_nothing
from truewood.tabular._checks.duplicates import warn_of_duplicates
from truewood.tabular._checks.leaks import warn_of_leaks
from truewood.tabular._columns.roles import read_roles
from truewood.tabular._columns.target import Target, find_rows_with_target, read_group_column, read_weight
from truewood.tabular._errors import TableError
from truewood.tabular._files.tables import open_table
from truewood.tabular._messages import Messages, read_messages
from truewood.tabular._models.boosters import Progress
from truewood.tabular._models.distributed import score_distributed
from truewood.tabular._models.fitting import Fitted
from truewood.tabular._models.input_table import match_target, prepare_table
from truewood.tabular._models.loading import open_model
from truewood.tabular._models.many_files import is_many_files, score_many_files
from truewood.tabular._models.saved_model import SavedModel
from truewood.tabular._models.scoring import Scoring, score_model
from truewood.tabular._table_score import ColumnSummary, TableScore


def score_saved_model(
    saved_model: str | os.PathLike[str] | Any,
    table: Any,
    target: str,
    *,
    drop: str | Iterable[str] = (),
    sample_weight: str | None = None,
    groups: str | None = None,
    trust_pickle: bool = False,
    measure: str = "auto",
    contributions: bool = False,
    group_correlated: float | None = None,
    alpha: float = 0.05,
    random_state: int = 0,
    n_jobs: int | None = None,
    backend: str = "local",
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
    groups : str, default=None
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
    backend : {"local", "dask", "spark"}, default="local"
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
    messages = read_messages(messages)
    scoring = Scoring(measure, contributions, group_correlated, alpha, random_state, n_jobs)
    saved = open_model(saved_model, trust_pickle=trust_pickle)
    messages.add(_describe_model(saved_model, saved))
    roles = read_roles(target, sample_weight=sample_weight, groups=groups, drop=drop)
    if groups is not None and (backend != "local" or is_many_files(table)):
        raise TableError("it needs a table in memory, and these rows are read in parts; pass one file.", "groups")
    if backend != "local":
        return _score_unseen(
            partial(
                score_distributed,
                saved,
                table,
                roles,
                backend=backend,
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
                progress=progress or show_nothing,
                messages=messages,
            )
        )
    rows = open_table(table, roles, messages, is_for_model=True)
    rows = rows[find_rows_with_target(rows, roles.target, messages)].reset_index(drop=True)
    y = match_target(saved, rows[roles.target], roles.target)
    weight, group_of = read_weight(rows, roles.sample_weight), read_group_column(rows, roles.groups)
    X = prepare_table(saved, roles.choose_features(rows), messages)
    task = "regression" if saved.classes is None else "classification"
    warn_of_leaks(X, Target(task, y), roles.target, messages, is_fit=True)
    warn_of_duplicates(X, y, messages)
    return _score_unseen(
        partial(
            score_model,
            Fitted(saved.model, X, y, weight, group_of, "heldout", _predict(saved, X), saved.classes),
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
