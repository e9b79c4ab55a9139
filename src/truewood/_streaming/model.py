"""`StreamingModel`: a fitted model that is opened once and then reads one part of the rows after the other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from truewood._formatting import list_names
from truewood._inputs.losses import OfMean
from truewood._inputs.tables import FeatureMatrix, InputSpec, read_features
from truewood._inputs.target import ClassTarget, NumberTarget, Target, encode_target, read_sample_weight, read_target
from truewood._pipelines.encoding import Encoding
from truewood._pipelines.final_estimator import (
    extract_final_estimator,
    extract_target,
    find_final_estimator,
    find_spark_pipeline,
)
from truewood._scoring.node_means import read_fitted_means
from truewood._scoring.trees import split_trees
from truewood._trees.ensemble import TreeEnsemble
from truewood.adapters import TreeModel, open_model
from truewood.adapters._spark_model import take_from_session
from truewood.adapters._verification import verify_against_library

Floats = NDArray[np.float64]

# Trees that are worked on at a time; a single one may be larger.
_RUN_NODES = 1 << 18
_RUN_TREES = 64


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows, as the model takes them.

    Parameters
    ----------
    matrix : FeatureMatrix
        Their features.
    said : ndarray of shape (n_rows, n_outputs) or (n_rows, n_scores)
        What is summed of their y: codes of classes, numbers, or of boosted trees what the loss's mean is of.
    weight : ndarray of shape (n_rows,), or None
        Their weights; None where every row counts once.
    encoding : Encoding or None
        How the features came about, where preprocessing made them.
    numbering : tuple of (str, list), or None
        Columns of categories, and these in the order of their numbers, for a model that knows them only by number.
    """

    matrix: FeatureMatrix
    said: NDArray[Any]
    weight: Floats | None
    encoding: Encoding | None = None
    numbering: tuple[tuple[str, list[Any]], ...] | None = None

    @property
    def is_scoring(self) -> NDArray[np.bool_]:
        """Which rows count, shape (n_rows,)."""
        return np.ones(self.matrix.n_rows, dtype=np.bool_) if self.weight is None else self.weight > 0

    @property
    def y_sums(self) -> Floats:
        """Sums of what they say, and of its size, by which rows are known again, shape (2, n_columns)."""
        each = np.ones(self.matrix.n_rows) if self.weight is None else self.weight
        return np.stack([each @ self.said, each @ np.abs(self.said)])


