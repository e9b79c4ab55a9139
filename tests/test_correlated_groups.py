from __future__ import annotations

import pickle
import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.stats import spearmanr
from sklearn.ensemble import RandomForestRegressor

import truewood as tw
from helpers.messages import find_lacking

pytestmark = pytest.mark.any_engine


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    height, city = rng.standard_normal(500), rng.choice(["Rome", "Oslo", "Lima"], 500)
    weight = height + 0.3 * rng.standard_normal(500)
    weight[:50] = np.nan
    return pd.DataFrame(
        {
            "height": height,
            "age": rng.integers(0, 90, 500),
            "weight": weight,
            "city": pd.Categorical(city),
            "shade": -np.exp(height),
            "country": np.where(rng.random(500) < 0.05, "x", city),
            "is_roman": city == "Rome",
            "is_tall": height > 0,
            "name": [f"n{k}" for k in range(500)],
            "one": 1,
        }
    )


def test_columns_of_all_kinds_are_put_together(table):
    groups = tw.correlated_groups(table)
    assert groups == {
        "height + weight + 2 more": ["height", "weight", "shade", "is_tall"],
        "age": ["age"],
        "city + country + is_roman": ["city", "country", "is_roman"],
        "name": ["name"],
        "one": ["one"],
    }
    assert not find_lacking(groups.describe(), "7 of 10 columns", "2 groups", "0.7")
    assert tw.correlated_groups(pytest.importorskip("polars").from_pandas(table)) == groups


def test_scores_of_groups_are_sums(table):
    X = table[["height", "age", "weight", "shade"]].fillna(0.0)
    y = X["height"] + np.random.default_rng(1).standard_normal(len(X))
    forest = RandomForestRegressor(20, min_samples_leaf=5, random_state=0).fit(X, y)
    groups = tw.correlated_groups(X)
    result = tw.importance(forest, X, y, feature_groups=groups)
    assert result.feature_names.tolist() == ["height + weight + shade", "age"]
    assert result.values[0] == pytest.approx(tw.importance(forest, X, y).values[[0, 2, 3]].sum(), abs=1e-12)
    assert result.p_value[0] < 1e-6


def test_the_threshold_is_the_mean_strength_of_pairs():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 3))
    X[:, 1:] = X[:, :1] + [0.4, 1.0] * rng.standard_normal((1000, 2))
    strength = spearmanr(X).statistic
    first, both = strength[0, 1], (strength[0, 2] + strength[1, 2]) / 2
    assert both < first
    assert len(tw.correlated_groups(X, threshold=first + 0.001)) == 3
    assert tw.correlated_groups(X, threshold=both + 0.001).several == {"x0 + x1": ["x0", "x1"]}
    assert list(tw.correlated_groups(sparse.csr_array(X), threshold=both - 0.001)) == ["x0 + x1 + x2"]


def test_repeated_and_taken_names_make_no_trouble(rng):
    x = rng.standard_normal((100, 1))
    X = pd.DataFrame(np.hstack([x, x, rng.standard_normal((100, 2)), x]), columns=["a", "a", "b", "a + a + c", "c"])
    groups = tw.correlated_groups(X)
    assert groups == {"a + a + c'": [0, 1, "c"], "b": ["b"], "a + a + c": ["a + a + c"]}
    assert tw.correlated_groups(X[["b"]]) == {"b": ["b"]}
    alone = X.iloc[:, 1:4].set_axis(["a", "b", "a"], axis=1)
    assert tw.correlated_groups(alone) == {"a": [0], "b": ["b"], "a'": [2]}


@pytest.mark.parametrize("threshold", [0, 1, -0.5, "0.7", True])
def test_bad_thresholds_are_refused(table, threshold):
    with pytest.raises(ValueError, match=r"threshold.*\b0\b.*\b1\b"):
        tw.correlated_groups(table, threshold=threshold)


def test_tables_without_columns_are_refused():
    with pytest.raises(ValueError, match=r"\bX\b.*table"):
        tw.correlated_groups([1.0, 2.0])
    with pytest.raises(TypeError, match=r"\bX\b.*table.*\bstr\b"):
        tw.correlated_groups("rows.parquet")


def test_picture_has_all_columns_and_a_color_a_group(table):
    ax = tw.correlated_groups(table).plot()
    assert sorted(label.get_text() for label in ax.get_yticklabels()) == sorted(table.columns)
    assert not find_lacking(ax.get_title(), "2 groups", "0.7")
    colors = [line.get_color() for line in ax.lines[:-1]]  # the last is the threshold
    assert len(colors) == len(table.columns) - 1
    assert len(set(colors)) == 3
    assert tw.correlated_groups(table[["age"]]).plot().get_title().startswith("No group")


def test_groups_survive_a_pickle(table):
    groups = tw.correlated_groups(table)
    copy = pickle.loads(pickle.dumps(groups))
    assert copy == groups
    assert copy.threshold == groups.threshold


def test_report_shows_members_scores_and_the_tree(table, tmp_path):
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    X = table[["height", "age", "weight", "shade"]].fillna(0.0).rename(columns={"shade": "<b>shade</b>"})
    forest = RandomForestRegressor(10, random_state=0).fit(X, X["height"])
    groups = tw.correlated_groups(X)
    result = tw.importance(forest, X, X["height"], feature_groups=groups)
    result.report(tmp_path / "report.html", X=X, feature_groups=groups)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "height, weight, &lt;b&gt;shade&lt;/b&gt;</td><td>" in page
    assert re.search('<img id="dendrogram" alt="[^"]+" src="data:image/png;base64,', page)
    assert "No pair of features" in page  # but for those in one group
    result.report(tmp_path / "plain.html", X=X, feature_groups={"height + weight": ["height", "weight"]})
    assert 'id="dendrogram"' not in (tmp_path / "plain.html").read_text(encoding="utf-8")
