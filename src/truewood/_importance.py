"""`importance()`: the scores of a fitted model on rows in memory, in files or on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from truewood._arguments import name_type
from truewood._engines.selection import place_on_host, place_rows, use_engine, was_selected_for
from truewood._exceptions import DeviceMemoryError
from truewood._inputs.table_types import bring_to_host, is_on_device, take_named
from truewood._results.importance_result import ImportanceResult
from truewood._scoring.importance import score_in_memory


def importance(
    model: Any,
    X: Any,
    y: Any,
    *,
    rows: Any = "auto",
    measure: str = "auto",
    sample_weight: Any = None,
    feature_groups: Any = None,
    groups: Any = None,
    target: Any = None,
    inference: bool | str = True,
    contributions: bool = False,
    per_class: bool = False,
    n_jobs: int | None = None,
    random_state: Any = None,
    engine: str = "auto",
) -> ImportanceResult:
    """Score the features of a fitted tree model on rows its trees never saw.

    Parameters
    ----------
    model : object
        A fitted tree, forest or boosted model, a `TreeEnsemble`, or a scikit-learn Pipeline that ends in one. The
        preprocessing of a Pipeline runs on X, and encoded columns are scored together as the column of X they derive
        from. For a search such as GridSearchCV, its best estimator is scored.
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features), or a source of rows
        The training data for ``rows="oob"``, held-out data for ``rows="heldout"``. Held-out data need not fit into
        memory: a path, a folder, a glob or a list of Parquet or Arrow files, a pyarrow Dataset, a polars LazyFrame, a
        DuckDB relation, or any other Arrow stream (``__arrow_c_stream__``) that is not a data frame is read in batches.
        The partitions of a Dask DataFrame or Array are processed by Dask where they are, and those of a Spark DataFrame
        by Spark. All of these need ``rows="heldout"`` and, except for Dask, y and `sample_weight` as names of columns.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs), or str
        The target, or the name of its column in X. If X is a Dask collection, y and `sample_weight` may also be a Dask
        Series or Array that is partitioned like X.
    rows : {"auto", "oob", "heldout"} or sequence of array-like, default="auto"
        Which rows each tree is scored on. "oob": its out-of-bag rows, which its bootstrap sample (its bag) left out.
        "heldout": all rows of X, which the model must not have seen. A sequence: one list of row numbers, or one mask,
        per tree. "auto" means "oob", and raises an error if the model does not record which rows are in the bag of each
        tree.
    measure : str, default="auto"
        One of `measures()`. "auto" is "ufi" for classification, "ufi_centered" (unchanged if a constant is added to the
        target) for regression, survival and boosted trees, and "mdi_oob" if rows have different weights; except for
        boosted trees, all are on the scale of the usual impurity importance. For boosted and survival trees, "ufi" is
        the same as "ufi_centered", and "loss_oob" and "permutation" are unavailable: they need trees that each predict
        the target, but boosted trees do so only in sum, and survival trees compare hazards. "mdi_plus_oob" adds linear
        terms, which improves the ranking of linear effects, and needs the training data of a forest. "sobol_mda"
        answers a different question: how much worse a forest predicts without a feature, given the others. It needs the
        training data, like ``rows="oob"``.
    sample_weight : array-like of shape (n_rows,) or str, default=None
        Weights of the rows in the scores, or the name of their column in X. With ``rows="oob"`` and a model that was
        fit with weights by scikit-learn before 1.9, pass the same weights, so that truewood can verify that X and y are
        the training data.
    feature_groups : dict or sequence, default=None
        Columns whose scores are summed, such as the dummy columns of one categorical feature: a dict from group name to
        columns, or the group name of each column. With a Pipeline these are the columns of X, before preprocessing.
        "sobol_mda" removes all columns of a group at once, so the score of a group is not the sum of its columns'
        scores.
    groups : array-like of shape (n_rows,) or str, default=None
        Clusters of rows, such as all rows of a patient, a shop or a day: a label for each row, or the name of the label
        column in X. Standard errors and p-values are then cluster-robust. With ``rows="oob"``, each cluster must be
        entirely in or entirely outside each tree's bag, which an ordinary bootstrap does not ensure; use held-out rows
        or `cross_importance` instead. Not supported by "sobol_mda".
    target : array-like of shape (n_rows,) or (n_rows, n_scores), or callable, default=None
        For boosted trees, what the trees are scored against instead of y: one number per row and per raw score (a sum
        of the trees' values, such as log-odds), or a function that computes it from y. The target of a row may depend
        only on its own y. The default is the negative gradient of the model's loss at the best constant prediction;
        ranking and custom objectives have no default.
    inference : bool, "bags" or "residual", default=True
        Whether to compute standard errors and p-values, for the measures "ufi", "ufi_centered", "mdi_oob",
        "mdi_plus_oob" and "sobol_mda". True uses an approximation of how each row affects the choice of splits. "bags"
        estimates this effect for out-of-bag rows by comparing trees that have the row in their bag with those that do
        not. Standard errors and intervals are then more accurate for features that are useful only together with
        others; p-values stay the same. It needs many trees, and warns if there are too few. With "residual", p-values
        test each feature on the part of the target that the other features leave unexplained, which finds more features
        if others explain much of the target; scores, standard errors and intervals stay the same. It needs rows of
        equal weight, and the measure "ufi_centered" or, for classification, "ufi"; survival trees are not supported.
    contributions : bool, default=False
        Whether to keep the contribution of each row to each score, an array of shape (n_rows, n_features), which
        `compare` uses to pair rows. Needs `inference`.
    per_class : bool, default=False
        Whether to add scores by class, with their own standard errors, as `classes` of the result. For classifiers
        only; takes one more pass per class.
    n_jobs : int, default=None
        Number of threads, as in scikit-learn; the result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed for ``measure="permutation"``; the other measures are deterministic.
    engine : {"auto", "native", "numpy", "cuda"}, default="auto"
        Implementation that routes the rows through the trees: the compiled kernel ("native"), the slower reference in
        numpy, or a GPU ("cuda"). "auto" uses the engine named by the environment variable TRUEWOOD_ENGINE. If it is not
        set, "auto" uses the GPU if X is already there, as a CuPy array, a PyTorch tensor or a cuDF data frame, and
        otherwise the compiled kernel, or numpy if the kernel is not installed.

    Returns
    -------
    ImportanceResult
        Scores by feature and by tree. A feature without predictive power scores zero on average, so scores may be
        negative; they are never clipped or normalized.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import truewood as tw
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> forest = RandomForestClassifier(random_state=0).fit(X, y)
    >>> tw.importance(forest, X, y).frame()["feature"][:2].tolist()
    ['petal length (cm)', 'petal width (cm)']
    """
    y, sample_weight, groups, target = map(bring_to_host, (y, sample_weight, groups, target))
    if isinstance(rows, list | tuple):
        rows = [bring_to_host(listed) for listed in rows]
    options = {"measure": measure, "feature_groups": feature_groups, "n_jobs": n_jobs, "target": target}
    score_stream = None if is_on_device(X) else find_streaming_scorer(X)
    if score_stream is not None:
        for is_asked, name in (
            (per_class, "per_class=True"),
            (groups is not None, "groups"),
            (contributions, "contributions=True"),
        ):
            if is_asked:
                raise ValueError(
                    f"{name} needs a table in memory, but X is a {name_type(X)}; load its rows into memory first."
                )
        from truewood._streaming.passes import check_streaming_options

        inference = check_streaming_options(rows, measure, inference)
        with use_engine(engine):
            return score_stream(model, y=y, sample_weight=sample_weight, inference=inference, **options)
    X, y, sample_weight, groups = take_named(X, y=y, sample_weight=sample_weight, groups=groups)
    options |= {
        "rows": rows,
        "sample_weight": sample_weight,
        "groups": groups,
        "inference": inference,
        "contributions": contributions,
        "random_state": random_state,
        "per_class": per_class,
    }
    return score_on_engine(model, X, y, engine=engine, **options)


def score_on_engine(model: Any, X: Any, y: Any, *, engine: str, **options: Any) -> ImportanceResult:
    """Score a table in memory with the given engine, or natively if the GPU that "auto" chose has too little memory."""
    X, chosen = place_rows(X, engine)
    try:
        with use_engine(chosen):
            return score_in_memory(model, X, y, **options)
    except DeviceMemoryError:
        if not was_selected_for(X, engine):
            raise
    X, chosen = place_on_host(X, "the GPU has too little memory")
    with use_engine(chosen):
        return score_in_memory(model, X, y, **options)


def find_streaming_scorer(X: Any) -> Callable[..., ImportanceResult] | None:
    """The function that scores X if it is not a table in memory; None for a table."""
    if isinstance(X, pd.DataFrame | np.ndarray):
        return None
    # Imported here because tables in memory do not need them.
    from truewood._streaming.open_source import find_cluster_library, open_source

    library = find_cluster_library(X)
    if library == "dask":
        from truewood._streaming.dask_frames import score_dask

        return partial(score_dask, X=X)
    if library == "pyspark":
        from truewood._streaming.spark_frames import score_spark

        return partial(score_spark, X=X)
    source = open_source(X)
    if source is None:
        return None
    from truewood._streaming.passes import score_source

    return partial(score_source, X=source)
