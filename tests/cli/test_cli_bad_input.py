from __future__ import annotations

import gzip
import io
import json
import pickle
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from truewood.cli import main

N_ROWS = 40
TABLE = pd.DataFrame(
    {"x": np.arange(N_ROWS) % 7 / 7, "color": ["red", "blue"] * 20, "y": ["no", "no", "yes", "yes"] * 10}
)
CSV = TABLE.to_csv(index=False)


def run(folder, *arguments):
    """Exit code of a run in a folder with a good table, data.csv."""
    (folder / "data.csv").write_text(CSV)
    listed = [str(folder / part[2:]) if part.startswith("./") else part for part in arguments]
    try:
        is_fit = not {"--trees", "--model-file"} & set(listed)
        return main(["importance", *listed, *["--trees", "5"] * is_fit])
    except SystemExit as stopped:
        return stopped.code


def assert_refused(code, capsys, *words):
    printed = capsys.readouterr()
    last = printed.err.splitlines()[-1]
    assert code == 2
    assert printed.out == ""
    assert last.startswith(("truewood: error: ", "truewood importance: error: "))
    assert printed.err.count("error: ") == 1
    assert "Traceback" not in printed.err
    for word in words:
        assert word in last, last


def write(folder, name, content):
    data = content.encode() if isinstance(content, str) else content
    (folder / name).write_bytes(data)
    return f"./{name}"


HEADER_ONLY = "x,color,y\n"
GARBAGE = bytes(range(256)) * 20
NO_TEXT = bytes(k for k in GARBAGE if k != 0)

