"""Groups of columns that are scored as one feature, and groups of rows that are not independent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from truewood._arguments import find_index
from truewood._formatting import quote


@dataclass(frozen=True, eq=False)
class Grouping:
    """Columns that are scored as one feature.

    Parameters
    ----------
    names : ndarray of str, shape (n_groups,)
        Names of the groups.
    group_of : ndarray of int32, shape (n_columns,)
        Group of each column.
    """

    names: NDArray[np.str_]
    group_of: NDArray[np.int32]


def read_feature_groups(feature_groups: Any, names: NDArray[np.str_]) -> Grouping:
    """Read `feature_groups` as names of the groups and the group of each column.

    Parameters
    ----------
    feature_groups : None, dict or sequence
        None: each column is a group. A dict from group name to columns (names or numbers): other columns are groups of
        their own. A sequence: the group name of each column.
    names : ndarray of str, shape (n_features,)
        Column names.
    """
    if feature_groups is None:
        return Grouping(names, np.arange(len(names), dtype=np.int32))
    if isinstance(feature_groups, Mapping):
        labels = _labels_from_mapping(feature_groups, names)
    elif isinstance(feature_groups, str) or not isinstance(feature_groups, Iterable):
        raise TypeError(f"feature_groups must be a dict or a sequence, got {type(feature_groups).__name__}.")
    else:
        labels = _labels_from_sequence(list(feature_groups), names)
    order = list(dict.fromkeys(labels))
    position = {label: g for g, label in enumerate(order)}
    group_of = np.array([position[label] for label in labels], dtype=np.int32)
    return Grouping(np.asarray(order, dtype=np.str_), group_of)


def _labels_from_sequence(feature_groups: list[Any], names: NDArray[np.str_]) -> list[str]:
    if any(not isinstance(label, str) and np.ndim(label) != 0 for label in feature_groups):
        raise TypeError(
            "feature_groups must be a dict from group name to columns, such as {'size': ['height', 'width']}, or a "
            "sequence with the group name of each column; got a sequence of sequences."
        )
    if len(feature_groups) != len(names):
        raise ValueError(
            f"feature_groups must name the group of each of the {len(names)} columns, got {len(feature_groups)}."
        )
    nameless = next((name for label, name in zip(feature_groups, names, strict=True) if pd.isna(label)), None)
    if nameless is not None:
        raise ValueError(
            f"feature_groups must name the group of each column, got none for {quote(str(nameless))}; a dict "
            "from group name to columns may leave out columns."
        )
    return [str(label) for label in feature_groups]


def _labels_from_mapping(feature_groups: Mapping[Any, Any], names: NDArray[np.str_]) -> list[str]:
    labels = [str(name) for name in names]
    group_of: dict[int, str] = {}
    for label, columns in feature_groups.items():
        listed = [columns] if isinstance(columns, str) or np.ndim(columns) == 0 else list(columns)
        if not listed or str(label) in group_of.values():
            problem = "occurs twice" if listed else "has no columns"
            raise ValueError(
                "feature_groups must give each group a name of its own and at least one column, but "
                f"{quote(str(label))} {problem}."
            )
        for column in listed:
            j = _find_column(column, labels)
            if j in group_of:
                raise ValueError(
                    f"feature_groups must put each column into one group, got {quote(labels[j])} in both "
                    f"{quote(group_of[j])} and {quote(str(label))}."
                )
            group_of[j] = str(label)
    clash = next((name for j, name in enumerate(labels) if j not in group_of and name in group_of.values()), None)
    if clash is not None:
        raise ValueError(f"feature_groups must not reuse names of other columns, got {quote(clash)}; rename the group.")
    return [group_of.get(j, name) for j, name in enumerate(labels)]


def _find_column(column: Any, names: list[str]) -> int:
    """Position of a column, given its name or number."""
    found = find_index(column, names)
    if found is not None:
        return found
    raise ValueError(
        "feature_groups must list columns of X, by a name that occurs exactly once or by a number from 0 to "
        f"{len(names) - 1}, got {quote(column)}."
    )


def sum_feature_groups(scores: NDArray[np.float64], grouping: Grouping) -> NDArray[np.float64]:
    """Sum the columns (second axis) of each group, in the order of the columns."""
    if np.array_equal(grouping.group_of, np.arange(len(grouping.names))):
        return scores
    grouped = np.zeros_like(scores, shape=(scores.shape[0], len(grouping.names), *scores.shape[2:]))  # on a GPU, too
    for column, group in enumerate(grouping.group_of):
        grouped[:, group] += scores[:, column]
    return grouped


def read_groups(given: Any, n_rows: int) -> NDArray[np.int64] | None:
    """Code of each row's group, in order of appearance, shape (n_rows,); None if rows are not grouped.

    Parameters
    ----------
    given : array-like of shape (n_rows,), or None
        Labels of any hashable type.
    n_rows : int
        Number of rows of the table.
    """
    if given is None:
        return None
    labels = pd.Series(list(given), dtype=object) if isinstance(given, list | tuple) else given
    if np.ndim(labels) != 1:
        raise ValueError(f"groups must have shape ({n_rows},), a label for each row, got shape {np.shape(labels)}.")
    if len(labels) != n_rows:
        raise ValueError(f"groups must have a label for each of the {n_rows} rows, got {len(labels)}.")
    labels = labels if isinstance(labels, pd.Series | pd.Index) else np.asarray(labels)
    if isinstance(labels.dtype, np.dtype):
        labels = labels.astype(labels.dtype.newbyteorder("="))  # pandas requires it
    try:
        codes, _ = pd.factorize(labels)
    except TypeError as error:
        raise TypeError(f"groups must be hashable labels, such as names or numbers: {error}.") from None
    if (codes < 0).any():
        raise ValueError(
            f"groups must have a label for each row, got none for row {int(np.argmax(codes < 0))}; give such rows "
            "labels of their own, or drop them."
        )
    return codes.astype(np.int64)


def sum_row_groups(values: NDArray[Any], groups: NDArray[np.int64], n_groups: int) -> NDArray[Any]:
    """Sum rows (first axis) over each group, in the order of the rows, shape (n_groups, n_columns)."""
    n_rows = len(groups)
    members = sparse.csr_array(
        (np.ones(n_rows, dtype=values.dtype), (groups, np.arange(n_rows))), shape=(n_groups, n_rows)
    )
    summed: NDArray[Any] = members @ values
    return summed
