"""Targets: class labels become codes, numbers stay numbers, and everything else is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._formatting import shorten
from truewood._inputs.losses import Loss
from truewood._inputs.row_blocks import map_blocks

# Standard errors sum fourth powers, which would overflow for larger numbers.
LARGEST = 1e75
# Products with the target stay normal floats for weights in this range.
LEAST_WEIGHT, LARGEST_WEIGHT = 1e-100, 1e100
# Up to this many labels, comparing is faster than looking them up.
_FEW_LABELS = 4


@dataclass(frozen=True, eq=False)
class TargetKind:
    """What a model predicts: one or several outputs, each a class or a number.

    Parameters
    ----------
    classes : tuple of ndarray, default=()
        The class labels of each output, in the order of the model's columns; empty for regression.
    n_outputs : int, default=1
        Number of outputs.

    Attributes
    ----------
    is_classification : bool
        Whether the outputs are classes.
    task : {"classification", "regression"}
        The task as a string.
    n_columns : int
        Number of value columns: one per class of each output, or one per number.
    column_bounds : ndarray of int64, shape (n_outputs + 1,)
        Position of the first value column of each output, and the end of the last.
    first_column : ndarray of int64, shape (n_outputs,)
        Position of the first value column of each output.
    """

    classes: tuple[NDArray[Any], ...] = ()
    n_outputs: int = 1

    is_classification: bool = field(init=False)
    task: str = field(init=False)
    n_columns: int = field(init=False)
    column_bounds: NDArray[np.int64] = field(init=False)
    first_column: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        if self.classes and len(self.classes) != self.n_outputs:
            raise ValueError(
                f"classes must hold an array for each of the {self.n_outputs} outputs, got {len(self.classes)}."
            )
        sizes = list(map(len, self.classes)) or [1] * self.n_outputs
        bounds = np.cumsum([0, *sizes], dtype=np.int64)
        derived = {
            "is_classification": bool(self.classes),
            "task": "classification" if self.classes else "regression",
            "n_columns": sum(sizes),
            "column_bounds": bounds,
            "first_column": bounds[:-1],
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    @property
    def column_names(self) -> NDArray[np.str_]:
        """Names of the value columns, shape (n_columns,): class labels, with the output if there are several."""
        if not self.is_classification:
            return np.arange(self.n_outputs).astype(np.str_)
        several = self.n_outputs > 1
        labeled = ((o, label) for o, labels in enumerate(self.classes) for label in labels)
        return np.array([f"{o}: {label}" if several else str(label) for o, label in labeled], dtype=np.str_)

    def sum_columns(self, products: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum the value columns of each output from left to right, shape (n, n_columns) -> (n, n_outputs)."""
        if self.n_columns == self.n_outputs:
            return products
        bounds = self.column_bounds
        sums = products[:, bounds[:-1]]
        for o, (first, end) in enumerate(pairwise(bounds)):
            for column in range(first + 1, end):
                sums[:, o] += products[:, column]
        return sums


@dataclass(frozen=True, eq=False)
class ClassTarget:
    """Class labels of some rows, ready to be counted at nodes.

    Parameters
    ----------
    kind : TargetKind
        What the model predicts.
    codes : ndarray of int32, shape (n_rows, n_outputs)
        Position of each row's label among the classes of the output.
    """

    kind: TargetKind
    codes: NDArray[np.int32]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.codes)

    @property
    def encoded(self) -> NDArray[np.float64]:
        """The codes as numbers, shape (n_rows, n_outputs): what a loss takes."""
        return self.codes.astype(np.float64)

    @property
    def origin(self) -> NDArray[np.float64]:
        """Zeros of shape (n_columns,): nothing is taken from counts of classes."""
        return np.zeros(self.kind.n_columns)

    def find_largest(self, n_columns: int) -> NDArray[np.float64]:
        """Largest absolute value by column, shape (n_columns,)."""
        return np.ones(n_columns)

    @property
    def vectors(self) -> NDArray[np.float64]:
        """The classes one-hot, shape (n_rows, n_columns)."""
        columns = [self.codes[:, [o]] == np.arange(len(labels)) for o, labels in enumerate(self.kind.classes)]
        return np.hstack(columns).astype(np.float64)

    @property
    def labels(self) -> NDArray[Any]:
        """The class labels again, shape (n_rows,) or (n_rows, n_outputs)."""
        columns = [labels[self.codes[:, o]] for o, labels in enumerate(self.kind.classes)]
        return columns[0] if len(columns) == 1 else np.column_stack(columns)

    def take(self, rows: NDArray[np.int64]) -> ClassTarget:
        """Return the target of some rows."""
        return ClassTarget(self.kind, self.codes[rows])

    def take_range(self, start: int, stop: int) -> ClassTarget:
        """Return the target of the rows from `start` up to `stop`."""
        return ClassTarget(self.kind, self.codes[start:stop])


