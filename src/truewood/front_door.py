"""`importance()`: a fitted model and rows in memory or elsewhere, in; scores out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from truewood.arguments import is_choice
from truewood.data.device_arrays import bring_to_host, is_on_device, take_from_device
from truewood.data.named_columns import take_named
from truewood.engines.cuda_device import find_problem
from truewood.engines.engine import ENGINE_VARIABLE, engine_name, has_native_engine, use_engine
from truewood.result.importance_result import ImportanceResult
from truewood.scale.sources import is_of_dask, is_of_spark, open_source
from truewood.scale.streaming import score_source
from truewood.scoring.model_importance import score_table


def importance(
    model: Any,
    X: Any,
    y: Any,
    *,
    rows: Any = "auto",
    measure: str = "auto",
    sample_weight: Any = None,
    groups: Any = None,
    row_groups: Any = None,
    inference: bool | str = True,
    n_jobs: int | None = None,
    random_state: Any = None,
    target: Any = None,
    per_class: bool = False,
    engine: str = "auto",
) -> ImportanceResult:
    """Score the features of a fitted tree model on rows its trees never saw.

    Parameters
    ----------
    model : object
        A fitted tree, forest or boosted model, a `TreeEnsemble`, or a scikit-learn Pipeline that ends in such a model:
        its preprocessing is run on X, and encoded columns are scored together as the column of X they derive from. A
        search over settings stands for its best model.
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features), or a source of rows
        The rows: the training data for ``rows="oob"``, unseen data for ``rows="heldout"``. The latter need not fit into
        memory: a path, a folder, a glob or a list of Parquet or Arrow files, a pyarrow Dataset, a polars LazyFrame, a
        DuckDB relation, or anything with ``__arrow_c_stream__`` is read in batches. The partitions of a Dask DataFrame
        or Array are summed by Dask where they are, and those of a Spark DataFrame by Spark.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs), or str
        Their target, or the name of its column in X; beside an X of Dask, also a Series or Array of Dask that is
        partitioned as X is, as `sample_weight` may be then.
    rows : {"auto", "oob", "heldout"} or sequence of array-like, default="auto"
        Which rows score a tree: those left out of its bag, all of them, or a list of row numbers (or a mask) for each
        tree. "auto" means "oob", and is an error for a model that has no recorded bags.
    measure : str, default="auto"
        One of `measures()`. "auto" is "ufi" for classes, its shift-free form "ufi_centered" for numbers and for boosted
        trees, and "mdi_oob" where rows have different weights, all on the scale of the usual importance. Boosted trees
        add up to a raw score and survival trees compare hazards, so that "ufi" means "ufi_centered" for them too, and
        measures of a single tree's predictions do not apply. "sobol_mda" asks another question, whether a forest needs
        a feature given the others; it takes the rows of the fit, as ``rows="oob"`` does.
    sample_weight : array-like of shape (n_rows,) or str, default=None
        Weights of the rows when they score, or the name of their column in X. A model of scikit-learn before 1.9 that
        was fit with weights needs the same ones here with ``rows="oob"``, to recognise its training data.
    groups : dict or sequence, default=None
        Columns whose scores are summed, such as the dummy columns of one categorical feature: a dict from group name to
        columns, or the group name of each column. With a Pipeline these are the columns of X, before its preprocessing.
        "sobol_mda" takes all columns of a group out at once; what is lost then is not the sum.
    row_groups : array-like of shape (n_rows,) or str, default=None
        Rows that belong together, such as those of a patient, a shop or a day: a label for each row, or the name of
        their column in X. Standard errors and p-values are then those of sums over groups. Out of bag, all rows of a
        group must be in a tree's bag or outside of it. Not for "sobol_mda".
    inference : bool, "rows" or "bags", default=True
        Whether to add standard errors and p-values, for the measures "ufi", "ufi_centered", "mdi_oob" and "sobol_mda".
        With "rows" the result also keeps what each row contributes to each score, an array of shape (n_rows,
        n_features). With "bags", out of bag, standard errors and intervals count all that rows do by deciding which
        splits there are, as where a feature matters only together with another; that takes many trees, and a warning
        says how many.
    n_jobs : int, default=None
        Number of threads, as in scikit-learn; the result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of ``measure="permutation"``; the other measures have no randomness.
    target : array-like of shape (n_rows,) or (n_rows, n_scores), or callable, default=None
        For boosted trees, the target of each row's raw score, or a function that makes it of y; any number that
        follows from the row's y alone will do. By default the negative gradient of the model's loss at the best
        constant; ranking and custom objectives have no such default.
    per_class : bool, default=False
        Whether to add the parts that classes have in the scores, `per_class` of the result, with errors of their own.
        For classifiers, in time as many calls for a class each take.
    engine : {"auto", "native", "numpy", "cuda"}, default="auto"
        What routes the rows: the compiled kernel, the readable reference, or a GPU. "auto" takes the GPU where X lies
        there already, as an array of CuPy, a tensor of PyTorch or a data frame of cuDF, which then stays there; else
        the engine that the variable TRUEWOOD_ENGINE names, and the compiled kernel where it is installed.

    Returns
    -------
    ImportanceResult
        Scores by feature and by tree. A feature without predictive power scores zero on average, so scores may be
        negative; they are never clipped or normalised.

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
    options = {
        "rows": rows,
        "measure": measure,
        "sample_weight": sample_weight,
        "groups": groups,
        "inference": inference,
        "n_jobs": n_jobs,
        "target": target,
    }
    given = (y, sample_weight, row_groups, target)
    y, options["sample_weight"], row_groups, options["target"] = map(bring_to_host, given)
    if isinstance(rows, list | tuple):
        options["rows"] = [bring_to_host(listed) for listed in rows]
    score = None if is_on_device(X) else find_engine(X)
    if score is not None:
        for asked, name in ((per_class, "per_class=True"), (row_groups is not None, "row_groups")):
            if asked:
                raise ValueError(f"{name} needs a table in memory, got X as {type(X).__name__}; pass a table.")
        with use_engine(None if is_choice(engine, ["auto"]) else engine), _in_one_line():
            return score(model, y=y, **options)
    X, y, options["sample_weight"], row_groups = take_named(
        X, y=y, sample_weight=options["sample_weight"], row_groups=row_groups
    )
    options |= {"row_groups": row_groups, "random_state": random_state, "per_class": per_class}
    X, name = _place_rows(X, engine)
    try:
        with use_engine(name), _in_one_line():
            return score_table(model, X, y, **options)
    except DeviceMemoryError:
        if engine != "auto" or not is_on_device(X):
            raise
    X = take_from_device(X, "the engine 'native', as the GPU has too little memory")
    with use_engine("native"):
        return score_table(model, X, y, **options)


