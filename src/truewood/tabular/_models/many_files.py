"""Score a saved model on a folder or glob of files, read in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd

from truewood._arguments import check_n_jobs
from truewood._engines.selection import AUTO, use_engine
from truewood._formatting import count
from truewood._measures.registry import get_measure
from truewood._message import as_message
from truewood._progress import Update
from truewood._results.importance_result import ImportanceResult
from truewood._streaming.arrow_files import open_files
from truewood._streaming.model import Part, StreamingModel
from truewood._streaming.passes import Summed, score_parts, sum_parts
from truewood._streaming.source import Source
from truewood.tabular._checks.performance import warn_of_noise
from truewood.tabular._columns.roles import Roles
from truewood.tabular._errors import TableError
from truewood.tabular._messages import Messages
from truewood.tabular._models.boosters import Progress
from truewood.tabular._models.input_table import match_target, prepare_table
from truewood.tabular._models.saved_model import SavedModel
from truewood.tabular._models.scoring import Scoring
from truewood.tabular._table_score import ColumnSummary, TableScore

NEEDS_MEMORY = "requires a table in memory, but these rows are read in parts; pass one file, with the local backend."


def score_many_files(
    saved: SavedModel, table: Any, roles: Roles, *, scoring: Scoring, progress: Progress, messages: Messages
) -> TableScore:
    """Score a saved model on a folder or glob of Parquet or Arrow files; see `score_saved_model`.

    Model performance is not measured, and `TableScore.X` is the first batch.
    """
    check_parts_suffice(scoring)
    try:
        source = open_files(table)
    except ValueError as error:
        raise TableError(str(error), "table") from error
    roles.check(source.names)
    batches = _Batches(saved, source, roles, messages)

    def run_pass(title: str, step: Callable[[Any, Part], Summed], shared: Any, *, only_targets: bool = False) -> Summed:
        del title, only_targets
        return sum_parts(batches.read(), step, shared, _report(progress, source.n_rows))

    with use_engine(scoring.engine):
        result = score_parts(
            StreamingModel(saved.model),
            run_pass,
            can_repeat=True,
            measure=scoring.measure,
            feature_groups=None,
            inference=True,
            n_threads=check_n_jobs(scoring.n_jobs),
        )
    batches.report_others()
    X = batches.first
    columns = [ColumnSummary(str(column), str(X[column].dtype), is_used=True) for column in X]
    return make_score(saved, table, result, X, columns, read_by="in batches", scoring=scoring, messages=messages)


def check_parts_suffice(scoring: Scoring) -> None:
    """Refuse options that need all rows in memory."""
    measure = scoring.measure
    if measure != AUTO and get_measure(measure).split_score is None:
        raise TableError(f"{measure} {NEEDS_MEMORY}", "measure")
    refused = {
        "contributions": scoring.contributions,
        "interactions": scoring.interactions,
        "group_correlated": scoring.group_correlated is not None,
    }
    for argument, is_given in refused.items():
        if is_given:
            raise TableError(NEEDS_MEMORY, argument)


def make_score(
    saved: SavedModel,
    table: Any,
    result: ImportanceResult,
    X: pd.DataFrame | None,
    columns: list[ColumnSummary],
    *,
    read_by: str,
    scoring: Scoring,
    messages: Messages,
) -> TableScore:
    """Make the score of rows that are never in memory together."""
    messages.add(f"read {table}: {count(result.n_rows, 'row')} {read_by}; model performance is not measured")
    if result.total_p_value > scoring.alpha:
        warn_of_noise(result.total_p_value, messages)
    return TableScore(
        result=result,
        explanation=None,
        X=X,
        model=saved.model,
        model_name=saved.name,
        columns=columns,
        performance=None,
        feature_groups=None,
        messages=list(messages.messages),
        warnings=list(messages.warnings),
    )


class _Batches:
    """Batches of rows, prepared for a saved model."""

    def __init__(self, saved: SavedModel, source: Source, roles: Roles, messages: Messages) -> None:
        self._saved, self._source, self._roles, self._messages = saved, source, roles, messages
        self.first = pd.DataFrame()
        self._others: list[str] = []

    def read(self) -> Iterator[Part]:
        """Read all batches from the start."""
        roles, is_first_pass = self._roles, self.first.empty
        absent = {roles.target, roles.sample_weight, *roles.drop}
        features = [name for name in self._source.names if name not in absent]
        if self._saved.columns is not None:
            features = [name for name in features if self._saved.spell(name) in self._saved.columns]
        weights = [] if roles.sample_weight is None else [roles.sample_weight]
        for label, table in self._source.read_batches([*features, roles.target, *weights]):
            rows = table.to_pandas()
            collected = self._messages if self.first.empty else Messages()
            try:
                X = prepare_table(self._saved, rows[features], collected)
                y = match_target(self._saved, rows[roles.target], roles.target)
            except TableError as error:
                raise TableError(as_message(error.reason).prefix(f"{label}: "), error.argument) from error
            if self.first.empty:
                self.first = X
            elif is_first_pass and collected.warnings:
                self._others.append(f"{label}: {collected.warnings[0]}")
            yield Part(label, X, y, None if not weights else rows[weights[0]])

    def report_others(self) -> None:
        """Report how many batches after the first have warnings."""
        if self._others:
            batches = "batch after the first has" if len(self._others) == 1 else "batches after the first have"
            self._messages.warn(f"{len(self._others):,} {batches} warnings, such as {self._others[0]}")


def _report(progress: Progress, n_rows: int | None) -> Update:
    def update(done: int, total: int | None = None) -> None:
        del total
        progress(done, n_rows or done)

    return update
