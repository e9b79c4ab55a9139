"""`truewood importance --model-file`."""

from __future__ import annotations

import pickle

import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from helpers.messages import find_lacking
from helpers.mixed_table import TABLE

pytestmark = pytest.mark.any_engine

COLUMNS = ["x", "amount"]
TRAINING = TABLE[:200]
OPTIONS = ["--target", "y", "--model-file", "./m.pkl"]


@pytest.fixture(scope="module")
def forest():
    return RandomForestClassifier(10, random_state=0).fit(TRAINING[COLUMNS], TRAINING["y"])


@pytest.fixture
def folder(forest, tmp_path):
    """A model, its training rows, and rows that it has not seen."""
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(forest))
    TRAINING.to_csv(tmp_path / "training.csv", index=False)
    TABLE[200:].to_csv(tmp_path / "test.csv", index=False)
    return tmp_path


def test_a_saved_model_is_scored_on_the_table(folder, call):
    path = folder / "m.pkl"
    shown, stderr = call(folder / "test.csv", "--target", "y", "--model-file", path, "--trust-pickle")
    assert shown["model"] == "RandomForestClassifier"
    assert shown["rows"] == "heldout"
    assert shown["n_rows"] == 100
    assert {row["feature"] for row in shown["features"]} == set(COLUMNS)
    assert not find_lacking(stderr, str(path), "RandomForestClassifier", "classification", "test.csv", "100 rows")
    assert "id, member" in stderr


def test_a_pickle_takes_an_option(folder, refuse):
    refuse(["./test.csv", *OPTIONS], ["--model-file: m.pkl", "--trust-pickle"])


def test_training_rows_are_refused_in_words_of_the_command_line(folder, refuse):
    words = ["table", "training rows"]
    assert "rows=" not in refuse(["./training.csv", *OPTIONS, "--trust-pickle"], words)


def test_labels_that_the_model_does_not_know(folder, refuse):
    TABLE[200:].replace("stays", "remains").to_csv(folder / "test.csv", index=False)
    words = ["--target: ", "'y'", "'remains'", "leaves, stays"]
    refuse(["./test.csv", *OPTIONS, "--trust-pickle"], words)


def test_a_model_without_trees(folder, refuse):
    model = LogisticRegression().fit(TRAINING[COLUMNS], TRAINING["y"])
    (folder / "m.pkl").write_bytes(pickle.dumps(model))
    words = ["--model-file: ", "LogisticRegression"]
    refuse(["./test.csv", *OPTIONS, "--trust-pickle"], words)


def test_a_model_without_names(folder, refuse):
    model = RandomForestClassifier(2).fit(TRAINING[COLUMNS].to_numpy(), TRAINING["y"])
    (folder / "m.pkl").write_bytes(pickle.dumps(model))
    words = ["2 columns", "9", "--drop "]
    refuse(["./test.csv", *OPTIONS, "--trust-pickle"], words)


@pytest.mark.parametrize(("name", "content"), [("m.json", "{"), ("m.skops", "PK"), ("m.txt", "hello")])
def test_broken_files(name, content, folder, refuse):
    pytest.importorskip({"m.json": "json", "m.skops": "skops", "m.txt": "lightgbm"}[name])
    (folder / name).write_text(content)
    refuse(["./test.csv", "--target", "y", "--model-file", f"./{name}"], [f"--model-file: {name}"])


def test_a_saved_model_of_spark(folder, call, refuse):
    pytest.importorskip("pyarrow")
    from helpers.spark_folders import save_pipeline

    path = save_pipeline(folder / "spark")
    table = TABLE[200:].assign(color=["red", "green", "blue", "other"] * 25, number=range(100))
    table.to_csv(folder / "test.csv", index=False)
    shown, stderr = call(folder / "test.csv", "--target", "number", "--model-file", path)
    assert shown["model"] == "PipelineModel"
    assert shown["rows"] == "heldout"
    assert {row["feature"] for row in shown["features"]} == {"x", "color"}
    assert not find_lacking(stderr.splitlines()[0], str(path), "PipelineModel", "regression")
    words = ["--model-file: ", "Spark ML", "metadata"]
    refuse(["./test.csv", "--target", "number", "--model-file", "./spark/stages"], words)
