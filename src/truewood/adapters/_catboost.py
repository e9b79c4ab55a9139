"""CatBoost models, read from the JSON export: symmetric, depthwise and lossguide trees.

If a model has categorical features, CatBoost itself finds the leaves, because its splits compare hashes and statistics
of categories that only CatBoost computes. The thresholds of these splits in `to_ensemble` are meaningless. A split on a
statistic of one column is credited to that column; a split on a statistic of several columns is credited to a feature
named after them, such as "city & month".
"""

from __future__ import annotations

import json
from collections.abc import Callable
from threading import Lock
from typing import Any, NamedTuple

import catboost
import narwhals as nw
import numpy as np
import pandas as pd
from catboost import CatBoost, CatBoostError, Pool
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from truewood._inputs import losses
from truewood._inputs.losses import Loss
from truewood._inputs.tables import InputSpec
from truewood._inputs.target import LARGEST, TargetKind
from truewood._trees.ensemble import TreeEnsemble
from truewood._writing import temporary_folder
from truewood.adapters._catboost_trees import Columns, read_columns, read_split_table, read_trees
from truewood.adapters._tree_model import ReferencePredictor, TargetSpec, TreeModel, TreeReader

Options = dict[str, str]

# For two classes, every loss has the negative gradient of the logistic loss up to a factor. Likewise, a log link
# changes the negative gradient of the quantile loss only by a factor.
_LOSSES: dict[str, Callable[[Options, int], Loss]] = {
    "RMSE": lambda _options, _n: losses.squared_error(),
    "MultiRMSE": lambda _options, _n: losses.squared_error(),
    "MultiRMSEWithMissingValues": lambda _options, _n: losses.squared_error(),
    "MAE": lambda _options, _n: losses.absolute_error(),
    "MAPE": lambda _options, _n: losses.absolute_percentage_error(),
    "Quantile": lambda options, _n: losses.quantile(*_read_levels(options)),
    "MultiQuantile": lambda options, _n: losses.quantile(*_read_levels(options)),
    "LogLinQuantile": lambda options, _n: losses.quantile(*_read_levels(options)),
    "Expectile": lambda options, _n: losses.expectile(*_read_levels(options)),
    "Huber": lambda options, _n: losses.huber(float(options["delta"])),
    "LogCosh": lambda _options, _n: losses.log_cosh(),
    "Poisson": lambda _options, _n: losses.poisson(),
    "Tweedie": lambda options, _n: losses.tweedie(float(options["variance_power"])),
    "Logloss": lambda _options, _n: losses.logistic(),
    "Focal": lambda _options, _n: losses.logistic(),
    "CrossEntropy": lambda _options, _n: losses.logistic(),
    "MultiLogloss": lambda _options, _n: losses.logistic(),
    "MultiCrossEntropy": lambda _options, _n: losses.logistic(),
    "MultiClass": lambda _options, n_scores: losses.softmax(n_scores),
    "MultiClassOneVsAll": lambda _options, n_scores: losses.softmax(n_scores),
    "Cox": lambda _options, _n: losses.cox(),
    "SurvivalAft": lambda options, _n: losses.aft(
        options.get("dist", "Normal").lower(), float(options.get("scale", 1))
    ),
}
# Memory for the cached leaves of a batch of trees, and the number of leaves computed per call to CatBoost.
_RUN_BYTES = 1 << 27
_BLOCK_LEAVES = 1 << 23
_CLASS_LOSSES = ("Logloss", "Focal", "MultiClass", "MultiClassOneVsAll")
_SEVERAL_OUTPUTS = ("MultiRMSE", "MultiRMSEWithMissingValues", "MultiLogloss", "MultiCrossEntropy")
_GROUP_LOSSES = (
    "GroupQuantile",
    "LambdaMart",
    "PairLogit",
    "PairLogitPairwise",
    "QueryCrossEntropy",
    "QueryRMSE",
    "QuerySoftMax",
    "StochasticFilter",
    "StochasticRank",
    "YetiRank",
    "YetiRankPairwise",
)


