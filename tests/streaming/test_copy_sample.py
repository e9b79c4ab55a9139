"""Copies among streamed rows: a sample that depends on the rows alone, and withheld p-values if it shows many."""

from __future__ import annotations

import pickle
from functools import cache, reduce
from itertools import pairwise
from operator import add

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import truewood as tw
from helpers.fuzz_profiles import share
from helpers.messages import find_lacking
from helpers.streaming_models import FEATURES, N_TRAIN, assert_same, draw_rows, make_y
from truewood._inputs.tables import FeatureMatrix
from truewood._rows.copies import encode_table, find_copies
from truewood._streaming.copy_sample import MOST_INFLATION, N_COLUMNS, N_DISTINCT, Copied, CopySample

ARRAYS = ("key", "values", "count")
SCORES = ("values", "per_tree", "share", "std_error", "null_std_error", "total_error")


def make_matrix(values):
    values = values if sparse.issparse(values) else np.ascontiguousarray(values, dtype=np.float64)
    has_missing = not sparse.issparse(values) and bool(np.isnan(values).any())
    return FeatureMatrix(values, np.empty(0, dtype=np.str_), has_missing)


def take(values, size=N_DISTINCT, rows=None):
    columns = np.arange(min(values.shape[1], N_COLUMNS))
    return CopySample.take(make_matrix(values), np.arange(values.shape[0]) if rows is None else rows, columns, size)


def assert_equal(one, other):
    assert one.size == other.size
    for name in ARRAYS:
        a, b = getattr(one, name), getattr(other, name)
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()), name


def cut(values, bounds):
    ends = [0, *sorted(bounds), len(values)]
    return [values[start:stop] for start, stop in pairwise(ends) if stop > start]


# Zeros and NaN in all their forms, and few values, so that most rows have copies.
VALUES = st.sampled_from([0.0, -0.0, np.nan, -np.nan, 0.5, 1.0, 1e-300, np.inf])


@share(0.5)
@given(data=st.data())
def test_a_sample_depends_on_the_rows_alone(data):
    n_rows, n_columns = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 3))
    size = data.draw(st.integers(1, 40))
    rows = data.draw(st.lists(st.tuples(*[VALUES] * n_columns), min_size=n_rows, max_size=n_rows))
    values = np.array(rows, dtype=data.draw(st.sampled_from(["f4", "f8"])))
    whole = CopySample.take(
        FeatureMatrix(values, np.empty(0, dtype=np.str_), has_missing=True),
        np.arange(n_rows),
        np.arange(n_columns),
        size,
    )
    order = data.draw(st.permutations(range(n_rows)))
    bounds = data.draw(st.lists(st.integers(0, n_rows), max_size=6))
    parts = [
        CopySample.take(
            FeatureMatrix(part, np.empty(0, dtype=np.str_), has_missing=True),
            np.arange(len(part)), np.arange(n_columns), size,
        )
        for part in cut(values[order], bounds)
    ]  # fmt: skip
    assert_equal(reduce(add, data.draw(st.permutations(parts))), whole)
    while len(parts) > 1:  # in any brackets
        k = data.draw(st.integers(0, len(parts) - 2))
        parts[k : k + 2] = [parts[k] + parts[k + 1]]
    assert_equal(parts[0], whole)
    assert whole.is_valid()
    distinct = pd.DataFrame(values + values.dtype.type(0)).drop_duplicates()
    assert len(whole.key) == min(size, len(distinct))
    if len(distinct) < size:
        assert whole.has_all_rows
        assert whole.count.sum() == n_rows
    assert_equal(pickle.loads(pickle.dumps(whole)), whole)


def test_sparse_parts_have_the_sample_of_dense_ones():
    rng = np.random.default_rng(0)
    values = rng.standard_normal((300, 5)) * (rng.random((300, 5)) < 0.4)
    values[250:] = values[:50]
    dense, stored = take(values, 100), take(sparse.csr_array(values[:130]), 100) + take(values[130:], 100)
    assert_equal(stored, dense)


