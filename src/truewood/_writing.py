"""Files that are written whole or not at all, and temporary folders: a run that is stopped leaves neither behind."""

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
    """Write a file under another name in the same folder, and rename it when everything is on the disk.

    A file of that name is replaced and its permissions are kept; of a link, the file that it leads to. What is no
    regular file, such as a device or a named pipe, is written to as it is.

    Parameters
    ----------
    path : str or path
        The file.
    content : bytes
        What it is to hold.

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
    """A new folder that is removed at the end of the block, or by `remove_unfinished`."""
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
    """Find out whether `write_file` could write a file, before what takes long; raises OSError as it does."""
    with _name_in_errors(path):
        target = _find_target(path)
        if not target.exists() or target.is_file():
            part = _name_part(target)
            part.open("xb").close()
            part.unlink()


def write_picture(path: str | PathLike[str], figure: Figure, **options: Any) -> None:
    """Write a figure in the form that the ending of the name says; options as of ``figure.savefig``."""
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
    """The file behind links; a read-only one is refused, which a folder with rights to write would let pass."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return target


def _name_part(target: Path) -> Path:
    """A new name beside the target; a run that was killed while it wrote leaves such a file."""
    return target.with_name(f".{target.name[:40]}-{secrets.token_hex(8)}.part")
