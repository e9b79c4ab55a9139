"""`StreamingModel`: a fitted model that reads its evaluation rows part by part."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from truewood._arguments import check_n_rows
from truewood._engines.records import RowLists
from truewood._engines.selection import get_engine
from truewood._inputs.losses import OfMean
from truewood._inputs.tables import FeatureMatrix, read_features
from truewood._inputs.target import ClassTarget, NumberTarget, Target, encode_target, read_sample_weight, read_target
from truewood._pipelines.encoding import Encoding
from truewood._pipelines.final_estimator import extract_final_estimator, find_final_estimator
from truewood._scoring.inputs import check_target, refuse_heldout
from truewood._scoring.node_means import read_fitted_means
from truewood._trees.ensemble import TreeEnsemble
from truewood.adapters import TreeModel, open_model
from truewood.adapters._spark_model import take_from_session
from truewood.adapters._verification import verify_against_library

Floats = NDArray[np.float64]

# Maximum number of nodes and trees to process at a time; a single tree may exceed the number of nodes.
_BATCH_NODES = 1 << 18
_BATCH_TREES = 64
# Rows that pass through the trees at a time.
BLOCK_ROWS = 1 << 16


class Part(NamedTuple):
    """Some of the rows, as the caller's table holds them.

    Parameters
    ----------
    label : str
        File or partition they come from, for error messages; "" if unknown.
    X, y, sample_weight : object
        As in `importance`.
    """

    label: str
    X: Any
    y: Any
    sample_weight: Any


@dataclass(frozen=True, eq=False)
class Rows:
    """Some of the rows, validated and encoded.

    Parameters
    ----------
    matrix : FeatureMatrix
        Their features.
    y : ndarray of shape (n_rows, n_outputs) or (n_rows, n_scores)
        The values that are summed: class codes, numbers, or for boosted trees the statistic of the loss.
    weight : ndarray of shape (n_rows,), or None
        Their weights; None if every row counts once.
    encoding : Encoding or None
        How preprocessing derives the features from the caller's columns; None without preprocessing.
    category_codes : tuple of (str, list), or None
        Categories of each categorical column in the order of their codes, for a model that knows only the codes.
    """

    matrix: FeatureMatrix
    y: NDArray[Any]
    weight: Floats | None
    encoding: Encoding | None = None
    category_codes: tuple[tuple[str, list[Any]], ...] | None = None

    @property
    def is_scoring(self) -> NDArray[np.bool_]:
        """Which rows have a positive weight, shape (n_rows,)."""
        return np.ones(self.matrix.n_rows, dtype=np.bool_) if self.weight is None else self.weight > 0

    @property
    def y_sums(self) -> Floats:
        """Sums of y and of its absolute value, which identify the rows in a second pass, shape (2, n_columns)."""
        weight = np.ones(self.matrix.n_rows) if self.weight is None else self.weight
        return np.stack([weight @ self.y, weight @ np.abs(self.y)])


class TreeBatch(NamedTuple):
    """Consecutive trees that are processed together."""

    trees: range
    ensemble: TreeEnsemble  # with training means at the nodes
    leaves: NDArray[np.intp]  # positions of the leaves among the nodes


class StreamingModel:
    """A fitted model that reads rows part by part.

    Parameters
    ----------
    fitted : object
        A fitted model, as in `importance`.
    target : callable or None
        ``target(y)``, as in `importance`.
    constant : ndarray or None
        The best constant over all rows, for losses that need it; see `OfConstant`.
    traces_each_part : bool
        Whether to trace encoded columns back to input columns in every part instead of in the first part only. Needed
        if several copies of the model read parts in any order.
    """

    def __init__(
        self, fitted: Any, *, target: Any = None, constant: Floats | None = None, traces_each_part: bool = False
    ) -> None:
        self.fitted = take_from_session(fitted)  # once, because a model in a Spark session is read tree by tree
        self.own_target, self.constant, self._traces_each_part = target, constant, traces_each_part
        self.tree_model: TreeModel = open_model(find_final_estimator(self.fitted))
        self._encoding: Encoding | None = None
        self._is_verified = False
        spec, name = self.tree_model.target, self.tree_model.name
        refuse_heldout(self.tree_model, ", as a table in memory")
        if target is not None and not callable(target):
            raise TypeError(
                f"target must be a function of y if rows are read in parts, got {type(target).__name__}; pass a "
                "function that returns a number for each row."
            )
        check_target(target, self.tree_model, "a function that returns a number for each y")
        if spec.find_caveat is not None or (spec.loss is not None and spec.loss.is_life_table):
            raise ValueError(
                f"{name} compares rows with each other, so its rows cannot be read in parts; pass a table in memory."
            )
        self.is_additive: bool = self.tree_model.is_additive
        self.counts_classes = not self.is_additive and spec.kind.is_classification
        has_constant = spec.loss is not None and spec.loss.of_mean is None and spec.loss.of_constant is not None
        self.needs_constant = target is None and has_constant

    def __reduce__(self) -> tuple[Any, ...]:
        options = {"target": self.own_target, "constant": self.constant, "traces_each_part": True}
        return partial(StreamingModel, **options), (self.fitted,)

    @cached_property
    def of_mean(self) -> OfMean:
        """The statistic of y that is summed for additive trees, and how it becomes their target."""
        spec = self.tree_model.target
        if self.own_target is not None:
            return OfMean(lambda y: read_target(self.own_target, y, spec.n_scores).numbers)
        if spec.loss is not None and spec.loss.of_mean is not None:
            return spec.loss.of_mean
        if spec.loss is None or spec.loss.of_constant is None or self.constant is None:
            raise ValueError(
                f"the target of {self.tree_model.name} depends on the best constant prediction for all rows, which a "
                "part of the rows cannot determine; pass target=, a function that returns a number for each y."
            )
        make_target, constant = spec.loss.of_constant.make_target, self.constant
        return OfMean(lambda y: make_target(y, constant))

    @cached_property
    def tree_batches(self) -> list[TreeBatch]:
        """All trees, in batches."""
        batches = []
        for trees in self.tree_model.split_trees(most_nodes=_BATCH_NODES, most_trees=_BATCH_TREES):
            ensemble = read_fitted_means(self.tree_model, trees)
            batches.append(TreeBatch(trees, ensemble, np.flatnonzero(ensemble.left < 0)))
        return batches

    @cached_property
    def leaf_offset(self) -> NDArray[np.int64]:
        """Position of the first leaf of each tree among all leaves, then the number of leaves, shape (n_trees + 1,)."""
        n_leaves = [np.diff(np.searchsorted(leaves, ensemble.offset)) for _, ensemble, leaves in self.tree_batches]
        return np.append(0, np.cumsum(np.concatenate(n_leaves)))

    @cached_property
    def column(self) -> NDArray[np.int32] | None:
        """Target column that each tree predicts, shape (n_trees,); None if every tree predicts all columns."""
        columns = [batch.ensemble.column for batch in self.tree_batches]
        return None if columns[0] is None else np.concatenate([own for own in columns if own is not None])

    @cached_property
    def used_columns(self) -> NDArray[np.int32]:
        """The columns that any tree splits on, ascending."""
        return np.unique(np.concatenate([batch.ensemble.split_features for batch in self.tree_batches]))

    @cached_property
    def most_split_columns(self) -> NDArray[np.int64]:
        """All columns, from that with the most splits to that with the fewest."""
        n_splits = np.zeros(self.tree_model.n_features, dtype=np.int64)
        for _, ensemble, _ in self.tree_batches:
            n_splits += np.bincount(ensemble.split_features, minlength=len(n_splits))
        return np.argsort(-n_splits, kind="stable")

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the trees, the column names and the classes, which identifies the model."""
        digest, names = hashlib.blake2b(digest_size=16), self.tree_model.table.names
        for _, ensemble, _ in self.tree_batches:
            for name in ("feature", "threshold", "left", "right", "missing_left", "weight", "value", "offset"):
                digest.update(getattr(ensemble, name).tobytes())
            if ensemble.categories is not None:
                for part in (ensemble.categories.node_set, ensemble.categories.offset, ensemble.categories.bits):
                    digest.update(part.tobytes())
        classes = [labels.tolist() for labels in self.tree_model.target.kind.classes]
        column = None if self.column is None else self.column.tolist()
        digest.update(repr((None if names is None else list(map(str, names)), classes, column)).encode())
        return digest.hexdigest()

    def read(self, part: Part, known: Encoding | None = None) -> Rows:
        """Validate and encode some rows, at least one; `known` is their encoding if it is known already."""
        known, is_first = known or self._encoding, not self._is_verified
        final = extract_final_estimator(self.fitted, part.X, part.y, "heldout", known=known, check_parts=is_first)
        if not self._traces_each_part:
            self._encoding = final.encoding
        matrix = read_features(final.X, self.tree_model.table)
        if is_first:
            verify_against_library(self.tree_model, matrix)
            self._is_verified = True
        weight = read_sample_weight(part.sample_weight, matrix.n_rows, may_be_zero=True)
        y = self._read_y(final.y)
        check_n_rows(len(y), matrix.n_rows, "y")
        codes = _list_category_codes(final.X) if self.tree_model.table.takes_codes else None
        return Rows(matrix, y, weight, final.encoding, codes)

    def verify(self, part: Part) -> None:
        """Compare some rows with the library's own predictions, as `read` does with the first rows."""
        final = extract_final_estimator(self.fitted, part.X, part.y, "heldout")
        verify_against_library(self.tree_model, read_features(final.X, self.tree_model.table))

    def encode_y(self, y: Any) -> Target:
        """Encode y, given as the final estimator takes it."""
        spec = self.tree_model.target
        given = y if spec.read_y is None else spec.read_y(y)
        return encode_target(given, spec.kind, np.zeros(spec.kind.n_columns))

    def _read_y(self, y: Any) -> NDArray[Any]:
        if not self.is_additive:
            encoded = self.encode_y(y)
            return encoded.codes if isinstance(encoded, ClassTarget) else encoded.numbers
        statistic: Callable[[Any], Floats] = self.of_mean.statistic
        values = statistic(y if self.own_target is not None else self.encode_y(y).encoded)
        n_scores = self.tree_model.target.n_scores
        if values.ndim != 2 or values.shape[1] != n_scores or not np.isfinite(values).all():
            raise ValueError(
                f"the loss of the model must return finite numbers, a column for each of {n_scores} raw scores, got "
                f"shape {values.shape}."
            )
        return values

    def make_target(self, y: NDArray[Any], origin: Floats) -> Target:
        """`Rows.y` as a target for the engine: class codes, or numbers minus `origin`."""
        kind = self.tree_model.target.kind
        return ClassTarget(kind, y) if self.counts_classes else NumberTarget(kind, y - origin, origin)

    def sum_at_leaves(self, matrix: FeatureMatrix, target: Target, weight: Floats | None, n_threads: int) -> Floats:
        """Weight, sums and, for regression forests, sums of squares of some rows at all leaves, (n_leaves, n_sums)."""
        engine, parts = get_engine(), []
        for trees, ensemble, leaves in self.tree_batches:
            summed = None
            for start, stop in self.split_rows(matrix.n_rows, BLOCK_ROWS):
                block, values = matrix.take_range(start, stop), target.take_range(start, stop)
                own = None if weight is None else weight[start:stop]
                if self.tree_model.finds_leaves:
                    rows = RowLists.of_every_row(stop - start, len(trees))
                    reached = self.tree_model.find_leaves(trees, ensemble, block, rows)
                    sums = engine.sum_leaves(ensemble, reached, rows, values, own)
                else:
                    sums = engine.sum_nodes(ensemble, block, values, own, n_threads)
                summed = sums if summed is None else summed + sums
            if summed is None:
                raise ValueError("sums at leaves need at least one row, got none.")
            at_leaves = summed.take(leaves)
            squares = [] if self.counts_classes or self.is_additive else [at_leaves.square]
            parts.append(np.column_stack([at_leaves.weight, at_leaves.total, *squares]))
        return np.concatenate(parts)

    def split_rows(self, n_rows: int, n_at_once: int) -> Iterator[tuple[int, int]]:
        """Blocks of rows; a single block if the library finds the leaves itself, because it takes all rows at once."""
        n_at_once = n_rows if self.tree_model.finds_leaves else n_at_once
        for start in range(0, n_rows, n_at_once):
            yield start, min(start + n_at_once, n_rows)


def _list_category_codes(X: Any) -> tuple[tuple[str, list[Any]], ...] | None:
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return None
    names = [name for name, dtype in frame.schema.items() if dtype in (nw.Categorical, nw.Enum)]
    return tuple((name, frame[name].to_arrow().to_pandas().cat.categories.tolist()) for name in names)
