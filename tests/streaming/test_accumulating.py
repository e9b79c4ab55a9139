"""Rows in parts: sums add up in any order to what all rows together give, and so do errors."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import truewood as tw
from helpers.messages import find_lacking
from helpers.streaming_models import CASES, assert_same, build, draw_rows, get_weight
from truewood._streaming.accumulating import accumulate_rows
from truewood._streaming.aggregated import AggregatedScores
from truewood._streaming.constants import count_targets, find_constant, needs_constant
from truewood._streaming.finishing import accumulate_rows_errors, finish_totals
from truewood._streaming.model import StreamingModel


def cut(cuts, *arrays):
    bounds = [0, *cuts, arrays[0].shape[0]]
    for start, stop in pairwise(bounds):
        yield [None if array is None else array[start:stop] for array in arrays]


def score_parts(model, parts, *, shuffled=None, **options):
    """Score in two passes, with a constant first where the loss takes one; parts travel as pickles."""
    parts = list(parts)
    opened, constant = StreamingModel(model), None
    if needs_constant(opened):
        constant = find_constant(opened, sum(count_targets(opened, y, weight) for _, y, weight in parts))

    def add(sums):
        listed = [pickle.loads(pickle.dumps(own)) for own in sums]
        if shuffled is not None:
            listed = [listed[k] for k in shuffled.permutation(len(listed))]
        return sum(listed)

    total = add(accumulate_rows(StreamingModel(model, constant=constant), X, y, w) for X, y, w in parts)
    totals = AggregatedScores(
        StreamingModel(model, constant=constant), total, options.get("measure", "auto"), options.get("feature_groups")
    )
    errors = add(accumulate_rows_errors(totals, X, y, w) for X, y, w in parts)
    return finish_totals(totals, inference=True, errors=errors), tw.finish(model, total, **options)


def check_parts(name, cuts, weight):
    model, X, y = build(name)
    expected = tw.importance(model, X, y, rows="heldout", sample_weight=weight)
    exact, sampled = score_parts(model, cut(cuts, X, y, weight), shuffled=np.random.default_rng(0))
    assert_same(exact, expected)
    assert_same(sampled, expected)  # the sample holds all rows
    assert exact.notes[-1] == sampled.notes[-1]
    assert "500 rows" in exact.notes[-1]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_parts_give_what_all_rows_give(name, weighted):
    check_parts(name, [0, 0, 3, 170, 170, 499, 500], get_weight() if weighted else None)


@pytest.mark.parametrize("name", ["forest of classes", "xgboost, classes", "hist, gamma", "lightgbm, quantile"])
def test_a_row_at_a_time(name):
    check_parts(name, [*range(50), 300], get_weight())


@pytest.mark.parametrize("name", ["forest of two numbers", "xgboost, classes"])
def test_by_every_engine(name, engine):
    check_parts(name, [100], get_weight())


@pytest.mark.parametrize("measure", ["ufi", "ufi_centered", "mdi_oob", "naive_oob", "mdi"])
@pytest.mark.parametrize("name", ["forest of numbers", "forest of classes"])
def test_every_measure_of_sums(name, measure):
    model, X, y = build(name)
    expected = tw.importance(model, X, y, rows="heldout", measure=measure)
    total = sum(tw.accumulate(model, *part) for part in cut([100, 200], X, y))
    result = tw.finish(model, total, measure=measure)
    assert_same(result, expected, errors=1e-10 if expected.inference_unavailable is None else None)
    assert result.inference_unavailable == expected.inference_unavailable


def test_groups():
    model, X, y = build("forest of numbers")
    groups = {"both": ["a", "b"]}
    exact, sampled = score_parts(model, cut([100], X, y, get_weight()), feature_groups=groups)
    expected = tw.importance(model, X, y, rows="heldout", feature_groups=groups, sample_weight=get_weight())
    assert_same(exact, expected)
    assert_same(sampled, expected)


def test_own_target():
    model, X, y = build("lightgbm, quantile")
    target = lambda y: np.minimum(y, 1001.0)  # noqa: E731
    expected = tw.importance(model, X, y, rows="heldout", target=target)
    total = sum(tw.accumulate(model, *part, target=target) for part in cut([100, 101], X, y))
    errors = sum(tw.accumulate_errors(model, total, *part, target=target) for part in cut([7], X, y))
    assert_same(tw.finish(model, total, errors=errors), expected)


@pytest.mark.parametrize(
    "convert", [np.asarray, lambda X: sparse.csr_array(np.nan_to_num(X)), lambda X: X.to_numpy("f4")]
)
def test_tables_without_names(convert):
    _, X, y = build("forest of numbers")
    X = convert(X)
    forest = RandomForestRegressor(5, random_state=0).fit(
        convert(draw_rows()[["a", "b", "c", "d", "kind"]])[:300], y[:300]
    )
    total = sum(tw.accumulate(forest, *part) for part in cut([20, 20, 400], X, y))
    assert_same(tw.finish(forest, total), tw.importance(forest, X, y, rows="heldout"))


def test_columns_by_name():
    model, X, y = build("forest of numbers")
    table = X.assign(y=y, w=get_weight())
    expected = tw.importance(model, X, y, rows="heldout", sample_weight=get_weight())
    assert_same(tw.finish(model, tw.accumulate(model, table, "y", sample_weight="w")), expected)
    assert list(table.columns) == ["a", "b", "c", "d", "kind", "y", "w"]


def test_a_sample_depends_on_the_rows_alone():
    model, X, y = build("xgboost, classes")
    weight = get_weight()
    # Rows that are there many times, and zeros and NaN in all their forms.
    rng = np.random.default_rng(1)
    values = np.repeat(X.to_numpy(), rng.integers(1, 30, len(X)), axis=0)
    values[rng.random(values.shape) < 0.02] = -0.0
    values[rng.random(values.shape) < 0.02] = 0.0
    values[rng.random(values.shape) < 0.02] = -np.nan
    y, weight = (rng.choice(given, len(values)) for given in (y, weight))
    model = type(model)(n_estimators=5).fit(X.to_numpy(), build("xgboost, classes")[2])
    samples = []
    for seed, cuts in enumerate(([], [5, 5, 1000], list(range(0, 3000, 111)))):
        order = np.random.default_rng(seed).permutation(len(values))
        parts = [
            tw.accumulate(model, *part, n_sample=800, n_jobs=1 + seed % 2)
            for part in cut(cuts, values[order], y[order])
        ]
        samples.append(sum(parts[::-1]).sample)
    for sample in samples[1:]:
        for name, array in vars(samples[0]).items():
            assert np.asarray(getattr(sample, name)).tobytes() == np.asarray(array).tobytes(), name
    assert len(samples[0].key) == 800 < samples[0].count.sum()


@pytest.mark.parametrize("name", ["extra trees", "xgboost, classes", "lightgbm"])
def test_errors_of_a_sample_are_near(name):
    model, _, _ = build(name)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60_000, 5))
    X[:, 4] = rng.integers(0, 5, len(X))
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=len(X))
    y = np.digitize(y, [-1, 1]) if "classes" in name else y + 1000
    table = draw_rows()[["a", "b", "c", "d", "kind"]].iloc[:0].reindex(range(len(X)))
    table[:] = X
    expected = tw.importance(model, table, y, rows="heldout")
    results = [
        tw.finish(model, sum(tw.accumulate(model, *part, n_sample=20_000) for part in cut(cuts, table, y)))
        for cuts in ([], [10, 30_000])
    ]
    for result in results:
        np.testing.assert_allclose(result.std_error, expected.std_error, rtol=0.05)
        assert not find_lacking(*result.notes, "20,000 rows", "60,000")
    np.testing.assert_allclose(results[0].std_error, results[1].std_error, rtol=1e-10)


def test_few_rows_of_a_deep_forest_are_a_small_pickle():
    X, y = np.random.default_rng(0).normal(size=(3000, 5)), np.random.default_rng(1).normal(size=3000)
    forest = RandomForestRegressor(20, random_state=0).fit(X, y)
    partial = tw.accumulate(forest, X[:10] + 0.1, y[:10])
    pickled = pickle.dumps(partial)
    assert len(pickled) < 0.1 * partial.sums.nbytes
    assert np.array_equal(pickle.loads(pickled).sums, partial.sums)


@pytest.mark.parametrize("make", [RandomForestRegressor, ExtraTreesRegressor])
def test_training_rows_are_refused(make):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 3)), rng.normal(size=500)
    model = make(10, random_state=0).fit(X, y)
    total = sum(tw.accumulate(model, *part) for part in cut([100], X, y))
    with pytest.raises(ValueError, match="rows='heldout'"):
        tw.finish(model, total)
    others = rng.normal(size=(500, 3))
    assert tw.finish(model, tw.accumulate(model, others, y)).n_rows == 500


def test_training_rows_of_boosted_trees_are_refused():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 5)), rng.normal(size=500)
    model = type(build("lightgbm")[0])(n_estimators=5, verbose=-1).fit(X, y)
    with pytest.raises(ValueError, match="LGBMRegressor"):
        tw.finish(model, sum(tw.accumulate(model, *part) for part in cut([100], X, y)))


def test_what_does_not_belong_together_is_refused():
    model, X, y = build("forest of numbers")
    other = RandomForestRegressor(8, random_state=1).fit(X, y)
    partial = tw.accumulate(model, X, y)
    with pytest.raises(ValueError, match="same model"):
        partial + tw.accumulate(other, X, y)
    with pytest.raises(ValueError, match=r"target.*n_sample"):
        partial + tw.accumulate(model, X, y, n_sample=5)
    with pytest.raises(ValueError, match=r"(another|different) model"):
        tw.finish(other, partial)
    half = tw.accumulate_errors(model, partial, X[:100], y[:100])
    with pytest.raises(ValueError, match=r"\b500\b.*\b100\b"):
        tw.finish(model, partial, errors=half)
    with pytest.raises(ValueError, match="same model"):
        tw.finish(model, partial + tw.accumulate(model, X, y), errors=half)
    with pytest.raises(ValueError, match="same model"):
        half + tw.accumulate_errors(model, partial, X, y, measure="mdi_oob")
    unnamed = RandomForestRegressor(8, random_state=1).fit(X.to_numpy(), y)
    with pytest.raises(ValueError, match="same columns"):
        tw.accumulate(unnamed, X.to_numpy(), y) + tw.accumulate(unnamed, X[["kind", "d", "c", "b", "a"]], y)
    with pytest.raises(TypeError):
        partial + 1


def test_what_cannot_be_done_in_parts_is_refused():
    model, X, y = build("lightgbm, quantile")
    with pytest.raises(ValueError, match="target="):
        tw.accumulate(model, X, y)
    with pytest.raises(TypeError, match=r"^target.*function"):
        tw.accumulate(model, X, y, target=y)
    forest, X, y = build("forest of classes")
    with pytest.raises(ValueError, match=r"^target.*boost"):
        tw.accumulate(forest, X, y, target=np.sign)
    partial = tw.accumulate(forest, X, y)
    with pytest.raises(ValueError, match="measure='permutation'"):
        tw.finish(forest, partial, measure="permutation")
    with pytest.raises(ValueError, match=r"^inference.*True.*False"):
        tw.finish(forest, partial, inference="bags")
    assert tw.finish(forest, tw.accumulate(forest, X, y, n_sample=0)).inference_unavailable is not None
    with pytest.raises(ValueError, match=r"^X\b.*row"):
        tw.finish(forest, tw.accumulate(forest, X[:0], y[:0]))
    with pytest.raises(ValueError, match=r"^sample_weight.*zero"):
        tw.finish(forest, tw.accumulate(forest, X, y, sample_weight=np.zeros(len(y))))


def test_survival_is_refused():
    sksurv = pytest.importorskip("sksurv.ensemble")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    y = np.array(
        list(zip(rng.random(100) < 0.7, rng.random(100) + 0.1, strict=True)), dtype=[("e", bool), ("t", float)]
    )
    forest = sksurv.RandomSurvivalForest(3, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"^rows.*'oob'.*RandomSurvivalForest|compares rows"):
        tw.accumulate(forest, X, y)


def test_steps_that_look_at_the_whole_table_are_refused():
    _, X, y = build("forest of numbers")
    steps = FunctionTransformer(lambda X: X - X.mean())
    model = make_pipeline(steps, RandomForestRegressor(3, random_state=0)).fit(X, y)
    with pytest.raises(ValueError, match=r"'functiontransformer' \(FunctionTransformer\)"):
        tw.accumulate(model, X, y)
    by_row = make_pipeline(FunctionTransformer(np.sign), RandomForestClassifier(3, random_state=0)).fit(X, y > 1000)
    assert tw.accumulate(by_row, X[:1], y[:1] > 1000).n_rows == 1
