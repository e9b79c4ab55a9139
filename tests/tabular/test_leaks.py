"""Columns that are the target in other words, or parts of it."""

from __future__ import annotations

import html
import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_linnerud, load_wine

from helpers.messages import find_lacking
from helpers.mixed_table import TABLE, find_dtypes, find_values, score
from truewood.tabular._checks.leaks import find_leaks

pytestmark = pytest.mark.any_engine

RNG = np.random.default_rng(0)
N_ROWS = 400
Y = RNG.lognormal(3.0, 0.5, N_ROWS)
OTHERS = pd.DataFrame(
    {"a": Y + RNG.normal(0, 8, N_ROWS), "b": RNG.normal(size=N_ROWS), "c": RNG.choice(list("pqr"), N_ROWS)}
)
CLASSES = np.array(["low", "middle", "high"])[np.digitize(Y, [17, 24])]
PART = Y * RNG.uniform(0.2, 0.8, N_ROWS)
NAMES = {"low": "L", "middle": "M", "high": "H"}

COPIES = {
    "copy": (Y, Y),
    "monotone transform": (np.log(Y), Y),
    "falling transform": (1 / Y, Y),
    "transform with a turn": ((Y - 20) ** 2 * np.sign(Y - 20) + 5 * Y, Y),
    "rounded copy": (np.round(Y), Y),
    "copy with gaps": (np.where(RNG.random(N_ROWS) < 0.3, np.nan, Y), Y),
    "copy with a little noise": (Y + RNG.normal(0, 0.3, N_ROWS), Y),
    "numbers as words": (np.array([f"about {y:.0f}" for y in Y], dtype=object), Y),
    "one-to-one recoding": (np.array([NAMES[label] for label in CLASSES], dtype=object), CLASSES),
    "recoding by numbers": (np.array([{"L": 7, "M": 1, "H": 3}[NAMES[label]] for label in CLASSES]), CLASSES),
    "what classes are made of": (Y, CLASSES),
    "missing for one class": (np.where(CLASSES == "high", np.nan, RNG.normal(size=N_ROWS)), CLASSES == "high"),
    "30 rows": (np.log(Y[:30]), Y[:30]),
}


@pytest.mark.parametrize("case", COPIES)
def test_the_target_in_other_words(case):
    column, y = COPIES[case]
    X = OTHERS[: len(y)].assign(copy=column)
    (leak,) = find_leaks(X, y, "regression" if y.dtype.kind == "f" else "classification")
    assert leak.columns == ("copy",)
    assert 0.99 <= leak.share <= 1.0


@pytest.mark.parametrize(
    ("part", "other"),
    [
        (PART, Y - PART),
        (np.round(PART), np.round(Y - PART)),
        (PART, np.where(RNG.random(N_ROWS) < 0.1, np.nan, Y - PART)),
        (PART + 50, PART - Y),
        (PART, Y / PART),
        (PART**2, Y / PART),
    ],
    ids=["sum", "rounded sum", "sum with gaps", "difference", "product", "power"],
)
def test_a_target_that_is_made_up_of_two_columns(part, other):
    (leak,) = find_leaks(OTHERS.assign(part=part, other=other), Y, "regression")
    assert leak.columns == ("part", "other")


def test_the_share_is_that_of_the_variance():
    rng = np.random.default_rng(1)
    x, noise = rng.normal(size=(2, 5000))
    rho = 0.999
    (leak,) = find_leaks(pd.DataFrame({"x": x}), rho * x + np.sqrt(1 - rho**2) * noise, "regression")
    # The squared rank correlation of normal variables, nearly all that x explains of the ranks of y.
    assert_allclose(leak.share, (6 / np.pi * np.arcsin(rho / 2)) ** 2, atol=0.001)
    assert find_leaks(pd.DataFrame({"x": x}), 0.99 * x + np.sqrt(1 - 0.99**2) * noise, "regression") == []


ORDINARY = {
    "iris": (load_iris(as_frame=True), None),
    "wine": (load_wine(as_frame=True), None),
    "breast cancer": (load_breast_cancer(as_frame=True), None),
    "diabetes": (load_diabetes(as_frame=True), None),
    "linnerud": (load_linnerud(as_frame=True), "Weight"),
}


@pytest.mark.parametrize("case", ORDINARY)
def test_ordinary_tables_are_left_alone(case):
    data, name = ORDINARY[case]
    y = data.target if name is None else data.target[name]
    task = "classification" if y.dtype.kind == "i" else "regression"
    assert find_leaks(data.data, y.to_numpy(), task) == []


def test_what_chance_may_do_is_left_alone():
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.normal(size=(25, 300))).rename(columns=str)
    assert find_leaks(X, rng.normal(size=25), "regression") == []
    assert find_leaks(X, np.arange(25) < 5, "classification") == []
    # A single row that is unlike the others lies at the end of some column.
    assert find_leaks(X, np.arange(25) < 1, "classification") == []
    assert find_leaks(X, np.arange(25) == 1.0, "regression") == []
    # So it does among the rows that have values.
    rows = np.arange(60)
    X = pd.DataFrame(np.where(rows[:, np.newaxis] < 30, np.nan, rng.normal(size=(60, 300)))).rename(columns=str)
    assert find_leaks(X, np.where(rows < 30, rows % 2 == 0, rows == 30), "classification") == []
    # Most levels have one row only.
    names = pd.DataFrame({"name": [f"n{k % 20}" for k in range(25)]})
    assert find_leaks(names, rng.normal(size=25), "regression") == []


