"""Survival targets: a column of times, and one that says whether the event came or the row was lost from sight."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood.tabular.columns import BOOLEAN, NUMBER, count_infinite, read_column
from truewood.tabular.errors import TableError
from truewood.tabular.messages import Messages
from truewood.tabular.settings import FORESTS, FitSettings
from truewood.tabular.target_column import Target
from truewood.words import quote

# The field's type of a survival target, as scikit-survival takes it.
_TYPE = np.dtype([("event", np.bool_), ("time", np.float64)])


def check_survival_settings(settings: FitSettings, sample_weight: str | None, row_groups: str | None) -> None:
    """Refuse what survival forests cannot do."""
    if find_spec("sksurv") is None:
        raise TableError(
            "survival forests need scikit-survival, which is not installed: pip install 'truewood[scikit-survival]'.",
            "event",
        )
    if not settings.is_forest:
        raise TableError(f"survival times are for {' and '.join(FORESTS)}, got {quote(settings.model)}.", "model")
    unseen = {"cv": settings.cv, "test_size": settings.test_size, "row_groups": row_groups}
    for argument, given in unseen.items():
        if given is not None:
            raise TableError("survival forests are scored on out-of-bag rows only; leave it out.", argument)
    if sample_weight is not None:
        raise TableError("weights are not taken with survival times; leave it out.", "sample_weight")


def read_survival_target(rows: pd.DataFrame, time: str, event: str, messages: Messages) -> Target:
    """Read times and events; y has the fields event and time.

    Parameters
    ----------
    rows : DataFrame
        Rows that have both.
    time : str
        The column of times.
    event : str
        The column that says whether there was an event: true and false, 0 and 1, or R's 1 and 2.
    messages : Messages
        Hears how many events there are.
    """
    column = read_column(time, rows[time], is_kept=True)
    times = column.values.to_numpy()
    if column.kind != NUMBER or column.values.isna().any() or count_infinite(column) or (times <= 0).any():
        raise TableError(f"column {quote(time)} must hold numbers above 0.", "target")
    happened = _read_events(rows[event], event)
    y = np.empty(len(rows), dtype=_TYPE)
    y["event"], y["time"] = happened, times
    messages.add(
        f"survival: {happened.sum():,} of {len(rows):,} rows have the event, times from {times.min():.4g} to "
        f"{times.max():.4g}"
    )
    return Target("survival", y)


def _read_events(given: pd.Series[Any], name: str) -> NDArray[np.bool_]:
    column = read_column(name, given, is_kept=True)
    levels = np.unique(column.values.dropna()) if column.kind in (NUMBER, BOOLEAN) else np.empty(0)
    if column.values.isna().any() or levels.tolist() not in ([0.0, 1.0], [1.0, 2.0]):
        raise TableError(
            f"column {quote(name)} must say whether there was an event, by true and false, 0 and 1, or 1 and 2, got "
            f"{', '.join(map(str, given.unique()[:3]))}.",
            "event",
        )
    return np.asarray(column.values == levels[1], dtype=np.bool_)
