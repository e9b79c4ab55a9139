"""YDF's (Yggdrasil Decision Forests) random forests, CART trees and gradient boosted trees."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pandas as pd
import ydf
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import NotFittedError

from truewood._formatting import quote
from truewood._inputs import losses
from truewood._inputs.table_types import as_frame
from truewood._inputs.tables import InputSpec
from truewood._inputs.target import TargetKind
from truewood._trees.categories import Categories
from truewood._trees.ensemble import TreeEnsemble
from truewood.adapters._tree_model import ReferencePredictor, TargetSpec, TreeModel, TreeReader

_NUMBERS = (ydf.Semantic.NUMERICAL, ydf.Semantic.DISCRETIZED_NUMERICAL)
_READ = (*_NUMBERS, ydf.Semantic.CATEGORICAL, ydf.Semantic.BOOLEAN)
# Relative difference up to which the weights of two children add up to that of their parent.
_SAME_WEIGHT = 1e-5
_LOSSES: dict[str, Callable[[int], losses.Loss]] = {
    "SQUARED_ERROR": lambda _n_scores: losses.squared_error(),
    "MEAN_AVERAGE_ERROR": lambda _n_scores: losses.absolute_error(),
    "POISSON": lambda _n_scores: losses.poisson(),
    "BINOMIAL_LOG_LIKELIHOOD": lambda _n_scores: losses.logistic(),
    "MULTINOMIAL_LOG_LIKELIHOOD": losses.softmax,
}


def open_model(model: Any) -> TreeModel:
    """Read a random forest, CART or gradient boosted trees model."""
    name = type(model).__name__
    if model.task() not in (ydf.Task.CLASSIFICATION, ydf.Task.REGRESSION):
        raise TypeError(f"{name} must be a classifier or a regressor, got one for {model.task().name}.")
    if not model.num_trees():
        raise NotFittedError(f"{name} has no trees; train it first.")
    columns, kind, loss = _Columns.read(model, name), _find_target_kind(model), _read_loss_name(model)
    is_additive = loss is not None
    n_scores = model.num_trees_per_iteration() if is_additive else 1
    is_known = loss is None or loss in _LOSSES
    ensemble = _read_trees(model, columns, TargetKind() if is_additive else kind, n_scores, name)
    return TreeModel(
        table=InputSpec(name, len(columns.names), np.array(columns.names), takes_infinite=True, encode=columns.encode),
        target=TargetSpec(
            kind,
            loss=_LOSSES[loss](n_scores) if loss in _LOSSES else None,
            why_no_loss=None if is_known else f"truewood has no target for the loss {loss} of {name}",
            n_scores=n_scores,
            read_y=_read_labels if kind.is_classification else None,
        ),
        reader=TreeReader.of_ensemble(ensemble, library=_make_reference(model, columns, loss)),
        why_no_bags="does not record which rows its trees saw",
        # If trees vote, a tree predicts the most frequent class of a leaf, whatever the proportions.
        has_predictions=is_additive or not kind.is_classification or not model.winner_takes_all(),
        is_stopped_early=is_additive and model.validation_loss() is not None,
    )


@dataclass(frozen=True, eq=False)
class _Columns:
    """The input columns: conversion of their values to numbers and back.

    Parameters
    ----------
    names : list of str
        Name of each column.
    semantics : list of ydf.Semantic
        What each column holds.
    position : dict of int to int
        Position of a column by its number in the model.
    codes : list of dict
        Code of each category of a column, from 1; empty for other columns. Code 0 stands for other categories.
    boundaries : list of sequence
        Boundaries of a discretized column; empty for other columns.
    others : dict of str to object
        A value for each column that the library wants, but no tree uses: label and weights.
    """

    names: list[str]
    semantics: list[Any]
    position: dict[int, int]
    codes: list[dict[str, int]]
    boundaries: list[Sequence[float]]
    others: dict[str, Any]

    @classmethod
    def read(cls, model: Any, name: str) -> _Columns:
        """Read the columns of a model; refuse those that do not hold a number, a category or a boolean."""
        inputs, described = model.input_features(), model.data_spec().columns
        for column in inputs:
            is_coded = described[column.column_idx].categorical.is_already_integerized
            if column.semantic not in _READ or is_coded:
                raise ValueError(
                    f"{name} was trained with column {quote(column.name)} as {column.semantic.name}"
                    f"{' of codes' if is_coded else ''}, which truewood does not read; train it without this column."
                )
        used = [column.column_idx for column in inputs]
        return cls(
            [column.name for column in inputs],
            [column.semantic for column in inputs],
            {number: place for place, number in enumerate(used)},
            [_read_codes(described[number]) for number in used],
            [list(described[number].discretized_numerical.boundaries) for number in used],
            {
                spec.name: next(iter(_read_codes(spec)), 0.0)
                for number, spec in enumerate(described)
                if number not in used
            },
        )

    def encode(self, X: Any) -> Any:
        """Replace categories by their codes, NaN if missing."""
        if all(semantic in _NUMBERS for semantic in self.semantics):
            return X
        if as_frame(X) is None:
            X = pd.DataFrame(X.toarray() if sparse.issparse(X) else np.asarray(X))
        frame = as_frame(X)
        if frame is None or len(frame.columns) != len(self.names):
            return X  # refused by the caller
        encoded = []
        for place, (name, semantic) in enumerate(zip(frame.columns, self.semantics, strict=True)):
            if semantic in _NUMBERS:
                continue
            labels = [_write_label(label) for label in frame[name].to_list()]
            if semantic == ydf.Semantic.CATEGORICAL:
                codes = [np.nan if label == "" else self.codes[place].get(label, 0) for label in labels]
                encoded.append(nw.new_series(name, codes, nw.Float32, backend=frame.implementation))
            elif "" in labels:
                raise ValueError(
                    f"X must not have missing values in column {quote(self.names[place])}, which YDF reads as boolean; "
                    "impute or drop them."
                )
        return frame.with_columns(*encoded).to_native()

    def decode(self, values: Any) -> dict[str, Any]:
        """Return the columns as the library takes them, from the numbers that trees compare."""
        if sparse.issparse(values):
            values = values.toarray()
        data: dict[str, Any] = {}
        for place, (name, semantic) in enumerate(zip(self.names, self.semantics, strict=True)):
            column = values[:, place]
            # Several columns may come from one array of two dimensions, such as "x.0_of_3".
            array = re.fullmatch(r"(.+)\.\d+_of_\d+", name)
            if semantic == ydf.Semantic.CATEGORICAL:
                data[name] = self._find_labels(place, column)
            elif semantic == ydf.Semantic.BOOLEAN:
                data[name] = column > 0.5
            elif array is None:
                data[name] = column
            else:
                before = data.get(array[1], np.empty((len(values), 0), dtype=np.float32))
                data[array[1]] = np.column_stack([before, column])
        return data | {name: np.full(len(values), value) for name, value in self.others.items()}

    def _find_labels(self, place: int, column: NDArray[np.float32]) -> NDArray[Any]:
        codes = self.codes[place]
        unknown = f"not {' '.join(codes)}"
        labels = np.full(max(codes.values(), default=0) + 2, unknown, dtype=object)
        labels[list(codes.values())] = list(codes)
        labels[-1] = ""  # missing
        found = np.where(np.isnan(column), -1, np.where(column < len(labels) - 1, column, 0))
        return labels[found.astype(np.int64)].astype(np.str_)


def _read_codes(spec: Any) -> dict[str, int]:
    """Code of each category that the model knows."""
    return {label: item.index for label, item in spec.categorical.items.items() if item.index > 0}


def _write_label(label: Any) -> str:
    """A category as YDF writes it; empty if it is missing."""
    if pd.isna(label):
        return ""
    if isinstance(label, bool):
        return "true" if label else "false"
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return label.decode() if isinstance(label, bytes) else str(label)


def _find_target_kind(model: Any) -> TargetKind:
    if model.task() == ydf.Task.CLASSIFICATION:
        return TargetKind((np.array(model.label_classes()),))
    return TargetKind()


def _read_labels(y: Any) -> NDArray[np.str_]:
    """Class labels as YDF writes them."""
    return np.array([_write_label(label) for label in np.ravel(y).tolist()])


def _read_loss_name(model: Any) -> str | None:
    """The loss of boosted trees, which YDF states in its description only; None for a forest."""
    if not isinstance(model, ydf.GradientBoostedTreesModel):
        return None
    found = re.search(r"^Loss: (\w+)$", model.describe("text"), re.MULTILINE)
    return found[1] if found else "unknown"


def _make_reference(model: Any, columns: _Columns, loss: str | None) -> ReferencePredictor:
    """YDF's own leaves, and raw scores of boosted trees."""
    is_classifier = model.task() == ydf.Task.CLASSIFICATION

    def find_leaves(trees: range, values: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(model.predict_leaves(columns.decode(values)))[:, trees.start : trees.stop]

    def add_values(_trees: range, values: NDArray[Any]) -> NDArray[Any]:
        data = columns.decode(values)
        if is_classifier:
            raw = ydf.deserialize_model(model.serialize())  # a copy, because the next line changes the model
            raw.set_output_logits(True)
            return np.asarray(raw.predict(data))
        predicted = np.asarray(model.predict(data, use_slow_engine=True))  # not every model has a fast one
        return np.log(predicted) if loss == "POISSON" else predicted

    # The slow engine, the only one of some models, returns probabilities whatever the setting.
    has_scores = loss is not None and (not is_classifier or bool(model.list_compatible_engines()))
    return ReferencePredictor(
        "YDF", ydf.__version__, add_values=add_values if has_scores else None, find_leaves=find_leaves
    )


class _Split(NamedTuple):
    """A split as a `TreeEnsemble` has it: x <= threshold, or x in `categories`, goes left."""

    feature: int
    threshold: float
    missing_left: bool
    categories: Sequence[int] | None = None


def _read_split(condition: Any, columns: _Columns, name: str) -> _Split:
    """Read a condition; rows for which it is true go left if it lists categories, and right otherwise."""
    feature = columns.position.get(getattr(condition, "attribute", -1), -1)
    match condition:
        case ydf.tree.NumericalHigherThanCondition():  # x >= threshold
            return _Split(feature, _find_next_lower(condition.threshold), not condition.missing)
        case ydf.tree.DiscretizedNumericalHigherThanCondition():
            boundary = columns.boundaries[feature][condition.threshold_idx - 1]
            return _Split(feature, _find_next_lower(boundary), not condition.missing)
        case ydf.tree.IsTrueCondition():
            return _Split(feature, 0.5, not condition.missing)
        case ydf.tree.IsMissingInCondition():
            return _Split(feature, np.inf, missing_left=False)
        case ydf.tree.CategoricalIsInCondition():
            return _Split(feature, 0.0, condition.missing, condition.mask)
    raise ValueError(
        f"{name} has splits of the kind {type(condition).__name__}, which truewood does not read; train it without "
        "them, for example with split_axis='AXIS_ALIGNED'."
    )


def _find_next_lower(threshold: float) -> float:
    return float(np.nextafter(np.float32(threshold), np.float32(-np.inf)))


@dataclass(eq=False)
class _Nodes:
    """Nodes of all trees, one entry each, children after their parents."""

    splits: list[_Split] = field(default_factory=list)
    children: list[tuple[int, int]] = field(default_factory=list)
    weight: list[float] = field(default_factory=list)
    value: list[Sequence[float]] = field(default_factory=list)
    deviation: list[float] = field(default_factory=list)

    def add(self, root: Any, columns: _Columns, name: str) -> None:
        """Add the nodes of a tree."""
        waiting = [(root, -1, 0)]
        while waiting:
            node, parent, side = waiting.pop()
            place = len(self.splits)
            if parent >= 0:
                self.children[parent] = (place, -1) if side == 0 else (self.children[parent][0], place)
            self._add_value(node.value, name)
            self.children.append((-1, -1))
            self.splits.append(_LEAF if node.is_leaf else _read_split(node.condition, columns, name))
            if not node.is_leaf:
                is_listed = self.splits[-1].categories is not None
                left, right = (node.pos_child, node.neg_child) if is_listed else (node.neg_child, node.pos_child)
                waiting += [(right, place, 1), (left, place, 0)]  # the left one is next

    def _add_value(self, value: Any, name: str) -> None:
        if value is None:
            raise ValueError(
                f"{name} does not store the training rows of its nodes, which weight its splits; train it with "
                "pure_serving_model=False."
            )
        self.weight.append(value.num_examples)
        self.value.append(value.probability if isinstance(value, ydf.tree.ProbabilityValue) else (value.value,))
        self.deviation.append(getattr(value, "standard_deviation", None) or np.nan)


_LEAF = _Split(-1, 0.0, missing_left=False)


def _read_trees(model: Any, columns: _Columns, kind: TargetKind, n_scores: int, name: str) -> TreeEnsemble:
    nodes, offset = _Nodes(), [0]
    for tree in model.iter_trees():
        nodes.add(tree.root, columns, name)
        offset.append(len(nodes.splits))
    is_additive = isinstance(model, ydf.GradientBoostedTreesModel)
    left, right = np.array(nodes.children).T
    weight, value, roots = np.array(nodes.weight), np.array(nodes.value), np.array(offset[:-1])
    is_split = left >= 0
    added = weight[left[is_split]] + weight[right[is_split]]
    if not np.allclose(added, weight[is_split], rtol=_SAME_WEIGHT):
        raise ValueError(
            f"{name} has honest trees, whose leaves and splits come from different rows that it does not record; train "
            "it with honest=False."
        )
    if is_additive:
        impurity = np.full(len(roots), np.nan)
    elif kind.is_classification:
        impurity = 1.0 - (value[roots] ** 2).sum(axis=1)
    else:
        impurity = np.array(nodes.deviation)[roots] ** 2
    listed = [place for place, split in enumerate(nodes.splits) if split.categories is not None]
    return TreeEnsemble(
        feature=np.array([split.feature for split in nodes.splits]),
        threshold=np.array([split.threshold for split in nodes.splits]),
        left=left,
        right=right,
        missing_left=np.array([split.missing_left for split in nodes.splits]),
        weight=weight,
        value=value,
        offset=np.array(offset),
        root_impurity=impurity,
        n_features=len(columns.names),
        kind=kind,
        statistic="leaf" if is_additive else "mean",
        categories=Categories.from_lists(
            len(weight), listed, [nodes.splits[place].categories or () for place in listed]
        ),
        column=np.arange(len(roots), dtype=np.int32) % n_scores if is_additive else None,
        is_additive=is_additive,
    )
