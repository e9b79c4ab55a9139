"""Estimate the time and memory of a fit, and choose how many rows to use.

The choice depends only on the table and the settings, so that a command gives the same numbers on any machine: the
time follows from measured costs per row, column and class of each model, not from a clock.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._arguments import check_n_jobs
from truewood._formatting import count
from truewood._message import Message
from truewood.tabular._errors import TableError
from truewood.tabular._messages import Messages
from truewood.tabular._models.settings import ALL_ROWS, FitSettings

# Rows are sampled if a fit would exceed this: seconds on one core, and bytes of trees.
MOST_SECONDS, MOST_BYTES = 120.0, 4 * 2**30
# Minimum number of rows to use, regardless of the number of columns.
FEWEST_SAMPLED = 2_000
# Number of rows that a message suggests.
_SAMPLE = 20_000
# Nanoseconds of a 2020s core for fit and scores: forests per row, tree level, candidate column and class; boosting per
# row, column and class. Measured by experiments/tables/cost.py.
_NANOSECONDS = {"regression": 70.0, "classification": 90.0, "survival": 20.0}
_NANOSECONDS_OF_CLASS, _NANOSECONDS_OF_BOOSTING = 5.0, 30.0
_EASE_OF_EXTRA_TREES, _EFFORT_OF_FLAG = 0.15, 0.1
# Share of rows in a bag; bytes of a node, without those of each class.
_PART_IN_BAG, _BYTES_OF_NODE = 0.632, 64 + 8


@dataclass(frozen=True)
class Cost:
    """The cost of a fit as a function of the number of rows.

    Parameters
    ----------
    settings : FitSettings
        The model.
    task : {"classification", "regression", "survival"}
        The task.
    n_columns : int
        Number of encoded columns.
    n_flags : int
        Number of encoded columns with two values, which are cheap to sort and rarely split twice.
    n_classes : int
        Number of classes; 1 for regression.
    is_out_of_bag : bool
        Whether the model is fit once, to all rows.
    """

    settings: FitSettings
    task: str
    n_columns: int
    n_flags: int
    n_classes: int
    is_out_of_bag: bool

    def find_seconds(self, n_rows: int) -> float:
        """Estimate the seconds of the fit on one core."""
        settings, levels = self.settings, math.log2(max(n_rows, 2))
        if settings.is_forest:
            ease = _EASE_OF_EXTRA_TREES if settings.model == "extra-trees" else 1.0
            unit = _NANOSECONDS[self.task] + _NANOSECONDS_OF_CLASS * self.n_classes * (self.task == "classification")
            depth = n_rows if self.task == "survival" else levels  # each split compares life tables over all times
            tried = settings.count_candidates(self.task, self.n_columns) * self._find_mean_effort()
            work = ease * unit * depth * tried
        else:
            work = _NANOSECONDS_OF_BOOSTING * self.n_columns * (self.n_classes if self.n_classes > 2 else 1)
        return 1e-9 * work * n_rows * settings.count_trees() * self._count_fits()

    def find_bytes(self, n_rows: int) -> float:
        """Estimate the largest size of a forest in bytes; boosted trees are small."""
        settings = self.settings
        if not settings.is_forest:
            return 0.0
        n_leaves = _PART_IN_BAG * n_rows / settings.choose_leaf_size(self.task, n_rows)
        if settings.max_depth is not None:
            n_leaves = min(n_leaves, 2.0 ** min(settings.max_depth, 60))
        n_models = 1 if self.is_out_of_bag else settings.count_folds() or 1
        return 2 * n_leaves * settings.count_trees() * n_models * (_BYTES_OF_NODE + 8 * self.n_classes)

    def _find_mean_effort(self) -> float:
        """Mean cost of a column in a forest, relative to a numeric one."""
        return 1.0 - (1.0 - _EFFORT_OF_FLAG) * self.n_flags / self.n_columns

    def _count_fits(self) -> float:
        """Cost of all fits as a multiple of the cost of one fit to all rows."""
        if self.is_out_of_bag:
            return 1.0
        n_folds = self.settings.count_folds()
        return 1.0 - (self.settings.test_size or 0.0) if n_folds is None else n_folds - 1.0

    def count_affordable(self, n_rows: int) -> int:
        """Largest number of rows within the limits, rounded down to two digits."""
        low, high = min(FEWEST_SAMPLED, n_rows), n_rows
        if self._is_affordable(high):
            return n_rows
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._is_affordable(middle) else (low, middle)
        digit = int(10 ** (len(str(low)) - 2))
        return low // digit * digit

    def _is_affordable(self, n_rows: int) -> bool:
        return self.find_seconds(n_rows) <= MOST_SECONDS and self.find_bytes(n_rows) <= MOST_BYTES


def choose_sample(
    cost: Cost, y: NDArray[Any], groups: NDArray[np.int64] | None, messages: Messages
) -> NDArray[np.int64] | None:
    """Choose the rows to use, in order; None for all.

    Parameters
    ----------
    cost : Cost
        The cost of the fit.
    y : ndarray of shape (n_rows,)
        The target; the sample is stratified by class.
    groups : ndarray of shape (n_rows,), or None
        Groups of rows, which are sampled as a whole.
    messages : Messages
        Receives how many rows are used, and why.
    """
    wanted, n_rows = cost.settings.sample, len(y)
    n_used = n_rows if wanted == ALL_ROWS else min(n_rows, int(wanted or cost.count_affordable(n_rows)))
    _check_memory(cost, n_used)
    if n_used == n_rows:
        if cost.find_seconds(n_rows) > MOST_SECONDS or cost.find_bytes(n_rows) > MOST_BYTES:
            text = f"the fit takes {_describe(cost, n_rows)}."
            if n_rows > _SAMPLE:
                messages.add(Message(text, "To use fewer rows, pass {sample}", sample=_SAMPLE))
            else:
                messages.add(text.removesuffix("."))
        return None
    seed = cost.settings.random_state
    chosen = _draw(n_used, y, groups, np.random.default_rng(seed), is_classifier=cost.task == "classification")
    text = f"using {len(chosen):,} of {count(n_rows, 'row')}, sampled with random state {seed}"
    if wanted is None:
        text += f", because a fit to all rows would take {_describe(cost, n_rows)}."
        messages.add(Message(text, "To use all rows, pass {sample}", sample=ALL_ROWS))
    else:
        messages.add(text)
    if wanted is None and cost.find_seconds(n_used) > MOST_SECONDS:
        faster: dict[str, Any] = {"max_features": "sqrt"} if cost.settings.is_forest else {"n_estimators": 50}
        hint = f"For a faster fit, pass {{{next(iter(faster))}}}"
        messages.add(Message(f"the fit to these rows still takes {_describe(cost, n_used)}.", hint, **faster))
    return chosen


def _draw(
    n_used: int, y: NDArray[Any], groups: NDArray[np.int64] | None, rng: np.random.Generator, *, is_classifier: bool
) -> NDArray[np.int64]:
    """Sample whole groups, or rows stratified by class with at least two of each."""
    if groups is not None:
        order = rng.permutation(groups.max() + 1)
        n_groups = max(2, int(np.searchsorted(np.cumsum(np.bincount(groups)[order]), n_used, side="right")))
        return np.flatnonzero(np.isin(groups, order[:n_groups]))
    labels = np.unique(y, return_inverse=True)[1] if is_classifier else np.zeros(len(y), dtype=np.int64)
    parts = []
    for label in range(labels.max() + 1):
        rows = np.flatnonzero(labels == label)
        size = max(round(n_used * len(rows) / len(y)), min(2, len(rows)))
        parts.append(rng.choice(rows, size, replace=False))
    return np.sort(np.concatenate(parts))


def _check_memory(cost: Cost, n_rows: int) -> None:
    """Refuse a forest that does not fit into memory before it is grown."""
    n_bytes, there = cost.find_bytes(n_rows), _find_memory()
    if there is not None and n_bytes > there:
        classes = f" and {cost.n_classes} classes" if cost.task == "classification" else ""
        n_folds = None if cost.is_out_of_bag else cost.settings.count_folds()
        folds = "" if n_folds is None else f" in each of {count(n_folds, 'fold')}"
        raise TableError(
            Message(
                f"{cost.settings.count_trees():,} trees{folds} for {count(n_rows, 'row')}{classes} may take "
                f"{n_bytes / 2**30:.1f} GiB, but this machine has {there / 2**30:.1f} GiB.",
                "Use fewer rows or trees, or limit the size of the trees with {min_samples_leaf} or {max_depth}.",
                min_samples_leaf=20,
                max_depth=10,
            ),
            "sample" if cost.settings.sample else "n_estimators",
        )


def _find_memory() -> int | None:
    """Return the physical memory of this machine in bytes; None if unknown."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _describe(cost: Cost, n_rows: int) -> str:
    """Describe the time of a fit, and its memory if that is much."""
    n_threads, n_bytes = check_n_jobs(cost.settings.n_jobs), cost.find_bytes(n_rows)
    memory = f" and up to {n_bytes / 2**30:.1f} GiB of memory" if n_bytes > MOST_BYTES else ""
    return f"about {format_duration(cost.find_seconds(n_rows) / n_threads)} on {count(n_threads, 'core')}{memory}"


def format_duration(seconds: float) -> str:
    """Format seconds as seconds, minutes or hours."""
    if seconds < 90:
        return count(max(1, round(seconds)), "second")
    return count(round(seconds / 60), "minute") if seconds < 5400 else count(round(seconds / 3600), "hour")
