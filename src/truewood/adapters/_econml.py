"""econml's generalized random forests: RegressionForest, and CausalForest of one treatment.

Trees are grown on subsamples. An honest tree chooses its splits by one half of its subsample and takes its values from
the other, which is therefore unseen by the splits, as are the rows outside the subsample.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import econml
import numpy as np
from econml.grf import CausalForest, RegressionForest
from numpy.typing import NDArray
from scipy import stats
from sklearn.utils.validation import check_is_fitted

from truewood._inputs.losses import Loss
from truewood._inputs.tables import FeatureMatrix, InputSpec
from truewood._inputs.target import Target, TargetKind
from truewood._trees.ensemble import TreeEnsemble
from truewood.adapters._training_record import InBagRows, TrainingRecord
from truewood.adapters._tree_model import ReferencePredictor, TargetSpec, TreeModel, TreeReader

# Relative difference up to which two estimates of the same rows are the same.
_SAME_EFFECT = 1e-6
# Chance that a treatment given at random is taken for one that goes with some column.
_FALSE_ALARM = 1e-3


def open_model(model: Any) -> TreeModel:
    """Read a fitted RegressionForest or CausalForest."""
    name = type(model).__name__
    if not isinstance(model, RegressionForest | CausalForest):
        raise TypeError(
            f"model must be RegressionForest or CausalForest, the econml forests that truewood can read, got {name}."
        )
    check_is_fitted(model)
    is_causal = isinstance(model, CausalForest)
    if is_causal and (model.n_relevant_outputs_ > 1 or model.n_y_ > 1):
        raise ValueError(
            f"{name} must be fit with one treatment and one outcome, got {model.n_relevant_outputs_} and {model.n_y_}."
        )
    n_outputs = 1 if is_causal else model.n_outputs_
    inner = [tree.tree_ for tree in model.estimators_]
    draw_rows = cache(model.get_subsample_inds)
    has_bags = len(set(model.n_samples_)) == 1
    return TreeModel(
        table=InputSpec(
            name,
            model.n_features_,
            dtype="float64",
            why_no_missing=f"{name} does not take missing values",
            takes_device=not is_causal,  # whose treatment is compared with the columns
        ),
        target=TargetSpec(
            TargetKind((), 2 if is_causal else n_outputs),
            loss=_effect(model.fit_intercept) if is_causal else None,
            read_y=(lambda y: _read_outcome(model, draw_rows, y)) if is_causal else None,
            find_caveat=_find_confounding if is_causal else None,
        ),
        reader=TreeReader(
            np.array([tree.node_count for tree in inner], dtype=np.int64),
            lambda trees: _read_trees(model, [inner[t] for t in trees], n_outputs, is_causal),
            library=ReferencePredictor(
                "econml",
                econml.__version__,
                # The values of a causal forest are effects, and are not read.
                add_values=None
                if is_causal
                else lambda trees, values: np.sum([model.estimators_[t].predict(values) for t in trees], axis=0),
                find_leaves=lambda trees, values: np.column_stack([inner[t].apply(values) for t in trees]),
            ),
        ),
        training=_record_training(model, draw_rows) if has_bags else None,
        why_no_bags="was fit with warm_start=True on different numbers of rows",
        has_predictions=not is_causal,
        why_no_heldout="has no node means of the outcome that effects are scored by: pass its training data"
        if is_causal
        else None,
    )


def _read_trees(model: Any, inner: list[Any], n_outputs: int, is_causal: bool) -> TreeEnsemble:
    offset = np.cumsum([0, *(tree.node_count for tree in inner)])
    left, right = (
        np.concatenate([getattr(tree, side) for tree in inner]) for side in ("children_left", "children_right")
    )
    start = np.repeat(offset[:-1], np.diff(offset))
    # Nodes of a causal tree hold effects.
    value = np.zeros((offset[-1], 1)) if is_causal else np.concatenate([tree.value[:, :, 0] for tree in inner])
    return TreeEnsemble(
        feature=np.concatenate([tree.feature for tree in inner]),
        threshold=np.concatenate([tree.threshold for tree in inner]),
        left=np.where(left < 0, -1, left + start),
        right=np.where(right < 0, -1, right + start),
        missing_left=np.zeros(offset[-1], dtype=np.bool_),
        weight=np.concatenate([tree.weighted_n_node_samples for tree in inner]),
        value=value,
        offset=offset,
        root_impurity=np.full(len(inner), np.nan),
        n_features=model.n_features_,
        kind=TargetKind((), n_outputs),
        statistic="leaf" if is_causal else "mean",
        x_dtype="float64",
    )


def _record_training(model: Any, draw_rows: Callable[[], list[NDArray[Any]]]) -> TrainingRecord:
    trees = model.estimators_

    def halves(tree: int) -> list[NDArray[Any]]:
        """Rows that chose the splits, and rows that gave the values; the same rows in a tree that is not honest."""
        return [draw_rows()[tree][half] for half in trees[tree].get_train_test_split_inds()]

    def bag(tree: int) -> NDArray[Any]:
        fitted = trees[tree]
        # Such a tree also asks the treatments of the other half whether a split may be made.
        is_asked = fitted.min_var_leaf is not None and fitted.min_var_leaf_on_val
        drawn: NDArray[Any] = draw_rows()[tree] if is_asked else halves(tree)[0]
        return drawn

    def weigh(rows: NDArray[Any], target: Target, sample_weight: NDArray[np.float64] | None) -> InBagRows:
        weight = np.zeros(target.n_rows)
        weight[rows] = 1.0 if sample_weight is None else sample_weight[rows]
        return InBagRows(np.flatnonzero(weight), weight)

    return TrainingRecord(
        n_rows=model.n_samples_[0],
        node_counts=lambda tree: trees[tree].tree_.n_node_samples,
        training_rows=lambda tree, target, weight: weigh(halves(tree)[1], target, weight),
        bag=bag,
        splitting_rows=(lambda tree, target, weight: weigh(halves(tree)[0], target, weight))
        if trees[0].honest_
        else None,
    )


def _effect(has_intercept: bool) -> Loss:
    """How much each row speaks for a larger effect than the overall one: t (r - theta t) / mean of t^2.

    t and r are treatment and outcome, less their means where the forest has an intercept; theta is the overall slope.
    """

    def negative_gradient(y: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
        centre = np.average(y, axis=0, weights=weight) if has_intercept else np.zeros(2)
        outcome, treatment = (y - centre).T
        variance = np.average(treatment**2, weights=weight)
        if not variance > 0:
            raise ValueError(
                "y must contain the outcome and then a treatment that varies, but its second column is constant."
            )
        theta = np.average(treatment * outcome, weights=weight) / variance
        gradient: NDArray[np.float64] = treatment * (outcome - theta * treatment) / variance
        return gradient[:, np.newaxis]

    return Loss(negative_gradient)


def _read_outcome(model: Any, draw_rows: Callable[[], list[NDArray[Any]]], y: Any) -> Any:
    """Read y as outcome and treatment, and refuse others than those of the fit: only the roots' effects can tell."""
    try:
        numbers = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must be a table of numbers, outcome and treatment, got {type(y).__name__}.") from error
    if numbers.ndim != 2 or numbers.shape[1] != 2:
        raise ValueError(
            f"y must be a table of two columns, outcome and treatment, for {type(model).__name__}, got shape "
            f"{numbers.shape}."
        )
    if set(model.n_samples_) == {len(numbers)} and not _is_training_outcome(model, draw_rows()[0], numbers):
        raise ValueError(
            "rows='oob' needs the y this forest was fit on, the outcome and then the treatment, in the same order, "
            "but this y does not reproduce the effect stored in the first tree."
        )
    return numbers


