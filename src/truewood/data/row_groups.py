"""Rows that belong together: patients, shops, days."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse


def read_row_groups(given: Any, n_rows: int) -> NDArray[np.int64] | None:
    """Number of the group of each row, in the order in which groups appear, shape (n_rows,); None for none given.

    Parameters
    ----------
    given : array-like of shape (n_rows,), or None
        Labels of any kind that can be told apart.
    n_rows : int
        Number of rows of the table.
    """
    if given is None:
        return None
    labels = pd.Series(list(given), dtype=object) if isinstance(given, list | tuple) else given
    if np.ndim(labels) != 1:
        raise ValueError(f"row_groups must be a label for each row, shape ({n_rows},), got shape {np.shape(labels)}.")
    if len(labels) != n_rows:
        raise ValueError(f"row_groups must be a label for each of the {n_rows} rows, got {len(labels)}.")
    labels = labels if isinstance(labels, pd.Series | pd.Index) else np.asarray(labels)
    if isinstance(labels.dtype, np.dtype):
        labels = labels.astype(labels.dtype.newbyteorder("="))  # pandas takes no other
    try:
        codes, _ = pd.factorize(labels)
    except TypeError as error:
        raise TypeError(
            f"row_groups must be labels that can be told apart, such as names or numbers: {error}."
        ) from None
    if (codes < 0).any():
        raise ValueError(
            f"row_groups must have a label for each row, but row {int(np.argmax(codes < 0))} has none; give rows "
            "without a group labels of their own, or leave them out."
        )
    return codes.astype(np.int64)


def sum_groups(values: NDArray[Any], row_groups: NDArray[np.int64], n_groups: int) -> NDArray[Any]:
    """Sums of rows (first axis) over each group, in the order of the rows, shape (n_groups, n_columns)."""
    n_rows = len(row_groups)
    members = sparse.csr_array(
        (np.ones(n_rows, dtype=values.dtype), (row_groups, np.arange(n_rows))), shape=(n_groups, n_rows)
    )
    summed: NDArray[Any] = members @ values
    return summed
