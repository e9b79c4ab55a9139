"""Pictures of explanations, one output of several, and `to_shap`."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import truewood as tw
from helpers.messages import find_lacking

pytestmark = pytest.mark.any_engine


@pytest.fixture(scope="module")
def explanation():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((150, 8)), columns=[f"a {j}" for j in range(8)])
    y = np.where(X["a 2"] > 0.3, "yes", np.where(X["a 2"] < -0.3, "no", "may$be"))
    forest = RandomForestClassifier(40, random_state=0).fit(X, y)
    return tw.explain(forest, X, y)


def test_swarm(explanation, tmp_path):
    ax = explanation.plot(output="yes", top=3)
    ax.figure.savefig(tmp_path / "swarm.png")
    assert ax.get_yticklabels()[0].get_text() == "a 2"
    assert not find_lacking(ax.get_xlabel(), "prediction", "yes")
    first = np.sort(ax.collections[0].get_offsets()[:, 0])
    np.testing.assert_allclose(first, np.sort(explanation.values[:, 2, 2]))
    assert re.search(r"\b3 of (the )?8\b", ax.get_title())
    ax = Figure().subplots()
    assert explanation.plot(output=0, ax=ax) is ax


@pytest.mark.parametrize("kind", ["beeswarm", "dependence", "waterfall"])
def test_class_with_largest_effects_by_default(explanation, kind):
    values = explanation.values.copy()
    values[:, :, 0] *= 3.0  # the effects on "may$be" become the largest
    changed = replace(explanation, values=values)
    assert np.abs(explanation.values).mean(axis=(0, 1)).argmax() != 0
    ax = changed.plot(kind, row=5, feature=2)
    assert 'prediction for "may$be"' in ax.get_title()
    beside = changed.plot(kind, row=5, feature=2, output="may$be")
    drawn = [[part.get_window_extent().bounds for part in (*one.collections, *one.patches)] for one in (ax, beside)]
    np.testing.assert_array_equal(*drawn)
    assert 'prediction for "yes"' in changed.plot(kind, row=5, output="yes").get_title()


def test_dependence(explanation, tmp_path):
    ax = explanation.plot("dependence", feature="a 2", output="yes")
    ax.figure.savefig(tmp_path / "dependence.png")
    points = ax.collections[0].get_offsets()
    np.testing.assert_allclose(points, np.column_stack([explanation.data[:, 2], explanation.values[:, 2, 2]]))
    line = ax.lines[-1].get_xydata()
    share = explanation.target[:, 2].mean()
    np.testing.assert_allclose(line[[0, -1], 1], [-share, 1 - share], atol=1e-12)
    assert len(explanation.plot("dependence", output="yes").lines) == 2


def test_dependence_on_levels(tmp_path):
    rng = np.random.default_rng(0)
    level = rng.choice(["low", "mid", "high"], 200)
    X = pd.DataFrame({"level": pd.Categorical(level), "x": rng.random(200)})
    y = (level == "high") * 2.0 + 0.1 * rng.random(200)
    codes = X.assign(level=X["level"].cat.codes)
    plain = tw.explain(RandomForestRegressor(10, random_state=0).fit(codes[:100], y[:100]), codes[100:], rows="heldout")
    data = plain.data.astype(object)
    data[:, 0] = level[100:]
    explanation = tw.Explanation(plain.values, plain.base_values, data, plain.feature_names, target=y[100:])
    ax = explanation.plot("dependence", feature="level")
    ax.figure.savefig(tmp_path / "levels.png")
    assert sorted(label.get_text() for label in ax.get_xticklabels()) == ["high", "low", "mid"]
    assert ax.lines[-1].get_linestyle() == "None"


def test_waterfall(explanation, tmp_path):
    ax = explanation.plot("waterfall", row=5, output="yes", top=4)
    ax.figure.savefig(tmp_path / "waterfall.png")
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names[-1] == "4 other features"
    assert names[0].startswith("a 2 = ")
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(sum(widths), explanation.values[5, :, 2].sum())
    top, bottom = ax.patches[0], ax.patches[-1]
    np.testing.assert_allclose(bottom.get_x(), explanation.base_values[5, 2])
    np.testing.assert_allclose(top.get_x() + top.get_width(), explanation.predictions[5, 2])


def test_bad_arguments(explanation):
    with pytest.raises(ValueError, match=r"kind.*beeswarm.*dependence.*waterfall.*'pie'"):
        explanation.plot("pie", output=0)
    with pytest.raises(ValueError, match=r"output.*may\$be, no, yes.*None.*output='may\$be'"):
        explanation.of_output()
    with pytest.raises(ValueError, match=r"output.*may\$be, no, yes.*'maybe'"):
        explanation.plot(output="maybe")
    with pytest.raises(ValueError, match=r"^row\b.*\b0\b.*\b149\b.*None"):
        explanation.plot("waterfall", output=0)
    with pytest.raises(ValueError, match=r"^feature\b.*\b8\b.*'b'"):
        explanation.plot("dependence", feature="b", output=0)
    with pytest.raises(ValueError, match=r"top.*\b1\b"):
        explanation.plot(output=0, top=0)


def test_arrays_are_read_only_and_pickles_too(explanation):
    again = pickle.loads(pickle.dumps(explanation))
    np.testing.assert_array_equal(again.values, explanation.values)
    for one in (explanation, again):
        with pytest.raises(ValueError, match="read-only"):
            one.values[0] = 0
    assert repr(explanation) == "Explanation(150 out-of-bag rows, 8 features, 3 outputs)"


def test_to_shap(explanation):
    shap = pytest.importorskip("shap")
    given = explanation.to_shap()
    assert isinstance(given, shap.Explanation)
    np.testing.assert_array_equal(given.values, explanation.values)
    np.testing.assert_array_equal(given.base_values, explanation.base_values)
    assert given.feature_names == explanation.feature_names.tolist()
    assert given[:, :, 2].values.shape == (150, 8)