@dataclass(frozen=True, eq=False)
class NumberTarget:
    """Numbers of some rows, ready to be summed at nodes.

    Parameters
    ----------
    kind : TargetKind
        What the model predicts.
    numbers : ndarray of float64, shape (n_rows, n_outputs)
        The numbers minus `origin`.
    origin : ndarray of float64, shape (n_outputs,)
        The number subtracted from each column. No measure changes when target and node values move together, and sums
        of squares are precise close to zero.
    """

    kind: TargetKind
    numbers: NDArray[np.float64]
    origin: NDArray[np.float64]

    @classmethod
    def of_numbers(cls, numbers: NDArray[np.float64]) -> NumberTarget:
        """Take numbers as they are, shape (n_rows, n_outputs)."""
        n_outputs = numbers.shape[1]
        return cls(TargetKind((), n_outputs), np.ascontiguousarray(numbers), np.zeros(n_outputs))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.numbers)

    @property
    def encoded(self) -> NDArray[np.float64]:
        """The numbers, shape (n_rows, n_outputs): what a loss takes."""
        return self.numbers

    def find_largest(self, n_columns: int) -> NDArray[np.float64]:
        """Largest absolute value by column, shape (n_columns,); the sum over columns if trees have other columns."""
        by_column = self._largest
        return by_column if len(by_column) == n_columns else np.full(n_columns, by_column.sum())

    @cached_property
    def _largest(self) -> NDArray[np.float64]:
        largest: NDArray[np.float64] = np.abs(self.numbers).max(axis=0, initial=0.0)
        return largest

    @property
    def vectors(self) -> NDArray[np.float64]:
        """The numbers, shape (n_rows, n_columns)."""
        return self.numbers

    def take(self, rows: NDArray[np.int64]) -> NumberTarget:
        """Return the target of some rows."""
        return NumberTarget(self.kind, self.numbers[rows], self.origin)

    def take_range(self, start: int, stop: int) -> NumberTarget:
        """Return the target of the rows from `start` up to `stop`."""
        return NumberTarget(self.kind, self.numbers[start:stop], self.origin)


Target = ClassTarget | NumberTarget


def encode_target(y: Any, kind: TargetKind, origin: NDArray[np.float64], n_threads: int = 1) -> Target:
    """Read y as the model's target.

    Parameters
    ----------
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Class labels or numbers.
    kind : TargetKind
        What the model predicts.
    origin : ndarray of shape (n_columns,)
        A typical value of each number, which is subtracted; not read for classes.
    n_threads : int
        Number of threads.
    """
    _refuse_masked("y", y)
    try:
        array = np.asarray(y)
    except ValueError:
        array = np.empty(())  # ragged
    came = array.shape if array.ndim else type(y).__name__
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2 or array.shape[1] != kind.n_outputs:
        expected = "(n_rows,)" if kind.n_outputs == 1 else f"(n_rows, {kind.n_outputs})"
        raise ValueError(f"y must have shape {expected}, as in the fit of the model, got {came}.")
    if kind.is_classification:
        codes = np.empty(array.shape, dtype=np.int32)
        for o, labels in enumerate(kind.classes):
            _encode_labels(array[:, o], labels, codes[:, o], n_threads)
        return ClassTarget(kind, codes)
    return NumberTarget(kind, _read_numbers(array, "y", "the model is a regressor", origin, n_threads), origin)


def make_loss_target(y: Target, loss: Loss, sample_weight: NDArray[np.float64] | None, n_scores: int) -> NumberTarget:
    """The target that a loss derives from y: life tables, or the negative gradient at the best constant."""
    weight = np.ones(y.n_rows) if sample_weight is None else sample_weight
    target = np.asarray(loss.make_target(y.encoded, weight), dtype=np.float64)
    if loss.is_life_table:
        return NumberTarget.of_numbers(target)
    if target.shape != (y.n_rows, n_scores) or not np.isfinite(target).all():
        with_others = "" if np.isfinite(target).all() else " with NaN or infinite values"
        raise ValueError(
            f"the loss of the model must give finite numbers of shape ({y.n_rows}, {n_scores}), a column per raw "
            f"score, got shape {target.shape}{with_others}."
        )
    return center_target(NumberTarget.of_numbers(target), sample_weight)


def read_target(target: Any, y: Any, n_scores: int) -> NumberTarget:
    """Read the caller's own target: numbers, or a function that computes them from y."""
    given = np.asarray(target(y) if callable(target) else target)
    numbers = given[:, np.newaxis] if given.ndim == 1 else given
    if numbers.ndim != 2 or numbers.shape[1] != n_scores:
        expected = "(n_rows,)" if n_scores == 1 else f"(n_rows, {n_scores}), a column per raw score"
        raise ValueError(f"target must have shape {expected}, got {given.shape}.")
    return NumberTarget.of_numbers(_read_numbers(numbers, "target", "boosted trees are scored against it"))


def center_target(target: NumberTarget, sample_weight: NDArray[np.float64] | None) -> NumberTarget:
    """Subtract the mean: no score of additive trees depends on it, and sums are precise close to zero.

    The first row is subtracted before, so that a constant target becomes exactly zero.
    """
    near_zero = target.numbers - target.numbers[:1]
    return NumberTarget.of_numbers(near_zero - np.average(near_zero, axis=0, weights=sample_weight))


