"""Pipelines: a fitted model is taken apart into its trees, the table they read, and what its columns derive from."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectorMixin, VarianceThreshold
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, TargetEncoder
from sklearn.utils.validation import check_is_fitted

from truewood.data.groups import Grouping, read_groups
from truewood.pipelines.containers import adapt_table, find_rare_rows, take_rows
from truewood.pipelines.tracing import MOST_TRIED, Trace, has_telling_names, is_skipped, list_transformers, trace
from truewood.words import list_names

# What preprocessing does to columns is seen on so many rows, and some rare ones; on fewer of a wide table, to try out
# its columns quickly.
_MOST_ROWS = 2_000
_FEWEST_ROWS = 200
_MOST_VALUES = 200_000
# Names that a sentence lists before it counts the rest.
_LISTED = 5


@dataclass(frozen=True, eq=False)
class Encoding:
    """What preprocessing makes of the caller's table.

    Parameters
    ----------
    inputs : list of str
        Names of the caller's columns.
    columns : Trace
        The encoded columns, and which inputs they derive from.
    """

    inputs: list[str]
    columns: Trace


@dataclass(frozen=True, eq=False)
class Parts:
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


def take_apart(model: Any, X: Any, y: Any, rows: Any) -> Parts:
    """Run the preprocessing of a fitted model, without fitting anything or changing what is the caller's.

    Parameters
    ----------
    model : object
        A Pipeline, a search over settings, or a TransformedTargetRegressor, within each other in any order; any other
        model is returned as it is.
    X : array-like, data frame or sparse matrix
        The table.
    y : array-like
        The target.
    rows : object
        The argument of `importance`.
    """
    parts = Parts(model, X, y)
    while True:
        if isinstance(parts.model, Pipeline):
            parts = _run_steps(parts, rows)
        elif isinstance(parts.model, GridSearchCV | RandomizedSearchCV) or hasattr(parts.model, "best_estimator_"):
            parts = replace(parts, model=_find_best(parts.model))
        elif isinstance(parts.model, TransformedTargetRegressor):
            parts = _transform_target(parts)
        else:
            return parts


def _find_best(search: Any) -> Any:
    name = type(search).__name__
    if hasattr(search, "best_estimator_"):
        return search.best_estimator_
    if hasattr(search, "cv_results_"):
        raise ValueError(f"{name} must keep a fitted model, got refit=False; fit the best setting and pass that model.")
    raise NotFittedError(f"{name} is not fitted yet; call fit first.")


def _transform_target(parts: Parts) -> Parts:
    """Take the regressor, and y as it was fit to it."""
    if not hasattr(parts.model, "regressor_"):
        raise NotFittedError(f"{type(parts.model).__name__} is not fitted yet; call fit first.")
    y = np.asarray(parts.y)
    transformed = parts.model.transformer_.transform(y[:, np.newaxis] if y.ndim == 1 else y)
    return replace(parts, model=parts.model.regressor_, y=transformed)


def _run_steps(parts: Parts, rows: Any) -> Parts:
    """Run all steps but the last one."""
    *steps, (name, last) = parts.model.steps
    if is_skipped(last) or (hasattr(last, "transform") and not hasattr(last, "predict")):
        raise TypeError(f"a pipeline must end in a tree model, but its last step {name!r} is {_describe(last)}.")
    parts = replace(parts, warning=_check_rows(steps, rows) or parts.warning)
    preprocessing = [step for _, step in steps if not is_skipped(step)]
    if not preprocessing:
        return replace(parts, model=last)
    if parts.encoding is None:
        fitted = [part for step in preprocessing for part in list_transformers(step)]
        encoders = [part for part in fitted if isinstance(part, OneHotEncoder | OrdinalEncoder | TargetEncoder)]
        for encoder in encoders:
            check_is_fitted(encoder)
        categories = [values for encoder in encoders for values in encoder.categories_]
        table, inputs = adapt_table(parts.X, preprocessing[0], categories)
        before = Encoding(inputs, Trace.start(inputs))
    else:
        table, before = parts.X, parts.encoding
    encoded = deepcopy(table)  # a step with copy=False, or a function, may write into what it is given
    for step in preprocessing:
        encoded = step.transform(encoded)
    columns = _find_columns(preprocessing, table, before.columns, encoded.shape[1])
    return replace(parts, model=last, X=encoded, encoding=replace(before, columns=columns))


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
            sample, found = trace(step, sample, before.names)
            before = before.then(found)
    return before


def _describe(step: Any) -> str:
    return repr(step) if step is None or isinstance(step, str) else f"a transformer, {type(step).__name__}"


def _check_rows(steps: Sequence[tuple[str, Any]], rows: Any) -> str | None:
    """Say which steps make scores on rows of the fit too good, or impossible."""
    if isinstance(rows, str):
        return _check_training(steps, rows) if rows in ("auto", "oob") else None
    suspects = [step for _, step in steps if hasattr(step, "fit_resample")]
    suspects += [part for _, step in steps for part in list_transformers(step) if _has_learned_from_y(part)]
    if not suspects:
        return None
    return (
        f"{_list_types(suspects)} resampled the rows of the fit or learned from their targets, so that scores and "
        "p-values are too good unless the listed rows are such as the pipeline never saw."
    )


def _check_training(steps: Sequence[tuple[str, Any]], rows: str) -> str | None:
    """Refuse steps whose training rows cannot be had again, and say which steps have learned from their y."""
    for name, step in steps:
        if hasattr(step, "fit_resample"):
            raise ValueError(
                f"rows={rows!r} needs the rows the trees were grown on, but step {name!r} ({type(step).__name__}) "
                "resampled them; pass rows the pipeline never saw and rows='heldout'."
            )
    fitted = [part for _, step in steps for part in list_transformers(step)]
    if any(isinstance(part, TargetEncoder) for part in fitted):
        raise ValueError(
            f"rows={rows!r} needs columns as the trees saw them, but TargetEncoder made those of training rows from "
            "their targets, by cross-fitting that is not recorded; pass rows the pipeline never saw and rows='heldout'."
        )
    learned = [part for part in fitted if _has_learned_from_y(part)]
    if not learned:
        return None
    return (
        f"{_list_types(learned)} learned from the targets of the rows that score, so that scores and p-values are too "
        "good; pass rows the pipeline never saw and rows='heldout'."
    )


def _has_learned_from_y(transformer: Any) -> bool:
    if isinstance(transformer, SelectorMixin):
        return not isinstance(transformer, VarianceThreshold)
    parameter = inspect.signature(transformer.fit).parameters.get("y")
    return parameter is not None and parameter.default is inspect.Parameter.empty


def group_columns(encoding: Encoding, combined: Sequence[str], groups: Any) -> tuple[Grouping, tuple[str, ...]]:
    """Group encoded columns by the caller's columns, or by groups of these.

    Parameters
    ----------
    encoding : Encoding
        The columns.
    combined : sequence of str
        Features that the model itself makes of several columns; each stays for itself.
    groups : None, dict or sequence
        Groups of the caller's columns.

    Returns
    -------
    grouping : Grouping
        Groups in the order of the caller's columns, then columns that mix several of them.
    notes : tuple of str
        What a reader should know.
    """
    traced, inputs = encoding.columns, encoding.inputs
    own = read_groups(groups, np.asarray(inputs, dtype=np.str_))
    found = [{int(own.group_of[j]) for j in sources} for sources in traced.sources]
    single = [next(iter(labels)) if len(labels) == 1 else None for labels in found]
    kept = sorted({label for label in single if label is not None})
    place = {label: g for g, label in enumerate(kept)}
    names = [str(own.names[label]) for label in kept]
    taken = {*inputs, *names}
    group_of = []
    for name, label in zip([*traced.names, *combined], [*single, *[None] * len(combined)], strict=True):
        group_of.append(len(names) if label is None else place[label])
        if label is None:
            names.append(_find_free_name(name, inputs, taken))
            taken.add(names[-1])
    mixed = [names[group_of[column]] for column, labels in enumerate(found) if len(labels) > 1]
    blended = {str(own.names[label]): None for labels in found if len(labels) > 1 for label in sorted(labels)}
    used = frozenset[int]().union(*traced.sources)
    constant = [name for j, name in enumerate(inputs) if j not in used and j in traced.unknown]
    dropped = [name for j, name in enumerate(inputs) if j not in used | traced.unknown]
    notes = []
    if mixed:
        notes.append(
            f"Mixes of several columns ({list_names(list(blended), _LISTED)}), scored as they are: "
            f"{list_names(mixed, _LISTED)}."
        )
    if dropped:
        notes.append(f"Not used by the pipeline, and left out: {list_names(dropped, _LISTED)}.")
    if constant:
        listed = list_names(constant, _LISTED)
        notes.append(f"The same in all rows that were tried, so that nothing tells what they are used for: {listed}.")
    return Grouping(np.asarray(names, dtype=np.str_), np.array(group_of, dtype=np.int32)), tuple(notes)


def _find_free_name(name: str, inputs: Sequence[str], taken: set[str]) -> str:
    """Name a mixture as no column of the caller's is named, nor a group or another mixture."""
    free = own = f"{name} (encoded)" if name in inputs else name
    number = 2
    while free in taken:
        free = f"{own} ({number})"
        number += 1
    return free


def _list_types(steps: Sequence[Any]) -> str:
    return list_names(list(dict.fromkeys(type(step).__name__ for step in steps)), _LISTED)
