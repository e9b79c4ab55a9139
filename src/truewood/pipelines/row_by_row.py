"""Whether a fitted step makes of each row the same in any part of the table."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from truewood.pipelines.containers import take_rows
from truewood.words import quote

# Rounding of matrix products, which depends on the number of rows.
_ROUNDING = 1e-5


def check_row_by_row(name: str, step: Any, table: Any) -> Any:
    """Run a step on some rows at once, refuse it where their halves give something else, and return what it gives."""
    whole, n_rows = step.transform(deepcopy(table)), table.shape[0]
    halves = [rows for rows in np.array_split(np.arange(n_rows), 2) if len(rows)]
    if len(halves) == 2:
        parts = [step.transform(deepcopy(take_rows(table, rows))) for rows in halves]
        together, apart = _read(whole), [_read(part) for part in parts]
        is_same = all(part.shape[1:] == together.shape[1:] for part in apart)
        if not is_same or not _are_same(together, np.concatenate(apart)):
            raise ValueError(
                f"step {quote(name)} ({type(step).__name__}) looks at the whole table when it transforms, and gives "
                "other values for a part of the rows; rows that are read in parts need steps that go row by row."
            )
    return whole


def _read(output: Any) -> NDArray[Any]:
    values = output.toarray() if sparse.issparse(output) else np.asarray(output)
    return values[:, np.newaxis] if values.ndim == 1 else values


def _are_same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    if a.dtype.kind in "biuf" and b.dtype.kind in "biuf":
        a, b = a.astype(np.float64), b.astype(np.float64)
        with np.errstate(invalid="ignore"):
            size = np.nanmax(np.abs(a), axis=0, initial=0.0)
            return bool(((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= _ROUNDING * size)).all())
    return bool(((a == b) | (pd.isna(a) & pd.isna(b))).all())
