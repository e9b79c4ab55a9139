"""`open_source()`: files, lazy frames and streams as a `Source` of rows that are read batch by batch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import narwhals as nw
import pandas as pd

from truewood._arguments import name_type
from truewood._streaming.arrow_files import ENDINGS, find_types, open_files
from truewood._streaming.source import Batch, Source, name_errors


def open_source(X: Any) -> Source | None:
    """Open X if it is read in batches; None for a table in memory.

    Parameters
    ----------
    X : object
        A path, a folder, a glob or a list of Parquet or Arrow files, a pyarrow Dataset, a polars LazyFrame, a DuckDB
        relation, or anything else with an Arrow stream; or a table in memory.
    """
    opener = _find_opener(X)
    return None if opener is None else opener(X)


def check_in_memory(X: Any, what: str) -> None:
    """Refuse rows that are read in parts; `what` needs all of them in memory."""
    if find_cluster_library(X) is not None or _find_opener(X) is not None:
        raise TypeError(f"{what} needs a table in memory, but X is a {name_type(X)}; load its rows into memory first.")


def _find_opener(X: Any) -> Callable[[Any], Source] | None:
    if isinstance(X, str | os.PathLike) or _is_list_of_paths(X):
        return open_files
    if nw.dependencies.is_polars_lazyframe(X):
        return _open_polars
    if is_class(X, "duckdb", "DuckDBPyRelation"):
        return _open_duckdb
    if is_class(X, "pyarrow", "Dataset"):
        return _open_dataset
    if isinstance(X, pd.DataFrame):  # including repeated column names, which narwhals refuses
        return None
    given = nw.from_native(X, eager_only=True, allow_series=True, pass_through=True)
    is_in_memory = isinstance(given, nw.DataFrame | nw.Series) or not hasattr(X, "__arrow_c_stream__")
    return None if is_in_memory else _open_stream


def find_cluster_library(X: Any) -> str | None:
    """The library, "dask" or "pyspark", if X is one of its objects, without importing it; otherwise None."""
    for cls in type(X).__mro__:
        library = cls.__module__.partition(".")[0]
        if library in ("dask", "pyspark"):
            return library
    return None


def _is_list_of_paths(X: Any) -> bool:
    if not isinstance(X, list | tuple) or not X:
        return False
    return all(isinstance(path, Path) or (isinstance(path, str) and path.lower().endswith(ENDINGS)) for path in X)


def is_class(X: Any, library: str, name: str) -> bool:
    """Whether X is an instance of a class of a library, without importing the library."""
    return any(cls.__name__ == name and cls.__module__.split(".")[0].lstrip("_") == library for cls in type(X).__mro__)


def _open_polars(frame: Any) -> Source:
    if not hasattr(frame, "collect_batches"):
        raise ValueError(
            "X is a LazyFrame of a polars version that cannot collect batches; upgrade polars, or pass X.collect()."
        )

    import polars as pl

    kinds = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)

    def read(columns: list[str], n_rows: int) -> Iterator[Batch]:
        n_read = 0
        with name_errors("X cannot be read by polars", kinds):
            for table in frame.select(columns).collect_batches(chunk_size=n_rows):
                n_read += table.height
                yield from _cut("", table, n_rows)
            # A reader that fails in another thread ends the batches without an error.
            n_all = int(frame.select(pl.len()).collect().item())
        if n_read != n_all:
            raise ValueError(
                f"X must give the same rows each time it is read, got {n_read:,} and then {n_all:,}; check for damaged "
                "files."
            )

    with name_errors("X cannot be read by polars", kinds):
        return Source(frame.collect_schema().names(), read)


def _open_duckdb(relation: Any) -> Source:
    import duckdb

    def read(columns: list[str], n_rows: int) -> Iterator[Batch]:
        # A projection runs again each time; the relation itself may hold a cached result.
        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        with name_errors("X cannot be read by DuckDB", (duckdb.Error, OSError)):
            projected = relation.project(quoted)
            open_reader = getattr(projected, "to_arrow_reader", None) or projected.fetch_record_batch
            yield from _read_arrow(open_reader(n_rows), n_rows)

    return Source(list(relation.columns), read)


def _open_dataset(dataset: Any) -> Source:
    def read(columns: list[str], n_rows: int) -> Iterator[Batch]:
        import pyarrow as pa
        import pyarrow.dataset as ds

        # A dataset fills columns that a file lacks with nulls.
        for fragment in dataset.get_fragments():
            partition = ds.get_partition_keys(fragment.partition_expression)
            label = str(getattr(fragment, "path", "a part of X"))
            with name_errors(f"{label} cannot be read"):
                schema = fragment.physical_schema
            stored = [name for name in columns if name not in partition]
            find_types([("X", dataset.schema), (label, schema)], stored)
        # Few batches ahead: rows that are read but not yet scored must fit into memory too.
        scanner = dataset.scanner(columns=columns, batch_size=n_rows, batch_readahead=2, fragment_readahead=1)
        with name_errors("X cannot be read"):
            for tagged in scanner.scan_batches():
                label = str(getattr(tagged.fragment, "path", ""))
                yield from _cut(label, pa.Table.from_batches([tagged.record_batch]), n_rows)

    return Source(list(dataset.schema.names), read)


def _open_stream(X: Any) -> Source:
    import pyarrow as pa

    reader = X if isinstance(X, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(X)

    def read(columns: list[str], n_rows: int) -> Iterator[Batch]:
        with name_errors("X cannot be read"):
            for label, table in _read_arrow(reader, n_rows):
                yield label, table.select(columns)

    return Source(list(reader.schema.names), read, can_repeat=False)


def _read_arrow(reader: Any, n_rows: int) -> Iterator[Batch]:
    import pyarrow as pa

    for batch in reader:
        yield from _cut("", pa.Table.from_batches([batch]), n_rows)


def _cut(label: str, table: Any, n_rows: int) -> Iterator[Batch]:
    """Slices of a pyarrow or polars table, with at most `n_rows` rows each."""
    for start in range(0, table.shape[0], n_rows):
        yield label, table.slice(start, n_rows)