def _is_training_outcome(model: Any, subsample: NDArray[Any], y: NDArray[np.float64]) -> bool:
    """Whether the rows that gave the first tree its values have the overall effect of its root."""
    tree = model.estimators_[0]
    if tree.tree_.weighted_n_node_samples[0] != tree.tree_.n_node_samples[0]:
        return True  # weights, which are not known here, are in the effect
    outcome, treatment = y[subsample[tree.get_train_test_split_inds()[1]]].T
    columns = [treatment, np.ones(len(treatment))] if model.fit_intercept else [treatment]
    effects = np.linalg.lstsq(np.column_stack(columns), outcome, rcond=None)[0]
    stored = tree.tree_.full_value[0, :, 0]
    return bool(np.abs(effects - stored).max() <= _SAME_EFFECT * np.abs(stored).max())


def _find_confounding(matrix: FeatureMatrix, y: NDArray[np.float64]) -> str | None:
    """Warn of a treatment that is correlated with a column: neither assigned at random nor a residual.

    Only linear relations with single columns are found, so the absence of a warning proves nothing.
    """
    X, treatment = matrix.values - matrix.values.mean(axis=0), y[:, 1] - y[:, 1].mean()
    spread = np.sqrt((X**2).sum(axis=0) * (treatment**2).sum())
    correlation = np.divide(X.T @ treatment, spread, out=np.zeros(X.shape[1]), where=spread > 0)
    first = int(np.abs(correlation).argmax())
    limit = stats.norm.isf(_FALSE_ALARM / (2 * X.shape[1])) / np.sqrt(len(X))
    if abs(correlation[first]) <= limit:
        return None
    return (
        f"the treatment is correlated with column {str(matrix.names[first])!r} (correlation "
        f"{correlation[first]:.2f}), so a variable that affects both treatment and outcome may seem to modify the "
        "effect; fit on residuals of both, and pass these residuals."
    )
