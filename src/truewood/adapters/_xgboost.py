"""XGBoost's Booster and its scikit-learn wrappers, for the tree boosters "gbtree" and "dart".

Trees are read from the Booster's binary JSON. Like `predict`, the adapter uses the trees up to the best iteration for a
wrapper with early stopping, and all trees for a Booster. A Booster does not record a custom objective (`obj=`), so the
objective that it names is used unless the caller passes `target`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import narwhals as nw
import numpy as np
import xgboost
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from truewood._formatting import quote
from truewood._inputs import losses
from truewood._inputs.losses import Loss
from truewood._inputs.tables import InputSpec
from truewood._inputs.target import LARGEST, TargetKind
from truewood._trees.categories import Categories
from truewood._trees.ensemble import TreeEnsemble
from truewood.adapters._tree_model import ReferencePredictor, TargetSpec, TreeModel, TreeReader
from truewood.adapters._ubjson import read_ubjson


def open_model(model: Any) -> TreeModel:
    """Read a trained Booster, or a fitted wrapper of one."""
    name = type(model).__name__
    booster = model
    if not isinstance(model, xgboost.Booster):
        check_is_fitted(model)
        booster = model.get_booster()
    learner = _dump(booster, name)
    sizes, objective = learner["learner_model_param"], learner["objective"]
    n_scores = max(1, int(sizes["num_class"]), int(sizes["num_target"]))
    n_iterations = _count_iterations(model)
    ensemble = _read_trees(learner["gradient_booster"], n_iterations, n_scores, booster.num_features())
    loss = None if callable(getattr(model, "objective", None)) else _find_loss(objective, n_scores)
    return TreeModel(
        table=_make_input_spec(booster, learner["gradient_booster"], name, getattr(model, "missing", np.nan)),
        target=TargetSpec(
            _find_target_kind(model, objective["name"], int(sizes["num_target"]), n_scores),
            loss=loss,
            why_no_loss=_explain_no_loss(model, objective["name"]) if loss is None else None,
            n_scores=n_scores,
            read_y=_Y_READERS.get(objective["name"]),
        ),
        reader=TreeReader.of_ensemble(ensemble, library=_make_reference(booster, n_iterations)),
        why_no_bags="does not record which rows a tree saw",
        is_stopped_early=booster.attr("best_iteration") is not None,
    )


def _dump(booster: xgboost.Booster, name: str) -> dict[str, Any]:
    """The model part of the Booster's JSON."""
    try:
        learner: dict[str, Any] = read_ubjson(booster.save_raw("ubj"))["learner"]
    except xgboost.core.XGBoostError as error:
        raise NotFittedError(f"{name} is not trained; train it before its splits are scored.") from error
    kind = learner["gradient_booster"]["name"]
    if kind not in ("gbtree", "dart"):
        raise TypeError(f"{name} must have trees, booster='gbtree' or 'dart', got booster={quote(kind)}.")
    trees = _get_model(learner["gradient_booster"])["trees"]
    if not trees:
        raise ValueError(f"{name} must have at least one tree, got none.")
    if "sum_hessian" not in trees[0]:
        raise ValueError(
            f"{name} has vector leaves, whose weights XGBoost before 3.2 does not store; fit it with 3.2 or later."
        )
    return learner


def _count_iterations(model: Any) -> int | None:
    """Number of boosting rounds that the model predicts with; None for all."""
    if isinstance(model, xgboost.Booster) or model.get_booster().attr("best_iteration") is None:
        return None
    return int(model.best_iteration) + 1


def _make_reference(booster: xgboost.Booster, n_iterations: int | None) -> ReferencePredictor:
    """XGBoost's own margins and leaves."""

    def predict(values: NDArray[Any], **what: bool) -> NDArray[Any]:
        names, types = booster.feature_names, booster.feature_types
        matrix = xgboost.DMatrix(values, feature_names=names, feature_types=types, enable_categorical=True, nthread=1)
        predicted: NDArray[Any] = booster.predict(matrix, iteration_range=(0, n_iterations or 0), **what)
        return predicted

    return ReferencePredictor(
        "XGBoost",
        xgboost.__version__,
        add_values=lambda _trees, values: predict(values, output_margin=True),
        find_leaves=lambda _trees, values: predict(values, pred_leaf=True),
    )


