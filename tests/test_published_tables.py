"""Tables that others published: designs and closed forms are as published, and the page shows the measured numbers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import toeplitz

from helpers.docs_pages import DOCS, ROOT
from helpers.installed import lacks_any

pytestmark = pytest.mark.any_engine

FOLDER = ROOT / "experiments" / "published"
TABLES = ("citrees", "hidimstat_tests", "li_2019", "mdi_plus", "scikit_learn_31279", "sobol_mda", "unbiased_gbm")


@pytest.fixture
def tables(monkeypatch):
    """Modules of the tables by name, with small forests; they are forgotten afterwards."""
    monkeypatch.syspath_prepend(FOLDER)
    names = ("common", *TABLES)
    modules = {name: import_module(name) for name in names}
    for module in modules.values():
        if hasattr(module, "N_TREES"):
            monkeypatch.setattr(module, "N_TREES", 10)
    yield modules
    for name in names:
        del sys.modules[name]


@pytest.mark.parametrize("name", TABLES)
def test_the_page_holds_the_committed_table(tables, name):
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    shown = tables[name].show(pd.read_csv(FOLDER / f"{name}.csv"))
    assert len(shown.splitlines()) > 5
    assert shown in text


def test_tables_of_the_page_are_those_beside_the_scripts():
    page, readme = (path.read_text(encoding="utf-8") for path in (DOCS / "published.md", FOLDER / "README.md"))
    shown = re.findall(r"(?:^\|.*\|\n)+", page, re.MULTILINE)[1:]
    assert len(shown) > 5
    assert not [table for table in shown if table not in readme]


def test_published_figures_are_in_the_committed_table(tables):
    """All of them, also those of methods that were not run."""
    found = pd.read_csv(FOLDER / "citrees.csv").set_index(["task", "method"])["published"]
    for task, ranks in tables["citrees"].PUBLISHED.items():
        assert found[task].dropna().to_dict() == ranks
        n = len(ranks)
        assert sum(ranks.values()) == pytest.approx(n * (n + 1) / 2, abs=0.01 * n)
    found = pd.read_csv(FOLDER / "li_2019.csv").dropna(subset="published")
    assert len(found) == 4 * sum(map(len, tables["li_2019"].PUBLISHED.values()))


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_levels_of_li_and_others(tables, kind):
    li = tables["li_2019"]
    X, y, is_signal = li.draw(f"levels, {kind}", np.random.default_rng(0))
    assert X.shape == (1000, 50)
    assert [len(np.unique(column)) for column in X.T] == list(range(2, 52))
    assert is_signal.sum() == 5
    assert not is_signal[10:].any()
    assert set(y) == {0, 1} if kind == "classes" else y.std() > 10 * X[:, is_signal].mean(axis=1).std()


def test_chip_columns_are_permuted_but_for_signals(tables, monkeypatch, tmp_path):
    li, (variable, name) = tables["li_2019"], tables["li_2019"].CHIP
    table = pd.DataFrame(np.random.default_rng(0).random((60, 8)))
    table.to_csv(tmp_path / name)
    monkeypatch.setenv(variable, str(tmp_path))
    X, _, is_signal = li.draw("ChIP, classes", np.random.default_rng(0))
    same = (li.read_chip() == X).all(axis=0)
    assert np.array_equal(same, is_signal)
    assert np.allclose(np.sort(X, axis=0), np.sort(li.read_chip(), axis=0))


def test_a_run_that_was_stopped_goes_on(tables, tmp_path):
    li, checkpoint = tables["li_2019"], tmp_path / "li_2019.jsonl"
    cells = [("levels, classes", "shallow", k) for k in range(2)]
    whole = tables["common"].complete("li_2019", cells, checkpoint, 1)
    text = checkpoint.read_text()
    checkpoint.write_text(text[:-20])
    again = tables["common"].complete("li_2019", cells, checkpoint, 1)
    pd.testing.assert_frame_equal(whole, again)
    assert sorted(checkpoint.read_text().splitlines()) == sorted(text.splitlines())
    table = li.tabulate(whole)
    measured = table.dropna(subset="measured")
    assert measured["method"].tolist() == list(li.METHODS)
    assert (measured["repetitions"] == 2).all()
    assert measured["measured"].between(0, 1).all()
    assert "(0.63)" in li.show(table)


@pytest.mark.slow
def test_a_command_runs_in_processes(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6))
    np.savez(tmp_path / "reg_drawn.npz", X=X, y=X[:, 1])
    command = [
        sys.executable,
        str(FOLDER / "citrees.py"),
        "--n-jobs",
        "2",
        "--repetitions",
        "1",
        "--output",
        str(tmp_path),
    ]
    subprocess.run(command, check=True, env=os.environ | {"TRUEWOOD_CITREES": str(tmp_path)}, capture_output=True)
    table = pd.read_csv(tmp_path / "citrees.csv")
    assert (table["tables"].dropna() == 1).all()
    assert len((tmp_path / "citrees.jsonl").read_text().splitlines()) == 5


def test_designs_of_hidimstat(tables):
    for case in tables["hidimstat_tests"].DESIGNS.values():
        X, y, is_signal = case.draw(3)
        assert X.shape == (case.n_rows, case.n_columns)
        assert is_signal.sum() == case.n_signals
        signal = X[:, is_signal].sum(axis=1)
        ratio = np.sum(signal**2) / np.sum((y - signal) ** 2)
        assert ratio == pytest.approx(case.signal_to_noise)
        found, expected = np.corrcoef(X.T), toeplitz(case.correlation ** np.arange(case.n_columns))
        assert np.abs(found - expected).max() < 5 / np.sqrt(case.n_rows)


def test_tests_beside_hidimstat(tables):
    study = tables["hidimstat_tests"]
    study.N_TREES = 60
    methods = ("truewood", "truewood, residual test", "correlation, column by column")
    lines = pd.DataFrame([line for name in methods for line in study.measure("5 of 50, LOCO", name, 0)])
    table = study.tabulate(lines)
    assert table["method"].tolist() == list(methods)
    assert (table["power"] == 1).all()
    assert (table["false"] <= 0.5).all()


def test_scores_of_the_pull_request(tables):
    table = tables["scikit_learn_31279"].tabulate()
    assert len(table) == 20
    assert table["difference"].max() < 1e-15
    assert (table.query("feature < 3")["pull_request"] > 0.02).all()


@pytest.mark.parametrize("name", ["switch", "sum"])
def test_total_sobol_indices(tables, name):
    """By drawing each column again, given the others."""
    design, rng, n = tables["sobol_mda"].DESIGNS[name], np.random.default_rng(0), 400_000
    noise, tables["sobol_mda"].NOISE = tables["sobol_mda"].NOISE, 0
    X, mean = design.draw(rng, n)
    assert mean.var() == pytest.approx(design.find_variance(), rel=0.02)
    tables["sobol_mda"].NOISE = noise
    pairs = {0: (1, design.first), 1: (0, design.first), 2: (2, 0), 3: (4, design.second), 4: (3, design.second)}
    for j, (partner, correlation) in pairs.items():
        moved = X.copy()
        moved[:, j] = correlation * X[:, partner] + np.sqrt(1 - correlation**2) * rng.standard_normal(n)
        index = np.mean((evaluate(design, X) - evaluate(design, moved)) ** 2) / 2 / (1.1 * design.find_variance())
        assert design.find_indices()[j] == pytest.approx(index, rel=0.03)


def evaluate(design, X):
    if design.kind == "sum":
        return design.a * (X[:, 0] + X[:, 1]) + design.b * (X[:, 3] + X[:, 4]) + X[:, 2]
    return np.where(X[:, 2] > 0, design.a * X[:, 0] * X[:, 1], design.b * X[:, 3] * X[:, 4])


@pytest.mark.skipif(lacks_any(["lightgbm"]), reason="needs LightGBM")
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_unbiased_gain_of_the_training_rows_is_the_gain(tables, task):
    import lightgbm as lgb

    study = tables["unbiased_gbm"]
    fit = study.draw(np.random.default_rng(0), 500, 0.5, task)
    X = fit[0].astype(float)  # numbers, since LightGBM's gain of categories is smoothed
    make = lgb.LGBMRegressor if task == "regression" else lgb.LGBMClassifier
    booster = make(n_estimators=1, learning_rate=1, n_jobs=1, verbose=-1).fit(X, fit[1]).booster_
    share = fit[1].mean()
    scale = 1 if task == "regression" else share * (1 - share)
    gain = study.find_unbiased_gain(booster, (X, fit[1]), (X, fit[1])) / scale
    assert gain == pytest.approx(booster.feature_importance("gain"), rel=1e-3, abs=1e-3)


@pytest.mark.skipif(lacks_any(["lightgbm"]), reason="needs LightGBM")
def test_the_toy_of_unbiased_gbm(tables):
    study = tables["unbiased_gbm"]
    lines = pd.DataFrame(
        [line for k in range(2) for s in study.STRENGTHS for line in study.measure("regression", s, k)]
    )
    table = study.tabulate(lines)
    strong = table[(table["column"] == "X2") & (table["strength"] == 0.4)].set_index("method")["rank"]
    assert strong["truewood"] == 1
    assert "± " in study.show(table)


def test_responses_on_real_covariates(tables):
    study = tables["mdi_plus"]
    X = study.read_covariates("breast cancer")
    assert np.allclose(X.mean(axis=0), 0)
    assert set(study.respond("LSS", X)[0]) <= {0, 1, 2, 3}
    rows = np.array([[1.0, 2, 3, 4, 5, 6, 7]])
    assert study.respond("linear", rows)[0] == 15
    assert study.respond("polynomial", rows)[0] == 2 * 3 + 4 * 5 + 6 * 7
    assert study.respond("linear and LSS", rows)[0] == 1 + 3 + 5 + 3
    X, y, is_signal = study.draw("digits", "linear", "numbers", 0.1, 500, np.random.default_rng(0))
    explained = np.var(X[:, is_signal].sum(axis=1)) / np.var(y)
    assert explained == pytest.approx(0.1, abs=0.05)


def test_ranks_on_real_covariates(tables):
    study = tables["mdi_plus"]
    lines = []
    for response in study.RESPONSES:
        for kind, strengths in study.STRENGTHS.items():
            lines += study.measure("breast cancer", response, kind, strengths[1], 250, 0)
    table = study.tabulate(pd.DataFrame(lines))
    assert table["measured"].between(0, 1).all()
    assert (table.loc[table["method"] == "truewood, default", "gain"] == 0).all()
    assert study.show(table).count("\n| ") == 3 * (2 + table["method"].nunique())  # all responses, numbers, classes


def test_refits_on_the_first_columns(tables, monkeypatch, tmp_path):
    study, rng = tables["citrees"], np.random.default_rng(0)
    monkeypatch.setattr(study, "DATA", tmp_path)
    X = rng.standard_normal((60, 12))
    np.savez(tmp_path / "clf_drawn.npz", X=X, y=np.where(X[:, 1] > 0, 7, 3))
    np.savez(tmp_path / "reg_drawn.npz", X=X, y=X[:, 1])
    np.savez(tmp_path / "reg_synthetic_drawn.npz", X=X, y=X[:, 1])
    assert sorted(study.list_tables("*")) == ["clf_drawn", "reg_drawn"]
    lines = pd.DataFrame([line for name in ("clf_drawn", "reg_drawn") for line in study.measure(name, 0, 0)])
    assert set(lines["k"]) == {5, 10}
    table = study.tabulate(lines)
    for task, n in (("classification", 9), ("regression", 8)):
        own = table[(table["task"] == task) & table["measured"].notna()]
        assert len(own) == n
        assert own["measured"].sum() == pytest.approx(n * (n + 1) / 2)
        assert own["score"].max() > 0.7
    assert study.show(table).count("\n| ") == 2 * 2 + 17  # a table for each task
