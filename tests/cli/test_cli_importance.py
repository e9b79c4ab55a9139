from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import truewood as tw
from truewood import datasets
from truewood.cli import main
from truewood.cli.output import make_frame, print_table
from truewood.tabular.columns import read_column
from truewood.tabular.duplicates import find_copies
from truewood.tabular.encoding import DateParts, make_encoder
from truewood.tabular.files import read_table
from truewood.tabular.fitting import choose_leaf_size
from truewood.tabular.skill import measure_skill

N_ROWS = 300


def draw_table():
    """Columns of all kinds; x, member and city tell about y and amount, the others say nothing."""
    rng = np.random.default_rng(0)
    x, member, city = rng.normal(size=N_ROWS), rng.random(N_ROWS) < 0.4, rng.choice(["Rome", "Oslo", "Lima"], N_ROWS)
    signal = x + 2.0 * member + 1.5 * (city == "Rome")
    days = pd.to_timedelta(rng.integers(0, 800, N_ROWS), unit="D")
    return pd.DataFrame(
        {
            "id": np.arange(1, N_ROWS + 1),
            "x": x,
            "member": np.where(member, "yes", "no"),
            "city": city,
            "product": [f"P{k}" for k in rng.integers(0, 50, N_ROWS)],
            "when": (pd.Timestamp("2020-01-01") + days).strftime("%Y-%m-%d"),
            "comment": [" ".join(rng.choice(list("abcdefgh"), 6)) for _ in range(N_ROWS)],
            "country": "NZ",
            "amount": signal + rng.normal(size=N_ROWS),
            "y": np.where(signal + rng.logistic(size=N_ROWS) > 1.5, "stays", "leaves"),
        }
    )


TABLE = draw_table()


@pytest.fixture
def data(tmp_path):
    TABLE.to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


def call(capsys, *arguments, trees=60):
    """What a run prints: the JSON object and the lines on standard error."""
    assert main(["importance", *map(str, arguments), "--trees", str(trees), "--jobs", "1", "--json"]) == 0
    printed = capsys.readouterr()
    return json.loads(printed.out), printed.err


def find_kinds(shown):
    return {column["name"]: column["kind"] for column in shown["columns"]}


def find_features(shown):
    return {row["feature"]: row for row in shown["features"]}


def test_one_score_per_column_and_what_was_inferred(data, capsys):
    shown, said = call(capsys, data, "--target", "y", "--drop", "amount", "--alpha", "0.01", trees=200)
    assert shown["task"] == "classification"
    assert shown["truewood"] == tw.__version__
    assert {row["feature"] for row in shown["features"][:3]} == {"x", "member", "city"}
    features = find_features(shown)
    assert set(features) == {"x", "member", "city", "product", "when"}
    assert all(features[name]["significant"] for name in ("x", "member", "city"))
    assert not any(features[name]["significant"] for name in ("product", "when"))
    assert find_kinds(shown) == {
        "id": "identifier",
        "x": "number",
        "member": "boolean",
        "city": "category",
        "product": "category of many levels",
        "when": "date",
        "comment": "free text",
        "country": "constant",
    }
    assert "target y: classification, 2 classes" in said
    assert "left out: id (names the rows" in said
    assert "left out: comment (free text" in said
    assert "left out: country (the same in every row)" in said
    assert shown["messages"] == said.splitlines()
    assert shown["warnings"] == []
    assert shown["skill"]["name"] == "AUC"
    assert shown["skill"]["interval"][0] > 0.6
    assert shown["total_p_value"] < 1e-6


def test_a_number_is_regression(data, capsys):
    shown, said = call(capsys, data, "--target", "amount", "--drop", "y")
    assert shown["task"] == "regression"
    assert "target amount: regression, numbers from" in said
    assert shown["skill"]["name"] == "R2"
    assert shown["skill"]["value"] > 0.3
    assert all(find_features(shown)[name]["significant"] for name in ("x", "member", "city"))


def test_the_same_as_by_hand(tmp_path, capsys):
    TABLE[["x", "city", "y"]].to_csv(tmp_path / "a.csv", index=False)
    shown, _ = call(capsys, tmp_path / "a.csv", "--target", "y", "--seed", "3")
    encoder = make_column_transformer((OneHotEncoder(sparse_output=False), ["city"]), remainder="passthrough")
    encoded = encoder.fit_transform(TABLE[["x", "city"]])[:, [3, 0, 1, 2]]
    forest = RandomForestClassifier(60, random_state=3, oob_score=True).fit(encoded, TABLE["y"])
    result = tw.importance(forest, encoded, TABLE["y"], groups=["x", "city", "city", "city"])
    features = find_features(shown)
    assert_allclose([features["x"]["importance"], features["city"]["importance"]], result.values, rtol=1e-12)
    assert_allclose([features["x"]["p_value"], features["city"]["p_value"]], result.p_value, rtol=1e-9)
    area = roc_auc_score(TABLE["y"] == "stays", forest.oob_decision_function_[:, 1])
    assert_allclose(shown["skill"]["value"], area, rtol=1e-12)


