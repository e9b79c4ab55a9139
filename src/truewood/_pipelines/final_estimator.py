"""The final estimator of a fitted pipeline or search, and the table and target that it receives."""

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

from truewood._formatting import quote
from truewood._inputs.table_types import take_from_device
from truewood._pipelines.containers import adapt_table, find_rare_rows, take_rows
from truewood._pipelines.encoding import Encoding
from truewood._pipelines.leakage import check_row_by_row, check_rows
from truewood._pipelines.provenance import (
    ColumnProvenance,
    has_traceable_names,
    is_skipped,
    list_transformers,
    trace_provenance,
)
from truewood._pipelines.provenance_probe import MOST_PROBED
from truewood._pipelines.spark_stages import SparkPipeline
from truewood.adapters import open_model
from truewood.adapters._spark_model import SparkModel, read_spark_model

# Number of rows on which provenance is traced, in addition to rows with rare values; fewer for wide tables.
_MOST_ROWS = 2_000
_FEWEST_ROWS = 200
_MOST_VALUES = 200_000


@dataclass(frozen=True, eq=False)
class FinalEstimator:
    """A final estimator with its inputs.

    Parameters
    ----------
    model : object
        The final estimator.
    X : array-like, data frame or sparse matrix
        The table that it receives.
    y : array-like or None
        The target that it receives.
    encoding : Encoding or None
        How preprocessing made the columns of `X`; None if `X` is the caller's table.
    warning : str or None
        Why scores on these rows are too optimistic.
    """

    model: Any
    X: Any
    y: Any
    encoding: Encoding | None = None
    warning: str | None = None


def find_final_estimator(model: Any) -> Any:
    """The final estimator alone, see `extract_final_estimator`."""
    while (inner := _open(model)) is not None:
        model = inner
    return model


def check_bags(model: Any, remedy: str) -> None:
    """Refuse a fitted estimator without recorded bags, where only out-of-bag rows can be scored."""
    tree_model = open_model(find_final_estimator(model))
    if tree_model.training is None or not tree_model.training.has_bags:
        raise ValueError(
            f"estimator must record its out-of-bag rows, but {tree_model.name} {tree_model.why_no_bags}; {remedy}."
        )


def _open(model: Any) -> Any | None:
    """The model inside a pipeline, search or wrapper; None for any other model."""
    if isinstance(model, Pipeline):
        return _get_last(model)
    if _is_search(model):
        return _find_best(model)
    if isinstance(model, TransformedTargetRegressor):
        return _get_regressor(model)
    spark = find_spark_pipeline(model)
    return None if spark is None else spark.find_predictor()


def extract_target(model: Any, y: Any) -> Any:
    """The target that the final estimator receives."""
    while (inner := _open(model)) is not None:
        if isinstance(model, TransformedTargetRegressor):
            y = _transform_y(model, y, check_parts=False)
        elif (spark := find_spark_pipeline(model)) is not None:
            y = spark.encode_target(y)
        model = inner
    return y


def extract_final_estimator(
    model: Any, X: Any, y: Any, rows: Any, *, known: Encoding | None = None, check_parts: bool = False
) -> FinalEstimator:
    """Run the preprocessing of a fitted model, without fitting anything or modifying the caller's data.

    Parameters
    ----------
    model : object
        A Pipeline, a search or a TransformedTargetRegressor, nested in any order, or a Spark ML PipelineModel; any
        other model is returned unchanged.
    X : array-like, data frame or sparse matrix
        The table.
    y : array-like or None
        The target; None if it is not needed.
    rows : object
        The argument of `importance`.
    known : Encoding or None
        How preprocessing makes columns, if that is known from other rows.
    check_parts : bool
        Whether `X` is only a part of the rows: refuse steps that depend on the whole table when they transform.
    """
    final = FinalEstimator(model, X, y)
    while True:
        if isinstance(final.model, Pipeline):
            final = _run_steps(final, rows, is_traced=known is None, check_parts=check_parts)
        elif _is_search(final.model):
            final = replace(final, model=_find_best(final.model))
        elif isinstance(final.model, TransformedTargetRegressor):
            regressor = _get_regressor(final.model)
            y = final.y
            if y is not None:
                y = _transform_y(final.model, y, check_parts=check_parts)
            final = replace(final, model=regressor, y=y)
        elif (spark := find_spark_pipeline(final.model)) is not None:
            final = _run_spark_stages(final, spark)
        else:
            return final if known is None else replace(final, encoding=known)


def _is_search(model: Any) -> bool:
    return isinstance(model, GridSearchCV | RandomizedSearchCV) or hasattr(model, "best_estimator_")


def _find_best(search: Any) -> Any:
    name = type(search).__name__
    if hasattr(search, "best_estimator_"):
        return search.best_estimator_
    if hasattr(search, "cv_results_"):
        raise ValueError(f"{name} must keep a fitted model, got refit=False; fit the best setting and pass that model.")
    raise NotFittedError(f"{name} is not fitted yet; call fit first.")


