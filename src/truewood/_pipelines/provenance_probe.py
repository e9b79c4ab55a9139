"""Sources of output columns, found by experiment: which outputs change when the values of one input are shuffled."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import FunctionTransformer

from truewood._pipelines.containers import number_values, shuffle_column

# More columns than this are not tried out one by one: what is not known by name counts as a mixture of all of them.
MOST_TRIED = 500


def find_sources(
    transformer: Any,
    table: Any,
    names: Sequence[str],
    *,
    told: list[frozenset[int]],
    output_names: list[str] | None,
) -> tuple[list[frozenset[int]], frozenset[int]]:
    """Find the inputs that each output of a fitted transformer derives from.

    Parameters
    ----------
    transformer : object
        A single transformer.
    table : ndarray, sparse matrix or data frame
        Some rows of its input.
    names : sequence of str
        Names of the inputs.
    told : list of frozenset of int
        What is known of each output already; empty where nothing is.
    output_names : list of str or None
        Names of the outputs, where the output has names.

    Returns
    -------
    sources : list of frozenset of int
        Numbers of the inputs, for each output.
    unknown : frozenset of int
        Inputs that are the same in all rows, so that nothing tells what they are used for.
    """
    n_inputs = len(names)
    tried = _shuffle_inputs(transformer, table, n_inputs, len(told))
    n_tried = n_inputs if n_inputs <= MOST_TRIED else 0
    untried = frozenset(j for j in range(n_tried) if not number_values(table, j).any())
    return _place_untried(told, tried, untried, names, output_names)


def _shuffle_inputs(transformer: Any, table: Any, n_inputs: int, n_columns: int) -> list[frozenset[int]]:
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
