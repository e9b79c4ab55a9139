"""Pairs of features of a table: in the score, the report, the terminal and JSON."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from helpers.messages import find_lacking
from truewood._cli import main
from truewood.tabular import FitSettings, TableError, score_saved_model, score_table

pytestmark = pytest.mark.any_engine


def make_table(n_rows=500, strength=1.0):
    rng = np.random.default_rng(0)
    dose, age, noise = rng.normal(size=(3, n_rows)).round(3)
    sex = rng.choice(["f", "m"], n_rows)
    effect = dose + age + strength * dose * age + 0.5 * (sex == "m") + rng.normal(scale=0.5, size=n_rows)
    return pd.DataFrame({"dose <mg>": dose, "age": age, "sex": sex, "noise": noise, "effect": effect.round(3)})


@pytest.fixture(scope="module")
def score():
    return score_table(make_table(), "effect", settings=FitSettings(n_estimators=60), interactions=True)


def test_pairs_of_a_forest(score):
    pairs = score.interactions
    assert len(pairs.values) == 6
    assert pairs.frame()[["feature_1", "feature_2"]].iloc[0].tolist() == ["dose <mg>", "age"]
    assert pairs.select().sum() == 1
    assert score_table(make_table(60), "effect", settings=FitSettings(n_estimators=5)).interactions is None


def test_report_names_the_pair(score, tmp_path):
    score.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    section = page.partition('id="pairs-heading"')[2].partition("</section>")[0]
    assert not find_lacking(section, "dose &lt;mg&gt; and age interact", "1 of 6 pairs", "adjusted p-value")
    assert section.count("<tr>") == 1 + 6
    score.result.report(tmp_path / "plain.html")
    assert 'id="pairs-heading"' not in (tmp_path / "plain.html").read_text(encoding="utf-8")
    with pytest.raises(TypeError, match=r"interactions.*list"):
        score.result.report(tmp_path / "wrong.html", interactions=[])


def test_terminal_and_json(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_table().to_csv("doses.csv", index=False)
    command = ["importance", "doses.csv", "--target", "effect", "--n-estimators", "60", "--interactions"]
    assert main(command) == 0
    assert "dose <mg> and age interact (1 of 6 pairs" in " ".join(capsys.readouterr().out.split())
    assert main([*command, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["interactions"][0]
    assert (first["feature_1"], first["feature_2"]) == ("dose <mg>", "age")
    assert first["adjusted_p_value"] < 0.001


def test_missing_evidence_is_reported():
    table = make_table(300, strength=0.0)
    score = score_table(table, "effect", settings=FitSettings(n_estimators=40), interactions=True)
    assert not score.interactions.select().any()


def test_withheld_pairs_are_a_message_and_no_reason_to_doubt_the_features():
    table = make_table(300)
    table["twin"] = table["age"] + 0.05 * np.random.default_rng(1).standard_normal(300)
    score = score_table(table, "effect", settings=FitSettings(n_estimators=40), interactions=True)
    assert score.interactions.is_withheld.any()
    assert any(not find_lacking(text, "pair", "age", "twin", "group_correlated=0.7") for text in score.messages)
    assert not any("pair" in text for text in score.warnings)


def test_folds_and_saved_models():
    table = make_table(300)
    boosted = score_table(table, "effect", settings=FitSettings("xgboost", n_estimators=40, cv=3), interactions=True)
    assert boosted.interactions.rows == "folds"
    assert boosted.interactions.frame()["feature_2"][0] == "age"
    saved = score_saved_model(boosted.model[0], make_table(200).assign(effect=0.5), "effect", interactions=False)
    assert saved.interactions is None


def test_what_has_no_interactions():
    table = make_table(200).assign(died=np.arange(200) % 3 > 0)
    table["effect"] = np.exp(table["effect"])
    with pytest.raises(TableError, match=r"interactions: .*survival") as caught:
        score_table(table, "effect", event="died", settings=FitSettings(n_estimators=10), interactions=True)
    assert caught.value.argument == "interactions"


def test_folds_with_too_many_pairs():
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 34)), columns=[f"x{j}" for j in range(34)])
    settings = FitSettings("hist-gradient-boosting", n_estimators=2, cv=2)
    with pytest.raises(TableError, match=r"interactions: .*500.*528.*test_size=") as caught:
        score_table(table, "x33", settings=settings, interactions=True)
    assert caught.value.argument == "interactions"
