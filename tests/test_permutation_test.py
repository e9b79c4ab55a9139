"""The test by refits: p-values, reproducibility, and the file that keeps what is done."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse, stats
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import shuffle

import truewood as tw
from helpers.messages import find_lacking
from truewood._formatting import find_unit
from truewood._permutation_test import PermutationTestResult

pytestmark = pytest.mark.any_engine

rng = np.random.default_rng(0)
X = rng.standard_normal((50, 4))
y = (X[:, 1] > 0).astype(int)
FOREST = RandomForestClassifier(5)


def run(estimator=FOREST, X=X, y=y, **options):
    return tw.permutation_test(estimator, X, y, **({"n_permutations": 4, "random_state": 0} | options))


def assert_same(one, other):
    np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.null, other.null)


def test_p_values_by_hand():
    null = np.array([[0.0, 1.0, 0.0], [2.0, 3.0, 0.0], [4.0, 2.0, 0.0]])
    test = PermutationTestResult(np.array([2.0, 5.0, 0.0]), null, np.array(["a", "b", "c"]), "ufi")
    np.testing.assert_array_equal(test.p_value, [3 / 4, 1 / 4, 1.0])
    np.testing.assert_allclose(test.normal_p_value, [0.5, stats.norm.sf(3.0), 1.0], rtol=1e-12)
    used = dataclasses.replace(test, values=np.array([2.0, 5.0, 1.0]))
    assert used.normal_p_value[2] == 0.0
    table = test.frame()
    assert list(table) == ["feature", "importance", "null_mean", "null_std", "p_value", "normal_p_value", "rank"]
    assert table["feature"].tolist() == ["b", "a", "c"]
    assert table["null_mean"].tolist() == [2.0, 2.0, 0.0]
    assert table["null_std"].tolist() == [1.0, 2.0, 0.0]
    assert table["p_value"].tolist() == [1 / 4, 3 / 4, 1.0]


def test_repr_and_picture():
    test = run(n_permutations=9)
    lines = repr(test).splitlines()
    assert not find_lacking(lines[0], "PermutationTestResult: ufi, 9 permutations", "0.1")
    assert " ".join(lines[1].split()) == "feature importance null mean null std p-value p-value (normal)"
    assert lines[2].split()[0] == "x1"
    # Terminal and notebook show the same digits, those of the report.
    value = find_unit(test.values.tolist()).write(test.values.max())
    assert value in lines[2].split()
    assert all(f">{cell}<" in test._repr_html_() for cell in lines[2].replace("<", "&lt;").split()[1:])
    assert len(lines) == 6
    ax = test.plot(top=3)
    null, scores = ax.lines[0], ax.lines[1]
    assert len(null.get_xdata()) == 27
    np.testing.assert_array_equal(scores.get_xdata(), np.sort(test.values)[::-1][:3])
    assert [label.get_text() for label in ax.get_yticklabels()] == test.frame()["feature"][:3].tolist()
    assert ax.texts[0].get_text() == "p = 0.100"
    with pytest.raises(ValueError, match=r"top.*\b1\b"):
        test.plot(top=0)


def test_results_are_frozen():
    test = run()
    with pytest.raises(dataclasses.FrozenInstanceError):
        test.measure = "mdi"
    for array in (test.values, test.null):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_scores_are_those_of_importance():
    forest = RandomForestClassifier(5, random_state=7)
    test = run(forest)
    assert test.null.shape == (4, 4)
    assert test.feature_names.tolist() == ["x0", "x1", "x2", "x3"]
    assert test.measure == "ufi"
    np.testing.assert_array_equal(test.values, tw.importance(forest.fit(X, y), X, y).values)
    # Each null score is that of some permutation, and no two are alike.
    assert len(np.unique(test.null, axis=0)) == 4
    seed = np.random.RandomState(0).randint(np.iinfo(np.int32).max)
    permuted = shuffle(y, random_state=int(np.random.default_rng([seed, 3]).integers(np.iinfo(np.int32).max)))
    np.testing.assert_array_equal(test.null[2], tw.importance(forest.fit(X, permuted), X, permuted).values)


def test_estimator_and_data_are_left_alone():
    before = X.copy(), y.copy()
    run()
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(y, before[1])
    assert not hasattr(FOREST, "estimators_")
    assert FOREST.random_state is None


def test_seeds():
    assert_same(run(), run())
    assert not np.array_equal(run(random_state=1).null, run().null)
    assert not np.array_equal(run(random_state=1).values, run().values)
    assert_same(run(random_state=np.random.RandomState(0)), run())
    # Seeds of parts are set too.
    bags = BaggingClassifier(DecisionTreeClassifier(max_features=1), n_estimators=4)
    assert_same(run(bags), run(bags))


@pytest.mark.parametrize("measure", ["ufi", "permutation"])
def test_the_number_of_processes_changes_nothing(measure):
    assert_same(run(measure=measure), run(measure=measure, n_jobs=2))


def test_more_permutations_continue_fewer():
    np.testing.assert_array_equal(run(n_permutations=6).null[:4], run().null)


def test_groups_weights_and_measure(rng):
    weight = rng.integers(1, 4, size=50).astype(float)
    forest = RandomForestClassifier(5, random_state=0)
    options = {"feature_groups": {"pair": [0, 2]}, "sample_weight": weight, "measure": "mdi"}
    test = run(forest, **options)
    expected = tw.importance(forest.fit(X, y, weight), X, y, **options)
    assert test.feature_names.tolist() == ["pair", "x1", "x3"]
    np.testing.assert_array_equal(test.values, expected.values)
    assert test.measure == "mdi"


@pytest.mark.parametrize(
    "container",
    [pd.DataFrame, sparse.csr_array, np.ndarray.tolist],
    ids=["frame", "csr", "list"],
)
def test_containers(container):
    assert_same(run(X=container(X)), run())
    target = np.array(["no", "yes"])[y]
    for labels in (target, target.tolist(), pd.Series(target, index=range(100, 150))):
        assert_same(run(y=labels), run())


def test_several_outputs():
    several = np.column_stack([y, X[:, 0] > 0]).astype(float)
    test = run(RandomForestRegressor(5), y=several)
    assert test.null.shape == (4, 4)
    assert set(np.argsort(test.values)[-2:]) == {0, 1}


@pytest.mark.parametrize("n_permutations", [1, 0, -3])
def test_too_few_permutations_are_refused(n_permutations):
    with pytest.raises(ValueError, match=rf"n_permutations.*\b2\b.*{n_permutations}"):
        run(n_permutations=n_permutations)


def test_estimators_without_bags_are_refused():
    for estimator in (ExtraTreesClassifier(3), GradientBoostingClassifier(n_estimators=2)):
        with pytest.raises(ValueError, match=rf"estimator.*{type(estimator).__name__}.*bootstrap"):
            run(estimator)


def test_it_is_silent_without_a_terminal(capfd):
    run(n_jobs=2)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("progress", [True, False])
def test_it_shows_progress_in_a_terminal(progress, monkeypatch, capfd):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes any output for a terminal
    run(progress=progress)
    out, err = capfd.readouterr()
    assert out == ""
    assert ("4/4" in err) is progress


class _StoppedError(Exception):
    pass


class _StopsAt(RandomForestClassifier):
    """A forest that fails in some fit, as if the run were stopped there."""

    fits = 0
    last = 0

    def fit(self, X, y, sample_weight=None):
        type(self).fits += 1
        if type(self).fits > self.last > 0:
            raise _StoppedError
        return super().fit(X, y, sample_weight)


def test_a_stopped_run_goes_on_where_it_was(tmp_path, monkeypatch):
    path, forest = tmp_path / "test.jsonl", _StopsAt(5)
    expected = run(forest)
    monkeypatch.setattr(_StopsAt, "fits", 0)
    monkeypatch.setattr(_StopsAt, "last", 3)
    with pytest.raises(_StoppedError):
        run(forest, resume=path)
    head, *entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert head["format"] == "truewood.permutation_test"
    assert [entry["permutation"] for entry in entries] == [1, 2]
    monkeypatch.setattr(_StopsAt, "fits", 0)
    assert_same(run(forest, resume=str(path)), expected)
    # The data as it is, and two permutations.
    assert _StopsAt.fits == 3


def test_a_file_can_grow_and_give_less(tmp_path):
    path = tmp_path / "test.jsonl"
    run(resume=path)
    assert_same(run(resume=path, n_permutations=7, n_jobs=2), run(n_permutations=7))
    assert len(path.read_text().splitlines()) == 8
    assert_same(run(resume=path, n_permutations=3), run(n_permutations=3))


def test_no_seed_goes_on_with_the_seed_of_the_file(tmp_path):
    path = tmp_path / "test.jsonl"
    first = run(resume=path, random_state=None)
    assert_same(run(resume=path, random_state=None), first)
    assert not np.array_equal(run(random_state=None).null, first.null)


def test_a_line_that_was_cut_off_is_dropped(tmp_path):
    path = tmp_path / "test.jsonl"
    expected = run(resume=path)
    path.write_text(path.read_text()[:-10])
    assert_same(run(resume=path), expected)
    assert len(path.read_text().splitlines()) == 5


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"X": X + 1e-9}, "X"),
        ({"y": 1 - y}, "y"),
        ({"estimator": RandomForestClassifier(6)}, "estimator"),
        ({"random_state": 1}, "random_state"),
        ({"measure": "mdi"}, "measure"),
        ({"feature_groups": [0, 0, 1, 2]}, "feature_groups"),
        ({"sample_weight": np.ones(50)}, "sample_weight"),
        ({"measure": "mdi", "random_state": 1}, "random_state and a different measure"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_of_another_test_is_refused(change, name, tmp_path):
    path = tmp_path / "test.jsonl"
    run(resume=path)
    before = path.read_text()
    with pytest.raises(ValueError, match=rf"resume='.*test\.jsonl'.*{name}"):
        run(**change, resume=path)
    assert path.read_text() == before


def test_a_pipeline_of_text_goes_on_and_takes_weights(tmp_path):
    path, weight = tmp_path / "test.jsonl", np.ones(50)
    table = pd.DataFrame(X[:, :2], columns=["a", "b"]).assign(c=np.where(X[:, 2] > 0, "yes", "no"))
    encoder = make_column_transformer((OneHotEncoder(), ["c"]), remainder="passthrough")
    options = {"estimator": make_pipeline(encoder, FOREST), "sample_weight": weight, "n_permutations": 2}
    expected = run(X=table, **options, resume=path)
    assert_same(expected, run(X=table, **options))
    assert_same(expected, run(X=pl.from_pandas(table), **options, resume=path))
    with pytest.raises(ValueError, match=r"another X\b|different X\b"):
        run(X=table.assign(c=table["c"][::-1].to_numpy()), **options, resume=path)


def test_the_container_of_the_data_is_not_another_test(tmp_path):
    path = tmp_path / "test.jsonl"
    run(resume=path)
    assert_same(run(X=pd.DataFrame(X), y=y.tolist(), resume=path), run())


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "a,b\n1,2", "[]", '{"a": 1}\n'])
def test_files_of_others_are_refused_and_kept(text, tmp_path):
    (tmp_path / "data.csv").write_text(text)
    with pytest.raises(ValueError, match=r"data\.csv'.*permutation_test"):
        run(resume=tmp_path / "data.csv")
    assert (tmp_path / "data.csv").read_text() == text


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "test.jsonl"
    run(resume=path)
    lines = path.read_text().splitlines()
    lines[2] = lines[2][5:]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=r"line 3\b"):
        run(resume=path)


@pytest.mark.statistical
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_binary_signal_is_found_among_levels(task):
    # Ten ordered features of 2 to 11 levels, of which only the binary one is informative; z is about 6.8 in 400 rows.
    p_values, normal = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = np.column_stack([rng.integers(levels, size=400) for levels in range(2, 12)])
        forest, y = RandomForestClassifier(10), rng.random(400) < np.where(X[:, 0] == 1, 0.66, 0.34)
        if task == "regression":
            forest, y = RandomForestRegressor(10), X[:, 0] + 1.5 * rng.standard_normal(400)
        test = tw.permutation_test(forest, X, y, n_permutations=39, random_state=seed)
        p_values.append(test.p_value)
        normal.append(test.normal_p_value)
    p_values, normal = np.array(p_values), np.array(normal)
    assert (p_values[:, 0] == 1 / 40).all()
    assert (normal[:, 0] < 1e-6).all()
    # 27 p-values of noise: uniform, so that the mean is 0.5 with standard error 0.056 were they independent, and more
    # than 5 of 27 at or below 0.05 has a probability below 0.3 %.
    for noise in (p_values[:, 1:], normal[:, 1:]):
        assert 0.3 < noise.mean() < 0.7
        assert (noise <= 0.05).sum() <= 5