@pytest.mark.parametrize("model", ["extra-trees", "xgboost", "lightgbm"])
@pytest.mark.parametrize("target", ["y", "amount"])
def test_other_models(model, target, data, capsys):
    if model != "extra-trees":
        pytest.importorskip(model)
    other = "amount" if target == "y" else "y"
    shown, _ = call(capsys, data, "--target", target, "--drop", other, "--model", model)
    assert shown["model"] == model
    assert shown["n_trees"] == 60
    assert shown["rows"] == ("oob" if model == "extra-trees" else "heldout")
    assert shown["n_rows"] == (N_ROWS if model == "extra-trees" else N_ROWS // 4)
    assert shown["features"][0]["feature"] in ("x", "member", "city")
    assert shown["features"][0]["significant"]
    assert shown["skill"]["p_value"] < 0.01


@pytest.mark.parametrize("model", ["random-forest", "xgboost", "lightgbm"])
def test_three_classes(model, tmp_path, capsys):
    if model != "random-forest":
        pytest.importorskip(model)
    level = pd.cut(TABLE["amount"], 3, labels=["low", "middle", "high"]).astype(str)
    TABLE[["x", "city", "member"]].assign(level=level).to_csv(tmp_path / "a.csv", index=False)
    shown, _ = call(capsys, tmp_path / "a.csv", "--target", "level", "--model", model, "--test-size", "0.4")
    assert shown["task"] == "classification"
    assert shown["skill"]["name"] == "one-vs-rest AUC"
    assert shown["skill"]["p_value"] < 1e-3
    assert shown["features"][0]["significant"]


def test_formats_give_the_same_numbers(data, tmp_path, capsys, monkeypatch):
    pytest.importorskip("pyarrow")
    TABLE.to_csv(tmp_path / "a.tsv", index=False, sep="\t")
    TABLE.to_csv(tmp_path / "b.csv", index=False, sep=";", encoding="utf-16")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(data.read_bytes()))
    typed = TABLE.assign(when=pd.to_datetime(TABLE["when"]), member=TABLE["member"] == "yes")
    typed["city"] = typed["city"].astype("category")
    typed.to_parquet(tmp_path / "a.parquet")
    typed.assign(when=typed["when"].dt.date).to_feather(tmp_path / "a.feather")
    expected = call(capsys, data, "--target", "y", trees=20)[0]
    for name in ("a.tsv", "b.csv", "a.csv.gz", "a.parquet", "a.feather"):
        shown = call(capsys, tmp_path / name, "--target", "y", trees=20)[0]
        assert shown["columns"] == [
            column | {"note": note["note"]} for column, note in zip(expected["columns"], shown["columns"], strict=True)
        ]
        assert shown["features"] == expected["features"], name
    for name in ("data.csv", "a.csv.gz", "a.parquet", "a.feather", "a.tsv"):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO((tmp_path / name).read_bytes())))
        assert call(capsys, "-", "--target", "y", trees=20)[0]["features"] == expected["features"], name


def test_letters_of_windows(tmp_path, capsys):
    text = TABLE[["x", "city", "y"]].replace("Rome", "Málaga").to_csv(index=False)
    (tmp_path / "a.csv").write_bytes(text.encode("cp1252"))
    assert "was read as Windows-1252" in call(capsys, tmp_path / "a.csv", "--target", "y", trees=5)[1]


def test_rows_without_a_target_are_left_out_with_a_message(tmp_path, capsys):
    table = TABLE[["x", "city", "y"]].copy()
    table.loc[:9, "y"] = ["", "?", "NA", "nan", "null", " ", "N/A", "NaN", "NULL", "#N/A"]
    table.to_csv(tmp_path / "a.csv", index=False)
    shown, said = call(capsys, tmp_path / "a.csv", "--target", "y", trees=5)
    assert "10 of 300 rows have no y, and are not used" in said
    assert shown["n_rows"] == 290


def test_a_dash_is_a_label(tmp_path, capsys):
    table = TABLE[["x", "city"]].assign(edit=np.where(TABLE["y"] == "stays", "+", "-"))
    table.to_csv(tmp_path / "a.csv", index=False)
    assert call(capsys, tmp_path / "a.csv", "--target", "edit", trees=5)[0]["n_rows"] == N_ROWS


@pytest.mark.parametrize(("task", "found"), [(None, "classification"), ("regression", "regression")])
def test_few_whole_numbers_are_classes_unless_told_otherwise(task, found, tmp_path, capsys):
    table = TABLE[["x", "city"]].assign(grade=pd.cut(TABLE["amount"], 5, labels=False))
    table.to_csv(tmp_path / "a.csv", index=False)
    asked = ["--task", task] if task else []
    shown, said = call(capsys, tmp_path / "a.csv", "--target", "grade", *asked, trees=10)
    assert shown["task"] == found
    assert ("pass --task regression" in said) == (task is None)


def test_kept_columns(data, capsys):
    shown, _ = call(capsys, data, "--target", "y", "--keep", "id", "--keep", "comment", trees=5)
    assert {"id", "comment"} <= set(find_features(shown))


def test_a_model_without_skill_is_warned_about(tmp_path, capsys):
    rng = np.random.default_rng(1)
    noise = pd.DataFrame({"a": rng.normal(size=200), "b": rng.integers(0, 5, 200), "y": rng.choice(["u", "v"], 200)})
    noise.to_csv(tmp_path / "a.csv", index=False)
    assert main(["importance", str(tmp_path / "a.csv"), "--target", "y", "--trees", "50", "--quiet"]) == 0
    said = capsys.readouterr().err
    assert said.startswith("truewood: warning: the model predicts no better than chance (AUC 0.")
    assert "importances of such a model mean nothing" in said
    assert said.count("\n") == 1


def test_weights_count_as_repeated_rows_in_the_skill():
    rng = np.random.default_rng(2)
    y, score = rng.random(80) < 0.4, rng.normal(size=80)
    weight = rng.integers(0, 4, 80)
    repeated = np.repeat(np.arange(80), weight)
    chances = np.column_stack([-score, score])
    weighted = measure_skill(y, chances, [False, True], weight.astype(float), "rows")
    assert_allclose(weighted.value, roc_auc_score(y[repeated], score[repeated]))
    number = measure_skill(score + 1, score, None, weight.astype(float), "rows")
    assert_allclose(number.value, r2_score(score[repeated] + 1, score[repeated]))


def test_the_error_of_the_area_is_that_of_resampling():
    rng = np.random.default_rng(3)
    y = rng.random(400) < 0.3
    score = rng.normal(size=400) + y
    chances = np.column_stack([-score, score])
    skill = measure_skill(y, chances, [False, True], None, "rows")
    drawn = [roc_auc_score(y[rows], score[rows]) for rows in rng.integers(0, 400, (400, 400))]
    assert_allclose(skill.std_error, np.std(drawn), rtol=0.1)


