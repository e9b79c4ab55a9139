"""The JSON object that `truewood importance` prints: what Python gives, bit by bit."""

from __future__ import annotations

import io
import pickle
import re
import sys
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import truewood as tw
from helpers.mixed_table import TABLE, add_types
from truewood._cli.message_text import render
from truewood.tabular import FitSettings, score_saved_model, score_table

pytestmark = pytest.mark.any_engine


def assert_same(shown, scored):
    """Every number and every word of both is the same."""
    result, frame = scored.result, scored.result.frame()
    for name in ("importance", "std_error", "p_value", "ci_low", "ci_high", "mdi", "rank", "mdi_rank"):
        assert [row[name] for row in shown["features"]] == frame[name].tolist(), name
    assert [row["feature"] for row in shown["features"]] == frame["feature"].tolist()
    adjusted = result.adjusted_p_value("bh")[result.order]
    assert [row["adjusted_p_value"] for row in shown["features"]] == adjusted.tolist()
    assert shown["total_p_value"] == result.total_p_value
    assert {name: shown["performance"][name] for name in asdict(scored.performance)} == asdict(scored.performance)
    assert shown["performance"]["p_value"] == scored.performance.p_value
    assert shown["model"] == scored.model_name
    assert [(column["name"], column["dtype"], column["used"], column["note"]) for column in shown["columns"]] == [
        (column.name, column.dtype, column.is_used, column.note) for column in scored.columns
    ]
    assert shown["messages"] == [render(text) for text in scored.messages]
    assert shown["warnings"] == [render(text) for text in scored.warnings]


@pytest.mark.parametrize("model", ["random-forest", "xgboost"])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_the_same_as_from_python(model, form, tmp_path, call):
    if form == "parquet":
        pytest.importorskip("pyarrow")
    if model == "xgboost":
        pytest.importorskip("xgboost")
    table = add_types(TABLE) if form == "parquet" else TABLE
    getattr(table, f"to_{form}")(tmp_path / f"a.{form}", index=False)
    shown, _ = call(
        tmp_path / f"a.{form}", "--target", "y", "--drop", "amount", "--model", model, "--random-state", "2"
    )
    settings = FitSettings(model=model, n_estimators=60, random_state=2, n_jobs=1)
    assert_same(shown, score_table(tmp_path / f"a.{form}", "y", drop=["amount"], settings=settings))


def test_folds_that_keep_groups_together(tmp_path, call):
    table = TABLE.assign(shop=[f"shop {k % 40}" for k in range(len(TABLE))])
    table.to_csv(tmp_path / "a.csv", index=False)
    shown, stderr = call(tmp_path / "a.csv", "--target", "y", "--groups", "shop", "--cv", "3")
    settings = FitSettings(n_estimators=60, n_jobs=1, cv=3)
    assert_same(shown, score_table(tmp_path / "a.csv", "y", groups="shop", settings=settings))
    assert (shown["rows"], shown["n_folds"], shown["n_trees"], shown["n_groups"]) == ("folds", 3, 180, 40)
    assert re.search("folds.* AUC", stderr)


def test_saved_models_the_same_as_from_python(tmp_path, call):
    forest = RandomForestClassifier(10, random_state=0).fit(TABLE[:200][["x", "amount"]], TABLE["y"][:200])
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(forest))
    TABLE[200:].to_csv(tmp_path / "test.csv", index=False)
    path = str(tmp_path / "m.pkl")
    shown, _ = call(tmp_path / "test.csv", "--target", "y", "--model-file", path, "--trust-pickle")
    assert_same(shown, score_saved_model(path, tmp_path / "test.csv", "y", trust_pickle=True))


def test_one_score_per_column_and_what_was_inferred(data, call):
    shown, stderr = call(data, "--target", "y", "--drop", "amount", "--alpha", "0.01", trees=200)
    assert shown["task"] == "classification"
    assert shown["truewood"] == tw.__version__
    assert {row["feature"] for row in shown["features"][:3]} == {"x", "member", "city"}
    significant = {row["feature"]: row["significant"] for row in shown["features"]}
    assert significant == {"x": True, "member": True, "city": True, "product": False, "when": False}
    assert "target y: classification, 2 classes" in stderr
    assert re.search(r"id \(.*--keep id", stderr)
    assert shown["messages"] == stderr.splitlines()
    assert shown["warnings"] == []
    assert shown["performance"]["interval"][0] > 0.6
    assert shown["total_p_value"] < 1e-6
    assert shown["files"] == []


def test_options_reach_the_fit(tmp_path, call):
    table = TABLE[["x", "city", "amount"]].assign(w=np.where(TABLE["city"] == "Rome", 1, 3), id=TABLE["id"])
    table.to_csv(tmp_path / "a.csv", index=False)
    columns = ["--target", "amount", "--task", "regression", "--keep", "id", "--sample-weight", "w"]
    model = ["--model", "extra-trees", "--max-depth", "4", "--measure", "mdi_oob"]
    shown, _ = call(tmp_path / "a.csv", *columns, *model)
    settings = FitSettings(model="extra-trees", n_estimators=60, max_depth=4, n_jobs=1)
    options = {"task": "regression", "keep": ["id"], "sample_weight": "w", "measure": "mdi_oob"}
    assert_same(shown, score_table(tmp_path / "a.csv", "amount", settings=settings, **options))


def test_the_same_seed_gives_the_same_numbers(data, call):
    shown = [call(data, "--target", "y", "--random-state", seed)[0] for seed in (1, 1, 2)]
    assert shown[0] == shown[1]
    assert shown[0]["features"] != shown[2]["features"]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_standard_input(form, tmp_path, call, monkeypatch):
    if form == "parquet":
        pytest.importorskip("pyarrow")
    getattr(TABLE, f"to_{form}")(tmp_path / f"a.{form}", index=False)
    expected, _ = call(tmp_path / f"a.{form}", "--target", "y", trees=20)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO((tmp_path / f"a.{form}").read_bytes())))
    shown, stderr = call("-", "--target", "y", trees=20)
    assert shown["features"] == expected["features"]
    assert stderr.startswith("read standard input: 300 rows, 10 columns\n")
