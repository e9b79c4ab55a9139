"""Read tables from data frames and files: CSV, TSV, JSON lines, Parquet, Feather (all also gzipped) and Excel."""

from __future__ import annotations

import glob
import gzip
import io
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd

from truewood._extras import explain_missing
from truewood._formatting import count
from truewood._streaming.arrow_files import ARROW, PARQUET
from truewood.tabular._columns.roles import Roles
from truewood.tabular._errors import TableError, UnknownFormatError, name_damage
from truewood.tabular._files.delimited_text import parse_text
from truewood.tabular._files.frames import check_names, name_columns, read_frame
from truewood.tabular._files.json_and_excel import parse_excel, parse_json_lines
from truewood.tabular._messages import Messages

# The formats of files, for help texts.
FORMATS = "CSV, TSV, JSON lines, Parquet, Feather (each may be gzipped) or Excel"
_TEXT = {".csv": None, ".txt": None, ".tsv": "\t", ".tab": "\t"}
_JSON_LINES = (".jsonl", ".ndjson")
_EXCEL = (".xlsx", ".xlsm")
# Largest size in bytes that a compressed file may expand to, absolute and relative to the file.
LARGEST_EXPANSION = 2 * 2**30
LARGEST_RATIO = 100
_BATCH_ROWS = 4096
_TAKE_A_PART = "use fewer rows, or pass a data frame to truewood.tabular.score_table in Python"
_FIRST_FEATHER_MARK = b"FEA1"
_GZIP_MARK, _PARQUET_MARK, _FEATHER_MARK, _ZIP_MARK, _OBJECT_MARK = b"\x1f\x8b", b"PAR1", b"ARROW1", b"PK\x03\x04", b"{"


@dataclass(frozen=True)
class FileContent:
    """The content of a file, such as standard input.

    Parameters
    ----------
    name : str
        Name for messages.
    data : bytes
        The content.
    ending : str or None, default=None
        The format as a file extension, such as ".csv" or ".csv.gz"; None detects it from the first bytes.
    """

    name: str
    data: bytes
    ending: str | None = None


def name_data(table: Any) -> str | None:
    """Name of the file or other source that a table comes from; None for a data frame."""
    if isinstance(table, FileContent):
        return table.name
    return os.path.basename(os.path.normpath(table)) if isinstance(table, str | os.PathLike) else None


def is_many_files(table: Any) -> bool:
    """Whether a table is a folder or a glob pattern."""
    if not isinstance(table, str | os.PathLike):
        return False
    text = os.fspath(table)
    return os.path.isdir(text) or (isinstance(text, str) and glob.has_magic(text) and not os.path.exists(text))


def open_table(table: Any, roles: Roles, messages: Messages, *, is_for_model: bool = False) -> pd.DataFrame:
    """Read a table and check that it has the columns of the roles.

    Parameters
    ----------
    table : path, FileContent or data frame
        The table.
    roles : Roles
        The columns it must have.
    messages : Messages
        Receives what was read.
    is_for_model : bool, default=False
        Whether the table is input for a saved model; text files are then read as `pandas.read_csv` reads them.
    """
    rows = read_table(table, messages, model_target=roles.target if is_for_model else None)
    roles.check([str(name) for name in rows])
    return rows


def read_table(table: Any, messages: Messages, *, model_target: str | None = None) -> pd.DataFrame:
    """Read a table that has at least one row; arguments as in `open_table` and `parse_file`."""
    opened = read_file(table) if isinstance(table, str | os.PathLike) else table
    if isinstance(opened, FileContent):
        source, rows = opened.name, parse_file(opened, messages, model_target=model_target)
    else:
        source, rows = "the table", read_frame(opened)
    if rows.empty:
        raise TableError(f"{source} has column names but no rows.", "table")
    messages.add(f"read {source}: {count(len(rows), 'row')}, {count(rows.shape[1], 'column')}")
    return rows


def read_file(source: str | os.PathLike[str]) -> FileContent:
    """Read a file; its extension gives the format."""
    path = Path(source)
    if not path.exists():
        raise TableError(f"file {source} does not exist.", "table")
    return FileContent(path.name, path.read_bytes(), _find_ending(path))


def _find_ending(path: Path) -> str:
    is_zipped = path.suffix.lower() == ".gz"
    ending = (path.with_suffix("") if is_zipped else path).suffix.lower()
    known = [*_TEXT, *PARQUET, *ARROW, *_JSON_LINES, *_EXCEL]
    if ending not in known:
        raise UnknownFormatError(
            f"{path.name} must end in one of {', '.join(known)}, optionally followed by .gz.", "table"
        )
    return ending + ".gz" * is_zipped