def test_a_trend_is_no_leak():
    years = pd.DataFrame({"year": np.arange(1900, 2000), "when": pd.date_range("1900-01-01", periods=100)})
    assert find_leaks(years, np.arange(100.0) ** 2, "regression") == []
    # A duration may be the target in another unit.
    assert find_leaks(years.rename(columns={"year": "years"}), np.arange(100.0) ** 2, "regression") != []


def test_what_grows_with_time_is_no_leak_unless_rows_are_sorted_by_the_target():
    population = pd.DataFrame({"population": np.arange(300.0) ** 1.5})
    assert find_leaks(population, np.sin(np.arange(300) / 30), "regression") == []
    order = np.argsort(Y)
    for copy in (np.log(Y), np.round(Y)):
        assert find_leaks(pd.DataFrame({"copy": copy[order]}), Y[order], "regression") != []
        by_copy = np.argsort(copy, kind="stable")
        assert find_leaks(pd.DataFrame({"copy": copy[by_copy]}), Y[by_copy], "regression") != []


WORDS = np.array([f"w{k}" for k in range(2000)])
DIED = RNG.random(N_ROWS) < 0.3


def write_texts(rng, n_rows):
    """Texts of a few words, of which nearly all differ."""
    return [" ".join(rng.choice(WORDS, rng.integers(2, 8))) for _ in range(n_rows)]


TEXTS = write_texts(RNG, N_ROWS)
IN_TEXTS = {
    "a word for each class": (["(Death)" if died else "(Discharge)" for died in DIED], DIED),
    "a word for one class": (["DEATH" if died else "" for died in DIED], DIED),
    "a word for each of three": ([f"[{NAMES[label]}]" for label in CLASSES], CLASSES),
    "the label as a digit": ([f"({died:d})" for died in DIED], np.where(DIED, "yes", "no")),
    "a number": ([f"for {y:,.2f} EUR" for y in 1000 * Y], Y),
    "a number, rounded": ([f"({y:.0f})" for y in 100 * Y], Y),
    "a number that classes are made of": ([f"({y:.1f})" for y in Y], CLASSES),
}


@pytest.mark.parametrize("case", IN_TEXTS)
def test_the_target_within_a_text(case):
    marks, y = IN_TEXTS[case]
    texts = np.array([f"{text} {mark}" for text, mark in zip(TEXTS, marks, strict=True)], dtype=object)
    assert len(np.unique(texts)) > 0.99 * N_ROWS
    task = "regression" if y.dtype.kind == "f" else "classification"
    (leak,) = find_leaks(OTHERS.assign(term=texts), y, task)
    assert leak.columns == ("term",)
    assert 0.99 <= leak.share <= 1.0
    # One row in ten differs.
    shuffled = np.where(RNG.random(N_ROWS) < 0.1, RNG.permutation(texts), texts)
    assert find_leaks(OTHERS.assign(term=shuffled), y, task) == []


def test_a_number_within_few_texts():
    marks, y = IN_TEXTS["a number"]
    texts = np.array([f"{text} {mark}" for text, mark in zip(TEXTS, marks, strict=True)], dtype=object)
    (leak,) = find_leaks(OTHERS.assign(term=texts)[:60], y[:60], "regression")
    assert leak.columns == ("term",)


def test_texts_without_the_target_are_no_leaks():
    """None of 500 tables has a leak; titles determine survival in 97% of the rows, as a good feature may."""
    rng = np.random.default_rng(1)
    for n_rows in [40, 100, 200, 300] * 25:
        texts, y = np.array(write_texts(rng, n_rows), dtype=object), rng.random(n_rows)
        title = rng.choice(["Mr", "Mrs", "Miss"], n_rows)
        names = np.array(
            [f"{words.partition(' ')[0]}, {t}." for words, t in zip(texts, title, strict=True)], dtype=object
        )
        survived = rng.random(n_rows) < np.where(title == "Mr", 0.03, 0.97)
        numbered = np.array([f"{words} {rng.integers(10_000)}" for words in texts], dtype=object)
        assert find_leaks(pd.DataFrame({"x": texts}), y < rng.choice([0.1, 0.5]), "classification") == []
        assert find_leaks(pd.DataFrame({"x": texts}), np.floor(4 * y), "classification") == []
        assert find_leaks(pd.DataFrame({"x": names}), survived, "classification") == []
        assert find_leaks(pd.DataFrame({"x": numbered}), y, "regression") == []
        assert find_leaks(pd.DataFrame({"x": numbered}), y < 0.5, "classification") == []


