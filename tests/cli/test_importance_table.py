"""The table that `truewood importance` prints."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline

import truewood as tw
from helpers.messages import find_lacking
from helpers.mixed_table import TABLE, wrap_result
from truewood._cli import main
from truewood._cli.output import extend_frame, print_table

pytestmark = pytest.mark.any_engine


def test_the_table_is_text_and_names_stay_as_they_are(tmp_path, capsys):
    names = {"x": "[red]x[/red]", "city": "city\x1b[31m\nname", "member": "a" * 50}
    table = TABLE[["x", "city", "member", "y"]].rename(columns=names)
    table.to_csv(tmp_path / "a.csv", index=False)
    assert main(["importance", str(tmp_path / "a.csv"), "--target", "y", "--n-estimators", "30"]) == 0
    printed = capsys.readouterr()
    assert "[red]x[/red]" in printed.out
    assert "a" * 50 in printed.out
    assert r"city\x1b[31m\nname" in printed.out
    assert "\x1b" not in printed.out + printed.err
    table = printed.out[printed.out.index("#  feature") : printed.out.index("\n*   ")]
    assert max(map(len, table.splitlines())) <= 120
    assert "share %" in table
    assert "direction" in table
    assert "biased" in printed.out
    # The legend explains the marks in the table only.
    assert bool(re.search(r"\n\(\*\) .*\b1% ", printed.out)) == ("(*)" in table)


def test_quiet_prints_the_table_only(data, capsys):
    assert main(["importance", str(data), "--target", "y", "--n-estimators", "30", "--quiet", "--top", "2"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert not find_lacking(printed.out, "4 more features", "--top N")
    assert main(["importance", str(data), "--target", "y", "--n-estimators", "5", "--quiet", "--top", "5"]) == 0
    assert not find_lacking(capsys.readouterr().out, "1 more feature", "--top N")


@pytest.mark.parametrize("measure", ["mdi", "mdi_oob", "permutation", "loss_oob"])
def test_other_measures(measure, data, capsys):
    assert main(["importance", str(data), "--target", "y", "--n-estimators", "30", "--measure", measure]) == 0
    printed = capsys.readouterr().out
    assert ("adjusted p-value" in printed) == (measure == "mdi_oob")
    assert ("correlated" in printed) == (measure == "mdi_oob")
    assert (f"--measure {measure} " in printed) == (measure != "mdi_oob")
    assert "Biased rank: " in printed
    assert "feature_importances_" in printed


def test_boosting(data, capsys):
    # Not every boosting library has feature_importances_ that are mean decreases in impurity.
    options = ["--model", "hist-gradient-boosting", "--n-estimators", "10", "--cv", "2"]
    assert main(["importance", str(data), "--target", "y", *options]) == 0
    printed = capsys.readouterr().out
    assert "Biased rank: " in printed
    assert "feature_importances_" not in printed


def test_features_of_the_same_name(capsys):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.random(200) < 0.5
    X[:, 1] += 3 * y
    forest = RandomForestClassifier(20, random_state=0).fit(X, y)
    result = replace(tw.importance(forest, X, y), feature_names=np.array(["a", "a", "b"]))
    frame = extend_frame(result, 0.05)
    order = np.argsort(-result.values)
    assert_allclose(frame["adjusted_p_value"], result.adjusted_p_value("bh")[order])
    assert frame["significant"].tolist() == [True, False, False]
    print_table(wrap_result(result), top=5, alpha=0.05, title="t")
    assert capsys.readouterr().out.count(" a ") == 2


def test_notes_of_a_pipeline_are_shown(tmp_path, call, capsys):
    columns = ["x", "amount"]
    pipeline = make_pipeline(
        make_column_transformer((PCA(1), columns), ("drop", ["other"])), RandomForestClassifier(10, random_state=0)
    ).fit(TABLE[:200][columns].assign(other=1.0), TABLE["y"][:200])
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(pipeline))
    TABLE[200:][[*columns, "y"]].assign(other=1.0).to_csv(tmp_path / "test.csv", index=False)
    options = [tmp_path / "test.csv", "--target", "y", "--model-file", tmp_path / "m.pkl", "--trust-pickle"]
    notes = call(*options)[0]["notes"]
    assert any(not find_lacking(note, "x", "amount") for note in notes)
    assert main(["importance", *map(str, options), "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert all(note in printed for note in notes)
