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
    explain_total,
    find_percent,
    find_shown,
    name_share,
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


def test_scores_that_vary_between_trees_are_a_caveat(result):
    """XOR: a tree finds either feature only after a split on the other."""
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((500, 5)) > 0).astype(float)
    y = 2.0 * (X[:, 0] != X[:, 1]) + rng.standard_normal(500)
    table = pd.DataFrame(X, columns=["left", "right", "a", "b", "c"])
    for n_trees in (30, 200):
        forest = RandomForestRegressor(n_trees, max_features=2, random_state=0).fit(table, y)
        found = tw.importance(forest, table, y)
        (caveat,) = [one for one in list_caveats(found, None) if "Intervals" in one.heading]
        assert not find_lacking(caveat.text, "left", "right", "inference='bags'", "1,000 trees")
        assert not re.search(r"\b[abc]\b.*,", caveat.text)
    assert not [one for one in list_caveats(result, None) if "Intervals" in one.heading]
    new = table.sample(300, random_state=0) * 1.0
    new["a"] = rng.random(300)
    without, held_out = (
        tw.importance(forest, table, y, inference=False),
        tw.importance(forest, new, y[:300], rows="heldout"),
    )
    for found in (without, held_out):
        assert not [one for one in list_caveats(found, None) if "Intervals" in one.heading]


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
        tree_noise=np.full(len(values), np.nan),
        total_error=0.01 if has_share else np.nan,
        per_tree=np.tile(values, (2, 1)),
    )