def _get_model(booster: dict[str, Any]) -> dict[str, Any]:
    """The trees and their metadata, which "dart" nests one level deeper before XGBoost 3.3."""
    model: dict[str, Any] = booster.get("gbtree", booster)["model"]
    return model


def _find_dropout(booster: dict[str, Any]) -> list[float] | None:
    """Dropout weight of each tree, None without dropout; stored one level above the trees before XGBoost 3.4."""
    weight_drop: list[float] | None = booster.get("weight_drop", _get_model(booster).get("weight_drop"))
    return weight_drop


def _read_trees(booster: dict[str, Any], n_iterations: int | None, n_scores: int, n_features: int) -> TreeEnsemble:
    model = _get_model(booster)
    n_trees = len(model["trees"]) if n_iterations is None else model["iteration_indptr"][n_iterations]
    trees = model["trees"][:n_trees]
    offset = np.cumsum([0, *(len(tree["left_children"]) for tree in trees)])
    start = np.repeat(offset[:-1], np.diff(offset))
    left, right = _join(trees, "left_children", np.int32), _join(trees, "right_children", np.int32)
    is_split = left >= 0
    left, right = (np.where(is_split, child + start, -1) for child in (left, right))
    split, missing_left = _join(trees, "split_conditions", np.float32), _join(trees, "default_left", np.bool_)

    is_vector = int(trees[0]["tree_param"]["size_leaf_vector"]) > 1
    value = _read_vectors(trees, n_scores) if is_vector else np.where(is_split, 0.0, split)[:, np.newaxis]
    if (dropout := _find_dropout(booster)) is not None:
        value *= np.repeat(dropout[:n_trees], np.diff(offset))[:, np.newaxis]
    # Hessian sums of vector leaves run over all outputs; divide so that they are comparable to those of one output.
    weight = _join(trees, "sum_hessian", np.float64) / (n_scores if is_vector else 1)
    # A tree without row weight is a single leaf; its weight does not matter, but must be positive.
    roots = offset[:-1]
    weight[roots[~is_split[roots] & (weight[roots] == 0)]] = 1.0

    # XGBoost sends categories in the set to the right; swap the children, and with them the missing direction.
    by_category = is_split & _join(trees, "split_type", np.bool_)
    left, right = np.where(by_category, right, left), np.where(by_category, left, right)
    nodes, sets = _read_categories(trees, offset)

    # Pruning leaves unreachable nodes.
    is_used = np.zeros(len(left), dtype=np.bool_)
    is_used[np.concatenate([roots, left[is_split], right[is_split]])] = True
    place = np.append(np.cumsum(is_used) - 1, -1)
    kept_sets = [k for k, node in enumerate(nodes) if is_used[node] and by_category[node]]
    return TreeEnsemble(
        feature=_join(trees, "split_indices", np.int64)[is_used],
        # XGBoost sends x < split left, in float32.
        threshold=np.nextafter(split, np.float32(-np.inf))[is_used],
        left=place[left[is_used]],
        right=place[right[is_used]],
        missing_left=(missing_left != by_category)[is_used],
        weight=weight[is_used],
        value=value[is_used],
        offset=np.append(0, np.cumsum(is_used))[offset],
        root_impurity=np.full(n_trees, np.nan),
        n_features=n_features,
        kind=TargetKind((), n_scores if is_vector else 1),
        statistic="leaf",
        categories=Categories.from_lists(
            int(np.count_nonzero(is_used)), [place[nodes[k]] for k in kept_sets], [sets[k] for k in kept_sets]
        ),
        column=None if is_vector else model["tree_info"][:n_trees],
        is_additive=True,
    )


