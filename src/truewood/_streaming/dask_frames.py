"""Scores from Dask DataFrames and Arrays: workers sum their partitions, and only the sums move."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from truewood._arguments import check_n_jobs, check_n_rows, name_type
from truewood._formatting import quote
from truewood._inputs.table_types import check_named
from truewood._results.importance_result import ImportanceResult
from truewood._streaming.model import Part, StreamingModel
from truewood._streaming.open_source import is_class
from truewood._streaming.passes import Summed, choose_columns, run_step, score_parts

# Number of sums that one task adds up.
_SPLIT_EVERY = 8


def score_dask(
    model: Any,
    X: Any,
    y: Any,
    *,
    measure: str,
    sample_weight: Any,
    feature_groups: Any,
    inference: bool,
    n_jobs: int | None,
    target: Any,
) -> ImportanceResult:
    """Score a model on a Dask DataFrame or Array, with Dask's current scheduler; see `importance`."""
    is_frame = is_class(X, "dask", "DataFrame")
    if not is_frame and not (is_class(X, "dask", "Array") and X.ndim == 2):
        raise TypeError(f"X must be a Dask DataFrame or two-dimensional Dask Array, got a {name_type(X)}.")
    if isinstance(model, dict) and "booster" in model:
        model = model["booster"]  # what xgboost.dask.train returns
    streaming = StreamingModel(model, target=target)
    roles = None
    if is_frame:
        roles = _find_column_roles(X, y, sample_weight, streaming)
        y, sample_weight = (None if roles.targets else y), (None if roles.weights else sample_weight)

    def run_pass(title: str, step: Callable[[Any, Part], Summed], shared: Any, *, only_targets: bool = False) -> Summed:
        del title  # Dask has its own progress bars
        own = None if roles is None else roles.without_features() if only_targets else roles
        tables = X if own is None else X[own.columns]
        parts = _list_partitions(tables, "X", X)
        others = [
            [None] * len(parts) if given is None else _list_partitions(given, argument, X)
            for given, argument in ((y, "y"), (sample_weight, "sample_weight"))
        ]
        return _sum_on_workers(partial(_sum_partition, step=step, roles=own), shared, [parts, *others])

    return score_parts(
        streaming,
        run_pass,
        can_repeat=True,
        measure=measure,
        feature_groups=feature_groups,
        inference=inference,
        n_threads=check_n_jobs(n_jobs),
    )


@dataclass(frozen=True)
class _ColumnRoles:
    """Columns of a data frame by role.

    Parameters
    ----------
    features, targets, weights : list of str
        Column names; empty if the target or the weights are not columns of the frame.
    types : dict
        Type of each column according to the frame's metadata.
    """

    features: list[Any]
    targets: list[Any]
    weights: list[Any]
    types: dict[Any, Any]

    @property
    def columns(self) -> list[Any]:
        """All columns, without duplicates."""
        return list(dict.fromkeys([*self.features, *self.targets, *self.weights]))

    def without_features(self) -> _ColumnRoles:
        """The target and weight columns only."""
        return _ColumnRoles([], self.targets, self.weights, self.types)

    def split_columns(self, part: Part) -> Part:
        """Features, target and weights of a partition."""
        table, y, weight = part.X, part.y, part.sample_weight
        for name in self.columns if len(table) else ():
            own, known = table[name].dtype, self.types[name]
            if _find_kind(own) != _find_kind(known):
                raise ValueError(
                    f"column {quote(name)} is {own}, but {known} in the metadata of X; correct meta= "
                    "where X is created."
                )
        if self.targets:
            y = table[self.targets[0]] if len(self.targets) == 1 else table[self.targets].to_numpy()
        if self.weights:
            weight = table[self.weights[0]]
        return Part(part.label, table[self.features], y, weight)