BAD_FILES = {
    "empty file": ("a.csv", "", ["a.csv is empty"]),
    "blank lines only": ("a.csv", "\n\n\n", ["a.csv holds no table"]),
    "header only": ("a.csv", HEADER_ONLY, ["a.csv has column names but no rows"]),
    "one column": ("a.csv", "y\n" + "1\n2\n" * 20, ["single column, 'y'"]),
    "one row": ("a.csv", HEADER_ONLY + "1,red,yes\n", ["at least 20 rows with a target", "got 1"]),
    "too few rows": ("a.csv", HEADER_ONLY + "1,red,yes\n2,blue,no\n" * 9, ["got 18"]),
    "target missing in every row": ("a.csv", HEADER_ONLY + "1,red,\n2,blue,NA\n" * 20, ["'y' is missing in every row"]),
    "constant target": ("a.csv", HEADER_ONLY + "1,red,no\n2,blue,no\n" * 20, ["'y' has the same value in every row"]),
    "a name twice": ("a.csv", "x,x,y\n" + "1,2,a\n3,4,b\n" * 20, ["several columns named 'x'"]),
    "a row too long": (
        "a.csv",
        HEADER_ONLY + "1,red,no\n1,red,no,2\n" * 20,
        ["line 3 has 4 fields, the first line has 3"],
    ),
    "a row too short": ("a.csv", HEADER_ONLY + "1,red,no\n1,red\n" * 20, ["line 3 has 2 fields, the first line has 3"]),
    "a quote without end": ("a.csv", HEADER_ONLY + "1,red,no\n" * 20 + '1,"red,no\n', ["a.csv", "EOF inside string"]),
    "zero bytes": ("a.csv", GARBAGE, ["a.csv is not a text file: it holds zero bytes"]),
    "no encoding": ("a.csv", NO_TEXT, ["neither UTF-8 nor Windows-1252"]),
    "UTF-16 without a mark": ("a.csv", CSV.encode("utf-16-le"), ["save it as UTF-8"]),
    "unknown ending": ("a.xlsx", CSV, ["a.xlsx must end in .csv", "standard input"]),
    "no ending": ("table", CSV, ["table must end in .csv"]),
    "broken gzip": ("a.csv.gz", gzip.compress(CSV.encode())[:-30], ["a.csv.gz is a broken gzip file"]),
    "no gzip": ("a.csv.gz", CSV, ["a.csv.gz is not a gzip file"]),
    "broken parquet": ("a.parquet", b"PAR1" + GARBAGE + b"PAR1", ["a.parquet cannot be read as a Parquet file"]),
    "cut parquet": ("a.parquet", GARBAGE, ["a.parquet cannot be read as a Parquet file"]),
    "broken feather": ("a.feather", GARBAGE, ["a.feather cannot be read as a Feather file"]),
    "all labels differ": (
        "a.csv",
        HEADER_ONLY + "".join(f"{k % 3},red,label{k}\n" for k in range(40)),
        ["'y' has 40 different values in 40 rows, too many for classes"],
    ),
    "target of dates": (
        "a.csv",
        HEADER_ONLY + "".join(f"{k % 3},red,2020-01-{1 + k % 28:02d}\n" for k in range(40)),
        ["'y' must hold classes or numbers, got dates"],
    ),
    "infinite values": (
        "a.csv",
        HEADER_ONLY + "1,red,no\ninf,blue,yes\n" * 20,
        ["column 'x' holds 20 infinite", "--drop 'x'"],
    ),
    "too large values": (
        "a.csv",
        HEADER_ONLY + "1,red,no\n1e200,blue,yes\n" * 20,
        ["column 'x' holds 20 infinite or far"],
    ),
    "infinite target": (
        "a.csv",
        HEADER_ONLY + "1,red,1.5\n2,blue,inf\n" * 20,
        ["--target: column 'y' holds 20 infinite", "replace such numbers, or remove their rows"],
    ),
    "a word among the numbers of the target": (
        "a.csv",
        HEADER_ONLY + "".join(f"{k % 3},red,{k + 0.5}\n" for k in range(40)) + "1,red,broken\n",
        ["for regression column 'y' must hold numbers, got 'broken' in 1 of 41 rows", "--task classification"],
    ),
    "no column to use": (
        "a.csv",
        HEADER_ONLY + "".join(f"{k},red,{k % 2}\n" for k in range(40)),
        ["no column is left to predict the target with"],
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_files_that_cannot_be_used(case, tmp_path, capsys):
    name, content, words = BAD_FILES[case]
    if name.endswith((".parquet", ".feather")):
        pytest.importorskip("pyarrow")
    assert_refused(run(tmp_path, write(tmp_path, name, content), "--target", "y"), capsys, *words)


BAD_ARGUMENTS = {
    "missing file": (["./none.csv", "--target", "y"], ["there is no file", "none.csv"]),
    "folder": (["./", "--target", "y"], ["is a folder"]),
    "no data": (["--target", "y"], ["required: DATA"]),
    "no target": (["./data.csv"], ["required: --target"]),
    "target that is not there": (["./data.csv", "--target", "colour"], ["no column 'colour'; did you mean 'color'?"]),
    "target in other letters": (["./data.csv", "--target", "Y"], ["did you mean 'y'?"]),
    "target like no column": (["./data.csv", "--target", "qqq"], ["it has 'x', 'color', 'y'"]),
    "target given twice": (["./data.csv", "--target", "y", "--target", "x"], ["--target: must be given once only"]),
    "target dropped": (["./data.csv", "--target", "y", "--drop", "y"], ["--drop: 'y' is the target"]),
    "drop of an unknown column": (
        ["./data.csv", "--target", "y", "--drop", "colr"],
        ["--drop: the table has no column 'colr'"],
    ),
    "keep of an unknown column": (
        ["./data.csv", "--target", "y", "--keep", "z"],
        ["--keep: the table has no column 'z'"],
    ),
    "everything dropped": (["./data.csv", "--target", "y", "--drop", "x", "--drop", "color"], ["no column is left"]),
    "weights of strings": (["./data.csv", "--target", "y", "--sample-weight", "color"], ["'color' must hold numbers"]),
    "infinite weights": (["./infinite.csv", "--target", "y", "--sample-weight", "x"], ["'x' must hold numbers from 0"]),
    "weights are the target": (["./data.csv", "--target", "y", "--sample-weight", "y"], ["'y' is the target"]),
    "unknown weights": (["./data.csv", "--target", "y", "--sample-weight", "w"], ["--sample-weight: the table has no"]),
    "numbers from strings": (
        ["./data.csv", "--target", "color", "--task", "regression"],
        ["'color' must hold numbers"],
    ),
    "unknown task": (["./data.csv", "--target", "y", "--task", "ranking"], ["invalid choice: 'ranking'"]),
    "unknown model": (["./data.csv", "--target", "y", "--model", "svm"], ["invalid choice: 'svm'"]),
    "unknown measure": (["./data.csv", "--target", "y", "--measure", "gain"], ["invalid choice: 'gain'"]),
    "measure of one tree for boosting": (
        ["./data.csv", "--target", "y", "--model", "lightgbm", "--measure", "permutation"],
        ["not defined for trees that add up"],
    ),
    "no trees": (["./data.csv", "--target", "y", "--trees", "0"], ["--trees: must be a whole number from 1 up, got 0"]),
    "half a tree": (["./data.csv", "--target", "y", "--trees", "1.5"], ["from 1 up, got 1.5"]),
    "no jobs": (["./data.csv", "--target", "y", "--jobs", "0"], ["--jobs: must be a number of threads"]),
    "alpha of 5": (["./data.csv", "--target", "y", "--alpha", "5"], ["--alpha: must be a number between 0 and 1"]),
    "output of unknown form": (["./data.csv", "--target", "y", "--output", "./a.docx"], ["must end in .html, .csv"]),
    "output without a folder": (["./data.csv", "--target", "y", "--output", "./no/a.csv"], ["there is no folder"]),
    "output is a folder": (["./data.csv", "--target", "y", "--output", "./folder.csv"], ["folder.csv is a folder"]),
    "model file missing": (["./data.csv", "--target", "y", "--model-file", "./m.json"], ["m.json is not there"]),
    "model file a folder": (["./data.csv", "--target", "y", "--model-file", "./folder.csv"], ["is a folder"]),
    "model file unknown": (
        ["./data.csv", "--target", "y", "--model-file", "./data.csv"],
        ["data.csv must end in .json"],
    ),
}


@pytest.mark.parametrize("case", BAD_ARGUMENTS)
def test_arguments_that_cannot_be_used(case, tmp_path, capsys):
    arguments, words = BAD_ARGUMENTS[case]
    if "lightgbm" in arguments:
        pytest.importorskip("lightgbm")
    (tmp_path / "folder.csv").mkdir()
    write(tmp_path, "infinite.csv", TABLE.assign(x=np.inf).to_csv(index=False))
    assert_refused(run(tmp_path, *arguments), capsys, *words)


BROKEN_MODELS = {
    "other JSON": ("m.json", json.dumps({"a": 1}), ["no model of XGBoost or CatBoost"]),
    "no JSON": ("m.json", "{", ["m.json is not a JSON file"]),
    "broken XGBoost": ("m.json", json.dumps({"learner": {}}), ["cannot be read as a XGBoost model"]),
    "broken ubj": ("m.ubj", b"\0\1\2", ["cannot be read as a XGBoost model"]),
    "broken LightGBM": ("m.txt", "tree\nversion=v4\n", ["cannot be read as a LightGBM model"]),
    "text that is not of LightGBM": ("m.txt", "hello\n", ["m.txt is not a model that LightGBM has saved"]),
    "broken CatBoost": ("m.cbm", b"CBM1 and then nothing", ["cannot be read as a CatBoost model"]),
    "broken CatBoost JSON": ("m.json", json.dumps({"oblivious_trees": []}), ["m.json is a model of CatBoost without"]),
    "broken skops": ("m.skops", b"PK and then nothing", ["m.skops is not a skops file"]),
    "pickle": ("m.pkl", pickle.dumps(1), ["m.pkl is a pickle", "--trust-pickle"]),
    "joblib": ("m.joblib", pickle.dumps(1), ["m.joblib is a pickle", "--trust-pickle"]),
}
NEEDED = {"XGBoost": "xgboost", "LightGBM": "lightgbm", "CatBoost": "catboost", "skops": "skops", "ubj": "xgboost"}


@pytest.mark.parametrize("case", BROKEN_MODELS)
def test_model_files_that_cannot_be_used(case, tmp_path, capsys):
    for word, library in NEEDED.items():
        if word in case:
            pytest.importorskip(library)
    name, content, words = BROKEN_MODELS[case]
    code = run(tmp_path, "./data.csv", "--target", "y", "--model-file", write(tmp_path, name, content))
    assert_refused(code, capsys, *words)


def test_an_untrusted_pickle_is_not_opened(tmp_path, capsys):
    class Opened:
        def __reduce__(self):
            return (open, (str(tmp_path / "opened"), "w"))

    write(tmp_path, "m.pkl", pickle.dumps(Opened()))
    assert_refused(run(tmp_path, "./data.csv", "--target", "y", "--model-file", "./m.pkl"), capsys, "--trust-pickle")
    assert not (tmp_path / "opened").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no pickle", ["m.pkl"]),
        (b"", ["m.pkl"]),
        (pickle.dumps({"a": 1}), ["must hold a fitted model with the interface of scikit-learn, got dict"]),
        (pickle.dumps(RandomForestClassifier()), ["must hold a fitted model"]),
        (
            pickle.dumps(LogisticRegression().fit(TABLE[["x"]], TABLE["y"])),
            ["model must be a tree model that truewood can read, got LogisticRegression"],
        ),
    ],
    ids=["garbage", "empty", "other object", "not fitted", "no trees"],
)
def test_trusted_pickles_that_cannot_be_used(content, words, tmp_path, capsys):
    write(tmp_path, "m.pkl", content)
    code = run(tmp_path, "./data.csv", "--target", "y", "--model-file", "./m.pkl", "--trust-pickle")
    assert_refused(code, capsys, *words)


