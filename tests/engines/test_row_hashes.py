"""Engines give rows the same hashes, and know whether all of them differ."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from truewood._engines.selection import resolve_engine
from truewood._inputs.tables import FeatureMatrix

pytestmark = [pytest.mark.tsan, pytest.mark.asan]

RNG = np.random.default_rng(3)
NAMES = np.empty(0, dtype=np.str_)
LEVELS = RNG.integers(-3, 4, (500, 6)).astype(np.float64)
GAPS = np.where(RNG.random(LEVELS.shape) < 0.3, np.nan, LEVELS)


def make_matrix(values, *, fill=0.0):
    return FeatureMatrix(values, NAMES, has_missing=True, fill=fill)


def draw_factors(n_columns):
    return np.random.default_rng(0).integers(0, 1 << 64, (n_columns, 2), dtype=np.uint64) | np.uint64(1)


def list_matrices():
    for dtype in (np.float32, np.float64):
        yield make_matrix(LEVELS.astype(dtype))
        yield make_matrix(np.where(LEVELS == 0, -0.0, GAPS).astype(dtype))
        for fill in (0.0, np.nan):
            stored = sparse.csr_array(np.nan_to_num(GAPS) if fill == 0 else GAPS, dtype=dtype)
            stored.data[::7] = fill
            yield make_matrix(stored, fill=fill)
    yield make_matrix(RNG.random((400, 1)))
    yield make_matrix(np.empty((3, 0)))


@pytest.mark.any_engine
def test_hashes_are_those_of_the_reference(engines):
    for matrix in list_matrices():
        factors = draw_factors(matrix.values.shape[1])
        expected = resolve_engine("numpy").hash_rows(matrix, factors)
        for engine in engines:
            for n_threads in (1, 3):
                found = resolve_engine(engine).hash_rows(matrix, factors, n_threads)
                np.testing.assert_array_equal(found, expected)


def test_rows_have_the_same_hash_if_they_agree(engine):
    for matrix in list_matrices():
        if not isinstance(matrix.values, np.ndarray):
            continue
        hashes = resolve_engine(engine).hash_rows(matrix, draw_factors(matrix.values.shape[1]))
        distinct = {tuple("nan" if np.isnan(x) else x for x in row) for row in (matrix.values + 0.0).tolist()}
        assert len(matrix.values if hashes is None else np.unique(hashes)) == len(distinct)


@pytest.mark.parametrize("n_rows", [2, 4_096, 150_000])
def test_a_single_repeat_is_found(engine, n_rows):
    values = np.random.default_rng(0).permutation(n_rows).astype(np.float64)[:, np.newaxis]
    hash_rows, factors = resolve_engine(engine).hash_rows, draw_factors(1)
    assert hash_rows(make_matrix(values), factors, 2) is None
    for first, second in ((0, n_rows - 1), (n_rows // 2 - 1, n_rows // 2)):
        repeated = values.copy()
        repeated[second] = repeated[first]
        hashes = hash_rows(make_matrix(repeated), factors, 2)
        assert hashes[first] == hashes[second]
        assert len(np.unique(hashes)) == n_rows - 1


def test_columns_with_factors_of_zero_do_not_matter(engine):
    values, factors = RNG.random((50, 2)), draw_factors(2)
    values[:, 1] = 0.5
    factors[0] = 0
    assert len(np.unique(resolve_engine(engine).hash_rows(make_matrix(values), factors))) == 1
