"""Universal Binary JSON, as XGBoost writes it: what JSON holds, with arrays of numbers as they lie in memory."""

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
_CONSTANTS = {ord("T"): True, ord("F"): False, ord("Z"): None}


def read_ubjson(content: bytes | bytearray) -> Any:
    """Read a document: dicts, lists, strings and numbers; arrays of one type of numbers become ndarrays."""
    value, _ = _read_value(memoryview(content), 0)
    return value


def _read_value(content: memoryview, at: int) -> tuple[Any, int]:
    """The value at a position, and where the next one begins."""
    marker, at = content[at], at + 1
    if marker in _NUMBERS:
        form = _NUMBERS[marker][1]
        return form.unpack_from(content, at)[0], at + form.size
    if marker == ord("S"):
        return _read_text(content, at)
    if marker == ord("{"):
        return _read_object(content, at)
    if marker == ord("["):
        return _read_array(content, at)
    if marker in _CONSTANTS:
        return _CONSTANTS[marker], at
    raise ValueError(f"binary JSON holds the unknown marker {chr(marker)!r}.")


def _read_text(content: memoryview, at: int) -> tuple[str, int]:
    size, at = _read_value(content, at)
    return str(content[at : at + size], encoding="utf-8"), at + size


def _read_object(content: memoryview, at: int) -> tuple[dict[str, Any], int]:
    found = {}
    while content[at] != ord("}"):
        key, at = _read_text(content, at)
        found[key], at = _read_value(content, at)
    return found, at + 1


def _read_array(content: memoryview, at: int) -> tuple[Any, int]:
    kind = None
    if content[at] == ord("$"):
        kind, at = _NUMBERS[content[at + 1]][0], at + 2
    if content[at] != ord("#"):
        found = []
        while content[at] != ord("]"):
            value, at = _read_value(content, at)
            found.append(value)
        return found, at + 1
    size, at = _read_value(content, at + 1)
    if kind is not None:
        end = at + size * kind.itemsize
        return np.frombuffer(content[at:end], dtype=kind).astype(kind.newbyteorder("=")), end
    values = []
    for _ in range(size):
        value, at = _read_value(content, at)
        values.append(value)
    return values, at
