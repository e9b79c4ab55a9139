"""ImportanceAccumulator: parts of the rows, added in any order, give the result of all rows in one table."""

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
from helpers.streaming_models import CASES, assert_same, build, draw_rows, get_weight
from truewood._engines.numpy_engine import NumpyEngine
from truewood._streaming.aggregated import AggregatedScores
from truewood._streaming.model import Part, StreamingModel
from truewood._streaming.partial_sums import PartialSums
from truewood._streaming.target_counts import TargetCounts


def cut(cuts, *arrays):
    bounds = [0, *cuts, arrays[0].shape[0]]
    for start, stop in pairwise(bounds):
        yield [None if array is None else array[start:stop] for array in arrays]


def accumulate(model, parts, **options):
    return sum(tw.ImportanceAccumulator(model, **options).update(*part) for part in parts)


def send(accumulators, shuffled=None):
    """Accumulators as they arrive from other processes, in any order."""
    arrived = [pickle.loads(pickle.dumps(own)) for own in accumulators]
    return arrived if shuffled is None else [arrived[k] for k in shuffled.permutation(len(arrived))]


def score_parts(model, parts, *, shuffled=None, **options):
    """Score in two passes, and from a sample."""
    parts = list(parts)
    first = sum(send((tw.ImportanceAccumulator(model, **options).update(*part) for part in parts), shuffled))
    second = pickle.dumps(first.second_pass())
    exact = sum(send((pickle.loads(second).update(*part) for part in parts), shuffled))
    return exact.finish(), first.finish()


def score_with_constant(model, parts, shuffled):
    """The same for a loss that needs a constant of all rows first, as files and clusters are read."""
    parts = [Part("", *part) for part in parts]
    streaming = StreamingModel(model, traces_each_part=True)
    streaming.constant = sum(TargetCounts.of_part(streaming, part) for part in parts).find_constant(streaming)
    options = {"feature_groups": None, "inference": True, "n_sample": 1000, "n_threads": 1}
    sums = sum(send((PartialSums.of_part(streaming, part, **options) for part in parts), shuffled))
    scores = AggregatedScores(streaming, sums, "auto", None)
    return scores.finish(sum(send(map(scores.sum_errors, parts), shuffled))), scores.finish()


def check_parts(name, cuts, weight):
    model, X, y = build(name)
    expected = tw.importance(model, X, y, rows="heldout", sample_weight=weight)
    score = score_with_constant if StreamingModel(model).needs_constant else score_parts
    exact, sampled = score(model, cut(cuts, X, y, weight), shuffled=np.random.default_rng(0))
    assert_same(exact, expected)
    assert_same(sampled, expected)  # the sample holds all rows
    assert exact.notes[-1] == sampled.notes[-1] == "Standard errors from all 500 rows."


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


def test_the_engine_is_an_argument(monkeypatch):
    model, X, y = build("forest of numbers")
    sum_nodes, calls = NumpyEngine.sum_nodes, []

    def count_calls(self, *arguments):
        calls.append(arguments)
        return sum_nodes(self, *arguments)

    monkeypatch.setattr(NumpyEngine, "sum_nodes", count_calls)
    assert_same(
        accumulate(model, cut([100], X, y), engine="numpy").finish(), tw.importance(model, X, y, rows="heldout")
    )
    assert len(calls) == 2


@pytest.mark.parametrize("measure", ["ufi", "ufi_centered", "mdi_oob", "loss_oob", "mdi"])
@pytest.mark.parametrize("name", ["forest of numbers", "forest of classes"])
def test_every_measure_of_sums(name, measure):
    model, X, y = build(name)
    expected = tw.importance(model, X, y, rows="heldout", measure=measure)
    result = accumulate(model, cut([100, 200], X, y), measure=measure).finish()
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
    second = accumulate(model, cut([100, 101], X, y), target=target).second_pass()
    for part in cut([7], X, y):
        second.update(*part)
    assert_same(second.finish(), expected)


@pytest.mark.parametrize(
    "convert", [np.asarray, lambda X: sparse.csr_array(np.nan_to_num(X)), lambda X: X.to_numpy("f4")]
)
def test_tables_without_names(convert):
    _, X, y = build("forest of numbers")
    X = convert(X)
    forest = RandomForestRegressor(5, random_state=0).fit(
        convert(draw_rows()[["a", "b", "c", "d", "kind"]])[:300], y[:300]
    )
    assert_same(accumulate(forest, cut([20, 20, 400], X, y)).finish(), tw.importance(forest, X, y, rows="heldout"))


def test_columns_by_name():
    model, X, y = build("forest of numbers")
    table = X.assign(y=y, w=get_weight())
    expected = tw.importance(model, X, y, rows="heldout", sample_weight=get_weight())
    assert_same(tw.ImportanceAccumulator(model).update(table, "y", "w").finish(), expected)
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
            tw.ImportanceAccumulator(model, n_sample=800, n_jobs=1 + seed % 2).update(*part)
            for part in cut(cuts, values[order], y[order])
        ]
        samples.append(sum(parts[::-1])._sums.sample)
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
    results = [accumulate(model, cut(cuts, table, y), n_sample=20_000).finish() for cuts in ([], [10, 30_000])]
    for result in results:
        np.testing.assert_allclose(result.std_error, expected.std_error, rtol=0.05)
        assert result.notes == ("Standard errors from a sample of 20,000 rows out of 60,000.",)
    np.testing.assert_allclose(results[0].std_error, results[1].std_error, rtol=1e-10)


