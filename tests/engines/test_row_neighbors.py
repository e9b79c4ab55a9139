"""Engines find the same nearest rows, which are those of plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from truewood._engines.selection import resolve_engine
from truewood._inputs.tables import FeatureMatrix

pytestmark = [pytest.mark.tsan, pytest.mark.asan]

N_NEAREST = 7


def draw(dtype, n_rows=9_500):
    """Rows of three blocks, with ties, and labels of which one has a constant column and one a single row."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((n_rows, 5)).round(1) * [1.0, 100.0, 0.01, 1.0, 5.0] + 3.0
    labels = rng.integers(0, 4, n_rows).astype(np.float64)
    values[labels == 2, 1] = 7.0
    labels[n_rows // 2] = 9.5
    tested = np.array([0, 17, n_rows // 2, n_rows - 1, *np.flatnonzero(labels == 2)[:2]])
    matrix = FeatureMatrix(values.astype(dtype), np.empty(0, dtype=np.str_), has_missing=False)
    return matrix, np.array([4, 1, 2]), labels, tested


def find_plainly(matrix, columns, labels, row):
    """Nearest rows and spread, from the definition."""
    own = [i for i in range(matrix.n_rows) if labels[i] == labels[row]]
    chosen = matrix.values[:, columns].astype(np.float64)
    spread = chosen[own].std(axis=0)
    if not (spread > 0).all():
        return [], spread
    distance = {i: ((chosen[i] - chosen[row]) / spread) @ ((chosen[i] - chosen[row]) / spread) for i in own}
    return sorted(own, key=lambda i: (round(distance[i], 9), i))[:N_NEAREST], spread


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_neighbors_are_those_of_plain_loops(dtype, engine):
    matrix, columns, labels, tested = draw(dtype)
    found = resolve_engine(engine).find_neighbors(matrix, columns, labels, tested, N_NEAREST, 2)
    chosen = matrix.values[:, columns].astype(np.float64)
    for k, row in enumerate(tested):
        expected, spread = find_plainly(matrix, columns, labels, row)
        np.testing.assert_allclose(found.spread[k], spread, rtol=1e-12)
        assert found.n_found[k] == len(expected)
        if not expected:
            continue
        listed = found.nearest[k, : len(expected)]
        assert row in listed
        assert (labels[listed] == labels[row]).all()
        distances = [(((chosen[rows] - chosen[row]) / spread) ** 2).sum(axis=1) for rows in (listed, expected)]
        np.testing.assert_allclose(*distances, rtol=1e-9, atol=1e-12)
        own = np.abs(chosen[labels == labels[row]]).max(axis=0) / spread
        np.testing.assert_allclose(found.largest[k], own.max(), rtol=1e-12)
    assert set(found.n_found) == {0, N_NEAREST}


@pytest.mark.any_engine
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_engines_and_threads_agree(dtype, engines):
    arguments = draw(dtype)
    expected = resolve_engine("numpy").find_neighbors(*arguments, N_NEAREST)
    for engine in engines:
        for n_threads in (1, 2, 5):
            found = resolve_engine(engine).find_neighbors(*arguments, N_NEAREST, n_threads)
            for name, array in vars(expected).items():
                np.testing.assert_array_equal(getattr(found, name), array, err_msg=name)


@pytest.mark.parametrize("odd", [np.nan, np.inf, 1e200])
def test_rows_of_a_label_without_a_spread_have_no_neighbors(odd, engines):
    matrix, columns, labels, tested = draw(np.float64)
    matrix.values[np.flatnonzero(labels == labels[0])[5], 2] = odd
    results = [resolve_engine(name).find_neighbors(matrix, columns, labels, tested, N_NEAREST) for name in engines]
    for found in results:
        np.testing.assert_array_equal(found.n_found, results[0].n_found)
        np.testing.assert_array_equal(found.nearest, results[0].nearest)
        assert np.isfinite(odd) or found.n_found[0] == 0
        assert found.n_found.any()