RNG = np.random.default_rng(8)
NUMBERS = pd.DataFrame({"x": RNG.standard_normal(100), "g": RNG.integers(0, 2, 100)})
MIXED = pd.DataFrame({"x": RNG.standard_normal(200) * (RNG.random(200) < 0.5), "g": RNG.integers(0, 3, 200)})
AGES = pd.DataFrame({"age": RNG.integers(18, 80, 1000), "sex": RNG.integers(0, 2, 1000)})
WITH_COPIES = {
    "a few copies": pd.concat([NUMBERS, NUMBERS[:3]]),
    "three times": pd.concat([NUMBERS] * 3),
    "drawn with replacement": NUMBERS.iloc[RNG.integers(0, 100, 150)],
    "drawn twice with replacement": NUMBERS.iloc[RNG.integers(0, 100, 200)],
    "half of them zero": pd.concat([MIXED, MIXED[MIXED["x"] != 0][:20]]),
    "missing values": pd.concat([NUMBERS.assign(z=np.nan), NUMBERS[:5].assign(z=np.nan)]),
    "a single column": pd.concat([NUMBERS[["x"]], NUMBERS[["x"]][:30]]),
}
ZIP_CODE = RNG.integers(0, 30_000, 100_000)
CATEGORIES = {
    "flags": RNG.integers(0, 2, (100_000, 17)),
    "rare flags": RNG.random((100_000, 22)) < 0.3,
    "dummy columns": np.hstack([np.eye(6)[RNG.integers(0, 6, 100_000)] for _ in range(7)]),
    "zip code, city, sex and state": np.column_stack(
        [ZIP_CODE, ZIP_CODE // 20, RNG.integers(0, 2, 100_000), ZIP_CODE // 600]
    ),
    "zip code, recoded": np.column_stack([ZIP_CODE, RNG.permutation(30_000)[ZIP_CODE]]),
    "user and action": np.column_stack([RNG.integers(0, 25_000, 100_000), RNG.integers(0, 10, 100_000)]),
    "encoded levels": np.column_stack([RNG.random(3000)[RNG.integers(0, 3000, 100_000)], RNG.random(100_000) < 0.5]),
    "counts": RNG.poisson(3, (100_000, 8)),
    "rounded numbers": RNG.standard_normal((100_000, 2)).round(2),
    "prices": np.column_stack([RNG.gamma(2, 20, 100_000).round(2), RNG.integers(1, 5, 100_000)]),
    "a price in two units": (price := (RNG.random((100_000, 1)) * 500).round(2)) * [1.0, 1.17],
    "single precision": RNG.standard_normal((100_000, 1)).astype("f4"),
    "ages and sexes": AGES,
    "ages in two units": np.column_stack([AGES["age"], AGES["age"] / 365.25]),
    "few levels": RNG.integers(0, 4, (300, 6)),
}


def sum_in_parts(table):
    values = np.asarray(table, dtype=np.float64)
    return reduce(add, map(take, np.array_split(values[np.random.default_rng(0).permutation(len(values))], 3)))


@pytest.mark.parametrize("case", WITH_COPIES)
def test_samples_of_all_rows_have_the_copies_of_a_table_in_memory(case):
    table = WITH_COPIES[case]
    copies = find_copies(encode_table(table))
    found = sum_in_parts(table).measure()
    assert found.share == copies.n_copies / len(table) > 0.0
    assert found.inflation == pytest.approx((np.bincount(copies.groups) ** 2).sum() / len(table), rel=1e-12)


@pytest.mark.parametrize("case", CATEGORIES)
def test_rows_that_agree_by_chance_are_no_copies(case):
    table = pd.DataFrame(CATEGORIES[case])
    assert table.duplicated().any()
    assert sum_in_parts(table).measure() == Copied(0.0, 1.0)


def draw_repeated(kind, rng):
    values = np.column_stack([rng.standard_normal((50_000, 3)), rng.integers(0, 3, (50_000, 2))])
    n_times = {
        "one in ten": 1 + (rng.random(50_000) < 0.1),
        "all twice": np.full(50_000, 2),
        "all fifty times": np.full(5000, 50),
        "with replacement": rng.poisson(2.0, 50_000),
        "a join": rng.geometric(0.5, 50_000),
    }[kind]
    return np.repeat(values[: len(n_times)], n_times, axis=0), n_times


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("kind", ["one in ten", "all twice", "all fifty times", "with replacement", "a join"])
def test_copies_of_many_rows_are_estimated(kind, dtype):
    values, n_times = draw_repeated(kind, np.random.default_rng(3))
    n_times = n_times[n_times > 0]
    sample = sum_in_parts(values.astype(dtype))
    assert len(sample.key) == N_DISTINCT < len(n_times)
    inflation = (n_times**2).sum() / n_times.sum()
    # Five standard errors of ratios of means over the distinct rows that are kept.
    for found, truth, top in (
        (sample.measure().share, (n_times - 1).sum() / n_times.sum(), n_times - 1),
        (sample.measure().inflation, inflation, n_times**2),
    ):
        error = np.std(top - truth * n_times) / n_times.mean() / np.sqrt(N_DISTINCT)
        assert abs(found - truth) <= 5.0 * error + 1e-12


@cache
def make_rows(n_times):
    """A model, and rows that it never saw, some of them several times."""
    rows, y = draw_rows()[FEATURES].fillna(0.0), make_y("number")
    model = RandomForestRegressor(8, random_state=0).fit(rows[:N_TRAIN], y[:N_TRAIN])
    chosen = np.random.default_rng(0).permutation(np.repeat(np.arange(N_TRAIN, len(rows)), n_times))
    return model, rows.iloc[chosen].reset_index(drop=True), y[chosen]


def accumulate(model, X, y, *weight, n_parts=3, **options):
    places = np.array_split(np.arange(len(y)), n_parts)
    parts = [
        tw.ImportanceAccumulator(model, **options).update(X.iloc[own], y[own], *(w[own] for w in weight))
        for own in places
    ]
    return pickle.loads(pickle.dumps(sum(parts)))


def check_withheld(result, expected):
    assert not find_lacking(result.inference_unavailable, "50%", "copies", "remove", "in memory")
    for name in ("p_value", "std_error", "null_std_error"):
        assert np.isnan(getattr(result, name)).all()
    assert np.isnan(result.total_p_value)
    assert_same(result, expected, errors=None)


WITHHELD = r"^standard errors and p-values are withheld: 50% of the rows are copies"


def test_p_values_are_withheld():
    model, X, y = make_rows(2)
    expected = tw.importance(model, X, y, rows="heldout")
    assert expected.inference_unavailable is None
    total = accumulate(model, X, y)
    with pytest.warns(UserWarning, match=WITHHELD):
        check_withheld(total.finish(), expected)
    second = total.second_pass().update(X, y)
    with pytest.warns(UserWarning, match=WITHHELD):
        check_withheld(second.finish(), expected)
    other = total.second_pass().update(X[:-1], y[:-1])
    with pytest.raises(ValueError, match="second pass"):
        other.finish()
    assert "inference=False" in accumulate(model, X, y, inference=False).finish().inference_unavailable


def test_without_the_model_and_after_other_parts():
    model, X, y = make_rows(2)
    parts = [accumulate(model, X[own], y[own], n_parts=1).without_model() for own in (slice(300), slice(300, None))]
    with pytest.warns(UserWarning, match=WITHHELD):
        sum(parts, start=tw.ImportanceAccumulator(model)).finish()


def test_rows_without_weight_do_not_count():
    model, X, y = make_rows(2)
    weight = np.where(X.duplicated(), 0.0, 1.0)
    total = accumulate(model, X, y, weight)
    assert total._sums.copies.measure() == Copied(0.0, 1.0)
    assert total.finish().inference_unavailable is None


@pytest.mark.parametrize("share_of_copies", [0.0, 0.05])
def test_few_copies_change_nothing(share_of_copies, monkeypatch):
    model, X, y = make_rows(1)
    n_copies = round(share_of_copies * len(X))
    X, y = pd.concat([X, X[:n_copies]], ignore_index=True), np.append(y, y[:n_copies])
    total = accumulate(model, X, y)
    assert (total._sums.copies.measure().share > 0) == (n_copies > 0)
    found = [total.finish(), total.second_pass().update(X, y).finish()]
    monkeypatch.setattr(CopySample, "find_problem", lambda _self: None)
    for result, expected in zip(found, [total.finish(), total.second_pass().update(X, y).finish()], strict=True):
        for name in SCORES:
            np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))
        assert result.notes == expected.notes