def parse_file(content: FileContent, messages: Messages, *, model_target: str | None = None) -> pd.DataFrame:
    """Parse a file; columns of text formats stay text, and `read_columns` infers their types.

    Parameters
    ----------
    content : FileContent
        The file.
    messages : Messages
        Receives notes about encodings and sheets.
    model_target : str or None
        The target, if the table is input for a saved model: pandas then infers all other types.
    """
    name, data = content.name, content.data
    if not data:
        raise TableError(f"{name} is empty.", "table")
    ending = None if content.ending is None else content.ending.removesuffix(".gz")
    if data.startswith(_GZIP_MARK):
        data = _unzip(data, name)
    elif ending != content.ending:
        raise TableError(f"{name} has the extension .gz but is not a gzip file; rename it, or compress it.", "table")
    if ending in PARQUET or (ending is None and data.startswith(_PARQUET_MARK)):
        return _read_arrow(data, name, "Parquet")
    if ending in ARROW or (ending is None and data.startswith(_FEATHER_MARK)):
        return _read_arrow(data, name, "Feather")
    if ending in _JSON_LINES or (ending is None and data.lstrip().startswith(_OBJECT_MARK)):
        return parse_json_lines(data, name)
    if ending in _EXCEL or (ending is None and data.startswith(_ZIP_MARK)):
        return parse_excel(data, name, _find_limit(data), messages)
    return parse_text(data, name, _TEXT.get(ending or ".csv"), messages, model_target=model_target)


def _unzip(data: bytes, name: str) -> bytes:
    try:
        with gzip.open(io.BytesIO(data)) as file:
            unzipped = file.read(_find_limit(data) + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise TableError(f"{name} is a damaged gzip file: {error}. Compress it again.", "table") from error
    if len(unzipped) > _find_limit(data):
        _refuse_expansion(name, data, "if you trust its source, unzip it first, or use fewer rows")
    return unzipped


def _find_limit(data: bytes) -> int:
    return max(LARGEST_EXPANSION, LARGEST_RATIO * len(data))


def _refuse_expansion(name: str, data: bytes, remedy: str) -> NoReturn:
    limit = f"{_find_limit(data) / 2**30:.1f} GiB"
    raise TableError(
        f"{name} has {len(data):,} bytes but would expand to more than {limit} in memory; {remedy}.", "table"
    )


def _read_arrow(data: bytes, name: str, kind: str) -> pd.DataFrame:
    if (problem := explain_missing(f"{kind} files need", ["pyarrow"], "cli")) is not None:
        raise TableError(problem, "table")
    with name_damage(name, f"a {kind} file"):  # in the data, or in the metadata that pandas adds
        arrow = (_read_parquet if kind == "Parquet" else _read_feather)(data, name)
        arrow.validate(full=True)
        check_names(arrow.column_names, name)
        return name_columns(arrow.to_pandas(), name)


def _read_parquet(data: bytes, name: str) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    file = parquet.ParquetFile(io.BytesIO(data))
    sizes = [file.metadata.row_group(k).total_byte_size for k in range(file.metadata.num_row_groups)]
    # A repeated value takes no space in the file, but eight bytes per row in memory.
    if max(sum(sizes), 8 * file.metadata.num_rows * file.metadata.num_columns) > _find_limit(data):
        _refuse_expansion(name, data, _TAKE_A_PART)
    batches, n_bytes = [], 0
    for batch in file.iter_batches(_BATCH_ROWS):  # repeated long text takes no space in the file either
        batches.append(batch)
        n_bytes += batch.nbytes
        if n_bytes > _find_limit(data):
            _refuse_expansion(name, data, _TAKE_A_PART)
    return pa.Table.from_batches(batches, file.schema_arrow)


def _read_feather(data: bytes, name: str) -> Any:
    import pyarrow as pa

    if data.startswith(_FIRST_FEATHER_MARK):  # its reader follows damaged offsets and crashes the process
        raise TableError(
            f"{name} is a Feather file of version 1, which is not supported; rewrite it as version 2 with "
            "pyarrow.feather.write_feather.",
            "table",
        )
    batches, n_bytes = [], 0
    with pa.ipc.open_file(io.BytesIO(data)) as file:
        for k in range(file.num_record_batches):
            batches.append(file.get_batch(k))
            n_bytes += batches[-1].nbytes
            if n_bytes > _find_limit(data):
                _refuse_expansion(name, data, _TAKE_A_PART)
        return pa.Table.from_batches(batches, file.schema)
