"""What a fit to a table will take, in time and memory, and how many of its rows are used to keep that within bounds.

Which rows are used depends on the table and the settings only, so that the same command gives the same numbers on any
machine: the time is that of cores as measured for rows, columns, classes and models, not that of a clock.
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
from truewood.tabular._errors import TableError
from truewood.tabular._messages import Messages
from truewood.tabular._models.settings import ALL_ROWS, FitSettings

# A table whose fit would take more than this is sampled: seconds of one core, and bytes of trees.
MOST_SECONDS, MOST_BYTES = 120.0, 4 * 2**30
# However many columns there are, so many rows are used.
FEWEST_SAMPLED = 2_000
# Nanoseconds of a 2020s core for each row, level of the tree and column that is tried, with those of each class; and of
# boosting for each row, column and class: those of fit and scores, by experiments/tables/cost.py.
_NANOSECONDS = {"regression": 70.0, "classification": 90.0, "survival": 20.0}
_NANOSECONDS_OF_CLASS, _NANOSECONDS_OF_BOOSTING = 5.0, 30.0
_EASE_OF_EXTRA_TREES, _EFFORT_OF_FLAG = 0.15, 0.1
# Part of the rows that are in a bag; bytes of a node, without what it holds of each class.
_PART_IN_BAG, _BYTES_OF_NODE = 0.632, 64 + 8


@dataclass(frozen=True)
class Cost:
    """What a model takes, by the size of its task.

    Parameters
    ----------
    settings : FitSettings
        The model.
    task : {"classification", "regression", "survival"}
        What it predicts.
    n_columns : int
        Number of encoded columns.
    n_flags : int
        How many of these have two values only: they are sorted at once, and seldom tried again below a split.
    n_classes : int
        Number of classes; 1 for numbers.
    is_out_of_bag : bool
        Whether it is fit once, to all rows.
    """

    settings: FitSettings
    task: str
    n_columns: int
    n_flags: int
    n_classes: int
    is_out_of_bag: bool

    def find_seconds(self, n_rows: int) -> float:
        """Seconds that one core takes for the fit."""
        settings, levels = self.settings, math.log2(max(n_rows, 2))
        if settings.is_forest:
            ease = _EASE_OF_EXTRA_TREES if settings.model == "extra-trees" else 1.0
            unit = _NANOSECONDS[self.task] + _NANOSECONDS_OF_CLASS * self.n_classes * (self.task == "classification")
            depth = n_rows if self.task == "survival" else levels  # each split compares life tables of all times
            tried = settings.count_candidates(self.task, self.n_columns) * self._find_mean_effort()
            work = ease * unit * depth * tried
        else:
            work = _NANOSECONDS_OF_BOOSTING * self.n_columns * (self.n_classes if self.n_classes > 2 else 1)
        return 1e-9 * work * n_rows * settings.count_trees() * self._count_fits()

    def find_bytes(self, n_rows: int) -> float:
        """Bytes that the trees of a forest may take, at most; boosted trees are small."""
        settings = self.settings
        if not settings.is_forest:
            return 0.0
        n_leaves = _PART_IN_BAG * n_rows / settings.choose_leaf_size(self.task, n_rows)
        if settings.max_depth is not None:
            n_leaves = min(n_leaves, 2.0 ** min(settings.max_depth, 60))
        n_models = 1 if self.is_out_of_bag else settings.count_folds() or 1
        return 2 * n_leaves * settings.count_trees() * n_models * (_BYTES_OF_NODE + 8 * self.n_classes)

    def _find_mean_effort(self) -> float:
        """Time that a forest takes for a column, of that for one of numbers."""
        return 1.0 - (1.0 - _EFFORT_OF_FLAG) * self.n_flags / self.n_columns

    def _count_fits(self) -> float:
        """Number of fits to all rows that take as long."""
        if self.is_out_of_bag:
            return 1.0
        n_folds = self.settings.count_folds()
        return 1.0 - (self.settings.test_size or 0.0) if n_folds is None else n_folds - 1.0

    def count_affordable(self, n_rows: int) -> int:
        """The most rows, of so many, that stay within the bounds, to two digits."""
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


def choose_rows(
    cost: Cost, y: NDArray[Any], groups: NDArray[np.int64] | None, messages: Messages
) -> NDArray[np.int64] | None:
    """The rows to use, in their order; None for all. What takes long, or much memory, is said.

    Parameters
    ----------
    cost : Cost
        What the fit takes.
    y : ndarray of shape (n_rows,)
        The target; classes keep their shares.
    groups : ndarray of shape (n_rows,), or None
        Groups of rows, which are drawn whole.
    messages : Messages
        Hears how many rows are used, and why.
    """
    wanted, n_rows = cost.settings.sample, len(y)
    n_used = n_rows if wanted == ALL_ROWS else min(n_rows, int(wanted or cost.count_affordable(n_rows)))
    _check_memory(cost, n_used)
    if n_used == n_rows:
        if cost.find_seconds(n_rows) > MOST_SECONDS or cost.find_bytes(n_rows) > MOST_BYTES:
            messages.add(f"the fit {_describe(cost, n_rows, 'takes')}; fewer rows take less: sample=20000")
        return None
    seed = cost.settings.random_state
    chosen = _draw(n_used, y, groups, np.random.default_rng(seed), is_classifier=cost.task == "classification")
    why = "" if wanted else f", as a fit to all {_describe(cost, n_rows, 'would take')}; sample='all' takes them all"
    messages.add(f"{len(chosen):,} of {count(n_rows, 'row')} are used, drawn at random with seed {seed}{why}")
    if wanted is None and cost.find_seconds(n_used) > MOST_SECONDS:
        hint = "; max_features='sqrt' takes less" if cost.settings.is_forest else "; n_estimators=50 takes less"
        messages.add(f"the fit to these still {_describe(cost, n_used, 'takes')}{hint}")
    return chosen


def _draw(
    n_used: int, y: NDArray[Any], groups: NDArray[np.int64] | None, rng: np.random.Generator, *, is_classifier: bool
) -> NDArray[np.int64]:
    """Rows at random: whole groups, or of each class its share, two rows at least."""
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
    """Refuse trees that do not fit into the machine, before they are grown."""
    n_bytes, there = cost.find_bytes(n_rows), _find_memory()
    if there is not None and n_bytes > there:
        classes = f" and {cost.n_classes} classes" if cost.task == "classification" else ""
        raise TableError(
            f"{cost.settings.count_trees():,} trees of {count(n_rows, 'row')}{classes} may take "
            f"{n_bytes / 2**30:.1f} GiB, and this machine has {there / 2**30:.1f}; take fewer rows or trees, larger "
            "leaves with min_samples_leaf=20, or max_depth=10.",
            "sample" if cost.settings.sample else "n_estimators",
        )


def _find_memory() -> int | None:
    """Bytes of memory that this machine has; None where it does not say."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _describe(cost: Cost, n_rows: int, verb: str) -> str:
    """Time and, where it is much, memory in words."""
    n_threads, n_bytes = check_n_jobs(cost.settings.n_jobs), cost.find_bytes(n_rows)
    memory = f" and up to {n_bytes / 2**30:.1f} GiB of memory" if n_bytes > MOST_BYTES else ""
    return (
        f"{verb} about {format_duration(cost.find_seconds(n_rows) / n_threads)} on {count(n_threads, 'core')}{memory}"
    )


def format_duration(seconds: float) -> str:
    """Seconds, minutes or hours, as one says it."""
    if seconds < 90:
        return count(max(1, round(seconds)), "second")
    return count(round(seconds / 60), "minute") if seconds < 5400 else count(round(seconds / 3600), "hour")
