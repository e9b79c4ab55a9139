"""The examples run as they are, and say what they are there to show."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

# What each must print, in this order.
EXPECTED = {
    "from_csv.py": [
        r"target cancelled: classification, 2 classes",
        r"left out: customer ",
        r"exit code: 0\n",
        r"significant: calls to support, fee, plan\n",
    ],
    "pipeline.py": [
        r"feature +share +p_value +rank +mdi_rank",
        r"\n +size +0\.5\d\d +0\.00+ +1 +1\n",
        r"\n +heating +0\.0\d\d +0\.00+ +3 +[45]\n",  # noise is above it in the usual ranking
        r"Columns that matter: size, district, heating\n",
        r"\ndistrict_centre +0\.1\d\d +0\.00+\n",
    ],
    "boosting_heldout.py": [
        r"\n +income +0\.\d+ +0\.00+ +1 +1\n",
        r"\n +member +0\.0\d+ +0\.00\d +2 +(9|10|11)\n",  # eight columns of noise have it pushed down
        r"keep: income, member, children\n",
        r"R2 with all columns: (0\.\d\d)\n",
        r"R2 with the 3 that are kept: 0\.2\d\n",
    ],
}


def run(path, folder):
    # The one warning that says that there is no kernel is the same for every test.
    command = [sys.executable, "-W", "error", "-W", "ignore:the compiled kernel is not installed", str(path)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_example(path, tmp_path):
    done = run(path, tmp_path)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    place = 0
    for pattern in EXPECTED[path.name]:
        found = re.compile(pattern).search(done.stdout, place)
        assert found, f"{pattern!r} is not in what follows:\n{done.stdout[place:]}"
        place = found.end() - 1  # the end of a line is also the start of the next


def test_all_expected_examples_are_there():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(EXPECTED)
