"""The calibration study: runs of several machines are merged, and tables keep the designs that a run left out."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pandas as pd
import pytest

from truewood._checkpoint import append_to, read_entries

pytestmark = pytest.mark.any_engine

FOLDER = Path(__file__).parent.parent / "experiments" / "calibration"


@pytest.fixture
def load(monkeypatch):
    """Import modules of the study by name; they are forgotten afterwards."""
    monkeypatch.syspath_prepend(FOLDER)
    yield import_module
    for file in FOLDER.glob("*.py"):
        sys.modules.pop(file.stem, None)


def write(path, *entries):
    with append_to(path) as append:
        append(*({"design": design, "number": number, "p": p} for design, number, p in entries))
    return path


def test_runs_of_other_machines_are_appended_once(load, tmp_path):
    own = write(tmp_path / "own.jsonl", ("a", 0, 0.1), ("a", 1, 0.2))
    others = [
        write(tmp_path / "first.jsonl", ("a", 1, 0.9), ("b", 0, 0.3)),
        write(tmp_path / "second.jsonl", ("b", 0, 0.8), ("b", 1, 0.4)),
    ]
    keys = ("design", "number")
    merged = load("checkpoints").read_runs(own, others, keys)
    assert [entry["p"] for entry in merged] == [0.1, 0.2, 0.3, 0.4]
    assert read_entries(own, keys=set(keys), label="own") == merged
    assert load("checkpoints").read_runs(own, others, keys) == merged


def test_tables_keep_designs_without_a_run(load, tmp_path):
    path, known = tmp_path / "table.csv", [("a", "0.0"), ("a", "0.5"), ("b", "0.0")]
    columns = ["design", "strength", "rate"]
    committed = [["gone", 0.0, 9], ["b", 0.0, 1], ["b", 0.0, 2], ["a", 0.0, 3], ["a", 0.5, 4]]
    pd.DataFrame(committed, columns=columns).to_csv(path, index=False)
    measured = pd.DataFrame([["a", 0.5, 5], ["a", 0.5, 6]], columns=columns)
    load("checkpoints").write_table(measured, path, columns[:2], known)
    assert pd.read_csv(path).to_numpy().tolist() == [
        ["a", 0, 3],
        ["a", 0.5, 5],
        ["a", 0.5, 6],
        ["b", 0, 1],
        ["b", 0, 2],
    ]


@pytest.mark.parametrize("title", ["null", "coverage", "power"])
def test_every_row_of_the_committed_tables_is_of_a_design(load, title):
    study = load("study")
    table = load("checkpoints").name_rows(pd.read_csv(FOLDER / f"{title}.csv"), study.STUDIES[title].keys)
    assert set(table) <= set(study.name_designs(study.STUDIES[title]))