def _get_regressor(model: TransformedTargetRegressor) -> Any:
    if not hasattr(model, "regressor_"):
        raise NotFittedError(f"{type(model).__name__} is not fitted yet; call fit first.")
    return model.regressor_


def _transform_y(model: TransformedTargetRegressor, y: Any, *, check_parts: bool) -> Any:
    """The target that the regressor was fit to."""
    y = np.asarray(y)
    y = y[:, np.newaxis] if y.ndim == 1 else y
    if check_parts:
        check_row_by_row("transformer", model.transformer_, y[:_MOST_ROWS])
    return model.transformer_.transform(y)


def find_spark_pipeline(model: Any) -> SparkPipeline | None:
    """A Spark ML PipelineModel, from a session or loaded; None for any other model."""
    kind = type(model)
    is_live = kind.__name__ == "PipelineModel" and kind.__module__.startswith("pyspark.ml.")
    if not is_live and not isinstance(model, SparkModel):
        return None
    found = read_spark_model(model)
    return SparkPipeline(found) if found.stages else None


def _run_spark_stages(final: FinalEstimator, pipeline: SparkPipeline) -> FinalEstimator:
    """Run the stages of a Spark PipelineModel that its tree model uses."""
    inner = replace(final, model=pipeline.find_predictor(), y=pipeline.encode_target(final.y))
    if pipeline.inputs is None:
        return inner
    X, encoding = pipeline.run(final.X)
    return replace(inner, X=X, encoding=encoding)


def _get_last(pipeline: Pipeline) -> Any:
    name, last = pipeline.steps[-1]
    if is_skipped(last) or (hasattr(last, "transform") and not hasattr(last, "predict")):
        raise TypeError(f"a pipeline must end in a tree model, but its last step {quote(name)} is {_describe(last)}.")
    return last


def _run_steps(final: FinalEstimator, rows: Any, *, is_traced: bool, check_parts: bool) -> FinalEstimator:
    """Run all steps except the last one."""
    steps, last = final.model.steps[:-1], _get_last(final.model)
    final = replace(final, warning=check_rows(steps, rows) or final.warning)
    named = [(name, step) for name, step in steps if not is_skipped(step)]
    preprocessing = [step for _, step in named]
    if not preprocessing:
        return replace(final, model=last)
    table, before = take_from_device(final.X, "the steps of the pipeline"), final.encoding
    if before is None:
        table, inputs = adapt_table(table, preprocessing[0], _list_categories(preprocessing))
        before = Encoding(inputs, ColumnProvenance.start(inputs))
    if check_parts:
        head = take_rows(table, np.arange(min(table.shape[0], _MOST_ROWS)))
        for name, step in named:
            head = check_row_by_row(name, step, head)
    encoded = deepcopy(table)  # a step with copy=False, or a function, may write into what it is given
    for step in preprocessing:
        encoded = step.transform(encoded)
    columns = _find_columns(preprocessing, table, before.columns, encoded.shape[1]) if is_traced else before.columns
    return replace(final, model=last, X=encoded, encoding=replace(before, columns=columns))


def _list_categories(steps: Sequence[Any]) -> list[NDArray[Any]]:
    """The categories of the encoders among the steps, column by column."""
    fitted = [part for step in steps for part in list_transformers(step)]
    encoders = [part for part in fitted if isinstance(part, OneHotEncoder | OrdinalEncoder | TargetEncoder)]
    for encoder in encoders:
        check_is_fitted(encoder)
    return [values for encoder in encoders for values in encoder.categories_]


def _find_columns(steps: Sequence[Any], table: Any, before: ColumnProvenance, n_columns: int) -> ColumnProvenance:
    """The columns after some steps, given those before."""
    n_rows = min(table.shape[0], _MOST_ROWS, max(_FEWEST_ROWS, _MOST_VALUES // max(1, len(before.names))))
    rows = np.linspace(0, table.shape[0] - 1, n_rows).astype(np.int64)
    n_inputs = len(before.names)
    if n_rows < table.shape[0] and 1 < n_inputs <= MOST_PROBED and not all(map(has_traceable_names, steps)):
        rows = np.union1d(rows, find_rare_rows(table, n_inputs))
    found = _trace_steps(steps, take_rows(table, rows), before)
    # Their number may depend on the values, as with a function that creates dummy columns.
    return found if len(found.names) == n_columns else _trace_steps(steps, table, before)


def _trace_steps(steps: Sequence[Any], sample: Any, before: ColumnProvenance) -> ColumnProvenance:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the steps have run, and issued their warnings, before
        for step in steps:
            sample, found = trace_provenance(step, sample, before.names)
            before = before.then(found)
    return before


def _describe(step: Any) -> str:
    return repr(step) if step is None or isinstance(step, str) else f"a transformer, {type(step).__name__}"
