"""Model files that cannot be used, and tables that do not fit a model."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from helpers.messages import find_lacking
from truewood._exceptions import TrainingRowsError
from truewood.tabular import TableError, score_saved_model

pytestmark = pytest.mark.any_engine

TABLE = pd.DataFrame({"x": np.arange(40) % 7 / 7, "color": ["red", "blue"] * 20, "y": ["no", "no", "yes", "yes"] * 10})


@pytest.fixture(scope="module")
def forest():
    return RandomForestClassifier(5, random_state=0).fit(TABLE[["x"]], TABLE["y"])


def assert_refused(saved_model, *words, table=TABLE, target="y", argument="saved_model", **given):
    with pytest.raises(TableError) as caught:
        score_saved_model(saved_model, table, target, **given)
    assert not find_lacking(str(caught.value), *words)
    assert caught.value.argument == argument
    return caught.value


BROKEN_MODELS = {
    "other JSON": ("m.json", json.dumps({"a": 1}), ["m.json", "XGBoost", "CatBoost"]),
    "no JSON": ("m.json", "{", ["m.json", "JSON"]),
    "broken XGBoost": ("m.json", json.dumps({"learner": {}}), ["XGBoost"]),
    "broken ubj": ("m.ubj", b"\0\1\2", ["XGBoost"]),
    "cut LightGBM": ("m.txt", "tree\nversion=v4\n", ["m.txt", "trees"]),
    "broken LightGBM": ("m.txt", "tree\nversion=v4\n\nend of trees\n", ["LightGBM"]),
    "deep JSON": ("m.json", "[" * 200_000, ["m.json", "JSON", "nested"]),
    "text that is not of LightGBM": ("m.txt", "hello\n", ["m.txt", "LightGBM"]),
    "broken CatBoost": ("m.cbm", b"CBM1 and then nothing", ["CatBoost"]),
    "broken CatBoost JSON": ("m.json", json.dumps({"oblivious_trees": []}), ["m.json", "CatBoost"]),
    "broken skops": ("m.skops", b"PK and then nothing", ["m.skops", "skops"]),
    "pickle": ("m.pkl", pickle.dumps(1), ["m.pkl", "pickle", "trust_pickle=True"]),
    "MOJO of H2O": ("m.zip", b"PK", ["m.zip", "H2O", "Java", "another library"]),
    "joblib": ("m.joblib", pickle.dumps(1), ["m.joblib", "pickle", "trust_pickle=True"]),
}
NEEDED = {"XGBoost": "xgboost", "LightGBM": "lightgbm", "CatBoost": "catboost", "skops": "skops", "ubj": "xgboost"}


@pytest.mark.parametrize("case", BROKEN_MODELS)
def test_model_files_that_cannot_be_used(case, tmp_path):
    for word, library in NEEDED.items():
        if word in case:
            pytest.importorskip(library)
    name, content, words = BROKEN_MODELS[case]
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    assert_refused(tmp_path / name, *words)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("m.json", "m.json"),
        ("", "Spark ML"),
        ("data.csv", ".json"),
    ],
    ids=["missing", "folder", "unknown ending"],
)
def test_paths_that_are_no_model_files(name, words, tmp_path):
    (tmp_path / "data.csv").write_text("x,y")
    assert_refused(tmp_path / name, words)


def test_an_untrusted_pickle_is_not_opened(tmp_path):
    class Opened:
        def __reduce__(self):
            return (open, (str(tmp_path / "opened"), "w"))

    (tmp_path / "m.pkl").write_bytes(pickle.dumps(Opened()))
    assert_refused(tmp_path / "m.pkl", "trust_pickle=True")
    assert not (tmp_path / "opened").exists()


PICKLED = {
    "other object": (lambda: {"a": 1}, "dict"),
    "not fitted": (RandomForestClassifier, "call its fit"),
    "no trees": (
        lambda: LogisticRegression().fit(TABLE[["x"]], TABLE["y"]),
        "LogisticRegression",
    ),
}


@pytest.mark.parametrize("case", PICKLED)
@pytest.mark.parametrize("is_loaded", [False, True], ids=["file", "loaded"])
def test_models_that_cannot_be_used(case, is_loaded, tmp_path):
    make, words = PICKLED[case]
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(make()))
    assert_refused(make() if is_loaded else tmp_path / "m.pkl", words, trust_pickle=True)


@pytest.mark.parametrize("content", [b"no pickle", b""], ids=["garbage", "empty"])
def test_broken_pickles(content, tmp_path):
    (tmp_path / "m.pkl").write_bytes(content)
    assert_refused(tmp_path / "m.pkl", "m.pkl", trust_pickle=True)


@pytest.mark.parametrize(
    ("table", "argument", "words"),
    [
        (TABLE.rename(columns={"x": "z"}), "saved_model", ["'x'", "'z', 'color'"]),
        (TABLE.replace("no", "never"), "target", ["'never'", "no, yes"]),
        (TABLE.assign(x="text"), "saved_model", ["model", "table"]),
    ],
    ids=["columns", "labels", "types"],
)
def test_tables_that_do_not_fit_the_model(table, argument, words, forest):
    assert_refused(forest, *words, table=table, argument=argument)


def test_a_model_cannot_be_evaluated_on_its_training_rows(forest):
    words = "training rows", "held-out"
    error = assert_refused(forest, *words, argument="table")
    assert isinstance(error.__cause__, TrainingRowsError)
    assert "rows=" not in str(error)


def test_other_errors_of_the_library_stay_as_they_are(forest, monkeypatch):
    def fail(*given, **options):
        raise ValueError("something else")

    monkeypatch.setattr("truewood.tabular._models.scoring.importance", fail)
    with pytest.raises(ValueError, match=r"^something else$"):
        score_saved_model(forest, TABLE, "y")


def test_a_model_without_names_needs_as_many_columns():
    forest = RandomForestClassifier(5).fit(TABLE[["x"]].to_numpy(), TABLE["y"])
    assert_refused(forest, "1 column", "2 columns", "drop=")


def test_numbers_for_a_model_that_predicts_numbers():
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBRegressor(n_estimators=2).fit(TABLE[["x"]], TABLE["x"])
    assert_refused(model, "numbers", "'y'", "'no'", argument="target")


def test_labels_of_a_booster_are_numbers(tmp_path, no_sandbox):
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBClassifier(n_estimators=2).fit(TABLE[["x"]], TABLE["color"] == "red")
    model.save_model(tmp_path / "m.json")
    words = "'red', 'blue'", "0, 1"
    assert_refused(tmp_path / "m.json", *words, target="color", argument="target")


def test_categories_whose_levels_are_not_in_the_file(tmp_path, no_sandbox):
    xgboost = pytest.importorskip("xgboost")
    codes = (TABLE[["color"]] == "red").to_numpy(dtype=float)
    matrix = xgboost.DMatrix(codes, TABLE["y"] == "yes", feature_types=["c"], enable_categorical=True)
    model = xgboost.train({"objective": "binary:logistic", "nthread": 1}, matrix, 2)
    model.save_model(tmp_path / "m.ubj")
    assert_refused(tmp_path / "m.ubj", "m.ubj", "levels", drop=["x"])
    assert_refused(model, "model", "levels", drop=["x"])


def test_skops_files_with_other_types(tmp_path, forest):
    skops = pytest.importorskip("skops.io")
    model = RandomForestClassifier(2).fit(TABLE[["x"]], TABLE["y"])
    model.extra_ = SimpleNamespace(a=1)
    skops.dump(model, tmp_path / "m.skops")
    words = "types.SimpleNamespace", "skops.io.load"
    assert_refused(tmp_path / "m.skops", *words)


def test_types_of_a_skops_file_are_listed_before_anything_is_loaded(tmp_path, monkeypatch):
    """A type that would run a program when it is loaded is named, and not run."""
    skops = pytest.importorskip("skops.io")
    model = RandomForestClassifier(2).fit(TABLE[["x"]], TABLE["y"])
    model.extra_ = os.system
    skops.dump(model, tmp_path / "m.skops")
    monkeypatch.setattr("skops.io.load", lambda *_given, **_options: pytest.fail("it was loaded"))
    assert_refused(tmp_path / "m.skops", "posix.system" if os.name == "posix" else "not loaded")


def test_a_small_skops_file_does_not_become_a_large_model(tmp_path, monkeypatch):
    pytest.importorskip("skops")
    monkeypatch.setattr("truewood.tabular._models.loading.LARGEST_EXPANSION", 1000)
    with zipfile.ZipFile(tmp_path / "m.skops", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", "0" * 100_000)
    assert_refused(tmp_path / "m.skops", "m.skops", "0.0 GiB")


@pytest.mark.parametrize(("library", "name", "extra"), [("catboost", "m.cbm", "catboost"), ("skops", "m.skops", "cli")])
def test_a_library_that_is_not_installed(library, name, extra, tmp_path, monkeypatch):
    monkeypatch.setattr("truewood._extras.find_spec", lambda name: None if name == library else find_spec(name))
    (tmp_path / name).write_bytes(b"any")
    assert_refused(tmp_path / name, f"pip install 'truewood[{extra}]'")
