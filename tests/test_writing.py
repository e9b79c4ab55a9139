"""Files are written whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from truewood._writing import check_writable, write_figure, write_file

pytestmark = pytest.mark.any_engine

needs_posix = pytest.mark.skipif(os.name != "posix", reason="permissions and devices of POSIX")


def list_names(folder):
    return sorted(path.name for path in folder.iterdir())


def run_without_rights(program, *arguments):
    """Run a program as a user without rights to anything, as root may write everywhere."""
    drop = "import os\nif os.getuid() == 0: os.setgid(65534), os.setuid(65534)\n"
    imports = "import sys\nfrom truewood._writing import check_writable, write_file\n"
    command = [sys.executable, "-c", imports + drop + program, *map(str, arguments)]
    # Coverage could not write its file here either, and would report that.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    return subprocess.run(command, capture_output=True, text=True, env=variables)


def test_a_file_is_written_and_nothing_else_is_left(tmp_path):
    write_file(tmp_path / "a", b"first")
    write_file(str(tmp_path / "a"), b"second")
    assert (tmp_path / "a").read_bytes() == b"second"
    assert list_names(tmp_path) == ["a"]


@needs_posix
@pytest.mark.parametrize("mode", [0o600, 0o664, 0o755])
def test_permissions_of_the_old_file_stay(mode, tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "a").chmod(mode)
    write_file(tmp_path / "a", b"new")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == mode


@needs_posix
def test_a_new_file_has_the_permissions_that_open_gives(tmp_path):
    (tmp_path / "usual").write_bytes(b"")
    write_file(tmp_path / "a", b"new")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "usual").stat().st_mode


@needs_posix
def test_a_link_stays_one_and_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").write_bytes(b"old")
    (tmp_path / "link").symlink_to(Path("folder") / "a")
    write_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "a").read_bytes() == b"new"
    assert list_names(tmp_path) == ["folder", "link"]


FULL_DISK = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_file(sys.argv[1], bytes(100_000))
except OSError as error:
    print(error.errno, error.filename)
"""


@needs_posix
def test_without_disk_space_the_old_file_stays(tmp_path):
    """A limit on the size of files fails in the middle of writing, as a full disk does."""
    (tmp_path / "a").write_bytes(b"old")
    program = "import sys; from truewood._writing import write_file\n" + FULL_DISK
    ended = subprocess.run([sys.executable, "-c", program, tmp_path / "a"], capture_output=True, text=True)
    assert ended.stdout == f"{errno.EFBIG} {tmp_path / 'a'}\n"
    assert (tmp_path / "a").read_bytes() == b"old"
    assert list_names(tmp_path) == ["a"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_device_is_written_to_and_named():
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        write_file("/dev/full", b"new")
    assert Path("/dev/full").is_char_device()
    write_file(os.devnull, b"new")
    check_writable(os.devnull)


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    def stop(handle):
        raise KeyboardInterrupt

    (tmp_path / "a").write_bytes(b"old")
    monkeypatch.setattr("truewood._writing.os.fsync", stop)
    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert list_names(tmp_path) == ["a"]


@pytest.mark.parametrize("act", [check_writable, lambda path: write_file(path, b"new")], ids=["check", "write"])
@pytest.mark.parametrize("name", ["folder", "none/a", "folder/file/a"])
def test_places_that_cannot_be_written_are_named(act, name, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_bytes(b"")
    with pytest.raises(OSError) as caught:  # noqa: PT011
        act(tmp_path / name)
    assert caught.value.filename == str(tmp_path / name)


@needs_posix
@pytest.mark.parametrize("act", ["check_writable(sys.argv[1])", "write_file(sys.argv[1], b'new')"])
@pytest.mark.parametrize("protected", ["file", "folder"])
def test_what_is_protected_is_refused(act, protected):
    folder = Path(tempfile.mkdtemp())  # of pytest's own folders others see nothing
    try:
        (folder / "a").write_bytes(b"old")
        (folder / "a").chmod(0o444 if protected == "file" else 0o666)
        folder.chmod(0o777 if protected == "file" else 0o555)
        ended = run_without_rights(act, folder / "a")
        assert ended.stderr.endswith(f"PermissionError: [Errno 13] Permission denied: '{folder / 'a'}'\n")
        assert list_names(folder) == ["a"]
        assert (folder / "a").read_bytes() == b"old"
    finally:
        folder.chmod(0o777)
        (folder / "a").unlink()
        folder.rmdir()


def test_a_check_leaves_nothing(tmp_path):
    check_writable(tmp_path / "a")
    (tmp_path / "b").write_bytes(b"old")
    check_writable(tmp_path / "b")
    assert list_names(tmp_path) == ["b"]
    assert (tmp_path / "b").read_bytes() == b"old"


def test_pictures_are_what_their_names_say(tmp_path):
    for name, mark in {"a.png": b"\x89PNG", "a.PDF": b"%PDF", "a.svg": b"<?xml"}.items():
        write_figure(tmp_path / name, Figure(), dpi=50)
        assert (tmp_path / name).read_bytes().startswith(mark)
