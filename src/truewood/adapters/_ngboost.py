"""NGBoost's regressors and classifiers over decision trees, which predict the parameters of a distribution."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import ngboost
import numpy as np
from ngboost.distns.distn import ClassificationDistn
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.tree import BaseDecisionTree

from truewood._inputs.losses import Loss, OfConstant
from truewood._inputs.tables import InputSpec
from truewood._inputs.target import TargetKind
from truewood._trees.ensemble import TreeEnsemble
from truewood.adapters._sklearn_trees import count_nodes, find_missing_problem, join_structure
from truewood.adapters._tree_model import ReferencePredictor, TargetSpec, TreeModel, TreeReader


def open_model(model: Any) -> TreeModel:
    """Read a fitted NGBRegressor or NGBClassifier."""
    name = type(model).__name__
    if not model.base_models:
        raise NotFittedError(f"{name} has no trees; fit it first.")
    if isinstance(model, ngboost.NGBSurvival):
        raise ValueError(
            f"{name} is fit to censored times, for which its gradient depends on when rows were censored, so features "
            "that only affect censoring would look useful; use a survival forest or a boosted model with Cox loss."
        )
    trees = [tree for stage in model.base_models for tree in stage]
    other = next((tree for tree in trees if not isinstance(tree, BaseDecisionTree)), None)
    if other is not None:
        raise TypeError(f"{name} must be fit with decision trees as Base, got {type(other).__name__}.")
    if any(getattr(tree, "is_categorical_", None) is not None for tree in trees):
        raise ValueError(
            f"{name} has trees with categorical_features, which truewood does not read; encode the columns."
        )
    n_scores = model.Manifold.n_params
    features = [columns for columns in model.col_idxs for _ in range(n_scores)]
    # The raw scores are the parameters of the distribution, and each stage is subtracted from them.
    rate = [-model.learning_rate * scale for scale in model.scalings for _ in range(n_scores)]

    def read(chosen: range) -> TreeEnsemble:
        inner = [trees[t].tree_ for t in chosen]
        return TreeEnsemble(
            **join_structure(inner, [features[t] for t in chosen]),
            value=np.concatenate([rate[t] * tree.value[:, :, 0] for t, tree in zip(chosen, inner, strict=True)]),
            root_impurity=np.full(len(chosen), np.nan),
            n_features=model.n_features,
            kind=TargetKind(),
            statistic="leaf",
            column=np.asarray(chosen) % n_scores,
            is_additive=True,
        )

    return TreeModel(
        table=InputSpec(
            name,
            model.n_features,
            why_no_missing=find_missing_problem(model, trees[0]),
            takes_sparse_missing=False,
        ),
        target=TargetSpec(_find_target_kind(model), loss=_make_loss(model), n_scores=n_scores),
        reader=TreeReader(
            count_nodes(trees),
            read,
            is_additive=True,
            library=ReferencePredictor(
                "NGBoost",
                version("ngboost"),
                add_values=lambda _trees, values: model.pred_param(values),
                find_leaves=lambda chosen, values: np.column_stack(
                    [trees[t].apply(values[:, features[t]]) for t in chosen]
                ),
            ),
        ),
        why_no_bags="fits each stage to the gradient after the stages before it, so there are no out-of-bag rows",
        is_stopped_early=model.best_val_loss_itr is not None,
    )


def _find_target_kind(model: Any) -> TargetKind:
    n_params = model.Manifold.n_params
    if issubclass(model.Dist, ClassificationDistn):
        return TargetKind((np.arange(n_params + 1),))
    # A normal distribution of p outputs has p means and p (p + 1) / 2 further parameters.
    return TargetKind((), int((np.sqrt(9 + 8 * n_params) - 3) / 2) if model.multi_output else 1)


def _make_loss(model: Any) -> Loss:
    """The negative gradient of the scoring rule at the parameters that the model starts from.

    It is the plain gradient, not the natural one that the trees are fit to: the score of a split, the sum over
    parameters of gradient times change, is then the decrease of the loss to first order, whatever their units.
    """

    def make_target(y: NDArray[np.float64], params: NDArray[np.float64]) -> NDArray[np.float64]:
        outcome: Any = y if model.multi_output else y[:, 0]
        if issubclass(model.Dist, ClassificationDistn):
            outcome = outcome.astype(np.int64)
        with np.errstate(all="ignore"):
            target: NDArray[np.float64] = -model.Manifold(np.tile(params, (len(y), 1)).T).grad(outcome, natural=False)
        if not np.isfinite(target).all():
            raise ValueError(
                f"y must be a possible value of the distribution that {type(model).__name__} predicts; correct or drop "
                "rows with other values."
            )
        return target

    start = np.asarray(model.init_params, dtype=np.float64)
    return Loss(
        lambda y, _weight: make_target(y, start),
        of_constant=OfConstant(lambda _y, _weight: start, make_target),
    )
