"""Parse JSON lines and Excel sheets."""

from __future__ import annotations

import io
import json
import warnings
import zipfile

import pandas as pd

from truewood._extras import explain_missing
from truewood.tabular._errors import TableError, name_damage
from truewood.tabular._files.frames import check_names
from truewood.tabular._messages import Messages


def parse_json_lines(data: bytes, name: str) -> pd.DataFrame:
    """Parse one JSON object per line; keys that an object lacks are missing values."""
    records = []
    for place, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            # The position in the error counts from the start of this line.
            reason = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else error
            raise TableError(
                f"{name} is not a JSON lines file: line {place} cannot be parsed ({reason}); fix the file.", "table"
            ) from error
        if not isinstance(record, dict):
            raise TableError(
                f"{name} is not a JSON lines file: line {place} must be an object, got {type(record).__name__}; fix "
                "the file.",
                "table",
            )
        records.append(record)
    return pd.DataFrame.from_records(records).astype(object)


def parse_excel(data: bytes, name: str, limit: int, messages: Messages) -> pd.DataFrame:
    """Parse the first sheet; its first row holds the column names.

    Parameters
    ----------
    data, name : bytes, str
        The file.
    limit : int
        Largest size in memory, in bytes.
    messages : Messages
        Receives a note about other sheets.
    """
    if (problem := explain_missing(f"{name} needs", ["openpyxl"], "excel")) is not None:
        raise TableError(problem, "table")
    import openpyxl

    with name_damage(name, "an Excel file"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and the like, which are not read
        _check_size(data, name, limit)
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        cells = [list(row) for row in book.worksheets[0].iter_rows(values_only=True)]
    if len(book.sheetnames) > 1:
        messages.add(f"{name} has {len(book.sheetnames)} sheets; reading the first one, {book.sheetnames[0]}")
    if not cells:
        raise TableError(f"{name} is empty.", "table")
    width = max(map(len, cells))
    rows = [row + [None] * (width - len(row)) for row in cells]
    names = [f"unnamed {k}" if cell in (None, "") else str(cell).strip() for k, cell in enumerate(rows[0], start=1)]
    check_names(names, name)
    return pd.DataFrame(rows[1:], columns=names, dtype=object)


def _check_size(data: bytes, name: str, limit: int) -> None:
    """Refuse a file that expands to far more than its size."""
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        n_bytes = sum(part.file_size for part in packed.infolist())
    if n_bytes > limit:
        raise TableError(
            f"{name} has {len(data):,} bytes but would expand to more than {limit / 2**30:.1f} GiB in memory; save it "
            "as CSV.",
            "table",
        )
