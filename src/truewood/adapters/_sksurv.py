"""scikit-survival's RandomSurvivalForest and ExtraSurvivalTrees, scored by residuals of the node hazards.

Leaf values are the predicted risk: the cumulative hazard summed over event times. Scores do not use them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sksurv
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from sksurv.nonparametric import nelson_aalen_estimator
from sksurv.util import check_y_survival

from truewood._inputs import losses
from truewood._inputs.target import TargetKind
from truewood._sklearn_compat import count_training_rows, draw_bag
from truewood._trees.ensemble import TreeEnsemble
from truewood.adapters._sklearn_bags import record_forest
from truewood.adapters._sklearn_trees import WHY_NO_BAGS, count_nodes, join_structure, make_input_spec
from truewood.adapters._tree_model import ReferencePredictor, TargetSpec, TreeModel, TreeReader

# Relative tolerance for hazards from the same rows.
_SAME_HAZARD = 1e-6


def open_model(model: Any) -> TreeModel:
    """Read a fitted survival forest."""
    check_is_fitted(model)

    def read(chosen: range) -> TreeEnsemble:
        inner = [model.estimators_[t].tree_ for t in chosen]
        structure = join_structure(inner)
        return TreeEnsemble(
            **structure,
            value=np.concatenate([_read_risk(model, tree) for tree in inner])[:, np.newaxis],
            root_impurity=np.full(len(chosen), np.nan),
            n_features=model.n_features_in_,
            kind=TargetKind(),
            statistic="leaf",
        )

    return TreeModel(
        table=make_input_spec(model, model.estimators_),
        target=TargetSpec(TargetKind((), 2), loss=losses.cox(), read_y=lambda y: _read_y(model, y)),
        reader=TreeReader(
            count_nodes(model.estimators_),
            read,
            library=ReferencePredictor(
                "scikit-survival",
                sksurv.__version__,
                add_values=lambda chosen, values: np.sum(
                    [model.estimators_[t].predict(values, check_input=False) for t in chosen], axis=0
                ),
                find_leaves=lambda chosen, values: np.column_stack(
                    [model.estimators_[t].tree_.apply(values) for t in chosen]
                ),
            ),
        ),
        training=record_forest(model),
        why_no_bags=f"{WHY_NO_BAGS}; fit it again with bootstrap=True",
        why_no_heldout="does not store life tables at its nodes",
    )


def _read_risk(model: Any, tree: Any) -> NDArray[np.float64]:
    """Predicted risk at each node, shape (n_nodes,)."""
    hazard: NDArray[np.float64] = tree.value[:, :, 0]
    risk: NDArray[np.float64] = hazard[:, 0] if model.low_memory else hazard[:, model.is_event_time_].sum(axis=1)
    return risk


def read_survival(y: Any) -> NDArray[np.float64]:
    """Convert scikit-survival's structured array (event, time) to columns time and event."""
    event, time = check_y_survival(y, allow_all_censored=True)
    return np.column_stack([time, event]).astype(np.float64)


def _read_y(model: Any, y: Any) -> NDArray[np.float64]:
    """Read y, and check training data against the hazard stored at the first root."""
    numbers = read_survival(y)
    if model.bootstrap and len(numbers) == count_training_rows(model) and not _is_training_y(model, numbers):
        raise ValueError(
            "rows='oob' needs the y this forest was fit on, in the same order, but this y does not reproduce the "
            "hazard stored in the first tree."
        )
    return numbers


def _is_training_y(model: Any, y: NDArray[np.float64]) -> bool:
    """Whether the first tree's bag reproduces the cumulative hazard stored at its root."""
    inner, bag = model.estimators_[0].tree_, y[draw_bag(model, 0)]
    if inner.weighted_n_node_samples[0] != len(bag):
        return True  # the hazard is weighted, and the weights are not available here
    times, hazard = nelson_aalen_estimator(bag[:, 1].astype(np.bool_), bag[:, 0])
    expected = np.append(0.0, hazard)[np.searchsorted(times, model.unique_times_, side="right")]
    stored = inner.value[0, :, 0]
    if model.low_memory:
        expected = expected[model.is_event_time_].sum()
    return bool(np.allclose(stored, expected, rtol=_SAME_HAZARD))
