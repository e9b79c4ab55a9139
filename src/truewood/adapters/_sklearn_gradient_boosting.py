"""scikit-learn's GradientBoosting and its subclasses, among them scikit-survival's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from truewood._inputs import losses
from truewood._inputs.tables import InputSpec
from truewood._inputs.target import TargetKind
from truewood._sklearn_compat import add_stages
from truewood._trees.ensemble import TreeEnsemble
from truewood.adapters._sklearn_categories import find_encoder
from truewood.adapters._sklearn_trees import count_nodes, join_structure
from truewood.adapters._tree_model import ReferencePredictor, TargetSpec, TreeModel, TreeReader

_SURVIVAL = ("coxph", "squared", "ipcwls")
_LOSSES: dict[str, Callable[[Any], losses.Loss]] = {
    "log_loss": lambda model: losses.logistic() if model.n_classes_ == 2 else losses.softmax(model.n_classes_),
    # Any function of y works; this one has the same sign.
    "exponential": lambda _model: losses.logistic(),
    "squared_error": lambda _model: losses.squared_error(),
    "absolute_error": lambda _model: losses.absolute_error(),
    "huber": lambda model: losses.huber_quantile(model.alpha),
    "quantile": lambda model: losses.quantile(model.alpha),
    "coxph": lambda _model: losses.cox(),
}


def open_model(model: Any) -> TreeModel:
    """Read a fitted GradientBoosting model."""
    check_is_fitted(model)
    n_stages, n_scores = model.estimators_.shape
    trees = model.estimators_.ravel()  # stage after stage
    # scikit-survival keeps the scale that dropout gave to each stage in a private attribute.
    rate = model.learning_rate * np.asarray(getattr(model, "_scale", np.ones(n_stages)))

    def read(chosen: range) -> TreeEnsemble:
        inner = [trees[t].tree_ for t in chosen]
        return TreeEnsemble(
            **join_structure(inner),
            # Leaves are updated after a tree is fit; inner nodes keep means of gradients, and are not read.
            value=np.concatenate(
                [rate[t // n_scores] * tree.value[:, 0] for t, tree in zip(chosen, inner, strict=True)]
            ),
            root_impurity=np.full(len(chosen), np.nan),
            n_features=model.n_features_in_,
            kind=TargetKind(),
            statistic="leaf",
            column=np.asarray(chosen) % n_scores,
            is_additive=True,
        )

    find_loss = _LOSSES.get(model.loss)
    name = type(model).__name__
    return TreeModel(
        table=InputSpec(
            name,
            model.n_features_in_,
            getattr(model, "feature_names_in_", None),
            why_no_missing=f"{name} does not support missing values",
            encode=find_encoder(model, trees),
        ),
        target=TargetSpec(
            _find_target_kind(model),
            loss=None if find_loss is None else find_loss(model),
            why_no_loss=f"truewood has no target for loss={model.loss!r} of {name}" if find_loss is None else None,
            n_scores=n_scores,
            read_y=_find_reader(model),
        ),
        reader=TreeReader(
            count_nodes(trees),
            read,
            is_additive=True,
            library=ReferencePredictor(
                "scikit-learn",
                sklearn.__version__,
                add_values=lambda _trees, values: add_stages(model, values),
                find_leaves=lambda chosen, values: np.column_stack([trees[t].tree_.apply(values) for t in chosen]),
            ),
        ),
        why_no_bags="fits each tree to the residuals of the trees before it, so there are no out-of-bag rows",
    )


def _find_target_kind(model: Any) -> TargetKind:
    if is_classifier(model):
        return TargetKind((np.asarray(model.classes_),))
    return TargetKind((), 2 if model.loss in _SURVIVAL else 1)


def _find_reader(model: Any) -> Callable[[Any], Any] | None:
    if model.loss not in _SURVIVAL:
        return None
    from truewood.adapters._sksurv import read_survival

    return read_survival
