"""What the documents say is what was measured."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parent.parent


def test_table1_in_the_document_is_the_committed_table():
    text = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    table = pd.read_csv(ROOT / "experiments" / "paper" / "table1.csv")
    headings = re.search(r"^\| method \|(.*)\|$", text, re.MULTILINE).group(1).split("|")
    for method, part in table.groupby("method"):
        cells = re.search(rf"^\| {re.escape(method)} \|(.*)\|$", text, re.MULTILINE).group(1).split("|")
        for heading, cell in zip(headings, cells, strict=True):
            task, depth = re.fullmatch(r"\s*(\w+), depth (\d+)\s*", heading).groups()
            row = part.query(f"task == '{task}' and depth == {depth}").iloc[0]
            published = "" if pd.isna(row["published"]) else f" ({row['published']:.2f})"
            assert cell.strip() == f"{row['mean_rank']:.2f} ± {row['std_error']:.2f}{published}"


def test_links_between_documents_lead_somewhere():
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_figures_beside_shap_are_the_committed_ones():
    text = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")
    for row in pd.read_csv(ROOT / "experiments" / "explain" / "agreement.csv").itertuples():
        cells = [
            f"{row.rank_correlation_of_sizes:.2f}",
            f"{5 * row.same_first_five:.0f} of 5",
            f"{row.correlation_of_values_first_five:.2f}",
            f"{100 * row.same_sign_weighted:.0f} %",
            f"{row.seconds_truewood:.3f}",
            f"{row.seconds_shap:.3f}",
        ]
        assert f"| {row.case} | {' | '.join(cells)} |" in text