FOREST = RandomForestClassifier(5, random_state=0).fit(TABLE[["x"]], TABLE["y"])


@pytest.mark.parametrize(
    ("model", "table", "words"),
    [
        (FOREST, TABLE.rename(columns={"x": "z"}), ["the table lacks columns of the model: 'x'; it has 'z', 'color'"]),
        (FOREST, TABLE.replace("no", "never"), ["labels the model does not know: 'never'; it knows no, yes"]),
        (FOREST, TABLE.assign(x="text"), ["the model does not take this table"]),
        (FOREST, TABLE, ["the table holds the rows that the model was fit on", "pass a table of rows it has never"]),
        (
            RandomForestClassifier(5).fit(TABLE[["x"]].to_numpy(), TABLE["y"]),
            TABLE,
            ["the model has 1 column without names, the table 2 beside the target"],
        ),
    ],
    ids=["columns", "labels", "types", "training rows", "width"],
)
def test_tables_that_do_not_fit_the_model(model, table, words, tmp_path, capsys):
    write(tmp_path, "m.pkl", pickle.dumps(model))
    write(tmp_path, "test.csv", table.to_csv(index=False))
    code = run(tmp_path, "./test.csv", "--target", "y", "--model-file", "./m.pkl", "--trust-pickle")
    assert_refused(code, capsys, *words)


