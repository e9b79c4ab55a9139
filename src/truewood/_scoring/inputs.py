"""`Job`: what is scored, read from the caller's arguments and checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._engines.selection import get_engine
from truewood._inputs.row_arrays import read_groups
from truewood._inputs.tables import read_features
from truewood._inputs.target import (
    Target,
    centre_target,
    encode_target,
    make_loss_target,
    read_sample_weight,
    read_target,
)
from truewood._rows.bag_weights import weigh_by_probability
from truewood._rows.evaluation_rows import EvaluationRows, check_group_bags, choose_rows
from truewood._rows.training_check import RowData
from truewood.adapters import TreeModel, WeightedDraws
from truewood.adapters._verification import verify_against_library


@dataclass(frozen=True, eq=False)
class ScoringInputs:
    """The model, the rows, and which rows score which tree.

    Parameters
    ----------
    view : TreeModel
        The model.
    data : RowData
        The rows.
    choice : EvaluationRows
        Which of them score which tree.
    row_weight : ndarray of shape (n_rows,), or None
        Weights of rows when they score; None where every row counts once.
    draws : WeightedDraws or None
        How the rows were drawn into bags, where that was by weight.
    groups : ndarray of int64, shape (n_rows,), or None
        The group of each row, where rows belong together.
    has_own_target : bool
        Whether the caller gave the numbers that trees are scored by.
    doubt : str or None
        Why scores may not mean what they seem to.
    """

    tree_model: TreeModel
    data: RowData
    evaluation_rows: EvaluationRows
    row_weight: NDArray[np.float64] | None = None
    draws: WeightedDraws | None = None
    groups: NDArray[np.int64] | None = None
    has_own_target: bool = False
    doubt: str | None = None

    @property
    def compares_hazards(self) -> bool:
        """Whether the target is life tables, so that splits are scored by the hazards of their nodes."""
        loss = self.tree_model.target.loss
        return loss is not None and loss.is_life_table and not self.has_own_target


def make_scoring_inputs(
    tree_model: TreeModel,
    X: Any,
    y: Any,
    *,
    rows: Any,
    sample_weight: Any = None,
    groups: Any = None,
    target: Any = None,
    n_threads: int = 1,
) -> ScoringInputs:
    """Read rows, target and weights as the model takes them, and choose the rows that score; see `importance`."""
    matrix = read_features(X, tree_model.table, on_device=get_engine().reads_device_rows)
    verify_against_library(tree_model, matrix)
    weight = read_sample_weight(sample_weight, matrix.n_rows)
    y = y if tree_model.target.read_y is None or target is not None else tree_model.target.read_y(y)
    data = RowData(matrix, _find_target(y, target, tree_model, weight, matrix.n_rows), weight)
    groups = read_groups(groups, matrix.n_rows)
    evaluation_rows = choose_rows(rows, tree_model, data, n_threads)
    if groups is not None:
        check_group_bags(groups, evaluation_rows, tree_model)
    doubt = None if tree_model.target.find_doubt is None else tree_model.target.find_doubt(matrix, y)
    draws = tree_model.training.draws if tree_model.training is not None and evaluation_rows.are_training else None
    row_weight = weight if draws is None else weigh_by_probability(data, draws)
    return ScoringInputs(
        tree_model,
        data,
        evaluation_rows,
        row_weight,
        draws,
        groups,
        has_own_target=target is not None,
        doubt=doubt,
    )


def _find_target(y: Any, own: Any, tree_model: TreeModel, weight: NDArray[np.float64] | None, n_rows: int) -> Target:
    """What the trees are scored by: y itself, what the loss makes of it, or the caller's own numbers."""
    form = tree_model.target
    if own is not None:
        if not tree_model.is_additive:
            raise ValueError(
                f"target is for boosted trees; {tree_model.name} is scored by y, so pass what you want as y."
            )
        given = read_target(own, y, form.n_scores)
        _check_rows("target", given, n_rows)
        return centre_target(given, weight)
    if form.why_no_loss is not None:
        raise ValueError(f"{form.why_no_loss}; pass target=, a number per row or a function that makes it of y.")
    origin = np.zeros(form.kind.n_columns) if form.kind.is_classification or not form.is_y else _find_origin(tree_model)
    encoded = encode_target(y, form.kind, origin)
    _check_rows("y", encoded, n_rows)
    return encoded if form.loss is None else make_loss_target(encoded, form.loss, weight, form.n_scores)


def _check_rows(name: str, target: Target, n_rows: int) -> None:
    if target.n_rows != n_rows:
        raise ValueError(f"X and {name} must have the same number of rows, got {n_rows} and {target.n_rows}.")


def _find_origin(tree_model: TreeModel) -> NDArray[np.float64]:
    """A typical target, known from the model alone: the mean at the first root."""
    root: NDArray[np.float64] = tree_model.read(range(1)).value[0].copy()
    return root
