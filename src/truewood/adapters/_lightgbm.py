"""LightGBM's Booster and scikit-learn estimators, read from the text format of the model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from truewood._formatting import quote
from truewood._inputs import losses
from truewood._inputs.table_types import is_on_device
from truewood._inputs.tables import InputSpec, read_features
from truewood._inputs.target import TargetKind
from truewood._trees.categories import Categories
from truewood._trees.ensemble import TreeEnsemble
from truewood.adapters._tree_model import ReferencePredictor, TargetSpec, TreeModel, TreeReader

# LightGBM sets dense values of at most this magnitude to 0 before it compares them with a threshold.
_ZERO = float(np.float32(1e-35))
_BELOW_ZERO = float(np.nextafter(-_ZERO, -np.inf))
# Bits of a node's decision type.
_IS_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_ZERO_IS_MISSING, _NAN_IS_MISSING = 1, 2
# Number of iterations in the first part of a written model, and length of the other parts. The buffer is 1 MiB.
_FIRST_ITERATIONS, _TEXT_LENGTH = 16, 1 << 19


def open_model(model: Any) -> TreeModel:
    """Read a Booster, or a fitted LGBMClassifier, LGBMRegressor or LGBMRanker, up to its best iteration."""
    booster, name = model, type(model).__name__
    if isinstance(model, lightgbm.LGBMModel):
        check_is_fitted(model)
        booster = model.booster_
    text = _ModelText.parse(_write_texts(booster))
    if not text.n_trees:
        raise NotFittedError(f"{name} has no trees; train it first.")
    if "1" in text.trees.get("is_linear", ()):
        raise ValueError(
            f"{name} has a linear model in every leaf, which truewood does not score; fit it with linear_tree=False."
        )
    ensemble, splits = _read_trees(text)
    objective = text.header.get("objective", "").split()
    loss, why_no_loss = _find_loss(objective, text, name)
    return TreeModel(
        table=_make_input_spec(name, text, splits, booster.pandas_categorical or []),
        target=TargetSpec(
            _find_target_kind(model, objective, text.n_scores),
            loss=loss,
            why_no_loss=why_no_loss,
            n_scores=text.n_scores,
        ),
        reader=TreeReader.of_ensemble(ensemble, library=_make_reference(booster, text)),
        why_no_bags="does not record which rows its trees saw",
        is_stopped_early=booster.best_iteration > 0,
    )


def _write_texts(booster: lightgbm.Booster) -> list[str]:
    """Write the trees that `predict` uses, as the texts of one or more parts of the model.

    LightGBM writes a text that exceeds its buffer twice, because it learns the length only by writing it.
    """
    n_iterations = booster.best_iteration if booster.best_iteration > 0 else booster.current_iteration()
    texts: list[str] = []
    start, step = 0, _FIRST_ITERATIONS
    while start < n_iterations or not texts:
        step = max(1, min(step, n_iterations - start))
        texts.append(booster.model_to_string(num_iteration=step, start_iteration=start))
        start, step = start + step, _TEXT_LENGTH * step // len(texts[-1])
    return texts


@dataclass(frozen=True, eq=False)
class _ModelText:
    """The parts of a model file: header, values of all trees by key, and training parameters."""

    header: Mapping[str, str]
    trees: Mapping[str, Sequence[str]]
    parameters: Mapping[str, str]

    @classmethod
    def parse(cls, texts: Sequence[str]) -> _ModelText:
        """Parse the texts of consecutive parts of a model; each has the header and the parameters."""
        trees: dict[str, list[str]] = {}
        for text in texts:
            model, _, rest = text.partition("\nend of trees")
            header, _, body = model.partition("\nTree=0\n")
            for line in body.split("\n"):
                key, _, value = line.partition("=")
                trees.setdefault(key, []).append(value)
        pairs = (line.partition("=") for line in header.split("\n"))
        parameters = dict(re.findall(r"^\[(\w+): (.*)\]$", rest, flags=re.MULTILINE))
        return cls({key: value for key, _, value in pairs}, trees, parameters)

    def numbers(self, key: str, dtype: Any = np.int64) -> NDArray[Any]:
        """The values of one key in all trees."""
        return np.fromstring(" ".join(self.trees.get(key, ())), dtype=dtype, sep=" ")

    @property
    def n_trees(self) -> int:
        return len(self.trees.get("num_leaves", ()))

    @property
    def n_scores(self) -> int:
        return int(self.header["num_tree_per_iteration"])

    @property
    def n_averaged(self) -> int:
        """Number of trees that the raw score averages; 1 if it is their sum."""
        return self.n_trees // self.n_scores if "average_output" in self.header else 1

    @property
    def names(self) -> list[str]:
        return self.header["feature_names"].split(" ")


@dataclass(frozen=True, eq=False)
class _Splits:
    """Splits at the inner nodes of all trees, as LightGBM stores them; arrays of shape (n_inner,)."""

    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    is_categorical: NDArray[np.bool_]
    default_left: NDArray[np.bool_]
    missing_type: NDArray[np.int64]

    @classmethod
    def read(cls, text: _ModelText) -> _Splits:
        decision = text.numbers("decision_type")
        return cls(
            text.numbers("split_feature"),
            text.numbers("threshold", np.float64),
            (decision & _IS_CATEGORICAL) > 0,
            (decision & _DEFAULT_LEFT) > 0,
            (decision >> 2) & 3,
        )

    @property
    def zero_left(self) -> NDArray[np.bool_]:
        """Whether zero goes left."""
        return self.threshold >= 0

    @property
    def missing_left(self) -> NDArray[np.bool_]:
        """Whether NaN goes left: by the default direction, or like zero; at categorical splits it goes right."""
        return np.where(self.missing_type > 0, self.default_left, self.zero_left) & ~self.is_categorical

    @property
    def dense_threshold(self) -> NDArray[np.float64]:
        """Thresholds for the original values, equivalent to LightGBM's, which apply after tiny values become 0."""
        is_tiny = (self.threshold >= -_ZERO) & (self.threshold < _ZERO)
        return np.where(is_tiny, np.where(self.zero_left, _ZERO, _BELOW_ZERO), self.threshold)


