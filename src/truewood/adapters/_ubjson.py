"""Universal Binary JSON, as XGBoost writes it: the content of JSON, with arrays of numbers in binary form."""

from __future__ import annotations

from struct import Struct
from typing import Any

import numpy as np

# Numbers by their marker, most significant byte first.
_NUMBERS = {
    marker: (np.dtype(code), Struct(f">{form}"))
    for marker, code, form in (
        (ord("i"), ">i1", "b"),
        (ord("U"), ">u1", "B"),
        (ord("I"), ">i2", "h"),
        (ord("l"), ">i4", "i"),
        (ord("L"), ">i8", "q"),
        (ord("d"), ">f4", "f"),
        (ord("D"), ">f8", "d"),
    )
}
_LONG, _read_long = ord("L"), Struct(">q").unpack_from
_OBJECT, _END_OF_OBJECT, _ARRAY, _END_OF_ARRAY, _TEXT, _OF_TYPE, _OF_SIZE = b"{}[]S$#"
_CONSTANTS = {ord("T"): True, ord("F"): False, ord("Z"): None}


def read_ubjson(content: bytes | bytearray) -> Any:
    """Read a document: dicts, lists, strings and numbers.

    Arrays of one type of numbers become ndarrays that view the bytes in place, most significant byte first.
    """
    value, _ = _read_value(bytes(content), 0)
    return value


def _read_value(content: bytes, at: int) -> tuple[Any, int]:
    """The value at a position, and where the next one begins."""
    marker, at = content[at], at + 1
    if marker == _ARRAY:
        return _read_array(content, at)
    if marker == _TEXT:
        return _read_text(content, at)
    if marker == _OBJECT:
        return _read_object(content, at)
    if marker in _NUMBERS:
        form = _NUMBERS[marker][1]
        return form.unpack_from(content, at)[0], at + form.size
    if marker in _CONSTANTS:
        return _CONSTANTS[marker], at
    raise ValueError(f"binary JSON holds the unknown marker {chr(marker)!r}.")


def _read_size(content: bytes, at: int) -> tuple[int, int]:
    if content[at] == _LONG:  # as XGBoost writes all sizes
        return _read_long(content, at + 1)[0], at + 9
    form = _NUMBERS[content[at]][1]
    return form.unpack_from(content, at + 1)[0], at + 1 + form.size


def _read_text(content: bytes, at: int) -> tuple[str, int]:
    size, at = _read_size(content, at)
    return content[at : at + size].decode(), at + size


def _read_object(content: bytes, at: int) -> tuple[dict[str, Any], int]:
    found = {}
    while content[at] != _END_OF_OBJECT:
        size, at = _read_size(content, at)
        key, at = content[at : at + size].decode(), at + size
        found[key], at = _read_array(content, at + 1) if content[at] == _ARRAY else _read_value(content, at)
    return found, at + 1


def _read_array(content: bytes, at: int) -> tuple[Any, int]:
    if content[at] == _OF_TYPE:
        kind = _NUMBERS[content[at + 1]][0]
        size, at = _read_size(content, at + 3)
        return np.frombuffer(content, kind, size, at), at + size * kind.itemsize
    values = []
    if content[at] == _OF_SIZE:
        size, at = _read_size(content, at + 1)
        for _ in range(size):
            value, at = _read_value(content, at)
            values.append(value)
        return values, at
    while content[at] != _END_OF_ARRAY:
        value, at = _read_value(content, at)
        values.append(value)
    return values, at + 1