def draw_numbers(rng, n_rows, noise):
    x = rng.normal(size=n_rows)
    return x + noise * rng.normal(size=n_rows), x, None


def draw_classes(rng, n_rows, noise):
    y = rng.choice(3, n_rows, p=[0.6, 0.3, 0.1])
    return y, np.eye(3)[y] + noise * rng.normal(size=(n_rows, 3)), np.arange(3)


@pytest.mark.parametrize("draw", [draw_numbers, draw_classes])
@pytest.mark.parametrize("noise", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_the_error_of_the_skill_is_that_of_many_tables(draw, noise, is_weighted):
    rng = np.random.default_rng(4)
    weight = rng.integers(1, 4, 300).astype(float) if is_weighted else None
    skills = [measure_skill(*draw(rng, 300, noise), weight, "rows") for _ in range(400)]
    spread = np.std([skill.value for skill in skills])
    # 400 tables tell a spread within 4 % or so.
    assert_allclose(np.mean([skill.std_error for skill in skills]), spread, rtol=0.15, atol=1e-4)


def test_the_skill_of_several_classes_is_that_of_scikit_learn():
    rng = np.random.default_rng(5)
    y, score, classes = draw_classes(rng, 200, 1.0)
    chances = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    weight = rng.integers(1, 4, 200).astype(float)
    skill = measure_skill(y, chances, classes, weight, "rows")
    areas = [roc_auc_score(y == label, chances[:, label], sample_weight=weight) for label in classes]
    shares = np.bincount(y, weights=weight) / weight.sum()
    assert_allclose(skill.value, np.average(areas, weights=shares * (1 - shares)))


def test_a_class_that_does_not_occur_does_not_count():
    y, score, _ = draw_classes(np.random.default_rng(6), 100, 1.0)
    without = measure_skill(y, score, np.arange(3), None, "rows")
    more = measure_skill(y, np.column_stack([score, score[:, 0]]), np.arange(4), None, "rows")
    assert (more.value, more.std_error) == (without.value, without.std_error)


def test_intervals_of_skill_are_possible():
    y = np.array([0, 1] * 5)
    chances = np.column_stack([1.0 - y, y + 0.0])
    chances[[0, 1], :] = 0.5
    area = measure_skill(y, chances, [0, 1], None, "rows")
    assert area.interval[1] == 1.0
    x = np.linspace(0, 1, 10)
    number = measure_skill(x, x + np.eye(10)[0] * 0.3, None, None, "rows")
    assert number.value + 1.96 * number.std_error > number.interval[1] == 1.0


def draw_unbalanced():
    """Classes of 90, 5 and 5 %, the rare ones at the ends of x."""
    rng = np.random.default_rng(3)
    label = rng.choice(["big", "m", "r"], 1500, p=[0.9, 0.05, 0.05])
    x = rng.normal(size=1500) + 1.2 * (label == "m") - 1.2 * (label == "r")
    return pd.DataFrame({"x": x, "z": rng.normal(size=1500), "t": label})


def test_unbalanced_classes_with_signal_are_no_chance(tmp_path, capsys):
    draw_unbalanced().to_csv(tmp_path / "a.csv", index=False)
    shown, _ = call(capsys, tmp_path / "a.csv", "--target", "t")
    assert shown["warnings"] == []
    assert shown["skill"]["p_value"] < 1e-6
    noise = draw_unbalanced().assign(x=np.random.default_rng(0).normal(size=1500))
    noise.to_csv(tmp_path / "a.csv", index=False)
    shown, _ = call(capsys, tmp_path / "a.csv", "--target", "t")
    assert "no better than chance" in shown["warnings"][0]


@pytest.mark.parametrize(("extra", "has_hint"), [([], True), (["--max-depth", "12"], False)])
def test_depth_is_a_hint_for_deep_forests_only(extra, has_hint, tmp_path, capsys):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=600), **{f"z{k}": rng.normal(size=600) for k in range(2)}})
    table.assign(y=0.25 * table["x"] + rng.normal(size=600)).to_csv(tmp_path / "a.csv", index=False)
    shown, _ = call(capsys, tmp_path / "a.csv", "--target", "y", *extra)
    assert "though its splits hold up on unseen rows" in shown["warnings"][0]
    assert ("try --max-depth 3" in shown["warnings"][0]) == has_hint


def test_copied_rows_are_warned_about(tmp_path, capsys):
    rng = np.random.default_rng(3)
    noise = pd.DataFrame({"a": rng.normal(size=100).round(4), "b": rng.integers(0, 5, 100), "y": rng.choice(2, 100)})
    pd.concat([noise, noise]).to_csv(tmp_path / "a.csv", index=False)
    shown, _ = call(capsys, tmp_path / "a.csv", "--target", "y", trees=5)
    assert shown["warnings"][0] == (
        "100 of 200 rows repeat another row in all columns and the target; if they are copies, scores and p-values are "
        "far too good: remove copies"
    )


RNG = np.random.default_rng(8)
AGES = pd.DataFrame({"age": RNG.integers(18, 80, 1000), "sex": RNG.choice(["m", "f"], 1000)})
REPEATS = {
    "a tenth copied": (pd.DataFrame({"x": np.append(np.arange(100) / 7, np.arange(12) / 7), "g": "a"}), 12),
    "copied three times": (pd.concat([pd.DataFrame({"x": np.arange(100) / 7, "g": "a"})] * 3), 200),
    "copied dates": (pd.DataFrame({"when": pd.date_range("2020-01-01", periods=50).repeat(2)}), 50),
    "few copies": (pd.DataFrame({"x": np.append(np.arange(100) / 7, [0.0])}), 0),
    "few levels": (pd.DataFrame({"a": RNG.integers(0, 4, 200), "b": RNG.choice(["u", "v"], 200)}), 0),
    "ages": (AGES[["age"]], 0),
    "ages and sexes": (AGES, 0),
    "ages and hours": (AGES.assign(hours=RNG.integers(20, 60, 1000)), 0),
    "the same in two units": (pd.DataFrame({"cm": AGES["age"], "inch": AGES["age"] / 2.54}), 0),
}


