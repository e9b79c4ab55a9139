"""Reading tables for the command line: CSV, TSV, Parquet, Feather, gzip, and standard input."""

from __future__ import annotations

import csv
import gzip
import io
import re
import sys
import zlib
from collections.abc import Callable
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from truewood.tabular.text_values import prefer_decimal_comma
from truewood.words import count

Say = Callable[[str], None]

STANDARD_INPUT = "-"
_TEXT = {".csv": None, ".txt": None, ".tsv": "\t", ".tab": "\t"}
_PARQUET = (".parquet", ".pq")
_FEATHER = (".feather", ".arrow", ".ipc")
_DELIMITERS = (",", ";", "\t", "|")
_GZIP_MARK, _PARQUET_MARK, _FEATHER_MARK = b"\x1f\x8b", b"PAR1", b"ARROW1"
# The names are within so many.
_FIRST_CHARACTERS = 1_000_000
_BYTE_ORDER_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


def read_table(source: str, say: Say, *, model_target: str | None = None) -> pd.DataFrame:
    """Read a table; columns of text formats stay text, for `columns` to find out what they are.

    Parameters
    ----------
    source : str
        A path, or "-" for standard input.
    say : callable
        Takes a message for the user.
    model_target : str or None
        The target, if a saved model is to get the table: it then is read as pandas reads it, with the target as text.
    """
    name, data = ("standard input", sys.stdin.buffer.read()) if source == STANDARD_INPUT else _read_file(source)
    if not data:
        raise ValueError(f"{name} is empty.")
    ending = _find_ending(source)
    if data.startswith(_GZIP_MARK):
        data = _unzip(data, name)
    elif Path(source).suffix.lower() == ".gz":
        raise ValueError(f"{name} is not a gzip file, though its name says so.")
    if ending in _PARQUET or (ending is None and data.startswith(_PARQUET_MARK)):
        table = _read_arrow(data, name, "Parquet")
    elif ending in _FEATHER or (ending is None and data.startswith(_FEATHER_MARK)):
        table = _read_arrow(data, name, "Feather")
    else:
        table = _read_text(data, name, _TEXT.get(ending or ".csv"), say, model_target)
    if table.empty:
        raise ValueError(f"{name} has column names but no rows.")
    say(f"read {name}: {count(len(table), 'row')}, {count(table.shape[1], 'column')}")
    return table


def _read_file(source: str) -> tuple[str, bytes]:
    path = Path(source)
    if path.is_dir():
        raise ValueError(f"{source} is a folder; pass a file.")
    if not path.exists():
        raise ValueError(f"there is no file {source}.")
    return path.name, path.read_bytes()


