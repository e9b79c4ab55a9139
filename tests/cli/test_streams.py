"""Standard streams that are closed, full or without a reader, by real ones of a real process."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

pytestmark = [pytest.mark.any_engine, pytest.mark.skipif(os.name != "posix", reason="streams of POSIX")]

COMMANDS = {
    "importance": ["importance", "data.csv", "--target", "y", "--n-estimators", "5", "--output", "out.csv"],
    "demo": ["demo"],
    "help": ["--help"],
}


@pytest.fixture
def run(tmp_path):
    """Run the console script in a folder with a table, with its streams redirected as a shell does it."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    X.assign(y=X["a"] + rng.normal(size=len(X))).to_csv(tmp_path / "data.csv", index=False)
    # Buffered as people run it: what fails then is the last flush.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}

    def run(arguments, redirection):
        script = (
            f'"$@" {redirection}; exit $?' if "|" not in redirection else f'{{ "$@"; echo $? >code; }} {redirection}'
        )
        program = [sys.executable, "-m", "_truewood_command", *arguments]
        done = subprocess.run(
            ["sh", "-c", script, "sh", *program],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        code = int((tmp_path / "code").read_text()) if "|" in redirection else done.returncode
        return code, done.stdout, done.stderr

    return run


@pytest.mark.slow
@pytest.mark.parametrize("redirection", [">&-", "2>&-", "<&-", "2>/dev/full", "| true", "2>&1 | true"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_stream_that_nobody_reads_does_not_stop_the_work(command, redirection, run, tmp_path):
    if "/dev/full" in redirection and not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    code, printed, stderr = run(COMMANDS[command], redirection)
    assert code == 0
    assert "Traceback" not in stderr
    assert "Exception ignored" not in stderr
    if redirection in ("2>&-", "2>/dev/full"):
        assert printed
    if command == "importance":
        assert len(pd.read_csv(tmp_path / "out.csv")) == 3


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("command", COMMANDS)
def test_output_without_disk_space_is_one_line_and_code_2(command, run):
    code, _, stderr = run(COMMANDS[command], ">/dev/full")
    assert code == 2
    last = [line for line in stderr.splitlines() if "error" in line.lower()]
    assert len(last) == 1
    assert last[0].startswith("truewood: error: ")
    assert "No space left" in last[0]
    assert "Exception ignored" not in stderr


def test_an_error_keeps_its_code_where_nobody_reads(run):
    assert run(["describe", "absent.csv"], "2>&-")[0] == 2
    assert run(["describe", "absent.csv"], "2>&1 | true")[0] == 2


def test_closed_standard_input_is_an_empty_table(run):
    code, _, stderr = run(["describe", "-"], "<&-")
    assert code == 2
    assert re.fullmatch("truewood: error: standard input .*empty.*\n", stderr)


def test_the_app_reports_at_once_that_it_starts():
    """Imports take a while; in a terminal, the first line is there before them."""
    pytest.importorskip("nicegui")
    terminal, end = os.openpty()
    program = "import sys, _truewood_command; sys.modules['truewood'] = None; sys.exit(_truewood_command.main())"
    done = subprocess.run([sys.executable, "-c", program, "app"], stderr=end, timeout=60, check=False)
    os.close(end)
    with open(terminal, "rb") as stream:
        stderr = stream.read1().decode().splitlines()
    assert (done.returncode, len(stderr)) == (2, 2)
    assert "starting" in stderr[0]
    assert stderr[1].startswith("truewood: error: ")  # no import succeeds