SURE = 1e-9
SENTENCES = {
    "few": ([40, 20, 0.1], [SURE, SURE, 0.6], r"f0 and f1 .*\b60 ?% .*target"),
    "one": ([12.34, 0.1], [SURE, 0.6], r"f0 .*\b12 ?% .*target"),
    "small ones": (
        [40, 20, 3, *[0.4] * 40, *[0.01] * 30],
        [*[SURE] * 43, *[0.6] * 30],
        r"f0, f1,? and f2 .*\b63 ?% .*target.*\b40 more .*\b1 ?% each",
    ),
    "many": (
        [30, 10, 5, 4, 3, 2, 0.5],
        [SURE] * 7,
        r"f0 and f1 .*\b40 ?% .*target.*\b4 more .*\b2\.0%? to 5\.0 ?% each.*\b(1|one) more .*\b1 ?%",
    ),
    "only small ones": (
        [0.4, 0.3, 0.01],
        [SURE, SURE, 0.6],
        r"2 features .*\b1 ?% .*target each",
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
    assert "squared error" in write_total(made, None)


def test_shares_add_up_to_what_predictions_and_target_have_in_common():
    """Of a forest: the covariance of the prediction of evaluation rows and the target, over the target's variance."""
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
    assert re.match("x1 .*100 ?% of the total", write_summary(result, 0.05))
    assert "covariance of raw score and target" in write_total(result, percent)
    # Shares of a sum that could just as well be half as large are meaningless.
    assert find_percent(replace(result, total_error=result.values.sum() / 2)) is None


def test_percentages_are_shown_within_zero_and_a_hundred(result):
    made = make_result(result, [120, -3, 0.004], [SURE, 0.9, 0.4])
    shown = find_shown(made, find_percent(made))
    assert shown.values.tolist() == [100, 0, pytest.approx(0.004)]
    assert shown.write_values() == ["100", "0", "<0.01"]
    assert shown.low.min() >= 0
    assert shown.high.max() <= 100
    low, high = made.interval()
    assert low.min() < 0
    assert high.max() > 1
    # What is shown is what the result itself gives as intervals of shares.
    np.testing.assert_allclose(np.stack(made.interval(share=True)) * 100, np.stack([shown.low, shown.high]))
    assert find_percent(made).total == 100
    assert "100% of" in write_summary(made, 0.05)


def test_intervals_of_shares_need_shares(result):
    with pytest.raises(ValueError, match="share"):
        make_result(result, [40, 1], [SURE, 0.6], has_share=False).interval(share=True)
    with pytest.raises(ValueError, match=r"share.*'yes'"):
        result.interval(share="yes")


def test_no_part_is_larger_than_the_whole(result):
    made = make_result(result, [20.4, 10, -1.6], [SURE, SURE, 0.9])
    assert "29% of" in write_total(made, find_percent(made))
    assert "f0 and f1 explain 29% of" in write_summary(made, 0.05)


def test_a_single_feature_has_the_share_of_its_row(result):
    made = make_result(result, [30.4, -1.6], [SURE, 0.9])
    assert "29% of" in write_total(made, find_percent(made))
    assert "f0 explains 30% of" in write_summary(made, 0.05)


def test_marks_that_the_table_does_not_show_are_not_explained(result):
    for percents, is_shown in (([*range(20, 10, -1), 0.5], False), ([*range(20, 11, -1), 0.5], True)):
        assert ("(*) significant" in str(make_result(result, percents, [SURE] * len(percents)))) == is_shown


def test_boosted_shares_above_one_become_parts_of_the_sum(result):
    made = make_result(result, [130, 20], [SURE, SURE])
    assert find_percent(made).is_share
    boosted = replace(made, is_additive=True)
    assert not find_percent(boosted).is_share
    assert find_shown(boosted, find_percent(boosted)).values == pytest.approx([100 * 130 / 150, 100 * 20 / 150])
    (caveat,) = [c for c in list_caveats(boosted, None) if "100%" in c.heading]
    assert "150%" in caveat.text
    assert find_percent(replace(made, is_additive=True, values=made.values / 2, share=made.share / 2)).is_share


def test_shares_above_one_are_told_from_a_total_above_one(result):
    def find(made):
        return [c.text for c in list_caveats(made, None) if "100%" in c.heading]

    (share,) = find(make_result(result, [130, 20], [SURE, SURE]))
    assert not find_lacking(share, "reach 130% and add up to 150%", "covariance")
    (total,) = find(make_result(result, [80, 40], [SURE, SURE]))
    assert not find_lacking(total, "add up to 120%", "covariance")
    # The losses that permuting features adds have no total.
    assert not find(replace(make_result(result, [80, 40], [SURE, SURE]), measure="permutation"))
    (loss,) = find(replace(make_result(result, [130, 20], [SURE, SURE]), measure="permutation"))
    assert not find_lacking(loss, "reach 130%", "worse")
    assert "covariance" not in loss


def test_the_target_is_named(result):
    made = make_result(result, [40, 0.1], [SURE, 0.6])
    assert re.match("f0 explains 40% of .* price", write_summary(made, 0.05, target="price"))
    assert "false discovery" not in write_summary(made, 0.05, with_level=False)
    assert "price" in write_total(made, find_percent(made, "price"))
    assert "price" in explain_verdicts(made, 0.05, "price")["significant, but small"]
    # The technical term is where shares are defined.
    assert "variance" not in write_summary(made, 0.05)
    assert "variance" in name_share(made)


def test_shares_that_add_up_to_more_than_the_total_are_explained(result):
    made = make_result(result, [40, -5], [SURE, 0.6])
    assert find_percent(made).total == pytest.approx(35)
    assert "negative" in name_share(made)
    assert "negative" not in name_share(make_result(result, [40, 0.1], [SURE, 0.6]))


def test_shares_of_loss_increases_have_no_total():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    y = X[:, 0] + 0.5 * rng.standard_normal(300)
    forest = RandomForestRegressor(20, min_samples_leaf=5, random_state=0).fit(X, y)
    made = tw.importance(forest, X, y, measure="permutation")
    assert not find_lacking(name_share(made), "permuted", "squared error", "variance")
    assert "together" not in write_total(made, find_percent(made))
    assert not explain_total(made)


def test_the_total_is_set_apart_from_r2(result):
    (text,) = explain_total(result)
    assert "R2" in text
    assert not explain_total(replace(result, task="classification"))


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
    assert re.search("1 ?% of .* target", small)


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
    assert re.fullmatch(r"a and b0 \(.*\b0\.99\)", caveat.items[0])
    assert len(caveat.list_items(20)) == 21
    assert "7 more" in caveat.list_items(20)[-1]
    assert "a and b4 (" in str(caveat)
    assert "b5" not in str(caveat)
    assert "22 more" in str(caveat)
