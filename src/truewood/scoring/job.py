"""`Job`: what is scored, read from the caller's arguments and checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood.adapters import ModelView, WeightedDraws, check_agreement
from truewood.data.row_groups import read_row_groups
from truewood.data.tables import read_features
from truewood.data.target import (
    Target,
    centre_target,
    encode_target,
    make_loss_target,
    read_sample_weight,
    read_target,
)
from truewood.engines.engine import engine_name
from truewood.rows.bag_weights import weigh_by_probability
from truewood.rows.choice import RowChoice, choose_rows
from truewood.rows.group_bags import check_group_bags
from truewood.rows.row_data import RowData


@dataclass(frozen=True, eq=False)
class Job:
    """The model, the rows, and which rows score which tree.

    Parameters
    ----------
    view : ModelView
        The model.
    data : RowData
        The rows.
    choice : RowChoice
        Which of them score which tree.
    row_weight : ndarray of shape (n_rows,), or None
        Weights of rows when they score; None where every row counts once.
    draws : WeightedDraws or None
        How the rows were drawn into bags, where that was by weight.
    row_groups : ndarray of int64, shape (n_rows,), or None
        The group of each row, where rows belong together.
    has_own_target : bool
        Whether the caller gave the numbers that trees are scored by.
    doubt : str or None
        Why scores may not mean what they seem to.
    """

    view: ModelView
    data: RowData
    choice: RowChoice
    row_weight: NDArray[np.float64] | None = None
    draws: WeightedDraws | None = None
    row_groups: NDArray[np.int64] | None = None
    has_own_target: bool = False
    doubt: str | None = None

    @property
    def compares_hazards(self) -> bool:
        """Whether the target is life tables, so that splits are scored by the hazards of their nodes."""
        loss = self.view.target.loss
        return loss is not None and loss.is_life_table and not self.has_own_target


def make_job(
    view: ModelView,
    X: Any,
    y: Any,
    *,
    rows: Any,
    sample_weight: Any = None,
    row_groups: Any = None,
    target: Any = None,
    n_threads: int = 1,
) -> Job:
    """Read rows, target and weights as the model takes them, and choose the rows that score; see `importance`."""
    matrix = read_features(X, view.table, on_device=engine_name() == "cuda")
    check_agreement(view, matrix)
    weight = read_sample_weight(sample_weight, matrix.n_rows)
    y = y if view.target.read_y is None or target is not None else view.target.read_y(y)
    data = RowData(matrix, _find_target(y, target, view, weight, matrix.n_rows), weight)
    groups_of_rows = read_row_groups(row_groups, matrix.n_rows)
    choice = choose_rows(rows, view, data, n_threads)
    if groups_of_rows is not None:
        check_group_bags(groups_of_rows, choice, view)
    doubt = None if view.target.find_doubt is None else view.target.find_doubt(matrix, y)
    draws = view.training.draws if view.training is not None and choice.are_training else None
    row_weight = weight if draws is None else weigh_by_probability(data, draws)
    return Job(view, data, choice, row_weight, draws, groups_of_rows, has_own_target=target is not None, doubt=doubt)


def _find_target(y: Any, own: Any, view: ModelView, weight: NDArray[np.float64] | None, n_rows: int) -> Target:
    """What the trees are scored by: y itself, what the loss makes of it, or the caller's own numbers."""
    form = view.target
    if own is not None:
        if not view.is_additive:
            raise ValueError(f"target is for boosted trees; {view.name} is scored by y, so pass what you want as y.")
        given = read_target(own, y, form.n_scores)
        _check_rows("target", given, n_rows)
        return centre_target(given, weight)
    if form.why_no_loss is not None:
        raise ValueError(f"{form.why_no_loss}; pass target=, a number per row or a function that makes it of y.")
    origin = np.zeros(form.kind.n_columns) if form.kind.is_classification or not form.is_y else _find_origin(view)
    encoded = encode_target(y, form.kind, origin)
    _check_rows("y", encoded, n_rows)
    return encoded if form.loss is None else make_loss_target(encoded, form.loss, weight, form.n_scores)


def _check_rows(name: str, target: Target, n_rows: int) -> None:
    if target.n_rows != n_rows:
        raise ValueError(f"X and {name} must have the same number of rows, got {n_rows} and {target.n_rows}.")


def _find_origin(view: ModelView) -> NDArray[np.float64]:
    """A typical target, known from the model alone: the mean at the first root."""
    root: NDArray[np.float64] = view.read(range(1)).value[0].copy()
    return root
