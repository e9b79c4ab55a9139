"""Results as files: everything in plain JSON, read back to the last bit."""

from __future__ import annotations

import json
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from truewood.result.importance_result import ImportanceResult
from truewood.writing import write_file

FORMAT = "truewood.ImportanceResult"
FORMAT_VERSION = 1


def save(result: ImportanceResult, path: str | PathLike[str]) -> None:
    """Write a result; see `ImportanceResult.save`."""
    content = {"format": FORMAT, "version": FORMAT_VERSION, **_to_json(result)}
    write_file(path, (json.dumps(content, allow_nan=False) + "\n").encode())


def _to_json(value: Any) -> Any:
    """Turn results into objects and arrays into lists; JSON has no NaN, so that becomes null."""
    if isinstance(value, ImportanceResult):
        return {part.name: _to_json(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, float) and np.isnan(value):
        return None
    if not isinstance(value, np.ndarray):
        return value
    listed = value.astype(object)
    if value.dtype.kind == "f":
        listed[np.isnan(value)] = None
    return listed.tolist()


def load(path: str | PathLike[str]) -> ImportanceResult:
    """Read a result that `ImportanceResult.save` wrote.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    ImportanceResult
        The same result, to the last bit.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError:
        content = None
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise ValueError(f"{path} must be a file written by ImportanceResult.save.")
    version = content.pop("version", None)
    if version != FORMAT_VERSION:
        raise ValueError(f"{path} has format version {version}, this truewood reads {FORMAT_VERSION}.")
    return _from_json(content, path)


def _from_json(content: dict[str, Any], path: str | PathLike[str]) -> ImportanceResult:
    if content.keys() != {part.name for part in fields(ImportanceResult)}:
        raise ValueError(f"{path} is not complete.")
    for name in ("values", "share", "per_tree", "per_output", "mdi", "std_error", "test_error", "contributions"):
        if content[name] is not None:
            content[name] = np.array(content[name], dtype=np.float64)
    for name in ("impurity", "total_error"):
        content[name] = np.nan if content[name] is None else content[name]
    if content["columns"] is not None:
        content["columns"] = _from_json(content["columns"], path)
    content["notes"] = tuple(content["notes"])
    content["feature_names"] = np.array(content["feature_names"], dtype=np.str_)
    return ImportanceResult(**content)
