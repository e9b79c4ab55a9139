"""Collecting the tests fits no model: it is quick, and a fault in a fit fails a test instead of all of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent
STILL_FITTING = TESTS / "cli" / "test_cli_bad_input.py"


def collect(*arguments):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, str(TESTS / "refuse_fits.py"), *map(str, arguments)]
    return subprocess.run(command, cwd=TESTS.parent, env=environment, capture_output=True, text=True, check=False)


def test_no_model_is_fit_while_tests_are_collected():
    done = collect(TESTS, "--ignore", STILL_FITTING)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_fit_while_tests_are_collected_is_an_error(tmp_path):
    (tmp_path / "test_fit.py").write_text(
        "from sklearn.tree import DecisionTreeClassifier\n"
        "TREE = DecisionTreeClassifier().fit([[0], [1]], [0, 1])\n"
        "def test_nothing(): pass\n"
    )
    done = collect(tmp_path)
    assert done.returncode != 0
    assert "DecisionTreeClassifier is fit while tests are collected; fit it in a fixture" in done.stdout
