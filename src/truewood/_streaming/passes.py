"""Scoring in passes over the rows, independent of where the rows come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import add
from typing import Any, Protocol, TypeVar

import numpy as np

from truewood._arguments import check_n_jobs, read_flag
from truewood._formatting import list_names, quote
from truewood._inputs.table_types import check_named, read_column
from truewood._measures.registry import MEASURES, check_measure, find_inference_problem
from truewood._pipelines.final_estimator import find_final_estimator, find_spark_pipeline
from truewood._progress import Update, show_progress
from truewood._results.importance_result import ImportanceResult
from truewood._streaming.aggregated import AggregatedScores
from truewood._streaming.model import Part, StreamingModel
from truewood._streaming.partial_sums import PartialSums
from truewood._streaming.source import Source
from truewood._streaming.target_counts import TargetCounts

Summed = TypeVar("Summed")

# Rows kept for standard errors if the rows can be read only once.
N_SAMPLE = 100_000


class RunPass(Protocol):
    """Runs one pass over the rows: one step per part, then the sum of their results."""

    def __call__(
        self, title: str, step: Callable[[Any, Part], Summed], shared: Any, *, only_targets: bool = False
    ) -> Summed:
        """Return the sum of ``step(shared, part)`` over all parts.

        Parameters
        ----------
        title : str
            Label of the progress bar.
        step : callable
            A function that can be pickled by name, or `partial` of one.
        shared : object
            The argument that all steps share; picklable, and large.
        only_targets : bool
            Whether the step needs only targets and weights, not features.
        """


def check_streaming_options(rows: Any, measure: str, inference: bool | str) -> bool:
    """Raise an error for options that need a table in memory; return `inference` as a bool."""
    if not isinstance(rows, str) or rows != "heldout":
        given = repr(rows) if isinstance(rows, str) else "lists"
        raise ValueError(
            f"rows must be 'heldout' because X is read in parts, got {given}; pass rows='heldout' and rows that the "
            "model never saw."
        )
    check_measure(measure)
    if measure in MEASURES and MEASURES[measure].split_score is None:
        raise ValueError(
            f"measure={quote(measure)} needs all rows at once, but X is read in parts; use another measure, or pass a "
            "table in memory to importance()."
        )
    return read_flag(inference, "inference", " if X is read in parts")


def score_source(
    model: Any,
    X: Source,
    y: Any,
    *,
    measure: str,
    sample_weight: Any,
    feature_groups: Any,
    inference: bool,
    n_jobs: int | None,
    target: Any,
) -> ImportanceResult:
    """Score a model on rows that this process reads in batches; see `importance`."""
    targets, weights = read_target_and_weight_names(y, sample_weight, X.names)
    streaming = StreamingModel(model, target=target)
    features = choose_columns(streaming, X.names, [*targets, *weights])

    def run_pass(title: str, step: Callable[[Any, Part], Summed], shared: Any, *, only_targets: bool = False) -> Summed:
        columns = [] if only_targets else features
        batches = X.read_batches(list(dict.fromkeys([*columns, *targets, *weights])))
        parts = (make_part(label, table, columns, targets, weights) for label, table in batches)
        with show_progress(title, total=X.n_rows, unit="rows") as update:
            return sum_parts(parts, step, shared, update)

    return score_parts(
        streaming,
        run_pass,
        can_repeat=X.can_repeat,
        measure=measure,
        feature_groups=feature_groups,
        inference=inference,
        n_threads=check_n_jobs(n_jobs),
    )


def score_parts(
    model: StreamingModel,
    run_pass: RunPass,
    *,
    can_repeat: bool,
    measure: str,
    feature_groups: Any,
    inference: bool,
    n_threads: int,
) -> ImportanceResult:
    """Score a model on rows that are read in parts.

    Parameters
    ----------
    model : StreamingModel
        The model.
    run_pass : callable
        Runs one pass over the rows.
    can_repeat : bool
        Whether there can be more than one pass.
    measure, feature_groups, inference : object
        As in `importance`.
    n_threads : int
        Number of threads for each part.
    """
    if model.needs_constant:
        if not can_repeat:
            raise ValueError(
                f"the target of {model.tree_model.name} depends on all rows, but this X can be read only once; pass "
                "target=, a function that returns a number for each y, or a source that can be read again."
            )
        counts = run_pass("reading y", TargetCounts.of_part, model, only_targets=True)
        model.constant = counts.find_constant(model)
    n_sample = N_SAMPLE if inference and not can_repeat else 0
    step = partial(
        PartialSums.of_part,
        feature_groups=feature_groups,
        inference=inference,
        n_sample=n_sample,
        n_threads=n_threads,
    )
    scores = AggregatedScores(model, run_pass("scoring", step, model), measure, feature_groups)
    errors = None
    if can_repeat and find_inference_problem(scores.measure, inference) is None and scores.copies_problem is None:
        errors = run_pass("errors", partial(AggregatedScores.sum_errors, n_threads=n_threads), scores)
    return scores.finish(errors, inference=inference, n_threads=n_threads)


def sum_parts(
    parts: Iterable[Part], step: Callable[[Any, Part], Summed], shared: Any, update: Update | None = None
) -> Summed:
    """Sum of ``step(shared, part)`` over some parts, in this process; `update` gets the number of rows done."""
    n_done, total = 0, None
    for part in parts:
        summed = run_step(step, shared, part)
        total = summed if total is None else add(total, summed)
        n_done += len(part.y)
        if update is not None:
            update(n_done)
    if total is None:
        raise ValueError("X must have at least one row, got none.")
    return total


def run_step(step: Callable[[Any, Part], Summed], shared: Any, part: Part) -> Summed:
    """``step(shared, part)``, with the label of the part in errors."""
    try:
        return step(shared, part)
    except (TypeError, ValueError) as error:
        if not part.label:
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{part.label}: {error}") from error


def read_target_and_weight_names(y: Any, sample_weight: Any, known: list[str]) -> tuple[list[str], list[str]]:
    """Names of the target columns and of the weight column, if any."""
    targets = [y] if isinstance(y, str) else y
    if not isinstance(targets, list | tuple) or not targets or not all(isinstance(name, str) for name in targets):
        raise TypeError(f"y must be the name of a column if X is read in batches, got {type(y).__name__}.")
    if sample_weight is not None and not isinstance(sample_weight, str):
        raise TypeError(
            f"sample_weight must be the name of a column if X is read in batches, got {type(sample_weight).__name__}."
        )
    for name in targets:
        check_named(name, known, "y")
    if sample_weight is None:
        return list(targets), []
    check_named(sample_weight, known, "sample_weight")
    return list(targets), [sample_weight]


def choose_columns(model: StreamingModel, known: Sequence[str], others: Sequence[str]) -> list[str]:
    """Names of the columns that a model takes, in its order.

    Parameters
    ----------
    model : StreamingModel
        The model.
    known : sequence of str
        Names of all columns. A model without feature names takes all of them, in their order.
    others : sequence of str
        Columns of the target and of the weights.
    """
    fitted, spec = model.fitted, model.tree_model.table
    is_plain = find_final_estimator(fitted) is fitted
    names: Sequence[Any] | None
    if is_plain:
        names, n_columns = spec.names if spec.names is None else spec.names.tolist(), spec.n_features
    elif (spark := find_spark_pipeline(fitted)) is not None:
        names, n_columns = spark.inputs, spec.n_features
    else:
        names, n_columns = getattr(fitted, "feature_names_in_", None), getattr(fitted, "n_features_in_", None)
    given = [name for name in known if name not in others]
    if names is None:
        if n_columns is not None and len(given) != n_columns:
            raise ValueError(
                f"X must have the {n_columns} columns {spec.model} was fit on, got {len(given)} besides y and "
                f"sample_weight: {list_names(given, 5)}; {spec.model} has no feature names to "
                "select columns by, so pass exactly the columns of the fit, in the same order."
            )
        return given
    spell = spec.spell if is_plain else str
    # An exact name takes precedence over one that the library spells the same way.
    spelled = {spell(name): name for name in given} | {name: name for name in given}
    absent = [str(name) for name in names if str(name) not in spelled]
    if absent:
        raise ValueError(
            f"X must have the columns {spec.model} was fit on, but lacks {list_names(absent, 5)}; it has "
            f"{list_names(given, 5)}."
        )
    return [spelled[str(name)] for name in names]


def make_part(label: str, table: Any, features: list[str], targets: list[str], weights: list[str]) -> Part:
    """Features, target and weights of a batch of rows."""
    values = [read_column(table, name) for name in targets]
    y = values[0] if len(values) == 1 else np.column_stack(values)
    return Part(label, table.select(features), y, read_column(table, weights[0]) if weights else None)
