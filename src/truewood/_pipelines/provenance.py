"""`ColumnProvenance`: which of the caller's columns each output column of fitted preprocessing derives from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils.validation import check_is_fitted

from truewood._inputs.table_types import read_names
from truewood._pipelines.containers import take_columns
from truewood._pipelines.provenance_probe import find_sources

# Unambiguous placeholders for input names: an output 'a_b_c' could come from column 'a' or from column 'a_b'.
_PLACEHOLDER = re.compile("\x1f([0-9]+)\x1f")


@dataclass(frozen=True, eq=False)
class ColumnProvenance:
    """The output columns of preprocessing, and the input columns that each derives from.

    Parameters
    ----------
    names : list of str
        Names of the output columns.
    sources : list of frozenset of int
        Indices of the input columns that each output column derives from.
    unknown : frozenset of int
        Inputs that are constant in the sampled rows, so that a probe cannot reveal which outputs use them.
    """

    names: list[str]
    sources: list[frozenset[int]]
    unknown: frozenset[int] = frozenset()

    @classmethod
    def start(cls, names: Iterable[str]) -> ColumnProvenance:
        """Provenance of unmodified columns."""
        listed = list(names)
        return cls(listed, [frozenset([j]) for j in range(len(listed))])

    def then(self, later: ColumnProvenance) -> ColumnProvenance:
        """Provenance after a further step."""
        unknown = self.unknown | self._join(later.unknown)
        return ColumnProvenance(later.names, [self._join(inputs) for inputs in later.sources], unknown)

    def _join(self, columns: Iterable[int]) -> frozenset[int]:
        return frozenset[int]().union(*(self.sources[j] for j in columns))


def trace_provenance(transformer: Any, table: Any, names: Sequence[str]) -> tuple[Any, ColumnProvenance]:
    """Run fitted preprocessing on some rows, and find the inputs of each output column.

    Parameters
    ----------
    transformer : object
        A fitted transformer, or a Pipeline, ColumnTransformer or FeatureUnion of transformers.
    table : ndarray, sparse matrix or data frame
        Some rows of the transformer's input.
    names : sequence of str
        Names of the columns of `table`.

    Returns
    -------
    output : ndarray, sparse matrix or data frame
        The transformed rows.
    provenance : ColumnProvenance
        The provenance of the output columns.
    """
    if is_skipped(transformer):
        return table, ColumnProvenance.start(names)
    if isinstance(transformer, Pipeline):
        return _trace_steps(transformer, table, names)
    output = transformer.transform(deepcopy(table))
    if isinstance(transformer, ColumnTransformer):
        found = _trace_parts(transformer, table, names, _count_columns(output))
    elif isinstance(transformer, FeatureUnion):
        found = _trace_union(transformer, table, names)
    else:
        found = _trace_single(transformer, table, names, output)
    return output, replace(found, names=read_names(output) or found.names)


def _trace_steps(pipeline: Pipeline, table: Any, names: Sequence[str]) -> tuple[Any, ColumnProvenance]:
    traced = ColumnProvenance.start(names)
    for _, step in pipeline.steps:
        table, found = trace_provenance(step, table, traced.names)
        traced = traced.then(found)
    return table, traced


def _trace_parts(transformer: ColumnTransformer, table: Any, names: Sequence[str], n_columns: int) -> ColumnProvenance:
    traced, unknown = ColumnProvenance([""] * n_columns, [frozenset()] * n_columns), set[int]()
    for label, part, columns in transformer.transformers_:
        places = range(n_columns)[transformer.output_indices_[label]]
        if not places:
            continue
        inputs = _find_inputs(columns, transformer, table)
        # ColumnTransformer passes a column given as a scalar in one dimension, for text vectorizers.
        is_single = not isinstance(columns, slice) and np.ndim(columns) == 0
        taken = take_columns(table, inputs[0] if is_single else inputs)
        _, found = trace_provenance(part, taken, [names[j] for j in inputs])
        if len(found.names) != len(places):
            found = ColumnProvenance(_number(label, len(places)), [frozenset(range(len(inputs)))] * len(places))
        for place, name, sources in zip(places, found.names, found.sources, strict=True):
            traced.names[place] = _add_prefix(transformer.verbose_feature_names_out, label, name)
            traced.sources[place] = frozenset(inputs[j] for j in sources)
        unknown.update(inputs[j] for j in found.unknown)
    return replace(traced, unknown=frozenset(unknown))


def _find_inputs(columns: Any, transformer: ColumnTransformer, table: Any) -> list[int]:
    """Indices of the columns of `table` that a part of a ColumnTransformer was fit on."""
    known = [str(name) for name in getattr(transformer, "feature_names_in_", [])]
    numbers = range(transformer.n_features_in_)
    if isinstance(columns, slice):
        by_name = isinstance(columns.start, str) or isinstance(columns.stop, str)
        chosen = list(numbers[pd.Index(known).slice_indexer(columns.start, columns.stop) if by_name else columns])
    else:
        listed = np.atleast_1d(np.asarray(columns))
        if listed.dtype == np.bool_:
            listed = np.flatnonzero(listed)
        chosen = [numbers[name] if isinstance(name, int) else known.index(name) for name in listed.tolist()]
    given = read_names(table)
    # A data frame may have additional columns, in any order.
    return chosen if given is None or not known else [given.index(known[j]) for j in chosen]


def _trace_union(union: FeatureUnion, table: Any, names: Sequence[str]) -> ColumnProvenance:
    traced, unknown = ColumnProvenance([], []), set[int]()
    for label, part in union.transformer_list:
        if part == "drop":
            continue
        _, found = trace_provenance(part, table, names)
        is_verbose = getattr(union, "verbose_feature_names_out", True)
        traced.names.extend(_add_prefix(is_verbose, label, name) for name in found.names)
        traced.sources.extend(found.sources)
        unknown |= found.unknown
    return replace(traced, unknown=frozenset(unknown))


def _add_prefix(rule: Any, label: str, name: str) -> str:
    """Column name according to `verbose_feature_names_out`."""
    if callable(rule):
        return str(rule(label, name))
    if isinstance(rule, str):
        return rule.format(transformer_name=label, feature_name=name)
    return f"{label}__{name}" if rule else name


def _trace_single(transformer: Any, table: Any, names: Sequence[str], output: Any) -> ColumnProvenance:
    n_inputs, n_columns = len(names), _count_columns(output)
    output_names = name_outputs(transformer, n_inputs)
    sources, unknown = [find_placeholders(name) for name in output_names], frozenset[int]()
    # A category name may happen to contain a placeholder.
    has_names = len(output_names) == n_columns and all(max(found, default=0) < n_inputs for found in sources)
    if not has_names:
        sources = [frozenset()] * n_columns
    if n_inputs == 1:
        sources = [frozenset([0])] * n_columns
    elif not all(sources):
        sources, unknown = find_sources(transformer, table, names, known=sources, output_names=read_names(output))
    if has_names:
        return ColumnProvenance([fill_placeholders(name, names) for name in output_names], sources, unknown)
    numbered = _number(type(transformer).__name__.lower(), n_columns)
    is_kept = [n_columns == n_inputs and found == {j} for j, found in enumerate(sources)]
    return ColumnProvenance([names[j] if is_kept[j] else numbered[j] for j in range(n_columns)], sources, unknown)


def _number(name: str, n_columns: int) -> list[str]:
    return [f"{name}{k}" for k in range(n_columns)]


def _count_columns(output: Any) -> int:
    return 1 if len(output.shape) == 1 else int(output.shape[1])


def is_skipped(transformer: Any) -> bool:
    """Whether a step does nothing at prediction time: no transformer, or one that only resamples training rows."""
    return transformer is None or isinstance(transformer, str) or hasattr(transformer, "fit_resample")


def list_transformers(transformer: Any, *, only_first: bool = False) -> Iterator[Any]:
    """All elementary transformers in fitted preprocessing, or only the first of each Pipeline."""
    if isinstance(transformer, Pipeline):
        parts = [part for _, part in transformer.steps if not is_skipped(part)][: 1 if only_first else None]
    elif isinstance(transformer, ColumnTransformer):
        check_is_fitted(transformer)
        parts = [part for _, part, _ in transformer.transformers_]
    elif isinstance(transformer, FeatureUnion):
        parts = [part for _, part in transformer.transformer_list]
    elif type(transformer).__name__ == "FrozenEstimator":
        parts = [transformer.estimator]
    else:
        yield from () if is_skipped(transformer) else (transformer,)
        return
    for part in parts:
        yield from list_transformers(part, only_first=only_first)


def name_outputs(transformer: Any, n_inputs: int) -> list[str]:
    """Output names for placeholder input names; empty if the transformer does not provide names."""
    marks = np.array([f"\x1f{j}\x1f" for j in range(n_inputs)], dtype=object)
    try:
        renamed = copy(transformer)
        # scikit-learn requires the input names that the transformer was fit with.
        renamed.feature_names_in_ = marks
        return [str(name) for name in renamed.get_feature_names_out(marks)]
    except Exception:  # third-party transformers and user functions can fail in any way
        return []


def find_placeholders(name: str) -> frozenset[int]:
    """Indices of the inputs with a placeholder in `name`."""
    return frozenset(int(j) for j in _PLACEHOLDER.findall(name))


def fill_placeholders(name: str, names: Sequence[str]) -> str:
    """Replace placeholders by the names of the inputs."""
    return _PLACEHOLDER.sub(lambda mark: names[int(mark[1])], name)


def has_traceable_names(transformer: Any) -> bool:
    """Whether names alone identify the inputs of each output of fitted preprocessing."""
    parts = list(list_transformers(transformer))
    output_names = [name_outputs(part, getattr(part, "n_features_in_", 0)) for part in parts]
    return all(names and all(map(_PLACEHOLDER.search, names)) for names in output_names)
