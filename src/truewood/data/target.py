"""What y means to a model: class labels become codes, numbers stay numbers, and everything else is refused."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood.data.losses import Loss

# Squares of larger numbers cannot be summed.
LARGEST = 1e150


@dataclass(frozen=True, eq=False)
class TargetKind:
    """What a model predicts: one or several outputs, each a class or a number.

    Parameters
    ----------
    classes : tuple of ndarray
        The class labels of each output, in the order of the model's columns; empty for regression.
    n_outputs : int
        Number of outputs.
    """

    classes: tuple[NDArray[Any], ...] = ()
    n_outputs: int = 1

    def __post_init__(self) -> None:
        if self.classes and len(self.classes) != self.n_outputs:
            raise ValueError(f"classes must hold one array per output: {self.n_outputs}, got {len(self.classes)}.")

    @property
    def is_classification(self) -> bool:
        """Whether the outputs are classes."""
        return bool(self.classes)

    @property
    def task(self) -> str:
        """Either "classification" or "regression"."""
        return "classification" if self.is_classification else "regression"

    @cached_property
    def first_column(self) -> NDArray[np.int64]:
        """Where the value columns of each output begin, shape (n_outputs,)."""
        if not self.is_classification:
            return np.arange(self.n_outputs, dtype=np.int64)
        sizes = [len(labels) for labels in self.classes]
        return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)

    @property
    def n_columns(self) -> int:
        """Number of value columns: one per class of each output, or one per number."""
        return sum(len(labels) for labels in self.classes) if self.is_classification else self.n_outputs

    def sum_columns(self, products: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum value columns within each output, shape (n, n_columns) -> (n, n_outputs)."""
        if self.n_columns == self.n_outputs:
            return products
        if self.n_outputs == 1 and self.n_columns == 2:
            return products[:, :1] + products[:, 1:]
        return np.add.reduceat(products, self.first_column, axis=1)


@dataclass(frozen=True, eq=False)
class Target:
    """The target of some rows, ready to be summed at nodes.

    Parameters
    ----------
    kind : TargetKind
        What the model predicts.
    codes : ndarray of int32, shape (n_rows, n_outputs), or None
        Position of each row's label among the classes of the output.
    numbers : ndarray of float64, shape (n_rows, n_outputs), or None
        The numbers, less `origin`.
    origin : ndarray of float64, shape (n_columns,)
        What was subtracted from the numbers. No measure changes when target and node values move together, and sums
        of squares stay exact when they are taken near zero.
    """

    kind: TargetKind
    codes: NDArray[np.int32] | None
    numbers: NDArray[np.float64] | None
    origin: NDArray[np.float64]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        encoded = self.numbers if self.codes is None else self.codes
        return 0 if encoded is None else len(encoded)

    def pick(self, rows: NDArray[np.int64]) -> Target:
        """Return the target of some rows."""
        codes = None if self.codes is None else self.codes[rows]
        return Target(self.kind, codes, None if self.numbers is None else self.numbers[rows], self.origin)

    @property
    def labels(self) -> NDArray[Any]:
        """The class labels again, shape (n_rows,) or (n_rows, n_outputs)."""
        codes = np.empty((0, 0), dtype=np.int32) if self.codes is None else self.codes
        columns = [labels[codes[:, o]] for o, labels in enumerate(self.kind.classes)]
        return columns[0] if len(columns) == 1 else np.column_stack(columns)


