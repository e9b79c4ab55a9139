"""What a fit takes, and which rows are used to keep that within bounds."""

from __future__ import annotations

import re
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from helpers.messages import find_lacking
from helpers.mixed_table import TABLE, score
from truewood.tabular import FitSettings, Messages, TableError
from truewood.tabular._checks import cost as costs
from truewood.tabular._checks.cost import MOST_BYTES, MOST_SECONDS, Cost, choose_sample, format_duration
from truewood.tabular._columns.target_column import MOST_KEPT_CLASSES, read_outcome

pytestmark = pytest.mark.any_engine


def make_cost(task="regression", n_columns=26, n_classes=1, is_out_of_bag=True, n_flags=0, **settings):
    return Cost(FitSettings(**settings), task, n_columns, n_flags, n_classes, is_out_of_bag)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_seconds_are_about_those_of_a_core(task):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 9)).astype(np.float32)
    y = X[:, 0] + rng.normal(size=5000)
    if task == "classification":
        forest, y = RandomForestClassifier(4, random_state=0), y > 0
    else:
        forest = RandomForestRegressor(4, min_samples_leaf=5, random_state=0)
    begin = time.process_time()
    forest.fit(X, y)
    took = time.process_time() - begin
    expected = make_cost(task, 9, 2 if task == "classification" else 1, n_estimators=4).find_seconds(5000)
    assert 0.1 < expected / took < 10  # cores differ, by less than that


def test_bytes_bound_those_of_trees():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 4)), rng.integers(30, size=3000)
    forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    taken = sum(tree.tree_.value.nbytes + 64 * tree.tree_.node_count for tree in forest.estimators_)
    bound = make_cost("classification", 4, 30, n_estimators=5).find_bytes(3000)
    assert taken < bound < 2 * taken


def test_cost_knows_model_columns_classes_and_folds():
    forest = make_cost()
    n_rows = 50_000
    assert make_cost(n_columns=52).find_seconds(n_rows) == pytest.approx(2 * forest.find_seconds(n_rows))
    assert make_cost(n_flags=13).find_seconds(n_rows) == pytest.approx(0.55 * forest.find_seconds(n_rows))
    assert make_cost(max_features="sqrt").find_seconds(n_rows) == pytest.approx(forest.find_seconds(n_rows) * 5 / 26)
    assert make_cost(is_out_of_bag=False).find_seconds(n_rows) == pytest.approx(4 * forest.find_seconds(n_rows))
    assert make_cost(model="extra-trees").find_seconds(n_rows) < 0.2 * forest.find_seconds(n_rows)
    boosting = [make_cost("classification", n_classes=k, model="lightgbm").find_seconds(n_rows) for k in (2, 50)]
    assert boosting[1] == pytest.approx(50 * boosting[0])
    assert make_cost(min_samples_leaf=50).find_bytes(n_rows) == pytest.approx(0.1 * forest.find_bytes(n_rows))
    assert make_cost(max_depth=3).find_bytes(n_rows) == 16 * 500 * 80


def test_large_tables_are_sampled():
    cost, messages, y = make_cost(), Messages(), np.zeros(100_000)
    chosen = choose_sample(cost, y, None, messages)
    assert cost.find_seconds(len(chosen)) <= MOST_SECONDS < cost.find_seconds(1.1 * len(chosen))
    assert len(np.unique(chosen)) == len(chosen) < len(y)
    used = [f"{len(chosen):,} of 100,000 rows", "random state 0", "minutes", "1 core", "sample='all'"]
    assert not find_lacking(messages.messages[0], *used)
    np.testing.assert_array_equal(chosen, choose_sample(make_cost(n_jobs=2), y, None, messages))  # on any machine
    assert choose_sample(cost, y[:5000], None, messages) is None
    other = choose_sample(make_cost(random_state=1), y, None, messages)
    assert len(other) == len(chosen)
    assert (other != chosen).any()


