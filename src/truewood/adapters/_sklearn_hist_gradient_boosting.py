"""scikit-learn's HistGradientBoosting, with its native categories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from truewood._inputs import losses
from truewood._inputs.tables import InputSpec
from truewood._inputs.target import TargetKind
from truewood._sklearn_compat import add_predictors, encode_categories, list_known_categories, list_predictors
from truewood._trees.categories import Categories
from truewood._trees.ensemble import TreeEnsemble
from truewood.adapters._tree_model import ReferencePredictor, TargetSpec, TreeModel, TreeReader

_LOSSES: dict[Any, Callable[[Any], losses.Loss]] = {
    "log_loss": lambda model: losses.logistic() if len(model.classes_) == 2 else losses.softmax(len(model.classes_)),
    "squared_error": lambda _model: losses.squared_error(),
    "absolute_error": lambda _model: losses.absolute_error(),
    "gamma": lambda _model: losses.gamma(),
    "poisson": lambda _model: losses.poisson(),
    "quantile": lambda model: losses.quantile(model.quantile),
}


def open_model(model: Any) -> TreeModel:
    """Read a fitted HistGradientBoosting model."""
    check_is_fitted(model)
    ensemble = _read_trees(model)
    # A loss may also be given as an object.
    find_loss = _LOSSES.get(model.loss) if isinstance(model.loss, str) else None
    name = type(model).__name__
    return TreeModel(
        table=InputSpec(
            name,
            model.n_features_in_,
            getattr(model, "feature_names_in_", None),
            dtype="float64",
            takes_infinite=True,
            encode=None if model.is_categorical_ is None else lambda X: _encode(model, X),
        ),
        target=TargetSpec(
            TargetKind((np.asarray(model.classes_),)) if is_classifier(model) else TargetKind(),
            loss=None if find_loss is None else find_loss(model),
            why_no_loss=f"truewood has no target for loss={model.loss!r} of {name}" if find_loss is None else None,
            n_scores=model.n_trees_per_iteration_,
        ),
        reader=TreeReader.of_ensemble(
            ensemble,
            library=ReferencePredictor(
                "scikit-learn",
                sklearn.__version__,
                # Its trees do not number their leaves.
                add_values=lambda _trees, values: add_predictors(model, values[:, _order_columns(model)]),
            ),
        ),
        why_no_bags="fits each tree to the residuals of the trees before it, so there are no out-of-bag rows",
    )


def _order_columns(model: Any) -> NDArray[np.intp]:
    """Column of X behind each column that the trees know: categories come first."""
    if model.is_categorical_ is None:
        return np.arange(model.n_features_in_)
    is_categorical = np.asarray(model.is_categorical_)
    return np.concatenate([np.flatnonzero(is_categorical), np.flatnonzero(~is_categorical)])


def _encode(model: Any, X: Any) -> NDArray[np.float64]:
    """Categories as the codes the trees know, NaN for those never seen; the columns stay where they are in X."""
    try:
        codes = encode_categories(model, X)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"X must be a table like the one {type(model).__name__} was fit on, with categories and numbers in the "
            f"same columns: {error}"
        ) from error
    encoded = np.empty(codes.shape)
    encoded[:, _order_columns(model)] = codes
    return encoded


def _read_trees(model: Any) -> TreeEnsemble:
    predictors = list_predictors(model)
    nodes = np.concatenate([predictor.nodes for predictor in predictors])
    n_nodes = [len(predictor.nodes) for predictor in predictors]
    offset = np.cumsum([0, *n_nodes])
    start = np.repeat(offset[:-1], n_nodes)
    is_leaf = nodes["is_leaf"].astype(np.bool_)
    left, right = (np.where(is_leaf, -1, nodes[side] + start) for side in ("left", "right"))
    missing_left = nodes["missing_go_to_left"].astype(np.bool_)

    is_set = ~is_leaf & nodes["is_categorical"].astype(np.bool_)
    categories = _read_categories(model, predictors, nodes, is_set, np.repeat(np.arange(len(predictors)), n_nodes))
    # Categories outside the set, known or not, go where missing values go: always to the right here.
    is_swapped = is_set & missing_left
    left, right = np.where(is_swapped, right, left), np.where(is_swapped, left, right)
    return TreeEnsemble(
        feature=_order_columns(model)[np.where(is_leaf, 0, nodes["feature_idx"])].astype(np.int32),
        threshold=nodes["num_threshold"],
        left=left,
        right=right,
        missing_left=missing_left & ~is_set,
        weight=nodes["count"],
        value=np.where(is_leaf, nodes["value"], 0.0)[:, np.newaxis],
        offset=offset,
        root_impurity=np.full(len(predictors), np.nan),
        n_features=model.n_features_in_,
        kind=TargetKind(),
        statistic="leaf",
        x_dtype="float64",
        categories=categories,
        column=np.arange(len(predictors)) % model.n_trees_per_iteration_,
        is_additive=True,
    )


def _read_categories(
    model: Any, predictors: list[Any], nodes: NDArray[Any], is_set: NDArray[np.bool_], tree_of: NDArray[np.intp]
) -> Categories | None:
    """Sets of categories that go left or, for splits that send missing values left, of known ones that go right."""
    if not is_set.any():
        return None
    n_sets = [len(predictor.raw_left_cat_bitsets) for predictor in predictors]
    first = np.cumsum([0, *n_sets])[:-1]
    splits = nodes[is_set]
    bits = np.concatenate([predictor.raw_left_cat_bitsets for predictor in predictors])
    bits = bits[first[tree_of[is_set]] + splits["bitset_idx"]]
    known, row_of = list_known_categories(model)
    goes_right = known[row_of[splits["feature_idx"]]] & ~bits
    bits = np.where(splits["missing_go_to_left"].astype(np.bool_)[:, np.newaxis], goes_right, bits)
    node_set = np.full(len(nodes), -1, dtype=np.int32)
    node_set[is_set] = np.arange(len(splits))
    return Categories(node_set, np.arange(len(splits) + 1) * bits.shape[1], bits.ravel())