def _place_rows(X: Any, asked: str) -> tuple[Any, str]:
    """X where the engine takes it, and the engine that is asked for, or chosen: the GPU where X lies there already."""
    problem = None
    is_free = is_choice(asked, ["auto"])
    if is_free and is_on_device(X) and ENGINE_VARIABLE not in os.environ:
        problem = find_problem() if has_native_engine() else "the compiled kernel is not installed"
        asked = "cuda" if problem is None else asked
    with use_engine(None if is_free and asked == "auto" else asked):
        name = engine_name()
    if name != "cuda":
        why = "" if problem is None else f", as {problem}"
        X = take_from_device(X, f"the engine {name!r}{why}", stacklevel=3)
    return X, name


class DeviceMemoryError(MemoryError):
    """The GPU has too little memory."""


@contextmanager
def _in_one_line() -> Iterator[None]:
    """Say in a line that the GPU has too little memory."""
    try:
        yield
    except MemoryError as error:
        if type(error).__name__ != "OutOfMemoryError":  # CuPy's
            raise
        raise DeviceMemoryError(
            "the GPU has too little memory for these rows and trees; pass fewer rows, or engine='native'."
        ) from error


def find_engine(X: Any) -> Callable[..., ImportanceResult] | None:
    """What scores rows that are no table in memory; None for a table."""
    if is_of_dask(X):
        from truewood.scale.dask_frames import score_dask

        return partial(score_dask, X=X)
    if is_of_spark(X):
        from truewood.scale.spark_frames import score_spark

        return partial(score_spark, X=X)
    source = open_source(X)
    return None if source is None else partial(score_source, source=source)
