"""`OpenedModel`: a fitted model that is opened once and then reads one part of the rows after the other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from truewood.adapters import ModelView, check_agreement, open_model, take_from_session
from truewood.data.losses import OfMean
from truewood.data.tables import FeatureMatrix, read_features
from truewood.data.target import ClassTarget, NumberTarget, Target, encode_target, read_sample_weight, read_target
from truewood.pipelines.grouping import Encoding
from truewood.pipelines.unwrapping import find_innermost, unwrap, unwrap_target
from truewood.scoring.node_means import read_fitted_means
from truewood.scoring.scores import split_trees
from truewood.trees.ensemble import TreeEnsemble

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


class OpenedModel:
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
        self.view: ModelView = open_model(find_innermost(self.model))
        self.encoding: Encoding | None = None
        self._is_checked = False
        view = self.view
        if view.why_no_heldout is not None:
            raise ValueError(f"rows must be 'oob' for {view.name}, which {view.why_no_heldout}.")
        if target is not None and not callable(target):
            raise TypeError(
                f"target must be a function that makes numbers of y where rows come in parts, got "
                f"{type(target).__name__}."
            )
        if target is not None and not view.is_additive:
            raise ValueError(f"target is for boosted trees; {view.name} is scored by y, so pass what you want as y.")
        if view.target.find_doubt is not None or (view.target.loss is not None and view.target.loss.is_life_table):
            raise ValueError(
                f"{view.name} compares rows with each other, so that its rows cannot be read in parts; pass a table in "
                "memory."
            )

    def with_constant(self, constant: Floats) -> OpenedModel:
        """The same model with what all rows say for its loss."""
        return OpenedModel(self.model, target=self.own_target, constant=constant)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(OpenedModel, target=self.own_target, constant=self.constant, is_copy=True), (self.model,)

    @property
    def is_additive(self) -> bool:
        """Whether sums are of something whose mean all rows decide on."""
        return self.view.is_additive

    @property
    def counts_classes(self) -> bool:
        """Whether what is summed are classes."""
        return not self.is_additive and self.view.target.kind.is_classification

    @cached_property
    def of_mean(self) -> OfMean:
        """What is summed of y, and how it becomes the target of additive trees."""
        form = self.view.target
        if self.own_target is not None:
            return OfMean(self._read_own_target)
        if form.loss is None:
            raise ValueError(f"{form.why_no_loss}; pass target=, a function that makes a number of y.")
        if form.loss.of_mean is not None:
            return form.loss.of_mean
        find = form.loss.of_constant
        if find is None or self.constant is None:
            raise ValueError(
                f"the target of {self.view.name} follows from the best constant for all rows, which a part of them "
                "does not tell; pass target=, a function that makes a number of y."
            )
        make_target, constant = find.make_target, self.constant
        return OfMean(lambda y: make_target(y, constant))

    def _read_own_target(self, y: Any) -> Floats:
        return read_target(self.own_target, y, self.view.target.n_scores).numbers

    @cached_property
    def model_origin(self) -> Floats:
        """A typical target, known from the model alone, shape (n_columns,): the mean at the first root."""
        root: Floats = self.runs[0][1].value[0].copy()
        return np.zeros_like(root) if self.counts_classes else root

    @cached_property
    def runs(self) -> list[tuple[range, TreeEnsemble]]:
        """The trees in runs, with means at their nodes."""
        split = split_trees(self.view.n_nodes, most_nodes=_RUN_NODES, most_trees=_RUN_TREES)
        return [(trees, read_fitted_means(self.view, trees)) for trees in split]

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
        digest, form = hashlib.blake2b(digest_size=16), self.view.table
        parts = ("feature", "threshold", "left", "right", "missing_left", "weight", "value", "offset")
        for _, ensemble in self.runs:
            for name in parts:
                digest.update(getattr(ensemble, name).tobytes())
            if ensemble.categories is not None:
                for part in (ensemble.categories.node_set, ensemble.categories.offset, ensemble.categories.bits):
                    digest.update(part.tobytes())
        names = None if form.names is None else [str(name) for name in form.names]
        classes = [labels.tolist() for labels in self.view.target.kind.classes]
        digest.update(repr((names, classes, None if self.column is None else self.column.tolist())).encode())
        return digest.hexdigest()

    def read(self, X: Any, y: Any, sample_weight: Any) -> Rows:
        """Read some rows, at least one, as the model takes them."""
        is_first = not self._is_checked
        parts = unwrap(self.model, X, y, "heldout", known=self.encoding, check_parts=is_first)
        if not self._is_copy:
            self.encoding = parts.encoding
        matrix = read_features(parts.X, self.view.table)
        if is_first:
            check_agreement(self.view, matrix)
            self._is_checked = True
        weight = read_sample_weight(sample_weight, matrix.n_rows, may_be_zero=True)
        said = self._read_y(parts.y)
        if len(said) != matrix.n_rows:
            raise ValueError(f"X and y must have the same number of rows, got {matrix.n_rows} and {len(said)}.")
        numbering = _find_numbering(parts.X) if self.view.table.takes_codes else None
        return Rows(matrix, said, weight, parts.encoding, numbering)

    def compare(self, X: Any, y: Any) -> None:
        """Compare leaves of some rows with what the library of the model says, as `read` does for the first rows."""
        parts = unwrap(self.model, X, y, "heldout")
        check_agreement(self.view, read_features(parts.X, self.view.table))

    def unwrap_y(self, y: Any) -> Any:
        """Y as the innermost model takes it."""
        return unwrap_target(self.model, y)

    def read_encoded(self, y: Any) -> Target:
        """What a loss takes, of y as the innermost model takes it."""
        form = self.view.target
        given = y if form.read_y is None else form.read_y(y)
        return encode_target(given, form.kind, np.zeros(form.kind.n_columns))

    def _read_y(self, y: Any) -> NDArray[Any]:
        if not self.is_additive:
            encoded = self.read_encoded(y)
            return encoded.codes if isinstance(encoded, ClassTarget) else encoded.numbers
        statistic: Callable[[Any], Floats] = self.of_mean.statistic
        said = statistic(y if self.own_target is not None else self.read_encoded(y).encoded)
        n_scores = self.view.target.n_scores
        if said.ndim != 2 or said.shape[1] != n_scores or not np.isfinite(said).all():
            raise ValueError(
                f"the loss of the model must give finite numbers, a column for each of {n_scores} raw scores, got "
                f"shape {said.shape}."
            )
        return said

    def make_target(self, said: NDArray[Any], origin: Floats) -> Target:
        """What rows say as a target to be summed, less `origin`."""
        kind = self.view.target.kind
        if self.counts_classes:
            return ClassTarget(kind, said)
        return NumberTarget(kind, said - origin, origin)


def _find_numbering(X: Any) -> tuple[tuple[str, list[Any]], ...] | None:
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return None
    names = [name for name, kind in frame.schema.items() if kind in (nw.Categorical, nw.Enum)]
    return tuple((name, frame[name].to_arrow().to_pandas().cat.categories.tolist()) for name in names)
