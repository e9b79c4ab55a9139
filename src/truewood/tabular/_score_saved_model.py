"""`score_saved_model`: importances of a fitted model on a table of held-out rows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._exceptions import TrainingRowsError
from truewood._progress import show_nothing
from truewood.tabular._checks.leaks import warn_of_leaks
from truewood.tabular._checks.performance import warn_of_duplicates
from truewood.tabular._columns.roles import read_roles
from truewood.tabular._columns.target_column import Outcome, find_rows_with_target, read_group_column, read_weight
from truewood.tabular._errors import TableError
from truewood.tabular._files.reading import is_many_files, name_data, open_table
from truewood.tabular._messages import Messages, read_messages
from truewood.tabular._models.boosters import Progress
from truewood.tabular._models.distributed import score_distributed
from truewood.tabular._models.fitting import Fitted
from truewood.tabular._models.input_table import match_target, prepare_table
from truewood.tabular._models.loading import open_saved_model
from truewood.tabular._models.many_files import NEEDS_MEMORY, score_many_files
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
    interactions: bool = False,
    group_correlated: float | None = None,
    alpha: float = 0.05,
    backend: str = "local",
    address: str | None = None,
    n_jobs: int | None = None,
    random_state: int = 0,
    engine: str = "auto",
    messages: Messages | None = None,
    progress: Progress | None = None,
) -> TableScore:
    """Score a fitted model on a table of held-out rows.

    Parameters
    ----------
    saved_model : path or object
        An XGBoost (.json, .ubj), LightGBM (.txt), CatBoost (.cbm, .json), skops or pickle file, the folder of a Spark
        ML model, or a loaded model of these libraries or of scikit-learn.
    table : data frame, path or FileContent
        As in `score_table`; text files are read as `pandas.read_csv` reads them. Columns that the model does not have
        are ignored. A folder or glob of Parquet or Arrow files is read in batches and need not fit into memory.
    target : str
        The column that the model predicts; rows with a missing value in it are not used.
    drop : str or iterable of str, default=()
        Columns to drop.
    sample_weight : str, default=None
        The column of row weights.
    groups : str, default=None
        The column of group labels, such as patient IDs, for cluster-robust standard errors; it is not used as a
        feature.
    trust_pickle : bool, default=False
        Whether to open pickles, which can execute arbitrary code.
    measure : str, default="auto"
        The importance measure; see `truewood.measures`.
    contributions : bool, default=False
        Whether to keep the contribution of each row, which `truewood.compare` needs for results on the same rows.
    interactions : bool, default=False
        Whether to test which pairs of features work together; see `truewood.interactions`. They need all rows in
        memory.
    group_correlated : float, default=None
        Score columns together if their average rank correlation is at least this; see `truewood.correlated_groups`.
    alpha : float, default=0.05
        Significance level of the check that the model is better than chance.
    backend : {"local", "dask", "spark"}, default="local"
        Where Parquet files are read: in this process or on a cluster. For a cluster, `table` is their location as its
        workers see it.
    address : str, default=None
        The Dask scheduler or Spark master, such as "spark://host:7077", or "sc://host" for Spark Connect; None uses
        this machine, or the configuration of Spark.
    n_jobs : int, default=None
        Number of threads, as in scikit-learn; ignored by Dask and Spark.
    random_state : int, default=0
        Seed for ``measure="permutation"``.
    engine : {"auto", "native", "numpy", "cuda"}, default="auto"
        Implementation that routes the rows through the trees, as in `truewood.importance`.
    messages : Messages, default=None
        Receives messages and warnings as they arise.
    progress : callable, default=None
        ``progress(n_done, n_rows)`` is called while rows are read in batches.

    Returns
    -------
    TableScore
        The importances; warnings as in `score_table`, and about category levels that the model does not know.

    Raises
    ------
    TableError
        If the input cannot be used; the attribute `argument` names the argument to change.

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
    scoring = Scoring(
        measure=measure,
        contributions=contributions,
        group_correlated=group_correlated,
        alpha=alpha,
        random_state=random_state,
        n_jobs=n_jobs,
        interactions=interactions,
        engine=engine,
    )
    scoring.refuse_training_rows()
    score_held_out = partial(_score_held_out, target=target, data=name_data(table))
    saved = open_saved_model(saved_model, trust_pickle=trust_pickle)
    messages.add(_describe_model(saved_model, saved))
    roles = read_roles(target, sample_weight=sample_weight, groups=groups, drop=drop)
    if groups is not None and (backend != "local" or is_many_files(table)):
        raise TableError(NEEDS_MEMORY, "groups")
    if backend != "local":
        return score_held_out(
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
        return score_held_out(
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
    warn_of_leaks(X, Outcome(task, y), roles.target, messages)
    warn_of_duplicates(X, messages)
    return score_held_out(
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


def _score_held_out(score: Callable[[], TableScore], *, target: str, data: str | None) -> TableScore:
    """Score, and turn errors about the model into errors about the argument."""
    try:
        return replace(score(), target=target, data=data)
    except TypeError as error:  # not a tree model
        raise TableError(str(error), "saved_model") from error
    except TrainingRowsError as error:
        raise TableError(
            "the table contains the training rows of the model; pass a table of held-out rows.",
            "table",
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
    except Exception as error:  # each library has its own exceptions
        reason = str(error).strip().partition("\n")[0]
        problem = f"the model cannot predict this table: {reason.rstrip('.')}; encode its columns as in training."
        raise TableError(problem, "saved_model") from error
