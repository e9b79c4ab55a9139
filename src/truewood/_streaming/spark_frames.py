"""Scores from the data frames of Spark: partitions are summed on the executors, and only their sums are moved."""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import blake2b
from itertools import chain
from typing import Any

from truewood._arguments import check_n_jobs
from truewood._exceptions import AdapterError
from truewood._formatting import in_one_line
from truewood._pipelines.final_estimator import find_final_estimator
from truewood._results.importance_result import ImportanceResult
from truewood._streaming.batches import choose_batch_rows, join_tables
from truewood._streaming.model import StreamingModel
from truewood._streaming.passes import Part, Summed, add_up_parts, check_options, score_parts
from truewood._streaming.scoring import read_names
from truewood._streaming.spark_columns import Columns, find_columns
from truewood.adapters import SparkModel

# What goes from task to task: a piece of the sums of a partition, or of a block of partitions.
_SCHEMA = "piece int, block int, sums binary"
# Partitions whose sums one task adds up, before another adds up what these tasks give.
_BLOCK = 64
# Rows that go to the driver to be compared, for models of the session.
_N_COMPARED = 20


class PartitionError(ValueError):
    """What is wrong with a partition; its name is how the driver finds it in what Spark tells of a failed task."""


def score_spark(
    model: Any,
    X: Any,
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
    """Score a model on a data frame of Spark, in its session, Classic or Connect; see `importance`."""
    is_inferred = check_options(rows, measure, inference)
    _check_frame(X)
    targets, weights = read_names(y, sample_weight, X.columns)
    opened = StreamingModel(model, target=target)
    columns = find_columns(opened, X, targets, weights)
    _ask_session(opened, X, columns)

    def aggregate_to_root(
        title: str, step: Callable[[Any, Part], Summed], known: Any, *, only_targets: bool = False
    ) -> Summed:
        del title  # Spark shows progress itself
        own = columns.without_features() if only_targets else columns
        return _sum_on_executors(X, own, step, known)

    return score_parts(
        opened,
        aggregate_to_root,
        can_repeat=True,
        measure=measure,
        feature_groups=feature_groups,
        inference=is_inferred,
        n_threads=check_n_jobs(n_jobs),
    )


def _check_frame(X: Any) -> None:
    kind = type(X)
    if not (kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")):
        hint = "; pass X.to_spark()" if hasattr(X, "to_spark") else ""
        raise TypeError(f"X must be a DataFrame of pyspark.sql, got {kind.__module__}.{kind.__name__}{hint}.")
    if X.isStreaming:
        raise ValueError("X must be a DataFrame that ends, got a stream; pass one with the rows that have come so far.")


def _ask_session(opened: StreamingModel, frame: Any, columns: Columns) -> None:
    """Compare a few rows with what a model of this session says: executors have no session to ask."""
    innermost = find_final_estimator(opened.model)
    if not isinstance(innermost, SparkModel) or innermost.live is None:
        return
    table = columns.select(frame).limit(_N_COMPARED).toArrow()
    if table.num_rows:
        part = columns.read(table)
        try:
            opened.compare(part.X, part.y)
        except AdapterError:
            raise
        except (TypeError, ValueError) as error:
            raise ValueError(f"the first rows of X: {error}") from error


def _sum_on_executors(frame: Any, columns: Columns, step: Callable[[Any, Part], Summed], known: Any) -> Summed:
    """Sum up all partitions, add up the sums in two rounds, piece by piece, and take what is left."""
    from pyspark import cloudpickle
    from pyspark.errors import PySparkException

    # Functions of more than 1 MB are broadcast by Spark itself; the bytes are loaded once in a Python worker.
    shared = cloudpickle.dumps((step, known))
    key = blake2b(shared, digest_size=16).hexdigest()

    def sum_partition(batches: Iterator[Any]) -> Iterator[Any]:
        return _sum_partition(batches, columns, key, shared)

    with warnings.catch_warnings():
        # It warns of versions of pandas, which has no part in this.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        sums = columns.select(frame).mapInArrow(sum_partition, _SCHEMA)
        for keys in (["piece", "block"], ["piece"]):
            sums = sums.groupBy(*keys).applyInArrow(_merge, _SCHEMA)
    try:
        found = sums.collect()
    except PySparkException as error:
        told = re.search(rf"{PartitionError.__name__}: (.*)", str(error))
        if told is None:
            raise
        raise ValueError(told[1].strip()) from error
    if not found:
        raise ValueError("X must hold at least one row, got none.")
    pieces = [pickle.loads(row["sums"]) for row in sorted(found, key=lambda row: row["piece"])]
    total: Summed = type(pieces[0]).join(pieces)
    return total


def _sum_partition(batches: Iterator[Any], columns: Columns, key: str, shared: bytes) -> Iterator[Any]:
    """Sums of one partition, in pieces; none where it has no rows."""
    from pyspark import TaskContext

    number = TaskContext.get().partitionId()
    try:
        step, known = _load(key, shared)
        tables = join_tables(map(_make_table, batches), choose_batch_rows(len(columns.names)))
        parts = map(columns.read, tables)
        first = next(parts, None)
        if first is None:
            return
        total = add_up_parts(chain([first], parts), partial(step, known), _show_nothing)
    except (TypeError, ValueError) as error:
        raise PartitionError(in_one_line(f"partition {number}: {error}")) from error
    for piece, sums in enumerate(total.split()):
        yield _make_batch(piece, number // _BLOCK, sums)


_loaded: dict[str, Any] = {}


def _load(key: str, shared: bytes) -> Any:
    """What all partitions have in common; a Python worker goes from one of them to the next."""
    if key not in _loaded:
        _loaded.clear()
        _loaded[key] = pickle.loads(shared)
    return _loaded[key]


def _make_table(batch: Any) -> Any:
    import pyarrow as pa

    return pa.Table.from_batches([batch])


def _show_nothing(done: int, total: int | None = None) -> None:
    del done, total


def _merge(table: Any) -> Any:
    """Add up sums of the same piece."""
    import pyarrow as pa

    total = sum(pickle.loads(sums.as_py()) for sums in table["sums"])
    first = table.slice(0, 1)
    return pa.Table.from_batches([_make_batch(first["piece"][0].as_py(), first["block"][0].as_py(), total)])


def _make_batch(piece: int, block: int, sums: Any) -> Any:
    import pyarrow as pa

    arrays = [pa.array([piece], pa.int32()), pa.array([block], pa.int32()), pa.array([pickle.dumps(sums)], pa.binary())]
    return pa.record_batch(arrays, names=["piece", "block", "sums"])
