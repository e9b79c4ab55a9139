"""The examples run unmodified, and show what they claim."""

from __future__ import annotations

import re
import runpy
from contextlib import nullcontext
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

pytestmark = pytest.mark.any_engine

EXAMPLES = Path(__file__).parent.parent / "examples"

# What each must print, in this order.
EXPECTED = {
    "bias.py": [
        r"informative feature, biased: [4-7]\n",
        r"informative feature, truewood: 1\n",
        r"found: informative, 2 levels\n",
    ],
    "boosting_folds.py": [r"\n +s5 +1\d{3}\.\d+ +\d+\.\d+ +0\.0 +1\n +bmi +1\d{3}\.\d+ .* +0\.0 +2\n"],
    "boosting_heldout.py": [
        r"\n +income +0\.\d+ +0\.00+ +1 +1\n",
        r"\n +member +0\.0\d+ +0\.00\d +2 +(9|10|11)\n",  # eight columns of noise have it pushed down
        r"keep: income, member, children\n",
        r"R2 with all columns: (0\.\d\d)\n",
        r"R2 with the 3 selected columns: 0\.2\d\n",
    ],
    "classes.py": [
        r"class 0: strongest feature proline\n",
        r"class 1: strongest feature color_intensity\n",
        r"class 2: strongest feature \w+\n",
    ],
    "clustered_rows.py": [r"age +0\.0 +0\.[1-9]\d*\n", r"dose +0\.0+ +0\.0+\n"],
    "comparing.py": [r"\n +price +0\.\d+ +0\.\d+ +0\.000\n", r"noise +-?0\.\d+ +0\.\d+ +[01]\.[1-9]"],
    "correlated.py": [r"30 columns, 1\d groups\n", r"significant groups: \d"],
    "directions.py": [r"442 "],
    "first_result.py": [r"\n +bmi +2\d\.\d .*\n +s5 "],
    "from_csv.py": [
        r"target canceled: classification, 2 classes",
        r"left out: customer ",
        r"exit code: 0\n",
        r"significant: calls to support, fee, plan\n",
    ],
    "interactions.py": [r"\n0 +discount +member +0\.0\d+ +0\.000\n1 .* 0\.[1-9]\d*\n"],
    "needed.py": [r"signal +0\.000 +0\.0", r"its copy +0\.000 +0\.[1-9]", r"noise +0\.\d+ +0\.\d+"],
    "pipeline.py": [
        r"feature +share +p_value +rank +mdi_rank",
        r"\n +size +0\.5\d\d +0\.00+ +1 +1\n",
        r"\n +heating +0\.0\d\d +0\.00+ +3 +[45]\n",  # noise is above it in the usual ranking
        r"Columns that matter: size, district, heating\n",
        r"\ndistrict_center +0\.1\d\d +0\.00+\n",
    ],
    "selection.py": [
        r"kept in every fold: \[0 1 2\]\n",
        r"R2 with all columns: 0\.[0-3]\d\n",
        r"R2 with the selected columns: 0\.[4-6]\d\n",
    ],
}

# Examples of data that has to be warned about.
WARNS = {"clustered_rows.py": "contributions of neighboring rows"}


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive:UserWarning")
@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_example(name, tmp_path, monkeypatch, capsys, one_thread):
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("agg")
    warned = pytest.warns(UserWarning, match=WARNS[name]) if name in WARNS else nullcontext()
    try:
        with warned:
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        assert len(plt.get_fignums()) == 1
    finally:
        plt.close("all")
    printed, place = capsys.readouterr().out, 0
    for pattern in EXPECTED[name]:
        found = re.compile(pattern).search(printed, place)
        assert found, f"{pattern!r} is not in what follows:\n{printed[place:]}"
        place = found.end() - 1  # the end of a line is also the start of the next


def test_all_expected_examples_are_there():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(EXPECTED)
