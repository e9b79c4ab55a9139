"""Arguments of `truewood importance`, and what cannot be done with them."""

from __future__ import annotations

import pickle
import re
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

from truewood._cli import main

pytestmark = pytest.mark.any_engine

TABLE = pd.DataFrame({"x": np.arange(40) % 7 / 7, "color": ["red", "blue"] * 20, "y": ["no", "no", "yes", "yes"] * 10})


@pytest.fixture
def folder(tmp_path):
    """A good table and a bad one, a folder with the name of a file, and a model."""
    TABLE.to_csv(tmp_path / "data.csv", index=False)
    TABLE.assign(x=np.inf).to_csv(tmp_path / "infinite.csv", index=False)
    TABLE.assign(color="red").to_csv(tmp_path / "same.csv", index=False)
    TABLE.assign(color=[" ", None, *TABLE["color"][2:]]).to_csv(tmp_path / "gaps.csv", index=False)
    (tmp_path / "folder.csv").mkdir()
    return tmp_path


BAD_ARGUMENTS = {
    "missing file": (["./none.csv", "--target", "y"], ["none.csv"]),
    "folder": (["./", "--target", "y"], ["folder"]),
    "no data": (["--target", "y"], ["required: DATA"]),
    "no target": (["./data.csv"], ["--target: "]),
    "no target, and many files": (["./"], ["--target: "]),
    "unknown kind": (["./data.csv", "--target", "y", "--dtype", "x=int"], ["--dtype: ", "'x'", "number", "'int'"]),
    "kind without a column": (["./data.csv", "--target", "y", "--dtype", "number"], ["--dtype: ", "COLUMN="]),
    "kind given twice": (
        ["./data.csv", "--target", "y", "--dtype", "x=text", "--dtype", "x=number"],
        ["--dtype: ", "x"],
    ),
    "kind of an unknown column": (["./data.csv", "--target", "y", "--dtype", "z=text"], ["--dtype: ", "'z'"]),
    "target that is not there": (["./data.csv", "--target", "colour"], ["'colour'", "'color'"]),
    "target in other letters": (["./data.csv", "--target", "Y"], ["'Y'", "'y'"]),
    "target like no column": (["./data.csv", "--target", "qqq"], ["'x', 'color', 'y'"]),
    "target given twice": (["./data.csv", "--target", "y", "--target", "x"], ["--target: ", "once"]),
    "target dropped": (["./data.csv", "--target", "y", "--drop", "y"], ["--drop: ", "'y'"]),
    "drop of an unknown column": (
        ["./data.csv", "--target", "y", "--drop", "colr"],
        ["--drop: ", "'colr'"],
    ),
    "keep of an unknown column": (
        ["./data.csv", "--target", "y", "--keep", "z"],
        ["--keep: ", "'z'"],
    ),
    "everything dropped": (["./data.csv", "--target", "y", "--drop", "x", "--drop", "color"], ["no column"]),
    "weights of strings": (["./data.csv", "--target", "y", "--sample-weight", "color"], ["'color'", "number"]),
    "infinite weights": (["./infinite.csv", "--target", "y", "--sample-weight", "x"], ["'x'", "number", "0"]),
    "weights are the target": (["./data.csv", "--target", "y", "--sample-weight", "y"], ["--sample-weight: ", "'y'"]),
    "unknown weights": (["./data.csv", "--target", "y", "--sample-weight", "w"], ["--sample-weight: ", "'w'"]),
    "groups are the target": (
        ["./data.csv", "--target", "y", "--groups", "y"],
        ["--groups: ", "'y'"],
    ),
    "unknown groups": (["./data.csv", "--target", "y", "--groups", "w"], ["--groups: ", "'w'"]),
    "one fold": (["./data.csv", "--target", "y", "--cv", "1"], ["--cv: ", "2", "got 1"]),
    "folds and a split": (
        ["./data.csv", "--target", "y", "--cv", "5", "--test-size", "0.2"],
        ["--cv: ", "--test-size"],
    ),
    "one group": (
        ["./same.csv", "--target", "y", "--groups", "color", "--model", "lightgbm"],
        ["--groups: ", "5 groups", "got 1"],
    ),
    "groups with gaps": (
        ["./gaps.csv", "--target", "y", "--groups", "color", "--model", "lightgbm"],
        ["--groups: ", "'color'", "2"],
    ),
    "numbers from strings": (
        ["./data.csv", "--target", "color", "--task", "regression"],
        ["'color'", "numbers"],
    ),
    "unknown task": (["./data.csv", "--target", "y", "--task", "ranking"], ["invalid choice: 'ranking'"]),
    "unknown model": (["./data.csv", "--target", "y", "--model", "svm"], ["invalid choice: 'svm'"]),
    "unknown measure": (["./data.csv", "--target", "y", "--measure", "gain"], ["invalid choice: 'gain'"]),
    "measure of one tree for boosting": (
        ["./data.csv", "--target", "y", "--model", "lightgbm", "--measure", "permutation"],
        ["permutation"],
    ),
    "no trees": (["./data.csv", "--target", "y", "--n-estimators", "0"], ["--n-estimators: ", "1", "got 0"]),
    "half a tree": (["./data.csv", "--target", "y", "--n-estimators", "1.5"], ["--n-estimators: ", "1.5"]),
    "no jobs": (["./data.csv", "--target", "y", "--n-jobs", "0"], ["--n-jobs: "]),
    "alpha of 5": (["./data.csv", "--target", "y", "--alpha", "5"], ["--alpha: ", "0", "1"]),
    "output of unknown form": (["./data.csv", "--target", "y", "--output", "./a.docx"], [".html, .csv"]),
    "output without a folder": (["./data.csv", "--target", "y", "--output", "./no/a.csv"], ["--output: ", "folder"]),
    "output is a folder": (["./data.csv", "--target", "y", "--output", "./folder.csv"], ["--output: ", "folder.csv"]),
    "model file missing": (["./data.csv", "--target", "y", "--model-file", "./m.json"], ["--model-file: ", "m.json"]),
    "model file a folder": (
        ["./data.csv", "--target", "y", "--model-file", "./folder.csv"],
        ["--model-file: ", "Spark ML"],
    ),
    "model file unknown": (
        ["./data.csv", "--target", "y", "--model-file", "./data.csv"],
        ["data.csv", ".json"],
    ),
}