def _make_reference(booster: lightgbm.Booster, text: _ModelText) -> ReferencePredictor:
    """LightGBM's own raw scores, which are sums even for a random forest, and leaves."""
    return ReferencePredictor(
        "LightGBM",
        lightgbm.__version__,
        add_values=lambda _trees, values: (
            np.asarray(booster.predict(values, raw_score=True, num_threads=1)) / text.n_averaged
        ),
        find_leaves=lambda _trees, values: np.asarray(booster.predict(values, pred_leaf=True, num_threads=1)),
    )


def _read_trees(text: _ModelText) -> tuple[TreeEnsemble, _Splits]:
    """Read all trees: inner nodes in LightGBM's order, then leaves."""
    n_leaves = text.numbers("num_leaves")
    n_inner, n_nodes = n_leaves - 1, 2 * n_leaves - 1
    offset = np.concatenate([[0], np.cumsum(n_nodes)])
    place = np.arange(offset[-1]) - np.repeat(offset[:-1], n_nodes)
    is_leaf = place >= np.repeat(n_inner, n_nodes)
    inner = np.flatnonzero(~is_leaf)
    splits = _Splits.read(text)

    def put(at_inner: Any, at_leaves: Any, dtype: Any) -> NDArray[Any]:
        filled = np.empty(offset[-1], dtype=dtype)
        filled[~is_leaf], filled[is_leaf] = at_inner, at_leaves
        return filled

    def find_children(key: str) -> NDArray[Any]:
        # LightGBM stores leaf k as ~k.
        child = text.numbers(key)
        within = np.where(child >= 0, child, np.repeat(n_inner, n_inner) + ~child)
        return put(np.repeat(offset[:-1], n_inner) + within, -1, np.int64)

    weight = put(text.numbers("internal_count"), text.numbers("leaf_count"), np.float64)
    # A random forest stores no count for a single-leaf tree; use that of the other trees.
    roots = weight[offset[:-1]]
    weight[offset[:-1]] = np.where(roots > 0, roots, max(roots.max(), 1.0))
    ensemble = TreeEnsemble(
        feature=put(splits.feature, -1, np.int64),
        threshold=put(splits.dense_threshold, 0.0, np.float64),
        left=find_children("left_child"),
        right=find_children("right_child"),
        missing_left=put(splits.missing_left, False, np.bool_),
        weight=weight,
        value=put(0.0, text.numbers("leaf_value", np.float64) / text.n_averaged, np.float64)[:, np.newaxis],
        offset=offset,
        root_impurity=np.full(len(n_leaves), np.nan),
        n_features=len(text.names),
        kind=TargetKind(),
        statistic="leaf",
        x_dtype="float64",
        categories=_read_categories(text, splits, inner, np.repeat(np.arange(len(n_leaves)), n_inner), len(is_leaf)),
        column=np.arange(len(n_leaves), dtype=np.int32) % text.n_scores,
        is_additive=True,
    )
    return ensemble, splits


