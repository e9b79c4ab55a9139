"""`Amounts`: integers that rows add at leaves, so that sums on the GPU do not depend on the order of additions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from truewood._engines.cuda_device import Struct, copy_target
from truewood._inputs.target import ClassTarget, Target, TargetKind

# Bits of the largest amount, and of the low part of a sum; see LOW_BITS in cuda_kernels.cuh.
AMOUNT_BITS = 58
LOW_BITS = 30


@dataclass(frozen=True, eq=False)
class Amounts:
    """Amounts that each row adds, on the GPU.

    A number is rounded to a multiple of 2^-58 of the smallest power of two that bounds the column; sums of rounded
    numbers are exact. Counts are exact.

    Parameters
    ----------
    codes : array of int32, shape (n_rows, n_outputs), or None
        Classes of the rows; None for numbers.
    first_column : array of int32, shape (n_outputs,)
        First column of each output.
    amounts : array of int64, shape (n_rows, n_amounts), or None
        For classes, row weights, or None if every row counts once; for numbers, the weight, the weighted numbers and
        perhaps their squares.
    unit : array of float64, shape (width,)
        Value of an amount of one in each cell of a node.
    width : int
        Number of cells per node.
    """

    codes: Any
    first_column: Any
    amounts: Any
    unit: Any
    width: int

    @property
    def n_amounts(self) -> int:
        """Number of amounts per row."""
        return 0 if self.amounts is None else int(self.amounts.shape[1])

    def as_struct(self) -> Struct:
        """Return the struct of the kernels."""
        sizes = [np.int32(size) for size in (len(self.first_column), self.n_amounts, self.width)]
        return Struct(self.codes, self.first_column, self.amounts, *sizes)


def make_amounts(
    kind: TargetKind, target: Target, row_weight: Any, *, with_squares: bool, most_times: int = 1
) -> Amounts:
    """Compute the amounts of all rows.

    Parameters
    ----------
    kind : TargetKind
        What trees predict; one number if each tree predicts one target column.
    target : ClassTarget or NumberTarget
        The target that scores the trees.
    row_weight : array of shape (n_rows,), or None
        Weights of rows.
    with_squares : bool
        Whether to sum squares of numbers.
    most_times : int
        Maximum number of times that a row is added to the same tree.
    """
    import cupy

    bits = AMOUNT_BITS - int(most_times - 1).bit_length()
    first_column = cupy.asarray(kind.first_column.astype(np.int32))
    if isinstance(target, ClassTarget):
        codes, width = copy_target(target), kind.n_columns
        if row_weight is None:
            return Amounts(codes, first_column, None, cupy.ones(width), width)
        amount, unit = _round(cupy.asarray(row_weight), bits)
        return Amounts(codes, first_column, amount[:, np.newaxis], cupy.full(width, unit), width)
    numbers = copy_target(target)
    weighted = numbers if row_weight is None else numbers * cupy.asarray(row_weight)[:, np.newaxis]
    columns = [weighted[:, c] for c in range(numbers.shape[1])]
    if with_squares:
        columns += [weighted[:, c] * numbers[:, c] for c in range(numbers.shape[1])]
    amounts = cupy.ones((len(numbers), 1 + len(columns)), dtype=np.int64)
    units = [1.0]
    if row_weight is not None:
        amounts[:, 0], units[0] = _round(cupy.asarray(row_weight), bits)
    # If each tree predicts one column, all columns need a common unit, because cells do not record the column.
    largest = [float(cupy.abs(column).max()) for column in columns]
    if kind.n_columns < numbers.shape[1]:
        largest = [max(largest)] * len(largest)
    for k, (column, most) in enumerate(zip(columns, largest, strict=True), start=1):
        amounts[:, k], unit = _round(column, bits, most)
        units.append(unit)
    width = 1 + (2 if with_squares else 1) * kind.n_columns
    return Amounts(None, first_column, amounts, cupy.asarray(np.array(units[:width])), width)


def _round(numbers: Any, bits: int, largest: float | None = None) -> tuple[Any, float]:
    """Return numbers as multiples of a unit, and the unit, a power of two."""
    import cupy

    largest = float(cupy.abs(numbers).max()) if largest is None else largest
    exponent = max(int(np.frexp(largest)[1]) - bits, -1000) if largest > 0 else 0  # keeps 2.0**-exponent finite
    return cupy.rint(numbers * 2.0**-exponent).astype(np.int64), 2.0**exponent


def read_sums(kind: TargetKind, amounts: Amounts, cells: Any) -> Any:
    """Convert sums at leaves to floats, shape (n_nodes, n_sums); inner nodes are zero.

    Parameters
    ----------
    kind : TargetKind
        What trees predict.
    amounts : Amounts
        The amounts that rows added.
    cells : array of uint64, shape (n_nodes, width, 2)
        High and low parts of sums.
    """
    import cupy

    parts = cells.view(np.int64)
    sums = (parts[..., 0].astype(np.float64) * 2.0**LOW_BITS + parts[..., 1].astype(np.float64)) * amounts.unit
    if amounts.codes is not None:
        weight = sums[:, : len(kind.classes[0])].sum(axis=1, keepdims=True)
        sums = cupy.concatenate([weight, sums], axis=1)
    return sums
