"""Detection of leaky pipeline steps: they resample training rows, learn from the target, or mix rows."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_selection import SelectorMixin, VarianceThreshold
from sklearn.preprocessing import TargetEncoder

from truewood._formatting import list_names, quote
from truewood._pipelines.containers import take_rows
from truewood._pipelines.provenance import list_transformers

# Types listed in a message.
_LISTED = 5
# Tolerance for matrix products, whose rounding depends on the number of rows.
_ROUNDING = 1e-5


def check_rows(steps: Sequence[tuple[str, Any]], rows: Any) -> str | None:
    """Return a warning about steps that inflate scores, or raise an error if a step rules out training rows."""
    if isinstance(rows, str):
        return _check_training(steps, rows) if rows in ("auto", "oob") else None
    suspects = [step for _, step in steps if hasattr(step, "fit_resample")]
    suspects += [part for _, step in steps for part in list_transformers(step) if _has_learned_from_y(part)]
    if not suspects:
        return None
    return (
        f"{_list_types(suspects)} resampled the training rows or learned from their targets, so scores and p-values "
        "are too optimistic unless the pipeline never saw the rows passed in rows=."
    )


def _check_training(steps: Sequence[tuple[str, Any]], rows: str) -> str | None:
    """Raise an error if a step's training output cannot be recomputed, or return a warning if it has learned from y."""
    for name, step in steps:
        if hasattr(step, "fit_resample"):
            raise ValueError(
                f"rows={quote(rows)} needs the rows the trees were trained on, but step {quote(name)} "
                f"({type(step).__name__}) resampled them; pass rows='heldout' and rows that the pipeline never saw."
            )
    fitted = [part for _, step in steps for part in list_transformers(step)]
    if any(isinstance(part, TargetEncoder) for part in fitted):
        raise ValueError(
            f"rows={quote(rows)} needs columns as the trees saw them, but TargetEncoder encoded the training rows by "
            "cross-fitting, which it does not record; pass rows='heldout' and rows that the pipeline never saw."
        )
    learned = [part for part in fitted if _has_learned_from_y(part)]
    if not learned:
        return None
    return (
        f"{_list_types(learned)} learned from the targets of the evaluation rows, so scores and p-values are too "
        "optimistic; pass rows='heldout' and rows that the pipeline never saw."
    )


def _has_learned_from_y(transformer: Any) -> bool:
    if isinstance(transformer, SelectorMixin):
        return not isinstance(transformer, VarianceThreshold)
    parameter = inspect.signature(transformer.fit).parameters.get("y")
    return parameter is not None and parameter.default is inspect.Parameter.empty


def _list_types(steps: Sequence[Any]) -> str:
    return list_names(list(dict.fromkeys(type(step).__name__ for step in steps)), _LISTED)


def check_row_by_row(name: str, step: Any, table: Any) -> Any:
    """Transform some rows, and raise an error if transforming the two halves separately gives other values."""
    whole, n_rows = step.transform(deepcopy(table)), table.shape[0]
    halves = [rows for rows in np.array_split(np.arange(n_rows), 2) if len(rows)]
    if len(halves) == 2:
        parts = [step.transform(deepcopy(take_rows(table, rows))) for rows in halves]
        expected, separate = _to_dense(whole), [_to_dense(part) for part in parts]
        is_same = all(part.shape[1:] == expected.shape[1:] for part in separate)
        if not is_same or not _are_same(expected, np.concatenate(separate)):
            raise ValueError(
                f"step {quote(name)} ({type(step).__name__}) transforms a row differently depending on the other rows "
                "in the table; rows that are read in parts need steps that transform each row on its own. Pass a table "
                "in memory instead."
            )
    return whole


def _to_dense(output: Any) -> NDArray[Any]:
    values = output.toarray() if sparse.issparse(output) else np.asarray(output)
    return values[:, np.newaxis] if values.ndim == 1 else values


def _are_same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    if a.dtype.kind in "biuf" and b.dtype.kind in "biuf":
        a, b = a.astype(np.float64), b.astype(np.float64)
        with np.errstate(invalid="ignore"):
            size = np.nanmax(np.abs(a), axis=0, initial=0.0)
            return bool(((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= _ROUNDING * size)).all())
    return bool(((a == b) | (pd.isna(a) & pd.isna(b))).all())
