"""`truewood compare` on files that `truewood importance` wrote."""

from __future__ import annotations

import json
import re

import pytest

import truewood as tw
from helpers.mixed_table import TABLE
from truewood._cli import main

pytestmark = pytest.mark.any_engine


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Results of two seeds, with contributions, and one without."""
    folder = tmp_path_factory.mktemp("results")
    TABLE.to_csv(folder / "data.csv", index=False)
    for name, extra in (
        ("one", ["--contributions"]),
        ("two", ["--contributions", "--random-state", "1"]),
        ("plain", []),
    ):
        command = [
            "importance",
            str(folder / "data.csv"),
            "--target",
            TABLE.columns[-1],
            "--n-estimators",
            "20",
            "--quiet",
        ]
        assert main([*command, "--n-jobs", "1", "--output", str(folder / f"{name}.json"), *extra]) == 0
    return folder


def test_prints_and_writes_the_differences(saved, tmp_path, capsys):
    pytest.importorskip("altair")
    files = [str(saved / "one.json"), str(saved / "two.json")]
    outputs = [tmp_path / name for name in ("out.html", "out.csv", "out.png")]
    assert main(["compare", *files, *(part for path in outputs for part in ("--output", str(path)))]) == 0
    shown, messages = capsys.readouterr()
    assert messages.splitlines() == [f"wrote {path}" for path in outputs]
    assert re.match(r"one \w+ two\b", shown)
    assert "paired" in shown
    assert re.search("Unit of importances: decrease in ", shown)
    assert all(path.stat().st_size > 100 for path in outputs)
    comparison = tw.compare(*map(tw.load, files))
    assert main(["compare", *files, "--json", "--names", "first", "second"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["names"] == ["first", "second"]
    assert printed["paired"] is True
    assert [row["feature"] for row in printed["features"]] == comparison.frame()["feature"].tolist()
    assert [row["p_value"] for row in printed["features"]] == comparison.frame()["p_value"].tolist()


def test_results_that_could_be_of_the_same_rows_are_refused(saved, capsys):
    files = [str(saved / "one.json"), str(saved / "plain.json")]
    assert main(["compare", *files]) == 2
    error = capsys.readouterr().err
    assert "--contributions" in error
    assert "--different-rows" in error
    assert error.count("\n") == 1
    assert main(["compare", *files, "--different-rows"]) == 0
    assert "independent" in capsys.readouterr().out


def test_files_that_cannot_be_used_are_one_line(saved, tmp_path, capsys):
    (tmp_path / "bad.json").write_text("{}")
    one = str(saved / "one.json")
    for arguments, words in (
        ([one, str(tmp_path / "bad.json")], "ImportanceResult.save"),
        ([one, str(tmp_path / "none.json")], "none.json"),
        ([one, one, "--output", str(tmp_path / "x.json")], ".html, .csv, .png"),
    ):
        assert main(["compare", *arguments]) == 2
        error = capsys.readouterr().err
        assert words in error
        assert error.count("\n") == 1
