"""econml's generalized random forests: RegressionForest, and CausalForest with one treatment.

Trees are grown on subsamples. An honest tree chooses its splits on one half of its subsample and estimates its values
on the other half. That half and the rows outside the subsample are therefore evaluation rows for the splits.
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

from truewood._formatting import shorten
from truewood._inputs.losses import Loss
from truewood._inputs.tables import FeatureMatrix, InputSpec
from truewood._inputs.target import Target, TargetKind
from truewood._trees.ensemble import TreeEnsemble
from truewood.adapters._training_record import InBagRows, TrainingRecord
from truewood.adapters._tree_model import ReferencePredictor, TargetSpec, TreeModel, TreeReader

# Relative tolerance for estimates from the same rows.
_SAME_EFFECT = 1e-6
# Probability of a warning if the treatment is randomized.
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
            why_no_missing=f"{name} does not support missing values",
            takes_device=not is_causal,  # _find_confounding needs host arrays
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
                # Values of a causal forest are effects, which are not used.
                add_values=None
                if is_causal
                else lambda trees, values: np.sum([model.estimators_[t].predict(values) for t in trees], axis=0),
                find_leaves=lambda trees, values: np.column_stack([inner[t].apply(values) for t in trees]),
            ),
        ),
        training=_record_training(model, draw_rows) if has_bags else None,
        why_no_bags="was fit with warm_start=True on different numbers of rows"
        + ("; fit it again without warm_start" if is_causal else ""),
        has_predictions=not is_causal,
        why_no_heldout="does not store the node means that effects are scored by" if is_causal else None,
    )


def _read_trees(model: Any, inner: list[Any], n_outputs: int, is_causal: bool) -> TreeEnsemble:
    offset = np.cumsum([0, *(tree.node_count for tree in inner)])
    left, right = (
        np.concatenate([getattr(tree, side) for tree in inner]) for side in ("children_left", "children_right")
    )
    start = np.repeat(offset[:-1], np.diff(offset))
    # The values of a causal tree are effects, which are not used.
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
        """Rows that determined the splits, and rows that determined the values; the same unless the tree is honest."""
        return [draw_rows()[tree][half] for half in trees[tree].get_train_test_split_inds()]

    def bag(tree: int) -> NDArray[Any]:
        fitted = trees[tree]
        # With this setting, the treatments of the other half also constrain the splits.
        uses_both_halves = fitted.min_var_leaf is not None and fitted.min_var_leaf_on_val
        rows: NDArray[Any] = draw_rows()[tree] if uses_both_halves else halves(tree)[0]
        return rows

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
    """Target: influence of each row on the effect, t (r - theta t) / mean of t^2.

    t and r are treatment and outcome, minus their means if the forest fits an intercept; theta is the overall effect.
    """

    def negative_gradient(y: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
        center = np.average(y, axis=0, weights=weight) if has_intercept else np.zeros(2)
        outcome, treatment = (y - center).T
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
    """Read y as outcome and treatment, and check training data against the effect stored at the first root."""
    try:
        numbers = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"y must be a table of numbers, outcome and treatment, got {type(y).__name__}: {shorten(str(error), 200)}"
        ) from error
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
    """Whether the rows that determined the first tree's values reproduce the effect stored at its root."""
    tree = model.estimators_[0]
    if tree.tree_.weighted_n_node_samples[0] != tree.tree_.n_node_samples[0]:
        return True  # the effect is weighted, and the weights are not available here
    outcome, treatment = y[subsample[tree.get_train_test_split_inds()[1]]].T
    columns = [treatment, np.ones(len(treatment))] if model.fit_intercept else [treatment]
    effects = np.linalg.lstsq(np.column_stack(columns), outcome, rcond=None)[0]
    stored = tree.tree_.full_value[0, :, 0]
    return bool(np.abs(effects - stored).max() <= _SAME_EFFECT * np.abs(stored).max())


def _find_confounding(matrix: FeatureMatrix, y: NDArray[np.float64]) -> str | None:
    """Warn if the treatment is correlated with a column, i.e. is neither randomized nor a residual.

    Only linear relations with single columns are detected, so the absence of a warning proves nothing.
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
