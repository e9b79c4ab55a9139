"""JSON files of results: written to the last bit, opened by format, and read field by field."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from truewood._arguments import check_path
from truewood._formatting import quote
from truewood._writing import write_file

FORMAT_VERSION = 1

_MAX_COUNT = 2**53


class InvalidFieldError(Exception):
    """A field of the file is missing or invalid."""


def save_json(result: Any, path: str | PathLike[str], name: str) -> None:
    """Save a result under the name of its format."""
    check_path(path, "path")
    content = {"format": name, "version": FORMAT_VERSION, **_to_json(result)}
    try:
        encoded = (json.dumps(content, allow_nan=False, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            "names must not contain lone surrogates, which cannot be written to a file, got "
            f"{error.object[error.start]!a}; rename that feature or group."
        ) from error
    write_file(path, encoded)


def open_json(path: str | PathLike[str]) -> tuple[str | None, dict[str, Any]]:
    """Open a file: the name of its format, None if it has none, and its fields."""
    check_path(path, "path")
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return None, {}
    if not isinstance(content, dict) or not isinstance(content.get("format"), str):
        return None, {}
    return content.pop("format"), content


def check_version(content: dict[str, Any], path: str | PathLike[str]) -> None:
    """Remove the version of the format from the fields, and refuse unknown ones."""
    version = content.pop("version", None)
    if version != FORMAT_VERSION or isinstance(version, bool):
        raise ValueError(
            f"{path} has format version {quote(version)}, but this version of truewood reads {FORMAT_VERSION}; save "
            "the result again, or update truewood."
        )


def _to_json(value: Any) -> Any:
    """Convert results to objects and arrays to lists; NaN becomes null, as JSON has no NaN."""
    if is_dataclass(value):
        return {part.name: _to_json(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, float) and np.isnan(value):
        return None
    if not isinstance(value, np.ndarray):
        return value
    listed = value.astype(object)
    if value.dtype.kind == "f":
        listed[np.isnan(value)] = None
    return listed.tolist()


def refuse(name: str, expected: str) -> NoReturn:
    """Raise the error of an invalid field."""
    raise InvalidFieldError(f"{name} must be {expected}")


def read_count(name: str, value: Any) -> int:
    """Read a positive whole number."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < _MAX_COUNT:
        refuse(name, "a positive whole number")
    return value


def read_names(name: str, value: Any) -> NDArray[np.str_]:
    """Read a list of names."""
    if not isinstance(value, list) or not value or not all(map(is_text, value)):
        refuse(name, "a list of names")
    return np.array(value, dtype=np.str_)


def read_notes(value: Any) -> tuple[str, ...]:
    """Read the notes of a result."""
    if not isinstance(value, list) or not all(map(is_text, value)):
        refuse("notes", "a list of sentences")
    return tuple(value)


def read_numbers(
    name: str, value: Any, shape: tuple[int | None, ...], dtype: Any = np.float64, *, has_nan: bool = False
) -> NDArray[Any]:
    """Read finite numbers of a given shape, with None for any length; null becomes NaN, if that is allowed."""
    sides = ["any number of" if side is None else str(side) for side in shape]
    expected = f"{' rows of '.join(sides)} numbers{', or null' * has_nan}"
    try:
        listed = np.array(value if isinstance(value, list) else None, dtype=object)
    except ValueError:  # ragged
        refuse(name, expected)
    if listed.ndim != len(shape) or any(s not in (None, n) for s, n in zip(shape, listed.shape, strict=True)):
        refuse(name, expected)
    kinds = {type(number) for number in listed.ravel().tolist()}
    if not kinds <= ({int} if dtype is np.int64 else {int, float, type(None)}):
        refuse(name, expected)
    try:
        numbers = listed.astype(dtype)
    except OverflowError:
        refuse(name, f"{expected} within the range of {np.dtype(dtype)}")
    if dtype is np.float64 and (np.isinf(numbers).any() or (np.isnan(numbers).any() and not has_nan)):
        refuse(name, f"{expected}, all finite")
    return numbers


def is_text(value: Any) -> bool:
    """Whether a value is text that can be written; JSON files may contain lone surrogates."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