def test_few_rows_of_a_deep_forest_are_a_small_pickle():
    X, y = np.random.default_rng(0).normal(size=(3000, 5)), np.random.default_rng(1).normal(size=3000)
    forest = RandomForestRegressor(20, random_state=0).fit(X, y)
    accumulator = tw.ImportanceAccumulator(forest).update(X[:10] + 0.1, y[:10])
    sums = accumulator._sums.sums
    pickled = pickle.dumps(accumulator.without_model())
    assert len(pickled) < 0.1 * sums.nbytes
    assert np.array_equal(pickle.loads(pickled)._sums.sums, sums)


@pytest.mark.parametrize("make", [RandomForestRegressor, ExtraTreesRegressor])
def test_training_rows_are_refused(make):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 3)), rng.normal(size=500)
    model = make(10, random_state=0).fit(X, y)
    total = accumulate(model, cut([100], X, y))
    for finish in (total.finish, total.second_pass):
        with pytest.raises(tw.TrainingRowsError, match=r"^rows='heldout'"):
            finish()
    others = rng.normal(size=(500, 3))
    assert accumulate(model, [(others, y)]).finish().n_rows == 500


def test_training_rows_of_boosted_trees_are_refused():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 5)), rng.normal(size=500)
    model = type(build("lightgbm")[0])(n_estimators=5, verbose=-1).fit(X, y)
    with pytest.raises(tw.TrainingRowsError, match="LGBMRegressor"):
        accumulate(model, cut([100], X, y)).finish()


def test_a_sum_starts_from_zero_and_changes_no_term():
    model, X, y = build("forest of numbers")
    first, second = (tw.ImportanceAccumulator(model).update(*part) for part in cut([100], X, y))
    assert sum([first]) is first
    assert (first + second).n_rows == 500
    assert (first.n_rows, second.n_rows) == (100, 400)
    assert_same((first + second).finish(), tw.importance(model, X, y, rows="heldout"))
    assert first.update(X[100:], y[100:]) is first
    assert first.n_rows == 500


def test_a_result_on_the_way_changes_nothing():
    model, X, y = build("pipeline")
    accumulator = tw.ImportanceAccumulator(model)
    for part in cut([1, 100], X, y):
        accumulator.update(*part)
        accumulator.finish()
    assert_same(accumulator.finish(), tw.importance(model, X, y, rows="heldout"))


@pytest.mark.parametrize("name", ["forest of numbers", "pipeline", "xgboost, classes"])
def test_sums_travel_without_the_model(name):
    model, X, y = build(name)
    parts = list(cut([100, 300], X, y))
    sent = [tw.ImportanceAccumulator(model).update(*part).without_model() for part in parts]
    assert "without model" in repr(sent[0])
    for use in (lambda: sum(send(sent)).finish(), sent[0].second_pass, lambda: sent[0].update(X, y)):
        with pytest.raises(ValueError, match=r"without_model\(\).*ImportanceAccumulator\(model\)"):
            use()
    for total in (
        sum(send(sent), start=tw.ImportanceAccumulator(model)),
        sum(send(sent)) + tw.ImportanceAccumulator(model),
    ):
        second = total.second_pass()
        rest = [pickle.loads(pickle.dumps(second)).update(*part).without_model() for part in parts]
        with pytest.raises(ValueError, match=r"without_model\(\)"):
            sum(send(rest)).finish()
        assert_same(sum(send(rest), start=second).finish(), tw.importance(model, X, y, rows="heldout"))


def test_the_repr_names_model_pass_and_rows():
    model, X, y = build("forest of numbers")
    first = tw.ImportanceAccumulator(model)
    assert repr(first) == "ImportanceAccumulator(RandomForestRegressor, 0 rows)"
    assert repr(first.update(X, y)) == "ImportanceAccumulator(RandomForestRegressor, 500 rows)"
    second = first.second_pass().update(X[:100], y[:100])
    assert repr(second) == "ImportanceAccumulator(RandomForestRegressor, second pass, 100 rows)"


def test_other_models_and_settings_are_refused():
    model, X, y = build("forest of numbers")
    other = RandomForestRegressor(8, random_state=1).fit(X, y)
    total = accumulate(model, [(X, y)])
    with pytest.raises(ValueError, match="same model"):
        total + accumulate(other, [(X, y)])
    with pytest.raises(ValueError, match="same model"):
        tw.ImportanceAccumulator(other) + total.without_model()
    groups = {"both": ["a", "b"]}
    for name, value in {"n_sample": 5, "measure": "mdi", "inference": False, "feature_groups": groups}.items():
        with pytest.raises(ValueError, match=name):
            total + accumulate(model, [(X, y)], **{name: value})
    with pytest.raises(ValueError, match=r"n_sample.*\b100,000 and 5\b"):
        total + accumulate(model, [(X, y)], n_sample=5)
    grouped = [accumulate(model, [(X, y)], feature_groups=given) for given in (groups, {"both": np.array(["a", "b"])})]
    assert sum(grouped).n_rows == 1000
    unnamed = RandomForestRegressor(8, random_state=1).fit(X.to_numpy(), y)
    with pytest.raises(ValueError, match="same columns"):
        accumulate(unnamed, [(X.to_numpy(), y), (X[["kind", "d", "c", "b", "a"]], y)])
    for wrong in (1, None, total._sums):
        with pytest.raises(TypeError):
            total + wrong