class StreamingModel:
    """A fitted model that reads rows in parts.

    Parameters
    ----------
    model : object
        As of `importance`.
    target : callable or None
        ``target(y)``, as of `importance`.
    constant : ndarray or None
        What all rows say for a loss whose target is not a multiple of something less its mean; see `OfConstant`.
    is_copy : bool
        Whether it reads some of the parts, in any order, beside others of its kind: each part then has to tell how
        preprocessing makes columns, and not only the first.
    """

    def __init__(
        self, model: Any, *, target: Any = None, constant: Floats | None = None, is_copy: bool = False
    ) -> None:
        self.model = take_from_session(model)  # once: a model of Spark is read tree by tree
        self.own_target, self.constant, self._is_copy = target, constant, is_copy
        self.tree_model: TreeModel = open_model(find_final_estimator(self.model))
        self.encoding: Encoding | None = None
        self._is_checked = False
        tree_model = self.tree_model
        if tree_model.why_no_heldout is not None:
            raise ValueError(f"rows must be 'oob' for {tree_model.name}, which {tree_model.why_no_heldout}.")
        if target is not None and not callable(target):
            raise TypeError(
                f"target must be a function that makes numbers of y where rows come in parts, got "
                f"{type(target).__name__}."
            )
        if target is not None and not tree_model.is_additive:
            raise ValueError(
                f"target is for boosted trees; {tree_model.name} is scored by y, so pass what you want as y."
            )
        if tree_model.target.find_caveat is not None or (
            tree_model.target.loss is not None and tree_model.target.loss.is_life_table
        ):
            raise ValueError(
                f"{tree_model.name} compares rows with each other, so that its rows cannot be read in parts; pass a "
                "table in memory."
            )

    def with_constant(self, constant: Floats) -> StreamingModel:
        """The same model with what all rows say for its loss."""
        return StreamingModel(self.model, target=self.own_target, constant=constant)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(StreamingModel, target=self.own_target, constant=self.constant, is_copy=True), (self.model,)

    @property
    def is_additive(self) -> bool:
        """Whether sums are of something whose mean all rows decide on."""
        return self.tree_model.is_additive

    @property
    def counts_classes(self) -> bool:
        """Whether what is summed are classes."""
        return not self.is_additive and self.tree_model.target.kind.is_classification

    @cached_property
    def of_mean(self) -> OfMean:
        """What is summed of y, and how it becomes the target of additive trees."""
        form = self.tree_model.target
        if self.own_target is not None:
            return OfMean(self._read_own_target)
        if form.loss is None:
            raise ValueError(f"{form.why_no_loss}; pass target=, a function that makes a number of y.")
        if form.loss.of_mean is not None:
            return form.loss.of_mean
        find = form.loss.of_constant
        if find is None or self.constant is None:
            raise ValueError(
                f"the target of {self.tree_model.name} follows from the best constant for all rows, which a part of "
                "them does not tell; pass target=, a function that makes a number of y."
            )
        make_target, constant = find.make_target, self.constant
        return OfMean(lambda y: make_target(y, constant))

    def _read_own_target(self, y: Any) -> Floats:
        return read_target(self.own_target, y, self.tree_model.target.n_scores).numbers

    @cached_property
    def model_origin(self) -> Floats:
        """A typical target, known from the model alone, shape (n_columns,): the mean at the first root."""
        root: Floats = self.runs[0][1].value[0].copy()
        return np.zeros_like(root) if self.counts_classes else root

    @cached_property
    def runs(self) -> list[tuple[range, TreeEnsemble]]:
        """The trees in runs, with means at their nodes."""
        split = split_trees(self.tree_model.n_nodes, most_nodes=_RUN_NODES, most_trees=_RUN_TREES)
        return [(trees, read_fitted_means(self.tree_model, trees)) for trees in split]

    @cached_property
    def leaves(self) -> list[NDArray[np.intp]]:
        """Places of the leaves of each run."""
        return [np.flatnonzero(ensemble.left < 0) for _, ensemble in self.runs]

    @cached_property
    def leaf_offset(self) -> NDArray[np.int64]:
        """Where the leaves of each tree begin among all leaves, and where the last end, shape (n_trees + 1,)."""
        sizes = [
            np.diff(np.searchsorted(leaves, ensemble.offset))
            for (_, ensemble), leaves in zip(self.runs, self.leaves, strict=True)
        ]
        return np.append(0, np.cumsum(np.concatenate(sizes)))

    @cached_property
    def column(self) -> NDArray[np.int32] | None:
        """The column of the target that each tree speaks of, shape (n_trees,); None where all speak of all."""
        columns = [ensemble.column for _, ensemble in self.runs]
        return None if columns[0] is None else np.concatenate([own for own in columns if own is not None])

    @cached_property
    def used_columns(self) -> NDArray[np.int32]:
        """The columns that any tree splits on, ascending."""
        return np.unique(np.concatenate([ensemble.split_features for _, ensemble in self.runs]))

    @cached_property
    def fingerprint(self) -> str:
        """What tells this model from others: a hash of its trees and of what it predicts."""
        digest, form = hashlib.blake2b(digest_size=16), self.tree_model.table
        parts = ("feature", "threshold", "left", "right", "missing_left", "weight", "value", "offset")
        for _, ensemble in self.runs:
            for name in parts:
                digest.update(getattr(ensemble, name).tobytes())
            if ensemble.categories is not None:
                for part in (ensemble.categories.node_set, ensemble.categories.offset, ensemble.categories.bits):
                    digest.update(part.tobytes())
        names = None if form.names is None else [str(name) for name in form.names]
        classes = [labels.tolist() for labels in self.tree_model.target.kind.classes]
        digest.update(repr((names, classes, None if self.column is None else self.column.tolist())).encode())
        return digest.hexdigest()

    def read(self, X: Any, y: Any, sample_weight: Any) -> Rows:
        """Read some rows, at least one, as the model takes them."""
        is_first = not self._is_checked
        parts = extract_final_estimator(self.model, X, y, "heldout", known=self.encoding, check_parts=is_first)
        if not self._is_copy:
            self.encoding = parts.encoding
        matrix = read_features(parts.X, self.tree_model.table)
        if is_first:
            verify_against_library(self.tree_model, matrix)
            self._is_checked = True
        weight = read_sample_weight(sample_weight, matrix.n_rows, may_be_zero=True)
        said = self._read_y(parts.y)
        if len(said) != matrix.n_rows:
            raise ValueError(f"X and y must have the same number of rows, got {matrix.n_rows} and {len(said)}.")
        numbering = _find_numbering(parts.X) if self.tree_model.table.takes_codes else None
        return Rows(matrix, said, weight, parts.encoding, numbering)

    def compare(self, X: Any, y: Any) -> None:
        """Compare leaves of some rows with what the library of the model says, as `read` does for the first rows."""
        parts = extract_final_estimator(self.model, X, y, "heldout")
        verify_against_library(self.tree_model, read_features(parts.X, self.tree_model.table))

    def unwrap_y(self, y: Any) -> Any:
        """Y as the innermost model takes it."""
        return extract_target(self.model, y)

    def read_encoded(self, y: Any) -> Target:
        """What a loss takes, of y as the innermost model takes it."""
        form = self.tree_model.target
        given = y if form.read_y is None else form.read_y(y)
        return encode_target(given, form.kind, np.zeros(form.kind.n_columns))

    def _read_y(self, y: Any) -> NDArray[Any]:
        if not self.is_additive:
            encoded = self.read_encoded(y)
            return encoded.codes if isinstance(encoded, ClassTarget) else encoded.numbers
        statistic: Callable[[Any], Floats] = self.of_mean.statistic
        said = statistic(y if self.own_target is not None else self.read_encoded(y).encoded)
        n_scores = self.tree_model.target.n_scores
        if said.ndim != 2 or said.shape[1] != n_scores or not np.isfinite(said).all():
            raise ValueError(
                f"the loss of the model must give finite numbers, a column for each of {n_scores} raw scores, got "
                f"shape {said.shape}."
            )
        return said

    def make_target(self, said: NDArray[Any], origin: Floats) -> Target:
        """What rows say as a target to be summed, less `origin`."""
        kind = self.tree_model.target.kind
        if self.counts_classes:
            return ClassTarget(kind, said)
        return NumberTarget(kind, said - origin, origin)


