"""Percentages, summary sentences and caveats."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor

import truewood as tw
from helpers.messages import find_lacking
from truewood._inputs.correlation import Correlations
from truewood._results.caveats import TableCheck, check_table, explain_intervals, explain_verdicts, list_caveats
from truewood._results.summary import (
    classify_features,
    find_percent,
    format_column,
    format_intervals,
    format_percent,
    write_summary,
    write_total,
)

pytestmark = pytest.mark.any_engine

LEVEL = r"\(5 ?% false discovery rate\)"


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 4))
    y = X[:, 1] + 0.5 * rng.standard_normal(400)
    return tw.importance(RandomForestRegressor(20, min_samples_leaf=5, random_state=0).fit(X, y), X, y)


def make_result(result, percents, p_values, *, has_share=True):
    """A result of these shares and p-values."""
    values, n = np.array(percents) / 100, len(percents)
    null_std_error = np.abs(values) / np.maximum(np.abs(norm.isf(p_values)), 1e-9)
    return replace(
        result,
        values=values,
        share=values if has_share else np.full(n, np.nan),
        mdi=values,
        impurity=1.0,
        feature_names=np.array([f"f{j}" for j in range(n)]),
        std_error=null_std_error,
        null_std_error=null_std_error,
        total_error=0.01 if has_share else np.nan,
        per_tree=np.tile(values, (2, 1)),
    )


SURE = 1e-9
SENTENCES = {
    "few": ([40, 20, 0.1], [SURE, SURE, 0.6], r"f0 and f1 .*\b60 ?% .*variance"),
    "one": ([12.34, 0.1], [SURE, 0.6], r"f0 .*\b12 ?% .*variance"),
    "small ones": (
        [40, 20, 3, *[0.4] * 40, *[0.01] * 30],
        [*[SURE] * 43, *[0.6] * 30],
        r"f0, f1,? and f2 .*\b63 ?% .*variance.*\b40 more .*\b1 ?% each",
    ),
    "many": (
        [30, 10, 5, 4, 3, 2, 0.5],
        [SURE] * 7,
        r"f0 and f1 .*\b40 ?% .*variance.*\b4 more .*\b2\.0%? to 5\.0 ?% each.*\b(1|one) more .*\b1 ?%",
    ),
    "only small ones": (
        [0.4, 0.3, 0.01],
        [SURE, SURE, 0.6],
        r"2 features .*\b1 ?% .*variance each",
    ),
    "none": ([0.4, 0.3], [0.6, 0.6], r".*\b2 features\b.*"),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_the_summary_is_in_percent(result, name):
    percents, p_values, sentence = SENTENCES[name]
    made = make_result(result, percents, p_values)
    listed = ": f0 and f1" if name == "only small ones" else ""
    assert re.fullmatch(rf"{sentence} {LEVEL}{listed}\.", write_summary(made, 0.05))


@pytest.mark.parametrize(
    ("p_values", "sentence"),
    [
        ([SURE, SURE, 0.6], rf"2 of 3 features .*{LEVEL}: f0 and f1\."),
        ([SURE, 0.6, 0.6], rf"1 of 3 features .*{LEVEL}: f0\."),
        ([SURE, SURE, SURE], rf".*\b3 features .*{LEVEL}: f0, f1,? and f2\."),
        ([SURE], rf".*{LEVEL}: f0\."),
    ],
)
def test_without_percents_features_are_counted(result, p_values, sentence):
    made = make_result(result, [30, 20, 10][: len(p_values)], p_values, has_share=False)
    assert find_percent(made) is None
    assert re.fullmatch(sentence, write_summary(made, 0.05))
    assert "units" in write_total(made, None)


def test_shares_add_up_to_what_predictions_and_target_have_in_common():
    """Of a forest: the covariance of the prediction of unseen rows and the target, over the target's variance."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 4))
    y = X[:, 0] + X[:, 1] + rng.standard_normal(2000)
    forest = RandomForestRegressor(100, min_samples_leaf=5, oob_score=True, random_state=0).fit(X, y)
    percent = find_percent(tw.importance(forest, X, y))
    common = 100 * np.cov(forest.oob_prediction_, y)[0, 1] / y.var()
    assert percent.total == pytest.approx(common, rel=0.03)
    assert percent.is_share