def test_labels_of_a_booster_are_numbers(tmp_path, capsys):
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBClassifier(n_estimators=2).fit(TABLE[["x"]], TABLE["color"] == "red")
    model.save_model(tmp_path / "m.json")
    code = run(tmp_path, "./data.csv", "--target", "color", "--model-file", "./m.json")
    assert_refused(code, capsys, "does not know: 'red', 'blue'; it knows 0, 1", "write the target as these numbers")


def test_categories_whose_levels_are_not_in_the_file(tmp_path, capsys):
    xgboost = pytest.importorskip("xgboost")
    codes = (TABLE[["color"]] == "red").to_numpy(dtype=float)
    matrix = xgboost.DMatrix(codes, TABLE["y"] == "yes", feature_types=["c"], enable_categorical=True)
    xgboost.train({"objective": "binary:logistic", "nthread": 1}, matrix, 2).save_model(tmp_path / "m.ubj")
    code = run(tmp_path, "./data.csv", "--target", "y", "--drop", "x", "--model-file", "./m.ubj")
    assert_refused(code, capsys, "m.ubj has categorical columns, but not their levels")


def test_skops_files_with_other_types(tmp_path, capsys):
    skops = pytest.importorskip("skops.io")
    model = RandomForestClassifier(2).fit(TABLE[["x"]], TABLE["y"])
    model.extra_ = SimpleNamespace(a=1)
    skops.dump(model, tmp_path / "m.skops")
    code = run(tmp_path, "./data.csv", "--target", "y", "--model-file", "./m.skops")
    assert_refused(code, capsys, "neither scikit-learn's nor truewood's", "types.SimpleNamespace")


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
def test_a_library_that_is_not_installed(library, arguments, remedy, tmp_path, capsys, monkeypatch):
    def find(name, package=None):
        return None if name == library else find_spec(name, package)

    for module in ("tabular.fitting", "tabular.saved_models", "cli.output"):
        monkeypatch.setattr(f"truewood.{module}.find_spec", find)
    for name in ("m.cbm", "m.skops"):
        write(tmp_path, name, b"any")
    assert_refused(run(tmp_path, "./data.csv", "--target", "y", *arguments), capsys, f"pip install '{remedy}'")


