"""`Interactions`: tables, selection, text and files."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import fields, replace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import truewood as tw
from helpers.messages import find_lacking
from truewood._cli import main
from truewood._inference.p_values import adjust

pytestmark = pytest.mark.any_engine


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = X[:, 0] + X[:, 1] + X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=300)
    return tw.interactions(RandomForestRegressor(40, min_samples_leaf=5, random_state=0).fit(X, y), X, y)


@pytest.fixture
def withheld(result):
    """The same result if the errors of the last pair were withheld."""
    error = np.where(np.arange(6) == 5, np.nan, result.null_std_error)
    return replace(result, null_std_error=error, std_error=error)


def assert_same(found, expected):
    for part in fields(expected):
        a, b = getattr(found, part.name), getattr(expected, part.name)
        if part.name == "surfaces":
            assert_same(a, b)
        else:
            np.testing.assert_array_equal(a, b, err_msg=part.name)


def test_frame_lists_pairs_by_score(result):
    table = result.frame()
    assert table["interaction"].is_monotonic_decreasing
    assert table.loc[0, ["feature_1", "feature_2", "rank"]].tolist() == ["x0", "x1", 1]
    assert (table["ci_low"] < table["interaction"]).all()
    assert (table["ci_high"] > table["interaction"]).all()


def test_the_interval_excludes_zero_if_the_test_is_significant(result):
    for level in (0.5, 0.8, 0.95):
        low, _ = result.interval(level)
        np.testing.assert_array_equal(low > 0, result.p_value < (1 - level) / 2)


def test_matrix_is_symmetric(result):
    matrix = result.matrix("share")
    assert matrix.loc["x0", "x1"] == matrix.loc["x1", "x0"] == result.share[0]
    assert np.isnan(np.diag(matrix)).all()
    with pytest.raises(ValueError, match=r"of.*'score'"):
        result.matrix("score")


def test_pairs_without_a_p_value_do_not_count_as_tests(withheld):
    assert withheld.is_withheld.tolist() == [False] * 5 + [True]
    adjusted = withheld.adjusted_p_value()
    np.testing.assert_array_equal(adjusted[:5], adjust(withheld.p_value[:5], "bh"))
    assert np.isnan(adjusted[5])
    assert not withheld.select(1.0)[5]
    assert "P-values are withheld for 1 pair" in repr(withheld)


def test_selection(result):
    assert result.select().tolist() == [True] + [False] * 5
    assert result.select(k=2).sum() == 2
    assert result.select(k=0).sum() == 0
    with pytest.raises(ValueError, match=r"k .*6.*7"):
        result.select(k=7)
    with pytest.raises(ValueError, match=r"alpha.*2"):
        result.select(2)


def test_pairs_that_may_reflect_another_are_named(result):
    # x0 x1 is significant; x3 depends on x0, so x1 x3 may reflect it, and so may x0 x3 if x3 depends on x1.
    pairs = [tuple(pair) for pair in result.pairs.tolist()]
    x1_x3, x0_x3, x0_x1 = pairs.index((1, 3)), pairs.index((0, 3)), pairs.index((0, 1))
    error = np.full(6, 0.01)
    values = np.where(np.arange(6) == x0_x1, 1.0, np.where(np.arange(6) == x1_x3, 0.1, 0.0))
    depends = np.zeros(6)
    plain = replace(result, values=values, null_std_error=error, std_error=error, dependence=depends)
    assert (plain.find_proxies() == -1).all()
    depends[x0_x3] = 0.5
    proxies = replace(plain, dependence=depends)
    assert proxies.find_proxies().tolist() == [x0_x1 if k == x1_x3 else -1 for k in range(6)]
    assert "x1 and x3 (that of x0 and x1)" in repr(proxies)
    assert "one-sided" not in repr(proxies)
    assert "one-sided" in repr(replace(proxies, values=values - 0.5))
    assert proxies.frame().set_index(["feature_1", "feature_2"]).loc[("x1", "x3"), "may_reflect"] == "x0 and x1"
    # The weaker of two pairs may reflect the stronger one, not the other way around.
    swapped = np.where(np.arange(6) == x0_x1, 0.1, np.where(np.arange(6) == x1_x3, 1.0, 0.0))
    assert replace(proxies, values=swapped).find_proxies()[x1_x3] == -1


def test_pairs_are_found_in_any_order(result):
    assert result.find_pair("x2", 0) == result.find_pair(0, "x2") == 1
    with pytest.raises(ValueError, match="'z'"):
        result.find_pair("x0", "z")
    with pytest.raises(ValueError, match=r"x0.*x0"):
        result.find_pair("x0", "x0")


@pytest.mark.parametrize("k", ["a", 1.5, -1, 7])
def test_numbers_of_pairs_are_checked(result, k):
    with pytest.raises(ValueError, match=rf"^k\b.*\b6\b.*{k}"):
        result.select(k=k)


def test_text_and_html(result):
    assert "6 pairs, 40 trees, 300 out-of-bag rows" in repr(result)
    named = replace(result, feature_names=np.array(["<b>", "x1", "x2", "x3"]))
    assert "&lt;b&gt;" in named._repr_html_()
    assert "<b>" not in named._repr_html_().split("</p>", 1)[1]


def test_files_keep_every_bit(withheld, tmp_path):
    withheld.save(tmp_path / "pairs.json")
    assert_same(tw.load(tmp_path / "pairs.json"), withheld)
    assert_same(pickle.loads(pickle.dumps(withheld)), withheld)


def test_damaged_files_are_refused(result, tmp_path):
    path = tmp_path / "pairs.json"
    result.save(path)
    content = json.loads(path.read_text())
    changes = {
        "values": [None] * 6,
        "pairs": [[0, 9]] * 6,
        "share": [0.1] * 5,
        "std_error": [-1.0] * 6,
        "n_rows": 0,
        "scale": "log",
        "rows": 3,
        "feature_names": [],
        "notes": "none",
        "surfaces": {},
        "impurity": "large",
        "inference_unavailable": 1,
        "version": 2,
    }
    for name, value in changes.items():
        path.write_text(json.dumps(content | {name: value}))
        with pytest.raises(ValueError, match=r"pairs.json"):
            tw.load(path)
    for name in content["surfaces"]:
        damaged = copy.deepcopy(content)
        damaged["surfaces"][name] = [0]
        path.write_text(json.dumps(damaged))
        with pytest.raises(ValueError, match=r"pairs.json is damaged"):
            tw.load(path)


def test_comparing_needs_importances(result, tmp_path, capsys):
    path = str(tmp_path / "pairs.json")
    result.save(path)
    assert main(["compare", path, path]) == 2
    assert not find_lacking(capsys.readouterr().err, "pairs.json", "interactions", "truewood importance")
