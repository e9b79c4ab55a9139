"""Hashes of rows in numpy: rows that are copies of each other have the same hash."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from truewood._inputs.tables import FeatureMatrix

Hashes = NDArray[np.uint64]

# Rows at a time, which should stay in the processor's cache.
_BLOCK_ROWS = 1 << 12


def hash_rows(matrix: FeatureMatrix, factors: Hashes) -> Hashes:
    """Hashes of rows, shape (n_rows,), given two factors of each column, shape (n_features, 2)."""
    if sparse.issparse(matrix.values):
        stored = matrix.values
        is_fill = np.isnan(stored.data) if np.isnan(matrix.fill) else stored.data == matrix.fill
        bits = np.where(is_fill, np.uint64(0), _read_bits(stored.data, has_missing=True))
        sums = sparse.csr_array((bits, stored.indices, stored.indptr), shape=stored.shape) @ factors
        return _mix(sums)
    hashes = np.empty(matrix.n_rows, dtype=np.uint64)
    for start in range(0, matrix.n_rows, _BLOCK_ROWS):
        part = slice(start, start + _BLOCK_ROWS)
        hashes[part] = _mix(_read_bits(matrix.values[part], has_missing=matrix.has_missing) @ factors)
    return hashes


def _read_bits(values: NDArray[Any], *, has_missing: bool) -> Hashes:
    """Bits of numbers; the same for 0 and -0, and for all NaN."""
    plain = values.astype(np.float64) + 0.0
    if has_missing:
        plain[np.isnan(plain)] = np.nan
    bits: Hashes = plain.view(np.uint64)
    # Small integers differ in their upper bits only, which products would shift out.
    return bits ^ (bits >> np.uint64(32))


def _mix(sums: Hashes) -> Hashes:
    """One hash from two sums of products, shape (n_rows,): sums alone differ in their upper bits only."""
    first = sums[:, 0]
    for shift, factor in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53)):  # the finalizer of MurmurHash3
        first = (first ^ (first >> np.uint64(shift))) * np.uint64(factor)
    mixed: Hashes = (first ^ (first >> np.uint64(33))) + sums[:, 1]
    return mixed
