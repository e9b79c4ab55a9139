"""Reading files with tables: CSV, TSV, JSON lines, Parquet and Feather, also with gzip, and Excel."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd

from truewood.tabular._errors import TableError, UnknownFormatError, name_damage
from truewood.tabular._files.frames import check_names, name_columns
from truewood.tabular._files.records import parse_excel, parse_json_lines
from truewood.tabular._files.text import parse_text
from truewood.tabular._messages import Messages

_TEXT = {".csv": None, ".txt": None, ".tsv": "\t", ".tab": "\t"}
_PARQUET = (".parquet", ".pq")
_FEATHER = (".feather", ".arrow", ".ipc")
_JSON_LINES = (".jsonl", ".ndjson")
_EXCEL = (".xlsx", ".xlsm")
# Bytes that a compressed file may become in memory: so many, or so many times its own.
LARGEST_EXPANSION = 2 * 2**30
LARGEST_RATIO = 100
_BATCH_ROWS = 4096
_TAKE_A_PART = "take a part of its rows, or pass it as a data frame from Python: truewood.tabular.score_table"
_FIRST_FEATHER_MARK = b"FEA1"
_GZIP_MARK, _PARQUET_MARK, _FEATHER_MARK, _ZIP_MARK, _OBJECT_MARK = b"\x1f\x8b", b"PAR1", b"ARROW1", b"PK\x03\x04", b"{"


@dataclass(frozen=True)
class FileContent:
    """A file that is read already, such as standard input.

    Parameters
    ----------
    name : str
        What to call it.
    data : bytes
        What it holds.
    ending : str or None
        The format, such as ".csv", which may be followed by ".gz"; None for what the first bytes say.
    """

    name: str
    data: bytes
    ending: str | None = None


def read_file(source: str | os.PathLike[str]) -> FileContent:
    """Read a file whose name tells its format."""
    path = Path(source)
    if not path.exists():
        raise TableError(f"there is no file {source}.", "table")
    return FileContent(path.name, path.read_bytes(), _find_ending(path))


def _find_ending(path: Path) -> str:
    is_zipped = path.suffix.lower() == ".gz"
    ending = (path.with_suffix("") if is_zipped else path).suffix.lower()
    known = [*_TEXT, *_PARQUET, *_FEATHER, *_JSON_LINES, *_EXCEL]
    if ending not in known:
        raise UnknownFormatError(
            f"{path.name} must end in {', '.join(known)}, or one of these and .gz, to tell its format", "table"
        )
    return ending + ".gz" * is_zipped


def parse_file(content: FileContent, messages: Messages, *, model_target: str | None = None) -> pd.DataFrame:
    """Make a table of a file; columns of text formats stay text, for `columns` to find out what they are.

    Parameters
    ----------
    content : FileContent
        The file.
    messages : Messages
        Hears of letters that may be wrong.
    model_target : str or None
        The target, if a saved model is to get the table: it then is read as pandas reads it, with the target as text.
    """
    name, data = content.name, content.data
    if not data:
        raise TableError(f"{name} is empty.", "table")
    ending = None if content.ending is None else content.ending.removesuffix(".gz")
    if data.startswith(_GZIP_MARK):
        data = _unzip(data, name)
    elif ending != content.ending:
        raise TableError(f"{name} is not a gzip file, though its name says so.", "table")
    if ending in _PARQUET or (ending is None and data.startswith(_PARQUET_MARK)):
        return _read_arrow(data, name, "Parquet")
    if ending in _FEATHER or (ending is None and data.startswith(_FEATHER_MARK)):
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
        raise TableError(f"{name} is a broken gzip file: {error}.", "table") from error
    if len(unzipped) > _find_limit(data):
        _refuse_expansion(name, data, "unzip it yourself if you know where it comes from, or take a part of its rows")
    return unzipped


def _find_limit(data: bytes) -> int:
    return max(LARGEST_EXPANSION, LARGEST_RATIO * len(data))


def _refuse_expansion(name: str, data: bytes, remedy: str) -> NoReturn:
    limit = f"{_find_limit(data) / 2**30:.1f} GiB"
    raise TableError(f"{name} is {len(data):,} bytes that would take more than {limit} of memory; {remedy}.", "table")


def _read_arrow(data: bytes, name: str, kind: str) -> pd.DataFrame:
    if find_spec("pyarrow") is None:
        raise TableError(f"{kind} files need pyarrow, which is not installed: pip install 'truewood[cli]'.", "table")
    with name_damage(name, f"a {kind} file"):  # of its own bytes, or of what pandas adds to such files
        arrow = (_read_parquet if kind == "Parquet" else _read_feather)(data, name)
        arrow.validate(full=True)
        check_names(arrow.column_names, name)
        return name_columns(arrow.to_pandas(), name)


def _read_parquet(data: bytes, name: str) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    file = parquet.ParquetFile(io.BytesIO(data))
    sizes = [file.metadata.row_group(k).total_byte_size for k in range(file.metadata.num_row_groups)]
    # A value that repeats takes no room in the file, but eight bytes a row in the table.
    if max(sum(sizes), 8 * file.metadata.num_rows * file.metadata.num_columns) > _find_limit(data):
        _refuse_expansion(name, data, _TAKE_A_PART)
    batches, n_bytes = [], 0
    for batch in file.iter_batches(_BATCH_ROWS):  # long text that repeats takes no room in the file either
        batches.append(batch)
        n_bytes += batch.nbytes
        if n_bytes > _find_limit(data):
            _refuse_expansion(name, data, _TAKE_A_PART)
    return pa.Table.from_batches(batches, file.schema_arrow)


def _read_feather(data: bytes, name: str) -> Any:
    import pyarrow as pa

    if data.startswith(_FIRST_FEATHER_MARK):  # whose reader follows damaged addresses, and ends the process
        raise TableError(
            f"{name} is a Feather file of version 1, which is not read; write it again as version 2, with "
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