@pytest.mark.parametrize("case", REPEATS)
def test_which_repeated_rows_look_like_copies(case):
    table, n_copies = REPEATS[case]
    is_copied = table.duplicated().to_numpy()
    # Copies have the target of the first.
    y = np.arange(len(table)) * 7 % 2 if n_copies == 0 else np.zeros(len(table))
    assert find_copies(table.reset_index(drop=True), y) == n_copies
    assert is_copied.any()


TARGETS = {
    "yes in other letters": (["Yes", "yes", "yes", "no", "No ", "no"], [], "2 classes (no 50.0%, yes 50.0%)"),
    "two numbers": (["0.5", "1.5", "1.50"], [], "2 classes (1.5 66.7%, 0.5 33.3%)"),
    "decimals as classes": (["0.5", "1", "1.0"], ["--task", "classification"], "2 classes (1 66.7%, 0.5 33.3%)"),
    "numbers and a word": (["0", "1"] * 30 + ["unknown"], [], "3 classes (0 49.2%, 1 49.2%, unknown 1.6%)\n"),
}


@pytest.mark.parametrize("case", TARGETS)
def test_labels(case, tmp_path, capsys):
    values, extra, words = TARGETS[case]
    n_rows = 120 // len(values) * len(values)
    table = pd.DataFrame({"x": np.random.default_rng(0).normal(size=n_rows), "t": values * (n_rows // len(values))})
    table.to_csv(tmp_path / "a.csv", index=False)
    shown, said = call(capsys, tmp_path / "a.csv", "--target", "t", *extra, trees=5)
    assert f"target t: classification, {words}" in said
    assert shown["task"] == "classification"


def test_names_in_quotes_may_break_lines(tmp_path, capsys):
    text = TABLE[["x", "amount", "y"]].to_csv(index=False, header=False)
    (tmp_path / "a.csv").write_text('"a;\nb","c;d;e",y\n' + text)
    assert set(find_features(call(capsys, tmp_path / "a.csv", "--target", "y", trees=5)[0])) == {"a;\nb", "c;d;e"}


def test_commas_are_decimal_between_semicolons(tmp_path, capsys):
    numbers = [f"{1 + k % 7},{100 + 3 * k}" for k in range(100)]
    table = pd.DataFrame({"x": numbers, "g": ["a, b", "c"] * 50, "y": ["u", "v"] * 50})
    table.to_csv(tmp_path / "a.csv", index=False, sep=";")
    read = read_table(str(tmp_path / "a.csv"), print)
    assert read["x"][:2].tolist() == ["1.100", "2.103"]
    assert read["g"][0] == "a, b"
    table.to_csv(tmp_path / "a.csv", index=False)
    assert read_table(str(tmp_path / "a.csv"), print)["x"][0] == "1,100"


def test_what_is_said_of_numbers():
    numbers = [str(k + 0.5) for k in range(60)]
    assert read_column("x", pd.Series([*numbers, "off"])).note == "1 value is no number and is taken as missing: 'off'"
    note = read_column("x", pd.Series([*numbers, "off", "on"])).note
    assert note == "2 values are no numbers and are taken as missing: 'off', 'on'"


def test_sample_weight_is_no_feature_and_is_used(tmp_path, capsys):
    table = TABLE[["x", "city", "y"]].assign(w=np.where(TABLE["city"] == "Rome", 1, 3))
    table.to_csv(tmp_path / "a.csv", index=False)
    plain = call(capsys, tmp_path / "a.csv", "--target", "y", "--drop", "w")[0]
    weighted = call(capsys, tmp_path / "a.csv", "--target", "y", "--sample-weight", "w")[0]
    assert set(find_features(weighted)) == {"x", "city"}
    assert find_features(weighted)["x"]["importance"] != find_features(plain)["x"]["importance"]


def test_the_table_is_text_and_names_stay_as_they_are(tmp_path, capsys):
    names = {"x": "[red]x[/red]", "city": "city\x1b[31m\nname", "member": "a" * 50}
    table = TABLE[["x", "city", "member", "y"]].rename(columns=names)
    table.to_csv(tmp_path / "a.csv", index=False)
    assert main(["importance", str(tmp_path / "a.csv"), "--target", "y", "--trees", "30"]) == 0
    printed = capsys.readouterr()
    assert "[red]x[/red]" in printed.out
    assert "a" * 50 in printed.out
    assert r"city\x1b[31m\nname" in printed.out
    assert "\x1b" not in printed.out + printed.err
    assert max(map(len, printed.out.splitlines())) <= 120
    assert "biased" in printed.out


def test_quiet_prints_the_table_only(data, capsys):
    assert main(["importance", str(data), "--target", "y", "--trees", "30", "--quiet", "--top", "2"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "4 more columns; --top N shows them." in printed.out
    assert main(["importance", str(data), "--target", "y", "--trees", "5", "--quiet", "--top", "5"]) == 0
    assert "1 more column; --top N shows it." in capsys.readouterr().out


@pytest.mark.parametrize("measure", ["mdi", "mdi_oob", "permutation", "naive_oob"])
def test_other_measures(measure, data, capsys):
    assert main(["importance", str(data), "--target", "y", "--trees", "30", "--measure", measure]) == 0
    printed = capsys.readouterr().out
    assert ("adjusted p-value" in printed) == (measure == "mdi_oob")
    assert ("No p-values: measure=" in printed) == (measure != "mdi_oob")


def test_outputs(data, tmp_path, capsys):
    paths = [tmp_path / f"out.{ending}" for ending in ("csv", "json", "png", "svg", "pdf")]
    asked = [part for path in paths for part in ("--output", path)]
    shown, said = call(capsys, data, "--target", "y", *asked)
    assert shown["files"] == [str(path) for path in paths]
    table = pd.read_csv(paths[0])
    assert table["feature"].tolist() == [row["feature"] for row in shown["features"]]
    assert_allclose(table["adjusted_p_value"], [row["adjusted_p_value"] for row in shown["features"]])
    assert_allclose(np.sort(tw.load(paths[1]).values), np.sort(table["importance"]))
    assert paths[2].read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in paths[3].read_bytes()
    assert paths[4].read_bytes().startswith(b"%PDF")
    assert f"wrote {paths[0]}" in said


def test_letters_that_a_font_lacks_make_no_noise(tmp_path):
    TABLE[["x", "city", "y"]].rename(columns={"city": "都市"}).to_csv(tmp_path / "a.csv", index=False)
    paths = [str(tmp_path / f"out.{ending}") for ending in ("png", "svg", "pdf")]
    options = ["--target", "y", "--trees", "5", "--quiet", *[part for path in paths for part in ("--output", path)]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert main(["importance", str(tmp_path / "a.csv"), *options]) == 0


def test_alpha_is_that_of_the_files_too(data, tmp_path, capsys):
    """Bars of what is significant are filled, x, member and city unless alpha is next to nothing."""
    drawn = []
    for alpha in ("0.05", "1e-300"):
        call(capsys, data, "--target", "amount", "--drop", "y", "--alpha", alpha, "--output", tmp_path / "a.svg")
        drawn.append((tmp_path / "a.svg").read_text())
    n_filled = [text.count("fill: #0072b2") for text in drawn]
    assert n_filled[0] >= n_filled[1] + 3


def test_features_of_the_same_name(capsys):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.random(200) < 0.5
    X[:, 1] += 3 * y
    forest = RandomForestClassifier(20, random_state=0).fit(X, y)
    result = replace(tw.importance(forest, X, y), feature_names=np.array(["a", "a", "b"]))
    frame = make_frame(result, 0.05)
    order = np.argsort(-result.values)
    assert_allclose(frame["adjusted_p_value"], result.adjusted_p_value("bh")[order])
    assert frame["significant"].tolist() == [True, False, False]
    print_table(result, top=5, alpha=0.05, title="t")
    assert capsys.readouterr().out.count(" a ") == 2


def test_report(data, tmp_path, capsys):
    pytest.importorskip("altair")
    call(capsys, data, "--target", "y", "--alpha", "0.01", "--output", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "What tells about y?" in page
    assert "out-of-bag rows with AUC" in page
    assert "Significant: at a 1 % false discovery rate" in page


def test_the_same_seed_gives_the_same_numbers(data, capsys):
    shown = [call(capsys, data, "--target", "y", "--seed", seed)[0] for seed in (1, 1, 2)]
    assert shown[0] == shown[1]
    assert shown[0]["features"] != shown[2]["features"]


def test_a_forest_that_grows_in_steps_is_the_forest(data, capsys):
    """Steps of the progress bar: 30 trees are grown in 25 steps, 500 in as many."""
    shown, _ = call(capsys, data, "--target", "amount", "--drop", "y", trees=30)
    columns = [read_column(name, TABLE[name]) for name in TABLE.drop(columns=["amount", "y"])]
    used = [column for column in columns if column.is_used]
    X = pd.DataFrame({column.name: column.values for column in used})
    pipeline = make_pipeline(make_encoder(used), RandomForestRegressor(30, min_samples_leaf=5, random_state=0)).fit(
        X, TABLE["amount"]
    )
    result = tw.importance(pipeline, X, TABLE["amount"])
    by_hand = dict(zip(result.feature_names.tolist(), result.values, strict=True))
    for name, row in find_features(shown).items():
        assert_allclose(row["importance"], by_hand[name], rtol=1e-9)


def test_leaves_grow_with_the_table():
    sizes = [choose_leaf_size("classification", n_rows) for n_rows in (100, 50_000, 50_001, 1_000_000)]
    assert sizes == [1, 1, 2, 20]
    assert choose_leaf_size("regression", 100) == 5


KINDS = {
    "numbers with thousands": (["1,200", "3,400.5", "7"] * 10, "number"),
    "money and percent": (["$1,200", "-$3", "7%"] * 10, "number"),
    "decimal commas": (["1,5", "2,25", "1.300,5"] * 10, "number"),
    "numbers with gaps": (["1", "", "?", "NA", "-", "none", "2.5"] * 10, "number"),
    "numbers and a few words": (["1", "2", "3"] * 30 + ["broken"], "number"),
    "words and a few numbers": (["a", "b", "3"] * 10, "category"),
    "truth": (["TRUE", "false", ""] * 10, "boolean"),
    "yes and no": (["Yes", "no"] * 10, "boolean"),
    "only yes, or nothing": (["yes", ""] * 10, "category"),
    "types of truth": ([True, False, None] * 10, "boolean"),
    "dates": (["2020-01-05", "2020-11-30T10:00:00", ""] * 10, "date"),
    "dates with days first": (["31/12/2020", "01/02/2021"] * 10, "date"),
    "dates with dots": (["31.12.2020 10:30", "01.02.2021 23:00"] * 10, "date"),
    "dates in words": (["Jan 5, 2020", "Feb 7, 2021"] * 10, "date"),
    "times of day": (["10:30", "23:15"] * 10, "date"),
    "ranges": (["10-20", "20-30"] * 10, "category"),
    "versions": (["1.2.3", "1.2.4"] * 10, "category"),
    "codes": ([f"{k:x}z" for k in range(100)], "identifier"),
    "counted rows": ([str(k) for k in range(100)], "identifier"),
    "shuffled counted rows": ([str((7 * k) % 100) for k in range(100)], "identifier"),
    "whole numbers without gaps that occur twice": ([str(k % 50) for k in range(100)], "number"),
    "whole numbers with gaps": ([str(k * k) for k in range(100)], "number"),
    "real numbers": ([str(k + 0.5) for k in range(100)], "number"),
    "few levels": ([f"level {k % 12}" for k in range(100)], "category"),
    "many levels": ([f"level {k % 13}" for k in range(100)], "category of many levels"),
    "texts": ([f"he said {k} words or so" for k in range(100)], "free text"),
    "the same long answers": (["I do not know at all", "that is how it is"] * 10, "category"),
    "constant": (["a"] * 20, "constant"),
    "nothing": (["", "NA", None, "?"] * 5, "empty"),
    "lists": ([[1], [2]] * 10, "nested values"),
    "bytes": ([b"a", b"b"] * 10, "nested values"),
}


@pytest.mark.parametrize("case", KINDS)
def test_kinds(case):
    values, kind = KINDS[case]
    assert read_column("column", pd.Series(values, dtype=object)).kind == kind


def test_an_identifier_by_its_name():
    numbers = pd.Series([str(k * k) for k in range(100)])
    assert read_column("customer_id", numbers).kind == "identifier"
    assert read_column("humid", numbers).kind == "number"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (["1,200", "7", "-"], [1200.0, 7.0, np.nan]),
        (["1,5", "1.300,5", "2"], [1.5, 1300.5, 2.0]),
        (["1.234", "12,5", "1.234,50"], [1234.0, 12.5, 1234.5]),
        (["0,512", "1", "12,512"], [0.512, 1.0, 12.512]),
        (["1,234", "2,345,678", "3"], [1234.0, 2345678.0, 3.0]),
        (["1.5", "2,5", "1.234"], [1.5, 2.5, 1.234]),
        (["1.234", "2,5", ".", "-"], [1234.0, 2.5, np.nan, np.nan]),
        (["-$3", "12%", "€1,000.5"], [-3.0, 12.0, 1000.5]),
        (["yes", "NO", "?"], [1.0, 0.0, np.nan]),
    ],
)
def test_values_of_strings(given, read):
    assert_allclose(read_column("column", pd.Series(given * 10)).values, read * 10)


def test_days_and_months_that_could_change_places_are_told():
    column = read_column("when", pd.Series(["01/02/2020", "03/04/2020"] * 10))
    assert column.note == "read as month/day/year, though day and month could change places"
    assert column.values[0] == pd.Timestamp("2020-01-02")


def test_parts_of_dates_that_vary():
    dates = pd.DataFrame({"when": pd.to_datetime(["2020-03-01 06:00", "2020-03-04 18:00", None])})
    parts = DateParts().fit(dates)
    assert parts.get_feature_names_out().tolist() == ["when_days", "when_day", "when_day_of_week", "when_hour"]
    assert_allclose(parts.transform(dates), [[0, 1, 6, 6], [3.5, 4, 2, 18], [np.nan] * 4])


def test_completion(capsys):
    pytest.importorskip("shtab")
    for shell in ("bash", "zsh", "tcsh"):
        with pytest.raises(SystemExit) as stopped:
            main(["--print-completion", shell])
        assert stopped.value.code == 0
        assert "--model-file" in capsys.readouterr().out


def test_help_has_examples_and_exit_codes(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["importance", "--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("examples:", "exit codes:", "--trust-pickle", "--target COLUMN"))


def test_interrupted(data, capsys, monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("truewood.tabular.table_score.fit_forest", stop)
    assert main(["importance", str(data), "--target", "y"]) == 130
    assert capsys.readouterr().err.endswith("truewood: stopped\n")


def test_a_reader_that_stops_reading(data):
    program = "import sys; from truewood.cli import main; sys.exit(main())"
    command = f"{sys.executable} -c '{program}' importance {data} --target y --trees 5 --quiet | head -n 0"
    ended = subprocess.run(["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"], capture_output=True, text=True)
    assert ended.returncode == 0
    assert ended.stderr == ""


TRAINING, TEST = TABLE[:200], TABLE[200:].reset_index(drop=True)


def score_file(capsys, folder, name, target="y", table=TEST, extra=()):
    table.to_csv(folder / "test.csv", index=False)
    assert (
        main(
            [
                "importance",
                str(folder / "test.csv"),
                "--target",
                target,
                "--model-file",
                str(folder / name),
                "--json",
                "--jobs",
                "1",
                *extra,
            ]
        )
        == 0
    )
    return json.loads(capsys.readouterr().out)


def assert_same(shown, result):
    features = find_features(shown)
    assert set(features) == set(result.feature_names.tolist())
    assert_allclose([features[name]["importance"] for name in result.feature_names.tolist()], result.values, rtol=1e-6)


def as_categories(table):
    return table.assign(city=table["city"].astype("category"), member=(table["member"] == "yes").astype(int))


@pytest.mark.parametrize("ending", ["json", "ubj"])
@pytest.mark.parametrize("is_wrapper", [True, False])
def test_xgboost_files(ending, is_wrapper, tmp_path, capsys):
    xgboost = pytest.importorskip("xgboost")
    X, y = as_categories(TRAINING)[["city", "member", "x"]], (TRAINING["y"] == "stays").astype(int)
    model = xgboost.XGBClassifier(n_estimators=20, enable_categorical=True, n_jobs=1).fit(X, y)
    saved = (
        model
        if is_wrapper
        else xgboost.train(
            {"objective": "binary:logistic", "nthread": 1}, xgboost.DMatrix(X, y, enable_categorical=True), 20
        )
    )
    saved.save_model(tmp_path / f"m.{ending}")
    labels = (TEST["y"] == "stays").astype(int)
    table = TEST.assign(member=(TEST["member"] == "yes").astype(int), label=labels)
    shown = score_file(capsys, tmp_path, f"m.{ending}", "label", table)
    assert_same(shown, tw.importance(saved, as_categories(TEST)[["city", "member", "x"]], labels, rows="heldout"))
    chances = model.predict_proba(as_categories(TEST)[["city", "member", "x"]])[:, 1]
    if is_wrapper:
        assert_allclose(shown["skill"]["value"], roc_auc_score(labels, chances), rtol=1e-6)
    assert any("not columns of the model, and not used: id" in message for message in shown["messages"])


def test_lightgbm_files(tmp_path, capsys):
    lightgbm = pytest.importorskip("lightgbm")
    columns = ["x", "city", "member"]
    model = lightgbm.LGBMRegressor(n_estimators=20, verbose=-1, n_jobs=1).fit(
        as_categories(TRAINING)[columns], TRAINING["amount"]
    )
    model.booster_.save_model(tmp_path / "m.txt")
    table = TEST.assign(member=(TEST["member"] == "yes").astype(int))
    shown = score_file(capsys, tmp_path, "m.txt", "amount", table)
    assert_same(shown, tw.importance(model, as_categories(TEST)[columns], TEST["amount"], rows="heldout"))
    assert_allclose(shown["skill"]["value"], r2_score(TEST["amount"], model.predict(as_categories(TEST)[columns])))


@pytest.mark.parametrize("ending", ["cbm", "json"])
def test_catboost_files(ending, tmp_path, capsys):
    catboost = pytest.importorskip("catboost")
    columns = ["x", "city", "member"]
    model = catboost.CatBoostClassifier(
        iterations=20, verbose=False, cat_features=["city", "member"], thread_count=1, allow_writing_files=False
    )
    model.fit(TRAINING[columns], TRAINING["y"])
    model.save_model(
        str(tmp_path / f"m.{ending}"),
        format=ending,
        pool=catboost.Pool(TRAINING[columns], TRAINING["y"], cat_features=[1, 2]),
    )
    shown = score_file(capsys, tmp_path, f"m.{ending}")
    assert_same(shown, tw.importance(model, TEST[columns], TEST["y"], rows="heldout"))
    area = roc_auc_score(TEST["y"] == "stays", model.predict_proba(TEST[columns])[:, 1])
    assert_allclose(shown["skill"]["value"], area, rtol=1e-6)


@pytest.mark.parametrize("ending", ["skops", "pkl", "joblib"])
def test_files_of_pipelines(ending, tmp_path, capsys):
    encoder = make_column_transformer((OneHotEncoder(), ["city", "member"]), remainder="passthrough")
    columns = ["city", "x", "member"]
    pipeline = make_pipeline(encoder, RandomForestClassifier(30, random_state=0)).fit(TRAINING[columns], TRAINING["y"])
    if ending == "skops":
        pytest.importorskip("skops.io").dump(pipeline, tmp_path / "m.skops")
    else:
        (tmp_path / f"m.{ending}").write_bytes(pickle.dumps(pipeline))
    extra = [] if ending == "skops" else ["--trust-pickle"]
    shown = score_file(capsys, tmp_path, f"m.{ending}", extra=extra)
    assert_same(shown, tw.importance(pipeline, TEST[columns], TEST["y"], rows="heldout"))
    assert shown["skill"]["name"] == "AUC"


def test_a_model_without_names_takes_the_columns_in_order(tmp_path, capsys):
    forest = RandomForestRegressor(20, random_state=0).fit(TRAINING[["x"]].to_numpy(), TRAINING["amount"])
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(forest))
    shown = score_file(capsys, tmp_path, "m.pkl", "amount", TEST[["x", "amount"]], ["--trust-pickle"])
    assert [row["feature"] for row in shown["features"]] == ["x"]


def draw_levels():
    """Levels that pandas keeps and others would change: a question mark, blanks, truth with gaps."""
    rng = np.random.default_rng(7)
    mark, blank = rng.choice(["x", "?", "y"], N_ROWS), rng.choice([" u", " v", "w "], N_ROWS)
    truth = pd.Series(rng.random(N_ROWS) < 0.5).astype(object)
    signal = 2.0 * (mark == "?") + 2.0 * (blank == " u") + 2.0 * truth.astype(float) + rng.normal(size=N_ROWS)
    truth[::9] = None
    label = np.where(signal > 2.0, " high", " low")
    return pd.DataFrame({"mark": mark, "blank": blank, "truth": truth, "signal": signal, "label": label})


def read_back(table, path):
    """The table as a user gets it who reads it with pandas."""
    table.to_csv(path, index=False)
    return pd.read_csv(path)


LEVELS = ["mark", "blank", "truth"]


def test_a_pipeline_gets_the_table_as_pandas_reads_it(tmp_path, capsys):
    table = draw_levels()
    training, test = read_back(table[:150], tmp_path / "a.csv"), read_back(table[150:], tmp_path / "a.csv")
    encoder = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), LEVELS))
    pipeline = make_pipeline(encoder, RandomForestClassifier(20, random_state=0)).fit(
        training[LEVELS], training["label"]
    )
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(pipeline))
    shown = score_file(capsys, tmp_path, "m.pkl", "label", test[[*LEVELS, "label"]], ["--trust-pickle"])
    assert_same(shown, tw.importance(pipeline, test[LEVELS], test["label"], rows="heldout"))
    assert min(row["importance"] for row in shown["features"]) > 0.01
    assert shown["warnings"] == []
    other = test[[*LEVELS, "label"]].assign(mark="new")
    shown = score_file(capsys, tmp_path, "m.pkl", "label", other, ["--trust-pickle"])
    assert shown["warnings"][0] == "100.0% of the rows have levels of mark that the model does not know: 'new'"


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost"])
def test_boosting_gets_levels_as_pandas_reads_them(library, tmp_path, capsys):
    package, table = pytest.importorskip(library), draw_levels()[["mark", "blank", "signal"]]
    training, test = read_back(table[:150], tmp_path / "a.csv"), read_back(table[150:], tmp_path / "a.csv")
    columns = ["mark", "blank"]
    category = dict.fromkeys(columns, "category")
    if library == "xgboost":
        model = package.XGBRegressor(n_estimators=10, n_jobs=1, enable_categorical=True).fit(
            training[columns].astype(category), training["signal"]
        )
        model.save_model(tmp_path / "m.json")
    elif library == "lightgbm":
        model = package.LGBMRegressor(n_estimators=10, n_jobs=1, verbose=-1)
        model.fit(training[columns].astype(category), training["signal"])
        model.booster_.save_model(tmp_path / "m.txt")
    else:
        model = package.CatBoostRegressor(
            iterations=10, cat_features=columns, verbose=False, thread_count=1, allow_writing_files=False
        ).fit(training[columns], training["signal"])
        model.save_model(str(tmp_path / "m.cbm"))
    name = {"xgboost": "m.json", "lightgbm": "m.txt", "catboost": "m.cbm"}[library]
    shown = score_file(capsys, tmp_path, name, "signal", test)
    taken = test[columns] if library == "catboost" else test[columns].astype(category)
    assert_same(shown, tw.importance(model, taken, test["signal"], rows="heldout"))
    assert min(row["importance"] for row in shown["features"]) > 0.05
    if library != "catboost":  # which keeps hashes of levels only
        shown = score_file(capsys, tmp_path, name, "signal", test.replace("?", "!"))
        assert "of the rows have levels of mark that the model does not know: '!'" in shown["warnings"][0]
        missing = test[columns].replace("?", None).astype(category)
        assert_same(shown, tw.importance(model, missing, test["signal"], rows="heldout"))


def test_levels_of_xgboost_that_are_numbers_or_letters_beyond_ascii(tmp_path, capsys):
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"k": rng.choice([3, 9, 12], N_ROWS), "city": rng.choice(["Málaga", "Łódź", "Rome"], N_ROWS)})
    category = {"k": "category", "city": "category"}
    table["signal"] = 2.0 * (table["k"] == 9) + (table["city"] == "Łódź") + rng.normal(size=N_ROWS)
    X = table[["k", "city"]].astype(category)
    model = xgboost.XGBRegressor(n_estimators=10, n_jobs=1, enable_categorical=True).fit(X[:150], table["signal"][:150])
    model.save_model(tmp_path / "m.ubj")
    test = table[150:].reset_index(drop=True)
    shown = score_file(capsys, tmp_path, "m.ubj", "signal", test)
    assert_same(shown, tw.importance(model, test[["k", "city"]].astype(category), test["signal"], rows="heldout"))
    assert shown["warnings"] == []
    shown = score_file(capsys, tmp_path, "m.ubj", "signal", test.assign(k=test["k"].replace(12, 13)))
    assert "levels of k that the model does not know: 13" in shown["warnings"][0]


@pytest.mark.parametrize("ending", ["cbm", "json", "joblib"])
@pytest.mark.parametrize("loss", ["Poisson", "Tweedie:variance_power=1.5", "RMSE"])
def test_catboost_predicts_on_the_scale_of_the_target(ending, loss, tmp_path, capsys):
    catboost = pytest.importorskip("catboost")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=N_ROWS), "z": rng.normal(size=N_ROWS)})
    table = X.assign(n=rng.poisson(np.exp(2 + 0.5 * X["x"])))
    model = catboost.CatBoostRegressor(
        iterations=40, loss_function=loss, verbose=False, thread_count=1, allow_writing_files=False
    ).fit(X[:200], table["n"][:200])
    if ending == "joblib":
        (tmp_path / "m.joblib").write_bytes(pickle.dumps(model))
    else:
        model.save_model(str(tmp_path / f"m.{ending}"), format=ending)
    extra = ["--trust-pickle"] if ending == "joblib" else []
    shown = score_file(capsys, tmp_path, f"m.{ending}", "n", table[200:], extra)
    assert_allclose(shown["skill"]["value"], r2_score(table["n"][200:], model.predict(X[200:])), rtol=1e-6)
    assert shown["features"][0]["feature"] == "x"