def _read_categories(
    text: _ModelText, splits: _Splits, inner: NDArray[Any], tree_of: NDArray[Any], n_nodes: int
) -> Categories | None:
    if not splits.is_categorical.any():
        return None
    n_sets = text.numbers("num_cat")
    first_set = np.cumsum(n_sets) - n_sets
    node_set = np.full(n_nodes, -1)
    # The threshold of a categorical split is the index of its set within the tree.
    chosen = splits.is_categorical
    node_set[inner[chosen]] = first_set[tree_of[chosen]] + splits.threshold[chosen].astype(np.int64)
    sizes = [np.diff(np.array(bounds.split(), dtype=np.int64)) for bounds in text.trees["cat_boundaries"]]
    return Categories(node_set, np.cumsum([0, *np.concatenate(sizes)]), text.numbers("cat_threshold"))


def _make_input_spec(name: str, text: _ModelText, splits: _Splits, known: Sequence[Sequence[Any]]) -> InputSpec:
    """The table the model takes; `known` holds the categories of each categorical column of the training frame."""
    is_zero_missing = (splits.missing_type == _ZERO_IS_MISSING) & ~splits.is_categorical
    zero_columns = np.unique(splits.feature[is_zero_missing])
    category_columns = np.unique(splits.feature[splits.is_categorical])
    _check_columns(name, text, splits, zero_columns, category_columns)
    names = text.names
    has_names = names != [f"Column_{j}" for j in range(len(names))]  # LightGBM's default names
    spec = InputSpec(
        name,
        len(names),
        np.array(names) if has_names else None,
        spell=lambda column: column.replace(" ", "_"),  # as LightGBM does
        dtype="float64",
        takes_infinite=True,
        sparse_fill=np.nan if len(zero_columns) else 0.0,
    )
    other_columns = np.setdiff1d(np.arange(len(names)), zero_columns)
    all_are_zero = bool(np.isin(splits.feature, zero_columns).all())

    def encode(X: Any) -> Any:
        if isinstance(X, pd.DataFrame):
            X = _encode_categories(X, known, name)
        elif isinstance(X, np.ndarray) and X.dtype.kind in "iu":
            X = X.astype(np.float32)  # as LightGBM converts integer arrays
        is_dense = isinstance(X, np.ndarray | list | pd.DataFrame) or getattr(X, "format", None) == "csc"
        is_dense = is_dense or is_on_device(X)
        if is_dense and not len(zero_columns) and not len(category_columns):
            return X
        if sparse.issparse(X) and len(zero_columns) and not all_are_zero:
            X = X.toarray()  # implicit zeros are missing in some columns only
        values = read_features(X, replace(spec, names=None)).values
        if not is_dense:
            # LightGBM keeps tiny values of sparse rows and Arrow tables, but these thresholds are for dense rows.
            values = _replace_values(values, other_columns, lambda x: x == -_ZERO, _BELOW_ZERO)
        values = _replace_values(values, zero_columns, lambda x: np.abs(x) <= _ZERO, np.nan)
        # LightGBM truncates categories toward zero.
        return _replace_values(values, category_columns, lambda x: (x > -1) & (x < 0), 0.0)

    has_plain_columns = not len(zero_columns) and not len(category_columns)
    return replace(spec, encode=encode, takes_device=has_plain_columns)


def _check_columns(
    name: str, text: _ModelText, splits: _Splits, zero_columns: NDArray[Any], category_columns: NDArray[Any]
) -> None:
    """Raise an error if continued training changed how a column is read, so that no single encoding fits."""
    is_numeric, threshold = ~splits.is_categorical, splits.threshold
    # In columns where zero means missing, other splits must send zero, tiny values and NaN the same way.
    agrees = (splits.missing_type == _ZERO_IS_MISSING) | (
        ((threshold < -_ZERO) | (threshold >= _ZERO)) & (splits.missing_left == splits.zero_left)
    )
    is_mixed = np.isin(splits.feature, zero_columns) & ~(is_numeric & agrees)
    is_mixed |= np.isin(splits.feature, category_columns) & is_numeric
    if is_mixed.any():
        column = text.names[splits.feature[is_mixed][0]]
        raise ValueError(
            f"{name} was trained further with a different zero_as_missing or categorical_feature, so column "
            f"{quote(column)} is read in two ways, which truewood does not support; train it with the same settings "
            "throughout."
        )