def _join(trees: list[dict[str, Any]], key: str, dtype: Any) -> NDArray[Any]:
    """Concatenate an array over trees."""
    return np.concatenate([tree[key] for tree in trees]).astype(dtype)


def _read_vectors(trees: list[dict[str, Any]], n_scores: int) -> NDArray[np.float64]:
    """Vector leaf values, shape (n_nodes, n_scores); the right child of a leaf is the index of its vector."""
    parts = []
    for tree in trees:
        is_leaf = np.asarray(tree["left_children"]) < 0
        vectors = np.asarray(tree["leaf_weights"]).reshape(-1, n_scores)
        parts.append(np.zeros((len(is_leaf), n_scores)))
        parts[-1][is_leaf] = vectors[np.asarray(tree["right_children"])[is_leaf]]
    return np.concatenate(parts)


def _read_categories(trees: list[dict[str, Any]], offset: NDArray[Any]) -> tuple[list[int], list[list[int]]]:
    """Categorical split nodes, and the categories that go right in XGBoost."""
    nodes: list[int] = []
    sets: list[list[int]] = []
    for tree, first in zip(trees, offset.tolist(), strict=False):
        nodes += [first + node for node in tree["categories_nodes"]]
        for begin, size in zip(tree["categories_segments"], tree["categories_sizes"], strict=True):
            sets.append(tree["categories"][begin : begin + size])
    return nodes, sets


def _make_input_spec(booster: xgboost.Booster, dump: dict[str, Any], name: str, missing: float) -> InputSpec:
    names, types = booster.feature_names, booster.feature_types
    has_categories = types is not None and "c" in types
    knows_categories = bool(_get_model(dump).get("cats", {}).get("enc"))

    def encode(X: Any) -> Any:
        given = None if sparse.issparse(X) else nw.from_native(X, eager_only=True, pass_through=True)
        frame = given if isinstance(given, nw.DataFrame) else None
        if np.isnan(missing) and (frame is None or not has_categories):
            return X
        if frame is not None:
            _check_types(frame)
        return _encode(X, missing, None if frame is None or not knows_categories else booster.get_categories())

    return InputSpec(
        name,
        booster.num_features(),
        None if names is None else np.asarray(names),
        takes_infinite=bool(np.isinf(missing)),
        sparse_fill=np.nan,
        encode=encode,
        takes_codes=has_categories and not knows_categories,
        takes_device=bool(np.isnan(missing)) and not has_categories,
    )


def _check_types(frame: nw.DataFrame[Any]) -> None:
    """Reject columns that are neither numeric nor categorical; XGBoost's message would blame categories too."""
    for name, dtype in frame.schema.items():
        if dtype in (nw.String, nw.Object) or dtype.is_temporal():
            raise ValueError(
                f"X must be numbers and categories, but column {quote(name)} is {dtype}; encode it as in training."
            )


def _encode(X: Any, missing: float, categories: Any) -> Any:
    """Encode a table with XGBoost: categories as the model's codes, missing values as NaN."""
    try:
        matrix = xgboost.DMatrix(X, missing=missing, feature_types=categories, enable_categorical=True)
        stored = matrix.get_data()
    except xgboost.core.XGBoostError as error:
        # XGBoost's message is "[time] file:line: reason" and a stack trace.
        reason = re.sub(r"^\[[^]]*\] \S+ ", "", str(error).partition("\n")[0])
        raise ValueError(f"X must be a table like the one the model was fit on: {reason.rstrip('.')}.") from error
    if sparse.issparse(X):
        return stored
    dense = np.full(stored.shape, np.nan, dtype=np.float32)
    dense[np.repeat(np.arange(stored.shape[0]), np.diff(stored.indptr)), stored.indices] = stored.data
    return dense


