"""`PartialSums`: sums of some rows at the leaves of a model; the sums of disjoint rows add up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from truewood._arguments import count_rows, is_count
from truewood._formatting import quote
from truewood._inputs.target import NumberTarget
from truewood._pipelines.encoding import Encoding
from truewood._pipelines.provenance import ColumnProvenance
from truewood._scoring.results import find_groupings
from truewood._streaming.copy_sample import CopySample
from truewood._streaming.model import Part, Rows, StreamingModel
from truewood._streaming.row_sample import RowSample

Floats = NDArray[np.float64]
Sample = TypeVar("Sample", RowSample, CopySample)

# Relative rounding error of a sum of weights that is computed in another order.
ROUNDING = 1e-9
# Size of the pieces that Spark moves and adds up.
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, eq=False, repr=False)
class PartialSums:
    """Sums over some rows at the leaves of a model, without the model itself.

    Sums of the same model over disjoint rows add up by ``+``, in any order. They can be pickled.
    """

    fingerprint: str  # of the model
    settings: tuple[Any, ...]  # whether `target` was passed, constant of the loss, sample size
    names: tuple[str, ...] | None  # columns of the table that the final estimator takes; None without rows
    encoding: Encoding | None
    category_codes: tuple[Any, ...] | None
    sums: Floats  # (n_leaves, n_sums): weight, sums of y - origin, and for regression forests sums of squares
    leaf_offset: NDArray[np.int64]  # (n_trees + 1,)
    column: NDArray[np.int32] | None  # (n_trees,): target column that each tree sums, if it is only one
    origin: Floats  # (n_columns,)
    moments: Floats  # (2, n_columns): for numbers, sums and sums of squares of y - origin over all rows
    y_range: Floats  # (2, n_columns): for numbers, minimum and maximum among scoring rows
    y_sums: Floats  # see `Rows.y_sums`
    n_rows: int
    n_scoring: int  # rows with positive weight
    weight: float
    least_weight: float  # among positive weights
    largest_weight: float
    sample: RowSample | None
    copies: CopySample | None  # None without inference, or if the library finds leaves itself

    @classmethod
    def of_no_rows(cls, model: StreamingModel, n_sample: int) -> PartialSums:
        """Sums over no rows."""
        spec = model.tree_model.target
        if model.counts_classes:
            n_sums, n_columns, n_moments = 1 + spec.kind.n_columns, spec.kind.n_columns, 0
        else:
            n_columns = n_moments = spec.n_scores if model.is_additive else spec.kind.n_columns
            n_sums = 1 + (1 if model.is_additive else 2) * (n_columns if model.column is None else 1)
        constant = None if model.constant is None else tuple(model.constant.tolist())
        return cls(
            fingerprint=model.fingerprint,
            settings=(model.own_target is not None, constant, n_sample),
            names=None,
            encoding=None,
            category_codes=None,
            sums=np.zeros((int(model.leaf_offset[-1]), n_sums)),
            leaf_offset=model.leaf_offset,
            column=model.column,
            origin=np.zeros(n_columns),
            moments=np.zeros((2, n_moments)),
            y_range=np.repeat([[np.inf], [-np.inf]], n_moments, axis=1),
            y_sums=np.zeros((2, 1)),
            n_rows=0,
            n_scoring=0,
            weight=0.0,
            least_weight=np.inf,
            largest_weight=0.0,
            sample=None,
            copies=None,
        )

    @classmethod
    def of_part(
        cls,
        model: StreamingModel,
        part: Part,
        *,
        feature_groups: Any,
        inference: bool,
        n_sample: int,
        n_threads: int,
    ) -> PartialSums:
        """Sums over one part of the rows; validates `feature_groups` too, before the other parts are read."""
        none = cls.of_no_rows(model, n_sample)
        if count_rows(part.X) == 0:
            return none
        rows = model.read(part)
        find_groupings(feature_groups, rows.matrix.names.astype(np.str_), rows.encoding, model.tree_model)
        none = replace(
            none,
            names=tuple(map(str, rows.matrix.names)),
            encoding=rows.encoding,
            category_codes=rows.category_codes,
            y_sums=rows.y_sums,
            n_rows=rows.matrix.n_rows,
        )
        if not rows.is_scoring.any():
            return none
        if inference and not model.tree_model.finds_leaves:
            none = replace(none, copies=CopySample.draw(model, rows))
        return none._add_rows(model, rows, n_sample, n_threads)

    def _add_rows(self, model: StreamingModel, rows: Rows, n_sample: int, n_threads: int) -> PartialSums:
        """Add rows, some with positive weight."""
        weight = np.ones(rows.matrix.n_rows) if rows.weight is None else rows.weight
        is_scoring, origin = weight > 0, self.origin
        if model.is_additive:
            origin = np.average(rows.y, axis=0, weights=rows.weight)
        elif not model.counts_classes:
            origin = model.tree_batches[0].ensemble.value[0].copy()  # a typical y, known from the model alone
        target, moments, y_range = model.make_target(rows.y, origin), self.moments, self.y_range
        if isinstance(target, NumberTarget):
            moments = np.stack([weight @ target.numbers, weight @ target.numbers**2])
            y_range = np.stack([rows.y[is_scoring].min(axis=0), rows.y[is_scoring].max(axis=0)])
        has_sample = n_sample > 0 and not model.tree_model.finds_leaves
        return replace(
            self,
            sums=model.sum_at_leaves(rows.matrix, target, rows.weight, n_threads),
            origin=origin,
            moments=moments,
            y_range=y_range,
            n_scoring=int(np.count_nonzero(is_scoring)),
            weight=float(weight.sum()),
            least_weight=float(weight[is_scoring].min()),
            largest_weight=float(weight.max()),
            sample=RowSample.draw(model, rows, n_sample) if has_sample else None,
        )

    def __add__(self, other: PartialSums) -> PartialSums:
        if not isinstance(other, PartialSums):
            return NotImplemented
        self._check_compatible(other)
        # Sums of numbers near zero are exact, and the origin of the larger part is closer to the mean of all rows.
        first, second = (self, other) if self.weight >= other.weight else (other, self)
        second = second.shift(first.origin)
        low, high = np.minimum(self.y_range[0], other.y_range[0]), np.maximum(self.y_range[1], other.y_range[1])
        return replace(
            self,
            names=self.names if other.names is None else other.names,
            encoding=_merge_encodings(self.encoding, other.encoding),
            category_codes=self.category_codes if other.category_codes is None else other.category_codes,
            sums=first.sums + second.sums,
            origin=first.origin,
            moments=first.moments + second.moments,
            y_range=np.stack([low, high]),
            y_sums=self.y_sums + other.y_sums,
            n_rows=self.n_rows + other.n_rows,
            n_scoring=self.n_scoring + other.n_scoring,
            weight=first.weight + second.weight,
            least_weight=min(self.least_weight, other.least_weight),
            largest_weight=max(self.largest_weight, other.largest_weight),
            sample=_add_samples(self.sample, other.sample),
            copies=_add_samples(self.copies, other.copies),
        )

    def __radd__(self, other: Any) -> PartialSums:
        return self if isinstance(other, int) and other == 0 else NotImplemented  # `sum` starts from 0

    def _check_compatible(self, other: PartialSums) -> None:
        self.check()
        other.check()
        if self.fingerprint != other.fingerprint:
            raise ValueError("only accumulators of the same model can be added, got two models; create all with one.")
        for (name, own), given in zip(self._list_settings().items(), other._list_settings().values(), strict=True):
            if own != given:
                raise ValueError(
                    f"only accumulators with the same {name} can be added, got {own} and {given}; create both with the "
                    "same settings."
                )
        if None not in (self.names, other.names) and self.names != other.names:
            raise ValueError(
                "only sums of tables with the same columns can be added, got different column names; name the columns "
                "of every part alike."
            )
        if None not in (self.category_codes, other.category_codes) and self.category_codes != other.category_codes:
            raise ValueError(
                "every part must encode its categories with the same codes, because the model knows only the codes, "
                "got different categories; give every part all categories, or pass numbers."
            )
        if self.sums.shape != other.sums.shape or self.moments.shape != other.moments.shape:
            raise ValueError(
                f"only sums of the same shape can be added, got {self.sums.shape} and {other.sums.shape}; accumulate "
                "their rows again."
            )

    def _list_settings(self) -> dict[str, str]:
        """The settings in words."""
        has_target, constant, n_sample = self.settings
        return {
            "target": "a function" if has_target else "None",
            "best constant": quote(constant),
            "n_sample": f"{n_sample:,}",
        }

    def check(self) -> None:
        """Raise an error if a field is not what `of_part` computes, for example because it was modified."""
        damaged = self.find_damage()
        if damaged is not None:
            raise ValueError(f"the partial sums are damaged: {damaged} is not valid; accumulate their rows again.")

    def find_damage(self) -> str | None:
        """Name of the first field that is missing or not valid; None if all are."""
        own = {field.name: self.__dict__.get(field.name, _MISSING) for field in fields(self)}
        names, sample, copies, settings = own["names"], own["sample"], own["copies"], own["settings"]
        is_valid = {
            "fingerprint": isinstance(own["fingerprint"], str),
            "settings": isinstance(settings, tuple)
            and len(settings) == 3
            and isinstance(settings[0], bool)
            and isinstance(settings[1], tuple | None)
            and is_count(settings[2], 0),
            "names": names is None or (isinstance(names, tuple) and all(isinstance(name, str) for name in names)),
            "encoding": isinstance(own["encoding"], Encoding | None),
            "category_codes": isinstance(own["category_codes"], tuple | None),
            "column": own["column"] is None or _is_array(own["column"], "i4", 1),
            "leaf_offset": _is_array(own["leaf_offset"], "i8", 1),
            "origin": _is_array(own["origin"], "f8", 1),
            **{name: _is_array(own[name], "f8", 2) for name in ("sums", "moments", "y_sums")},
            "y_range": _is_array(own["y_range"], "f8", 2, finite=False),
            "n_rows": _is_whole_number(own["n_rows"]),
            "n_scoring": _is_whole_number(own["n_scoring"]),
            "weight": _is_amount(own["weight"]) and own["weight"] < math.inf,
            "least_weight": _is_amount(own["least_weight"]),
            "largest_weight": _is_amount(own["largest_weight"]),
            "sample": sample is None or (isinstance(sample, RowSample) and sample.is_valid()),
            "copies": copies is None or (isinstance(copies, CopySample) and copies.is_valid()),
        }
        if all(is_valid.values()):  # then check fields against each other
            n_columns, n_trees, offset = len(self.origin), len(self.leaf_offset) - 1, self.leaf_offset
            ends = n_trees > 0 and offset[0] == 0 and offset[-1] == len(self.sums)
            is_valid = {
                "leaf_offset": ends and (np.diff(offset) >= 0).all(),
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
                "copies": self.copies is None or self.copies.fits(len(self.names or ()), self.n_scoring),
            }
        return next((name for name, valid in is_valid.items() if not valid), None)

    def check_model(self, model: StreamingModel) -> None:
        """Raise an error if the sums are damaged, or not those of rows in the trees of a model."""
        self.check()
        if self.fingerprint != model.fingerprint:
            raise ValueError("the partial sums must be of the model that was passed, got those of another model.")
        if self.n_scoring == 0:
            return
        none = PartialSums.of_no_rows(model, 0)
        for name in ("sums", "leaf_offset", "column", "origin", "moments"):
            own, expected = getattr(self, name), getattr(none, name)
            is_same = np.shape(own) == np.shape(expected)
            if not is_same or (name in ("leaf_offset", "column") and not np.array_equal(own, expected)):
                raise ValueError(
                    f"the partial sums are damaged: {name} does not fit the trees of the model; accumulate their rows "
                    "again."
                )
        by_tree = np.add.reduceat(self.sums[:, 0], self.leaf_offset[:-1])
        if not np.allclose(by_tree, self.weight, rtol=ROUNDING, atol=0.0):
            raise ValueError(
                f"the partial sums are damaged: their rows weigh {self.weight:.12g}, but the leaves of one tree hold "
                f"{by_tree[np.argmax(np.abs(by_tree - self.weight))]:.12g}; accumulate their rows again."
            )
        if self.sample is not None and self.sample.values.shape[1] != len(model.used_columns):
            raise ValueError(
                "the partial sums are damaged: sample does not have the columns that the trees split on; accumulate "
                "their rows again."
            )

    def shift(self, origin: Floats) -> PartialSums:
        """The same sums around another origin."""
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

    def split(self) -> list[PartialSums]:
        """The same sums in pieces of some leaves each; add a piece to the same piece of other rows."""
        n_leaves, n_sums = self.sums.shape
        size = max(1, _PIECE_BYTES // (8 * n_sums))
        pieces = []
        for start in range(0, n_leaves, size):
            sums = self.sums[start : start + size]
            offset, copies = np.clip(self.leaf_offset - start, 0, len(sums)), None if start else self.copies
            pieces.append(replace(self, sums=sums, leaf_offset=offset, copies=copies))
        return pieces

    @staticmethod
    def join(pieces: Sequence[PartialSums]) -> PartialSums:
        """Join the pieces of all leaves, in order."""
        if len({piece.n_rows for piece in pieces}) > 1:
            raise ValueError(
                "all pieces must come from the same rows, but their numbers of rows differ: a task that was run twice "
                "read different rows; if a random step selects or changes rows, save its output and pass that."
            )
        pieces = [piece.shift(pieces[0].origin) for piece in pieces]  # each may have been added in another order
        return replace(
            pieces[0],
            sums=np.concatenate([piece.sums for piece in pieces]),
            leaf_offset=np.sum([piece.leaf_offset for piece in pieces], axis=0),
        )

    def __getstate__(self) -> dict[str, Any]:
        self.check()
        state = dict(self.__dict__)
        is_reached = self.sums[:, 0] != 0
        if 2 * np.count_nonzero(is_reached) < len(is_reached):
            # A row reaches one leaf per tree, so a few rows leave most leaves of a deep forest empty.
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


def _add_samples(one: Sample | None, other: Sample | None) -> Sample | None:
    return (one if other is None else other) if one is None or other is None else one + other


_MISSING = object()  # because None is a valid value


def _is_array(value: Any, dtype: str, n_axes: int, *, finite: bool = True) -> bool:
    """Whether a value is a numpy array of this dtype that holds no NaN, and if `finite` no infinity."""
    is_right = isinstance(value, np.ndarray) and value.dtype == dtype and value.ndim == n_axes
    return is_right and bool((np.isfinite(value) if finite else ~np.isnan(value)).all())


def _is_amount(value: Any) -> bool:
    return isinstance(value, float) and value >= 0


def _is_whole_number(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 0


def _merge_encodings(a: Encoding | None, b: Encoding | None) -> Encoding | None:
    """Union of the sources that either part found, because an input that is constant in a part reveals nothing."""
    if a is None or b is None:
        return b if a is None else a
    one, other = a.columns, b.columns
    sources = [own | more for own, more in zip(one.sources, other.sources, strict=True)]
    return Encoding(a.inputs, ColumnProvenance(one.names, sources, one.unknown & other.unknown))
