"""`unwrap()`: a fitted model without the pipeline or search around it, and the table as that model takes it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, TargetEncoder
from sklearn.utils.validation import check_is_fitted

from truewood.adapters import SparkModel, find_spark_pipeline
from truewood.pipelines.containers import adapt_table, find_rare_rows, take_rows
from truewood.pipelines.grouping import Encoding
from truewood.pipelines.leakage import check_rows
from truewood.pipelines.output_names import has_telling_names
from truewood.pipelines.spark_stages import SparkPipeline
from truewood.pipelines.trace import Trace, trace_columns
from truewood.pipelines.try_out import MOST_TRIED
from truewood.pipelines.walking import is_skipped, list_transformers

# What preprocessing does to columns is seen on so many rows, and some rare ones; on fewer of a wide table, to try out
# its columns quickly.
_MOST_ROWS = 2_000
_FEWEST_ROWS = 200
_MOST_VALUES = 200_000


@dataclass(frozen=True, eq=False)
class Unwrapped:
    """A model without what is around it.

    Parameters
    ----------
    model : object
        The innermost model.
    X : array-like, data frame or sparse matrix
        The table as that model takes it.
    y : array-like
        The target as that model takes it.
    encoding : Encoding or None
        How the columns of `X` came about; None where `X` is the caller's table.
    warning : str or None
        Why scores on these rows are too good to be true.
    """

    model: Any
    X: Any
    y: Any
    encoding: Encoding | None = None
    warning: str | None = None


def unwrap(model: Any, X: Any, y: Any, rows: Any) -> Unwrapped:
    """Run the preprocessing of a fitted model, without fitting anything or changing what is the caller's.

    Parameters
    ----------
    model : object
        A Pipeline, a search over settings, or a TransformedTargetRegressor, within each other in any order, or a
        PipelineModel of Spark ML; any other model is returned as it is.
    X : array-like, data frame or sparse matrix
        The table.
    y : array-like
        The target.
    rows : object
        The argument of `importance`.
    """
    unwrapped = Unwrapped(model, X, y)
    while True:
        if isinstance(unwrapped.model, Pipeline):
            unwrapped = _run_steps(unwrapped, rows)
        elif isinstance(unwrapped.model, GridSearchCV | RandomizedSearchCV) or hasattr(
            unwrapped.model, "best_estimator_"
        ):
            unwrapped = replace(unwrapped, model=_find_best(unwrapped.model))
        elif isinstance(unwrapped.model, TransformedTargetRegressor):
            unwrapped = _transform_target(unwrapped)
        elif (spark := find_spark_pipeline(unwrapped.model)) is not None:
            unwrapped = _run_spark_stages(unwrapped, spark)
        else:
            return unwrapped


def _find_best(search: Any) -> Any:
    name = type(search).__name__
    if hasattr(search, "best_estimator_"):
        return search.best_estimator_
    if hasattr(search, "cv_results_"):
        raise ValueError(f"{name} must keep a fitted model, got refit=False; fit the best setting and pass that model.")
    raise NotFittedError(f"{name} is not fitted yet; call fit first.")


def _transform_target(unwrapped: Unwrapped) -> Unwrapped:
    """Take the regressor, and y as it was fit to it."""
    if not hasattr(unwrapped.model, "regressor_"):
        raise NotFittedError(f"{type(unwrapped.model).__name__} is not fitted yet; call fit first.")
    y = np.asarray(unwrapped.y)
    transformed = unwrapped.model.transformer_.transform(y[:, np.newaxis] if y.ndim == 1 else y)
    return replace(unwrapped, model=unwrapped.model.regressor_, y=transformed)


def _run_spark_stages(unwrapped: Unwrapped, model: SparkModel) -> Unwrapped:
    """Run the stages of a PipelineModel of Spark that its tree model uses."""
    pipeline = SparkPipeline(model)
    predictor = pipeline.model
    inner = replace(
        unwrapped,
        # Models of other libraries among the stages have adapters of their own.
        model=predictor if predictor.trees is not None or predictor.live is None else predictor.live,
        y=pipeline.encode_target(unwrapped.y),
    )
    if pipeline.inputs is None:
        return inner
    X, encoding = pipeline.run(unwrapped.X)
    return replace(inner, X=X, encoding=encoding)


def _run_steps(unwrapped: Unwrapped, rows: Any) -> Unwrapped:
    """Run all steps but the last one."""
    *steps, (name, last) = unwrapped.model.steps
    if is_skipped(last) or (hasattr(last, "transform") and not hasattr(last, "predict")):
        raise TypeError(f"a pipeline must end in a tree model, but its last step {name!r} is {_describe(last)}.")
    unwrapped = replace(unwrapped, warning=check_rows(steps, rows) or unwrapped.warning)
    preprocessing = [step for _, step in steps if not is_skipped(step)]
    if not preprocessing:
        return replace(unwrapped, model=last)
    table, before = unwrapped.X, unwrapped.encoding
    if before is None:
        table, inputs = adapt_table(unwrapped.X, preprocessing[0], _list_categories(preprocessing))
        before = Encoding(inputs, Trace.start(inputs))
    encoded = deepcopy(table)  # a step with copy=False, or a function, may write into what it is given
    for step in preprocessing:
        encoded = step.transform(encoded)
    columns = _find_columns(preprocessing, table, before.columns, encoded.shape[1])
    return replace(unwrapped, model=last, X=encoded, encoding=replace(before, columns=columns))


def _list_categories(steps: Sequence[Any]) -> list[NDArray[Any]]:
    """The values that encoders among the steps know, column by column."""
    fitted = [part for step in steps for part in list_transformers(step)]
    encoders = [part for part in fitted if isinstance(part, OneHotEncoder | OrdinalEncoder | TargetEncoder)]
    for encoder in encoders:
        check_is_fitted(encoder)
    return [values for encoder in encoders for values in encoder.categories_]


def _find_columns(steps: Sequence[Any], table: Any, before: Trace, n_columns: int) -> Trace:
    """The columns after some steps, given those before."""
    n_rows = min(table.shape[0], _MOST_ROWS, max(_FEWEST_ROWS, _MOST_VALUES // max(1, len(before.names))))
    rows = np.linspace(0, table.shape[0] - 1, n_rows).astype(np.int64)
    n_inputs = len(before.names)
    if n_rows < table.shape[0] and 1 < n_inputs <= MOST_TRIED and not all(map(has_telling_names, steps)):
        rows = np.union1d(rows, find_rare_rows(table, n_inputs))
    found = _trace_steps(steps, take_rows(table, rows), before)
    # Their number may depend on the values, as with a function that makes dummy columns.
    return found if len(found.names) == n_columns else _trace_steps(steps, table, before)


def _trace_steps(steps: Sequence[Any], sample: Any, before: Trace) -> Trace:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the steps have run, and given their warnings, before
        for step in steps:
            sample, found = trace_columns(step, sample, before.names)
            before = before.then(found)
    return before


def _describe(step: Any) -> str:
    return repr(step) if step is None or isinstance(step, str) else f"a transformer, {type(step).__name__}"
