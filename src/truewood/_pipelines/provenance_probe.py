"""Sources of output columns by probing: which outputs change when one input is shuffled."""

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

from truewood._pipelines.containers import encode_values, shuffle_column

# With more inputs, none is probed: an output that names do not identify counts as a mixture of all inputs.
MOST_PROBED = 500


def find_sources(
    transformer: Any,
    table: Any,
    names: Sequence[str],
    *,
    known: list[frozenset[int]],
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
    known : list of frozenset of int
        Sources of each output that are known from names; empty if unknown.
    output_names : list of str or None
        Names of the outputs, if known.

    Returns
    -------
    sources : list of frozenset of int
        Indices of the inputs, for each output.
    unknown : frozenset of int
        Inputs that are constant in the sampled rows, so that probing cannot reveal which outputs use them.
    """
    n_inputs = len(names)
    probed = _probe_inputs(transformer, table, n_inputs, len(known))
    n_probed = n_inputs if n_inputs <= MOST_PROBED else 0
    constant = frozenset(j for j in range(n_probed) if not encode_values(table, j).any())
    return _assign_constant(known, probed, constant, names, output_names)


def _probe_inputs(transformer: Any, table: Any, n_inputs: int, n_columns: int) -> list[frozenset[int]]:
    """Find which outputs change when one input is shuffled."""
    if isinstance(transformer, FunctionTransformer) and isinstance(transformer.func, np.ufunc | None):
        return [frozenset([j]) for j in range(n_inputs)]  # elementwise
    all_inputs = [frozenset(range(n_inputs))] * n_columns
    if n_inputs > MOST_PROBED:
        return all_inputs
    # A random cyclic permutation, so that no row keeps its own value.
    cycle = np.random.default_rng(0).permutation(table.shape[0])
    order = np.empty_like(cycle)
    order[cycle] = np.roll(cycle, -1)
    sources: list[set[int]] = [set() for _ in range(n_columns)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            before = _read_values(transformer.transform(deepcopy(table)))
            for j in range(n_inputs):
                after = _read_values(transformer.transform(shuffle_column(table, j, order)))
                is_same = (before == after) | ((before != before) & (after != after))  # NaN equals NaN
                for column in np.flatnonzero(~is_same.all(axis=0)):
                    sources[column].add(j)
    except Exception:  # the transformer may reject a combination of values
        return all_inputs
    return [frozenset(found) for found in sources]


def _assign_constant(
    known: list[frozenset[int]],
    probed: list[frozenset[int]],
    constant: frozenset[int],
    names: Sequence[str],
    output_names: list[str] | None,
) -> tuple[list[frozenset[int]], frozenset[int]]:
    """Combine known and probed sources, and assign inputs that are constant in the sampled rows.

    A constant input is the source of the output with its name or, if all other inputs keep their positions, of the
    output at its position. Otherwise it counts as a source of every output with unknown sources, and is also returned,
    because possibly no output uses it.
    """
    own: list[int | None] = [None] * len(probed)
    # Probing finds no source of an output that is constant in these rows, but its name may identify one.
    for column, name in enumerate(output_names or []):
        if name in names and probed[column] <= {names.index(name)}:
            own[column] = names.index(name)
    if len(probed) == len(names) and all(
        found == {j} or (j in constant and not found) for j, found in enumerate(probed)
    ):
        own = list(range(len(names)))
    unassigned = constant - set(own) - frozenset[int]().union(*known)
    sources = []
    for from_names, found, position in zip(known, probed, own, strict=True):
        sources.append(from_names or (found | unassigned if position is None else frozenset([position])))
    return sources, unassigned


def _read_values(output: Any) -> NDArray[Any]:
    """Values to compare, shape (n_rows, n_columns): numbers, or objects with None for missing values."""
    dense = output.toarray() if sparse.issparse(output) else output
    if len(dense.shape) == 1:
        dense = np.asarray(dense)[:, np.newaxis]
    try:
        return np.asarray(dense, dtype=np.float64)
    except (TypeError, ValueError):
        objects = pd.DataFrame(np.asarray(dense, dtype=object))
        values: NDArray[Any] = objects.where(objects.notna(), None).to_numpy(dtype=object)
        return values