def test_memory_bounds_the_sample():
    cost = make_cost("classification", 3, 50)
    n_rows = cost.count_affordable(40_000)
    assert cost.find_seconds(40_000) < MOST_SECONDS
    assert 0.9 * MOST_BYTES < cost.find_bytes(n_rows) <= MOST_BYTES


def test_all_rows_are_used_where_asked_for():
    messages = Messages()
    assert choose_sample(make_cost(sample="all"), np.zeros(100_000), None, messages) is None
    assert re.search("(seconds|minutes|hours)", messages.messages[0])


def test_wide_tables_keep_rows():
    messages = Messages()
    chosen = choose_sample(make_cost(n_columns=20_000), np.zeros(10_000), None, messages)
    assert len(chosen) == costs.FEWEST_SAMPLED
    assert "max_features='sqrt'" in messages.messages[1]


def test_what_does_not_fit_into_memory_is_refused(monkeypatch):
    monkeypatch.setattr(costs, "_find_memory", lambda: 2**30)
    with pytest.raises(TableError, match=r"^sample: .*\b500 trees.*60,000 rows.*\b50 classes.*GiB"):
        choose_sample(make_cost("classification", 4, 50, sample="all"), np.zeros(60_000), None, Messages())
    with pytest.raises(TableError, match=r"^sample: .*\b500 trees in each of 9 folds .*60,000 rows.*GiB"):
        choose_sample(make_cost(is_out_of_bag=False, sample="all", cv=9), np.zeros(60_000), None, Messages())


def test_samples_keep_shares_of_classes_and_whole_groups():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [9000, 997, 3])
    chosen = choose_sample(make_cost("classification", 4, 3, sample=1000), y, None, Messages())
    assert np.bincount(y[chosen]).tolist() == [900, 100, 2]
    groups = rng.integers(500, size=len(y))
    chosen = choose_sample(make_cost(sample=1000), y, groups, Messages())
    assert 900 < len(chosen) <= 1000
    assert not set(groups[chosen]) & set(np.delete(groups, chosen))


def test_a_sample_of_a_table():
    weighted = TABLE.assign(weight=1.0)
    scored = score(weighted, "y", drop=["amount"], sample_weight="weight", sample=150, n_estimators=20)
    assert scored.result.n_rows == len(scored.X) == 150
    assert any(not find_lacking(text, f"150 of {len(TABLE)} rows", "random state 0") for text in scored.messages)


def test_rare_classes_become_one():
    labels = [f"c{k}" for k in range(80) for _ in range(80 - k)]
    messages = Messages()
    y = read_outcome(pd.Series(labels), "name", None, messages).y
    assert len(np.unique(y)) == MOST_KEPT_CLASSES
    assert (y == "any of 31 others").sum() == sum(range(1, 32))
    assert {"c0", "c48"} < set(y)
    assert not find_lacking(*messages.warnings, "name", "80 classes", "49", "31", "15%")
    assert len(np.unique(read_outcome(pd.Series(labels[: 80 * 50 - 49 * 25]), "name", None, messages).y)) == 50


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sample": 5}, r"sample: .*\b20\b.*'all'.*\b5\b"),
        ({"sample": "some"}, "sample: .*'all'.*some"),
        ({"min_samples_leaf": 0}, r"min_samples_leaf: .*\b1\b"),
        ({"min_samples_leaf": 5, "model": "xgboost"}, "min_samples_leaf: .*xgboost"),
        ({"max_features": 1.5}, "max_features: .*'sqrt'"),
        ({"max_features": 0.5, "model": "catboost"}, "max_features: .*random-forest.*extra-trees"),
    ],
)
def test_settings_that_cannot_be(settings, words):
    with pytest.raises(TableError, match=f"^{words}"):
        FitSettings(**settings)


def test_durations():
    assert [format_duration(seconds) for seconds in (0.1, 61, 100, 3600, 7200)] == [
        "1 second",
        "61 seconds",
        "2 minutes",
        "60 minutes",
        "2 hours",
    ]
