from __future__ import annotations

import re

import pytest

import truewood
from truewood._cli import main
from truewood._cli.output import can_write_reports


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_demo_shows_the_bias_and_its_repair(task, tmp_path, capsys):
    assert main(["demo", "--task", task, "--output", str(tmp_path / "new" / "folder")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "X1 (2 levels)" in shown
    assert re.search(r"\b10(th)? of 10\b", shown)
    assert re.search(r"out-of-bag.*\b1(st)?\b.*adjusted p-value", shown)
    assert re.search(r"95% CI\b.*\badjusted\b", shown)
    # Ten adjusted p-values with three decimals; only the informative feature is significant.
    rows = re.findall(r"X(\d+) \([^)]*\)( \*)? .*? to [-\d.,]+ ([<\d.]+) \d+(?= |$)", shown)
    assert [int(row[0]) for row in rows] == list(range(1, 11))
    assert [bool(row[1]) for row in rows] == [True] + [False] * 9
    assert [float(row[2].strip("<")) <= 0.05 for row in rows] == [True] + [False] * 9
    assert all(re.fullmatch(r"<?\d\.\d{3}", row[2]) for row in rows)
    assert "0 of 9 noise features" in shown
    folder = tmp_path / "new" / "folder"
    assert (folder / "truewood-demo.png").stat().st_size > 10_000
    assert (folder / "truewood-demo.html").exists() == can_write_reports()


def test_demo_without_the_extra_suggests_how_to_get_the_report(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("truewood._cli.demo.can_write_reports", lambda: False)
    assert main(["demo", "--output", str(tmp_path)]) == 0
    assert "pip install 'truewood[report]'" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["truewood-demo.png"]


def test_demo_of_a_real_table(tmp_path, capsys):
    assert main(["demo", "diabetes", "--output", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("$ truewood importance ")
    assert "log triglycerides" in shown
    found = {path.name for path in tmp_path.iterdir()}
    assert found == {f"truewood-diabetes.{end}" for end in ["csv", "png", *["html"] * can_write_reports()]}
    assert main(["demo", "diabetes", "--task", "regression"]) == 2
    assert "error: --task: " in capsys.readouterr().err


def test_demo_is_the_same_for_the_same_seed(tmp_path, capsys):
    shown = []
    for seed in (3, 3, 4):
        main(["demo", "--random-state", str(seed), "--output", str(tmp_path)])
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] != shown[2]


def test_help_names_commands_and_options(capsys):
    for arguments, words in (
        (["--help"], ["demo", "--version"]),
        (["demo", "--help"], ["--task", "--output", "example:"]),
        (["reproduce", "--help"], ["EXPERIMENT", "table1: ", "examples:"]),
    ):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 0
        shown = capsys.readouterr().out
        assert all(word in shown for word in words)


def test_without_a_command_help_is_shown(capsys):
    assert main([]) == 0
    assert "importance" in capsys.readouterr().out


def test_version(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.strip() == f"truewood {truewood.__version__}"


@pytest.mark.parametrize("arguments", [["unknown"], ["demo", "--task", "clustering"], ["demo", "--random-state", "x"]])
def test_wrong_arguments_end_with_code_2(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert re.search(r"truewood( demo)?: error: ", capsys.readouterr().err)


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["demo", "--output", str(tmp_path / "file")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("truewood: error: ")
    assert error.count("\n") == 1
