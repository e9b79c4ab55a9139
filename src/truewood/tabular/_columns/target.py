"""The target column of a table: which rows have one, classes or numbers, and the weights of the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._formatting import count, quote
from truewood._inputs.row_arrays import read_groups
from truewood.tabular._columns.columns import (
    BOOLEAN,
    CONSTANT,
    DATE,
    NESTED,
    NUMBER,
    Column,
    count_infinite,
    read_column,
)
from truewood.tabular._columns.dtype_overrides import choose_task
from truewood.tabular._columns.roles import Roles
from truewood.tabular._columns.text_values import is_missing
from truewood.tabular._errors import TableError
from truewood.tabular._messages import Messages
from truewood.tabular._models.settings import FEWEST_ROWS, FORESTS, FitSettings

# Whole numbers of up to so many values are taken for classes.
MOST_CLASSES = 10
# Of more classes than these, those of fewest rows become one.
MOST_KEPT_CLASSES = 50
# Whole numbers up to here are numbers of labels; larger ones are not exact, and the largest are no integers of numpy.
_LARGEST_LABEL = 2.0**53
# The field's type of a survival target, as scikit-survival takes it.
_SURVIVAL_TYPE = np.dtype([("event", np.bool_), ("time", np.float64)])


@dataclass(frozen=True, eq=False)
class Target:
    """What is to be predicted.

    Parameters
    ----------
    task : {"classification", "regression", "survival"}
        Classes, numbers, or times until an event.
    y : ndarray of shape (n_rows,)
        Labels as strings (numbers where they are numbers), floats, or records of event and time.
    """

    task: str
    y: NDArray[Any]

    @property
    def values(self) -> NDArray[Any]:
        """Labels or numbers, shape (n_rows,): of survival targets the times."""
        values: NDArray[Any] = self.y["time"] if self.task == "survival" else self.y
        return values


def find_rows_with_target(table: pd.DataFrame, target: str, messages: Messages) -> NDArray[np.bool_]:
    """Whether each row has a target; says how many have none."""
    given = table[target]
    is_there = given.notna().to_numpy(dtype=np.bool_, copy=True)
    if not pd.api.types.is_numeric_dtype(given.dtype):
        levels = given[is_there].astype(str)
        is_there[is_there] = ~levels.str.strip().map(is_missing).to_numpy(dtype=np.bool_)
    n_dropped = int((~is_there).sum())
    if n_dropped == len(table):
        raise TableError(f"column {quote(target)} is missing in every row.", "target")
    if n_dropped:
        messages.add(f"{n_dropped:,} of {len(table):,} rows have no {target}, and are not used")
    if len(table) - n_dropped < FEWEST_ROWS:
        raise TableError(
            f"it takes at least {FEWEST_ROWS} rows with a target to say anything, got {len(table) - n_dropped}.",
            "table",
        )
    return is_there


def read_target(given: pd.Series[Any], name: str, task: str | None, messages: Messages) -> Target:
    """Read the target as classes or numbers, as asked for or as it looks.

    Parameters
    ----------
    given : Series
        The column, without missing values.
    name : str
        Its name.
    task : {"classification", "regression"} or None
        What was asked for.
    messages : Messages
        Hears what was inferred.
    """
    column = read_column(name, given, is_kept=True)
    if column.dtype in (NESTED, DATE):
        raise TableError(f"column {quote(name)} must hold classes or numbers, got {column.dtype}s.", "target")
    if column.dtype == CONSTANT:
        raise TableError(
            f"column {quote(name)} has the same value in every row: there is nothing to predict.", "target"
        )
    if n_infinite := count_infinite(column):
        raise TableError(
            f"column {quote(name)} holds {count(n_infinite, 'infinite or far too large number')}; replace such "
            "numbers, or remove their rows.",
            "target",
        )
    chosen = task or _choose_task(column)
    if chosen == "regression":
        _check_numbers(column, given)
        messages.add(f"target {name}: regression, numbers from {column.values.min():.4g} to {column.values.max():.4g}")
        return Target(chosen, column.values.to_numpy(dtype=np.float64))
    labels = _read_labels(column, given)
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) > max(0.5 * len(labels), 2):
        hint = "; for numbers pass task='regression'" if column.dtype == NUMBER else ""
        raise TableError(
            f"column {quote(name)} has {len(classes):,} different values in {len(labels):,} rows, too many for classes"
            f"{hint}.",
            "target",
        )
    labels, n_joined = _join_rare(labels, classes, counts)
    if n_joined:
        part = np.mean(labels == _name_rest(n_joined))
        hint = "; for numbers pass task='regression'" if column.dtype == NUMBER else ""
        messages.warn(
            f"{name} has {len(classes):,} classes, too many to tell apart: the {MOST_KEPT_CLASSES - 1} with most rows "
            f"stay, and the other {n_joined:,}, {part:.0%} of the rows, are taken as one{hint}"
        )
        classes, counts = np.unique(labels, return_counts=True)
    override = ""
    if task is None and column.dtype == NUMBER and column.values.notna().all() and len(classes) > 2:
        override = "; pass task='regression' to take them as numbers"
    order = np.argsort(-counts, kind="stable")
    shown = ", ".join(f"{classes[k]} {counts[k] / len(labels):.1%}" for k in order[:5])
    more = ", ..." if len(classes) > 5 else ""
    messages.add(f"target {name}: classification, {len(classes)} classes ({shown}{more}){override}")
    return Target(chosen, labels)


def _join_rare(labels: NDArray[Any], classes: NDArray[Any], counts: NDArray[np.int64]) -> tuple[NDArray[Any], int]:
    """Labels of which the rare ones are one, as text, if there are too many, and how many were joined."""
    if len(classes) <= MOST_KEPT_CLASSES:
        return labels, 0
    kept = classes[np.argsort(-counts, kind="stable")[: MOST_KEPT_CLASSES - 1]]
    n_joined = len(classes) - len(kept)
    return np.where(np.isin(labels, kept), labels.astype(np.str_), _name_rest(n_joined)), n_joined


def _name_rest(n_classes: int) -> str:
    return f"any of {n_classes} others"


def _check_numbers(column: Column, given: pd.Series[Any]) -> None:
    """Refuse a target that is not made of numbers only."""
    is_odd = column.values.isna() if column.dtype in (NUMBER, BOOLEAN) else pd.Series([True] * len(given))
    if is_odd.any():
        raise TableError(
            f"for regression column {quote(column.name)} must hold numbers, got {quote(str(given[is_odd].iloc[0]))} in "
            f"{is_odd.sum():,} of {len(given):,} rows; remove such rows, or pass task='classification'.",
            "target",
        )


def _choose_task(column: Column) -> str:
    if column.dtype != NUMBER:
        return "classification"
    levels = np.unique(column.values.dropna())
    if len(levels) <= 2 or (len(levels) <= MOST_CLASSES and (levels == np.floor(levels)).all()):
        return "classification"
    return "regression"


def _read_labels(column: Column, given: pd.Series[Any]) -> NDArray[Any]:
    """Whole numbers, or strings: scikit-learn takes no other numbers for labels."""
    texts = np.array([str(label).strip() for label in given], dtype=np.str_)
    if column.dtype not in (NUMBER, BOOLEAN) or column.values.isna().any():
        return texts
    numbers = column.values.to_numpy()
    if column.dtype == BOOLEAN:  # Yes and yes are one label, the one that is there more often
        no, yes = (pd.Series(texts[numbers == value]).mode()[0] for value in (0.0, 1.0))
        return np.array([no, yes])[numbers.astype(np.int64)]
    if (numbers == np.floor(numbers)).all() and np.abs(numbers).max() <= _LARGEST_LABEL:
        return numbers.astype(np.int64)
    return np.array([f"{number:.15g}" for number in numbers], dtype=np.str_)


def read_group_column(table: pd.DataFrame, name: str | None) -> NDArray[np.int64] | None:
    """The group of each row; None without such a column."""
    if name is None:
        return None
    labels = table[name].map(lambda label: None if str(label).strip() == "" else label)
    try:
        return read_groups(labels, len(table))
    except ValueError as error:
        raise TableError(
            f"column {quote(name)} must have a label in every row, got {labels.isna().sum():,} without.", "groups"
        ) from error


def read_weight(table: pd.DataFrame, name: str | None) -> NDArray[np.float64] | None:
    """The weights of the rows, numbers that are neither missing nor negative; None without such a column."""
    if name is None:
        return None
    column = read_column(name, table[name], is_kept=True)
    weight = column.values.to_numpy()
    is_usable = column.dtype in (NUMBER, BOOLEAN, CONSTANT) and weight.dtype.kind == "f"
    if not is_usable or not (np.isfinite(weight) & (weight >= 0)).all() or not weight.any():
        raise TableError(f"column {quote(name)} must hold numbers from 0 up, in every row, not all 0.", "sample_weight")
    return np.asarray(weight, dtype=np.float64)


def find_target(
    table: pd.DataFrame, roles: Roles, task: str | None, dtypes: Mapping[str, str], messages: Messages
) -> tuple[NDArray[np.bool_], Target]:
    """Whether each row has a target, and the target of those that have.

    Parameters
    ----------
    table : DataFrame
        All rows.
    roles : Roles
        Which column is the target, and which the event.
    task, dtypes : str or None, mapping of str to str
        What was asked for, as of `score_table`.
    messages : Messages
        Hears what was inferred.
    """
    has_target = find_rows_with_target(table, roles.target, messages)
    if roles.event is None:
        given = table[roles.target][has_target].reset_index(drop=True)
        return has_target, read_target(given, roles.target, task or choose_task(dtypes, roles.target), messages)
    has_target &= find_rows_with_target(table, roles.event, messages)
    rows = table[has_target].reset_index(drop=True)
    return has_target, read_survival_target(rows, roles.target, roles.event, messages)


def check_survival_settings(settings: FitSettings, sample_weight: str | None, groups: str | None) -> None:
    """Refuse what survival forests cannot do."""
    if find_spec("sksurv") is None:
        raise TableError(
            "survival forests need scikit-survival, which is not installed: pip install 'truewood[scikit-survival]'.",
            "event",
        )
    if not settings.is_forest:
        raise TableError(f"survival times are for {' and '.join(FORESTS)}, got {quote(settings.model)}.", "model")
    unseen = {"cv": settings.cv, "test_size": settings.test_size, "groups": groups}
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
    if column.dtype != NUMBER or column.values.isna().any() or count_infinite(column) or (times <= 0).any():
        raise TableError(f"column {quote(time)} must hold numbers above 0.", "target")
    happened = _read_events(rows[event], event)
    y = np.empty(len(rows), dtype=_SURVIVAL_TYPE)
    y["event"], y["time"] = happened, times
    messages.add(
        f"survival: {happened.sum():,} of {len(rows):,} rows have the event, times from {times.min():.4g} to "
        f"{times.max():.4g}"
    )
    return Target("survival", y)


def _read_events(given: pd.Series[Any], name: str) -> NDArray[np.bool_]:
    column = read_column(name, given, is_kept=True)
    levels = np.unique(column.values.dropna()) if column.dtype in (NUMBER, BOOLEAN) else np.empty(0)
    if column.values.isna().any() or levels.tolist() not in ([0.0, 1.0], [1.0, 2.0]):
        raise TableError(
            f"column {quote(name)} must say whether there was an event, by true and false, 0 and 1, or 1 and 2, got "
            f"{', '.join(map(str, given.unique()[:3]))}.",
            "event",
        )
    return np.asarray(column.values == levels[1], dtype=np.bool_)
