"""Atomic file writes and temporary folders, cleaned up when a run is interrupted."""

from __future__ import annotations

import errno
import io
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Files that are being written, and temporary folders.
_unfinished: set[Path] = set()


def write_file(path: str | PathLike[str], content: bytes) -> None:
    """Write a file atomically: under a temporary name in the same folder, then rename it.

    An existing file is replaced and keeps its permissions; for a link, the file it points to. Devices and named pipes
    are written to directly.

    Parameters
    ----------
    path : str or path
        The file.
    content : bytes
        Its content.

    Raises
    ------
    OSError
        If it cannot be written; its `filename` is the path.
    """
    with _name_in_errors(path):
        target = _find_target(path)
        if target.exists() and not target.is_file():
            target.write_bytes(content)
            return
        part = _name_part(target)
        _unfinished.add(part)
        try:
            with part.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if target.exists():
                part.chmod(stat.S_IMODE(target.stat().st_mode))
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
            _unfinished.discard(part)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Create a folder that is removed at the end of the block, or by `remove_unfinished`."""
    folder = Path(tempfile.mkdtemp(prefix="truewood-"))
    _unfinished.add(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
        _unfinished.discard(folder)


def remove_unfinished() -> None:
    """Remove unfinished files and temporary folders of all threads, for a process that is about to end."""
    for part in list(_unfinished):
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        else:
            part.unlink(missing_ok=True)


def check_writable(path: str | PathLike[str]) -> None:
    """Check before a long computation that `write_file` can write a file; raise OSError if not."""
    with _name_in_errors(path):
        target = _find_target(path)
        if not target.exists() or target.is_file():
            part = _name_part(target)
            part.open("xb").close()
            part.unlink()


def write_figure(path: str | PathLike[str], figure: Figure, **options: Any) -> None:
    """Write a figure in the format of the file name's suffix; options as in ``figure.savefig``."""
    content = io.BytesIO()
    figure.savefig(content, format=Path(path).suffix[1:].lower(), **options)
    write_file(path, content.getvalue())


@contextmanager
def _name_in_errors(path: str | PathLike[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), os.fspath(path)) from error


def _find_target(path: str | PathLike[str]) -> Path:
    """Resolve links, and refuse a read-only file, which a rename in a writable folder would replace."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return target


def _name_part(target: Path) -> Path:
    """A temporary name beside the target; a killed run may leave such a file."""
    return target.with_name(f".{target.name[:40]}-{secrets.token_hex(8)}.part")
