"""Ctrl-C, by a real signal to a real process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytestmark = [pytest.mark.any_engine, pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")]

PROGRAM = "import sys; from truewood._cli import main; sys.exit(main())"
# A library that computes for long without a line of Python: one sleep of the system's, which holds no lock.
BUSY = """
import ctypes, sys
from truewood._cli import main
from truewood.tabular import _score_table
def fit_model(*given, **options):
    print("fitting", file=sys.stderr, flush=True)
    for _ in range(20):
        ctypes.CDLL(None).usleep(999_000)
        ctypes.CDLL(None).usleep(999_000)
_score_table.fit_model = fit_model
sys.exit(main())
"""
# A library that makes an error of its own of the interrupt.
HIDING = """
import sys, time
from truewood._cli import main
from truewood.tabular import _score_table
def fit_model(*given, **options):
    print("fitting", file=sys.stderr, flush=True)
    try:
        time.sleep(20)
    except KeyboardInterrupt:
        raise RuntimeError("reading failed")
_score_table.fit_model = fit_model
sys.exit(main())
"""
# A library that has a temporary folder and does not come back.
FOLDER = """
import ctypes, sys
from truewood._cli import main
from truewood.tabular import _score_table
from truewood._writing import temporary_folder
def fit_model(*given, **options):
    with temporary_folder() as folder:
        (folder / "part").write_text("")
        print("fitting", file=sys.stderr, flush=True)
        for _ in range(20):
            ctypes.CDLL(None).usleep(999_000)
            ctypes.CDLL(None).usleep(999_000)
_score_table.fit_model = fit_model
sys.exit(main())
"""
# A disk that takes its time.
WRITING = """
import os, sys, time
from truewood._cli import main
def fsync(handle):
    print("writing", file=sys.stderr, flush=True)
    time.sleep(20)
os.fsync = fsync
sys.exit(main())
"""


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(3000, 8)), columns=list("abcdefgh"))
    X.assign(y=X["a"] + rng.normal(size=len(X))).to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


@pytest.mark.parametrize(
    ("program", "sign", "trees"),
    [
        (PROGRAM, "the fit to these", "20000"),
        pytest.param(BUSY, "fitting", "5", marks=pytest.mark.slow),
        pytest.param(HIDING, "fitting", "5", marks=pytest.mark.slow),
        pytest.param(FOLDER, "fitting", "5", marks=pytest.mark.slow),
        pytest.param(WRITING, "writing", "5", marks=pytest.mark.slow),
    ],
    ids=["fit", "library", "hidden", "folder", "writing"],
)
def test_an_interrupt_is_one_line_soon(program, sign, trees, table, tmp_path):
    (tmp_path / "out.json").write_text("old")
    before = sorted(tmp_path.iterdir())
    options = ["--target", "y", "--n-estimators", trees, "--n-jobs", "2", "--output", str(tmp_path / "out.json")]
    process = subprocess.Popen(
        [sys.executable, "-c", program, "importance", str(table), *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    try:
        for line in process.stderr:
            if line.startswith(sign):
                break
        time.sleep(0.3)
        assert process.poll() is None
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(timeout=20) == 130
        seconds = time.monotonic() - start
    finally:
        process.kill()
        process.stderr.close()
    assert rest == "truewood: stopped\n"
    assert seconds < 3  # a second, on a machine that has nothing else to do
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "out.json").read_text() == "old"


def start_with(module, tmp_path):
    """Start the console script with a numpy of our own, which is the first module that takes long to load."""
    (tmp_path / "numpy.py").write_text(module)
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        [sys.executable, "-m", "_truewood_command", "--version"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("is_hidden", [False, True])
def test_an_interrupt_while_modules_are_loaded_is_one_line(is_hidden, tmp_path):
    wait = "import time\nprint('loading', flush=True)\n"
    wait += (
        "try: time.sleep(60)\nexcept KeyboardInterrupt: raise ImportError('no numpy')"
        if is_hidden
        else "time.sleep(60)"
    )
    with start_with(wait, tmp_path) as process:
        try:
            assert process.stdout.readline() == "loading\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=20) == 130
            assert process.stderr.read() == "truewood: stopped\n"
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("raise MemoryError", "MemoryError"),
        ("raise ImportError('libx.so: failed to map segment from shared object')", "libx.so: failed to map segment"),
        ("raise RuntimeError('a\\nb')", "RuntimeError: a b"),
    ],
)
def test_modules_that_cannot_be_loaded_are_one_line(module, reason, tmp_path):
    with start_with(module, tmp_path) as process:
        printed, stderr = process.communicate(timeout=20)
    assert process.returncode == 2
    assert printed == ""
    assert stderr.startswith("truewood: error: ")
    assert stderr.count("\n") == 1
    assert reason in stderr
    assert "ulimit -v" in stderr


def test_jobs_in_the_background_are_not_interrupted(tmp_path):
    wait = "import signal, os\nos.kill(os.getpid(), signal.SIGINT)\nraise MemoryError"
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell starts them
    try:
        process = start_with(wait, tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        stderr = process.communicate(timeout=20)[1]
    assert process.returncode == 2
    assert "stopped" not in stderr


def test_the_console_script_is_the_module_that_handles_this():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert project["project"]["scripts"] == {"truewood": "_truewood_command:main"}
    assert project["tool"]["setuptools"]["py-modules"] == ["_truewood_command"]


@pytest.mark.parametrize("reason", ["can't start new thread", "std::bad_alloc"])
def test_too_little_memory_in_a_library_is_one_line(reason, table, capsys, monkeypatch):
    from truewood._cli import main

    def fit_model(*given, **options):
        raise RuntimeError(reason)

    monkeypatch.setattr("truewood.tabular._score_table.fit_model", fit_model)
    assert main(["importance", str(table), "--target", "y", "--n-estimators", "5"]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert re.match("truewood: error: .*memory", last)
    assert reason in last


def test_a_command_leaves_signals_as_they_were(table, capsys):
    from truewood._cli import main

    before = signal.getsignal(signal.SIGINT)
    assert main(["importance", str(table), "--target", "y", "--n-estimators", "5"]) == 0
    assert signal.getsignal(signal.SIGINT) is before
    assert signal.set_wakeup_fd(-1) == -1
