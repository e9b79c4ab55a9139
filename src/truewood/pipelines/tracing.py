"""Where encoded columns come from: which inputs each output column of fitted preprocessing derives from."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from truewood.data.tables import read_names
from truewood.pipelines.containers import number_values, shuffle_column, take_columns

# More columns than this are not tried out one by one: what is not known by name counts as a mixture of all of them.
MOST_TRIED = 500


@dataclass(frozen=True, eq=False)
class Trace:
    """The columns that preprocessing gives.

    Parameters
    ----------
    names : list of str
        Their names.
    sources : list of frozenset of int
        For each the numbers of the input columns it derives from.
    unknown : frozenset of int
        Inputs that are the same in all rows that were tried, so that nothing tells what they are used for.
    """

    names: list[str]
    sources: list[frozenset[int]]
    unknown: frozenset[int] = frozenset()

    @classmethod
    def start(cls, names: Iterable[str]) -> Trace:
        """Trace of columns that are as they came."""
        listed = list(names)
        return cls(listed, [frozenset([j]) for j in range(len(listed))])

    def then(self, later: Trace) -> Trace:
        """Trace of one step after the other."""
        unknown = self.unknown | self._join(later.unknown)
        return Trace(later.names, [self._join(inputs) for inputs in later.sources], unknown)

    def _join(self, columns: Iterable[int]) -> frozenset[int]:
        return frozenset[int]().union(*(self.sources[j] for j in columns))


def trace(transformer: Any, table: Any, names: Sequence[str]) -> tuple[Any, Trace]:
    """Run fitted preprocessing on some rows, and find what each output column derives from.

    Parameters
    ----------
    transformer : object
        A fitted transformer, or a Pipeline, ColumnTransformer or FeatureUnion of such.
    table : ndarray, sparse matrix or data frame
        Some rows, as the transformer takes them.
    names : sequence of str
        Names of the columns of `table`.

    Returns
    -------
    output : ndarray, sparse matrix or data frame
        What the transformer makes of the rows.
    trace : Trace
        Its columns.
    """
    if is_skipped(transformer):
        return table, Trace.start(names)
    if isinstance(transformer, Pipeline):
        return _trace_steps(transformer, table, names)
    output = transformer.transform(deepcopy(table))
    if isinstance(transformer, ColumnTransformer):
        found = _trace_columns(transformer, table, names, _count_columns(output))
    elif isinstance(transformer, FeatureUnion):
        found = _trace_union(transformer, table, names)
    else:
        found = _trace_single(transformer, table, names, output)
    return output, replace(found, names=read_names(output) or found.names)


def is_skipped(transformer: Any) -> bool:
    """Whether a step changes nothing when a model predicts: none, or one that resamples rows for the fit."""
    return transformer is None or isinstance(transformer, str) or hasattr(transformer, "fit_resample")


def list_transformers(transformer: Any, *, only_first: bool = False) -> Iterator[Any]:
    """All single transformers within fitted preprocessing, or only the first of each Pipeline in it."""
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


def has_telling_names(transformer: Any) -> bool:
    """Whether names alone tell what each output of fitted preprocessing derives from."""
    parts = list(list_transformers(transformer))
    spelled = [_spell_outputs(part, getattr(part, "n_features_in_", 0)) for part in parts]
    return all(names and all(map(_MARK.search, names)) for names in spelled)


def _trace_steps(pipeline: Pipeline, table: Any, names: Sequence[str]) -> tuple[Any, Trace]:
    traced = Trace.start(names)
    for _, step in pipeline.steps:
        table, found = trace(step, table, traced.names)
        traced = traced.then(found)
    return table, traced


def _trace_columns(transformer: ColumnTransformer, table: Any, names: Sequence[str], n_columns: int) -> Trace:
    traced, unknown = Trace([""] * n_columns, [frozenset()] * n_columns), set[int]()
    for label, part, columns in transformer.transformers_:
        places = range(n_columns)[transformer.output_indices_[label]]
        if not places:
            continue
        inputs = _find_inputs(columns, transformer, table)
        # A single column by its name goes to the transformer as one dimension, as texts do.
        is_single = not isinstance(columns, slice) and np.ndim(columns) == 0
        taken = take_columns(table, inputs[0] if is_single else inputs)
        _, found = trace(part, taken, [names[j] for j in inputs])
        if len(found.names) != len(places):
            found = Trace(_number(label, len(places)), [frozenset(range(len(inputs)))] * len(places))
        for place, name, sources in zip(places, found.names, found.sources, strict=True):
            traced.names[place] = _add_prefix(transformer.verbose_feature_names_out, label, name)
            traced.sources[place] = frozenset(inputs[j] for j in sources)
        unknown.update(inputs[j] for j in found.unknown)
    return replace(traced, unknown=frozenset(unknown))


def _find_inputs(columns: Any, transformer: ColumnTransformer, table: Any) -> list[int]:
    """Numbers of the columns of the table that a part of a ColumnTransformer was fit on."""
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
    # A data frame may hold its columns in another order, and more of them.
    return chosen if given is None or not known else [given.index(known[j]) for j in chosen]


def _trace_union(union: FeatureUnion, table: Any, names: Sequence[str]) -> Trace:
    traced, unknown = Trace([], []), set[int]()
    for label, part in union.transformer_list:
        if part == "drop":
            continue
        _, found = trace(part, table, names)
        is_verbose = getattr(union, "verbose_feature_names_out", True)
        traced.names.extend(_add_prefix(is_verbose, label, name) for name in found.names)
        traced.sources.extend(found.sources)
        unknown |= found.unknown
    return replace(traced, unknown=frozenset(unknown))


def _add_prefix(rule: Any, label: str, name: str) -> str:
    """Name of a column as `verbose_feature_names_out` says."""
    if callable(rule):
        return str(rule(label, name))
    if isinstance(rule, str):
        return rule.format(transformer_name=label, feature_name=name)
    return f"{label}__{name}" if rule else name


def _trace_single(transformer: Any, table: Any, names: Sequence[str], output: Any) -> Trace:
    n_inputs, n_columns = len(names), _count_columns(output)
    spelled = _spell_outputs(transformer, n_inputs)
    sources = [frozenset(int(j) for j in _MARK.findall(name)) for name in spelled]
    # A category's name may hold anything, even what looks like a mark.
    is_told = len(spelled) == n_columns and all(max(found, default=0) < n_inputs for found in sources)
    if not is_told:
        sources = [frozenset()] * n_columns
    unknown = frozenset[int]()
    if n_inputs == 1:
        sources = [frozenset([0])] * n_columns
    elif not all(sources):
        tried = _try_out(transformer, table, n_inputs, n_columns)
        n_tried = n_inputs if n_inputs <= MOST_TRIED else 0
        untried = frozenset(j for j in range(n_tried) if not number_values(table, j).any())
        sources, unknown = _place_untried(sources, tried, untried, names, read_names(output))
    if is_told:
        return Trace([_MARK.sub(lambda mark: names[int(mark[1])], name) for name in spelled], sources, unknown)
    numbered = _number(type(transformer).__name__.lower(), n_columns)
    is_kept = [n_columns == n_inputs and found == {j} for j, found in enumerate(sources)]
    return Trace([names[j] if is_kept[j] else numbered[j] for j in range(n_columns)], sources, unknown)


# Names that are no part of each other, nor of a category's name: 'a_b_c' may be of column 'a' or of column 'a_b'.
_MARK = re.compile("\x1f([0-9]+)\x1f")


def _spell_outputs(transformer: Any, n_inputs: int) -> list[str]:
    """Names of the outputs for inputs whose names are marks; none if the transformer does not tell."""
    marks = np.array([f"\x1f{j}\x1f" for j in range(n_inputs)], dtype=object)
    try:
        renamed = copy(transformer)
        # Input names have to be those of the fit, where the transformer knows these.
        renamed.feature_names_in_ = marks
        return [str(name) for name in renamed.get_feature_names_out(marks)]
    except Exception:  # a transformer of any library, or a function of the user's, may fail in any way
        return []


def _try_out(transformer: Any, table: Any, n_inputs: int, n_columns: int) -> list[frozenset[int]]:
    """Find which outputs change when the rows of one input are shuffled."""
    if isinstance(transformer, FunctionTransformer) and isinstance(transformer.func, np.ufunc | None):
        return [frozenset([j]) for j in range(n_inputs)]  # value by value
    all_inputs = [frozenset(range(n_inputs))] * n_columns
    if n_inputs > MOST_TRIED:
        return all_inputs
    # Each row gets the value of the next one in a random circle of all, so that no value can stay where it is.
    circle = np.random.default_rng(0).permutation(table.shape[0])
    order = np.empty_like(circle)
    order[circle] = np.roll(circle, -1)
    sources: list[set[int]] = [set() for _ in range(n_columns)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            before = _read_values(transformer.transform(deepcopy(table)))
            for j in range(n_inputs):
                after = _read_values(transformer.transform(shuffle_column(table, j, order)))
                is_same = (before == after) | ((before != before) & (after != after))  # NaN is the same as NaN
                for column in np.flatnonzero(~is_same.all(axis=0)):
                    sources[column].add(j)
    except Exception:  # shuffled rows may be such as the transformer never meets
        return all_inputs
    return [frozenset(found) for found in sources]


def _place_untried(
    known: list[frozenset[int]],
    tried: list[frozenset[int]],
    untried: frozenset[int],
    names: Sequence[str],
    named: list[str] | None,
) -> tuple[list[frozenset[int]], frozenset[int]]:
    """Find sources, given those known and those tried out, where some inputs are the same in all rows.

    Such an input belongs to the column of its own name or, if all others stay in their places, to that of its place. If
    it has none, all columns of which it is not known may derive from it; it is returned, as that may be no column.
    """
    own: list[int | None] = [None] * len(tried)
    # A column that is the same in all these rows depends on nothing that was seen; its name may tell.
    for column, name in enumerate(named or []):
        if name in names and tried[column] <= {names.index(name)}:
            own[column] = names.index(name)
    if len(tried) == len(names) and all(found == {j} or (j in untried and not found) for j, found in enumerate(tried)):
        own = list(range(len(names)))
    unplaced = untried - set(own) - frozenset[int]().union(*known)
    sources = []
    for told, found, place in zip(known, tried, own, strict=True):
        sources.append(told or (found | unplaced if place is None else frozenset([place])))
    return sources, unplaced


def _read_values(output: Any) -> NDArray[Any]:
    """Values to compare, shape (n_rows, n_columns): numbers, or objects with None for missing ones."""
    dense = output.toarray() if sparse.issparse(output) else output
    if len(dense.shape) == 1:
        dense = np.asarray(dense)[:, np.newaxis]
    try:
        return np.asarray(dense, dtype=np.float64)
    except (TypeError, ValueError):
        objects = pd.DataFrame(np.asarray(dense, dtype=object))
        values: NDArray[Any] = objects.where(objects.notna(), None).to_numpy(dtype=object)
        return values


def _number(name: str, n_columns: int) -> list[str]:
    return [f"{name}{k}" for k in range(n_columns)]


def _count_columns(output: Any) -> int:
    return 1 if len(output.shape) == 1 else int(output.shape[1])
