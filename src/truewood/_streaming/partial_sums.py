"""`Partial`: what some rows say at the leaves of a model; parts of all rows add up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._arguments import is_count
from truewood._pipelines.encoding import Encoding
from truewood._pipelines.provenance import ColumnProvenance
from truewood._streaming.row_sample import RowSample

Floats = NDArray[np.float64]

# Of sums of weights in another order.
_ROUNDING = 1e-9
# Sums of a piece: what an engine moves and adds up at a time.
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, eq=False, repr=False)
class Partial:
    """Sums over some rows at the leaves of a model, as `accumulate` gives them.

    Partials of the same model and other rows merge by ``+``, in any order, and `sum` adds up many. They can be pickled.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    """

    fingerprint: str  # of the model
    settings: tuple[Any, ...]  # what else has to be the same
    names: tuple[str, ...] | None  # of the columns of the table that the model takes; None without rows
    encoding: Encoding | None  # how these came about
    numbering: tuple[Any, ...] | None  # categories by their numbers, for a model that knows only these
    sums: Floats  # (n_leaves, n_sums): weight, sums less origin, and of numbers that y itself is, sums of squares
    leaf_offset: NDArray[np.int64]  # (n_trees + 1,)
    column: NDArray[np.int32] | None  # (n_trees,): the column that a tree sums, where it is one
    origin: Floats  # (n_columns,)
    moments: Floats  # (2, n_columns): of numbers, sums and sums of squares less origin over all rows
    y_range: Floats  # (2, n_columns): of numbers, the smallest and the largest among rows that count
    y_sums: Floats  # of what rows say, and of its size
    n_rows: int
    n_scoring: int
    weight: float
    least_weight: float  # above zero
    largest_weight: float
    sample: RowSample | None

    def __add__(self, other: Partial) -> Partial:
        if not isinstance(other, Partial):
            return NotImplemented
        self._check_same(other)
        # Sums of numbers near zero are exact; the larger part has the better origin.
        first, second = (self, other) if self.weight >= other.weight else (other, self)
        second = second.shift(first.origin)
        return Partial(
            fingerprint=self.fingerprint,
            settings=self.settings,
            names=self.names if other.names is None else other.names,
            encoding=_join_encodings(self.encoding, other.encoding),
            numbering=self.numbering if other.numbering is None else other.numbering,
            sums=first.sums + second.sums,
            leaf_offset=self.leaf_offset,
            column=self.column,
            origin=first.origin,
            moments=first.moments + second.moments,
            y_range=np.stack(
                [np.minimum(self.y_range[0], other.y_range[0]), np.maximum(self.y_range[1], other.y_range[1])]
            ),
            y_sums=self.y_sums + other.y_sums,
            n_rows=self.n_rows + other.n_rows,
            n_scoring=self.n_scoring + other.n_scoring,
            weight=first.weight + second.weight,
            least_weight=min(self.least_weight, other.least_weight),
            largest_weight=max(self.largest_weight, other.largest_weight),
            sample=_join_samples(self.sample, other.sample),
        )

    def __radd__(self, other: Any) -> Partial:
        return self if isinstance(other, int) and other == 0 else NotImplemented  # where `sum` starts

    def check(self) -> None:
        """Refuse a partial whose fields are not what `accumulate` gives, as one that was changed."""
        damaged = self._find_damage()
        if damaged is not None:
            raise ValueError(
                f"the partial is damaged: {damaged} is not what accumulate gives; accumulate its rows again."
            )

    def _find_damage(self) -> str | None:
        own = self.__dict__
        for name, is_right in _FIELDS.items():
            if name not in own or not is_right(own[name]):
                return name
        n_columns, n_trees = len(self.origin), len(self.leaf_offset) - 1
        is_right_too = {
            "leaf_offset": n_trees > 0
            and self.leaf_offset[0] == 0
            and self.leaf_offset[-1] == len(self.sums)
            and (np.diff(self.leaf_offset) >= 0).all(),
            "sums": self.sums.shape[1] > 1 and (self.sums[:, 0] >= 0).all(),
            "column": self.column is None
            or (len(self.column) == n_trees and ((self.column >= 0) & (self.column < n_columns)).all()),
            "moments": len(self.moments) == 2 and self.moments.shape[1] in (0, n_columns),
            "y_range": self.y_range.shape == self.moments.shape,
            "y_sums": len(self.y_sums) == 2,
            "names": (self.names is None) == (self.n_rows == 0),
            "n_scoring": self.n_scoring <= self.n_rows,
            "weight": (self.weight > 0) == (self.n_scoring > 0),
            "least_weight": self.n_scoring == 0 or 0 < self.least_weight <= self.largest_weight <= self.weight,
        }
        return next((name for name, is_right in is_right_too.items() if not is_right), None)

    def check_trees(self, empty: Partial) -> None:
        """Refuse sums that are not of the trees of a model, given its sums over no rows."""
        for name in ("sums", "leaf_offset", "column", "origin", "moments"):
            own, expected = getattr(self, name), getattr(empty, name)
            is_same = np.shape(own) == np.shape(expected)
            if not is_same or (name in ("leaf_offset", "column") and not np.array_equal(own, expected)):
                raise ValueError(
                    f"the partial is damaged: {name} is not of the trees of this model; accumulate its rows again."
                )
        by_tree = np.add.reduceat(self.sums[:, 0], self.leaf_offset[:-1])
        if not np.allclose(by_tree, self.weight, rtol=_ROUNDING, atol=0.0):
            raise ValueError(
                f"the partial is damaged: the weight of its rows is {self.weight:.12g}, and in the leaves of a tree "
                f"{by_tree[np.argmax(np.abs(by_tree - self.weight))]:.12g}; accumulate its rows again."
            )

    def _check_same(self, other: Partial) -> None:
        for partial in (self, other):
            partial.check()
        if self.fingerprint != other.fingerprint:
            raise ValueError("only partials of the same model add up, got those of two.")
        if self.settings != other.settings:
            raise ValueError("only partials that were accumulated with the same target and n_sample add up.")
        if None not in (self.names, other.names) and self.names != other.names:
            raise ValueError("only partials of tables with the same columns add up, got other names of columns.")
        if None not in (self.numbering, other.numbering) and self.numbering != other.numbering:
            raise ValueError(
                "parts must number their categories in the same way, as the model knows them only by number; give each "
                "part all categories, or numbers."
            )
        if self.sums.shape != other.sums.shape or self.moments.shape != other.moments.shape:
            raise ValueError(
                f"only partials with sums of the same shape add up, got {self.sums.shape} and {other.sums.shape}; "
                "accumulate their rows again."
            )

    def shift(self, origin: Floats) -> Partial:
        """The same sums less another origin."""
        step = self.origin - origin
        if not step.any():
            return self
        by_leaf = step
        if self.column is not None:
            by_leaf = np.repeat(step[self.column], np.diff(self.leaf_offset))[:, np.newaxis]
        sums, moments = self.sums.copy(), self.moments.copy()
        n_columns = by_leaf.shape[-1]
        weight, total, square = sums[:, :1], sums[:, 1 : 1 + n_columns], sums[:, 1 + n_columns :]
        if square.size:
            square += by_leaf * (2.0 * total + by_leaf * weight)
        total += by_leaf * weight
        moments[1] += step * (2.0 * moments[0] + step * self.weight)
        moments[0] += step * self.weight
        return replace(self, sums=sums, moments=moments, origin=origin)

    def split(self) -> list[Partial]:
        """The same sums in pieces of some leaves each, which merge with the same pieces of other rows."""
        n_leaves, n_sums = self.sums.shape
        size = max(1, _PIECE_BYTES // (8 * n_sums))
        return [
            replace(
                self,
                sums=self.sums[start : start + size],
                leaf_offset=np.clip(self.leaf_offset - start, 0, len(self.sums[start : start + size])),
            )
            for start in range(0, n_leaves, size)
        ]

    @staticmethod
    def join(pieces: Sequence[Partial]) -> Partial:
        """The sums of all leaves, from their pieces in order."""
        if len({piece.n_rows for piece in pieces}) > 1:
            raise ValueError("pieces must be of the same rows; a task that was run again read others.")
        pieces = [piece.shift(pieces[0].origin) for piece in pieces]  # each may have been merged in another order
        return replace(
            pieces[0],
            sums=np.concatenate([piece.sums for piece in pieces]),
            leaf_offset=np.sum([piece.leaf_offset for piece in pieces], axis=0),
        )

    def __getstate__(self) -> dict[str, Any]:
        self.check()
        state = {part.name: getattr(self, part.name) for part in fields(self)}
        is_reached = self.sums[:, 0] != 0
        if 2 * np.count_nonzero(is_reached) < len(is_reached):
            # A row reaches one leaf of a tree, so that few rows leave most of a deep forest's empty.
            state["sums"] = len(is_reached), np.packbits(is_reached), self.sums[is_reached]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if isinstance(state.get("sums"), tuple):
            n_leaves, packed, kept = state["sums"]
            sums = np.zeros((n_leaves, kept.shape[1]))
            sums[np.unpackbits(packed, count=n_leaves).astype(np.bool_)] = kept
            state = {**state, "sums": sums}
        self.__dict__.update(state)
        self.check()

    def __repr__(self) -> str:
        if self._find_damage() is not None:
            return "Partial(damaged)"
        return f"Partial({self.n_rows} rows, {len(self.leaf_offset) - 1} trees, {len(self.sums)} leaves)"


def _is_array(value: Any, kind: str, n_axes: int, *, finite: bool = True) -> bool:
    """Whether a value is a numpy array of a kind of numbers, all of them finite, or none of them NaN."""
    is_right = isinstance(value, np.ndarray) and value.dtype == kind and value.ndim == n_axes
    return is_right and bool((np.isfinite(value) if finite else ~np.isnan(value)).all())


def _is_number(value: Any) -> bool:
    return isinstance(value, float) and value >= 0


def _is_whole_number(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 0


def _is_settings(value: Any) -> bool:
    """Whether there is an own target, the constant of the loss, and the number of rows in the sample."""
    if not isinstance(value, tuple) or len(value) != 3:
        return False
    own_target, constant, n_sample = value
    return isinstance(own_target, bool) and isinstance(constant, tuple | None) and is_count(n_sample, 0)


# What each field of a partial must be, whatever the model.
_FIELDS: dict[str, Callable[[Any], bool]] = {
    "fingerprint": lambda value: isinstance(value, str),
    "settings": _is_settings,
    "names": lambda value: value is None or (isinstance(value, tuple) and all(isinstance(name, str) for name in value)),
    "encoding": lambda value: isinstance(value, Encoding | None),
    "numbering": lambda value: isinstance(value, tuple | None),
    "sums": lambda value: _is_array(value, "f8", 2),
    "leaf_offset": lambda value: _is_array(value, "i8", 1),
    "column": lambda value: value is None or _is_array(value, "i4", 1),
    "origin": lambda value: _is_array(value, "f8", 1),
    "moments": lambda value: _is_array(value, "f8", 2),
    "y_range": lambda value: _is_array(value, "f8", 2, finite=False),
    "y_sums": lambda value: _is_array(value, "f8", 2),
    "n_rows": _is_whole_number,
    "n_scoring": _is_whole_number,
    "weight": lambda value: _is_number(value) and value < math.inf,
    "least_weight": _is_number,
    "largest_weight": _is_number,
    "sample": lambda value: value is None or (isinstance(value, RowSample) and value.is_whole()),
}


def _join_samples(a: RowSample | None, b: RowSample | None) -> RowSample | None:
    return a if b is None else b if a is None else a + b


def _join_encodings(a: Encoding | None, b: Encoding | None) -> Encoding | None:
    """What either part tells of where columns derive from: rows that are all the same tell nothing."""
    if a is None or b is None:
        return b if a is None else a
    one, other = a.columns, b.columns
    sources = [own | more for own, more in zip(one.sources, other.sources, strict=True)]
    return Encoding(a.inputs, ColumnProvenance(one.names, sources, one.unknown & other.unknown))
