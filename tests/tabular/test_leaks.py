"""Columns that are the target in other words, or parts of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_linnerud, load_wine

from mixed_table import TABLE, score
from truewood.tabular.leaks import find_leaks

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
    # The squared rank correlation of normal variables, which is nearly all that x tells of the ranks of y.
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


def test_leaks_are_warned_of_and_left_out():
    table = TABLE.assign(log=np.exp(TABLE["amount"] / TABLE["amount"].max())).drop(columns="y")
    scored = score(table, "amount", n_trees=10)
    assert scored.warnings[0] == (
        "log alone tells 100.0% of amount: it may be the target in other words, or known only after it; leave it out "
        "then with drop=['log']"
    )
    assert not any("alone tells" in warning for warning in score(table, "amount", drop="log", n_trees=10).warnings)


def test_many_leaks_are_listed():
    copies = pd.DataFrame({f"copy {k}": TABLE["amount"] ** (2 * k + 1) for k in range(8)})
    scored = score(copies.assign(amount=TABLE["amount"], x=TABLE["x"]), "amount", n_trees=5)
    assert sum("alone tells" in warning for warning in scored.warnings) == 5
    assert scored.warnings[5] == "the same holds for copy 5, copy 6, copy 7"
