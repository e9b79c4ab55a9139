"""What the documents say is what was measured."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from helpers.docs_pages import DOCS, ROOT

pytestmark = pytest.mark.any_engine

TABLE1 = ROOT / "experiments" / "paper" / "table1.csv"


def test_table1_in_the_document_is_the_committed_table():
    text = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    cells = {}
    for heading, body in re.findall(r"^\| method \|(.*)\|\n\|[-|]+\n((?:\|.*\|\n)+)", text, re.MULTILINE):
        columns = [re.fullmatch(r"\s*(\w+), depth (\d+)\s*", name).groups() for name in heading.split("|")]
        for line in body.splitlines():
            method, *values = (cell.strip() for cell in line.strip("|").split("|"))
            cells |= {(method, task, int(depth)): value for (task, depth), value in zip(columns, values, strict=True)}
    table = pd.read_csv(TABLE1)
    assert len(cells) == len(table)
    for row in table.itertuples():
        published = "" if pd.isna(row.published) else f" ({row.published:.2f})"
        assert cells[row.method, row.task, row.depth] == f"{row.mean_rank:.2f} ± {row.std_error:.2f}{published}"


def test_ranks_beside_other_methods_are_those_of_table1():
    text = (DOCS / "compare.md").read_text(encoding="utf-8")
    methods = {
        "MDI (the paper's SI)": ("SI", "SI"),
        "truewood, default": ("UFI centered", "UFI"),
        "permutation, out of bag": ("permutation", "permutation"),
        "party, cforest": ("cforest", "cforest"),
        "ranger, corrected": ("ranger", "ranger"),
    }
    table = pd.read_csv(TABLE1).query("depth == 10").set_index(["task", "method"])
    for name, pair in methods.items():
        rows = [table.loc[key] for key in zip(("regression", "classification"), pair, strict=True)]
        cells = [f"{row['mean_rank']:.2f} ± {row['std_error']:.2f}" for row in rows]
        assert f"| {name} | {' | '.join(cells)} |" in text


def test_power_beside_other_tests_is_that_of_the_study():
    """The figures of the page are those of the calibration page, which has them from power.csv."""
    text, source = ((DOCS / f"{name}.md").read_text(encoding="utf-8") for name in ("compare", "calibration"))
    rows = re.search(r"^\| test \| no signal .*?\n\n", source, re.DOTALL | re.MULTILINE).group().splitlines()[2:]
    for row in filter(None, rows):
        figures = row.split("|", 2)[2]
        assert figures in text


def test_figures_beside_shap_are_the_committed_ones():
    text = (DOCS / "howto" / "explain.md").read_text(encoding="utf-8")
    for row in pd.read_csv(ROOT / "experiments" / "explain" / "agreement.csv").itertuples():
        agreement = [
            f"{row.rank_correlation_of_sizes:.2f}",
            f"{5 * row.same_first_five:.0f} of 5",
            f"{row.correlation_of_values_first_five:.2f}",
            f"{100 * row.same_sign_weighted:.0f}%",
        ]
        seconds = [f"{row.seconds_truewood:.3f}", f"{row.seconds_shap:.3f}"]
        assert f"| {row.case} | {' | '.join(agreement)} |" in text
        assert f"| {row.case} | {' | '.join(seconds)} |" in text


def test_figures_on_conditions_that_fail_are_the_committed_ones():
    table = pd.read_csv(ROOT / "experiments" / "calibration" / "conditions.csv")
    known = set()
    for kind in ("", "_total"):
        rates = 100 * table[[f"rejected{kind}_5", f"error{kind}"]]
        known |= {f"{rate:.1f} ± {error:.1f}%" for rate, error in rates.itertuples(index=False)}
    section = (DOCS / "calibration.md").read_text(encoding="utf-8").partition("## Conditions that fail")[2]
    found = re.findall(r"[\d.]+ ± [\d.]+%", section.partition("\n## ")[0])
    assert len(found) > 50
    assert not set(found) - known