def open_model(model: Any) -> TreeModel:
    """Read a fitted CatBoost model."""
    name = type(model).__name__
    if not model.is_fitted():
        raise NotFittedError(f"{name} is not fitted yet; call its fit first.")
    if model.get_text_feature_indices() or model.get_embedding_feature_indices():
        raise ValueError(
            f"{name} has text or embedding features, whose splits CatBoost does not export; fit it without them."
        )
    if not model.tree_count_:
        raise ValueError(f"{name} has no trees, so there are no splits to score; fit it with more iterations.")
    dump, finder = _export(model)
    columns = read_columns(dump["features_info"])
    table = read_split_table(dump["features_info"], columns)
    ensemble = read_trees(dump, table, name)
    n_scores = ensemble.kind.n_outputs
    options = _read_options(dump.get("model_info", {}))
    loss = options["loss_function"]["type"]
    make_loss = _LOSSES.get(loss)
    return TreeModel(
        table=_make_input_spec(name, columns, options),
        target=TargetSpec(
            _read_kind(model, dump, loss, n_scores),
            loss=None if make_loss is None else make_loss(options["loss_function"]["params"], n_scores),
            why_no_loss=None if make_loss is not None else _explain_no_loss(loss, name),
            n_scores=n_scores,
            read_y=_choose_reader(loss, options),
        ),
        reader=TreeReader.of_ensemble(
            ensemble,
            find_leaves=_make_finder(finder, ensemble) if columns.categorical else None,
            combined=table.combined,
            library=_make_reference(model),
        ),
        why_no_bags="does not record which rows its trees saw",
        is_stopped_early=model.get_best_iteration() == model.tree_count_ - 1,
    )


def _export(model: Any) -> tuple[dict[str, Any], Any]:
    """The model as JSON, and a model to find leaves with, which numbers them from left to right."""
    with temporary_folder() as folder:
        path = folder / "model.json"
        model.save_model(str(path), format="json")
        dump: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        # Nonsymmetric trees number leaves in the order of growth, which the export does not preserve.
        is_renumbered = "trees" in dump and model.get_cat_feature_indices()
        return dump, CatBoost().load_model(str(path), format="json") if is_renumbered else model


def _make_reference(model: Any) -> ReferencePredictor:
    """CatBoost's own raw scores and leaves."""

    def read(values: Any) -> Any:
        return values.pool if isinstance(values, _Rows) else values

    def add_values(_trees: range, values: Any) -> NDArray[np.float64]:
        raw = CatBoost.predict(model, read(values), prediction_type="RawFormulaVal", thread_count=1)
        raw = raw.reshape(len(raw), -1)
        # Declared classes that are absent from the training data have a raw score of minus infinity.
        present: NDArray[np.float64] = raw[:, (raw > -np.inf).all(axis=0)]
        return present

    return ReferencePredictor(
        "CatBoost",
        catboost.__version__,
        add_values=add_values,
        find_leaves=lambda _trees, values: model.calc_leaf_indexes(read(values), thread_count=1),
    )


def _read_levels(options: Options) -> list[float]:
    return [float(level) for level in options.get("alpha", "0.5").split(",")]


def _read_options(info: dict[str, Any]) -> dict[str, Any]:
    """Training options; for a sum of models only the loss, if all share it."""
    if "params" in info:
        options: dict[str, Any] = info["params"]
        return options
    loss = json.loads(info["loss_function"]) if "loss_function" in info else {"type": None, "params": {}}
    return {"loss_function": loss}


def _read_kind(model: Any, dump: dict[str, Any], loss: str | None, n_scores: int) -> TargetKind:
    """Kind of y, after conversion: survival times have two columns."""
    if loss in _CLASS_LOSSES:
        # Declared classes that are absent from the training data have no raw score.
        present = dump["model_info"]["class_params"]["class_to_label"]
        return TargetKind((np.asarray(model.classes_)[np.array(present, dtype=np.int64)],))
    if loss in ("Cox", "SurvivalAft"):
        return TargetKind((), 2)
    return TargetKind((), n_scores if loss in _SEVERAL_OUTPUTS else 1)


def _explain_no_loss(loss: str | None, name: str) -> str:
    if loss is None:
        return f"{name} does not record the loss it was fit with"
    if loss in _GROUP_LOSSES:
        return f"{loss}, the loss of {name}, compares the rows of a group, so no target can be computed from y alone"
    if loss.startswith("PythonUserDefined"):
        return f"{name} was fit with a custom loss, which truewood does not know"
    return f"truewood has no target for {loss}, the loss of {name}"


def _choose_reader(loss: str | None, options: dict[str, Any]) -> Callable[[Any], NDArray[Any]] | None:
    if loss == "Cox":
        return losses.read_signed_times
    if loss == "SurvivalAft":
        return _read_bounds
    border = options.get("data_processing_options", {}).get("target_border")
    if loss in _CLASS_LOSSES and border is not None:
        return lambda y: (np.asarray(y, dtype=np.float32) > np.float32(border)).astype(np.int64)
    return None


