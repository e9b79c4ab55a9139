"""Scores from a source of rows, batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from truewood.arguments import check_n_jobs
from truewood.data.named_columns import check_named, read_column
from truewood.progress import show_progress
from truewood.result.importance_result import ImportanceResult
from truewood.scale.model_columns import choose_columns
from truewood.scale.opened_model import OpenedModel
from truewood.scale.passes import Part, Summed, add_up_parts, check_options, score_parts
from truewood.scale.source import Batch, Source


def score_source(
    model: Any,
    source: Source,
    y: Any,
    *,
    rows: Any,
    measure: str,
    sample_weight: Any,
    groups: Any,
    inference: bool | str,
    n_jobs: int | None,
    target: Any,
) -> ImportanceResult:
    """Score a model on a source of rows; see `importance`."""
    is_inferred = check_options(rows, measure, inference)
    targets, weights = read_names(y, sample_weight, source.names)
    opened = OpenedModel(model, target=target)
    columns = choose_columns(opened.model, opened.view.table, source.names, [*targets, *weights])

    def add_up(title: str, step: Callable[[Any, Part], Summed], known: Any, *, only_targets: bool = False) -> Summed:
        names = [] if only_targets else columns
        batches = source.read_batches(list(dict.fromkeys([*names, *targets, *weights])))
        parts = (split_batch(batch, names, targets, weights) for batch in batches)
        with show_progress(title, total=source.n_rows, unit="rows") as update:
            return add_up_parts(parts, partial(step, known), update)

    return score_parts(
        opened,
        add_up,
        can_repeat=source.can_repeat,
        measure=measure,
        groups=groups,
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