def _find_numbering(X: Any) -> tuple[tuple[str, list[Any]], ...] | None:
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return None
    names = [name for name, kind in frame.schema.items() if kind in (nw.Categorical, nw.Enum)]
    return tuple((name, frame[name].to_arrow().to_pandas().cat.categories.tolist()) for name in names)


def choose_columns(model: Any, form: InputSpec, known: Sequence[str], others: Sequence[str]) -> list[str]:
    """Names of the columns of a source that a model takes, in its order.

    Parameters
    ----------
    model : object
        The model, with whatever is around it.
    form : InputSpec
        The table that the innermost model takes.
    known : sequence of str
        Names of the columns that there are. A model without names takes all of them, in their order.
    others : sequence of str
        Columns of the target and of the weights.
    """
    is_plain = find_final_estimator(model) is model
    names: Sequence[Any] | None
    if is_plain:
        names, n_columns = form.names if form.names is None else form.names.tolist(), form.n_features
    elif (spark := find_spark_pipeline(model)) is not None:
        names, n_columns = spark.inputs, form.n_features
    else:
        names, n_columns = getattr(model, "feature_names_in_", None), getattr(model, "n_features_in_", None)
    given = [name for name in known if name not in others]
    if names is None:
        if n_columns is not None and len(given) != n_columns:
            raise ValueError(
                f"X must have the {n_columns} columns {form.model} was fit on, got {len(given)} beside y and "
                f"sample_weight: {list_names(given, 5)}; {form.model} knows no names of columns."
            )
        return given
    spell = form.spell if is_plain else str
    # A column of the very name comes before one that is only spelled so.
    spelled = {spell(name): name for name in given} | {name: name for name in given}
    absent = [str(name) for name in names if str(name) not in spelled]
    if absent:
        raise ValueError(
            f"X must have the columns {form.model} was fit on, and lacks {list_names(absent, 5)}; it has "
            f"{list_names(given, 5)}."
        )
    return [spelled[str(name)] for name in names]
