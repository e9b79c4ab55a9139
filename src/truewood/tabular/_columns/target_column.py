"""Read the target column, row weights and groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._extras import explain_missing
from truewood._formatting import count, format_range, quote
from truewood._inputs.groups import read_groups
from truewood._message import Message
from truewood.tabular._columns.columns import (
    BOOLEAN,
    CONSTANT,
    DATE,
    EMPTY,
    GROUPS,
    IDENTIFIER,
    NESTED,
    NUMBER,
    TEXT,
    Column,
    count_infinite,
)
from truewood.tabular._columns.dtype_overrides import choose_task
from truewood.tabular._columns.roles import Roles
from truewood.tabular._columns.text_values import is_missing
from truewood.tabular._columns.type_inference import infer_column
from truewood.tabular._errors import TableError
from truewood.tabular._messages import Messages
from truewood.tabular._models.settings import FEWEST_ROWS, FORESTS, FitSettings

# Integers with at most this many distinct values are classes.
MOST_CLASSES = 10
# With more classes than this, the rarest are merged into one.
MOST_KEPT_CLASSES = 50
# Largest integer label; larger floats are not exact, and the largest exceed numpy's integers.
_LARGEST_LABEL = 2.0**53
# Why a column cannot be the target, by its type.
WHY_NO_TARGET = {
    IDENTIFIER: "looks like a row identifier, so there is nothing to predict",
    GROUPS: "looks like a group identifier, so there is nothing to predict",
    TEXT: "is free text rather than classes or numbers",
    DATE: "contains dates rather than classes or numbers",
    CONSTANT: "is constant, so there is nothing to predict",
    EMPTY: "has no values, so there is nothing to predict",
    NESTED: "contains neither numbers nor text",
}
# The structured dtype of a survival target in scikit-survival.
_SURVIVAL_TYPE = np.dtype([("event", np.bool_), ("time", np.float64)])


def name_time_to_event(time: str, event: str) -> str:
    """Name a survival target."""
    return f"time to event ({time}, {event})"


@dataclass(frozen=True, eq=False)
class Outcome:
    """The values to predict, and the task that follows from them.

    Parameters
    ----------
    task : {"classification", "regression", "survival"}
        The task.
    y : ndarray of shape (n_rows,)
        Labels (integers or strings), floats, or records of event and time.
    """

    task: str
    y: NDArray[Any]

    @property
    def values(self) -> NDArray[Any]:
        """Labels or numbers, shape (n_rows,); the times of a survival target."""
        values: NDArray[Any] = self.y["time"] if self.task == "survival" else self.y
        return values


def find_rows_with_target(table: pd.DataFrame, target: str, messages: Messages) -> NDArray[np.bool_]:
    """Find the rows with a target, and report how many have none."""
    given = table[target]
    is_there = given.notna().to_numpy(dtype=np.bool_, copy=True)
    if not pd.api.types.is_numeric_dtype(given.dtype):
        levels = given[is_there].astype(str)
        is_there[is_there] = ~levels.str.strip().map(is_missing).to_numpy(dtype=np.bool_)
    n_dropped = int((~is_there).sum())
    if n_dropped == len(table):
        raise TableError(f"column {quote(target)} is empty; choose another target.", "target")
    if n_dropped:
        messages.add(f"left out {n_dropped:,} of {len(table):,} rows without a value for {target}")
    if len(table) - n_dropped < FEWEST_ROWS:
        raise TableError(
            f"at least {FEWEST_ROWS} rows with a target are needed, got {len(table) - n_dropped}.",
            "table",
        )
    return is_there


def _check_target(column: Column) -> None:
    """Refuse a target that looks like an identifier or free text, unless the user has chosen a task."""
    if column.dtype not in (IDENTIFIER, GROUPS, TEXT):
        return
    counts = f"{column.values.nunique():,} distinct values in {count(len(column.values), 'row')}"
    text = f"column {quote(column.name)} ({counts}) {WHY_NO_TARGET[column.dtype]}; choose another target."
    hint = ""
    if column.dtype != IDENTIFIER or pd.api.types.is_numeric_dtype(column.values.dtype):
        hint = "To predict it anyway, use {task}"
    task = "regression" if column.dtype == IDENTIFIER else "classification"
    raise TableError(Message(text, hint, task=task), "target")


def read_outcome(given: pd.Series[Any], name: str, task: str | None, messages: Messages) -> Outcome:
    """Read the target as classes or numbers.

    Parameters
    ----------
    given : Series
        The column, without missing values.
    name : str
        The name of the column.
    task : {"classification", "regression"} or None
        The task; None infers it.
    messages : Messages
        Receives the inferred task.
    """
    column = infer_column(name, given, is_kept=True)
    if column.dtype in WHY_NO_TARGET:
        raise TableError(f"column {quote(name)} {WHY_NO_TARGET[column.dtype]}; choose another target.", "target")
    if n_infinite := count_infinite(column):
        raise TableError(
            f"column {quote(name)} contains infinite numbers, or numbers too large for float32, in "
            f"{count(n_infinite, 'row')}; replace them, or remove these rows.",
            "target",
        )
    chosen = task or _choose_task(column)
    if chosen == "regression":
        _check_numbers(column, given)
        low, high = format_range(column.values.min(), column.values.max())
        messages.add(f"target {name}: regression, numbers from {low} to {high}")
        return Outcome(chosen, column.values.to_numpy(dtype=np.float64))
    labels = _read_labels(column, given)
    classes, counts = np.unique(labels, return_counts=True)
    is_number = column.dtype == NUMBER
    if len(classes) > max(0.5 * len(labels), 2):
        raise TableError(
            _hint_regression(
                f"column {quote(name)} has {len(classes):,} distinct values in {len(labels):,} rows, too many for "
                "classification.",
                is_number,
            ),
            "target",
        )
    labels, n_joined = _join_rare(labels, classes, counts)
    if n_joined:
        part = np.mean(labels == _name_rest(n_joined))
        messages.warn(
            _hint_regression(
                f"{name} has {len(classes):,} classes: the {MOST_KEPT_CLASSES - 1} most frequent are kept, and the "
                f"other {n_joined:,} ({part:.0%} of rows) are merged into one.",
                is_number,
            )
        )
        classes, counts = np.unique(labels, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    shown = ", ".join(f"{classes[k]}: {counts[k] / len(labels):.1%}" for k in order[:5])
    more = ", ..." if len(classes) > 5 else ""
    is_open = task is None and is_number and column.values.notna().all() and len(classes) > 2
    text = f"target {name}: classification, {len(classes)} classes ({shown}{more})"
    messages.add(_hint_regression(f"{text}.", True) if is_open else text)
    return Outcome(chosen, labels)


def _hint_regression(text: str, is_number: bool) -> str:
    """Suggest regression for numbers."""
    return Message(text, "To predict numbers, use {task}", task="regression") if is_number else text


def _join_rare(labels: NDArray[Any], classes: NDArray[Any], counts: NDArray[np.int64]) -> tuple[NDArray[Any], int]:
    """Merge the rarest classes if there are too many; also return how many were merged."""
    if len(classes) <= MOST_KEPT_CLASSES:
        return labels, 0
    kept = classes[np.argsort(-counts, kind="stable")[: MOST_KEPT_CLASSES - 1]]
    n_joined = len(classes) - len(kept)
    return np.where(np.isin(labels, kept), labels.astype(np.str_), _name_rest(n_joined)), n_joined


def _name_rest(n_classes: int) -> str:
    return f"any of {n_classes} others"


def _check_numbers(column: Column, given: pd.Series[Any]) -> None:
    """Refuse a regression target with other values than numbers."""
    is_odd = column.values.isna() if column.dtype in (NUMBER, BOOLEAN) else pd.Series([True] * len(given))
    if is_odd.any():
        raise TableError(
            Message(
                f"for regression, column {quote(column.name)} must contain only numbers, but contains other values, "
                f"such as {quote(str(given[is_odd].iloc[0]))}, in {is_odd.sum():,} of {len(given):,} rows.",
                "To predict classes, use {task}" if is_odd.all() else "Remove these rows, or use {task}.",
                task="classification",
            ),
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
    """Read labels as integers or strings; scikit-learn accepts no other numbers as labels."""
    texts = np.array([str(label).strip() for label in given], dtype=np.str_)
    if column.dtype not in (NUMBER, BOOLEAN) or column.values.isna().any():
        return texts
    numbers = column.values.to_numpy()
    if column.dtype == BOOLEAN:  # Yes and yes are one label: the more frequent spelling
        no, yes = (pd.Series(texts[numbers == value]).mode()[0] for value in (0.0, 1.0))
        return np.array([no, yes])[numbers.astype(np.int64)]
    if (numbers == np.floor(numbers)).all() and np.abs(numbers).max() <= _LARGEST_LABEL:
        return numbers.astype(np.int64)
    return np.array([f"{number:.15g}" for number in numbers], dtype=np.str_)


def read_group_column(table: pd.DataFrame, name: str | None) -> NDArray[np.int64] | None:
    """Read the group of each row; None without a group column."""
    if name is None:
        return None
    labels = table[name].map(lambda label: None if str(label).strip() == "" else label)
    try:
        return read_groups(labels, len(table))
    except ValueError as error:
        raise TableError(
            f"column {quote(name)} must have a label in every row, got {labels.isna().sum():,} missing; label or "
            "remove these rows.",
            "groups",
        ) from error


def read_weight(table: pd.DataFrame, name: str | None) -> NDArray[np.float64] | None:
    """Read row weights, which must not be missing or negative; None without a weight column."""
    if name is None:
        return None
    column = infer_column(name, table[name], is_kept=True)
    weight = column.values.to_numpy()
    is_usable = column.dtype in (NUMBER, BOOLEAN, CONSTANT) and weight.dtype.kind == "f"
    if not is_usable or not (np.isfinite(weight) & (weight >= 0)).all() or not weight.any():
        raise TableError(
            f"column {quote(name)} must contain a number >= 0 in every row, and not only zeros, got "
            f"{_describe_range(table[name])}; correct or drop the rows with other values.",
            "sample_weight",
        )
    return np.asarray(weight, dtype=np.float64)


def find_outcome(
    table: pd.DataFrame, roles: Roles, task: str | None, dtypes: Mapping[str, str], messages: Messages
) -> tuple[NDArray[np.bool_], Outcome]:
    """Find the rows with a target, and read it.

    Parameters
    ----------
    table : DataFrame
        All rows.
    roles : Roles
        The columns of target and event.
    task, dtypes : str or None, mapping of str to str
        As in `score_table`.
    messages : Messages
        Receives the inferred task.
    """
    has_target = find_rows_with_target(table, roles.target, messages)
    if roles.event is None:
        task = task or choose_task(dtypes, roles.target)
        if task is None:
            _check_target(infer_column(roles.target, table[roles.target]))
        given = table[roles.target][has_target].reset_index(drop=True)
        return has_target, read_outcome(given, roles.target, task, messages)
    has_target &= find_rows_with_target(table, roles.event, messages)
    rows = table[has_target].reset_index(drop=True)
    return has_target, read_survival_outcome(rows, roles.target, roles.event, messages)


def check_survival_settings(
    settings: FitSettings, sample_weight: str | None, groups: str | None, *, interactions: bool
) -> None:
    """Refuse settings that survival forests do not support."""
    if (problem := explain_missing("survival forests need", ["sksurv"], "scikit-survival")) is not None:
        raise TableError(problem, "event")
    if not settings.is_forest:
        raise TableError(f"must be {' or '.join(FORESTS)} for survival targets, got {quote(settings.model)}.", "model")
    unsupported = {"cv": settings.cv, "test_size": settings.test_size, "groups": groups}
    for argument, given in unsupported.items():
        if given is not None:
            remedy = "use one row per group instead" if argument == "groups" else "leave it out"
            raise TableError(
                f"not supported for survival forests, which are scored on out-of-bag rows only; {remedy}.", argument
            )
    if sample_weight is not None:
        raise TableError("not supported for survival targets; leave it out.", "sample_weight")
    if interactions:
        raise TableError("not supported for survival targets; leave it out.", "interactions")


def read_survival_outcome(rows: pd.DataFrame, time: str, event: str, messages: Messages) -> Outcome:
    """Read times and events; y has the fields event and time.

    Parameters
    ----------
    rows : DataFrame
        Rows that have both.
    time : str
        The column of times.
    event : str
        The column of event indicators: true and false, 0 and 1, or R's 1 and 2.
    messages : Messages
        Receives the number of events.
    """
    column = infer_column(time, rows[time], is_kept=True)
    times = column.values.to_numpy()
    if column.dtype != NUMBER or column.values.isna().any() or count_infinite(column) or (times <= 0).any():
        raise TableError(
            f"column {quote(time)} must contain only numbers above 0, got {_describe_range(rows[time])}; correct or "
            "drop the rows with other values.",
            "target",
        )
    happened = _read_events(rows[event], event)
    y = np.empty(len(rows), dtype=_SURVIVAL_TYPE)
    y["event"], y["time"] = happened, times
    low, high = format_range(times.min(), times.max())
    messages.add(f"survival: {happened.sum():,} of {len(rows):,} rows have the event, times from {low} to {high}")
    return Outcome("survival", y)


def _describe_range(given: pd.Series[Any]) -> str:
    """Describe the values of a column that should hold numbers."""
    numbers, n_rows = pd.to_numeric(given, errors="coerce"), len(given)
    n_others = int(numbers.isna().sum())
    others = f"{n_others:,} of {n_rows:,} rows without a number"
    if n_others == n_rows:
        return others
    range_ = f"numbers from {numbers.min():g} to {numbers.max():g}"
    return f"{range_}, and {others}" if n_others else range_


def _read_events(given: pd.Series[Any], name: str) -> NDArray[np.bool_]:
    column = infer_column(name, given, is_kept=True)
    levels = np.unique(column.values.dropna()) if column.dtype in (NUMBER, BOOLEAN) else np.empty(0)
    if column.values.isna().any() or levels.tolist() not in ([0.0, 1.0], [1.0, 2.0]):
        raise TableError(
            f"column {quote(name)} must be an event indicator: true or 1 for an event, false or 0 for censoring, "
            f"or 2 and 1 as in R, got {', '.join(map(str, given.unique()[:3]))}.",
            "event",
        )
    return np.asarray(column.values == levels[1], dtype=np.bool_)
