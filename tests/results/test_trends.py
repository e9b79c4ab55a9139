"""Which way features move predictions, on designs where that is known."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import truewood as tw
from helpers.messages import find_lacking
from truewood._results.explanation import Explanation
from truewood._results.trends import (
    Direction,
    describe_levels,
    explain_directions,
    find_directions,
    find_predicted_class,
)

pytestmark = pytest.mark.any_engine

N_ROWS = 800
WORDS = {
    "up": "rising",
    "steps down": "falling",
    "rare": "rising",
    "valley": "mixed",
    "flag": "rising",
    "a": "mixed",
    "b": "mixed",
    "noise": "",
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((N_ROWS, len(WORDS))), columns=list(WORDS))
    X["steps down"] = rng.integers(0, 5, N_ROWS)
    X["rare"] = np.where(rng.random(N_ROWS) < 0.1, rng.uniform(5, 90, N_ROWS), 0.0)  # nine of ten are equal
    X["flag"] = rng.random(N_ROWS) < 0.5
    X["a"], X["b"] = (rng.integers(0, 2, N_ROWS) for _ in range(2))  # only together
    y = 2 * X["up"] - X["steps down"] + 4 * (X["rare"] > 0) + 1.5 * X["valley"] ** 2 + 2 * X["flag"]
    return X, y + 4 * (X["a"] ^ X["b"]) + 0.5 * rng.standard_normal(N_ROWS)


def find_words(model, X, y, **options):
    result, explanation = tw.importance(model, X, y, **options), tw.explain(model, X, y, **options)
    return {
        str(name): one.text
        for name, one in zip(result.feature_names, find_directions(result, explanation, 0.05), strict=True)
    }


def test_directions_of_numbers(table):
    X, y = table
    assert find_words(RandomForestRegressor(100, min_samples_leaf=3, random_state=0).fit(X, y), X, y) == WORDS


def test_directions_turn_with_the_target(table):
    X, y = table
    turned = find_words(RandomForestRegressor(100, min_samples_leaf=3, random_state=0).fit(X, -y), X, -y)
    assert (turned["up"], turned["steps down"]) == ("falling", "rising")
    model = RandomForestClassifier(100, min_samples_leaf=3, random_state=0).fit(X, y > y.median())
    words = find_words(model, X, y > y.median())
    assert (words["up"], words["steps down"]) == ("rising", "falling")


def test_directions_of_boosted_trees(table):
    X, y = table
    model = GradientBoostingClassifier(random_state=0).fit(X[:500], y[:500] > 4)
    words = find_words(model, X[500:], y[500:] > 4, rows="heldout")
    assert (words["up"], words["steps down"], words["valley"]) == ("rising", "falling", "mixed")


def test_of_several_classes_the_one_that_moves_most_is_named(table):
    X, y = table
    model = RandomForestClassifier(100, min_samples_leaf=3, random_state=0)
    y = np.select([X["up"] > 0.8, X["steps down"] > 3], ["high", "late"], "other")
    words = find_words(model.fit(X, y), X, y)
    assert not find_lacking(words["up"], "rising", "high")
    assert not find_lacking(words["steps down"], "rising", "late")


def test_texts_go_by_level(table):
    X, y = table
    X = X[["up"]].assign(city=np.where(X["flag"], "Rome", "Bonn"))
    encoder = make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough")
    model = make_pipeline(encoder, RandomForestRegressor(50, min_samples_leaf=3, random_state=0)).fit(X, y)
    result, explanation = tw.importance(model, X, y), tw.explain(model, X, y)
    city = find_directions(result, explanation, 0.05)[list(result.feature_names).index("city")]
    assert (city.word, city.levels) == ("by level", ["Bonn", "Rome"])
    assert city.effects[0] < 0 < city.effects[1]
    assert city.counts == X["city"].value_counts()[["Bonn", "Rome"]].tolist()
    assert "Rome" in city.text
    (line,) = describe_levels(result, find_directions(result, explanation, 0.05))
    assert re.fullmatch(r"Mean effects of city: Rome \+[\d.]+; Bonn -[\d.]+\.", line)


def test_the_highest_level_is_named_only_if_all_are_known():
    levels = Direction("by level", [-1.0, 1.0], ["Bonn", "Rome"])
    assert levels.text == "highest: Rome"
    assert replace(levels, n_more=3).text == "by level"
    name = "a class with a name of more than sixteen characters"
    assert replace(levels, output=name).text == f"highest for {name}: Rome"


def test_mean_effects_have_standard_errors(table):
    X, y = table
    model = RandomForestRegressor(50, min_samples_leaf=3, random_state=0).fit(X, y)
    explanation = tw.explain(model, X, y)
    j = list(X).index("steps down")
    steps = find_directions(tw.importance(model, X, y), explanation, 0.05)[j]
    groups = pd.Series(explanation.values[:, j]).groupby(X["steps down"])
    np.testing.assert_allclose(steps.effects, groups.mean())
    np.testing.assert_allclose(steps.errors, groups.sem())
    assert (steps.values, steps.counts) == ([0, 1, 2, 3, 4], groups.size().tolist())


def test_dates_stay_dates():
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, 300), unit="D")
    y = (days - days.min()).days.to_numpy().astype(float)
    effects = np.column_stack([y - y.mean(), rng.standard_normal(300)])
    explanation = Explanation(
        values=effects,
        base_values=np.zeros(300),
        data=np.column_stack([days.to_numpy().astype(object), effects[:, 1].astype(object)]),
        feature_names=np.array(["day", "noise"]),
    )
    X = pd.DataFrame({"day": y, "noise": effects[:, 1]})
    result = tw.importance(RandomForestRegressor(20, random_state=0).fit(X, y), X, y)
    day = find_directions(result, explanation, 0.05)[0]
    assert (day.word, day.is_date) == ("rising", True)
    assert pd.Timestamp("2020-01-01") < pd.Timestamp(day.values[0], unit="s") < pd.Timestamp("2020-05-01")


def test_two_classes_of_boosted_trees_are_named(table):
    X, y = table
    y = np.where(y > 4, "sold", "kept")
    model = GradientBoostingClassifier(n_estimators=20, random_state=0).fit(X[:500], y[:500])
    explanation = tw.explain(model, X[500:], rows="heldout")
    assert explanation.output_names is None
    assert find_predicted_class(explanation) == "sold"
    assert not find_lacking(explain_directions(explanation), "raw score", "sold")


def test_groups_have_no_direction(table):
    X, y = table
    model = RandomForestRegressor(20, random_state=0).fit(X, y)
    words = find_words(model, X, y, feature_groups={"both": ["up", "valley"]})
    assert words["both"] == ""
    assert words["steps down"] == "falling"


def test_an_explanation_of_other_features_is_refused(table, tmp_path):
    X, y = table
    model = RandomForestRegressor(20, random_state=0).fit(X, y)
    result, explanation = tw.importance(model, X, y), tw.explain(model, X, y, feature_groups={"both": ["a", "b"]})
    assert find_directions(result, None, 0.05) is None
    for draw in (result.plot, lambda **options: result.report(tmp_path / "report.html", **options)):
        with pytest.raises(ValueError, match=r"explanation.*features"):
            draw(explanation=explanation)


def test_plots_and_texts_agree_on_directions(table):
    X, y = table
    model = RandomForestRegressor(100, min_samples_leaf=3, random_state=0).fit(X, y)
    result, explanation = tw.importance(model, X, y), tw.explain(model, X, y)
    ax = result.plot(explanation=explanation)
    rows = zip(ax.get_yticklabels(), ax.texts, strict=True)
    assert {name.get_text(): word.get_text() for name, word in rows} == WORDS
    assert not find_lacking(explain_directions(explanation), "800 out-of-bag rows", "not significant")
    assert "not significant" not in explain_directions(explanation, with_inference=False)
