"""Runs that were killed, for real, go on where they were and end with the same files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.any_engine,
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="signals of POSIX"),
]

STUDY = Path(__file__).parents[2] / "experiments" / "calibration" / "study.py"


def reproduce(folder):
    options = ["--peers", "none", "--n-estimators", "5", "--task", "regression", "--repetitions", "15", "--n-jobs", "2"]
    program = "import sys; from truewood._cli import main; sys.exit(main())"
    return [sys.executable, "-c", program, "reproduce", "table1", *options, "--output", folder]


def calibrate(folder):
    options = ["--designs", "20 trees", "--repetitions", "10", "--n-jobs", "2"]
    return [sys.executable, STUDY, "null", *options, "--folder", folder]


def kill_after(command, checkpoint, n_lines):
    """Run a command until its checkpoint has a number of lines, and kill it."""
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while not (checkpoint.exists() and checkpoint.read_bytes().count(b"\n") >= n_lines):
            assert process.poll() is None, "it came to its end"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
        process.wait()
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # the processes that computed for it


def read_entries(checkpoint):
    """Entries by their key; what they hold but the time that they took, and warnings that a process gives once."""
    entries = [json.loads(line) for line in checkpoint.read_text().splitlines()]
    for entry in entries:
        entry.pop("seconds", None)
        entry.pop("warnings", None)
    keyed = {entry.get("key") or (entry["design"], entry["number"]): entry for entry in entries}
    assert len(keyed) == len(entries), "nothing is done twice"
    return keyed


@pytest.mark.parametrize(("make_command", "name"), [(reproduce, "table1"), (calibrate, "null")])
def test_a_killed_run_ends_with_the_same_files(make_command, name, tmp_path):
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    subprocess.run(make_command(whole), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    checkpoint = resumed / f"{name}.jsonl"
    kill_after(make_command(resumed), checkpoint, 1)
    n_first = checkpoint.read_bytes().count(b"\n")
    with checkpoint.open("ab") as file:
        file.write(b'{"key": "cut')  # what a kill in the middle of a line leaves
    kill_after(make_command(resumed), checkpoint, n_first + 1)
    n_second = checkpoint.read_bytes().count(b"\n")
    assert n_first < n_second < (whole / checkpoint.name).read_bytes().count(b"\n")
    subprocess.run(make_command(resumed), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert read_entries(checkpoint) == read_entries(whole / checkpoint.name)
    names = sorted(path.name for path in whole.iterdir())
    assert sorted(path.name for path in resumed.iterdir()) == names
    assert f"{name}.csv" in names
    for other in names:
        if other != checkpoint.name:
            assert (resumed / other).read_bytes() == (whole / other).read_bytes(), other