def test_files_are_read_once(tmp_path, monkeypatch):
    model, X, y = make_rows(2)
    for number, own in enumerate(np.array_split(np.arange(len(y)), 3)):
        table = pa.Table.from_pandas(X.iloc[own].assign(y=y[own]), preserve_index=False)
        pq.write_table(table, tmp_path / f"{number}.parquet")
    monkeypatch.setattr("truewood._streaming.aggregated.AggregatedScores.sum_errors", None)
    with pytest.warns(UserWarning, match=WITHHELD):
        result = tw.importance(model, tmp_path, "y", rows="heldout")
    check_withheld(result, tw.importance(model, X, y, rows="heldout"))


def test_dask():
    model, X, y = make_rows(2)
    frame = dd.from_pandas(X.assign(y=y), npartitions=4)
    with pytest.warns(UserWarning, match=WITHHELD):
        result = tw.importance(model, frame, "y", rows="heldout")
    check_withheld(result, tw.importance(model, X, y, rows="heldout"))


def test_wide_tables_keep_few_columns():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((600, 40)), rng.standard_normal(600)
    X[:, :30] = X[:, :30] > 0
    y = y + X[:, 35]
    model = RandomForestRegressor(5, random_state=0).fit(X[:300], y[:300])
    rows = np.repeat(np.arange(300, 600), 2)
    total = tw.ImportanceAccumulator(model).update(X[rows], y[rows])
    assert total._sums.copies.values.shape == (300, N_COLUMNS)
    with pytest.warns(UserWarning, match=WITHHELD):
        total.finish()


