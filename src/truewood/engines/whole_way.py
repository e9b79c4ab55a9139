"""The whole way of some trees in one call of the kernel: unseen rows, leaves, sums, scores and contributions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood.data.tables import FeatureMatrix
from truewood.data.target import Target, TargetKind
from truewood.engines.engine import engine_name
from truewood.trees.ensemble import TreeEnsemble
from truewood.trees.tree_in_place import TreeInPlace

Floats = NDArray[np.float64]

# The rows of each tree: None where every row scores every tree; seeds of bags and a number of draws; a bag for each
# tree; or for each tree the rows that score it, with the weights of all rows in both roles where these are asked for.
RowsOfTrees = (
    None
    | tuple[NDArray[np.uint32], int]
    | list[NDArray[np.int64]]
    | list[tuple[NDArray[np.int64], Floats | None, Floats | None]]
)


@dataclass(frozen=True)
class Rule:
    """How splits are scored.

    Parameters
    ----------
    formula : {"ufi", "ufi_centered", "mdi_oob"}
        The formula, by the name of the module in `truewood.formulas` that has it.
    skips : bool
        Whether a split counts only when both children hold unseen rows.
    scale : float
        The score of a perfect split in units of the impurity it removes.
    is_additive : bool
        Whether values of nodes add up to a raw score.
    """

    formula: str
    skips: bool
    scale: float
    is_additive: bool


@dataclass(frozen=True, eq=False)
class Contributed:
    """What single rows contribute, added to these arrays; rows are those from `first` on.

    With the engine "cuda" these may be arrays on the GPU.

    Parameters
    ----------
    phi, psi : ndarray of shape (n_rows, n_features)
        In the two roles of a row; psi is None where no row grew a tree.
    bags : ndarray of float32, shape (n_first, n_rows), or None
        Weights of rows in the bags of the first of the trees.
    first : int
        The first row.
    """

    phi: Any
    psi: Any
    bags: Any
    first: int


@dataclass(frozen=True, eq=False)
class WholeScores:
    """Scores, (n_trees, n_features, n_outputs), their magnitude, (n_trees, n_features), and numbers by tree."""

    scores: Floats
    mdi: Floats
    counted_mdi: Floats
    magnitude: Floats
    split_weight: Floats
    skipped_weight: Floats
    unseen_weight: Floats
    unseen_impurity: Floats


class BrokenTreeError(ValueError):
    """A tree that cannot be walked or scored; reading it tells why."""


def draw_bag(seed: int, n_draws: int, n_rows: int) -> NDArray[np.int64]:
    """The bag of a seed, as numpy's ``RandomState(seed).randint(0, n_rows, n_draws)`` draws it."""
    from truewood.engines import _kernel

    bag: NDArray[np.int64] = _kernel.draw_bag(seed, n_draws, n_rows)
    return bag


def score_whole(
    trees: TreeEnsemble | list[TreeInPlace],
    kind: TargetKind,
    matrix: FeatureMatrix,
    rows: RowsOfTrees,
    target: Target,
    row_weight: Floats | None,
    rule: Rule,
    tree_weight: Floats | None,
    contributed: Contributed | None,
    n_threads: int,
) -> WholeScores:
    """Score trees by the kernel, which has to be installed, or with the engine "cuda" on the GPU.

    Parameters
    ----------
    trees : TreeEnsemble or list of TreeInPlace
        The trees, with training means at their nodes.
    kind : TargetKind
        What they predict.
    matrix : FeatureMatrix
        All rows.
    rows : RowsOfTrees
        Which of them score each tree.
    target : ClassTarget or NumberTarget
        What they are scored by.
    row_weight : ndarray of shape (n_rows,), or None
        Weights of rows when they score.
    rule : Rule
        How splits are scored.
    tree_weight : ndarray of shape (n_trees,), or None
        How much each tree counts, for contributions.
    contributed : Contributed or None
        Where contributions of rows are added; None where they are not asked for.
    n_threads : int
        Number of threads.
    """
    from truewood.engines import _kernel
    from truewood.engines.native_engine import wrap_target, wrap_trees

    n_trees, column = (trees.n_trees, trees.column) if isinstance(trees, TreeEnsemble) else (len(trees), None)
    n_features = matrix.values.shape[1]
    shape, to = (n_trees, n_features, kind.n_outputs), contributed
    of_trees, of_features = partial(np.zeros, n_trees), partial(np.zeros, shape)
    found = WholeScores(
        scores=of_features(),
        mdi=of_features(),
        counted_mdi=of_features(),
        magnitude=np.zeros(shape[:2]),
        split_weight=of_trees(),
        skipped_weight=of_trees(),
        unseen_weight=of_trees(),
        unseen_impurity=of_trees(),
    )
    try:
        wrapped = (
            wrap_trees(trees) if isinstance(trees, TreeEnsemble) else _kernel.Forest.of_trees([t[:7] for t in trees])
        )
        if engine_name() == "cuda":
            from truewood.engines.cuda_way import score_on_device

            what = (trees, kind, matrix, rows, target, row_weight, rule, tree_weight, contributed, n_threads)
            score_on_device(wrapped, *what, found)
            return found
        _kernel.score(
            wrapped,
            matrix.parts,
            matrix.has_missing,
            matrix.n_rows,
            n_features,
            rows,
            wrap_target(kind, target, row_weight),
            target.origin,
            target.find_largest(kind.n_columns),
            column,
            tree_weight,
            rule.formula,
            rule.skips,
            rule.scale,
            rule.is_additive,
            n_threads,
            found.scores,
            found.mdi,
            found.counted_mdi,
            found.magnitude,
            found.split_weight,
            found.skipped_weight,
            found.unseen_weight,
            found.unseen_impurity,
            None if to is None else to.phi,
            None if to is None else to.psi,
            None if to is None else to.bags,
            0 if to is None else to.first,
        )
    except _kernel.BrokenTreeError as error:
        raise BrokenTreeError(str(error)) from error
    return found