@pytest.mark.parametrize("case", BAD_ARGUMENTS)
def test_arguments_that_cannot_be_used(case, folder, refuse):
    arguments, words = BAD_ARGUMENTS[case]
    if "lightgbm" in arguments:
        pytest.importorskip("lightgbm")
    refuse(arguments, words)


def test_outputs_are_checked_before_the_table_is_read(folder, refuse):
    refuse(["./none.csv", "--target", "y", "--output", "./a.docx"], [".html"])


@pytest.fixture(scope="module")
def pickled_forest():
    return pickle.dumps(RandomForestClassifier(5, random_state=0).fit(TABLE[["x"]], TABLE["y"]))


@pytest.mark.parametrize(
    "given",
    [
        ["--task", "classification"],
        ["--keep", "x"],
        ["--dtype", "x=number"],
        ["--model", "random-forest"],
        ["--n-estimators", "5"],
        ["--max-depth", "3"],
        ["--cv", "3"],
        ["--test-size", "0.25"],
    ],
    ids=lambda given: given[0],
)
def test_options_of_fits_are_not_for_saved_models(given, pickled_forest, folder, refuse):
    (folder / "m.pkl").write_bytes(pickled_forest)
    words = ["--model-file: ", given[0]]
    refuse(["./data.csv", "--target", "y", "--model-file", "./m.pkl", "--trust-pickle", *given], words)


@pytest.mark.parametrize(
    ("library", "arguments", "remedy"),
    [
        ("xgboost", ["--model", "xgboost"], "truewood[xgboost]"),
        ("lightgbm", ["--model", "lightgbm"], "truewood[lightgbm]"),
        ("catboost", ["--model-file", "./m.cbm"], "truewood[catboost]"),
        ("skops", ["--model-file", "./m.skops"], "truewood[cli]"),
        ("altair", ["--output", "./report.html"], "truewood[report]"),
    ],
)
def test_a_library_that_is_not_installed(library, arguments, remedy, folder, refuse, monkeypatch):
    def find(name, package=None):
        return None if name == library else find_spec(name, package)

    monkeypatch.setattr("truewood._extras.find_spec", find)
    for name in ("m.cbm", "m.skops"):
        (folder / name).write_bytes(b"any")
    refuse(["./data.csv", "--target", "y", *arguments], [f"pip install '{remedy}'"])


def test_an_engine_that_is_not_installed(folder, refuse, monkeypatch):
    monkeypatch.setattr("truewood._engines.selection._find_cuda_problem", lambda: "there is none here")
    refuse(["./data.csv", "--target", "y", "--engine", "cuda"], ["--engine cuda", "there is none here"])


def test_completion(capsys):
    pytest.importorskip("shtab")
    for shell in ("bash", "zsh", "tcsh", "fish"):
        with pytest.raises(SystemExit) as stopped:
            main(["--print-completion", shell])
        assert stopped.value.code == 0
        assert re.search("(-l |--)model-file", capsys.readouterr().out)


def test_help_has_examples_and_exit_codes(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["importance", "--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("examples:", "exit codes:", "--trust-pickle", "--target COLUMN"))
