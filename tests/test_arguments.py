"""Arguments that no function can use: one line that names the argument and the value, and nothing else."""

from __future__ import annotations

import json
import pickle
from copy import copy
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

import truewood as tw
from truewood import tabular
from truewood._arguments import check_n_jobs
from truewood._formatting import quote

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
y = X[:, 0] + rng.normal(size=60)
UNSEEN = rng.normal(size=(50, 3))
Y_UNSEEN = UNSEEN[:, 0] + rng.normal(size=50)
TABLE = pd.DataFrame(X, columns=list("abc")).assign(y=y)
LONG = "x" * 1_000_000


@pytest.fixture(scope="module")
def forest():
    return RandomForestRegressor(5, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def first(forest):
    return tw.ImportanceAccumulator(forest).update(UNSEEN, Y_UNSEEN)


@pytest.fixture(scope="module")
def second(first):
    return first.second_pass().update(UNSEEN, Y_UNSEEN)


@pytest.fixture(scope="module")
def result(forest):
    return tw.importance(forest, X, y)


BOOSTING = HistGradientBoostingRegressor(max_iter=3)
# What is called, with the arguments that are wrong.
CALLS = {
    "importance": lambda forest, **given: tw.importance(forest, **{"X": X, "y": y} | given),
    "explain": lambda forest, **given: tw.explain(forest, **{"X": UNSEEN, "rows": "heldout"} | given),
    "accumulator": lambda forest, **given: tw.ImportanceAccumulator(forest, **given),
    "update": lambda forest, **given: tw.ImportanceAccumulator(forest).update(**{"X": UNSEEN, "y": Y_UNSEEN} | given),
    "cross_importance": lambda _forest, **given: tw.cross_importance(
        **{"estimator": BOOSTING, "X": X, "y": y, "cv": 2} | given
    ),
    "permutation_test": lambda forest, **given: tw.permutation_test(
        **{"estimator": forest, "X": X, "y": y, "n_permutations": 2} | given
    ),
    "corrected_importance": lambda forest, **given: tw.corrected_importance(
        **{"estimator": forest, "X": X, "y": y} | given
    ),
    "selector": lambda forest, **given: tw.UnbiasedSelector(**{"estimator": forest} | given).fit(X, y),
    "score_table": lambda _forest, **given: tabular.score_table(TABLE, "y", **given),
    "settings": lambda _forest, **given: tabular.FitSettings(**given),
    "describe_table": lambda _forest, **given: tabular.describe_table(TABLE, **given),
    "correlated_groups": lambda _forest, **given: tw.correlated_groups(TABLE, **given),
    "load": lambda _forest, **given: tw.load(**given),
    "select": lambda forest, **given: tw.importance(forest, X, y).select(**given),
    "interval": lambda forest, **given: tw.importance(forest, X, y).interval(**given),
    "plot": lambda forest, **given: tw.importance(forest, X, y).plot(**given),
    "report": lambda forest, **given: tw.importance(forest, X, y).report("r.html", **given),
}
WRONG = {
    "n_jobs": ["a", 0, True, 1.5, np.nan, 10**30, [1], TABLE],
    "inference": ["yes", None, 1, TABLE, LONG],
    "per_class": [None, 1, TABLE],
    "engine": ["", [], TABLE, LONG],
    "measure": [None, TABLE, LONG, np.zeros((40, 40))],
    "random_state": ["a", -1, 1.5],
    "estimator": [None, "a", [], RandomForestRegressor],
    "X": [None, 1, np.array(1.0)],
    "y": [None, 1, np.array(1.0)],
    "target": ["a", [], {}, np.zeros((0, 3)), 1],
    "params": [1, TABLE],
    "n_permutations": [1, 1.5, "a", 10**30],
    "n_sample": [-1, True, "a"],
    "correction": ["x", TABLE, LONG],
    "alpha": [0, 2, "a", TABLE],
    "level": [0, 1, "a", TABLE],
    "threshold": [0, "a", TABLE],
    "dtypes": ["a", 1, [None], {"a": 1}, {1: "number"}],
    "settings": ["a", {}],
    "messages": ["a", []],
    "task": ["x", TABLE, LONG],
    "n_estimators": [0, 1.5, np.nan, 10**30, TABLE],
    "max_depth": [0, 1.5, 10**30],
    "max_features": [0, 1.5, 10**30, TABLE, LONG],
    "sample": [1, np.inf, TABLE, LONG],
    "model": [None, TABLE, LONG],
    "path": [None, 1],
    "prefit": [None, TABLE],
    "kind": [None, TABLE, LONG],
    "title": [1, [None]],
    "ax": ["a", 1],
    "explanation": ["a", TABLE],
    "notes": ["a", [None], TABLE],
}
TAKEN_BY = {
    "importance": ["n_jobs", "inference", "per_class", "engine", "measure"],
    "explain": ["n_jobs"],
    "accumulator": ["n_jobs", "n_sample", "inference", "measure", "engine", "target"],
    "update": ["X", "y"],
    "cross_importance": ["n_jobs", "inference", "estimator", "X", "y", "target", "params"],
    "permutation_test": ["n_jobs", "n_permutations", "random_state", "estimator"],
    "corrected_importance": ["n_jobs", "random_state", "estimator"],
    "selector": ["n_jobs", "prefit"],
    "score_table": ["dtypes", "settings", "messages", "task", "alpha", "measure"],
    "settings": ["n_jobs", "n_estimators", "max_depth", "max_features", "sample", "model", "random_state"],
    "describe_table": ["dtypes", "messages"],
    "correlated_groups": ["threshold"],
    "load": ["path"],
    "select": ["alpha", "correction"],
    "interval": ["level"],
    "plot": ["kind", "title", "ax", "explanation"],
    "report": ["title", "notes"],
}


@pytest.mark.parametrize(("call", "name"), [(call, name) for call, names in TAKEN_BY.items() for name in names])
def test_a_wrong_argument_is_one_line_that_names_it(call, name, forest):
    if call == "report":
        pytest.importorskip("altair")
        pytest.importorskip("vl_convert")
    for value in WRONG[name]:
        with pytest.raises((TypeError, ValueError)) as caught:
            CALLS[call](forest, **{name: value})
        text = str(caught.value)
        assert name in text, text
        assert "\n" not in text, text
        assert len(text) < 300, text
        frame = caught.traceback[-1]
        assert "truewood" in frame.path.parts, f"{frame.path}: {text}"


def test_flags_of_numpy_are_flags(forest, result):
    assert tw.importance(forest, X, y, inference=np.True_).p_value.tolist() == result.p_value.tolist()
    assert tw.importance(forest, X, y, inference=np.False_).inference_unavailable is not None
    accumulator = tw.ImportanceAccumulator(forest, inference=np.True_).update(UNSEEN, Y_UNSEEN)
    assert accumulator.finish().inference_unavailable is None
    assert tw.cross_importance(BOOSTING, X, y, cv=2, inference=np.False_).inference_unavailable is not None


def test_numbers_of_threads():
    assert check_n_jobs(None) == 1
    assert check_n_jobs(np.int64(2)) == 2
    assert check_n_jobs(-1) >= 1
    for wrong in (0, True, 1.0, "2", 2**31):
        with pytest.raises(ValueError, match=r"n_jobs.*\b0\b"):
            check_n_jobs(wrong)


def test_values_are_quoted_in_one_short_line():
    assert quote("a\nb") == r"'a\nb'"
    assert quote(np.zeros((2, 2))) == "array([[0., 0.], [0., 0.]])"
    assert len(quote(LONG)) == len(quote({LONG: [LONG]})) == 80


@pytest.mark.parametrize("version", [LONG, [LONG] * 3, {"a": LONG}, 10**4000, None])
def test_a_long_version_is_a_short_message(version, result, tmp_path):
    result.save(tmp_path / "r.json")
    content = json.loads((tmp_path / "r.json").read_text()) | {"version": version}
    (tmp_path / "r.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="format version") as caught:
        tw.load(tmp_path / "r.json")
    assert len(str(caught.value)) < 300


def test_fields_with_long_names_are_a_short_message(result, tmp_path):
    result.save(tmp_path / "r.json")
    content = json.loads((tmp_path / "r.json").read_text()) | {LONG: 1}
    (tmp_path / "r.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="damaged") as caught:
        tw.load(tmp_path / "r.json")
    assert len(str(caught.value)) < 300


def change(given, name, value):
    """The same object with another value, or without one, as a wrong program or a damaged file leaves it."""
    changed = object.__new__(type(given))
    changed.__dict__.update({key: own for key, own in given.__dict__.items() if key != name})
    if value is not None:
        changed.__dict__[name] = value[0]
    return changed


def list_changes(value):
    """Values that a field must not have, each in a tuple; None for no field at all."""
    changes = [None, (b"a",), (object(),), (np.array(1.0),), (TABLE,)]
    if isinstance(value, np.ndarray):
        changes += [(value[:-1],), (value.astype(object),), (value[..., np.newaxis],)] if value.size > 2 else []
    if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size:
        changes += [(value * np.nan,)]
    return changes


def with_sums(accumulator, name, value):
    """An accumulator with one field of its sums changed."""
    changed = copy(accumulator)
    changed._sums = change(accumulator._sums, name, value)
    return changed


def test_changed_sums_are_refused(first):
    n_tried = 0
    for part in fields(first._sums):
        for value in list_changes(getattr(first._sums, part.name)):
            changed = with_sums(first, part.name, value)
            for call in (
                lambda changed: first + changed,
                lambda changed: changed + first,
                lambda changed: changed.finish(),
                lambda changed: changed.second_pass(),
                lambda changed: pickle.loads(pickle.dumps(changed)),
                lambda changed: pickle.loads(pickle.dumps(changed.without_model())),
            ):
                with pytest.raises(ValueError, match=r"damaged: \w+"):
                    call(changed)
                n_tried += 1
            assert repr(changed) == "ImportanceAccumulator(RandomForestRegressor, damaged)"
    assert n_tried > 200


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("sums", lambda partial: partial.sums * 2),
        ("sums", lambda partial: partial.sums[::-1].copy()),
        ("sums", lambda partial: -partial.sums),
        ("leaf_offset", lambda partial: partial.leaf_offset[::-1].copy()),
        ("leaf_offset", lambda partial: partial.leaf_offset + 1),
        ("weight", lambda partial: partial.weight * 2),
        ("n_rows", lambda _partial: 0),
        ("n_scoring", lambda partial: partial.n_scoring + 1),
        ("origin", lambda _partial: np.zeros(2)),
        ("moments", lambda _partial: np.zeros((2, 5))),
        ("sample", lambda partial: replace(partial.sample, y=partial.sample.y + 1)),
        ("sample", lambda partial: replace(partial.sample, values=partial.sample.values[:, :1])),
        ("sample", lambda partial: replace(partial.sample, count=-partial.sample.count)),
        ("sample", lambda partial: replace(partial.sample, weight=partial.sample.weight[:-1])),
        ("copies", lambda partial: replace(partial.copies, size=1)),
        ("copies", lambda partial: replace(partial.copies, key=partial.copies.key[::-1].copy())),
        ("copies", lambda partial: replace(partial.copies, key=partial.copies.key.astype("f8"))),
        ("copies", lambda partial: replace(partial.copies, count=partial.copies.count + 1)),
        ("copies", lambda partial: replace(partial.copies, count=-partial.copies.count)),
        ("copies", lambda partial: replace(partial.copies, count=partial.copies.count[:-1])),
        ("copies", lambda partial: replace(partial.copies, values=partial.copies.values[:, :1])),
        ("copies", lambda partial: replace(partial.copies, values=partial.copies.values.astype("i8"))),
    ],
)
def test_sums_that_contradict_themselves_are_refused(name, make, first):
    with pytest.raises(ValueError, match="damaged"):
        with_sums(first, name, (make(first._sums),)).finish()


def test_changed_errors_are_refused(second):
    for part in fields(second._sums):
        for value in list_changes(getattr(second._sums, part.name)):
            changed = with_sums(second, part.name, value)
            for call in (lambda changed: second + changed, lambda changed: changed.finish()):
                with pytest.raises(ValueError, match="damaged"):
                    call(changed)
            assert repr(changed).endswith("second pass, damaged)")