def encode_target(y: Any, kind: TargetKind, origin: NDArray[np.float64]) -> Target:
    """Read y as the model's target.

    Parameters
    ----------
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Class labels or numbers.
    kind : TargetKind
        What the model predicts.
    origin : ndarray of shape (n_columns,)
        A typical value of each number; zeros for classes.
    """
    try:
        array = np.asarray(y)
    except ValueError:
        array = np.empty(())  # ragged
    came = array.shape if array.ndim else type(y).__name__
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2 or array.shape[1] != kind.n_outputs:
        expected = "(n_rows,)" if kind.n_outputs == 1 else f"(n_rows, {kind.n_outputs})"
        raise ValueError(f"y must have shape {expected}, as when the model was fit, got {came}.")
    if kind.is_classification:
        columns = [_encode_labels(array[:, o], labels) for o, labels in enumerate(kind.classes)]
        return Target(kind, np.ascontiguousarray(np.column_stack(columns), dtype=np.int32), None, origin)
    return Target(kind, None, _read_numbers(array, "y", "the model is a regressor") - origin, origin)


def pull_target(y: Target, loss: Loss, sample_weight: NDArray[np.float64] | None) -> Target:
    """What a loss makes of y: the negative gradient at the best constant, one number per row and raw score."""
    encoded = y.numbers if y.codes is None else y.codes
    weight = np.ones(y.n_rows) if sample_weight is None else sample_weight
    return centre_target(_as_target(loss.pull(np.asarray(encoded, dtype=np.float64), weight)), sample_weight)


def read_target(target: Any, y: Any, n_scores: int) -> Target:
    """Read the caller's own target: numbers, or a function that makes them of y."""
    given = np.asarray(target(y) if callable(target) else target)
    numbers = given[:, np.newaxis] if given.ndim == 1 else given
    if numbers.ndim != 2 or numbers.shape[1] != n_scores:
        expected = "(n_rows,)" if n_scores == 1 else f"(n_rows, {n_scores}), a column per raw score"
        raise ValueError(f"target must have shape {expected}, got {given.shape}.")
    return _as_target(_read_numbers(numbers, "target", "it scores additive trees"))


def centre_target(target: Target, sample_weight: NDArray[np.float64] | None) -> Target:
    """Numbers less their mean: no score of additive trees depends on it, and sums stay exact near zero."""
    numbers = np.empty((0, 0)) if target.numbers is None else target.numbers
    return _as_target(numbers - np.average(numbers, axis=0, weights=sample_weight))


def _as_target(numbers: NDArray[np.float64]) -> Target:
    n_columns = numbers.shape[1]
    return Target(TargetKind((), n_columns), None, np.ascontiguousarray(numbers), np.zeros(n_columns))


def _encode_labels(y: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.int32]:
    if y.dtype == bool and np.issubdtype(labels.dtype, np.number):
        y = y.astype(labels.dtype)
    codes = pd.Index(labels).get_indexer(pd.Index(y))
    unknown = codes < 0
    if unknown.any():
        found = ", ".join(repr(label) for label in pd.unique(y[unknown])[:3].tolist())
        known = ", ".join(repr(label) for label in labels[:3].tolist()) + (", ..." if len(labels) > 3 else "")
        raise ValueError(f"y holds labels the model was not fit on: {found}; it knows {known}.")
    return np.asarray(codes, dtype=np.int32)


def _read_numbers(y: NDArray[Any], name: str, why: str) -> NDArray[np.float64]:
    try:
        if y.dtype.kind not in "biufOSU":
            raise TypeError
        numbers = y.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers, as {why}, got {y.dtype} values.") from error
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name} must not hold NaN or infinite values.")
    if np.abs(numbers).max(initial=0.0) > LARGEST:
        raise ValueError(f"{name} must not hold numbers beyond {LARGEST:g}, whose squares are too large.")
    return numbers


def read_sample_weight(sample_weight: Any, n_rows: int) -> NDArray[np.float64] | None:
    """Check the weights of the scoring rows; None means that every row counts once."""
    if sample_weight is None:
        return None
    try:
        weight = np.ascontiguousarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must be numbers, one per row, got {type(sample_weight).__name__}.") from error
    if weight.shape != (n_rows,):
        raise ValueError(f"sample_weight must have shape ({n_rows},), one weight per row, got {weight.shape}.")
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError("sample_weight must be finite and not negative.")
    if not weight.any():
        raise ValueError("sample_weight must not be zero for every row.")
    return weight