def _find_target_kind(model: Any, objective: str, n_targets: int, n_scores: int) -> TargetKind:
    """Kind of y."""
    if objective in _Y_READERS:
        return TargetKind((), 2)
    if objective == "reg:quantileerror":
        return TargetKind((), 1)
    if hasattr(model, "classes_"):
        # xgboost.dask does not sort classes; its labels are the class numbers themselves.
        return TargetKind((np.sort(model.classes_),) * n_targets, n_targets)
    if objective.startswith("multi:"):
        return TargetKind((np.arange(n_scores),), 1)
    if objective.startswith("binary:"):
        return TargetKind((np.arange(2),) * n_targets, n_targets)
    return TargetKind((), n_targets)


def _find_loss(objective: dict[str, Any], n_scores: int) -> Loss | None:
    """The loss of an objective; None if y does not determine the target of a row."""
    match objective["name"]:
        case "reg:squarederror":
            return losses.squared_error()
        case "reg:squaredlogerror":
            return losses.squared_log_error()
        case "reg:absoluteerror":
            return losses.absolute_error()
        case "reg:pseudohubererror":
            return losses.pseudo_huber(float(objective["pseudo_huber_param"]["huber_slope"]))
        case "reg:quantileerror":
            return losses.quantile(*json.loads(objective["quantile_loss_param"]["quantile_alpha"]))
        case "count:poisson":
            return losses.poisson()
        case "reg:gamma":
            return losses.gamma()
        case "reg:tweedie":
            return losses.tweedie(float(objective["tweedie_regression_param"]["tweedie_variance_power"]))
        # At a constant within the margins, the gradient of the hinge loss is a linear function of the class.
        case "reg:logistic" | "binary:logistic" | "binary:logitraw" | "binary:hinge":
            return losses.logistic()
        case "multi:softmax" | "multi:softprob":
            return losses.softmax(n_scores)
        case "survival:aft":
            param = objective["aft_loss_param"]
            return losses.aft(param["aft_loss_distribution"], float(param["aft_loss_distribution_scale"]))
        case "survival:cox":
            return losses.cox()
    return None


def _explain_no_loss(model: Any, objective: str) -> str:
    name = type(model).__name__
    if callable(getattr(model, "objective", None)):
        return f"{name} was fit with a custom objective, for which truewood has no target"
    if objective.startswith("rank:"):
        return (
            f"{name} was fit with {objective}, which compares rows with each other, so no target can be computed from "
            "y alone"
        )
    return f"{name} was fit with {objective}, for which truewood has no target"


def _read_bounds(y: Any) -> Any:
    """Lower and upper bound of time, with infinite upper bounds replaced by a very large number."""
    bounds = np.asarray(y)
    return np.where(bounds == np.inf, LARGEST, bounds) if bounds.dtype.kind == "f" else bounds


_Y_READERS: dict[str, Callable[[Any], Any]] = {"survival:aft": _read_bounds, "survival:cox": losses.read_signed_times}


def read_levels(booster: xgboost.Booster) -> dict[str, Sequence[Any] | None] | None:
    """Read the levels of the categorical columns, by name; None if the Booster does not store them.

    The levels of a column are None if some have non-ASCII characters, which XGBoost truncates. XGBoost itself maps an
    unknown level to the next one in alphabetical order, or fails.
    """
    categorical = [place for place, kind in enumerate(booster.feature_types or []) if kind == "c"]
    if not categorical:
        return {}
    names = booster.feature_names or [str(place) for place in range(booster.num_features())]
    encodings = _get_model(_dump(booster, "Booster")["gradient_booster"]).get("cats", {}).get("enc")
    return {names[place]: _read_encoding(encodings[place]) for place in categorical} if encodings else None


def _read_encoding(encoding: dict[str, Any]) -> Sequence[Any] | None:
    """The levels of a column: numbers, or strings with their bytes concatenated."""
    values: list[Any] = np.asarray(encoding["values"]).tolist()
    if "offsets" not in encoding:
        return values
    if any(value < 0 for value in values):
        return None
    text = bytes(values).decode("ascii")
    return [text[start:end] for start, end in pairwise(np.asarray(encoding["offsets"]).tolist())]
