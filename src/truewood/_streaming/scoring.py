"""Scores from a source of rows, batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from truewood._arguments import check_n_jobs
from truewood._inputs.row_arrays import check_named, read_column
from truewood._progress import show_progress
from truewood._results.importance_result import ImportanceResult
from truewood._streaming.batches import Batch, Source
from truewood._streaming.model import StreamingModel, choose_columns
from truewood._streaming.passes import Part, Summed, add_up_parts, check_options, score_parts


def score_source(
    model: Any,
    source: Source,
    y: Any,
    *,
    rows: Any,
    measure: str,
    sample_weight: Any,
    feature_groups: Any,
    inference: bool | str,
    n_jobs: int | None,
    target: Any,
) -> ImportanceResult:
    """Score a model on a source of rows; see `importance`."""
    is_inferred = check_options(rows, measure, inference)
    targets, weights = read_names(y, sample_weight, source.names)
    opened = StreamingModel(model, target=target)
    columns = choose_columns(opened.model, opened.tree_model.table, source.names, [*targets, *weights])

    def aggregate_to_root(
        title: str, step: Callable[[Any, Part], Summed], known: Any, *, only_targets: bool = False
    ) -> Summed:
        names = [] if only_targets else columns
        batches = source.read_batches(list(dict.fromkeys([*names, *targets, *weights])))
        parts = (split_batch(batch, names, targets, weights) for batch in batches)
        with show_progress(title, total=source.n_rows, unit="rows") as update:
            return add_up_parts(parts, partial(step, known), update)

    return score_parts(
        opened,
        aggregate_to_root,
        can_repeat=source.can_repeat,
        measure=measure,
        feature_groups=feature_groups,
        inference=is_inferred,
        n_threads=check_n_jobs(n_jobs),
    )


def read_names(y: Any, sample_weight: Any, known: list[str]) -> tuple[list[str], list[str]]:
    """Columns of the target and of the weights."""
    targets = [y] if isinstance(y, str) else y
    if not isinstance(targets, list | tuple) or not targets or not all(isinstance(name, str) for name in targets):
        raise TypeError(f"y must be the name of a column where X is read in batches, got {type(y).__name__}.")
    if sample_weight is not None and not isinstance(sample_weight, str):
        raise TypeError(
            "sample_weight must be the name of a column where X is read in batches, got "
            f"{type(sample_weight).__name__}."
        )
    weights = [] if sample_weight is None else [sample_weight]
    for name in targets:
        check_named(name, known, "y")
    for name in weights:
        check_named(name, known, "sample_weight")
    return list(targets), weights


def split_batch(batch: Batch, columns: list[str], targets: list[str], weights: list[str]) -> Part:
    """Features, target and weights of a batch."""
    values = [read_column(batch.table, name) for name in targets]
    y = values[0] if len(values) == 1 else np.column_stack(values)
    weight = read_column(batch.table, weights[0]) if weights else None
    return Part(batch.label, batch.table.select(columns), y, weight)
