"""X and y are read in blocks of rows, with the same result for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from truewood._inputs import row_blocks
from truewood._inputs.row_blocks import map_blocks
from truewood._inputs.tables import InputSpec, read_features
from truewood._inputs.target import TargetKind, encode_target

N = 1_000
SPEC = InputSpec("model", 3, why_no_missing="the model has no missing values")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(row_blocks, "_BLOCK_ROWS", 64)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("n_rows", [0, 1, 64, 65, N])
def test_blocks_cover_all_rows_in_order(n_rows, n_threads):
    blocks = map_blocks(lambda rows: list(range(n_rows))[rows], n_rows, n_threads)
    assert [row for block in blocks for row in block] == list(range(n_rows))


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.float32, np.float64, "U3", object])
@pytest.mark.parametrize("n_labels", [2, 3, 7])
def test_labels_become_their_positions(dtype, n_labels, n_threads):
    if dtype is bool and n_labels > 2:
        n_labels = 1
    expected = np.random.default_rng(0).integers(0, n_labels, N)
    labels = np.arange(n_labels)[::-1].astype(dtype)
    target = encode_target(labels[expected], TargetKind((labels,)), np.zeros(n_labels), n_threads)
    assert target.codes.dtype == np.int32
    np.testing.assert_array_equal(target.codes[:, 0], expected)
    two = encode_target(
        np.column_stack([labels[expected], labels[expected][::-1]]), TargetKind((labels, labels), 2), None, n_threads
    )
    np.testing.assert_array_equal(two.codes, np.column_stack([expected, expected[::-1]]))


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("row", [0, 64, N - 1])
def test_an_unknown_label_is_found_in_any_block(row, n_threads):
    for labels in (np.array([0, 1]), np.array([0.0, 0.5])):
        y = labels[np.random.default_rng(0).integers(0, 2, N)]
        y[row] = 7
        with pytest.raises(ValueError, match=r"got 7.*fit on 0.*"):
            encode_target(y, TargetKind((labels,)), None, n_threads)
    with pytest.raises(ValueError, match="got nan"):
        encode_target(np.where(np.arange(N) == row, np.nan, 1.0), TargetKind((np.array([0.0, 1.0]),)), None, n_threads)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("dtype", [bool, np.int32, np.uint64, np.float32, np.float64, "U9", object])
def test_numbers_are_centered(dtype, n_threads):
    y = np.random.default_rng(0).integers(0, 2 if dtype is bool else 90, (N, 2)).astype(dtype)
    origin = np.array([0.1, -7.3])
    for given in (y, np.asfortranarray(y), np.repeat(y, 2, axis=0)[::2]):
        target = encode_target(given, TargetKind((), 2), origin, n_threads)
        np.testing.assert_array_equal(target.numbers, np.array(y, dtype=np.float64) - origin)
        assert target.numbers.flags.c_contiguous


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("row", [0, 64, N - 1])
@pytest.mark.parametrize(
    ("odd", "message"), [(np.nan, "NaN"), (np.inf, "infinite"), (-np.inf, "infinite"), (-1e76, "beyond 1e.?75")]
)
def test_odd_numbers_are_found_in_any_block(odd, message, row, n_threads):
    y, X = np.zeros(N), np.zeros((N, 3), dtype=np.float32)
    y[row] = odd
    with pytest.raises(ValueError, match=message):
        encode_target(y, TargetKind(), np.zeros(1), n_threads)
    X[row, 2] = odd if not np.isfinite(odd) else np.inf
    with pytest.raises(ValueError, match="NaN" if np.isnan(odd) else "infinite"):
        read_features(X, SPEC, n_threads)
    X[row, 2] = 3e38  # the sum of such numbers may overflow
    X[row - 1, 2] = 3e38
    assert not read_features(X, SPEC, n_threads).has_missing