def _find_column_roles(X: Any, y: Any, sample_weight: Any, model: StreamingModel) -> _ColumnRoles:
    names = list(X.columns)
    targets = [y] if isinstance(y, str) else list(y) if isinstance(y, list | tuple) else []
    weights = [sample_weight] if isinstance(sample_weight, str) else []
    for argument, given in (("y", targets), ("sample_weight", weights)):
        for name in given:
            check_named(name, names, argument)
    features = choose_columns(model, names, [*targets, *weights])
    types = dict(X.dtypes.items())
    for name in features if model.tree_model.table.takes_codes else ():
        if isinstance(types[name], pd.CategoricalDtype) and not X[name].cat.known:
            raise ValueError(
                f"column {quote(name)} must have known categories, because {model.tree_model.name} knows them only by "
                f"their codes, got codes that differ between partitions; pass X.categorize(columns=[{name!r}])."
            )
    return _ColumnRoles(features, targets, weights, types)


def _find_kind(dtype: Any) -> str:
    """The kind of type that all partitions must share."""
    if isinstance(dtype, pd.CategoricalDtype):
        return "category"
    if pd.api.types.is_numeric_dtype(dtype):
        return "number"
    return "text" if pd.api.types.is_string_dtype(dtype) else str(dtype)


def _list_partitions(given: Any, argument: str, X: Any) -> list[Any]:
    """Partitions as `dask.delayed` objects, aligned with those of X."""
    if is_class(given, "dask", "Array"):
        given = given.rechunk(dict.fromkeys(range(1, given.ndim), -1))
        if (
            is_class(X, "dask", "Array")
            and given.chunks[0] != X.chunks[0]
            and not np.isnan([*given.shape, *X.shape]).any()
        ):
            check_n_rows(len(given), len(X), argument)
            given = given.rechunk({0: X.chunks[0]})
        parts: list[Any] = given.to_delayed().ravel().tolist()
    elif is_class(given, "dask", "DataFrame") or is_class(given, "dask", "Series"):
        parts = given.to_delayed()
    else:
        raise TypeError(
            f"{argument} must be a Dask Series or Array, or the name of a column, if X is a Dask collection, got a "
            f"{name_type(given)}."
        )
    n_parts = X.npartitions if is_class(X, "dask", "DataFrame") else len(X.chunks[0])
    if len(parts) != n_parts or _has_other_divisions(given, X):
        found = "other divisions" if len(parts) == n_parts else len(parts)
        raise ValueError(
            f"{argument} must be partitioned like X, which has {n_parts} partitions, got {found}; make it a column of "
            "X and pass its name."
        )
    return parts


def _has_other_divisions(given: Any, X: Any) -> bool:
    are_known = getattr(given, "known_divisions", False) and getattr(X, "known_divisions", False)
    return bool(are_known and given.divisions != X.divisions)


def _sum_partition(
    shared: Any,
    number: int,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    step: Callable[[Any, Part], Summed],
    roles: _ColumnRoles | None,
) -> Summed:
    part = Part(f"partition {number}", X, y, sample_weight)
    return run_step(
        lambda shared, part: step(shared, part if roles is None else roles.split_columns(part)), shared, part
    )


def _sum_on_workers(sum_partition: Callable[..., Summed], shared: Any, given: Sequence[Sequence[Any]]) -> Summed:
    """Sum all partitions, and add up the sums in a tree of tasks."""
    import cloudpickle
    import dask

    # Part of the graph instead of scattered, so that a replacement for a failed worker can load it again.
    shared = dask.delayed(pickle.loads, pure=False)(cloudpickle.dumps(shared))
    step, merge = dask.delayed(sum_partition, pure=False), dask.delayed(sum, pure=False)
    sums = [step(shared, number, *own) for number, own in enumerate(zip(*given, strict=True))]
    while len(sums) > 1:
        sums = [merge(sums[first : first + _SPLIT_EVERY]) for first in range(0, len(sums), _SPLIT_EVERY)]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph")  # the shared object is large, but is sent only once
        summed: Summed = sums[0].compute()
    return summed