def _find_ending(source: str) -> str | None:
    """What the name says of the format; None for standard input, whose content says it."""
    if source == STANDARD_INPUT:
        return None
    path = Path(source)
    ending = (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()
    known = [*_TEXT, *_PARQUET, *_FEATHER]
    if ending not in known:
        raise ValueError(
            f"{path.name} must end in {', '.join(known)}, or one of these and .gz, to tell its format; a file of "
            f"another name can be passed as standard input: truewood importance - < {path.name}"
        )
    return ending


def _unzip(data: bytes, name: str) -> bytes:
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{name} is a broken gzip file: {error}.") from error


def _read_arrow(data: bytes, name: str, kind: str) -> pd.DataFrame:
    if find_spec("pyarrow") is None:
        raise ValueError(f"{kind} files need pyarrow, which is not installed: pip install 'truewood[cli]'.")
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow import feather, parquet

    read: Any = parquet.read_table if kind == "Parquet" else feather.read_table
    try:
        arrow = read(io.BytesIO(data))
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{name} cannot be read as a {kind} file: {reason}") from error
    _check_names(arrow.column_names, name)
    table: pd.DataFrame = arrow.to_pandas()
    named = [level for level, label in enumerate(table.index.names) if label is not None]
    table = table.reset_index(level=named) if named else table  # an index with a name is a column to its owner
    return table.set_axis([str(column) for column in table], axis=1).reset_index(drop=True)


def _read_text(data: bytes, name: str, delimiter: str | None, say: Say, model_target: str | None) -> pd.DataFrame:
    encoding = _find_encoding(data, name)
    if encoding == "cp1252":
        say(f"{name} is not UTF-8 and was read as Windows-1252; letters beyond ASCII may be wrong")
    text = data.decode(encoding)
    delimiter = delimiter or _find_delimiter(text)
    strips = model_target is None
    try:
        # Names are read as a row, so that pandas does not rename those that occur twice.
        cells = pd.read_csv(
            io.StringIO(text), sep=delimiter, header=None, dtype=str, keep_default_na=False, skipinitialspace=strips
        )
    except pd.errors.EmptyDataError as error:
        raise ValueError(f"{name} holds no table.") from error
    except pd.errors.ParserError as error:
        raise ValueError(_explain(error, name)) from error
    names = [str(cell).strip() for cell in cells.iloc[0]]
    names = [column or f"unnamed {place}" for place, column in enumerate(names, start=1)]
    if len(names) < 2:
        raise ValueError(
            f"{name} has a single column, {names[0][:40]!r}, but needs the target and at least one other; fields are "
            "separated by comma, semicolon, tab or |."
        )
    if (cells.iloc[:, -1] == "").any():  # empty, or not there at all
        _check_lengths(text, delimiter, len(names), name, strips=strips)
    if model_target is not None:
        # What the model saw when it was fit: pandas' missing values, blanks, types and names.
        return pd.read_csv(
            io.StringIO(text), sep=delimiter, dtype={model_target: str}, index_col=False, low_memory=False
        )
    _check_names(names, name)
    table = cells.iloc[1:].set_axis(names, axis=1).reset_index(drop=True)
    return table.apply(prefer_decimal_comma) if delimiter == ";" else table


def _check_lengths(text: str, delimiter: str, n_names: int, name: str, *, strips: bool) -> None:
    """Refuse rows that are too short, which pandas fills up."""
    lines = csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=strips)
    try:
        short = next((fields for fields in lines if len(fields) < n_names and fields not in ([], [""])), None)
    except csv.Error as error:
        raise ValueError(f"{name} cannot be read as a table: {error}.") from error
    if short is not None:
        raise ValueError(
            f"{name} is ragged: line {lines.line_num} has {len(short)} fields, the first line has {n_names}."
        )


def _find_encoding(data: bytes, name: str) -> str:
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if data.startswith(mark) and _is_decodable(data, encoding):
            return encoding
    if b"\0" in data:
        raise ValueError(f"{name} is not a text file: it holds zero bytes; save it as UTF-8.")
    for encoding in ("utf-8", "cp1252"):
        if _is_decodable(data, encoding):
            return encoding
    raise ValueError(f"{name} is not a text file: it is neither UTF-8 nor Windows-1252.")


def _is_decodable(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _find_delimiter(text: str) -> str:
    """The candidate that separates the names into most fields; what is in quotes, line breaks too, does not count."""
    bare = re.sub(r'"[^"]*"', "", text[:_FIRST_CHARACTERS])
    return max(_DELIMITERS, key=bare.lstrip("\r\n").partition("\n")[0].count)


def _explain(error: Exception, name: str) -> str:
    found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
    if found:
        expected, line, came = found.groups()
        return f"{name} is ragged: line {line} has {came} fields, the first line has {expected}."
    return f"{name} cannot be read as a table: {str(error).removeprefix('Error tokenizing data. C error: ')}."


def _check_names(names: list[str], source: str) -> None:
    twice = sorted({column for column in names if names.count(column) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise ValueError(f"{source} has several columns named {', '.join(map(repr, twice[:3]))}; rename them.")


def find_name(name: str, names: list[str], option: str) -> str:
    """The name itself, if the table has it, or an error that suggests others."""
    if name in names:
        return name
    close = get_close_matches(name, names, n=3, cutoff=0.6)
    folded = [known for known in names if known.lower() == name.lower()]
    if close or folded:
        hint = "did you mean " + " or ".join(map(repr, dict.fromkeys([*folded, *close]))) + "?"
    else:
        more = ", ..." if len(names) > 10 else ""
        hint = f"it has {', '.join(map(repr, names[:10]))}{more}"
    raise ValueError(f"{option}: the table has no column {name!r}; {hint}")