def test_boosted_classifiers_have_parts_of_the_sum():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 4))
    y = X[:, 1] > 0
    model = GradientBoostingClassifier(n_estimators=10, random_state=0).fit(X[:300], y[:300])
    result = tw.importance(model, X[300:], y[300:], rows="heldout")
    percent = find_percent(result)
    assert not percent.is_share
    assert (percent.factor * result.values).sum() == pytest.approx(100)
    assert re.match("x1 .*100 ?% of the sum", write_summary(result, 0.05))
    assert "covariance of raw score and target" in write_total(result, percent)
    # Parts of a sum that may as well be half of it say nothing.
    assert find_percent(replace(result, total_error=result.values.sum() / 2)) is None


def test_small_numbers_keep_their_digits():
    assert [format_percent(p) for p in (63.4, 3.44, 0.26, 0.0012)] == ["63%", "3.4%", "0.26%", "0.0012%"]
    assert format_column(np.array([1234.5, 21.34, 0.087, -0.0003, 0.0])) == [
        "1,234.5    ",
        "   21.3    ",
        "    0.087  ",
        "   -0.00030",
        "    0.0    ",
    ]
    assert format_intervals(np.array([11.11, 0.04, -0.0003]), np.array([39.5, 3.0, 0.0001])) == [
        "11.1 to 39.5",
        "0.04 to 3.00",
        "-0.00030 to 0.00010",
    ]


def test_small_is_less_than_one_percent(result):
    made = make_result(result, [40, 1.0, 0.99, 0.5], [SURE, SURE, SURE, 0.6])
    assert classify_features(made, 0.05).tolist() == [
        "significant",
        "significant",
        "significant, but small",
        "not significant",
    ]


def test_verdicts_are_explained(result):
    found, small = explain_verdicts(make_result(result, [40, 0.1], [SURE, 0.6]), 0.01).values()
    assert not find_lacking(found, "p-value", "0.01")
    assert re.search("1 ?% of the target's variance", small)


def test_verdicts_that_intervals_seem_to_contradict_are_explained(result):
    plain = make_result(result, [40, 0.1], [SURE, 0.6])
    assert len(explain_intervals(plain, 0.05)) == 2
    # Twenty tests: 0.02 is below 0.025 and yet no discovery.
    above = explain_intervals(make_result(result, [40, *[0.1] * 19], [SURE, 0.02, *[0.6] * 18]), 0.05)
    assert re.match("f1: .*above zero", above[0])
    assert "20 features" in above[0]
    below = explain_intervals(make_result(result, [40, 5], [SURE, 0.04]), 0.05)
    assert re.match("f1: .*zero", below[0])


def test_caveats_depend_on_the_result(result):
    def read_headings(result, check=None):
        return [caveat.heading for caveat in list_caveats(result, check)]

    clean = replace(result, skipped_weight=0.01)
    assert read_headings(clean) == []
    causes = [{"skipped_weight": 0.3}, {"n_rows": 100}, {"share": 3 * clean.share}, {"total_error": 1e9}]
    headings = [read_headings(replace(clean, **cause)) for cause in causes]
    assert [len(listed) for listed in headings] == [1, 1, 1, 1]
    assert len({listed[0] for listed in headings}) == 4
    mixed = list_caveats(replace(clean, notes=("pca0: made of several columns.",)), None)
    assert mixed[0].items == ("pca0: made of several columns.",)
    assert str(mixed[0]).endswith("pca0: made of several columns.")


def test_missing_values_are_a_caveat():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((300, 3)), columns=["a", "b", "c"])
    y = X["a"] > 0
    X["b"] = X["b"].where(rng.random(300) < 0.6)
    X["c"] = X["c"].where(rng.random(300) < 0.9)
    result = tw.importance(RandomForestClassifier(10, random_state=0).fit(X, y), X, y)
    for table in (X, X.to_numpy()):
        check = check_table(replace(result, feature_names=np.array(["a", "b", "c"])), table, None)
        assert [name for name, _ in check.missing] == ["b", "c"]
        (caveat,) = [c for c in list_caveats(result, check) if c.heading == "Missing values"]
        share = 100 * X["b"].isna().mean()
        assert re.match(rf"b \({share:.0f}%", caveat.text)


def test_of_many_correlated_pairs_the_strongest_are_listed(result):
    pairs = [("a", f"b{k}", 0.99) for k in range(27)]
    found = Correlations(pairs, n_rows=400, n_columns=28, n_with_categories=28, n_given=28)
    caveat = next(c for c in list_caveats(result, TableCheck(found, [])) if c.heading == "Correlated features")
    assert len(caveat.items) == 21
    assert re.fullmatch(r"a and b0 \(.*\b0\.99\)", caveat.items[0])
    assert "7 more" in caveat.items[-1]
    assert "a and b4 (" in str(caveat)
    assert "b5" not in str(caveat)
