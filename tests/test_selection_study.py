"""The study of selection: its data sets are as described, its methods run, and a run that was stopped continues."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from helpers.installed import lacks_any

pytestmark = pytest.mark.any_engine

FOLDER = Path(__file__).parent.parent / "experiments" / "selection"
BOOSTERS = ("lightgbm", "xgboost")  # the other peers are not installed for tests


@pytest.fixture
def study(monkeypatch):
    """Modules of the study by name, with small forests; they are forgotten afterwards."""
    monkeypatch.syspath_prepend(FOLDER)
    names = [file.stem for file in FOLDER.glob("*.py")]
    modules = {name: import_module(name) for name in names}
    monkeypatch.setattr(modules["methods"], "N_TREES", 40)
    yield modules
    for name in names:
        del sys.modules[name]


def test_noise_is_independent_of_the_target_and_roles_fit(study):
    for name, design in study["designs"].DESIGNS.items():
        X, y = design.draw_rows(np.random.default_rng(0), 20_000)
        assert X.shape[1] == len(design.roles), name
        assert np.isfinite(X).all()
        noise = X[:, np.array(design.roles) == "noise"]
        correlation = np.abs(np.corrcoef(noise.T, y)[-1, :-1])
        assert (correlation < 5 / np.sqrt(len(y))).all(), name
        data, again = (design.draw(np.random.default_rng(1)) for _ in range(2))
        assert len(data.X) == design.n_rows
        assert len(data.X_test) == design.n_test
        assert np.array_equal(data.X, again.X)
        assert set(np.unique(data.y)) == {0, 1} if data.has_classes else len(np.unique(data.y)) >= 100


@pytest.mark.parametrize("has_classes", [False, True])
def test_every_method_finds_a_strong_signal(study, has_classes):
    methods = study["methods"]
    X = np.random.default_rng(0).standard_normal((150, 4))
    y = (X[:, 1] > 0).astype(int) if has_classes else X[:, 1]
    for name in methods.METHODS:
        library = methods.LIBRARIES.get(name)
        if library is None or (library in BOOSTERS and not lacks_any([library])):
            is_kept, seconds = methods.run_method(name, X, y, 0)
            assert is_kept[1], name
            assert name == "RFECV" or not is_kept.all(), name  # which may score best with all of them
            assert seconds > 0


def test_a_run_that_was_stopped_goes_on(study, tmp_path):
    results = tmp_path / "results.csv"
    asked = {"n_sets": 2, "designs": "nulls*", "methods": "MDI*", "n_jobs": 1}
    study["study"].run(results, **asked)
    whole = results.read_text()
    results.write_text(whole[:-20])
    study["study"].run(results, **asked)
    lines = pd.read_csv(results)
    assert results.read_text().splitlines()[:-1] == whole.splitlines()[:-1]
    assert len(lines) == 6
    assert not lines.duplicated(["design", "dataset", "method"]).any()
    table = study["tables"].summarize(lines).set_index("method")
    assert table.loc["all columns", "false discovery"] == 0.5
    assert table.loc["all columns", "false discovery, wide"] == 0.8
    assert table.loc["only the signals", ["power", "false discovery, wide"]].tolist() == [1, 0]
    study["plots"].draw_selection(table.reset_index(), tmp_path / "selection.png")
    assert (tmp_path / "selection.png").stat().st_size > 10_000


def test_lines_of_other_machines_replace_those_of_the_same_data_set(study, tmp_path):
    first, *lines = (FOLDER / "results.csv").read_text().splitlines()
    files = [tmp_path / name for name in ("own.csv", "other.csv")]
    changed = lines[2].replace("0,truewood ufi,", "0,truewood ufi,9")
    assert changed != lines[2]
    files[0].write_text("\n".join([first, *lines[:3], ""]))
    files[1].write_text("\n".join([first, changed, lines[3], ""]))
    study["study"].merge(*files[:1], files[1:])
    assert files[0].read_text().splitlines() == [first, *lines[:2], changed, lines[3]]
    files[1].write_text("design,dataset\n")
    with pytest.raises(ValueError, match="columns"):
        study["study"].merge(*files[:1], files[1:])


def test_the_table_in_the_document_is_the_committed_one(study):
    text = (FOLDER.parent.parent / "docs" / "selection.md").read_text(encoding="utf-8")
    lines = pd.read_csv(FOLDER / "results.csv")
    table = study["tables"].compare_methods(study["tables"].summarize(lines))
    committed = pd.read_csv(FOLDER / "methods.csv")
    pd.testing.assert_frame_equal(table, committed, rtol=1e-3, check_dtype=False)
    assert study["tables"].write_markdown(committed) in text