def test_parquet_without_pyarrow(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("truewood.tabular.files.find_spec", {}.get)
    code = run(tmp_path, write(tmp_path, "a.parquet", b"PAR1"), "--target", "y")
    assert_refused(code, capsys, "Parquet files need pyarrow", "pip install 'truewood[cli]'")


def test_empty_standard_input(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO()))
    assert_refused(run(tmp_path, "-", "--target", "y"), capsys, "standard input is empty")


def test_a_class_of_one_row_cannot_be_held_out(tmp_path, capsys):
    pytest.importorskip("lightgbm")
    write(tmp_path, "a.csv", CSV + "0.5,red,perhaps\n")
    code = run(tmp_path, "./a.csv", "--target", "y", "--model", "lightgbm")
    assert_refused(code, capsys, "needs two rows of each class, got one of 'perhaps'")


def test_outputs_are_checked_before_the_table_is_read(tmp_path, capsys):
    code = run(tmp_path, "./none.csv", "--target", "y", "--output", "./a.docx")
    assert_refused(code, capsys, "must end in .html")


@pytest.mark.parametrize(
    "given",
    [
        ["--task", "classification"],
        ["--keep", "x"],
        ["--model", "random-forest"],
        ["--trees", "5"],
        ["--max-depth", "3"],
        ["--test-size", "0.25"],
    ],
    ids=lambda given: given[0],
)
def test_options_of_fits_are_not_for_saved_models(given, tmp_path, capsys):
    write(tmp_path, "m.pkl", pickle.dumps(FOREST))
    code = run(tmp_path, "./data.csv", "--target", "y", "--model-file", "./m.pkl", "--trust-pickle", *given)
    assert_refused(code, capsys, f"--model-file: {given[0]} cannot be given with it: the model is fit already")


def test_training_rows_are_refused_in_words_of_the_command_line(tmp_path, capsys):
    write(tmp_path, "m.pkl", pickle.dumps(FOREST))
    code = run(tmp_path, "./data.csv", "--target", "y", "--model-file", "./m.pkl", "--trust-pickle")
    said = capsys.readouterr().err
    assert code == 2
    assert "--model-file: the table holds the rows" in said
    assert "rows=" not in said
