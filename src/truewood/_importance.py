"""`importance()`: a fitted model and rows in memory or elsewhere, in; scores out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from truewood._arguments import is_choice
from truewood._engines.selection import place_rows, use_engine
from truewood._exceptions import DeviceMemoryError
from truewood._inputs.device_arrays import bring_to_host, is_on_device, take_from_device
from truewood._inputs.row_arrays import take_named
from truewood._results.importance_result import ImportanceResult
from truewood._scoring.importance import score_table
from truewood._streaming.scoring import score_source
from truewood._streaming.sources import is_dask, is_spark, open_source


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
    inference: bool | str = True,
    contributions: bool = False,
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
    feature_groups : dict or sequence, default=None
        Columns whose scores are summed, such as the dummy columns of one categorical feature: a dict from group name to
        columns, or the group name of each column. With a Pipeline these are the columns of X, before its preprocessing.
        "sobol_mda" takes all columns of a group out at once; what is lost then is not the sum.
    groups : array-like of shape (n_rows,) or str, default=None
        Rows that belong together, such as those of a patient, a shop or a day: a label for each row, or the name of
        their column in X. Standard errors and p-values are then those of sums over groups. Out of bag, all rows of a
        group must be in a tree's bag or outside of it. Not for "sobol_mda".
    inference : bool or "bags", default=True
        Whether to add standard errors and p-values, for the measures "ufi", "ufi_centered", "mdi_oob" and "sobol_mda".
        With "bags", out of bag, standard errors and intervals count all that rows do by deciding which splits there
        are, as where a feature matters only together with another; that takes many trees, and a warning says how many.
    contributions : bool, default=False
        Whether the result also keeps what each row contributes to each score, an array of shape (n_rows, n_features);
        `compare` pairs rows by it. Needs `inference`.
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
        "feature_groups": feature_groups,
        "inference": inference,
        "n_jobs": n_jobs,
        "target": target,
    }
    given = (y, sample_weight, groups, target)
    y, options["sample_weight"], groups, options["target"] = map(bring_to_host, given)
    if isinstance(rows, list | tuple):
        options["rows"] = [bring_to_host(listed) for listed in rows]
    score = None if is_on_device(X) else find_backend(X)
    if score is not None:
        for asked, name in (
            (per_class, "per_class=True"),
            (groups is not None, "groups"),
            (contributions, "contributions=True"),
        ):
            if asked:
                raise ValueError(f"{name} needs a table in memory, got X as {type(X).__name__}; pass a table.")
        with use_engine(None if is_choice(engine, ["auto"]) else engine), _in_one_line():
            return score(model, y=y, **options)
    X, y, options["sample_weight"], groups = take_named(X, y=y, sample_weight=options["sample_weight"], groups=groups)
    options |= {
        "groups": groups,
        "contributions": contributions,
        "random_state": random_state,
        "per_class": per_class,
    }
    X, chosen = place_rows(X, engine)
    try:
        with use_engine(chosen), _in_one_line():
            return score_table(model, X, y, **options)
    except DeviceMemoryError:
        if engine != "auto" or not is_on_device(X):
            raise
    X = take_from_device(X, "the engine 'native', as the GPU has too little memory")
    with use_engine("native"):
        return score_table(model, X, y, **options)


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


def find_backend(X: Any) -> Callable[..., ImportanceResult] | None:
    """What scores rows that are no table in memory; None for a table."""
    if is_dask(X):
        from truewood._streaming.dask_frames import score_dask

        return partial(score_dask, X=X)
    if is_spark(X):
        from truewood._streaming.spark_frames import score_spark

        return partial(score_spark, X=X)
    source = open_source(X)
    return None if source is None else partial(score_source, source=source)
