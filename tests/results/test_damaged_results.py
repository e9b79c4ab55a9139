"""Saved results that were changed: what `load` takes works in every way, all else is refused in one line."""

from __future__ import annotations

import copy
import json
import random

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor

import truewood as tw

pytestmark = pytest.mark.any_engine

ODD = [None, True, False, 0, -1, 3, 10**400, 1e308, -0.5, 1e-320, "", "ufi", "rows", "\x1b[31m", "\ud800", [], [[]]]
ODD += [{}, [None], ["a"], [1.0], [[1.0, 2.0], [3.0]], {"values": []}, float("inf"), float("nan"), "mdi", "oob"]


def make_results():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = X[:, 1] > 0
    forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    boosted = GradientBoostingClassifier(n_estimators=3, random_state=0).fit(X[:40], y[:40])
    both = RandomForestRegressor(3, random_state=0).fit(X, X[:, :2])
    return {
        "rows": tw.importance(forest, X, y, contributions=True),
        "feature_groups": tw.importance(forest, X, y, feature_groups={"a": [0, 1]}),
        "row groups": tw.importance(boosted, X[40:], y[40:], rows="heldout", groups=range(20), contributions=True),
        "plain": tw.importance(forest, X, y, inference=False, measure="mdi"),
        "boosting": tw.importance(boosted, X[40:], y[40:], rows="heldout"),
        "classes": tw.importance(forest, X, y, per_class=True),
        "outputs": tw.importance(both, X, X[:, :2]),
        "corrected": tw.corrected_importance(RandomForestClassifier(5), X, y, random_state=0),
    }


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """What the files of some results hold."""
    path = tmp_path_factory.mktemp("results") / "result.json"
    contents = {}
    for name, result in make_results().items():
        result.save(path)
        contents[name] = json.loads(path.read_text())
    return contents


def list_places(content, place=()):
    """All places of a JSON value, as the keys and numbers that lead there."""
    yield place
    if isinstance(content, dict | list):
        for key in content if isinstance(content, dict) else range(len(content)):
            yield from list_places(content[key], (*place, key))


def mutate(content, rng):
    """Replace, remove, add or exchange something at a few places; fields more often than single numbers."""
    content = copy.deepcopy(content)
    for _ in range(rng.choice([1, 1, 2])):
        places = [place for place in list_places(content) if place]
        fields = [place for place in places if len(place) == 1 or (place[0] == "columns" and len(place) == 2)]
        place = rng.choice(fields if rng.random() < 0.7 else places)
        owner = content
        for key in place[:-1]:
            owner = owner[key]
        kind = rng.choice(["replace", "replace", "replace", "remove", "repeat", "exchange", "nest"])
        if kind == "replace":
            owner[place[-1]] = copy.deepcopy(rng.choice(ODD))
        elif kind == "remove":
            del owner[place[-1]]
        elif kind == "nest":
            owner[place[-1]] = [owner[place[-1]]]
        elif kind == "repeat" and isinstance(owner, list):
            owner.append(owner[place[-1]])
        elif isinstance(owner, dict):
            owner[place[-1]] = owner[rng.choice(list(owner))]
    return content


def use(result, folder):
    """Whatever one can do with a result."""
    assert repr(result)
    assert result._repr_html_()
    result.frame()
    for kind in ("bar", "compare", "box", "rank"):
        result.plot(kind, ax=Figure().subplots()).figure.savefig(folder / "a.svg")
    result.select(k=1)
    if result.inference_unavailable is None:
        result.interval()
        result.adjusted_p_value("holm")
    if result.columns is not None:
        result.expand().frame()
    assert isinstance(result.total_p_value, float)
    result.save(folder / "again.json")
    tw.load(folder / "again.json")


@pytest.mark.parametrize("name", ["rows", "feature_groups", "plain", "boosting", "outputs", "corrected"])
def test_a_changed_result_is_refused_or_works(name, saved, tmp_path):
    path = tmp_path / "result.json"
    rng, n_refused = random.Random(name), 0
    for _ in range(150):
        path.write_text(json.dumps(mutate(saved[name], rng)))
        try:
            result = tw.load(path)
        except ValueError as error:
            message = str(error)
            n_refused += 1
            assert message.startswith(str(path))
            assert "\n" not in message
            assert len(message) < len(str(path)) + 300
            continue
        with np.errstate(over="ignore"):
            use(result, tmp_path)
    assert 55 < n_refused < 150


@pytest.mark.parametrize("name", ["rows", "feature_groups", "plain", "boosting"])
def test_a_changed_result_that_loads_has_a_report(name, saved, tmp_path):
    pytest.importorskip("altair")
    path = tmp_path / "result.json"
    rng, n_reports = random.Random(name), 0
    while n_reports < 3:
        path.write_text(json.dumps(mutate(saved[name], rng)))
        try:
            result = tw.load(path)
        except ValueError:
            continue
        result.report(tmp_path / f"{n_reports}.html")
        n_reports += 1
    assert all((tmp_path / f"{number}.html").stat().st_size > 10_000 for number in range(n_reports))


@pytest.mark.parametrize("n_bytes", [0, 1, 100, 1000])
def test_a_file_that_was_cut_off_is_refused(n_bytes, saved, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(saved["rows"])[:n_bytes])
    with pytest.raises(ValueError, match=r"ImportanceResult\.save"):
        tw.load(tmp_path / "a.json")


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, "\xff"])
def test_other_files_are_refused_whatever_they_hold(text, tmp_path):
    (tmp_path / "a.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=r"ImportanceResult\.save"):
        tw.load(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("values", [1.0], "values.*4 numbers"),
        ("values", [1.0, 2.0, 3.0, None], "values.*4 numbers.*finite"),
        ("per_tree", [[1.0]], "per_tree.*4 numbers.*null"),
        ("contributions", [[1.0] * 4], "contributions.*60 rows.*4 numbers"),
        ("std_error", [0.1, 0.1, 0.1, -0.1], "std_error.*negative"),
        ("std_error", [0.1, 0.1, 0.1, None], "std_error.*4 numbers.*finite"),
        ("skipped_weight", 1.5, r"skipped_weight.*\b0\b.*\b1\b"),
        ("n_rows", 1.5, r"n_rows\b"),
        ("measure", "other", r"measure\b.*\bufi,"),
        ("feature_names", [1, 2, 3, 4], r"feature_names\b.*names"),
        ("notes", "abc", r"notes\b.*list"),
        ("columns", [], r"columns\b.*null"),
        ("classes", [], r"classes\b.*names, values, std_error.*null_std_error.*null"),
        ("extra", 1, r".*fields.*'extra'"),
    ],
)
def test_the_field_is_named(field, value, words, saved, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(saved["rows"] | {field: value}))
    with pytest.raises(ValueError, match=rf"^{tmp_path / 'a.json'} .*: {words}"):
        tw.load(tmp_path / "a.json")