def _encode_categories(X: pd.DataFrame, known: Sequence[Sequence[Any]], name: str) -> pd.DataFrame:
    """Replace categories by their codes in the model, NaN if unknown."""
    columns = [j for j, dtype in enumerate(X.dtypes) if isinstance(dtype, pd.CategoricalDtype)]
    if len(columns) != len(known):
        raise ValueError(f"X must have the {len(known)} categorical columns {name} was fit on, got {len(columns)}.")
    encoded = X.copy(deep=False)
    for j, categories in zip(columns, known, strict=True):
        codes = X.iloc[:, j].cat.set_categories(list(categories)).cat.codes.to_numpy(dtype=np.float64, copy=True)
        codes[codes < 0] = np.nan
        encoded.isetitem(j, codes)
    return encoded


def _replace_values(
    values: Any, columns: NDArray[Any], find: Callable[[NDArray[Any]], NDArray[np.bool_]], number: float
) -> Any:
    """Replace the values that `find` selects in some columns; copies the array if it changes, never in place."""
    if sparse.issparse(values):
        chosen = np.isin(values.indices, columns) & find(values.data)
        if chosen.any():
            values = values.copy()
            values.data[chosen] = number
        return values
    copied = values
    for j in columns:
        chosen = find(values[:, j])
        if chosen.any():
            copied = values.copy() if copied is values else copied
            copied[chosen, j] = number
    return copied


def _find_target_kind(model: Any, objective: Sequence[str], n_scores: int) -> TargetKind:
    if isinstance(model, lightgbm.LGBMClassifier):
        return TargetKind((np.asarray(model.classes_),))
    if objective and objective[0] in ("binary", "multiclass", "multiclassova"):
        return TargetKind((np.arange(max(n_scores, 2)),))
    return TargetKind()


def _find_loss(objective: Sequence[str], text: _ModelText, name: str) -> tuple[losses.Loss | None, str | None]:
    """The loss of the objective, or the reason that it is unknown."""
    if not objective:
        return (
            None,
            f"{name} was trained with a custom objective, so truewood does not know its loss",
        )
    if objective[0] in ("multiclass", "multiclassova"):
        return losses.softmax(text.n_scores), None
    if objective[0] not in _LOSSES:
        return (
            None,
            f"the objective {quote(objective[0])} of {name} is not a sum over rows of a loss that truewood knows",
        )
    make, parameter = _LOSSES[objective[0]]
    if parameter is not None and parameter not in text.parameters:
        return None, f"{name} does not store {quote(parameter)} of its objective {quote(objective[0])}"
    loss = make() if parameter is None else make(float(text.parameters[parameter]))
    return (_of_square_root(loss) if "sqrt" in objective else loss), None


def _of_square_root(loss: losses.Loss) -> losses.Loss:
    """Apply a loss to the signed square root of y, as reg_sqrt=True does."""
    return loss.after(lambda y: np.sign(y) * np.sqrt(np.abs(y)))


# Objective -> loss and the name of its parameter, if any.
_LOSSES: dict[str, tuple[Callable[..., losses.Loss], str | None]] = {
    "regression": (losses.squared_error, None),
    "regression_l1": (losses.absolute_error, None),
    "huber": (losses.huber, "alpha"),
    "fair": (losses.fair, "fair_c"),
    "poisson": (losses.poisson, None),
    "quantile": (losses.quantile, "alpha"),
    "mape": (losses.absolute_percentage_error, None),
    "gamma": (losses.gamma, None),
    "tweedie": (losses.tweedie, "tweedie_variance_power"),
    "binary": (losses.logistic, None),
    "cross_entropy": (losses.logistic, None),
    "cross_entropy_lambda": (losses.logistic, None),
}


def read_levels(booster: lightgbm.Booster) -> dict[str, Sequence[Any] | None] | None:
    """Read the levels of the categorical columns, by name; None if the Booster does not record which ones they are."""
    known = booster.pandas_categorical or []
    if not known:
        return {}
    text = _ModelText.parse([booster.model_to_string(num_iteration=1)])
    # A numeric column has a range, "[0:1]", and a categorical column a list, "0:1:2".
    infos = zip(text.names, text.header["feature_infos"].split(" "), strict=True)
    categorical = [name for name, info in infos if not info.startswith("[") and info != "none"]
    return dict(zip(categorical, known, strict=True)) if len(categorical) == len(known) else None
