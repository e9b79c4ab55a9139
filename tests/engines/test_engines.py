"""Hand-built trees: thresholds, missing values, infinities, sparse rows, and any number of rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import truewood as tw
from truewood import TargetKind, TreeEnsemble
from truewood._engines.cuda_device import find_problem
from truewood._engines.records import RowLists
from truewood._engines.selection import ENGINE_VARIABLE, get_engine, has_native_engine
from truewood._inputs.tables import FeatureMatrix
from truewood._inputs.target import NumberTarget
from truewood._trees.categories import Categories
from truewood._trees.node_sums import NumberTerms

pytestmark = [pytest.mark.tsan, pytest.mark.asan]

NAMES = np.array(["a", "b"])


def stump(threshold, *, missing_left=False, feature=0):
    return TreeEnsemble(
        feature=[feature, -1, -1],
        threshold=[threshold, 0, 0],
        left=[1, -1, -1],
        right=[2, -1, -1],
        missing_left=[missing_left, False, False],
        weight=[2, 1, 1],
        value=[[0], [0], [0]],
        offset=[0, 3],
        root_impurity=[1],
        n_features=2,
        kind=TargetKind(),
    )


def leaves_of(ensemble, values):
    values = np.asarray(values, dtype=np.float32)
    matrix = FeatureMatrix(values, NAMES, bool(np.isnan(values).any()))
    return get_engine().find_leaves(ensemble, matrix, RowLists.join([np.arange(len(values))])).tolist()


@pytest.mark.parametrize(
    ("threshold", "value", "leaf"),
    [
        (0.5, 0.5, 1),
        (0.5, np.nextafter(np.float32(0.5), np.float32(1)), 2),
        (0.1, np.float32(0.1), 2),  # float32(0.1) is above 0.1
        (0.3, np.float32(0.3), 2),
        (0.7, np.float32(0.7), 1),  # float32(0.7) is below 0.7
        (-0.1, np.float32(-0.1), 1),
        (0.0, -0.0, 1),
        (np.inf, np.finfo(np.float32).max, 1),
        (-np.inf, np.finfo(np.float32).min, 2),
        (1e300, np.finfo(np.float32).max, 1),
        (1e300, np.inf, 2),
        (-1e300, np.finfo(np.float32).min, 2),
        (-1e300, -np.inf, 1),
        (1e-300, 0.0, 1),
        (-1e-300, 0.0, 2),
        (np.inf, np.inf, 1),
    ],
)
def test_thresholds(threshold, value, leaf, engine):
    assert leaves_of(stump(threshold), [[value, 0.0]]) == [leaf]


@pytest.mark.parametrize("missing_left", [True, False])
def test_missing_values_follow_the_node(missing_left, engine):
    rows = [[np.nan, 0.0], [0.0, np.nan], [1.0, np.nan]]
    assert leaves_of(stump(0.5, missing_left=missing_left), rows) == [1 if missing_left else 2, 1, 2]


@settings(max_examples=100, deadline=None)
@given(threshold=st.floats(allow_nan=False), value=st.floats(allow_nan=False, width=32))
def test_any_threshold_and_value(engines, threshold, value):
    for engine in engines:
        with pytest.MonkeyPatch.context() as patch:  # the fixture would last over all examples
            patch.setenv(ENGINE_VARIABLE, engine)
            assert leaves_of(stump(threshold), [[value, 0.0]]) == [1 if value <= threshold else 2]


@pytest.mark.parametrize("n_rows", [0, 1, 15, 16, 17, 33, 500])
def test_any_number_of_rows(n_rows, engine):
    values = np.random.default_rng(n_rows).standard_normal((n_rows, 2)).astype(np.float32)
    ensemble = stump(0.0, feature=1)
    assert leaves_of(ensemble, values) == np.where(values[:, 1] <= 0, 1, 2).tolist()


def test_sparse_rows_are_routed_like_dense_ones(engine):
    rng = np.random.default_rng(0)
    values = (rng.standard_normal((300, 2)) * (rng.random((300, 2)) < 0.4)).astype(np.float32)
    rows = RowLists.join([np.arange(300)])
    for ensemble in (stump(0.0, feature=1), stump(-0.2), stump(0.3)):
        dense = get_engine().find_leaves(ensemble, FeatureMatrix(values, NAMES, False), rows)
        matrix = FeatureMatrix(sparse.csr_array(values), NAMES, False)
        np.testing.assert_array_equal(get_engine().find_leaves(ensemble, matrix, rows), dense)
        donors = rng.permutation(300)
        np.testing.assert_array_equal(
            get_engine().find_swapped_leaves(ensemble, matrix, rows.index, donors),
            get_engine().find_swapped_leaves(ensemble, FeatureMatrix(values, NAMES, False), rows.index, donors),
        )


def test_sums_merge(engine):
    rng = np.random.default_rng(0)
    values = rng.standard_normal((100, 2)).astype(np.float32)
    numbers = rng.integers(-8, 8, (100, 1)) / 4.0  # sums of such numbers are exact
    target = NumberTarget.of_numbers(numbers)
    matrix, ensemble = FeatureMatrix(values, NAMES, False), stump(0.2)

    def sums(rows):
        lists = RowLists.join([rows])
        leaves = get_engine().find_leaves(ensemble, matrix, lists)
        return get_engine().sum_leaves(ensemble, leaves, lists, target, None)

    merged, whole = sums(np.arange(30)) + sums(np.arange(30, 100)), sums(np.arange(100))
    for name in ("weight", "total", "square"):
        np.testing.assert_array_equal(getattr(merged, name), getattr(whole, name))
    assert whole.weight[0] == 100
    with pytest.raises(ValueError, match="same trees"):
        _ = whole + tw.NodeSums(whole.weight, whole.total, whole.square, np.ones(1))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_out_of_bag_rows_are_those_outside_the_bag(dtype, engine):
    bag = np.array([3, 3, 0, 7], dtype=dtype)
    assert get_engine().list_oob_rows(bag, 9).tolist() == [1, 2, 4, 5, 6, 8]
    assert get_engine().list_oob_rows(np.arange(4, dtype=dtype), 4).tolist() == []
    assert get_engine().count_rows(bag, 9).tolist() == [np.count_nonzero(bag == row) for row in range(9)]
    assert get_engine().count_rows(bag[:0], 2).tolist() == [0.0, 0.0]


def test_the_tests_know_the_engines_that_are_installed(engines):
    assert ("native" in engines) == has_native_engine()


def test_an_unknown_engine_is_refused(monkeypatch):
    monkeypatch.setenv(ENGINE_VARIABLE, "gpu")
    with pytest.raises(ValueError, match=r"'native'.*'numpy'.*'cuda'.*'gpu'"):
        get_engine()


@pytest.mark.skipif(find_problem() is None, reason="a GPU is available")
def test_a_gpu_that_cannot_be_used_is_one_line(monkeypatch):
    monkeypatch.setenv(ENGINE_VARIABLE, "cuda")
    with pytest.raises(ValueError, match=r"TRUEWOOD_ENGINE.*cuda"):
        get_engine()


def test_without_the_kernel_numpy_is_used_with_one_warning(monkeypatch):
    import truewood._engines.selection as routing

    monkeypatch.delenv(ENGINE_VARIABLE, raising=False)
    monkeypatch.setattr(routing, "has_native_engine", lambda: False)
    routing._warn_once.cache_clear()
    with pytest.warns(tw.NativeEngineWarning, match="compiled kernel"):
        engine = routing.get_engine()
    assert engine.name == "numpy"
    routing.get_engine()  # a second warning would be an error
    monkeypatch.setenv(ENGINE_VARIABLE, "native")
    with pytest.raises(ValueError, match="compiled kernel"):
        routing.get_engine()


def chain(n_splits, *, to_left, categorical=False):
    """Build a chain: one child of each split is a leaf; the deepest leaf is the last node or the one before it."""
    n_nodes = 2 * n_splits + 1
    feature, left, right = np.zeros((3, n_nodes), dtype=np.int64)
    left[:], right[:] = -1, -1
    at = 0
    for k in range(n_splits):
        feature[at] = k % 2
        left[at], right[at] = 2 * k + 1, 2 * k + 2
        at = 2 * k + (1 if to_left else 2)
    inner = np.flatnonzero(left >= 0)
    return TreeEnsemble(
        feature=feature,
        threshold=np.zeros(n_nodes),
        left=left,
        right=right,
        missing_left=np.zeros(n_nodes, dtype=bool),
        weight=np.ones(n_nodes),
        value=np.zeros((n_nodes, 1)),
        offset=[0, n_nodes],
        root_impurity=[1.0],
        n_features=2,
        kind=TargetKind(),
        categories=Categories.from_lists(n_nodes, inner[::2].tolist(), [[1]] * len(inner[::2]))
        if categorical
        else None,
    )


@pytest.mark.parametrize("n_rows", [1, 17, 400])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize("to_left", [False, True])
@pytest.mark.parametrize("n_splits", [0, 1, 2, 7, 40])
def test_unexpected_nan_ends_at_a_leaf(n_splits, to_left, categorical, is_sparse, dtype, n_rows, engine):
    # Another thread or process that shares the memory may write NaN after X has been checked.
    ensemble = chain(n_splits, to_left=to_left, categorical=categorical)
    rng = np.random.default_rng(n_splits)
    values = rng.choice([-1.0, 1.0, np.nan], (n_rows, 2)).astype(dtype)
    values[0] = np.nan
    matrix = FeatureMatrix(sparse.csr_array(values) if is_sparse else values, NAMES, False)
    rows = RowLists.join([np.arange(n_rows)])
    leaves = get_engine().find_leaves(ensemble, matrix, rows)
    assert (ensemble.left[leaves] < 0).all()
    swapped = get_engine().find_swapped_leaves(ensemble, matrix, rows.index, rows.index[::-1].copy())
    assert (ensemble.left[swapped] < 0).all()
    n_nodes, out = len(ensemble.feature), np.zeros((n_rows, 2))
    terms = NumberTerms(np.zeros((n_nodes, 1)), np.zeros(n_nodes), np.ones(n_nodes))
    target = NumberTarget.of_numbers(np.zeros((n_rows, 1)))
    get_engine().add_path_influence(ensemble, leaves, rows, np.ones(n_rows), target, terms, out)
    assert (out.sum(axis=1) <= n_splits).all()
    assert (out.sum(axis=1) >= min(n_splits, 1)).all()


def test_a_set_without_categories_holds_nothing(engine):
    for offset, bits in (([0, 0], []), ([0, 0, 1], [2])):
        ensemble = replace(stump(0.5), categories=Categories([0, -1, -1], offset, bits))
        assert leaves_of(ensemble, [[0.0, 0.0], [1.0, 0.0], [np.nan, 0.0]]) == [2, 2, 2]
    ensemble = replace(stump(0.5), categories=Categories([-1, -1, -1], [0], []))  # no set at all
    assert leaves_of(ensemble, [[0.0, 0.0], [1.0, 0.0]]) == [1, 2]
