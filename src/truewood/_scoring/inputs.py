"""`ScoringInputs`: model, rows and target, read from the caller's arguments and validated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._engines.selection import get_engine
from truewood._inputs.row_arrays import read_groups
from truewood._inputs.row_data import RowData
from truewood._inputs.tables import read_features
from truewood._inputs.target import (
    Target,
    center_target,
    encode_target,
    make_loss_target,
    read_sample_weight,
    read_target,
)
from truewood._rows.bag_weights import weigh_by_probability
from truewood._rows.copies import Copies, find_copies
from truewood._rows.evaluation_rows import (
    EvaluationRows,
    check_group_bags,
    choose_evaluation_rows,
    leave_out_copies,
)
from truewood.adapters import TreeModel, WeightedDraws
from truewood.adapters._verification import verify_against_library


@dataclass(frozen=True, eq=False)
class ScoringInputs:
    """The model, the rows, and which rows evaluate which tree.

    Parameters
    ----------
    tree_model : TreeModel
        The model.
    data : RowData
        The rows.
    evaluation_rows : EvaluationRows
        Which of them evaluate which tree.
    row_weight : ndarray of shape (n_rows,), or None
        Weights of evaluation rows; None if every row counts once.
    draws : WeightedDraws or None
        How rows were drawn into bags, if that was by weight.
    groups : ndarray of int64, shape (n_rows,), or None
        The group of each row; None if rows are not grouped.
    copies : Copies or None
        Rows that are copies of each other; None if there are none.
    has_own_target : bool
        Whether the caller passed the target of the trees.
    caveat : str or None
        Why scores may be misleading.

    Attributes
    ----------
    compares_hazards : bool
        Whether the target is life tables, so that splits are scored by the hazards of their nodes.
    clusters : ndarray of int64, shape (n_rows,), or None
        Groups of rows that standard errors sum over: `groups`, or else copies; None if all rows are on their own.
    """

    tree_model: TreeModel
    data: RowData
    evaluation_rows: EvaluationRows
    row_weight: NDArray[np.float64] | None = None
    draws: WeightedDraws | None = None
    groups: NDArray[np.int64] | None = None
    copies: Copies | None = None
    has_own_target: bool = False
    caveat: str | None = None
    compares_hazards: bool = field(init=False)
    clusters: NDArray[np.int64] | None = field(init=False)

    def __post_init__(self) -> None:
        loss = self.tree_model.target.loss
        compares_hazards = loss is not None and loss.is_life_table and not self.has_own_target
        object.__setattr__(self, "compares_hazards", compares_hazards)
        copies = None if self.copies is None else self.copies.groups
        object.__setattr__(self, "clusters", copies if self.groups is None else self.groups)


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
    check_heldout: bool = True,
    check_rows: bool = True,
) -> ScoringInputs:
    """Read rows, target and weights as the model takes them, and choose the evaluation rows; see `importance`.

    `check_heldout` says whether to refuse held-out rows that look like the training data, `check_rows` whether to look
    for copies of rows.
    """
    matrix = read_features(X, tree_model.table, on_device=get_engine().reads_device_rows)
    verify_against_library(tree_model, matrix)
    weight = read_sample_weight(sample_weight, matrix.n_rows)
    y = y if tree_model.target.read_y is None or target is not None else tree_model.target.read_y(y)
    data = RowData(matrix, _find_target(y, target, tree_model, weight, matrix.n_rows), weight)
    groups = read_groups(groups, matrix.n_rows)
    evaluation_rows = choose_evaluation_rows(rows, tree_model, data, n_threads, check_heldout=check_heldout)
    if groups is not None:
        check_group_bags(groups, evaluation_rows, tree_model)
    copies = find_copies(matrix) if check_rows else None
    if copies is not None:
        evaluation_rows = leave_out_copies(evaluation_rows, copies, tree_model)
    draws = tree_model.training.draws if tree_model.training is not None and evaluation_rows.are_training else None
    return ScoringInputs(
        tree_model,
        data,
        evaluation_rows,
        weight if draws is None else weigh_by_probability(data, draws),
        draws,
        groups,
        copies,
        has_own_target=target is not None,
        caveat=None if tree_model.target.find_caveat is None else tree_model.target.find_caveat(matrix, y),
    )


def _find_target(y: Any, own: Any, tree_model: TreeModel, weight: NDArray[np.float64] | None, n_rows: int) -> Target:
    """The target of the trees: y itself, the target that the loss derives from y, or the caller's own."""
    spec = tree_model.target
    if own is not None:
        if not tree_model.is_additive:
            raise ValueError(
                f"target is for boosted trees, got {tree_model.name}, which is scored against y; pass the target as y."
            )
        given = read_target(own, y, spec.n_scores)
        _check_n_rows("target", given, n_rows)
        return center_target(given, weight)
    if spec.why_no_loss is not None:
        raise ValueError(f"{spec.why_no_loss}; pass target=, a number per row or a function that computes it from y.")
    origin = np.zeros(spec.kind.n_columns)
    if spec.is_y and not spec.kind.is_classification:
        origin = tree_model.read(range(1)).value[0].copy()  # a typical y: the mean at the first root
    encoded = encode_target(y, spec.kind, origin)
    _check_n_rows("y", encoded, n_rows)
    return encoded if spec.loss is None else make_loss_target(encoded, spec.loss, weight, spec.n_scores)


def _check_n_rows(name: str, target: Target, n_rows: int) -> None:
    if target.n_rows != n_rows:
        raise ValueError(f"X and {name} must have the same number of rows, got {n_rows} and {target.n_rows}.")
