"""`ScoringInputs`: model, rows and target, read from the caller's arguments and validated; and checks of the rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._arguments import check_n_rows
from truewood._engines.selection import get_engine
from truewood._formatting import quote
from truewood._inputs.groups import read_groups
from truewood._inputs.tables import RowData, read_features
from truewood._inputs.target import (
    ClassTarget,
    NumberTarget,
    Target,
    center_target,
    encode_target,
    make_loss_target,
    read_sample_weight,
    read_target,
)
from truewood._rows.bag_weights import find_class_shortage, find_weight_shortage, weigh_by_probability
from truewood._rows.copies import Copies, find_copies
from truewood._rows.dependent_rows import SYNTHETIC_ROWS, has_synthetic_rows
from truewood._rows.evaluation_rows import (
    EvaluationRows,
    check_group_bags,
    choose_evaluation_rows,
    leave_out_copies,
)
from truewood.adapters import TreeModel, WeightedDraws
from truewood.adapters._verification import verify_against_library

Floats = NDArray[np.float64]

_STOPPED_EARLY = (
    "The model's number of trees was chosen on validation rows (early stopping). If they are the rows passed here, "
    "p-values are too small; pass rows that were used neither for training nor for early stopping."
)
# Few rows determine the target's variance if they are fewer than this, and a smaller share of all rows; with fewer than
# the second number, tests are conservative even after the correction for skewness.
_FEW_INFORMATIVE, _FEWEST_INFORMATIVE = 100, 30
_SMALL_SHARE = 0.1
# Trees whose evaluation rows are counted by class.
_N_COUNTED = 100


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
    row_weight: Floats | None = None
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
    matrix = read_features(X, tree_model.table, n_threads, on_device=get_engine().reads_device_rows)
    verify_against_library(tree_model, matrix)
    weight = read_sample_weight(sample_weight, matrix.n_rows)
    y = y if tree_model.target.read_y is None or target is not None else tree_model.target.read_y(y)
    data = RowData(matrix, _find_target(y, target, tree_model, weight, matrix.n_rows, n_threads), weight)
    groups = read_groups(groups, matrix.n_rows)
    evaluation_rows = choose_evaluation_rows(rows, tree_model, data, n_threads, check_heldout=check_heldout)
    if groups is not None:
        check_group_bags(groups, evaluation_rows, tree_model)
    copies = find_copies(matrix, n_threads) if check_rows else None
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


def _find_target(y: Any, own: Any, tree_model: TreeModel, weight: Floats | None, n_rows: int, n_threads: int) -> Target:
    """The target of the trees: y itself, the target that the loss derives from y, or the caller's own."""
    spec = tree_model.target
    check_target(own, tree_model, "a number per row or a function that computes it from y")
    if own is not None:
        given: Target = read_target(own, y, spec.n_scores)
    else:
        origin = np.zeros(spec.kind.n_columns)
        if spec.is_y and not spec.kind.is_classification:
            origin = tree_model.read(range(1)).value[0].copy()  # a typical y: the mean at the first root
        given = encode_target(y, spec.kind, origin, n_threads)
    check_n_rows(given.n_rows, n_rows, "y" if own is None else "target")
    if own is not None and isinstance(given, NumberTarget):
        return center_target(given, weight)
    return given if spec.loss is None else make_loss_target(given, spec.loss, weight, spec.n_scores)


def check_target(own: Any, tree_model: TreeModel, expected: str) -> None:
    """Refuse a target for trees that are scored against y, and a missing one if the loss yields none."""
    if own is not None and not tree_model.is_additive:
        raise ValueError(
            f"target is for boosted trees, got {tree_model.name}, which is scored against y; pass the target as y."
        )
    if own is None and tree_model.target.why_no_loss is not None:
        raise ValueError(f"{tree_model.target.why_no_loss}; pass target=, {expected}.")


def refuse_heldout(tree_model: TreeModel, where: str = "") -> None:
    """Refuse held-out rows for a model that does not store the node means they need; `where` ends the remedy."""
    if tree_model.why_no_heldout is not None:
        raise ValueError(
            f"rows must be 'oob' for {tree_model.name}, which {tree_model.why_no_heldout}; pass its training data"
            f"{where}."
        )


def check_training_rows(inputs: ScoringInputs, measure: str) -> None:
    """Raise an error for trees not fit to y, unknown splits, and rows other than the training data."""
    tree_model, needs = inputs.tree_model, f"measure={measure!r} needs"
    if tree_model.finds_leaves or not tree_model.target.is_y:
        raise ValueError(
            f"{needs} trees that were fit to y and whose splits are known, got {tree_model.name}; use another measure."
        )
    if not inputs.evaluation_rows.are_training or tree_model.training is None:
        raise ValueError(
            f"{needs} the training data, because it uses the in-bag rows of each tree, got other rows with "
            f"rows={quote(inputs.evaluation_rows.name)}; pass X and y of the fit and rows='oob'."
        )
    if not tree_model.training.has_weights:
        raise ValueError(
            f"{needs} the weights of rows in the fit, which {tree_model.name} does not record; use another measure."
        )


