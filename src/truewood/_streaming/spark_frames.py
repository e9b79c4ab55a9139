"""Scores from Spark DataFrames: executors sum their partitions, and only the sums move."""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import chain
from typing import Any

from truewood._arguments import check_n_jobs
from truewood._exceptions import AdapterError
from truewood._formatting import in_one_line
from truewood._pipelines.final_estimator import find_final_estimator
from truewood._results.importance_result import ImportanceResult
from truewood._streaming.model import Part, StreamingModel
from truewood._streaming.passes import Summed, read_target_and_weight_names, score_parts, sum_parts
from truewood._streaming.source import choose_batch_rows, join_tables
from truewood._streaming.spark_columns import Columns, find_columns
from truewood.adapters import SparkModel

# Records passed between tasks: a piece of the sums of a partition, or of a block of partitions.
_SCHEMA = "piece int, block int, sums binary"
# Number of partitions whose sums one task adds up, before another task adds up the results.
_BLOCK = 64
# Rows that the driver compares with the predictions of a model in the session.
_N_COMPARED = 20


class PartitionError(ValueError):
    """An error in a partition; the driver finds it by this name in Spark's report of the failed task."""


def score_spark(
    model: Any,
    X: Any,
    y: Any,
    *,
    measure: str,
    sample_weight: Any,
    feature_groups: Any,
    inference: bool,
    n_jobs: int | None,
    target: Any,
) -> ImportanceResult:
    """Score a model on a Spark DataFrame, in its session, Classic or Connect; see `importance`."""
    _check_frame(X)
    targets, weights = read_target_and_weight_names(y, sample_weight, X.columns)
    streaming = StreamingModel(model, target=target)
    columns = find_columns(streaming, X, targets, weights)
    _verify_in_session(streaming, X, columns)

    def run_pass(title: str, step: Callable[[Any, Part], Summed], shared: Any, *, only_targets: bool = False) -> Summed:
        del title  # Spark shows progress itself
        return _sum_on_executors(X, columns.without_features() if only_targets else columns, step, shared)

    return score_parts(
        streaming,
        run_pass,
        can_repeat=True,
        measure=measure,
        feature_groups=feature_groups,
        inference=inference,
        n_threads=check_n_jobs(n_jobs),
    )


def _check_frame(X: Any) -> None:
    kind = type(X)
    if not (kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")):
        hint = "; pass X.to_spark()" if hasattr(X, "to_spark") else ""
        raise TypeError(f"X must be a pyspark.sql DataFrame, got {kind.__module__}.{kind.__name__}{hint}.")
    if X.isStreaming:
        raise ValueError("X must be a bounded DataFrame, got a stream; pass a DataFrame of the rows so far.")


def _verify_in_session(model: StreamingModel, frame: Any, columns: Columns) -> None:
    """Compare a few rows with the predictions of a model in this session, which executors cannot reach."""
    final = find_final_estimator(model.fitted)
    if not isinstance(final, SparkModel) or final.live is None:
        return
    table = columns.select(frame).limit(_N_COMPARED).toArrow()
    if table.num_rows:
        part = columns.read(table)
        try:
            model.verify(part)
        except AdapterError:
            raise
        except (TypeError, ValueError) as error:
            raise ValueError(f"the first rows of X: {error}") from error


def _sum_on_executors(frame: Any, columns: Columns, step: Callable[[Any, Part], Summed], shared: Any) -> Summed:
    """Sum all partitions, and add up the sums in two rounds, piece by piece."""
    from pyspark import cloudpickle
    from pyspark.errors import PySparkException

    # Spark itself broadcasts functions of more than 1 MB; a Python worker loads the bytes once.
    pickled = cloudpickle.dumps((step, shared))
    key = blake2b(pickled, digest_size=16).hexdigest()

    def sum_partition(batches: Iterator[Any]) -> Iterator[Any]:
        return _sum_partition(batches, columns, key, pickled)

    with warnings.catch_warnings():
        # Irrelevant, because pandas is not used here.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        sums = columns.select(frame).mapInArrow(sum_partition, _SCHEMA)
        for keys in (["piece", "block"], ["piece"]):
            sums = sums.groupBy(*keys).applyInArrow(_merge, _SCHEMA)
    try:
        found = sums.collect()
    except PySparkException as error:
        reported = re.search(rf"{PartitionError.__name__}: (.*)", str(error))
        if reported is None:
            raise
        raise ValueError(reported[1].strip()) from error
    if not found:
        raise ValueError("X must have at least one row, got none.")
    pieces = [pickle.loads(row["sums"]) for row in sorted(found, key=lambda row: row["piece"])]
    total: Summed = type(pieces[0]).join(pieces)
    return total


def _sum_partition(batches: Iterator[Any], columns: Columns, key: str, pickled: bytes) -> Iterator[Any]:
    """Sums of one partition, in pieces; nothing if it has no rows."""
    from pyspark import TaskContext

    number = TaskContext.get().partitionId()
    try:
        step, shared = _load(key, pickled)
        tables = join_tables(map(_make_table, batches), choose_batch_rows(len(columns.names)))
        parts = map(columns.read, tables)
        first = next(parts, None)
        if first is None:
            return
        total = sum_parts(chain([first], parts), step, shared)
    except (TypeError, ValueError) as error:
        raise PartitionError(in_one_line(f"partition {number}: {error}")) from error
    for piece, sums in enumerate(total.split()):
        yield _make_batch(piece, number // _BLOCK, sums)


_loaded: dict[str, Any] = {}


def _load(key: str, pickled: bytes) -> Any:
    """Unpickle the step and its shared argument once per Python worker, which processes several partitions."""
    if key not in _loaded:
        _loaded.clear()
        _loaded[key] = pickle.loads(pickled)
    return _loaded[key]


def _make_table(batch: Any) -> Any:
    import pyarrow as pa

    return pa.Table.from_batches([batch])


def _merge(table: Any) -> Any:
    """Add up the sums of one piece."""
    import pyarrow as pa

    total = sum(pickle.loads(sums.as_py()) for sums in table["sums"])
    first = table.slice(0, 1)
    return pa.Table.from_batches([_make_batch(first["piece"][0].as_py(), first["block"][0].as_py(), total)])


def _make_batch(piece: int, block: int, sums: Any) -> Any:
    import pyarrow as pa

    arrays = [pa.array([piece], pa.int32()), pa.array([block], pa.int32()), pa.array([pickle.dumps(sums)], pa.binary())]
    return pa.record_batch(arrays, names=["piece", "block", "sums"])