def test_numbers_of_rows_within_texts_are_no_leaks():
    rows = np.arange(300)
    texts = np.array([f"order {1000 + row} {words}" for row, words in zip(rows, TEXTS, strict=False)], dtype=object)
    assert find_leaks(pd.DataFrame({"order": texts}), np.sin(rows / 100), "regression") == []


@pytest.mark.parametrize("options", [{"keep": ["term"]}, {"dtypes": {"term": "category"}}])
def test_a_text_that_is_used_and_holds_the_target_is_warned_of(options):
    table = pd.DataFrame({"term": [f"{t} ({d})" for t, d in zip(TEXTS, DIED, strict=True)], "x": Y, "died": DIED})
    scored = score(table, "died", n_estimators=5, **options)
    assert re.match(r".*\bterm\b.*100%.*\bdied\b", scored.warnings[0])


MONEY = {
    "code": lambda y: f"EUR {y:,.2f}",
    "code behind": lambda y: f"{y:,.2f} EUR",
    "decimal comma": lambda y: f"{y:,.2f} €".replace(",", "_").replace(".", ",").replace("_", "."),
    "thousands": lambda y: f"USD {y / 1000:.5f}k",
    "some in thousands": lambda y: f"${y / 1000:.5f}K" if y > 20_000 else f"${y:.2f}",
    "millions": lambda y: f"€{y / 1e6:.8f}M",
    "negative": lambda y: f"({y:,.2f})",
    "negative amounts": lambda y: f"(${y:,.2f})",
    "apostrophes": lambda y: f"CHF {y:,.2f}".replace(",", "'"),
    "narrow blanks": lambda y: f"{y:,.2f} €".replace(",", "\u202f").replace(".", ","),
}


@pytest.mark.parametrize("form", MONEY)
def test_a_copy_as_money_is_a_leak(form):
    table = pd.DataFrame({"x": OTHERS["b"], "price": 1000 * Y, "listed": [MONEY[form](y) for y in 1000 * Y]})
    scored = score(table, "price", n_estimators=5)
    assert re.match(r".*\blisted\b.*100%.*\bprice\b", scored.warnings[0])


def test_leaks_are_warned_of_and_left_out():
    table = TABLE.assign(log=np.exp(TABLE["amount"] / TABLE["amount"].max())).drop(columns="y")
    scored = score(table, "amount", n_estimators=10)
    assert re.match(r".*\blog\b.*100%.*\bamount\b", scored.warnings[0])
    assert scored.warnings[0].endswith("keep=['log']")
    assert repr(scored).startswith(f"warning: {scored.warnings[0]}")
    assert find_dtypes(scored)["log"] == "possible leak"
    without = score(table, "amount", drop="log", n_estimators=10)
    assert find_values(scored) == find_values(without)
    assert not any("explains" in warning for warning in without.warnings)
    kept = score(table, "amount", keep="log", n_estimators=10)
    assert kept.warnings[0].endswith("drop=['log']")
    assert kept.result.feature_names[kept.result.order[0]] == "log"


def test_report_of_python_users_has_the_argument(tmp_path):
    pytest.importorskip("altair")
    scored = score(TABLE.assign(log=TABLE["amount"] / 2).drop(columns="y"), "amount", n_estimators=5)
    scored.report(tmp_path / "report.html")
    page = html.unescape((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "pass keep=['log']" in page.partition('id="summary"')[0]


def test_both_columns_of_a_pair_are_left_out_unless_one_is_kept():
    part, share = PART, np.random.default_rng(3).uniform(0.2, 0.8, N_ROWS) * Y
    table = OTHERS.assign(part=part, other=Y - part, share=share, rest=Y - share, y=Y)
    scored = score(table, "y", n_estimators=5)
    assert set(scored.result.feature_names) == {"a", "b", "c"}
    assert [set(warning.suggestion["keep"]) for warning in scored.warnings if "together" in warning] in (
        [{"part", "other"}, {"share", "rest"}],
        [{"share", "rest"}, {"part", "other"}],
    )
    kept = score(table, "y", n_estimators=5, keep="part")
    assert set(kept.result.feature_names) == {"a", "b", "c", "part"}
    (warning,) = [text for text in kept.warnings if "part" in text]
    assert not find_lacking(warning, "other is left out", "keep=['other']")


def test_a_leak_is_used_if_nothing_else_is_left():
    scored = score(pd.DataFrame({"x": Y, "y": 2 * Y + 1}), "y", n_estimators=5)
    assert scored.result.feature_names.tolist() == ["x"]
    assert not find_lacking(scored.warnings[0], "x", "100%", "y")
    assert "left out" not in scored.warnings[0]


def test_many_leaks_are_listed():
    copies = pd.DataFrame({f"copy {k}": TABLE["amount"] ** (2 * k + 1) for k in range(8)})
    scored = score(copies.assign(amount=TABLE["amount"], x=TABLE["x"]), "amount", n_estimators=5)
    assert sum("alone explains" in warning for warning in scored.warnings) == 5
    assert not find_lacking(scored.warnings[5], "copy 5, copy 6, copy 7")
