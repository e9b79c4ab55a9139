"""Checks of the evaluation rows: copies, synthetic rows, early stopping, and classes with too few rows."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from truewood._inputs.target import ClassTarget
from truewood._rows.bag_weights import find_class_shortage
from truewood._rows.synthetic_rows import SYNTHETIC_ROWS, has_synthetic_rows
from truewood._scoring.influence import weigh_in_bag
from truewood._scoring.inputs import ScoringInputs
from truewood._scoring.results import STOPPED_EARLY

# Trees whose evaluation rows are counted by class.
_N_COUNTED = 100


def describe_rows(inputs: ScoringInputs, *, may_have_stopped: bool) -> Iterable[str]:
    """Sentences about copies, and about early stopping if held-out rows may have stopped the fit."""
    if inputs.copies is not None:
        yield inputs.copies.describe(are_training=inputs.evaluation_rows.are_training)
    if may_have_stopped and inputs.tree_model.is_stopped_early and not inputs.evaluation_rows.are_training:
        yield STOPPED_EARLY


def find_synthetic_rows(inputs: ScoringInputs) -> str | None:
    """Why scores may be misleading, if evaluation rows were computed from in-bag rows."""
    if not inputs.evaluation_rows.are_training:
        return None
    return SYNTHETIC_ROWS if has_synthetic_rows(inputs.data.matrix, inputs.data.target) else None


def find_shortage(inputs: ScoringInputs) -> str | None:
    """Why errors are unavailable, if bags leave out too few rows of a class to evaluate trees on it."""
    evaluation_rows, target, n_rows = inputs.evaluation_rows, inputs.data.target, inputs.data.n_rows
    n_trees = inputs.tree_model.n_trees
    if not isinstance(target, ClassTarget):
        return None
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