def weigh_evaluation(inputs: ScoringInputs, rows: NDArray[np.int64]) -> Floats:
    """Weight of each row in the evaluation of a tree, 0 for other rows, given the evaluation rows."""
    n_rows, weight = inputs.data.n_rows, inputs.row_weight
    if weight is None:
        return get_engine().count_rows(rows, n_rows)
    return np.bincount(rows, weights=weight[rows], minlength=n_rows).astype(np.float64, copy=False)


def weigh_in_bag(inputs: ScoringInputs, tree: int) -> Floats:
    """Weight of each row in the fit of a tree, 0 for rows that are not in bag."""
    training = inputs.tree_model.training
    if training is None:
        return np.zeros(inputs.data.n_rows)
    return training.list_splitting_rows(tree, inputs.data.target, inputs.data.weight).weight


def describe_rows(inputs: ScoringInputs, *, may_have_stopped: bool) -> Iterable[str]:
    """Sentences about copies, and about early stopping."""
    if inputs.copies is not None:
        yield inputs.copies.describe(are_training=inputs.evaluation_rows.are_training)
    if may_have_stopped and not inputs.evaluation_rows.are_training:
        yield from describe_early_stopping(inputs.tree_model)


def describe_informative_rows(inputs: ScoringInputs) -> Iterable[str]:
    """A sentence if so few rows determine the target's variance that tests of out-of-bag scores are conservative."""
    n_informative = _count_informative(inputs)
    if n_informative < _FEWEST_INFORMATIVE and has_few_informative(inputs):
        yield (
            f"The target's variance comes from about {n_informative:.0f} of {inputs.data.n_rows:,} rows, so p-values "
            "are conservative: even useful features may not be significant."
        )


def has_few_informative(inputs: ScoringInputs) -> bool:
    """Whether few rows determine the target's variance, so that out-of-bag scores are strongly skewed."""
    return _count_informative(inputs) < min(_FEW_INFORMATIVE, _SMALL_SHARE * inputs.data.n_rows)


def _count_informative(inputs: ScoringInputs) -> float:
    """Number of rows that determine the target's variance if all count equally; infinite if tests do not use it.

    As many rows with the same distance from the mean, and the others at the mean, have the same ratio of squares.
    """
    if not inputs.evaluation_rows.are_training or inputs.compares_hazards or inputs.row_weight is not None:
        return np.inf
    squares, times = _measure_distances(inputs.data.target)
    if not squares.any():
        return np.inf
    squares = squares / squares.max()  # squares of tiny numbers would be zero
    return float((times * squares).sum() ** 2 / (times * squares**2).sum())


def _measure_distances(target: Target) -> tuple[Floats, Floats]:
    """Squared distances of the target, with classes one-hot, from its mean, and how many rows have each of them."""
    if isinstance(target, NumberTarget):
        return ((target.numbers - target.numbers.mean(axis=0)) ** 2).sum(axis=1), np.ones(1)
    n_rows, parts = target.n_rows, []
    for codes in target.codes.T:
        times = np.bincount(codes).astype(np.float64)
        share = times / n_rows
        parts.append((1.0 - 2.0 * share + (share**2).sum(), times))
    if len(parts) == 1:
        return parts[0]
    by_row = [squares[codes] for codes, (squares, _) in zip(target.codes.T, parts, strict=True)]
    return np.sum(by_row, axis=0), np.ones(1)


def describe_early_stopping(tree_model: TreeModel) -> Iterable[str]:
    """A sentence if held-out rows may have stopped the fit."""
    if tree_model.is_stopped_early:
        yield _STOPPED_EARLY


def find_invalid_rows(inputs: ScoringInputs, n_threads: int = 1, *, check_rows: bool = True) -> str | None:
    """Why errors are unavailable: synthetic rows, too few evaluation rows of a class, or too few that have weight."""
    evaluation_rows, target, n_rows = inputs.evaluation_rows, inputs.data.target, inputs.data.n_rows
    n_trees = inputs.tree_model.n_trees
    has_classes = inputs.tree_model.target.kind.is_classification and not inputs.has_own_target
    labels = target.codes if isinstance(target, ClassTarget) else target.numbers
    if check_rows and has_classes and has_synthetic_rows(inputs.data.matrix, labels[:, 0], n_threads):
        return SYNTHETIC_ROWS
    if not isinstance(target, ClassTarget):
        return None if inputs.draws is None else find_weight_shortage(inputs.draws)
    if evaluation_rows.copies is not None:
        trees = range(min(n_trees, _N_COUNTED))
        listed = np.concatenate([evaluation_rows.of_tree(tree) for tree in trees])
        in_bag = np.mean([weigh_in_bag(inputs, tree) > 0 for tree in trees], axis=0)
        return find_class_shortage(
            target, n_trees, np.bincount(listed, minlength=n_rows) / len(trees), inputs.draws, 1.0 - in_bag
        )
    if inputs.draws is None:
        return None
    return find_class_shortage(target, n_trees, inputs.draws.oob_probability, inputs.draws)