@pytest.mark.statistical
@pytest.mark.parametrize("make", [RandomForestClassifier, RandomForestRegressor])
def test_tests_below_the_limit_reject_in_seven_percent(make):
    """Copies that inflate variances just below the limit; see experiments/calibration/streamed_copies.py."""
    n_rows, shares, n_withheld = 1000, [], 0
    n_repeated = int((MOST_INFLATION - 1.0) * n_rows / 2.0) - 1
    rows = np.append(np.arange(n_rows - n_repeated), np.arange(n_repeated))
    for seed in range(15):
        rng = np.random.default_rng(seed)

        def draw(n, rng=rng):
            y = rng.standard_normal(n)
            return rng.standard_normal((n, 6)), y > 0 if make is RandomForestClassifier else y

        forest = make(20, random_state=seed).fit(*draw(300))
        for _ in range(20):
            X, y = draw(n_rows)
            X, y = X[rows], y[rows]
            result = tw.ImportanceAccumulator(forest).update(X, y).finish()
            shares.append(np.mean(result.p_value <= 0.05))
            table = pd.DataFrame(np.vstack([X, X[n_repeated : n_repeated + 10]]))
            n_withheld += take(table.to_numpy()).find_problem() is not None
    assert np.mean(shares) <= 0.07 + 3.0 * np.std(shares) / np.sqrt(len(shares))
    assert n_withheld == len(shares)