def test_a_target_and_none_are_refused():
    model, X, y = build("hist")
    with pytest.raises(ValueError, match="same target"):
        accumulate(model, [(X, y)]) + accumulate(model, [(X, y)], target=np.cbrt)


def test_other_rows_in_the_second_pass_are_refused():
    model, X, y = build("forest of numbers")
    total = accumulate(model, [(X, y)], n_sample=0)
    half = total.second_pass().update(X[:100], y[:100])
    with pytest.raises(ValueError, match=r"second pass .* 500 rows .* 100 "):
        half.finish()
    with pytest.raises(ValueError, match=r"second pass .* 500 rows .* 600 "):
        half.update(X, y).finish()
    with pytest.raises(ValueError, match="other values of y"):
        total.second_pass().update(X, y + 1.0).finish()
    with pytest.raises(ValueError, match=r"rows in the first pass .* 500 and 1000"):
        half + (total + total).second_pass().update(X, y)
    with pytest.raises(ValueError, match="same pass"):
        half + total
    with pytest.raises(ValueError, match=r"second_pass\(\)"):
        half.second_pass()
    for options in ({"inference": False}, {"measure": "mdi"}):
        with pytest.raises(ValueError, match=r"^second_pass\(\) computes standard errors"):
            accumulate(model, [(X, y)], **options).second_pass()


def test_what_cannot_be_done_in_parts_is_refused():
    model, X, y = build("lightgbm, quantile")
    with pytest.raises(ValueError, match=r"best constant.*pass target="):
        tw.ImportanceAccumulator(model).update(X, y)
    with pytest.raises(TypeError, match=r"^target must be a function"):
        tw.ImportanceAccumulator(model, target=y)
    forest, X, y = build("forest of classes")
    with pytest.raises(ValueError, match=r"^target is for boosted trees"):
        tw.ImportanceAccumulator(forest, target=np.sign)
    for measure in ("permutation", "sobol_mda", "mdi_plus_oob"):
        with pytest.raises(ValueError, match=rf"^measure='{measure}' .* table in memory"):
            tw.ImportanceAccumulator(forest, measure=measure)
    with pytest.raises(ValueError, match=r"^inference must be True or False"):
        tw.ImportanceAccumulator(forest, inference="bags")
    assert accumulate(forest, [(X, y)], n_sample=0).finish().inference_unavailable is not None
    assert accumulate(forest, [(X, y)], inference=False).finish().inference_unavailable is not None
    for empty in (tw.ImportanceAccumulator(forest), accumulate(forest, [(X[:0], y[:0])])):
        with pytest.raises(ValueError, match=r"\brows\b.*update\(\)"):
            empty.finish()
    with pytest.raises(ValueError, match=r"^sample_weight must.*\bzero"):
        accumulate(forest, [(X, y, np.zeros(len(y)))]).finish()
    with pytest.raises(TypeError, match=r"in memory, but X is a path"):
        tw.ImportanceAccumulator(forest).update("rows.parquet", y)


def test_feature_groups_are_checked_with_the_first_rows():
    model, X, y = build("forest of numbers")
    with pytest.raises(ValueError, match=r"^feature_groups\b.*'z'"):
        tw.ImportanceAccumulator(model, feature_groups={"both": ["a", "z"]}).update(X, y)


def test_survival_is_refused():
    sksurv = pytest.importorskip("sksurv.ensemble")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    y = np.array(
        list(zip(rng.random(100) < 0.7, rng.random(100) + 0.1, strict=True)), dtype=[("e", bool), ("t", float)]
    )
    forest = sksurv.RandomSurvivalForest(3, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"^rows must be 'oob' for RandomSurvivalForest|compares rows"):
        tw.ImportanceAccumulator(forest).update(X, y)


def test_steps_that_look_at_the_whole_table_are_refused():
    _, X, y = build("forest of numbers")
    steps = FunctionTransformer(lambda X: X - X.mean())
    model = make_pipeline(steps, RandomForestRegressor(3, random_state=0)).fit(X, y)
    with pytest.raises(ValueError, match=r"^step 'functiontransformer' \(FunctionTransformer\) "):
        tw.ImportanceAccumulator(model).update(X, y)
    by_row = make_pipeline(FunctionTransformer(np.sign), RandomForestClassifier(3, random_state=0)).fit(X, y > 1000)
    assert tw.ImportanceAccumulator(by_row).update(X[:1], y[:1] > 1000).n_rows == 1
