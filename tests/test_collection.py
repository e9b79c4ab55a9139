"""Collecting the tests fits no model: it is quick, and a fault in a fit fails a test instead of a whole file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


@pytest.mark.any_engine
@pytest.mark.slow
def test_no_model_is_fit_while_tests_are_collected(tmp_path):
    """A file that does fit one is the only error."""
    (tmp_path / "test_fit.py").write_text(
        "from sklearn.tree import DecisionTreeClassifier\n"
        "TREE = DecisionTreeClassifier().fit([[0], [1]], [0, 1])\n"
        "def test_nothing(): pass\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, TESTS / "helpers" / "refuse_fits.py", TESTS, tmp_path]
    done = subprocess.run(command, cwd=TESTS.parent, env=environment, capture_output=True, text=True, check=False)
    errors = re.findall(r"^ERROR (.*)$", done.stdout, re.MULTILINE)
    assert len(errors) == 1, done.stdout + done.stderr
    assert "test_fit.py - RuntimeError: DecisionTreeClassifier is fit" in errors[0]