def test_notes_of_a_pipeline_are_shown(tmp_path, capsys):
    columns = ["x", "amount"]
    pipeline = make_pipeline(
        make_column_transformer((PCA(1), columns), ("drop", ["other"])), RandomForestClassifier(10, random_state=0)
    ).fit(TRAINING[columns].assign(other=1.0), TRAINING["y"])
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(pipeline))
    table = TEST[[*columns, "y"]].assign(other=1.0)
    shown = score_file(capsys, tmp_path, "m.pkl", table=table, extra=["--trust-pickle"])
    assert any(note.startswith("Mixes of several columns") for note in shown["notes"])
    options = ["--target", "y", "--model-file", str(tmp_path / "m.pkl"), "--trust-pickle", "--quiet"]
    assert main(["importance", str(tmp_path / "test.csv"), *options]) == 0
    printed = capsys.readouterr().out
    assert all(note in printed for note in shown["notes"])


def test_copies_in_the_table_of_a_model(tmp_path, capsys):
    forest = RandomForestRegressor(5, random_state=0).fit(TRAINING[["x"]], TRAINING["amount"])
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(forest))
    shown = score_file(capsys, tmp_path, "m.pkl", "amount", pd.concat([TEST, TEST]), ["--trust-pickle"])
    assert shown["warnings"][0].startswith("100 of 200 rows repeat another row")


DATA = Path(os.environ.get(datasets.DATA_VARIABLE, "."))


@pytest.mark.skipif(not (DATA / "adult.data").is_file(), reason="TRUEWOOD_DATA names no folder with adult.data")
def test_adult(tmp_path, capsys):
    names = ",".join(datasets._ADULT_COLUMNS)
    (tmp_path / "adult.csv").write_text(names + "\n" + (DATA / "adult.data").read_text())
    shown, _ = call(capsys, tmp_path / "adult.csv", "--target", "income", trees=100)
    features = find_features(shown)
    assert sorted(features) == sorted(datasets._ADULT_COLUMNS[:-1])
    assert features["fnlwgt"]["mdi_rank"] == 1
    assert not features["fnlwgt"]["significant"]
    assert all(row["significant"] for name, row in features.items() if name != "fnlwgt")
    assert shown["skill"]["value"] > 0.89
