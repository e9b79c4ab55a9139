"""Find columns that nearly determine the target: possible target leakage.

A column determines the target to the extent that neighboring rows in its order (or rows of the same level, for a
category) have the same target. With D the mean of half the squared target differences between such neighbors, and V the
variance of the target,

    share = 1 - D / V

estimates the largest share of variance that a function of the column can explain (Rice 1984; on ranks it is related to
Chatterjee's coefficient, 2021), without fitting a model: it is close to 1 for a copy, a monotone transform, a rounded
copy and a recoding. Classes are one-hot vectors, so V is their Gini impurity; numbers are replaced by their ranks.

Mostly unique texts have no neighbors. For these, two things that a text may contain are checked: a number, and for
each class the word that marks it best.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import gammaln
from scipy.stats import rankdata

from truewood._formatting import list_names
from truewood._message import Message
from truewood.tabular._columns.columns import LEAK, Column, join_used
from truewood.tabular._columns.identifiers import is_time_name
from truewood.tabular._columns.target_column import Outcome
from truewood.tabular._columns.text_values import parse_numbers
from truewood.tabular._messages import Messages

Floats = NDArray[np.float64]

# Minimum share of the target that counts as possible leakage.
NEARLY_ALL = 0.99
# Maximum number of rows to use, drawn at random, and minimum.
_MOST_ROWS = 5_000
_FEWEST_ROWS = 20
# If fewer rows differ from the most frequent target, they can be neighbors by chance.
_FEWEST_OTHERS = 5
# Pairs are searched among this many columns: those most correlated with the target.
_MOST_PAIRED = 1_000
# Each column of a pair alone must leave this many times as much variance as both.
_WORTH_OF_PAIR = 10.0
# Number of separate warnings.
_MOST_NAMED = 5
# Maximum expected number of words that match the classes by chance.
_MOST_BY_CHANCE = 1e-3
# Minimum number of texts in which words are checked. A word that is right 97% of the time is right in all of 200 texts
# in one of 400 tables.
_FEWEST_TEXTS = 200
# Maximum number of words per text, and of classes.
_MOST_WORDS, _MOST_CLASSES = 50, 50
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)*")
# Minimum share of rows with a value for columns in pairs.
_MOSTLY_THERE = 0.8


@dataclass(frozen=True)
class Leak:
    """Columns that nearly determine the target.

    Parameters
    ----------
    columns : tuple of str
        One column, or two with a weighted sum or product that does.
    share : float
        The share of the target's variance (of its ranks, for numbers) that they determine.
    """

    columns: tuple[str, ...]
    share: float


@dataclass(frozen=True, eq=False)
class _Target:
    """Ranks of numbers, or class codes."""

    values: NDArray[Any]
    are_ranks: bool

    def take(self, rows: Any) -> Self:
        return type(self)(self.values[rows], self.are_ranks)

    @cached_property
    def smallest(self) -> float:
        """D for the best order, which is not 0 for few rows."""
        order = np.argsort(self.values, kind="stable")
        return self.differ(order[1:], order[:-1])

    @cached_property
    def variance(self) -> float:
        """V; NaN if nearly all rows have the same target."""
        counts = np.unique(self.values, return_counts=True)[1]
        if len(self.values) - counts.max() < _FEWEST_OTHERS:
            return np.nan
        return float(np.var(self.values) if self.are_ranks else 1.0 - np.sum((counts / len(self.values)) ** 2))

    def differ(self, first: NDArray[Any], second: NDArray[Any]) -> float:
        """D for pairs of rows."""
        a, b = self.values[first], self.values[second]
        return float(np.mean(0.5 * (a - b) ** 2 if self.are_ranks else a != b))


def leave_out_leaks(
    columns: list[Column], target: Outcome, name: str, keep: Collection[str], messages: Messages
) -> list[Column]:
    """Leave out columns that nearly determine the target, with a warning for each.

    A leak explains everything, so every other column would look useless beside it: a ranking with a leak answers no
    question. A column in `keep` is used, and so are all columns if nothing else is left.

    Parameters
    ----------
    columns : list of Column
        The columns.
    target : Outcome
        The target.
    name : str
        The name of the target.
    keep : collection of str
        Columns to use in any case.
    messages : Messages
        Receives the warnings.
    """
    leaks = find_leaks(join_used(columns), target.values, target.task)
    suspects = {column for leak in leaks for column in leak.columns} - set(keep)
    if suspects >= {column.name for column in columns if column.is_used}:
        suspects = set()
    _warn(leaks, name, messages, lambda leak: _hint_at_options(leak, [x for x in leak.columns if x in suspects]))
    return [replace(column, dtype=LEAK) if column.name in suspects else column for column in columns]


def warn_of_leaks(X: pd.DataFrame, target: Outcome, name: str, messages: Messages) -> None:
    """Warn about columns of a fitted model that nearly determine the target; arguments as in `leave_out_leaks`."""
    leaks = find_leaks(X, target.values, target.task)
    _warn(leaks, name, messages, lambda leak: Message(".", f"If so, fit a model without {_name_them(leak)}"))


def _warn(leaks: list[Leak], target: str, messages: Messages, advise: Callable[[Leak], Message]) -> None:
    for leak in leaks[:_MOST_NAMED]:
        is_one, share = len(leak.columns) == 1, f"{round(100 * leak.share, 1):g}%"
        names = f"column{'s' * (not is_one)} {' and '.join(leak.columns)}"
        explain = "alone explains" if is_one else "together explain"
        messages.warn(advise(leak).prefix(f"{names} {explain} {share} of {target}: possible target leakage"))
    if leaks[_MOST_NAMED:]:
        more = list_names([" with ".join(leak.columns) for leak in leaks[_MOST_NAMED:]])
        messages.warn(f"possible target leakage also in {more}")


def _hint_at_options(leak: Leak, left_out: list[str]) -> Message:
    """Say which columns of a leak are left out, if any, and how to change that."""
    if not left_out:
        return Message(".", f"If so, drop {_name_them(leak)} with {{drop}}", drop=list(leak.columns))
    is_one = len(left_out) == 1
    those = ("it is" if is_one else "they are") if len(left_out) == len(leak.columns) else f"{left_out[0]} is"
    return Message(f"; {those} left out.", f"To use {'it' if is_one else 'them'}, pass {{keep}}", keep=left_out)


def _name_them(leak: Leak) -> str:
    return "it" if len(leak.columns) == 1 else "them"


def find_leaks(X: pd.DataFrame, y: NDArray[Any], task: str) -> list[Leak]:
    """Find columns that nearly determine the target, strongest first, then pairs of the others that add up to it.

    Dates and times are ignored: they nearly determine any target with a trend. So are numbers that are monotone over
    the rows while the target is not, such as the population of a country in a time series.

    Parameters
    ----------
    X : DataFrame
        Numbers, booleans and dates by dtype; all other columns are categories.
    y : ndarray of shape (n_rows,)
        Labels, or numbers.
    task : {"classification", "regression", "survival"}
        The task; y are times for survival.
    """
    if len(np.unique(y)) < 2:
        return []
    are_numbers = task != "classification"
    names = [str(name) for name in X if X[name].dtype.kind != "M" and not is_time_name(str(name))]
    if are_numbers and not _is_sorted(y):
        names = [name for name in names if not (_is_number(X[name]) and _runs_on(X[name]))]
    # In random order, so that ties are not in the order of the file.
    rows = np.random.default_rng(0).permutation(len(X))[:_MOST_ROWS]
    X, y = X.iloc[rows], y[rows]
    target = _Target(rankdata(y) if are_numbers else np.unique(y, return_inverse=True)[1], are_numbers)
    order = np.argsort(rows)  # the order of the table
    shares = {name: _measure_column(X[name], target, order) for name in names}
    found = [Leak((name,), share) for name, share in shares.items() if share >= NEARLY_ALL]
    found.sort(key=lambda leak: -leak.share)
    if are_numbers:
        others = [name for name in shares if not shares[name] >= NEARLY_ALL and _is_number(X[name])]
        found += _find_pairs(X[others].astype(np.float64), y.astype(np.float64), target)
    return found


def _is_number(values: pd.Series[Any]) -> bool:
    return pd.api.types.is_numeric_dtype(values.dtype)


def _is_sorted(y: NDArray[Any]) -> bool:
    """Whether numbers nearly rise or fall with the row number."""
    return abs(float(np.corrcoef(rankdata(y), np.arange(len(y)))[0, 1])) >= NEARLY_ALL


def _runs_on(values: pd.Series[Any]) -> bool:
    """Whether numbers are monotone over the rows."""
    return bool(values.is_monotonic_increasing or values.is_monotonic_decreasing)


def _measure_column(values: pd.Series[Any], target: _Target, order: NDArray[np.int64]) -> float:
    """Measure the share that a column determines, with missing values as a level or without them.

    `order` sorts the rows as in the table.
    """
    if _is_number(values):
        return _measure_numbers(values, target)
    share = _measure_levels(pd.factorize(values, use_na_sentinel=False)[0], target)
    return _measure_texts(values, target, order) if share is None else share


def _measure_numbers(values: pd.Series[Any], target: _Target) -> float:
    x = values.to_numpy(dtype=np.float64, na_value=np.nan)
    share, is_there = _measure_order(x, target), ~np.isnan(x)
    if is_there.all() or is_there.sum() < max(_FEWEST_ROWS, 0.5 * len(x)):
        return share
    return float(np.fmax(share, _measure_order(x[is_there], target.take(is_there))))


def _measure_order(x: Floats, target: _Target) -> float:
    """Measure the share by neighbors in the order of x, with D minus its smallest value."""
    order = np.argsort(x, kind="stable")
    return 1.0 - (target.differ(order[1:], order[:-1]) - target.smallest) / target.variance


def _measure_levels(levels: NDArray[np.int64], target: _Target) -> float | None:
    """Measure the share by neighbors of the same level; None if most rows have none."""
    order = np.argsort(levels, kind="stable")
    is_pair = np.diff(levels[order]) == 0
    if is_pair.sum() < 0.5 * len(levels):
        return None
    return 1.0 - target.differ(order[1:][is_pair], order[:-1][is_pair]) / target.variance


def _measure_texts(values: pd.Series[Any], target: _Target, order: NDArray[np.int64]) -> float:
    """Measure the share that mostly unique texts determine, by a number in each or by words that mark classes."""
    texts = ["" if missing else str(value) for value, missing in zip(values, values.isna(), strict=True)]
    shares = [0.0]
    found = [_NUMBER.findall(text) for text in texts]
    for place in (0, -1):
        numbers = pd.Series(parse_numbers([numbers[place] if numbers else "" for numbers in found])[0])
        # Numbers that rise with the row number identify rows.
        if numbers.notna().mean() >= _MOSTLY_THERE and not _runs_on(numbers.iloc[order].dropna()):
            shares.append(_measure_numbers(numbers, target))
    if not target.are_ranks and len(texts) >= _FEWEST_TEXTS:
        shares.append(_measure_words(texts, target))
    return float(np.nanmax(shares))


def _measure_words(texts: list[str], target: _Target) -> float:
    """Measure the share of class impurity that is removed by the best word for each class.

    Many words are tried, and one could fit by chance: if the smaller part has m of n rows, a word in random rows is in
    exactly these rows with a probability of at most 1 in C(n, m). A class is skipped if more than `_MOST_BY_CHANCE`
    words are expected to fit by chance.
    """
    n_rows, counts = len(texts), np.bincount(target.values)
    if len(counts) > _MOST_CLASSES:
        return 0.0
    number_of: dict[str, int] = {}
    words = [sorted({*_WORD.findall(text.lower())})[:_MOST_WORDS] for text in texts]
    columns = [number_of.setdefault(word, len(number_of)) for row in words for word in row]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in words])])
    table = csr_array((np.ones(len(columns)), columns, starts), shape=(n_rows, len(number_of)))
    of_class = np.eye(len(counts))[target.values]
    together, n_with = of_class.T @ table, table.sum(axis=0)  # (n_classes, n_words), (n_words,)
    level = np.full(n_rows, len(counts))
    for k in np.argsort(counts, kind="stable").tolist():
        smaller = min(counts[k], n_rows - counts[k])
        log_sets = gammaln(n_rows + 1) - gammaln(smaller + 1) - gammaln(n_rows - smaller + 1)
        if not len(number_of) or math.log(len(number_of) / _MOST_BY_CHANCE) > log_sets:
            continue
        inside, outside = together[k], counts[k] - together[k]
        left = inside * (n_with - inside) / np.maximum(n_with, 1.0)
        left += outside * (n_rows - n_with - outside) / np.maximum(n_rows - n_with, 1.0)
        best = int(np.argmin(left))
        has_word = table[:, [best]].toarray()[:, 0] > 0
        level[has_word & (level == len(counts))] = k
    within = np.zeros((len(counts) + 1, len(counts)))
    np.add.at(within, (level, target.values), 1.0)
    size = within.sum(axis=1)
    impurity = float((size - (within**2).sum(axis=1) / np.maximum(size, 1.0)).sum()) / n_rows
    return 1.0 - impurity / target.variance


def _find_pairs(X: pd.DataFrame, y: Floats, target: _Target) -> list[Leak]:
    """Find pairs of columns whose weighted sum, or else product, is close to the target; the closest, then others."""
    X = X.loc[:, X.notna().mean() >= _MOSTLY_THERE]
    found: list[Leak] = []
    while (leak := _find_pair(X, y, target)) is not None:
        found.append(leak)
        X = X.drop(columns=list(leak.columns))
    return found


def _find_pair(X: pd.DataFrame, y: Floats, target: _Target) -> Leak | None:
    is_there = X.notna().all(axis=1).to_numpy()
    X, y, target = X[is_there], y[is_there], target.take(is_there)
    if len(y) < _FEWEST_ROWS or np.ptp(y) == 0:
        return None
    leak = _find_sum(X, y, target)
    if leak is None and y.min() > 0:
        positive = X.loc[:, X.min() > 0]
        leak = _find_sum(positive.apply(np.log), np.log(y), target)
    return leak


def _find_sum(X: pd.DataFrame, y: Floats, target: _Target) -> Leak | None:
    """Find the pair of columns that leaves the least variance of y, if that is almost none."""
    X = X.loc[:, X.std(ddof=0) > 0]
    z = ((X - X.mean()) / X.std(ddof=0)).to_numpy()
    with_y = z.T @ (y - y.mean()) / (len(y) * y.std())
    chosen = np.argsort(-np.abs(with_y), kind="stable")[:_MOST_PAIRED]
    if len(chosen) < 2:
        return None
    z, with_y = z[:, chosen], with_y[chosen]
    between = z.T @ z / len(y)
    # R2 of each pair from its three correlations; undefined for identical columns.
    apart = np.where(1.0 - between**2 > 1e-6, 1.0 - between**2, np.nan)
    left = 1.0 - (with_y[:, None] ** 2 + with_y**2 - 2.0 * np.outer(with_y, with_y) * between) / apart
    alone = 1.0 - np.maximum(with_y[:, None] ** 2, with_y**2)
    left = np.where(alone > _WORTH_OF_PAIR * np.maximum(left, 0.0), left, np.nan)
    if np.isnan(left).all():
        return None
    a, b = np.unravel_index(np.nanargmin(left), left.shape)
    if left[a, b] > 1.0 - NEARLY_ALL:
        return None
    both = np.column_stack([z[:, [a, b]], np.ones(len(y))])
    share = _measure_order(both @ np.linalg.lstsq(both, y, rcond=None)[0], target)
    names = tuple(str(X.columns[chosen[k]]) for k in sorted((a, b), key=lambda k: chosen[k]))
    return Leak(names, share) if share >= NEARLY_ALL else None