def _read_bounds(y: Any) -> NDArray[np.float64]:
    """Time bounds for CatBoost's SurvivalAft loss; -1 means unbounded."""
    bounds = np.asarray(y)
    if bounds.ndim != 2 or bounds.shape[1] != 2 or bounds.dtype.kind not in "iuf":
        raise ValueError(
            "y must be a lower and an upper bound of the time in each row, -1 for no bound, because the model has "
            "SurvivalAft loss, got "
            f"an array of {bounds.dtype}, shape {bounds.shape}."
        )
    # Targets must be finite, so LARGEST stands for infinity.
    return np.where(bounds == -1, [0.0, LARGEST], bounds)


def _make_input_spec(name: str, columns: Columns, options: dict[str, Any]) -> InputSpec:
    numbers = options.get("data_processing_options", {}).get("float_features_binarization", {})
    why_no_missing = f"{name} was fit with nan_mode='Forbidden'" if numbers.get("nan_mode") == "Forbidden" else None

    def encode(X: Any) -> _Rows:
        if nw.dependencies.is_polars_dataframe(X):
            # CatBoost's predict crashes the process on polars categorical columns.
            X = nw.from_native(X).with_columns(nw.selectors.categorical().cast(nw.String)).to_native()
        try:
            pool = Pool(X, cat_features=columns.categorical)
        except CatBoostError as error:
            raise ValueError(f"X must be a table that {name} accepts: {error}") from error
        if why_no_missing is not None and pd.isna(np.asarray(X, dtype=object)[:, columns.numeric]).any():
            raise ValueError(f"X must not contain NaN: {why_no_missing}; impute or drop the missing values.")
        return _Rows(pool)

    return InputSpec(
        name,
        len(columns.numeric) + len(columns.categorical),
        None if columns.names is None else np.array(columns.names),
        dtype=None if columns.categorical else "float32",
        why_no_missing=why_no_missing,
        takes_infinite=True,
        encode=encode if columns.categorical else None,
    )


class _Rows:
    """A CatBoost Pool that caches the leaves of its rows in the last batch of trees requested.

    Every call to CatBoost computes the statistics of all categories, so one tree costs as much as hundreds.
    """

    def __init__(self, pool: Any) -> None:
        self.shape: tuple[int, int] = pool.shape
        self.pool = pool
        self._run = range(0)
        self._leaves: NDArray[Any] = np.empty((0, self.shape[0]), dtype=np.uint8)
        self._lock = Lock()

    def slice(self, rows: NDArray[np.int64]) -> _Rows:
        """Select rows."""
        return _Rows(self.pool.slice(rows))

    def find_leaves(self, model: Any, trees: range, numbers: _LeafNumbers) -> NDArray[Any]:
        """Leaf of each row in each tree, as node numbers, shape (n_rows, n_trees)."""
        with self._lock:
            if trees.start < self._run.start or trees.stop > self._run.stop:
                n_fitting = _RUN_BYTES // (self.shape[0] * numbers.node.itemsize)
                self._run = range(trees.start, min(trees.start + max(len(trees), n_fitting), model.tree_count_))
                self._leaves = self._find_run(model, numbers)
            return self._leaves[trees.start - self._run.start : trees.stop - self._run.start].T

    def _find_run(self, model: Any, numbers: _LeafNumbers) -> NDArray[Any]:
        n_rows, run = self.shape[0], self._run
        leaves = np.empty((len(run), n_rows), dtype=numbers.node.dtype)
        for rows in np.array_split(np.arange(n_rows), n_rows * len(run) // _BLOCK_LEAVES + 1):
            found = model.calc_leaf_indexes(
                self.pool.slice(rows), ntree_start=run.start, ntree_end=run.stop, thread_count=1
            )
            leaves[:, rows[0] : rows[-1] + 1] = numbers.node[numbers.first[run.start : run.stop] + found].T
        return leaves


class _LeafNumbers(NamedTuple):
    """Node numbers of CatBoost's leaves: leaf k of tree t is node ``node[first[t] + k]`` of the tree."""

    node: NDArray[Any]
    first: NDArray[np.int64]


def _make_finder(model: Any, ensemble: TreeEnsemble) -> Callable[[range, _Rows], NDArray[Any]]:
    leaves = np.flatnonzero(ensemble.left < 0)
    first = np.searchsorted(leaves, ensemble.offset)
    node = leaves - np.repeat(ensemble.offset[:-1], np.diff(first))
    numbers = _LeafNumbers(node.astype(np.min_scalar_type(node.max())), first)
    return lambda trees, rows: rows.find_leaves(model, trees, numbers)