def _encode_labels(y: NDArray[Any], labels: NDArray[Any], codes: NDArray[np.int32], n_threads: int) -> None:
    """Write the position of each label of y among those of the model; False and True are the numbers 0 and 1."""

    def compare(rows: slice) -> bool:
        own, n_known = codes[rows], 0
        own[:] = 0
        for place, label in enumerate(labels):
            is_label = y[rows] == label
            n_known += int(np.count_nonzero(is_label))
            own += np.int32(place) * is_label
        return n_known == len(own)

    is_compared = len(labels) <= _FEW_LABELS and y.dtype == labels.dtype and y.dtype.kind in "biuf"
    if not (is_compared and all(map_blocks(compare, len(y), n_threads))):
        codes[:] = _index_labels(y, labels)


def _index_labels(y: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    """Position of each label of y among those of the model, or an error if any is not among them."""
    kinds = {y.dtype.kind, labels.dtype.kind}
    if kinds <= set("biuf"):
        codes = _index_numbers(labels).get_indexer(_index_numbers(y))
    elif kinds <= set("mM"):
        codes = pd.Index(labels).get_indexer(pd.Index(y))
    else:
        # A string index refuses lone surrogates, and a numeric index finds no booleans among objects.
        codes = pd.Index(labels, dtype=object).get_indexer(pd.Index(y, dtype=object))
    unknown = codes < 0
    if unknown.any():
        found = ", ".join(repr(label) for label in pd.unique(y[unknown].astype(object))[:3].tolist())
        known = ", ".join(repr(label) for label in labels[:3].tolist()) + (", ..." if len(labels) > 3 else "")
        raise ValueError(f"y must contain only labels the model was fit on, got {found}; it was fit on {known}.")
    return codes


def _index_numbers(labels: NDArray[Any]) -> pd.Index[Any]:
    """Index of numeric or boolean labels, in a dtype that pandas supports in an index."""
    if labels.dtype == bool:
        return pd.Index(labels.astype(np.int8))
    index: pd.Index[Any] = pd.Index(
        labels.astype(np.float64 if labels.dtype.kind == "f" else labels.dtype.newbyteorder("="), copy=False)
    )
    return index


def _read_numbers(
    y: NDArray[Any], name: str, why: str, origin: NDArray[np.float64] | None = None, n_threads: int = 1
) -> NDArray[np.float64]:
    """Read numbers, minus the origin of each column; always in C order, as the kernel reads rows."""
    numbers = np.empty(y.shape)

    def read(rows: slice) -> float:
        with np.errstate(over="ignore"):
            numbers[rows] = y[rows].astype(np.float64, copy=False)
        own = numbers[rows]
        largest = max(float(own.max(initial=0.0)), -float(own.min(initial=0.0)))
        if origin is not None:
            own -= origin
        return largest

    try:
        if y.dtype.kind not in "biufOSU":
            raise TypeError
        largest = np.max(map_blocks(read, len(y), n_threads), initial=0.0)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be numbers, because {why}, got {y.dtype} values.") from error
    if not np.isfinite(largest):
        raise ValueError(f"{name} must not contain NaN or infinite values; drop such rows.")
    if largest > LARGEST:
        raise ValueError(f"{name} must not contain numbers beyond {LARGEST:g}; rescale it.")
    return numbers


def _refuse_masked(name: str, values: Any) -> None:
    """Refuse masked values, which numpy would silently unmask."""
    if np.ma.is_masked(values):
        raise ValueError(f"{name} must not contain masked values; drop such rows.")


def read_sample_weight(sample_weight: Any, n_rows: int, *, may_be_zero: bool = False) -> NDArray[np.float64] | None:
    """Read the weights of rows, which may all be zero for a part of the rows; None if every row counts once."""
    if sample_weight is None:
        return None
    _refuse_masked("sample_weight", sample_weight)
    try:
        weight = np.require(sample_weight, np.float64, ["C", "A", "E"])
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"sample_weight must be numbers, one per row, got {type(sample_weight).__name__}: "
            f"{shorten(str(error), 200)}"
        ) from error
    if weight.shape != (n_rows,):
        raise ValueError(f"sample_weight must have shape ({n_rows},), one weight per row, got {weight.shape}.")
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError("sample_weight must be finite and not negative; correct or drop rows with other weights.")
    if not weight.any():
        if may_be_zero:
            return weight
        raise ValueError("sample_weight must be positive in at least one row, got only zeros.")
    least, largest = float(weight[weight > 0].min()), float(weight.max())
    if least < LEAST_WEIGHT or largest > LARGEST_WEIGHT:
        raise ValueError(
            f"sample_weight must be zero or between {LEAST_WEIGHT:g} and {LARGEST_WEIGHT:g}, got "
            f"{least if least < LEAST_WEIGHT else largest:g}; divide all weights by a common number."
        )
    return weight
