"""Checkpoint files with one JSON object per line, so that an interrupted run can resume."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Entry = dict[str, Any]


def read_first_entry(path: Path) -> Entry | None:
    """The first entry: None for a new or empty file, {} for a line that is not an entry."""
    lines = _read_lines(path)
    return _read_entry(lines[0]) if lines else None


def read_entries(path: Path, *, keys: Set[str], label: str, after: int = 0) -> list[Entry]:
    """Read the finished entries.

    Parameters
    ----------
    path : Path
        The file; a missing file has no entries. A truncated last line, as after an interruption, is ignored.
    keys : set of str
        Keys that every entry must have.
    label : str
        Name of the file in errors.
    after : int, default=0
        Number of lines to skip at the top.

    Returns
    -------
    list of dict
        The entries, in the order of the file.
    """
    entries = []
    for number, line in enumerate(_read_lines(path), start=1):
        if number <= after or not line.endswith("\n"):  # only the last line can have no end
            continue
        entry = _read_entry(line)
        if not keys <= entry.keys():
            raise ValueError(f"{label}, line {number}, is damaged; remove the line or the file.")
        entries.append(entry)
    return entries


@contextmanager
def append_to(path: Path | None) -> Iterator[Callable[..., None]]:
    """Give a function that appends entries and flushes them at once, or does nothing without a file.

    A truncated last line is removed first.
    """
    if path is None:
        yield lambda *_entries: None
        return
    _remove_cut_off_line(path)
    with path.open("a", encoding="utf-8") as file:

        def append(*entries: Entry) -> None:
            file.write("".join(json.dumps(entry) + "\n" for entry in entries))
            file.flush()

        yield append


def _remove_cut_off_line(path: Path) -> None:
    if path.exists():
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)


def _read_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []


def _read_entry(line: str) -> Entry:
    """The entry of a line; {} if it is truncated or not a JSON object."""
    try:
        entry = json.loads(line) if line.endswith("\n") else None
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}
