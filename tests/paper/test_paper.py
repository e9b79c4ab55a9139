"""The experiments of the paper: data, record, tables, pictures, and what must come out."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from helpers.messages import find_lacking
from helpers.paper_files import needs_files
from truewood._cli import main
from truewood._paper.data import draw_five, draw_ten
from truewood._paper.experiments import make_cells
from truewood._paper.figures import draw_bars
from truewood._paper.methods import score_in_r

pytestmark = pytest.mark.any_engine


def read_table1(folder):
    return pd.read_csv(folder / "table1.csv")


def test_five_predictors():
    problem = draw_five(np.random.default_rng(0), task="classification", encoding="dummy", rho=0.6)
    columns, owners = problem.encode()
    assert columns.shape == (1000, 1 + 1 + 4 + 10 + 20)
    assert owners.count("X5") == 20
    assert np.corrcoef(problem.X["X2"].astype(int), problem.y)[0, 1] == pytest.approx(0.6, abs=0.08)
    ordinal = draw_five(np.random.default_rng(0), task="regression", encoding="ordinal", rho=1.0)
    assert ordinal.encode()[0].shape == (1000, 5)
    assert not ordinal.is_classification


def test_ten_predictors():
    problem = draw_ten(np.random.default_rng(0), task="regression")
    assert [problem.X[name].nunique() for name in problem.X] == list(range(2, 12))


def test_table1_finds_the_bias_and_its_repair(tmp_path, capsys):
    arguments = ["reproduce", "table1", "--repetitions", "6", "--peers", "none", "--n-estimators", "50"]
    assert main([*arguments, "--output", str(tmp_path)]) == 0
    table = read_table1(tmp_path)
    assert list(table) == ["method", "task", "depth", "mean_rank", "std_error", "published"]
    assert (table.query("method == 'SI' and depth == 10")["mean_rank"] == 10).all()
    assert table.query("method == 'UFI'")["mean_rank"].mean() < 2.5
    assert table.query("method == 'cforest'")["mean_rank"].isna().all()
    assert table.query("method == 'UFI' and task == 'regression'")["published"].tolist() == [1.47, 1.55]
    shown = capsys.readouterr().out
    assert "not run" in shown
    assert "(3.71)" in shown
    for ending in ("png", "svg"):
        assert (tmp_path / f"table1.{ending}").stat().st_size > 5000


def test_a_stopped_run_goes_on_and_processes_change_nothing(tmp_path):
    arguments = [
        "reproduce",
        "table1",
        "--peers",
        "none",
        "--n-estimators",
        "5",
        "--task",
        "regression",
        "--repetitions",
    ]
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    main([*arguments, "7", "--n-jobs", "1", "--output", str(whole)])
    main([*arguments, "5", "--n-jobs", "2", "--output", str(resumed)])
    record = resumed / "table1.jsonl"
    lines = record.read_text().splitlines(keepends=True)
    # Cut off in the middle of a line, as when a run is killed.
    record.write_text("".join(lines[:-1]) + lines[-1][:20])
    main([*arguments, "7", "--n-jobs", "2", "--output", str(resumed)])
    pd.testing.assert_frame_equal(read_table1(whole), read_table1(resumed))
    # What is recorded is not run again: a changed record shows in the table.
    changed = [json.loads(line) for line in record.read_text().splitlines()]
    for entry in changed:
        if entry["key"].endswith("SI"):
            entry["scores"] = [1.0] + [0.0] * 9
    record.write_text("".join(json.dumps(entry) + "\n" for entry in changed))
    main([*arguments, "7", "--output", str(resumed)])
    assert (read_table1(resumed).query("method == 'SI'")["mean_rank"] == 1).all()
    main([*arguments, "7", "--output", str(resumed), "--random-state", "1"])  # other settings are another record
    assert (read_table1(resumed).query("method == 'SI'")["mean_rank"] > 1).all()
    record.write_text("damaged\n")
    assert main([*arguments, "7", "--output", str(resumed)]) == 2


def test_another_seed_gives_other_numbers(tmp_path):
    arguments = ["reproduce", "table1", "--peers", "none", "--n-estimators", "5", "--repetitions", "3", "--output"]
    for seed in ("1", "2"):
        main([*arguments, str(tmp_path / seed), "--random-state", seed])
    assert not read_table1(tmp_path / "1").equals(read_table1(tmp_path / "2"))


@pytest.mark.parametrize("encoding", ["dummy", "ordinal"])
def test_bias_and_ranking(encoding, tmp_path, capsys):
    for name in ("bias", "ranking"):
        arguments = ["reproduce", name, "--encoding", encoding, "--repetitions", "2", "--n-estimators", "5"]
        assert main([*arguments, "--output", str(tmp_path)]) == 0
        table = pd.read_csv(tmp_path / f"{name}_{encoding}.csv")
        assert set(table["method"]) == {"SI", "UFI", "UFI centered"}
        assert table["rho"].nunique() == (11 if name == "ranking" else 1)
        for method in ("si", "ufi"):
            assert (tmp_path / f"{name}_{encoding}_{method}.png").stat().st_size > 10_000
    assert "rho from which X2" in " ".join(capsys.readouterr().out.split())


def test_bias_of_one_task_has_claims_of_that_task_alone(tmp_path, capsys):
    arguments = [
        "reproduce",
        "bias",
        "--task",
        "regression",
        "--repetitions",
        "2",
        "--n-estimators",
        "3",
        "--n-jobs",
        "1",
    ]
    assert main([*arguments, "--output", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "regression: largest SI" in shown
    assert "classification" not in shown


def test_an_odd_number_of_methods_leaves_no_empty_panel(tmp_path):
    rows = [{"method": m, "feature": f, "mean": 0.1, "std": 0.0} for m in ("SI", "UFI", "ranger") for f in "ab"]
    for path in draw_bars(pd.DataFrame(rows), tmp_path, "odd"):
        if path.suffix == ".svg":
            assert path.read_text().count('id="axes_') == 3


@needs_files
@pytest.mark.parametrize("name", ["rna", "adult", "boston"])
def test_real_data(name, tmp_path, capsys):
    arguments = ["reproduce", name, "--repetitions", "2", "--peers", "none", "--output", str(tmp_path)]
    assert main(arguments) == 0
    table = pd.read_csv(tmp_path / f"{name}.csv", dtype={"feature": str})
    scores = table.pivot_table(index="feature", columns="method", values="mean")
    best = scores["UFI"].sort_values(ascending=False)
    if name == "rna":
        assert set(best.index[:3]) == {"-1", "1", "fe"}
    if name == "adult":
        ranks = scores["SI"].rank(ascending=False)
        assert ranks["random"] <= 5
        assert ranks["fnlwgt"] <= 5
        assert abs(best["random"]) < 0.03 * best.iloc[0]
        assert abs(best["fnlwgt"]) < 0.03 * best.iloc[0]
    if name == "boston":
        assert set(best.index[:2]) == {"RM", "LSTAT"}
        assert abs(best["random"]) < 0.02 * best.iloc[0]
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    assert "published" in capsys.readouterr().out


@pytest.fixture
def both_peers(peers):
    if not all(peers.values()):
        pytest.skip("R with party and ranger is not installed")


@pytest.mark.parametrize("peer", ["cforest", "ranger"])
def test_peers_find_a_strong_signal(peer, both_peers):
    problems = [draw_five(np.random.default_rng(k), task="classification", encoding="dummy", rho=0.9) for k in (0, 1)]
    settings = {"trees": 20, "depth": 5, "mincriterion": 1.28}
    scores = score_in_r(peer, problems, seeds=[5, 9], **settings)
    assert np.argmax(scores, axis=1).tolist() == [1, 1]
    # A data set's scores do not depend on the ones before it.
    assert score_in_r(peer, problems[1:], seeds=[9], **settings)[0] == scores[1]


def test_peers_run_and_are_left_out_on_demand(tmp_path, capsys, both_peers):
    arguments = ["reproduce", "table1", "--n-estimators", "5", "--task", "regression", "--output", str(tmp_path)]
    main([*arguments, "--repetitions", "1", "--n-jobs", "1"])
    ran = read_table1(tmp_path).set_index("method")["mean_rank"]
    assert ran["cforest"].notna().all()
    assert ran["ranger"].notna().all()
    main([*arguments, "--repetitions", "2", "--peers", "none"])
    assert read_table1(tmp_path).query("method == 'cforest'")["mean_rank"].isna().all()
    assert "not run" in capsys.readouterr().out


def test_a_failing_peer_is_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("truewood._paper.methods.find_peers", lambda: {"cforest": True, "ranger": False})
    (tmp_path / "Rscript").write_text("#!/bin/sh\necho 'no such package' >&2\nexit 1\n")
    (tmp_path / "Rscript").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    arguments = ["reproduce", "table1", "--repetitions", "1", "--n-estimators", "2", "--n-jobs", "1"]
    assert main([*arguments, "--output", str(tmp_path / "out")]) == 2
    assert not find_lacking(capsys.readouterr().err, "truewood: error: ", "cforest", "no such package", "--peers none")


def test_missing_peers_are_named_with_the_command_that_installs_them(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("truewood._paper.methods.shutil.which", lambda _name: None)
    arguments = ["reproduce", "table1", "--repetitions", "1", "--n-estimators", "2", "--n-jobs", "1"]
    main([*arguments, "--output", str(tmp_path)])
    shown = " ".join(capsys.readouterr().out.split())
    assert "not installed" in shown
    assert "apt-get install r-base-core r-cran-party r-cran-ranger" in shown


def test_cells_follow_the_paper():
    adult, table1 = (make_cells(n, tasks=("regression",), encoding="dummy", trees=None) for n in ("adult", "table1"))
    assert adult[0].trees == 20
    assert [(cell.depth, cell.mincriterion) for cell in table1] == [(3, 2.33), (10, 1.28)]
    assert make_cells("rna", tasks=(), encoding="dummy", trees=7)[0].trees == 7


@pytest.mark.parametrize(
    "arguments",
    [["table2"], ["bias", "--repetitions", "0"], ["bias", "--n-jobs", "0"], ["bias", "--random-state", "-1"]],
)
def test_wrong_arguments(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", *arguments])
    assert stopped.value.code == 2
    assert "error: " in capsys.readouterr().err
