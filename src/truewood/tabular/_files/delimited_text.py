"""Parse text files: find the encoding and the delimiter, and refuse ragged rows."""

from __future__ import annotations

import csv
import io
import operator
import re
from collections.abc import Callable

import pandas as pd

from truewood._formatting import count
from truewood.tabular._columns.text_values import prefer_decimal_comma
from truewood.tabular._errors import TableError
from truewood.tabular._files.frames import check_names
from truewood.tabular._messages import Messages

_DELIMITERS = (",", ";", "\t", "|")
# The header is searched for within this many characters.
_FIRST_CHARACTERS = 1_000_000
# Largest limit that the csv module accepts on every platform.
_LARGEST_FIELD = 2**31 - 1
_BYTE_ORDER_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


def parse_text(
    data: bytes, name: str, delimiter: str | None, messages: Messages, *, model_target: str | None
) -> pd.DataFrame:
    """Parse the bytes of a text file; arguments as in `parse_file`, and the delimiter if it is known."""
    encoding = _find_encoding(data, name)
    if encoding == "cp1252":
        messages.add(
            f"{name} is not UTF-8 and was read as Windows-1252; if non-ASCII characters look wrong, save it as UTF-8"
        )
    text = data.decode(encoding)
    delimiter = delimiter or _find_delimiter(text)
    strips = model_target is None
    try:
        # The header is read as a row, so that pandas does not rename duplicate names.
        cells = pd.read_csv(
            io.StringIO(text), sep=delimiter, header=None, dtype=str, keep_default_na=False, skipinitialspace=strips
        )
    except pd.errors.EmptyDataError as error:
        raise TableError(f"{name} is empty.", "table") from error
    except pd.errors.ParserError as error:
        _refuse_rows(text, delimiter, name, strips=strips, differs=operator.gt)
        reason = str(error).removeprefix("Error tokenizing data. C error: ")
        raise TableError(f"{name} cannot be read as a table: {reason}; fix the file.", "table") from error
    names = [str(cell).strip() for cell in cells.iloc[0]]
    names = [column or f"unnamed {place}" for place, column in enumerate(names, start=1)]
    if len(names) < 2:
        raise TableError(
            f"{name} has a single column, {names[0][:40]!r}, but needs the target and at least one feature; separate "
            "fields with a comma, semicolon, tab or |.",
            "table",
        )
    if (cells.iloc[:, -1] == "").any():  # empty, or absent: pandas pads rows that are too short
        _refuse_rows(text, delimiter, name, strips=strips, differs=operator.lt)
    if model_target is not None:
        # As the model most likely saw it: pandas' own missing values, blanks, types and names.
        return pd.read_csv(
            io.StringIO(text), sep=delimiter, dtype={model_target: str}, index_col=False, low_memory=False
        )
    check_names(names, name)
    table = cells.iloc[1:].set_axis(names, axis=1).reset_index(drop=True)
    return table.apply(prefer_decimal_comma) if delimiter == ";" else table


def _refuse_rows(text: str, delimiter: str, name: str, *, strips: bool, differs: Callable[[int, int], bool]) -> None:
    """Refuse the first row with more, or fewer, fields than the header."""
    lines = csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=strips)
    filled = (fields for fields in lines if fields not in ([], [""]))
    usual_limit = csv.field_size_limit(min(len(text), _LARGEST_FIELD))
    try:
        n_names = len(next(filled, []))
        odd = next((fields for fields in filled if differs(len(fields), n_names)), None)
    except csv.Error as error:
        raise TableError(f"{name} cannot be read as a table: {error}; fix the file.", "table") from error
    finally:
        csv.field_size_limit(usual_limit)
    if odd is not None:
        raise TableError(
            f"{name} is ragged: line {lines.line_num} has {count(len(odd), 'field')}, but the header has "
            f"{n_names:,}; fix the file.",
            "table",
        )


def _find_encoding(data: bytes, name: str) -> str:
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if data.startswith(mark) and _is_decodable(data, encoding):
            return encoding
    if b"\0" in data:
        raise TableError(f"{name} is not a text file: it contains null bytes; save it as UTF-8.", "table")
    for encoding in ("utf-8", "cp1252"):
        if _is_decodable(data, encoding):
            return encoding
    raise TableError(f"{name} is not a text file: it is neither UTF-8 nor Windows-1252; save it as UTF-8.", "table")


def _is_decodable(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _find_delimiter(text: str) -> str:
    """Choose the delimiter that splits the header into the most fields, ignoring anything in quotes."""
    bare = re.sub(r'"[^"]*"', "", text[:_FIRST_CHARACTERS])
    return max(_DELIMITERS, key=bare.lstrip("\r\n").partition("\n")[0].count)
