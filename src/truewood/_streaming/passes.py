"""Scores from rows that come in parts: as many passes as it takes, by any engine that adds up sums of parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import Any, Protocol, TypeVar

import numpy as np

from truewood._arguments import read_flag
from truewood._formatting import quote
from truewood._measures.registry import MEASURES, check_measure, find_inference_problem
from truewood._progress import Update
from truewood._results.importance_result import ImportanceResult
from truewood._scoring.results import find_groupings
from truewood._streaming.accumulating import N_SAMPLE, accumulate_rows
from truewood._streaming.aggregated import AggregatedScores
from truewood._streaming.constants import TargetCounts, count_targets, find_constant, needs_constant
from truewood._streaming.finishing import PartialErrors, accumulate_rows_errors, finish_totals
from truewood._streaming.model import StreamingModel
from truewood._streaming.partial_sums import Partial

Summed = TypeVar("Summed")


@dataclass(frozen=True)
class Part:
    """Some rows as a model takes them.

    Parameters
    ----------
    label : str
        Where they are, for messages.
    X, y, sample_weight : object
        As of `accumulate`.
    """

    label: str
    X: Any
    y: Any
    sample_weight: Any


def check_options(rows: Any, measure: str, inference: bool | str) -> bool:
    """Refuse, before rows are read, what takes a table in memory; the answer is whether errors are wanted."""
    check_measure(measure)
    if not isinstance(rows, str) or rows != "heldout":
        shown = repr(rows) if isinstance(rows, str) else "lists"
        raise ValueError(f"rows must be 'heldout' where X comes in parts: rows the model never saw; got {shown}.")
    inference = read_flag(inference, "inference", " where X comes in parts")
    if measure in MEASURES and MEASURES[measure].split_score is None:
        raise ValueError(f"measure={quote(measure)} looks at single rows again and again; pass a table in memory.")
    return inference


class AddUp(Protocol):
    """What an engine does: a step for each part of the rows, and the sum of what the steps give."""

    def __call__(
        self, title: str, step: Callable[[Any, Part], Summed], known: Any, *, only_targets: bool = False
    ) -> Summed:
        """Add up ``step(known, part)`` over all parts.

        Parameters
        ----------
        title : str
            What it is for.
        step : callable
            A function of a module, or `partial` of one.
        known : object
            What all parts have in common. It can be pickled, and is large.
        only_targets : bool
            Whether targets and weights will do.
        """


def score_parts(
    opened: StreamingModel,
    aggregate_to_root: AddUp,
    *,
    can_repeat: bool,
    measure: str,
    feature_groups: Any,
    inference: bool,
    n_threads: int,
) -> ImportanceResult:
    """Score a model on rows that come in parts.

    Parameters
    ----------
    opened : StreamingModel
        The model.
    aggregate_to_root : callable
        Goes through all parts.
    can_repeat : bool
        Whether that can be done more than once.
    measure, feature_groups, inference : object
        As of `importance`.
    n_threads : int
        Number of threads for each part.
    """
    if needs_constant(opened):
        if not can_repeat:
            raise ValueError(
                f"the target of {opened.tree_model.name} follows from all rows, and this X can be read only once; pass "
                "target=, a function that makes a number of y, or a source that can be read again."
            )
        counts = aggregate_to_root("reading y", _count_part, opened, only_targets=True)
        opened = opened.with_constant(find_constant(opened, counts))
    n_sample = N_SAMPLE if inference and not can_repeat else 0
    step = partial(_sum_part, feature_groups=feature_groups, n_sample=n_sample, n_threads=n_threads)
    totals = AggregatedScores(opened, aggregate_to_root("scoring", step, opened), measure, feature_groups)
    errors = None
    if can_repeat and find_inference_problem(totals.measure, inference) is None:
        errors = aggregate_to_root("errors", partial(_sum_errors, n_threads=n_threads), totals)
        first = totals.partial
        if not errors.has_rows_of(first):
            raise ValueError(
                f"X must give the same rows each time it is read, got {first.n_rows} and then {errors.n_rows}, of "
                f"weight {first.weight:.12g} and then {errors.weight:.12g} and with other values of y; if random steps "
                "choose them, keep what these give, in files or in memory, and pass that."
            )
    return finish_totals(totals, inference=inference, errors=errors, n_threads=n_threads)


def _count_part(opened: StreamingModel, part: Part) -> TargetCounts:
    return count_targets(opened, part.y, part.sample_weight)


def _sum_part(opened: StreamingModel, part: Part, *, feature_groups: Any, n_sample: int, n_threads: int) -> Partial:
    summed = accumulate_rows(opened, part.X, part.y, part.sample_weight, n_sample=n_sample, n_threads=n_threads)
    if summed.names is not None:  # before all rows are read
        find_groupings(feature_groups, np.asarray(summed.names, dtype=np.str_), summed.encoding, opened.tree_model)
    return summed


def _sum_errors(totals: AggregatedScores, part: Part, *, n_threads: int) -> PartialErrors:
    return accumulate_rows_errors(totals, part.X, part.y, part.sample_weight, n_threads=n_threads)


def add_up_parts(parts: Iterator[Part], sum_part: Callable[[Part], Summed], update: Update) -> Summed:
    """Add up what is summed of each part, in this process; `update` hears the number of rows done."""
    n_done, total = 0, None
    for part in parts:
        summed = sum_named(part, sum_part)
        total = summed if total is None else add(total, summed)
        n_done += len(part.y)
        update(n_done)
    if total is None:
        raise ValueError("X must hold at least one row, got none.")
    return total


def sum_named(part: Part, sum_part: Callable[[Part], Summed]) -> Summed:
    """Sum a part; errors say which it is."""
    try:
        return sum_part(part)
    except (TypeError, ValueError) as error:
        if not part.label:
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{part.label}: {error}") from error
