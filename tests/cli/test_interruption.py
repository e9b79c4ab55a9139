"""Ctrl-C, by a real signal to a real process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")

PROGRAM = "import sys; from truewood.cli import main; sys.exit(main())"
# A library that computes for long without a line of Python: one sleep of the system's, which holds no lock.
BUSY = """
import ctypes, sys
from truewood.cli import main
from truewood.tabular import table_importance
def fit_model(*given, **options):
    print("fitting", file=sys.stderr, flush=True)
    for _ in range(20):
        ctypes.CDLL(None).usleep(999_000)
        ctypes.CDLL(None).usleep(999_000)
table_importance.fit_model = fit_model
sys.exit(main())
"""
# A library that makes an error of its own of the interrupt.
HIDING = """
import sys, time
from truewood.cli import main
from truewood.tabular import table_importance
def fit_model(*given, **options):
    print("fitting", file=sys.stderr, flush=True)
    try:
        time.sleep(20)
    except KeyboardInterrupt:
        raise RuntimeError("reading failed")
table_importance.fit_model = fit_model
sys.exit(main())
"""
# A disk that takes its time.
WRITING = """
import os, sys, time
from truewood.cli import main
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
        (BUSY, "fitting", "5"),
        (HIDING, "fitting", "5"),
        (WRITING, "writing", "5"),
    ],
    ids=["fit", "library", "hidden", "writing"],
)
def test_an_interrupt_is_one_line_soon(program, sign, trees, table, tmp_path):
    (tmp_path / "out.json").write_text("old")
    before = sorted(tmp_path.iterdir())
    options = ["--target", "y", "--trees", trees, "--jobs", "2", "--output", str(tmp_path / "out.json")]
    process = subprocess.Popen(
        [sys.executable, "-c", program, "importance", str(table), *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
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


def test_a_command_leaves_signals_as_they_were(table, capsys):
    from truewood.cli import main

    before = signal.getsignal(signal.SIGINT)
    assert main(["importance", str(table), "--target", "y", "--trees", "5"]) == 0
    assert signal.getsignal(signal.SIGINT) is before
    assert signal.set_wakeup_fd(-1) == -1
