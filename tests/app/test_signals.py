"""Signals: the command ends in an orderly way at any moment of its start, and when its terminal is closed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.any_engine, pytest.mark.slow]

# The command line, which gets a signal when something happens for the first time.
PROGRAM = """
import os, sys
number, event, name, *arguments = sys.argv[1:]
moments = [(event, name)]
def watch(event, arguments):
    if moments and event == moments[0][0] and str(arguments[0] if arguments else "").startswith(moments[0][1]):
        moments.clear()
        os.kill(os.getpid(), int(number))
from truewood._cli import main
sys.addaudithook(watch)
sys.exit(main(["app", *arguments]))
"""
MOMENTS = [
    (signal.SIGTERM, "socket.bind", ""),
    (signal.SIGTERM, "tempfile.mkdtemp", ""),
    (signal.SIGTERM, "import", "uvicorn"),
    (signal.SIGINT, "import", "nicegui"),
    (signal.SIGHUP, "import", "truewood._app.page"),
    (signal.SIGTERM, "webbrowser.open", "file:///"),
    (signal.SIGINT, "import", "uvicorn.protocols.http"),  # by the server, when it runs
    (signal.SIGTERM, "import", "uvicorn.protocols.http"),
]


@pytest.mark.parametrize(("number", "event", "name"), MOMENTS)
def test_a_signal_at_a_moment_of_the_start(tmp_path, number, event, name):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(int(number)), event, name],
        env={**os.environ, "TMPDIR": str(tmp_path), "BROWSER": "true"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    is_interrupted = number == signal.SIGINT
    assert (done.returncode, done.stderr) == (128 + number, "truewood: stopped\n" * is_interrupted)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_when_the_address_is_shown(own_app, number):
    assert own_app.end(number) == (128 + number, "truewood: stopped\n" * (number == signal.SIGINT))
