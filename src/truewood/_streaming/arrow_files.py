"""Parquet and Arrow files as a `Source`."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from truewood._formatting import list_names, quote, shorten
from truewood._streaming.source import Batch, Source, join_tables, name_errors

PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc")
ENDINGS = (*PARQUET, *ARROW)
# Bytes read from a column of a Parquet file at a time, so that large row groups need not fit into memory.
_BUFFER_BYTES = 1 << 20
# Column names listed in an error message.
_LISTED = 5


def open_files(given: Any) -> Source:
    """Open Parquet and Arrow files, given as a path, a folder, a glob or a list of these."""
    if find_spec("pyarrow") is None:
        raise ValueError("reading X needs pyarrow, which is not installed: pip install 'truewood[arrow]'.")
    files = [_File(path) for path in find_files(given)]

    def read(columns: list[str], n_rows: int) -> Iterator[Batch]:
        types = find_types([(file.path, file.schema) for file in files], columns)
        for file in files:
            yield from file.read(columns, types, n_rows)

    counts = [file.n_rows for file in files if file.n_rows is not None]
    n_rows = sum(counts) if len(counts) == len(files) else None
    return Source(list(files[0].schema.names), read, n_rows=n_rows)


def find_files(given: Any) -> list[str]:
    """Paths of the files in a folder, a glob or a list, sorted within each folder or glob."""
    if isinstance(given, list | tuple):
        return [path for one in given for path in find_files(one)]
    text = os.fspath(given)
    if os.path.isdir(text):
        # Like Spark, ignore names that begin with _ or a dot.
        inside = [Path(folder, name) for folder, _, names in os.walk(text, followlinks=True) for name in names]
        found = [str(path) for path in inside if _is_data(path) and not _is_hidden(path.relative_to(text))]
    elif os.path.exists(text):
        if not _is_data(Path(text)):
            raise ValueError(f"X must be Parquet or Arrow files ({', '.join(ENDINGS)}) or a table, got {text}.")
        return [text]
    elif glob.has_magic(text):
        matched = glob.glob(text, recursive=True)
        folders = [path for path in matched if os.path.isdir(path) and _is_data(Path(path))]  # as Spark writes them
        found = [path for path in matched if os.path.isfile(path) and _is_data(Path(path))]
        found = sorted({*found, *(path for folder in folders for path in find_files(folder))})
    else:
        raise ValueError(f"X must be a table or a path to files, but there is no file {shorten(text, 200)}.")
    if not found:
        raise ValueError(f"X must be Parquet or Arrow files ({', '.join(ENDINGS)}), but {text} holds none.")
    return sorted(found)


def _is_data(path: Path) -> bool:
    return path.suffix.lower() in ENDINGS


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(("_", ".")) for part in path.parts)


class _File:
    """One file, which must not change while it is read."""

    def __init__(self, path: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.path = path
        self.n_rows: int | None = None
        with name_errors(f"{path} cannot be read"):
            self._stat = _take_stat(path)
            if path.lower().endswith(PARQUET):
                with pq.ParquetFile(path) as file:
                    self.schema, self.n_rows = file.schema_arrow, file.metadata.num_rows
            else:
                with pa.memory_map(path) as mapped:
                    self.schema = pa.ipc.open_file(mapped).schema

    def read(self, columns: list[str], types: dict[str, Any], n_rows: int) -> Iterator[Batch]:
        """Batches of some columns; columns without values get the given types."""
        with name_errors(f"{self.path} cannot be read"):
            if _take_stat(self.path) != self._stat:
                raise ValueError("the file has changed since it was opened")
            tables = (_take_columns(batch, columns, types) for batch in self._iterate(columns, n_rows))
            for table in join_tables(tables, n_rows):
                yield self.path, table

    def _iterate(self, columns: list[str], n_rows: int) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self.path.lower().endswith(PARQUET):
            with pq.ParquetFile(self.path, buffer_size=_BUFFER_BYTES) as file:
                yield from file.iter_batches(batch_size=n_rows, columns=columns)
            return
        with pa.memory_map(self.path) as mapped:
            file = pa.ipc.open_file(mapped, options=pa.ipc.IpcReadOptions(use_threads=True))
            for number in range(file.num_record_batches):
                batch = file.get_batch(number)
                for start in range(0, batch.num_rows, n_rows):
                    yield batch.slice(start, n_rows)


def _take_columns(batch: Any, columns: list[str], types: dict[str, Any]) -> Any:
    """Table of some columns of a batch; columns of nulls get the type they have in other files."""
    import pyarrow as pa

    table = pa.Table.from_batches([batch]).select(columns)
    for place, name in enumerate(columns):
        if pa.types.is_null(table.schema.field(name).type):
            table = table.set_column(place, name, table[name].cast(types[name]))
    return table


def _take_stat(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_mtime_ns, found.st_size


def find_types(schemas: Sequence[tuple[str, Any]], columns: Sequence[str]) -> dict[str, Any]:
    """Types of some columns, which must be consistent: all numeric types are, and nulls are with any type.

    Parameters
    ----------
    schemas : sequence of (str, Schema)
        Name and Arrow schema of each file.
    columns : sequence of str
        Columns that every file must have.
    """
    import pyarrow as pa

    types: dict[str, tuple[Any, str]] = {}
    for label, schema in schemas:
        for name in columns:
            if schema.names.count(name) != 1:
                has = list_names(schema.names, _LISTED)
                raise ValueError(f"{label} must have exactly one column {quote(name)}, but has the columns {has}.")
            own = schema.field(name).type
            known, first = types.setdefault(name, (own, label))
            if pa.types.is_null(known):
                types[name] = own, label
            elif not pa.types.is_null(own) and _find_kind(own) != _find_kind(known):
                raise ValueError(
                    f"column {quote(name)} is {own} in {label}, but {known} in {first}; write all files with one type."
                )
    return {name: known for name, (known, _) in types.items()}


def _find_kind(of: Any) -> str:
    """The kind of type that all files must share."""
    import pyarrow as pa

    if pa.types.is_dictionary(of):
        return f"dictionary of {_find_kind(of.value_type)}"
    if pa.types.is_integer(of) or pa.types.is_floating(of) or pa.types.is_boolean(of):
        return "number"
    return "text" if pa.types.is_string(of) or pa.types.is_large_string(of) else str(of)
