"""Survival times as the target of a table."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from helpers.mixed_table import find_significant, score
from truewood._cli import main
from truewood._results.trends import find_directions
from truewood.tabular import Messages, TableError, describe_table
from truewood.tabular._checks.performance import measure_performance
from truewood.tabular._columns.target_column import read_survival_outcome

pytestmark = pytest.mark.any_engine


def draw_patients(n_rows=200):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"dose": rng.normal(size=n_rows), "noise": rng.normal(size=n_rows)})
    time, lost = rng.exponential(np.exp(-2.0 * X["dose"])), rng.exponential(2.0, n_rows)
    return X.assign(days=np.minimum(time, lost) + 0.01, died=np.where(time <= lost, "yes", "no"))


PATIENTS = draw_patients()


@pytest.mark.parametrize("model", ["random-forest", "extra-trees"])
def test_a_survival_forest_is_fit(model):
    pytest.importorskip("sksurv")
    scored = score(PATIENTS, "days", event="died", n_estimators=20, model=model, max_features=1.0)
    assert [column.name for column in scored.columns] == ["dose", "noise"]
    assert find_significant(scored) == {"dose"}
    assert scored.performance.name == "concordance"
    assert 0.7 < scored.performance.value < 0.95
    n_events = (PATIENTS["died"] == "yes").sum()
    assert any(text.startswith(f"survival: {n_events} of 200 rows") for text in scored.messages)
    assert scored.result.task == "survival"
    words = [way.word for way in find_directions(scored.result, scored.explanation, 0.05)]
    assert dict(zip(scored.result.feature_names.tolist(), words, strict=True)) == {"dose": "higher risk", "noise": ""}


def test_words_about_survival_times(tmp_path, capsys):
    pytest.importorskip("sksurv")
    PATIENTS.assign(dose=-PATIENTS["dose"]).to_csv(tmp_path / "patients.csv", index=False)
    arguments = ["--time", "days", "--event", "died", "--n-estimators", "20", "--quiet"]
    assert main(["importance", str(tmp_path / "patients.csv"), *arguments]) == 0
    printed = capsys.readouterr().out
    assert re.match(r"What \w.*\bdays\b.*\bdied\b.*\?", printed)
    words = " ".join(printed.split())
    assert re.search(
        r"variation in .*\(days, died\) \(5 ?% false discovery rate\).*variance of martingale residuals", words
    )
    assert "Martingale residual: " in printed
    assert "Predicted risk: " in printed
    assert "target's variance" not in printed
    assert " lower risk " in printed
    assert "predicted risk" in printed


def test_rows_without_time_or_event_are_not_used():
    pytest.importorskip("sksurv")
    table = PATIENTS.assign(
        days=PATIENTS["days"].where(PATIENTS.index > 2), died=PATIENTS["died"].where(PATIENTS.index > 5)
    )
    assert score(table, "days", event="died", n_estimators=5).result.n_rows == 194


def test_survival_times_are_described(tmp_path, capsys):
    table = PATIENTS.assign(weeks=PATIENTS["days"] / 7, days=PATIENTS["days"].where(PATIENTS.index > 2))
    table.to_csv(tmp_path / "patients.csv", index=False)
    assert main(["describe", str(tmp_path / "patients.csv"), "--time", "days", "--event", "died"]) == 0
    printed = capsys.readouterr()
    roles = {line.split()[0]: line.split()[1] for line in printed.out.splitlines() if len(line.split()) > 1}
    assert (roles["days"], roles["died"], roles["dose"]) == ("time", "event", "number")
    assert "survival: " in printed.err
    assert "of 197 rows" in printed.err
    assert re.search(r"\bweeks\b.*100%.*\bdays\b", printed.err)
    with pytest.raises(TableError, match=r"^event: .*time"):
        describe_table(PATIENTS, event="died")


def test_concordance_is_that_of_the_definition():
    metrics = pytest.importorskip("sksurv.metrics")
    rng = np.random.default_rng(1)
    y = np.empty(80, dtype=[("event", np.bool_), ("time", np.float64)])
    y["event"], y["time"] = rng.random(80) < 0.6, rng.integers(1, 30, 80)
    risk = (rng.normal(size=80) - 0.05 * y["time"]).round(1)
    performance = measure_performance(y, risk, None, None, "rows")
    assert performance.value == pytest.approx(metrics.concordance_index_censored(y["event"], y["time"], risk)[0])
    drawn = [rng.integers(80, size=80) for _ in range(300)]
    values = [measure_performance(y[rows], risk[rows], None, None, "rows").value for rows in drawn]
    assert performance.std_error == pytest.approx(np.std(values), rel=0.25)


@pytest.mark.parametrize("events", [[0, 1], [1, 2], [False, True], ["no", "yes"], ["0", "1"]])
def test_forms_of_events(events):
    rows = pd.DataFrame({"t": np.arange(1.0, 31.0), "e": np.array(events)[np.arange(30) % 2]})
    assert_array_equal(read_survival_outcome(rows, "t", "e", Messages()).y["event"], np.arange(30) % 2 == 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"died": 1}, r"event: .*'died'.*\b1\b"),
        ({"died": np.arange(200) % 3}, "event: .*'died'"),
        ({"died": np.where(PATIENTS["died"] == "yes", "dead", "alive")}, "event: .*'died'"),
        ({"days": PATIENTS["days"] - 1}, r"target: .*'days'.*\b0\b"),
        ({"days": "long"}, r"target: .*'days'.*\b0\b"),
    ],
)
def test_targets_that_cannot_be_used(changes, words):
    pytest.importorskip("sksurv")
    with pytest.raises(TableError, match=f"^{words}"):
        score(PATIENTS.assign(**changes), "days", event="died")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"model": "hist-gradient-boosting"}, "model: .*random-forest.*extra-trees"),
        ({"cv": 3}, "cv: .*out-of-bag"),
        ({"groups": "noise"}, "groups: .*out-of-bag"),
        ({"sample_weight": "noise"}, "sample_weight: .*survival"),
    ],
)
def test_what_survival_forests_cannot_do(given, words):
    pytest.importorskip("sksurv")
    with pytest.raises(TableError, match=f"^{words}"):
        score(PATIENTS, "days", event="died", **given)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--time", "days"], "--time: "),
        (["--event", "died"], "--event: "),
        (
            ["--time", "days", "--event", "died", "--target", "days"],
            "--target: cannot be combined with --time and --event",
        ),
        (["--time", "days", "--event", "dead"], "--event: the table has no column 'dead'"),
        (["--time", "day", "--event", "died"], "--time: the table has no column 'day'"),
    ],
)
def test_options(arguments, words, tmp_path, capsys):
    pytest.importorskip("sksurv")
    PATIENTS.to_csv(tmp_path / "patients.csv", index=False)
    assert main(["importance", str(tmp_path / "patients.csv"), *arguments, "--quiet"]) == 2
    assert f"error: {words}" in capsys.readouterr().err
